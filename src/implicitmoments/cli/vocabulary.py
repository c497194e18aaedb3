"""Names used on the command line: options for parameters, kinds for classes."""

from __future__ import annotations

import ast
import csv
import io
from collections.abc import Iterable
from functools import cache
from typing import Any

from implicitmoments.registry import class_names, estimator_class

# arguments of the library that have options of their own; --set gives other parameters
OPTIONS = {
    "n_components": "-k",
    "activation": "--activation",
    "degree": "--degree",
    "random_state": "--seed",
    "columns": "--columns",
    "y": "--target",
    "sample_weight": "--weight",
    "checkpoint": "--checkpoint",
}
FLAGS = {"drop_missing": "--drop-missing"}
ATTRIBUTES = {"lower_bound_": "the mean log-likelihood"}
# Python values as typed on the command line
CONSTANTS = {None: "none", True: "true", False: "false", ...: "…"}


class CommandLineVocabulary:
    """Prints Python expressions of a sentence as a user of the command line would type them.

    Examples
    --------
    >>> words = CommandLineVocabulary()
    >>> words.expression("n_components=3"), words.expression("degree='cv'")
    ('-k 3', '--degree cv')
    >>> words.expression("max_iter=200"), words.expression("SphericalMixture")
    ('--set max_iter=200', 'mixture')
    """

    def expression(self, text: str) -> str:
        """Return an expression in command-line terms; unchanged if unknown."""
        try:
            call = ast.parse(f"_({text})", mode="eval").body
        except SyntaxError:
            return text
        if not isinstance(call, ast.Call):
            return text
        if not call.args and all(each.arg is not None for each in call.keywords):
            options = [option_of(str(each.arg), _value(each.value)) for each in call.keywords]
            return " ".join(options) or text
        if len(call.args) == 1 and not call.keywords and isinstance(call.args[0], ast.Name):
            return _name(call.args[0].id)
        return text


COMMAND_LINE = CommandLineVocabulary()


def option_of(name: str, value: str = "…") -> str:
    """Return how the command line gives a parameter a value.

    Examples
    --------
    >>> option_of("degree", "cv"), option_of("tol", "0.1"), option_of("tol")
    ('--degree cv', '--set tol=0.1', '--set tol=…')
    """
    if name in FLAGS:
        return FLAGS[name]
    return f"{OPTIONS[name]} {value}" if name in OPTIONS else f"--set {name}={value}"


def joined(names: Iterable[str]) -> str:
    """Return names in the syntax of an option; a name with a comma is quoted.

    Examples
    --------
    >>> joined(["height", "in m, about"])
    'height,"in m, about"'
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def _name(name: str) -> str:
    """Return the words for a parameter, an attribute or a class that is mentioned alone."""
    for kind, own in class_names().items():
        if name == own:
            return kind
    if name in OPTIONS or name in FLAGS:
        return OPTIONS.get(name) or FLAGS[name]
    if name.endswith("_"):
        return ATTRIBUTES.get(name, name.strip("_").replace("_", " "))
    return option_of(name) if name in _parameters() else name


@cache
def _parameters() -> frozenset[str]:
    """Return the names of the parameters of all estimators."""
    models = [estimator_class(kind)() for kind in class_names()]
    return frozenset(name for model in models for name in model.get_params(deep=False))


def _value(node: ast.expr) -> str:
    """Return a value as it is typed: without quotes, lists separated by commas."""
    if isinstance(node, ast.List | ast.Tuple):
        return joined(map(_value, node.elts))
    if isinstance(node, ast.Constant):
        value: Any = node.value
        if value is None or isinstance(value, bool) or value is ...:
            return CONSTANTS[value]
        if isinstance(value, str):
            return value
    return ast.unparse(node)
