"""The error for a model file, and checks of what a file contains."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, UnionType
from typing import Annotated, Any, NotRequired, TypeAlias, Union, get_args, get_origin

import numpy as np

from implicitmoments.arrays import Array, Entries
from implicitmoments.notes import CodedError, Notes

Hint: TypeAlias = Any
PLAIN: Mapping[Hint, Hint] = MappingProxyType({})

# fitted attributes of every estimator
COMMON: dict[str, Hint] = {"n_features_in_": int, "stats_": dict[str, Any], "notes_": Notes}
WHOLE = (int, np.integer)
NUMBERS: dict[Hint, tuple[type, ...]] = {
    bool: (bool, np.bool_),
    int: WHOLE,
    float: (float, np.floating, *WHOLE),
}
# kinds of entries that an array may have, by the kind of its annotation
ENTRIES = {"f": "fiu", "i": "iu", "u": "u", "b": "b"}


class ModelFileError(CodedError, ValueError):
    """A model cannot be written, or a file cannot be read; the message says what to try.

    See Also
    --------
    save : Write a fitted model to a file.
    load : Read a fitted model from a file.

    Examples
    --------
    >>> import implicitmoments as im
    >>> try:
    ...     im.load("nowhere.im")
    ... except im.ModelFileError as error:
    ...     print(error.code, error.values["file"])
    cannot_open nowhere.im
    """

    def within(self, before: str, after: str = "", **values: Any) -> ModelFileError:
        """Return the error with its reason in a sentence of the function that was called."""
        template = f"{before}{self.template}{after}"
        return ModelFileError(self.code, template, **{**self.values, **values})


def expect(valid: bool, code: str, what: object = "") -> None:
    """Raise an error unless content is as saved models have it; the code is the reason."""
    if not valid:
        raise invalid(code, what)


def invalid(code: str, what: object = "") -> ModelFileError:
    """Return an error for content that no saved model has; the code is the reason."""
    template = "its content is invalid ({reason}" + (": {what})" if what != "" else ")")
    return ModelFileError(code, template, reason=code.replace("_", " "), what=str(what)[:80])


def matches(value: Any, hint: Hint, variants: Mapping[Hint, Hint] = PLAIN) -> bool:
    """Say whether a value is of a type, looking into containers.

    ``variants`` are the classes in place of protocols.

    A number of NumPy passes for one of Python, and an integer for any. An ``Array`` is one of
    NumPy, as all arrays are that were read.
    """
    hint = variants.get(hint, hint)
    origin: Any = get_origin(hint)
    inner = get_args(hint)
    if hint is Any:
        return True
    if hint is Array:
        return isinstance(value, np.ndarray)
    if hint in NUMBERS:
        return isinstance(value, NUMBERS[hint]) and (hint is bool) >= (type(value) is bool)
    if origin is Annotated:
        return matches(value, inner[0], variants)
    if origin in (Union, UnionType, NotRequired):
        return any(matches(value, one, variants) for one in inner)
    return isinstance(value, origin or hint) and _contains(value, origin, inner, variants)


def check_entries(
    values: Mapping[str, Any], hints: Mapping[str, Hint], about: str = "", d: int | None = None
) -> None:
    """Raise unless values have the axes and entries that their annotations declare.

    ``about`` names what the values are of, and ``d`` is the number of features, if it is known.
    Those with one shape come before those with a choice.
    """
    declared = {name: _entries(hint) for name, hint in hints.items() if name in values}
    sizes = {} if d is None else {"d": d}
    for name, entries in sorted(declared.items(), key=lambda each: len(each[1].axes)):
        if entries.axes and values[name] is not None:
            fault = entries.fault(values[name], sizes, values)
            expect(not fault, fault, f"{about}{name}")


def _entries(hint: Hint) -> Entries:
    """Return what an annotation declares; no axes if nothing."""
    found = [each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Entries)]
    origin: Any = get_origin(hint)
    if origin in (Union, UnionType, NotRequired):
        found += [_entries(one) for one in get_args(hint)]
    return next((each for each in found if each.axes), Entries(()))


def _contains(
    value: Any, origin: Any, inner: tuple[Hint, ...], variants: Mapping[Hint, Hint]
) -> bool:
    """Say whether the entries of a container are of the types between its brackets."""
    if origin in (dict, Mapping):
        pairs = value.items()
        return all(
            matches(k, inner[0], variants) and matches(v, inner[1], variants) for k, v in pairs
        )
    if origin is tuple and inner[-1] is not Ellipsis:
        return len(value) == len(inner) and all(
            matches(each, own, variants) for each, own in zip(value, inner, strict=True)
        )
    if origin in (tuple, list):
        return all(matches(item, inner[0], variants) for item in value)
    if origin is np.ndarray:
        entries = get_args(inner[1])[0]
        kind = "" if entries is Any else np.dtype(entries).kind
        return value.dtype.kind in ENTRIES.get(kind, value.dtype.kind)
    return True
