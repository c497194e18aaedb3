"""Values as JSON with tags, and arrays beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from types import NoneType
from typing import Any, TypeAlias

import array_api_compat
import numpy as np

from implicitmoments.arrays import to_numpy
from implicitmoments.moments.passes import View
from implicitmoments.problems.activations import NAMED
from implicitmoments.saving.classes import NAMES
from implicitmoments.saving.errors import ModelFileError
from implicitmoments.saving.memory_layout import layout_of
from implicitmoments.saving.special import SPECIAL, special_name

__all__ = ["DTYPES", "Encoder", "Json"]

Json: TypeAlias = Any
Arrays: TypeAlias = dict[str, np.ndarray[Any, Any]]

# Entries of arrays, and NumPy's numbers, that are kept.
DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)


class Encoder:
    """Writes values down, each object once.

    Attributes
    ----------
    objects : list
        Records and other objects; fields refer to those before by their number.
    arrays : dict of str to array
        By the path at which each was met first.
    """

    def __init__(self) -> None:
        self.objects: list[Json] = []
        self.arrays: Arrays = {}
        self._known: dict[int, tuple[Any, Json]] = {}  # by identity; holds what it knows
        self._writers: dict[type, Callable[[Any, str], Json]] = {
            **dict.fromkeys((NoneType, bool, int, str), lambda value, _: value),
            View: lambda *_: None,  # of rows, which are not kept
            float: lambda value, _: value if math.isfinite(value) else {"float": repr(value)},
            list: self._items,
            range: lambda value, _: {"range": [value.start, value.stop, value.step]},
            tuple: lambda value, path: {"tuple": self._items(value, path)},
        }

    def encode(self, value: Any, path: str) -> Json:
        """Return the JSON of a value; ``path`` names it in errors."""
        write = self._writers.get(type(value))
        if write is not None:
            return write(value, path)
        if isinstance(value, np.generic):
            return self._scalar(value, path)
        if isinstance(value, Mapping):
            return self._mapping(value, path)
        if id(value) not in self._known:
            self._known[id(value)] = value, self._object(value, path)
        return self._known[id(value)][1]

    def _object(self, value: Any, path: str) -> Json:
        if isinstance(value, type):
            if not issubclass(value, np.generic):
                raise ModelFileError(f"the model cannot be saved: {path} is the class {value}")
            self._check_entries(np.dtype(value), path)
            return {"type": np.dtype(value).name}
        if array_api_compat.is_array_api_obj(value):
            return self._array(value, path)
        for name, make in NAMED.items():
            if value is make:
                return {"maker": name}
        name, held = self._take_apart(value, path)
        written = {key: self.encode(held[key], f"{path}.{key}") for key in held}
        self.objects.append({"class": name, "fields": written})
        return {"object": len(self.objects) - 1}

    def _take_apart(self, value: Any, path: str) -> tuple[str, dict[str, Any]]:
        if type(value) in NAMES:
            return NAMES[type(value)], {f.name: getattr(value, f.name) for f in fields(value)}
        name = special_name(value)
        if name is not None:
            try:
                return name, SPECIAL[name].take(value)
            except ValueError as reason:
                raise ModelFileError(f"the model cannot be saved: {path} {reason}") from reason
        if callable(value) and hasattr(value, "__qualname__"):
            raise ModelFileError(
                f"the model cannot be saved: {path} is the function {value.__qualname__}, and a "
                f"model file holds no code; use one of {', '.join(map(repr, NAMED))} or "
                "cosine(frequency, phase), or keep the script that fits the model"
            )
        raise ModelFileError(
            f"the model cannot be saved: {path} is of type {type(value).__name__}, which model "
            "files do not keep; set it to numbers, words, arrays or collections of them"
        )

    def _items(self, values: Any, path: str) -> list[Json]:
        return [self.encode(value, f"{path}[{i}]") for i, value in enumerate(values)]

    def _mapping(self, value: Mapping[Any, Any], path: str) -> Json:
        pairs = [(key, self.encode(held, f"{path}[{key!r}]")) for key, held in value.items()]
        if all(type(key) is str for key in value):
            return {"map": dict(pairs)}
        return {"dict": [[self.encode(key, f"a key of {path}"), held] for key, held in pairs]}

    def _scalar(self, value: np.generic, path: str) -> Json:
        if isinstance(value, np.str_):
            return str(value)
        self._check_entries(value.dtype, path)
        return {"scalar": value.dtype.name, "value": self.encode(value.item(), path)}

    def _array(self, value: Any, path: str) -> Json:
        array = to_numpy(value)
        if array.dtype == object and array.ndim == 1 and all(type(v) is str for v in array):
            return {"words": array.tolist()}  # names of features
        self._check_entries(array.dtype, path)
        plain = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
        self.arrays[path] = plain.reshape(array.shape)  # an array without axes was given one
        layout = layout_of(array)
        return {"array": path} if layout is None else {"array": path, "layout": layout}

    def _check_entries(self, dtype: np.dtype[Any], path: str) -> None:
        if dtype.name not in DTYPES:
            raise ModelFileError(
                f"the model cannot be saved: {path} holds entries of type {dtype}, and a model "
                "file keeps numbers; convert it to float64"
            )
