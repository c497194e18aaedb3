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

from implicitmoments.learners.summary import findings_of

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
