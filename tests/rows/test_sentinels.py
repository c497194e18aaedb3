import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.rows import Rows
from implicitmoments.rows.sentinels import find_sentinel, sentinel_notes


@pytest.mark.parametrize("value", [-999.0, 1e10])
def test_a_repeated_value_far_from_all_others_is_noted(value):
    X = np.random.default_rng(0).normal(size=(200, 3))
    X[::10, 1] = value
    (note,) = sentinel_notes(Rows.of(X), ["a", "b", "c"])
    assert (note.code, note.values["column"]) == ("value_stands_apart", "b")
    assert note.values["value"] == value
    assert note.values["share"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    "column",
    [
        np.random.default_rng(0).normal(size=500),
        np.random.default_rng(0).integers(2, size=500),
        np.random.default_rng(0).poisson(3.0, size=500),
        np.random.default_rng(0).lognormal(0.0, 1.5, size=500),
        np.r_[np.random.default_rng(0).normal(size=499), 1e6],  # once: an outlier
        np.r_[np.zeros(200), np.random.default_rng(0).uniform(2e4, 8e4, size=300)],
    ],
)
def test_other_columns_have_no_such_value(column):
    assert find_sentinel(np.asarray(column, dtype=float)) is None


@pytest.mark.parametrize("kind", [im.ActivationSumRegressor])
def test_fits_warn_of_a_sentinel(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.maximum(X @ [1.0, 0.5, -0.5], 0) + 0.1 * rng.normal(size=300)
    X[rng.uniform(size=300) < 0.1, 2] = -999.0
    with pytest.warns(im.AssumptionWarning):
        model = kind(n_components=2, random_state=0).fit(X, y)
    assert "value_stands_apart" in model.notes_.codes
