"""What notebooks show of a fitted estimator."""

import copy
import pickle
from html.parser import HTMLParser

import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr

import implicitmoments as im
from implicitmoments.estimator import counted, findings_of, shortened

NAMES = [
    "SphericalMixture",
    "SphericalMixtureClusterer",
    "SphericalMixtureDensity",
    "RegressionMixture",
    "RegressionMixtureDensity",
    "ActivationSumRegressor",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_table_after_a_fit_and_none_before(fitted, name):
    model = fitted[name].model
    for shown in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert shown.startswith(estimator_html_repr(model)[:20])
        assert f"Fitted {name}" in shown
        for words in findings_of(model):
            assert words in shown
    assert f"Fitted {name}" not in clone(model)._repr_html_()
    assert name in repr(model)
    assert pickle.loads(pickle.dumps(model))._repr_html_().count("Fitted") >= 1


def test_words_of_the_fit_are_in_the_table_and_escaped(fitted):
    model = copy.copy(fitted["SphericalMixture"].model)
    model.stats_ = model.stats_ | {"notes": ["a <script>"]}
    shown = model._repr_html_()
    assert "a &lt;script&gt;" in shown
    assert "a <script>" not in shown
    HTMLParser().feed(shown)


def test_text_where_text_is_asked_for(fitted):
    model = fitted["SphericalMixture"].model
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert list(model._repr_mimebundle_()) == ["text/plain"]


def test_pipelines_are_still_drawn(fitted):
    model, X, _ = fitted["SphericalMixture"]
    pipeline = make_pipeline(StandardScaler(), clone(model)).fit(X)
    assert "SphericalMixture" in pipeline._repr_html_()


def test_findings_are_few_and_readable(fitted):
    found = findings_of(fitted["SphericalMixture"].model)
    assert found["components"] == "4"
    assert found["converged"] == "yes"
    for model, _, _ in fitted.values():
        assert all(0 < len(value) < 60 for value in findings_of(model).values())


def test_likelihoods_are_those_of_a_row(fitted):
    for name in ("SphericalMixture", "RegressionMixture"):
        model, X, y = fitted[name]
        found = findings_of(model)
        assert found["mean log-likelihood"] == f"{model.score(X, y):.4g} a row"
        assert "log-likelihood" not in found


def test_a_row_that_counts_twice_is_two(fitted):
    _, X, y = fitted["RegressionMixture"]
    counts = [2.0] * len(X)
    model = im.RegressionMixture(3, random_state=0).fit(X, y, sample_weight=counts)
    assert findings_of(model)["mean log-likelihood"] == f"{model.score(X, y):.4g} a row"


@pytest.mark.parametrize("used", ["network", "polynomial"])
def test_the_error_is_that_of_what_predicts(fitted, used):
    model = copy.copy(fitted["ActivationSumRegressor"].model)
    errors = {"network_error": 14_560.0, "polynomial_error": 750.0, "hypothesis": used}
    model.stats_ = model.stats_ | errors
    found = {name: value for name, value in findings_of(model).items() if "error" in name}
    expected = "14,560" if used == "network" else "750"
    assert found == {f"expected squared error of the {used}": expected}


def test_the_noise_of_a_density_has_a_name_of_its_own(fitted):
    found = findings_of(fitted["RegressionMixtureDensity"].model)
    assert "noise that the expansion assumes" in found
    assert not [name for name in found if "standard deviation" in name]
    assert "noise (standard deviation)" in findings_of(fitted["RegressionMixture"].model)


def test_lists_in_sentences_are_short(fitted):
    numbers = ", ".join(map(str, range(45)))
    said = f"components {numbers}: fainter than the noise floor"
    told = "components 0, 1, 2, 3, 4, 5, … (45 in all): fainter than the noise floor"
    assert shortened(said) == told
    assert shortened("skewness 0.1, 0.2 of 3, 4") == "skewness 0.1, 0.2 of 3, 4"
    model = copy.copy(fitted["SphericalMixture"].model)
    model.stats_ = model.stats_ | {"notes": [said]}
    assert told in model._repr_html_()
    assert counted(1, "row") == "1 row"
