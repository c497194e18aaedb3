"""Models by the words of the command line, and their parameters from text."""

from __future__ import annotations

import difflib
import inspect
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import implicitmoments
from implicitmoments.activation import ActivationSumRegressor
from implicitmoments.cli.options import KINDS
from implicitmoments.cli.wording import SPOKEN, forgotten_kind, option_of
from implicitmoments.density import RegressionMixtureDensity
from implicitmoments.regression import RegressionMixture

__all__ = ["LABELLED", "MODELS", "build", "find_model", "word_of"]

Estimator: TypeAlias = type[Any]

MODELS: Mapping[str, Estimator] = {
    word: getattr(implicitmoments, name) for word, name in KINDS.items()
}
LABELLED = (RegressionMixture, RegressionMixtureDensity, ActivationSumRegressor)
TRUTH = {"true": True, "yes": True, "false": False, "no": False}


def find_model(word: str) -> Estimator:
    """Return the estimator of a word of the command line, or of its own name."""
    known = {**MODELS, **{estimator.__name__: estimator for estimator in MODELS.values()}}
    if word not in known:
        if Path(word).suffix or Path(word).exists():
            raise ValueError(forgotten_kind(word))
        near = _near(word, known)
        raise ValueError(f"there is no model {word!r}, expected one of {', '.join(MODELS)}{near}")
    return known[word]


def word_of(model: Any) -> str:
    """Return the word of a model's class."""
    return next(word for word, estimator in MODELS.items() if estimator is type(model))


def build(
    estimator: Estimator, given: Mapping[str, str | None], settings: Sequence[str], seed: int
) -> Any:
    """Make an estimator of parameters in text.

    Parameters
    ----------
    estimator : class
    given : mapping of str to str or None
        Parameters that have options of their own; None where they were not given.
    settings : sequence of str
        ``name=value`` for any other.
    seed : int
    """
    texts = {name: text for name, text in given.items() if text is not None}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"--set takes name=value, got {setting!r}")
        if name in texts:
            by = f"by {SPOKEN[name]} and by --set" if given.get(name) is not None else "by --set"
            raise ValueError(f"{name!r} was given twice, {by}; give it once")
        if name == "random_state":
            raise ValueError("the random state is given by --seed, and not by --set")
        texts[name] = text
    hints = typing.get_type_hints(estimator.__init__)
    names = [name for name in inspect.signature(estimator).parameters if name != "random_state"]
    values: dict[str, Any] = {"random_state": seed}
    for name, text in texts.items():
        if name not in names:
            known = [each for each in names if each not in given]
            raise ValueError(
                f"{estimator.__name__} has no parameter {name!r}, given by {_option(name)}; "
                f"by --set it takes {', '.join(known)}{_near(name, known)}"
            )
        if name == "n_components" and text == "auto" and str not in _kinds(hints[name]):
            raise ValueError(_cannot_choose(estimator))
        values[name] = parse(text, hints[name], _option(name))
    if "n_components" not in values:
        if str not in _kinds(hints["n_components"]):
            raise ValueError(f"{estimator.__name__} takes the number of components; give -k N")
        values["n_components"] = "auto"
    return estimator(**values)


def _cannot_choose(estimator: Estimator) -> str:
    other = "regressions" if estimator in LABELLED else "mixture"
    return f"{estimator.__name__} cannot choose -k, and {other} can; give -k N"


def parse(text: str, hint: Any, option: str) -> Any:
    """Read a value as the annotation of its parameter has it.

    Examples
    --------
    >>> parse("8", int | str, "-k"), parse("auto", int | str, "-k")
    (8, 'auto')
    """
    kinds, plain = _kinds(hint), text.strip()
    if types.NoneType in kinds and plain.lower() == "none":
        return None
    if bool in kinds and plain.lower() in TRUTH:
        return TRUTH[plain.lower()]
    for kind in (int, float):
        if kind in kinds:
            try:
                return kind(plain)
            except ValueError:
                continue
    if str in kinds:
        return plain
    expected = " or ".join(words for kind, words in NAMED.items() if kind in kinds)
    raise ValueError(f"{option} takes {expected}, got {text!r}")


NAMED = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    types.NoneType: "none",
}


def _kinds(hint: Any) -> set[Any]:
    if hint is Any:
        return {int, float, bool, str, types.NoneType}
    return set(typing.get_args(hint)) or {hint}


def _option(name: str) -> str:
    return SPOKEN[name] if name in SPOKEN else option_of(name)


def _near(word: str, known: Iterable[str]) -> str:
    """Return a question where a word was mistyped."""
    by_letters = {each.lower(): each for each in known}
    found = difflib.get_close_matches(word.lower(), by_letters, 1)
    return f"; did you mean {by_letters[found[0]]}?" if found else ""
