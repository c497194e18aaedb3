"""Whether rows look like draws from the model: the right one passes, and a wrong one does not."""

import copy
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import implicitmoments as im
from implicitmoments.notes import SENTENCES, Note, Notes
from implicitmoments.regression import wald
from implicitmoments.report import verdict_of, write_report
from implicitmoments.testing import refuses

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
    "labels_fit_everywhere": True,
    "labels_depend_on_x": False,
}


def facts(model, X, y=None, notes=()):
    """Return the notes of checks against rows, by code."""
    model = copy.copy(model)
    model.notes_ = Notes(notes)
    verdict = verdict_of(model, X, y)
    assert all(CHECKS.get(note.code, True) for note in verdict.in_favour)
    assert not any(CHECKS.get(note.code, False) for note in verdict.against)
    return {note.code: note for note in verdict.in_favour + verdict.against if note.code in CHECKS}


@pytest.mark.parametrize("name", DRAWN)
def test_right_models_agree(fitted, name):
    expected = {"samples_agree"}
    if name == "RegressionMixture":
        expected.add("labels_fit_everywhere")
    assert set(facts(*fitted[name])) == expected


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


@pytest.mark.parametrize("seed", range(3))
def test_a_line_that_stands_for_two_is_noticed_by_where_rows_are(seed):
    X, y, _ = im.datasets.make_regression_mixture(3_000, 3, 4, noise=0.2, random_state=seed)
    models = {k: im.RegressionMixture(k, random_state=0).fit(X, y) for k in (1, 2, 3)}
    found = ["labels_depend_on_x" in facts(model, X, y) for model in models.values()]
    assert found == [True, True, False]
    if "line_missing" not in SENTENCES:
        pytest.skip("no fit writes line_missing yet")
    noted = [Note("line_missing")]
    assert "labels_depend_on_x" not in facts(models[2], X, y, noted)  # it is not said twice


def test_a_bend_is_noticed(rng):
    X = rng.normal(size=(800, 1))
    straight, bent = (2 * X[:, 0] + c * X[:, 0] ** 2 + 0.5 * rng.normal(size=800) for c in (0, 1))
    assert "labels_fit_everywhere" in facts(im.RegressionMixture(1).fit(X, straight), X, straight)
    assert "labels_depend_on_x" in facts(im.RegressionMixture(1).fit(X, bent), X, bent)


def test_the_statistic_has_the_law_it_should(rng):
    features = np.column_stack([np.ones(400), rng.normal(size=(400, 3))])
    scale = 1 + features[:, 1] ** 2  # the variance may depend on the features
    found = [wald(scale * rng.normal(size=400), features) for _ in range(400)]
    assert {freedom for _, freedom in found} == {4}
    # the mean of 400 draws from chi-squared with 4 degrees has a standard error of 0.14
    assert abs(np.mean([statistic for statistic, _ in found]) - 4) < 0.7
    doubled = np.hstack([features, features])
    assert wald(rng.normal(size=400), doubled)[1] == 4
    assert wald(features[:, 1] + rng.normal(size=400), features)[0] > 50


def test_without_noise_there_is_nothing_to_compare(rng):
    X = rng.normal(size=(200, 2))
    for y in (2 * X[:, 0], np.ones(200)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", im.AssumptionWarning)
            model = im.RegressionMixture(1).fit(X, y)
        assert facts(model, X, y) == {}
    few = im.SphericalMixture(1).fit(X[:20])
    assert facts(few, X[:20]) == {}


def test_few_rows_have_few_features(rng):
    X = np.column_stack([rng.normal(size=(60, 12)), np.ones(60)])
    y = X[:, 0] + rng.normal(size=60)
    note = facts(im.RegressionMixture(1).fit(X, y), X, y)["labels_fit_everywhere"]
    assert note.values["freedom"] == 1


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
