"""Units and offsets of columns change nothing but the units of the results."""

import warnings

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.mixture.gaussians import COVARIANCE_TYPES

TOLERANCE = 1e-6
# Powers of two, so that units round no number: about 1e-8 to 1e8.
LARGEST = 26
SPREAD = (-LARGEST, 3, LARGEST)


def rows(rng):
    X = rng.normal(size=(150, 3))
    X[:60] += [6.0, 0.0, 3.0]
    X[60:110] += [0.0, 7.0, 0.0]
    return X, None


def lines(rng):
    X, labels = rng.normal(size=(150, 3)), rng.integers(2, size=150)
    y = np.where(labels, 2 + X @ [1.0, 0.0, 0.5], -2 - X @ [0.5, 1.0, 0.0])
    return X, y + 0.2 * rng.normal(size=150)


def hinges(rng):
    X = rng.normal(size=(150, 3))
    y = np.maximum(X @ [1.0, 0.0, 0.5], 0) + np.maximum(X @ [0.0, 1.0, -0.5], 0)
    return X, y + 0.05 * rng.normal(size=150)


# estimator, data, and whether units may differ between columns
FITS = {
    "SphericalMixture": (lambda: im.SphericalMixture(3, random_state=0), rows, False),
    **{
        name: (
            lambda name=name: im.GaussianMixture(3, covariance_type=name, random_state=0),
            rows,
            "spherical" not in name,
        )
        for name in COVARIANCE_TYPES
    },
    "SphericalMixtureDensity": (
        lambda: im.SphericalMixtureDensity(3, max_degree=6, random_state=0),
        rows,
        False,
    ),
    "SphericalMixtureClusterer": (
        lambda: im.SphericalMixtureClusterer(3, random_state=0),
        rows,
        False,
    ),
    "RegressionMixture": (lambda: im.RegressionMixture(2, random_state=0), lines, True),
    "RegressionMixtureDensity": (
        lambda: im.RegressionMixtureDensity(2, max_degree=6, random_state=0),
        lines,
        True,
    ),
    "ActivationSumRegressor": (
        # which says that it standardises columns, where the user does not
        lambda: im.ActivationSumRegressor("relu", n_components=2, whiten=True, random_state=0),
        hinges,
        True,
    ),
}


def answers(model, X, y, unit, center, log_unit):
    """Return what a model says of rows, in units of the labels, with density in those of rows."""
    # of digits that the offset takes a note says so
    found = {"notes": sorted(model.notes_.codes)}
    if hasattr(model, "score_samples") and y is None:
        found["densities"] = model.score_samples(X) + log_unit
    elif hasattr(model, "score_samples"):
        found["densities"] = model.score_samples(X, y) + log_unit + np.log(unit)
    if isinstance(model, im.RegressionMixture | im.ActivationSumRegressor):
        found["predictions"] = (model.predict(X) - center) / unit
    elif hasattr(model, "predict"):
        found["labels"] = model.predict(X)
    return found


@pytest.mark.parametrize(
    ("name", "offset"),
    [*((name, 1e8) for name in FITS), ("RegressionMixture", 0.0), ("ActivationSumRegressor", 0.0)],
)
def test_units_and_offsets_change_nothing_else(name, offset, rng):
    """Compared are fits of the same rows: those that the offset leaves of their digits.

    An offset of 1e8 deviations rounds rows to 1e-8 of a deviation.
    """
    make, data, own_units = FITS[name]
    X, y = data(rng)
    units = 2.0 ** np.array(SPREAD if own_units else SPREAD[:1] * 3)
    unit = 1.0 if y is None else 2.0**LARGEST
    shift, center = offset * units * X.std(axis=0) * [1.0, -1.0, 0.5], 0.0
    if y is not None and name != "ActivationSumRegressor":  # which has no intercept
        center = offset * unit * y.std()
    there = X * units + shift
    here = (there - shift) / units
    labels = None if y is None else (y * unit + center - center) / unit
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", im.AssumptionWarning)
        plain = make().fit(here, labels)
        model = make().fit(there, None if y is None else labels * unit + center)
    expected = answers(plain, here, labels, 1.0, 0.0, 0.0)
    moved = None if y is None else labels * unit + center
    of_rows = np.log(units).sum() if name != "RegressionMixture" else 0.0
    found = answers(model, there, moved, unit, center, of_rows)
    assert found.pop("notes") == expected.pop("notes")
    assert expected
    for what, values in expected.items():
        np.testing.assert_allclose(found[what], values, atol=TOLERANCE, rtol=TOLERANCE)


def test_a_column_in_other_units_changes_a_spherical_mixture(rng):
    """The control: where units are a part of the model, the comparison fails."""
    X, _ = rows(rng)
    units = np.array([1.0, 1.0, 8.0])
    plain, other = (im.SphericalMixture(3, random_state=0).fit(each) for each in (X, X * units))
    gap = plain.score(X) - other.score(X * units) - np.log(units).sum()
    assert abs(gap) > 0.1
