"""Whether rows look like draws from the model: the right one passes, and a wrong one does not."""

import copy
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import implicitmoments as im
from implicitmoments.plot.plotted_rows import some_rows
from implicitmoments.report import write_report
from implicitmoments.report.agreement import agreement_of, wald
from implicitmoments.report.verdict import verdict_of

DRAWN = [
    "SphericalMixture",
    "SphericalMixtureDensity",
    "RegressionMixture",
    "RegressionMixtureDensity",
]


def told(model, X, y=None, notes=()):
    model.stats_ = model.stats_ | {"notes": list(notes)}
    return agreement_of(model, some_rows(model, X, y, 5_000))


@pytest.mark.parametrize("name", DRAWN)
def test_right_models_agree(fitted, name):
    model, X, y = fitted[name]
    facts = told(copy.copy(model), X, y)
    assert len(facts) == 1 + (name == "RegressionMixture")
    assert all(good for good, _ in facts), facts
    assert "no more than chance makes" in facts[0][1]


def test_wrong_models_do_not(fitted):
    X, y = fitted["RegressionMixture"][1:]
    wide = copy.copy(fitted["RegressionMixture"].model)
    wide.noise_ = 3 * wide.noise_
    (good, words), _ = told(wide, X, y)
    assert not good
    assert "Fit against data" in words
    rng = np.random.default_rng(0)
    two = np.concatenate([rng.normal(-5, 1, (400, 1)), rng.normal(5, 1, (400, 1))])
    for model in (im.SphericalMixture(1).fit(two), im.SphericalMixtureDensity(1).fit(two)):
        agreement = told(model, two)
        assert not agreement[0][0]
        assert not verdict_of(model, 800, agreement=agreement).good
        assert verdict_of(model, 800).good  # the fit itself measured nothing


@pytest.mark.parametrize("seed", range(3))
def test_a_line_that_stands_for_two_is_noticed_by_where_rows_are(seed):
    X, y, _ = im.datasets.make_regression_mixture(3_000, 3, 4, noise=0.2, random_state=seed)
    facts = {
        k: told(im.RegressionMixture(k, random_state=0).fit(X, y), X, y)[1] for k in (1, 2, 3)
    }
    assert [good for good, _ in facts.values()] == [False, False, True]
    assert "a line may be missing" in facts[2][1]
    wrong = im.RegressionMixture(2, random_state=0).fit(X, y)
    assert len(told(wrong, X, y, ["a line may be missing"])) == 1  # it is not said twice


def test_a_bend_is_noticed(rng):
    X = rng.normal(size=(800, 1))
    straight, bent = (2 * X[:, 0] + c * X[:, 0] ** 2 + 0.5 * rng.normal(size=800) for c in (0, 1))
    assert told(im.RegressionMixture(1).fit(X, straight), X, straight)[1][0]
    assert not told(im.RegressionMixture(1).fit(X, bent), X, bent)[1][0]


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
        assert told(model, X, y) == []
    rows = np.repeat(X[:2], 40, axis=0)
    assert told(im.SphericalMixture(2, random_state=0).fit(rows), rows) == []
    few = im.SphericalMixture(1).fit(X[:20])
    assert told(few, X[:20]) == []


def test_few_rows_have_few_features(rng):
    X = np.column_stack([rng.normal(size=(60, 12)), np.ones(60)])
    y = X[:, 0] + rng.normal(size=60)
    good, words = told(im.RegressionMixture(1).fit(X, y), X, y)[1]
    assert good
    assert "about 1 by chance" in words


def test_a_density_that_cannot_be_drawn_from_has_a_page(fitted, tmp_path):
    model, X, _ = fitted["SphericalMixtureDensity"]
    model = copy.copy(model)
    model.acceptance_rate_ = 1e-12
    ((good, words),) = told(model, X)
    assert not good
    assert "No rows can be drawn" in words
    with pytest.raises(ValueError, match="no rows can be drawn from this SphericalMixtureDensity"):
        im.plot.fit(model, X)
    page = write_report(model, X, path=tmp_path / "r.html").read_text("utf-8")
    assert 'id="fit"' not in page


def test_where_nothing_is_compared(fitted):
    for name in ("ActivationSumRegressor", "SphericalMixtureClusterer"):
        model, X, y = fitted[name]
        assert told(copy.copy(model), X, y) == []
    model, X, _ = fitted["SphericalMixture"]
    weighted = copy.copy(model)
    weighted.columns_in_ = {"weight": "count"}
    assert told(weighted, X) == []
    for name in ("SphericalMixtureDensity", "RegressionMixture", "RegressionMixtureDensity"):
        _, X, y = fitted[name]
        counts = np.where(np.arange(len(X)) % 2, 3.0, 1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", im.AssumptionWarning)
            model = clone(fitted[name].model).fit(X, y, sample_weight=counts)
        assert told(model, X, y) == []
