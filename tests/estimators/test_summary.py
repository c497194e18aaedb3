"""What estimators answer to notebooks, reports, files and the command line."""

import copy
import pickle
from html.parser import HTMLParser
from typing import NotRequired, get_origin

import pytest
from sklearn.base import clone
from sklearn.utils import estimator_html_repr

import implicitmoments as im
from implicitmoments.estimator import FOUND, FittedEstimator, counted, findings_of
from implicitmoments.notes import Note, Notes
from support import ESTIMATORS, PICTURED

LEVEL = FOUND["lower_bound_"]


@pytest.mark.parametrize("name", ESTIMATORS)
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


def test_notes_are_in_the_table_and_escaped(fitted):
    model = copy.copy(fitted["SphericalMixture"].model)
    model.notes_ = Notes([Note("columns_left_out", {"columns": ["a <script>"]})])
    shown = model._repr_html_()
    assert 'data-code="columns_left_out"' in shown
    assert "a &lt;script&gt;" in shown
    assert "a <script>" not in shown
    HTMLParser().feed(shown)


def test_counts():
    assert (counted(1, "row"), counted(2_000, "row")) == ("1 row", "2,000 rows")


def test_every_estimator_can_be_saved():
    public = {getattr(im, name) for name in im.__all__}
    estimators = {
        each for each in public if isinstance(each, type) and issubclass(each, FittedEstimator)
    }
    assert {each.__name__ for each in estimators} == set(ESTIMATORS)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_have_what_they_declare(fitted, name):
    model, _, y = fitted[name]
    estimator = type(model)
    assert all(hasattr(model, method) for method in estimator.answers.values())
    required = [
        name for name, kind in estimator.saved.items() if get_origin(kind) is not NotRequired
    ]
    assert all(hasattr(model, name) for name in required)
    attributes = [name for table in estimator.tables.values() for name in table.values()]
    assert all(hasattr(model, name) for name in attributes)
    assert (estimator.vectors in attributes) == bool(estimator.tables)
    assert estimator.labelled == (y is not None)
    tags = model.__sklearn_tags__()
    assert tags.target_tags.required == estimator.labelled
    assert {"components", "fit"} <= set(estimator.captions) or name not in PICTURED
