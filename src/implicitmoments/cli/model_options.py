"""Estimators built from the options of ``fit``, and the parameters that each kind takes."""

from __future__ import annotations

import contextlib
import difflib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from implicitmoments.cli.console import CONSTANTS, OPTIONS, bad_input, option_of
from implicitmoments.cli.options import SEED
from implicitmoments.registry import ESTIMATORS, estimator_class

CHOSEN = "auto"  # the number of components of a fit without -k
FLAGS = {"true": True, "yes": True, "false": False, "no": False}
EXPECTED = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a word",
    types.NoneType: "none",
}


def build_model(
    kind: str, options: Mapping[str, str | None], settings: Sequence[str], seed: int
) -> Any:
    """Build an estimator of a kind, or a class name, from text.

    ``options`` are parameters that have options of their own, None if not given, and
    ``settings`` are ``name=value`` for any other. A mixture whose covariance is given is a
    ``GaussianMixture``.
    """
    texts = _given_once(options, settings)
    estimator = _find_class(kind, shaped="covariance_type" in texts)
    hints = typing.get_type_hints(estimator.__init__)
    names = [name for name in _defaults(estimator, hints) if name != "random_state"]
    if texts.setdefault("n_components", CHOSEN) == CHOSEN and not _can_choose(hints):
        raise bad_input("number_required", kind=estimator.kind)
    values: dict[str, Any] = {"random_state": seed}
    for name, text in texts.items():
        option = OPTIONS.get(name, option_of(name))
        if name not in names:
            known = [each for each in names if each not in OPTIONS]
            raise bad_input(
                "unknown_parameter",
                kind=estimator.kind,
                name=name,
                option=option,
                known=", ".join(known),
                near=_near(name, known),
            )
        values[name] = _parse(text, hints[name], option)
    return estimator(**values)


def typed_defaults(model: Any) -> dict[str, Any]:
    """Return the parameters of a fit in which no option is typed."""
    hints = typing.get_type_hints(type(model).__init__)
    number = CHOSEN if _can_choose(hints) else "required"
    default: dict[str, Any] = type(model)().get_params(deep=False)
    return default | {"n_components": number, "random_state": SEED}


def parameter_table(kind: str, *, shaped: bool) -> Table:
    """Return the parameters that ``--set`` takes for a kind: names, values, defaults.

    ``shaped``: a mixture whose covariance is given.
    """
    estimator = _find_class(kind, shaped=shaped)
    hints = typing.get_type_hints(estimator.__init__)
    table = Table(box=SIMPLE_HEAD, title=f"--set of {estimator.kind}: {estimator.__name__}")
    for head in ("name", "takes", "default"):
        table.add_column(head)
    for name, default in _defaults(estimator, hints).items():
        if name not in OPTIONS:
            shown = CONSTANTS[default] if default in (None, True, False) else str(default)
            table.add_row(name, _expected(hints[name]), shown)
    return table


def _defaults(estimator: Any, hints: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an estimator that can be typed, which arrays cannot."""
    given = estimator().get_params(deep=False)
    return {name: value for name, value in given.items() if hints[name] is not Any}


def _find_class(word: str, *, shaped: bool = False) -> Any:
    kinds = ESTIMATORS
    if shaped and word == "mixture":
        word = "gaussian-mixture"
    with contextlib.suppress(KeyError):
        return estimator_class(word)
    if Path(word).suffix or Path(word).exists():
        raise bad_input("kind_missing", word=word, kinds=", ".join(kinds))
    raise bad_input(
        "unknown_model",
        word=word,
        kinds=", ".join(kinds),
        near=_near(word, (*kinds, *kinds.values())),
    )


def _given_once(options: Mapping[str, str | None], settings: Sequence[str]) -> dict[str, str]:
    """Return the text of each parameter, none of which may be given twice."""
    texts = {name: text for name, text in options.items() if text is not None}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise bad_input("setting_without_value", text=setting)
        if name in texts:
            raise bad_input("parameter_twice", name=name)
        if name == "random_state":
            raise bad_input("seed_by_setting")
        texts[name] = text
    return texts


def _parse(text: str, hint: Any, option: str) -> Any:
    """Parse a value by the annotation of its parameter."""
    kinds, plain = _types(hint), text.strip()
    if types.NoneType in kinds and plain.lower() == "none":
        return None
    if bool in kinds and plain.lower() in FLAGS:
        return FLAGS[plain.lower()]
    for kind in (int, float):
        if kind in kinds:
            try:
                return kind(plain)
            except ValueError:
                continue
    if str in kinds:
        return plain
    raise bad_input(
        "value_of_another_type",
        option=option,
        expected=_expected(hint),
        text=text,
    )


def _expected(hint: Any) -> str:
    """Return in words what a parameter takes."""
    kinds = _types(hint)
    return " or ".join(words for kind, words in EXPECTED.items() if kind in kinds)


def _can_choose(hints: Mapping[str, Any]) -> bool:
    """Say whether an estimator chooses its number of components."""
    return str in _types(hints["n_components"])


def _types(hint: Any) -> set[Any]:
    """Return the types that an annotation allows: a type or a union."""
    return set(typing.get_args(hint)) or {hint}


def _near(word: str, known: Iterable[str]) -> str:
    """Return a question if a word was probably mistyped."""
    by_letters = {each.lower(): each for each in known}
    found = difflib.get_close_matches(word.lower(), by_letters, 1)
    return f"; did you mean {by_letters[found[0]]}?" if found else ""
