"""Measurements for and against a fit, by estimator, as codes."""

import copy
import re

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.notes import Note, Notes
from implicitmoments.report import verdict_of


def changed(fitted, name, notes=(), **stats):
    """A fitted model with other statistics and notes."""
    model = copy.copy(fitted[name].model)
    model.stats_ = model.stats_ | stats
    model.notes_ = Notes(notes)
    return model


def codes(model, *, supports):
    return [fact.note.code for fact in model._evidence() if fact.supports == supports]


def values(model, code):
    (found,) = [fact.note.values for fact in model._evidence() if fact.note.code == code]
    return found


def sales(seed=0, n=900):
    """Three lines with a noise of 4."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(18, 5, n), rng.normal(25, 10, n)])
    lines = np.array([[120, -3, 0.5], [40, -0.5, 2], [80, 1, 0.1]])
    own = lines[rng.choice(3, n, p=[0.5, 0.3, 0.2])]
    return X, own[:, 0] + np.einsum("nd,nd->n", X, own[:, 1:]) + 4 * rng.normal(size=n)


@pytest.mark.parametrize("k", [1, 2])
def test_a_missing_line_is_mentioned(k):
    X, y = sales()
    model = im.RegressionMixture(k, random_state=0).fit(X, y)
    assert "component_missing" in model.notes_.codes


@pytest.mark.parametrize("k", [3, "auto"])
def test_the_right_number_of_lines(k):
    X, y = sales()
    model = im.RegressionMixture(k, random_state=0).fit(X, y)
    assert codes(model, supports=False) == []
    assert model.notes_.codes == []
    assert ("bic_best" in codes(model, supports=True)) == (k == "auto")


def test_components_that_do_not_overlap(fitted):
    good = changed(fitted, "SphericalMixture", misclassification_rate=0.02)
    assert values(good, "few_misclassified") == {"rate": 0.02}
    bad = changed(fitted, "SphericalMixture", misclassification_rate=0.2)
    assert "few_misclassified" not in codes(bad, supports=True)


@pytest.mark.parametrize(
    ("scores", "most", "code", "supports"),
    [
        ({4: 100.0, 5: 100.5, 3: 150.0}, 50, "bic_close", False),
        ({4: 100.0, 5: 130.0, 3: 150.0}, 50, "bic_best", True),
        ({4: 100.0, 3: 150.0}, 4, "bic_at_limit", False),
    ],
)
def test_how_clearly_bic_chose(fitted, scores, most, code, supports):
    model = changed(fitted, "SphericalMixture", bic_by_n_components=scores)
    model.max_components = most
    assert code in codes(model, supports=supports)
    assert values(model, code)["difference"] == sorted(scores.values())[1] - 100.0


def test_clusters(fitted):
    name = "SphericalMixtureClusterer"
    assert codes(changed(fitted, name), supports=False) == []
    good = {"clusters_spherical", "means_separated", "pairwise_test_reliable"}
    assert set(codes(changed(fitted, name), supports=True)) == good
    close = changed(fitted, name, misclassification_rate=0.2)
    assert set(codes(close, supports=True)) == good - {"means_separated"}
    unsure = changed(fitted, name, split_rate=0.3)
    assert set(codes(unsure, supports=True)) == good - {"pairwise_test_reliable"}
    assert changed(fitted, name, within_variance=92.9)._evidence() == []


@pytest.mark.parametrize("name", ["SphericalMixtureDensity", "RegressionMixtureDensity"])
def test_densities(fitted, name):
    agrees = changed(fitted, name, distance=0.01)
    assert "density_agrees" in codes(agrees, supports=True)
    assert values(agrees, "density_agrees")["chance"] == pytest.approx(2 / np.sqrt(1500), rel=0.1)
    noted = changed(fitted, name, [Note("density_far_from_rows")], distance=0.09)
    assert codes(noted, supports=False) == []
    end = changed(fitted, name, scores={2: -7.0, 4: -6.0})
    end.degree_ = 4
    assert codes(end, supports=False)[-1] == "degree_at_limit"


def numbers(title):
    return [int(found) for found in re.findall(r"\d+", title)]


def test_what_predicts(fitted):
    name = "ActivationSumRegressor"
    good = changed(fitted, name)
    assert [fact.note.code for fact in good._evidence()] == ["network_error"]
    errors = {"network_error": 14_560.0, "polynomial_error": 750.0, "hypothesis": "polynomial"}
    bad = changed(fitted, name, **errors)
    assert bad._evidence() == []  # a note of the fit mentions it
    assert numbers(bad._title()) == [bad.degree_]
    assert numbers(good._title()) == [good.n_components_]
    _, X, y = fitted[name]
    plain = im.ActivationSumRegressor(n_components=3, refine=False).fit(X, y)
    assert [fact.note.code for fact in plain._evidence()] == ["polynomial_error"]


def test_one_component_has_no_evidence(rng):
    X = rng.normal(size=(300, 2))
    for model in (im.SphericalMixtureClusterer(1), im.SphericalMixtureDensity(1)):
        assert model.fit(X)._evidence() == []


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")  # one is too few
@pytest.mark.parametrize(
    "name", ["SphericalMixture", "RegressionMixture", "SphericalMixtureClusterer"]
)
def test_a_title_has_the_number_of_components(fitted, name):
    model = fitted[name].model
    assert numbers(model._title()) == [model.n_components]


def test_the_title_of_one_component_is_in_the_singular(fitted):
    one = im.RegressionMixture(1).fit(*fitted["RegressionMixture"][1:])
    assert numbers(one._title()) == []


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
def test_nothing_supports_components_strung_out_along_one_direction():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) + 6 * rng.normal(size=(400, 1)) * [1.0, 1.0, 0.0]
    model = im.SphericalMixture(3, random_state=0).fit(X)
    assert "not_round" in model.notes_.codes
    assert any(fact.supports for fact in model._evidence())  # as if they were groups
    assert verdict_of(model, X).in_favour == []
