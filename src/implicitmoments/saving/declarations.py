"""Allowed contents of the model file of an estimator, derived from type annotations."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, NotRequired, TypeAlias, TypeVar, Union, get_args, get_origin

import numpy as np

from implicitmoments.arrays import Array
from implicitmoments.moments.framed_rows import FramedRows
from implicitmoments.notes import Notes
from implicitmoments.problems import Activation
from implicitmoments.registry import class_names, estimator_class
from implicitmoments.saving.codecs import CODECS, Codec, record_codec

Hint: TypeAlias = Any

# fitted attributes of every estimator
COMMON: dict[str, Hint] = {"n_features_in_": int, "stats_": dict[str, Any], "notes_": Notes}
PARAMETERS = (Activation, np.random.Generator, np.random.RandomState)  # classes they may have
WHOLE = (int, np.integer)
NUMBERS: dict[Hint, tuple[type, ...]] = {
    bool: (bool, np.bool_),
    int: WHOLE,
    float: (float, np.floating, *WHOLE),
}
# kinds of entries that an array may have, by the kind of its annotation
ENTRIES = {"f": "fiu", "i": "iu", "u": "u", "b": "b"}


def declaration_of(name: str) -> Declaration | None:
    """Return the declaration for the name of an estimator class; None if there is none.

    Annotations are resolved once, so that nothing is compiled while further files are read.
    """
    return _declare(name) if name in class_names().values() else None


@cache
def _declare(name: str) -> Declaration:
    return Declaration(estimator_class(name))


class Declaration:
    """Declared contents of the model file of one estimator.

    Parameters
    ----------
    estimator : class
        ``saved`` declares its fitted attributes, ``variants`` the classes in place of protocols.

    Attributes
    ----------
    parameters : list of str
    required : set of str
        Fitted attributes that every file has.
    codecs : dict of str to Codec
        All classes that can be reached from the declaration: no others are written or read.
    """

    def __init__(self, estimator: type[Any]) -> None:
        self.estimator = estimator
        self.parameters = list(inspect.signature(estimator).parameters)
        self._saved = {**COMMON, **estimator.saved}
        self.required = {
            name for name, hint in self._saved.items() if get_origin(hint) is not NotRequired
        }
        self.codecs: dict[str, Codec] = {}
        self._resolved: dict[Hint, Hint] = {FramedRows: None, **estimator.variants}
        for hint in (*PARAMETERS, *self._saved.values()):
            self._collect(hint)

    def codec_of(self, value: Any) -> tuple[str, Codec]:
        """Return how an object is written, and under which name; KeyError if it cannot be."""
        for name, codec in self.codecs.items():
            as_base = codec.kind in CODECS and isinstance(value, codec.kind)
            if as_base or type(value) is codec.kind:
                return name, codec
        raise KeyError(type(value).__name__)

    def accepts(self, attribute: str, value: Any) -> bool:
        """Say whether a fitted attribute may have a value; undeclared ones may have any."""
        return attribute not in self._saved or self.matches(value, self._saved[attribute])

    def matches(self, value: Any, hint: Hint) -> bool:
        """Say whether a value is of a type, looking into containers.

        A number of NumPy passes for one of Python, and an integer for any. An ``Array`` is one of
        NumPy, as all arrays are that were read.
        """
        hint = self._resolved.get(hint, hint)
        if hint is Any or hint is Array:
            return isinstance(value, np.ndarray)
        if hint is None or hint is NoneType:
            return value is None
        if hint in NUMBERS:
            right = isinstance(value, NUMBERS[hint])
            return right and (hint is bool or not isinstance(value, bool | np.bool_))
        origin, inner = _parts(hint)
        if origin in (Union, UnionType, NotRequired):
            return any(self.matches(value, one) for one in inner)
        if origin is None:
            return isinstance(value, hint)
        return self._matches_container(value, origin, inner)

    def _matches_container(self, value: Any, origin: Any, inner: tuple[Hint, ...]) -> bool:
        if not isinstance(value, origin):
            return False
        if origin in (dict, Mapping):
            items = value.values() if inner[1] is not Any or inner[0] is not str else ()
            keys = all(self.matches(key, inner[0]) for key in value)
            return keys and all(self.matches(item, inner[1]) for item in items)
        if origin is tuple and inner[-1] is not Ellipsis:
            return len(value) == len(inner) and all(map(self.matches, value, inner))
        if origin in (tuple, list):
            return all(self.matches(item, inner[0]) for item in value)
        if origin is np.ndarray:
            entries = get_args(inner[1])[0]
            kind = "" if entries is Any else np.dtype(entries).kind
            return value.dtype.kind in ENTRIES.get(kind, value.dtype.kind)
        return True  # a record with a parameter, such as ClippedDensity[SphericalSpan]

    def _collect(self, hint: Hint) -> None:
        """Enter the classes of an annotation, and of the fields of those classes."""
        hint = self._resolved.get(hint, hint)
        origin, inner = _parts(hint)
        kind = origin or hint
        if kind is Array:
            return
        if isinstance(kind, TypeVar) or getattr(kind, "_is_protocol", False):
            raise TypeError(f"{self.estimator}.variants does not say what {kind} is")
        if kind not in CODECS and not is_dataclass(kind):
            for one in inner if kind is not np.ndarray else ():
                self._collect(one)
            return
        self._resolved.update(zip(getattr(kind, "__parameters__", ()), inner, strict=True))
        known = self.codecs.get(kind.__name__)
        if known is not None and known.kind is not kind:
            raise TypeError(f"two classes of {self.estimator} are called {kind.__name__}")
        if known is None:
            codec = self.codecs[kind.__name__] = CODECS.get(kind) or record_codec(kind)
            for one in codec.hints.values():
                self._collect(one)


def _parts(hint: Hint) -> tuple[Any, tuple[Hint, ...]]:
    return get_origin(hint), get_args(hint)
