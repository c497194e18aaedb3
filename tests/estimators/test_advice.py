"""Advice of a note, followed once, lowers the criterion, and there is one piece of it at most."""

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.datasets import make_regression_mixture

ADVICE = {"not_round", "components_are_one", "component_missing"}


def lines():
    X, y, _ = make_regression_mixture(1_000, 2, 2, noise=0.3, random_state=0)
    return X, y


def flat():
    rng = np.random.default_rng(6)
    means = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    return (means[rng.integers(3, size=600)] + rng.normal(size=(600, 2)) * [2.0, 0.5],)


FITS = {
    "shape": (flat, im.SphericalMixture(3, random_state=0), "not_round"),
    "fewer": (
        flat,
        im.GaussianMixture(4, covariance_type="tied", random_state=0),
        "components_are_one",
    ),
    "fewer lines": (lines, im.RegressionMixture(3, random_state=0), "components_are_one"),
    "more lines": (lines, im.RegressionMixture(1, random_state=0), "component_missing"),
}


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
@pytest.mark.parametrize("name", FITS)
def test_advice_helps_when_it_is_followed(name):
    load, model, code = FITS[name]
    rows = load()
    (note,) = (note for note in model.fit(*rows).notes_ if note.code in ADVICE)
    assert note.code == code
    if "kind" in note.values:
        k, kind = model.n_components, note.values["kind"]
        other = im.GaussianMixture(k, covariance_type=kind, random_state=0)
    else:
        number = note.values.get("fewer", note.values.get("more", model.n_components + 1))
        other = type(model)(**model.get_params() | {"n_components": number})
    assert other.fit(*rows).bic(*rows) < model.bic(*rows)
    if name == "fewer lines":  # the two are parts of one line
        a, b = note.values["which"]
        distances = np.linalg.norm(model.coef_[a] - other.coef_, axis=1)
        nearest = other.coef_[distances.argmin()]
        assert np.linalg.norm(model.coef_[b] - nearest) < 0.3
