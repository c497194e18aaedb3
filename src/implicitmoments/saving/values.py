"""Conversion of values to tagged JSON and arrays, and back. Only declared classes are built."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any

import array_api_compat
import numpy as np

from implicitmoments.arrays import to_numpy
from implicitmoments.moments.circuit_rows import CircuitRows
from implicitmoments.moments.hermite_problem import FramedRows
from implicitmoments.notes import Notes
from implicitmoments.problems.activations import NAMED
from implicitmoments.saving.checks import ModelFileError, check_entries, expect
from implicitmoments.saving.declarations import Declaration, function_not_saved
from implicitmoments.saving.decoder import DTYPES, Arrays, Decoder, Json, layout_of, named


class Encoder:
    """Writes values, each object once."""

    def __init__(self, declaration: Declaration) -> None:
        self.objects: list[Json] = []  # their fields refer to earlier objects by number
        self.arrays: Arrays = {}  # by the path at which each was met first
        self._declaration = declaration
        self._known: dict[int, tuple[Any, Json]] = {}  # by identity; keeps the objects alive
        self._writers: dict[type, Callable[[Any, str], Json]] = {
            **dict.fromkeys((NoneType, bool, int, str), lambda value, _: value),
            **dict.fromkeys((FramedRows, CircuitRows), lambda *_: None),  # rows are not kept
            float: lambda value, _: value if math.isfinite(value) else {"float": repr(value)},
            list: self._items,
            Notes: lambda notes, path: {
                "notes": [[note.code, self.encode(dict(note.values), path)] for note in notes]
            },
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
        if isinstance(value, type) and issubclass(value, np.generic):
            return {"type": _check_entries(np.dtype(value), path)}
        if array_api_compat.is_array_api_obj(value):
            return self._array(value, path)
        for name, make in NAMED.items():
            if value is make:
                return {"maker": name}
        try:
            name, codec = self._declaration.codec_of(value)
            held = codec.fields(value)
        except KeyError:
            raise _not_saved(value).within("", attribute=path) from None
        except ModelFileError as error:
            raise error.within("", attribute=path) from error
        written = {key: self.encode(item, f"{path}.{key}") for key, item in held.items()}
        self.objects.append({"class": name, "fields": written})
        return {"object": len(self.objects) - 1}

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
        dtype = _check_entries(value.dtype, path)
        return {"scalar": dtype, "value": self.encode(value.item(), path)}

    def _array(self, value: Any, path: str) -> Json:
        array = to_numpy(value)
        if array.dtype == object and array.ndim == 1 and all(type(v) is str for v in array):
            return {"words": array.tolist()}  # names of features
        _check_entries(array.dtype, path)
        plain = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
        self.arrays[path] = plain.reshape(array.shape)  # an array without axes was given one
        layout = layout_of(array)
        return {"array": path} if layout is None else {"array": path, "layout": layout}


class ModelDecoder(Decoder):
    """Reads the values written by :class:`Encoder`."""

    def __init__(self, declaration: Declaration, objects: Json, arrays: Arrays) -> None:
        super().__init__(objects, arrays)
        self._declaration = declaration

    def maker(self, name: Json) -> Any:
        """Return a function of the library that makes an activation."""
        return named(NAMED, name)

    def build(self, name: Json, held: Json) -> Any:
        """Build an object of a declared class from encoded fields of the declared types."""
        codec = named(self._declaration.codecs, name, "unknown_class")
        expect(isinstance(held, dict) and set(held) == set(codec.hints), "wrong_fields", name)
        values = {key: self.decode(held[key]) for key in codec.hints}
        for key, hint in codec.hints.items():
            expect(self._declaration.matches(values[key], hint), "wrong_type", f"{name}.{key}")
        check_entries(values, codec.hints, f"{name}.")
        return codec.build(**values)


def _not_saved(value: Any) -> ModelFileError:
    if callable(value) and hasattr(value, "__qualname__"):
        return function_not_saved(value.__qualname__)
    return ModelFileError(
        "type_not_saved",
        "{attribute} is of type {type}, which model files do not hold; use numbers, strings, "
        "arrays or collections of them",
        type=type(value).__name__,
    )


def _check_entries(dtype: np.dtype[Any], path: str) -> str:
    if dtype.name not in DTYPES:
        raise ModelFileError(
            "dtype_not_saved",
            "{attribute} has entries of type {dtype}, and model files hold numbers; convert it to "
            "float64",
            attribute=path,
            dtype=str(dtype),
        )
    return dtype.name
