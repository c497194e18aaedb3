"""An estimator from the text of options: its kind, and its parameters."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from implicitmoments.cli.console import kind_missing
from implicitmoments.cli.errors import bad_input
from implicitmoments.cli.vocabulary import OPTIONS, option_of
from implicitmoments.registry import class_names, estimator_class

FLAGS = {"true": True, "yes": True, "false": False, "no": False}
EXPECTED = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    types.NoneType: "none",
}


def build_model(
    kind: str, options: Mapping[str, str | None], settings: Sequence[str], seed: int
) -> Any:
    """Build an estimator of a kind, or a class name, from text.

    ``options`` are parameters that have options of their own, None if not given, and
    ``settings`` are ``name=value`` for any other.
    """
    estimator = _find_class(kind)
    texts = _given_once(options, settings)
    hints = typing.get_type_hints(estimator.__init__)
    names = [name for name in estimator().get_params(deep=False) if name != "random_state"]
    can_choose = str in _types(hints["n_components"])
    if texts.setdefault("n_components", "auto") == "auto" and not can_choose:
        raise bad_input("number_required", kind=estimator.kind)
    values: dict[str, Any] = {"random_state": seed}
    for name, text in texts.items():
        if name not in names:
            known = [each for each in names if each not in OPTIONS]
            raise bad_input(
                "unknown_parameter",
                kind=estimator.kind,
                name=name,
                option=_option(name),
                known=", ".join(known),
                near=_near(name, known),
            )
        values[name] = _parse(text, hints[name], _option(name))
    return estimator(**values)


def _find_class(word: str) -> Any:
    kinds = class_names()
    if word in kinds or word in kinds.values():
        return estimator_class(word)
    if Path(word).suffix or Path(word).exists():
        raise kind_missing(word)
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
        expected=" or ".join(words for kind, words in EXPECTED.items() if kind in kinds),
        text=text,
    )


def _types(hint: Any) -> set[Any]:
    """Return the types that an annotation allows."""
    if hint is Any:
        return {int, float, bool, str, types.NoneType}
    if typing.get_origin(hint) is typing.Literal:
        return set(map(type, typing.get_args(hint)))
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return set().union(*map(_types, typing.get_args(hint)))
    return {hint}


def _option(name: str) -> str:
    return OPTIONS[name] if name in OPTIONS else option_of(name)


def _near(word: str, known: Iterable[str]) -> str:
    """Return a question if a word was probably mistyped."""
    by_letters = {each.lower(): each for each in known}
    found = difflib.get_close_matches(word.lower(), by_letters, 1)
    return f"; did you mean {by_letters[found[0]]}?" if found else ""
