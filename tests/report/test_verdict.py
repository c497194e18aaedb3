"""The verdict: checks for and against a fit, by their codes."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

import implicitmoments as im
from implicitmoments.notes import Note, Notes
from implicitmoments.report import verdict_of, write_report
from support import refuses

DRAWN = [
    *("GaussianMixture", "SphericalMixture", "SphericalMixtureDensity"),
    *("RegressionMixture", "RegressionMixtureDensity"),
]


def changed(fitted, name, notes=(), **stats):
    """A fitted model with other statistics and notes."""
    model = copy.copy(fitted[name].model)
    model.stats_ = model.stats_ | stats
    model.notes_ = Notes(notes)
    return model


def checks(model):
    """Whether each check of a model passed, by its code."""
    return {check.code: check.passed for check in model._checks()}


def compared(model, X, y=None):
    """Whether samples of the model agree with the rows; None where they are not compared."""
    verdict = verdict_of(model, X, y)
    found = [c.passed for c in (*verdict.points, *verdict.passed) if c.code == "samples"]
    return found[0] if found else None


@pytest.mark.parametrize(
    ("scores", "most", "passed"),
    [
        ({4: 100.0, 5: 100.5, 3: 150.0}, 50, False),  # hardly distinguished
        ({4: 100.0, 5: 130.0, 3: 150.0}, 50, True),
        ({4: 100.0, 3: 150.0}, 4, False),  # at the largest number
        ({4: 100.0, 5: 90.0}, 50, False),
    ],
)
def test_how_clearly_bic_chose(fitted, scores, most, passed):
    model = changed(fitted, "SphericalMixture", bic_by_n_components=scores)
    model.max_components = most
    assert checks(model)["bic"] == passed


def test_clusters(fitted):
    name = "SphericalMixtureClusterer"
    good = dict.fromkeys(["misclassification", "pair_test"], True)
    assert checks(changed(fitted, name)) == good
    close = changed(fitted, name, misclassification_rate=0.2)
    assert checks(close).keys() == good.keys() - {"misclassification"}
    assert "pair_test" not in checks(changed(fitted, name, split_rate=0.3))
    assert checks(changed(fitted, name, within_variance=92.9)) == {}


@pytest.mark.parametrize("name", ["SphericalMixtureDensity", "RegressionMixtureDensity"])
def test_densities(fitted, name):
    assert checks(changed(fitted, name, distance=0.01))["distance"]
    assert not checks(changed(fitted, name, distance=0.09))["distance"]
    end = changed(fitted, name, distance=0.01, scores={2: -7.0, 4: -6.0})
    end.degree_ = end.max_degree = 4
    assert not checks(end)["degree"]


def test_what_predicts(fitted):
    name = "ActivationSumRegressor"
    assert checks(changed(fitted, name)) == {"prediction_error": True}
    assert checks(changed(fitted, name, hypothesis="polynomial")) == {}  # a note mentions it


@pytest.mark.parametrize("name", DRAWN)
def test_samples_of_right_models_agree(fitted, name):
    assert compared(*fitted[name])


def test_samples_of_wrong_models_do_not(fitted):
    model, X, y = fitted["RegressionMixture"]
    wide = copy.copy(model)
    wider = model._mixture.parameters | {"variances": 9 * model._mixture.parameters["variances"]}
    wide._mixture = replace(model._mixture, parameters=wider)
    assert not compared(wide, X, y)
    rng = np.random.default_rng(0)
    two = np.concatenate([rng.normal(-5, 1, (400, 1)), rng.normal(5, 1, (400, 1))])
    for model in (im.SphericalMixture(1).fit(two), im.SphericalMixtureDensity(1).fit(two)):
        assert compared(model, two) is False


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
def test_where_samples_are_not_compared(fitted, rng):
    X = rng.normal(size=(200, 2))
    for y in (2 * X[:, 0], np.ones(200)):  # without noise
        assert compared(im.RegressionMixture(1).fit(X, y), X, y) is None
    assert compared(im.SphericalMixture(1).fit(X[:20]), X[:20]) is None
    for name in ("ActivationSumRegressor", "SphericalMixtureClusterer"):
        assert compared(*fitted[name]) is None
    _, X, y = fitted["RegressionMixture"]
    weights = np.where(np.arange(len(X)) % 2, 3.0, 1.0)
    weighted = clone(fitted["RegressionMixture"].model).fit(X, y, sample_weight=weights)
    assert compared(weighted, X, y) is None


def test_a_density_that_cannot_be_sampled_has_a_page(fitted, tmp_path):
    model, X, _ = fitted["SphericalMixtureDensity"]
    model = copy.copy(model)
    model.acceptance_rate_ = 1e-12
    assert compared(model, X) is False
    with refuses("no_picture", name="SphericalMixtureDensity"):
        im.plot.fit(model, X)
    page = write_report(model, X, path=tmp_path / "r.html").read_text("utf-8")
    assert 'id="fit"' not in page


def test_nothing_supports_a_fit_whose_model_is_doubted(fitted):
    doubt = [Note("not_round", {"kind": "full", "gain": 9.0})]
    model = changed(fitted, "SphericalMixture", doubt, misclassification_rate=0.01)
    verdict = verdict_of(model, fitted["SphericalMixture"].X)
    assert verdict.points[0].code == "not_round"
    assert verdict.passed == []
