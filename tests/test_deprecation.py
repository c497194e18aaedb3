"""Old names work, warn where they are used, and say when they go."""

import warnings

import pytest

from implicitmoments.deprecation import (
    DeprecatedNameWarning,
    rename_function,
    rename_parameter,
)
from implicitmoments.testing import refuses


@rename_parameter("clusters", "n_components", version="2.0")
def fit(X, n_components=1):
    return X, n_components


class Model:
    @rename_parameter("rows", "X", version="1.4")
    def predict(self, X):
        return X


@pytest.mark.parametrize(
    ("use", "answer", "values"),
    [
        (
            lambda: fit("X", clusters=3),
            ("X", 3),
            {"old": "clusters", "new": "n_components", "version": "2.0"},
        ),
        (lambda: Model().predict(rows=5), 5, {"old": "rows", "new": "X", "version": "1.4"}),
    ],
)
def test_an_old_parameter_works_and_warns(use, answer, values):
    with pytest.warns(DeprecatedNameWarning) as caught:
        assert use() == answer
    (warning,) = caught
    assert warning.message.code == "parameter_renamed"
    assert warning.message.values == values
    assert warning.filename == __file__  # where the user wrote it
    assert issubclass(warning.category, FutureWarning)  # shown by default
    for value in values.values():
        assert value in str(warning.message)


def test_the_new_parameter_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit("X", n_components=3) == fit("X", 3) == ("X", 3)


def test_a_parameter_by_both_names_is_refused():
    with refuses("parameter_by_two_names", old="clusters", new="n_components"):
        fit("X", clusters=3, n_components=3)


def test_an_old_function_works_and_warns():
    begin = rename_function("begin", fit, version="3.0")
    with pytest.warns(DeprecatedNameWarning) as caught:
        assert begin("X", n_components=2) == ("X", 2)
    (warning,) = caught
    assert warning.message.code == "function_renamed"
    assert warning.message.values == {"old": "begin", "new": "fit", "version": "3.0"}
    assert warning.filename == __file__
    assert begin.__name__ == "begin"
