"""Every estimator refuses the same things in the same words, before it works."""

import numpy as np
import pytest
from sklearn.base import clone

import implicitmoments as im
from implicitmoments.datasets import (
    make_activation_sum,
    make_regression_mixture,
    make_spherical_mixture,
)
from implicitmoments.rows import Table
from support import refuses

SPHERES = make_spherical_mixture(1_500, 3, 4, radius=8.0, separation=8.0, random_state=0)[:1]
NEAR = make_spherical_mixture(1_500, 3, 4, radius=1.2, random_state=0)[:1]
LINES = make_regression_mixture(1_500, 2, 4, noise=0.5, random_state=0)[:2]
SUMS = make_activation_sum(1_500, 2, 4, noise=0.05, random_state=0)[:2]
CASES = {
    "SphericalMixture": (im.SphericalMixture(3, random_state=0), SPHERES),
    "SphericalMixtureDensity": (
        im.SphericalMixtureDensity(3, degree=2, random_state=0),
        NEAR,
    ),
    "SphericalMixtureClusterer": (im.SphericalMixtureClusterer(3, random_state=0), SPHERES),
    "RegressionMixture": (im.RegressionMixture(2, random_state=0), LINES),
    "RegressionMixtureDensity": (
        im.RegressionMixtureDensity(2, degree=2, random_state=0),
        LINES,
    ),
    "ActivationSumRegressor": (
        im.ActivationSumRegressor(n_components=2, random_state=0),
        SUMS,
    ),
}
pytestmark = pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")


@pytest.fixture(params=CASES)
def case(request):
    model, data = CASES[request.param]
    return clone(model), data


@pytest.mark.parametrize("size", [1e160, 1e200, 1e300])
def test_entries_whose_squares_overflow(case, size):
    model, (X, *y) = case
    huge = np.clip(X, -10, 10) * size
    with refuses("entries_too_large"):
        model.fit(huge, *y)


def test_lines_without_intercepts_and_large_labels():
    X, y = LINES
    with refuses("entries_too_large"):
        im.RegressionMixture(fit_intercept=False).fit(X * 1e200, y)
    for intercept in (True, False):
        with refuses("entries_too_large"):
            im.RegressionMixture(fit_intercept=intercept).fit(X, y * 1e200)


class Spoilt(Table):
    """Rows of which one holds NaN, where nobody looked."""

    n_rows, n_features = SPHERES[0].shape

    def blocks(self, size):
        x = SPHERES[0].copy()
        x[700, 1] = np.nan
        for start in range(0, len(x), size):
            yield {"x": x[start : start + size]}


def test_a_missing_entry_is_not_called_large():
    with refuses("not_finite"):
        im.rows.Whitening.of(Spoilt())


def found(model):
    """What a fit found, as numbers."""
    names = ("means_", "coef_", "center_", "directions_", "weights_", "noise_")
    return {name: np.asarray(getattr(model, name)) for name in names if hasattr(model, name)} | {
        "rows": model.stats_.get("rows_used", 0)
    }


def test_weights_with_a_mean_below_one_are_scaled_to_one(case):
    model, data = case
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(data[0]))
    weights[:100] = 0.0
    weights /= weights[weights > 0].mean()
    whole, part = (
        found(clone(model).fit(*data, sample_weight=w)) for w in (weights, weights / 64)
    )
    assert whole.keys() == part.keys()
    for name, value in whole.items():
        assert np.allclose(value, part[name], rtol=1e-6, atol=1e-9), name


def test_weights_above_one_count_rows():
    X, y = LINES
    ones, fours = (
        im.RegressionMixture(2, random_state=0).fit(X, y, sample_weight=np.full(len(X), w))
        for w in (1.0, 4.0)
    )
    assert np.allclose(ones.coef_errors_, 2 * fours.coef_errors_, rtol=1e-3)


def test_entries_that_are_no_numbers_are_named_by_column_and_row(case):
    pandas = pytest.importorskip("pandas")
    model, (X, *y) = case
    frame = pandas.DataFrame(X, columns=list("abcd"))
    text = frame.astype({"b": object})
    text.loc[7, "b"] = "red"
    array = X.astype(object)
    array[5, 2] = "?"
    grouped = frame.assign(d=pandas.Categorical(["u", "v"] * 750))
    dated = frame.assign(c=pandas.Timestamp("2020-01-01"))
    for given, column, row, cell in (
        (text, "b", 7, "red"),
        (array, "x2", 5, "?"),
        ([*X.astype(str).tolist()[:3], ["1", "2", "3", "red"]], "x3", 3, "red"),
        (grouped, "d", 0, "u"),
        (dated, "c", 0, pandas.Timestamp("2020-01-01")),
    ):
        labels = [each[: len(given)] if isinstance(given, list) else each for each in y]
        with refuses("cell_not_a_number", name="X", column=column, row=row, cell=cell):
            model.fit(given, *labels)
    for labels in y:
        words = labels.astype(object)
        words[9] = "high"
        with refuses("cell_not_a_number", name="y", row=9, cell="high"):
            model.fit(X, words)
