"""Whether a value is what an annotation says, for the annotations that records have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import numpy as np

__all__ = ["matches"]

WHOLE = (int, np.integer)
NUMBERS: dict[Any, tuple[type, ...]] = {
    bool: (bool, np.bool_),
    int: WHOLE,
    float: (float, np.floating, *WHOLE),
}
# kinds of entries an array may have where its annotation says what
ENTRIES = {"f": "fiu", "i": "iu", "u": "u", "b": "b"}


def matches(value: Any, hint: Any) -> bool:  # noqa: PLR0911 (one for each kind of type)
    """Say whether a value is of a type, looking into containers.

    A number of NumPy passes for one of Python, and a whole number for any. ``Array``, which is
    ``Any``, is met by arrays alone, since that is what they are when read; a protocol or a type
    variable by any record.
    """
    if hint is Any:
        return isinstance(value, np.ndarray)
    if isinstance(hint, TypeVar) or getattr(hint, "_is_protocol", False):
        return is_dataclass(value)
    if hint is None or hint is NoneType:
        return value is None
    if hint in NUMBERS:
        right = isinstance(value, NUMBERS[hint])
        return right and (hint is bool or not isinstance(value, bool | np.bool_))
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(matches(value, one) for one in inner)
    if origin is not None:
        return _matches_generic(value, origin, inner)
    return isinstance(hint, type) and isinstance(value, hint)


def _matches_generic(  # noqa: PLR0911 (one for each kind of type)
    value: Any, origin: Any, inner: tuple[Any, ...]
) -> bool:
    if origin in (dict, Mapping):
        if not isinstance(value, dict) or not all(matches(key, inner[0]) for key in value):
            return False
        named = inner == (str, Any)  # statistics, which may be anything
        return named or all(matches(held, inner[1]) for held in value.values())
    if not isinstance(value, origin):
        return False
    if origin is tuple:
        if len(inner) == 2 and inner[1] is Ellipsis:
            return all(matches(held, inner[0]) for held in value)
        return len(value) == len(inner) and all(map(matches, value, inner))
    if origin is list:
        return all(matches(held, inner[0]) for held in value)
    if origin is np.ndarray:
        return _has_entries(value, inner[1])
    return True  # a record with a parameter, such as ClippedDensity[SphericalSpan]


def _has_entries(array: np.ndarray[Any, Any], dtype: Any) -> bool:
    entries = get_args(dtype)
    if not entries or entries[0] is Any:
        return True
    return array.dtype.kind in ENTRIES.get(np.dtype(entries[0]).kind, "")
