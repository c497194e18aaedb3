"""Whether rows look like draws from the model: the right one passes, and a wrong one does not."""

import copy
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import implicitmoments as im
from implicitmoments.notes import Notes
from implicitmoments.report import verdict_of, write_report
from support import refuses

DRAWN = [
    "GaussianMixture",
    "SphericalMixture",
    "SphericalMixtureDensity",
    "RegressionMixture",
    "RegressionMixtureDensity",
]


CHECKS = {
    "samples_agree": True,
    "samples_differ": False,
    "cannot_sample": False,
}


def facts(model, X, y=None):
    """Return the notes of checks against rows, by code."""
    model = copy.copy(model)
    model.notes_ = Notes()
    verdict = verdict_of(model, X, y)
    assert all(CHECKS.get(note.code, True) for note in verdict.in_favour)
    assert not any(CHECKS.get(note.code, False) for note in verdict.against)
    return {note.code: note for note in verdict.in_favour + verdict.against if note.code in CHECKS}


@pytest.mark.parametrize("name", DRAWN)
def test_right_models_agree(fitted, name):
    assert set(facts(*fitted[name])) == {"samples_agree"}


def test_wrong_models_do_not(fitted):
    model, X, y = fitted["RegressionMixture"]
    wide = copy.copy(model)
    wide.noise_ = 3 * wide.noise_
    assert "samples_differ" in facts(wide, X, y)
    rng = np.random.default_rng(0)
    two = np.concatenate([rng.normal(-5, 1, (400, 1)), rng.normal(5, 1, (400, 1))])
    for model in (im.SphericalMixture(1).fit(two), im.SphericalMixtureDensity(1).fit(two)):
        assert set(facts(model, two)) == {"samples_differ"}
        assert all(fact.supports for fact in model._evidence())  # the fit measured nothing


def test_without_noise_there_is_nothing_to_compare(rng):
    X = rng.normal(size=(200, 2))
    for y in (2 * X[:, 0], np.ones(200)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", im.AssumptionWarning)
            model = im.RegressionMixture(1).fit(X, y)
        assert facts(model, X, y) == {}
    few = im.SphericalMixture(1).fit(X[:20])
    assert facts(few, X[:20]) == {}


def test_a_density_that_cannot_be_sampled_has_a_page(fitted, tmp_path):
    model, X, _ = fitted["SphericalMixtureDensity"]
    model = copy.copy(model)
    model.acceptance_rate_ = 1e-12
    assert set(facts(model, X)) == {"cannot_sample"}
    with refuses("no_rows_drawn", name="SphericalMixtureDensity"):
        im.plot.fit(model, X)
    page = write_report(model, X, path=tmp_path / "r.html").read_text("utf-8")
    assert 'id="fit"' not in page


def test_where_nothing_is_compared(fitted):
    for name in ("ActivationSumRegressor", "SphericalMixtureClusterer"):
        assert facts(*fitted[name]) == {}
    model, X, _ = fitted["SphericalMixture"]
    weighted = copy.copy(model)
    weighted.columns_in_ = {"weight": "count"}
    assert facts(weighted, X) == {}
    for name in ("SphericalMixtureDensity", "RegressionMixture", "RegressionMixtureDensity"):
        _, X, y = fitted[name]
        counts = np.where(np.arange(len(X)) % 2, 3.0, 1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", im.AssumptionWarning)
            model = clone(fitted[name].model).fit(X, y, sample_weight=counts)
        assert facts(model, X, y) == {}
