"""Conversion of values to tagged JSON and arrays, and back. Only declared classes are built."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any, TypeAlias, cast

import array_api_compat
import numpy as np

from implicitmoments.arrays import to_numpy
from implicitmoments.moments.circuit_rows import CircuitRows
from implicitmoments.moments.hermite_problem import FramedRows
from implicitmoments.notes import Note, Notes
from implicitmoments.problems.activations import NAMED
from implicitmoments.saving.declarations import (
    Declaration,
    ModelFileError,
    expect,
    function_not_saved,
)

Json: TypeAlias = Any
Arrays: TypeAlias = dict[str, np.ndarray[Any, Any]]

# Types of array entries and of NumPy's scalars.
DTYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
)
# Limits on what a file can make its reader do. Integers can be chosen to collide in a dict.
MAX_AXES = 16  # each may add half to the memory of an array, for gaps
MAX_OBJECTS = 10_000
MAX_KEYS = 1_000  # of a dict whose keys are not strings
FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}  # not in JSON


def layout_of(array: np.ndarray[Any, Any]) -> list[int] | None:
    """Return strides, in entries, with the same gaps; None for C order without gaps.

    The last digits of a product depend on how its factors lie in memory.
    """
    if array.flags.c_contiguous:
        return None
    return _narrow(array.shape, [stride // array.itemsize for stride in array.strides])


def apply_layout(array: np.ndarray[Any, Any], layout: Any) -> np.ndarray[Any, Any]:
    """Return a copy of an array with a layout, as :func:`layout_of` gives it."""
    if layout is None:
        return array.astype(array.dtype.newbyteorder("="), order="C", copy=True)
    valid = isinstance(layout, list) and all(type(stride) is int for stride in layout)
    valid = valid and array.size > 0 and 0 < array.ndim == len(layout) <= MAX_AXES
    # one that is its own narrowest form has no overlaps, and takes little more than the array
    valid = valid and layout == _narrow(array.shape, layout)
    expect(valid, "invalid_layout", f"{layout} of an array of shape {array.shape}")
    last = sum((n - 1) * abs(stride) for n, stride in zip(array.shape, layout, strict=True))
    dtype = array.dtype.newbyteorder("=")
    strides = [abs(stride) * dtype.itemsize for stride in layout]
    made = np.ndarray(array.shape, dtype, np.zeros(last + 1, dtype), 0, strides)
    made = made[tuple(slice(None, None, 1 if stride > 0 else -1) for stride in layout)]
    made[...] = array
    return made


def _narrow(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Return strides of the same order and signs, in which gaps have one entry."""
    narrow = [1 if stride == 1 else 2 for stride in strides]
    long = [axis for axis, n in enumerate(shape) if n > 1]
    fast: int | None = None
    for axis in sorted(long, key=lambda axis: abs(strides[axis])):
        own = abs(strides[axis])
        if fast is None:
            narrow[axis] = 1 if own == 1 else 2
        else:
            joined = own == shape[fast] * abs(strides[fast])
            narrow[axis] = shape[fast] * narrow[fast] + (not joined)
        fast = axis
    signs = (-1 if stride < 0 and n > 1 else 1 for stride, n in zip(strides, shape, strict=True))
    return [stride * sign for stride, sign in zip(narrow, signs, strict=True)]


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


class Decoder:
    """Reads the values written by :class:`Encoder`."""

    def __init__(self, declaration: Declaration, objects: Json, arrays: Arrays) -> None:
        self._declaration, self._arrays = declaration, arrays
        self._built: dict[str, tuple[np.ndarray[Any, Any], Json]] = {}  # with their layouts
        self._written, self._limit = _list(objects), len(_list(objects))
        self._objects: dict[int, Any] = {}
        self._readers: dict[str, Callable[[Json], Any]] = {
            "array": lambda name: self._array(name, None),
            "array layout": lambda parts: self._array(*parts),
            "dict": self._dict,
            "float": lambda name: _named(FLOATS, name),
            "maker": lambda name: _named(NAMED, name),
            "map": self._map,
            "notes": lambda pairs: Notes(self._note(*pair) for pair in _list(pairs)),
            "object": self._object,
            "range": lambda ends: range(*_list(ends)),
            "scalar value": self._scalar,
            "tuple": lambda items: tuple(map(self.decode, _list(items))),
            "type": lambda name: _dtype(name).type,
            "words": self._words,
        }
        expect(self._limit <= MAX_OBJECTS, "too_many_objects", self._limit)

    def decode(self, written: Json) -> Any:
        """Return the value that a JSON object encodes."""
        if isinstance(written, list):
            return [self.decode(item) for item in written]
        if not isinstance(written, dict):
            large = isinstance(written, float) and not math.isfinite(written)
            expect(not large, "number_out_of_range")
            return written
        tag, parts = " ".join(written), tuple(written.values())
        expect(tag in self._readers, "unknown_tag", tag)
        return self._readers[tag](parts[0] if len(parts) == 1 else parts)

    def check_all_used(self) -> None:
        """Raise if the file holds arrays or objects that nothing refers to."""
        unused = [name for name in self._arrays if name not in self._built]
        unused += [f"object {i}" for i in range(self._limit) if i not in self._objects]
        expect(not unused, "unused", next(iter(unused), ""))

    def _build(self, written: Json) -> Any:
        right = isinstance(written, dict) and set(written) == {"class", "fields"}
        expect(right, "invalid_object")
        name, held = written["class"], written["fields"]
        codec = _named(self._declaration.codecs, name, "unknown_class")
        expect(isinstance(held, dict) and set(held) == set(codec.hints), "wrong_fields", name)
        values = {key: self.decode(held[key]) for key in codec.hints}
        for key, hint in codec.hints.items():
            expect(self._declaration.matches(values[key], hint), "wrong_type", f"{name}.{key}")
        return codec.build(**values)

    def _object(self, number: Json) -> Any:
        # fields refer to earlier objects only, so that there are no cycles
        expect(type(number) is int and 0 <= number < self._limit, "no_such_object", number)
        if number not in self._objects:
            limit, self._limit = self._limit, number
            self._objects[number] = self._build(self._written[number])
            self._limit = limit
        return self._objects[number]

    def _array(self, name: Json, layout: Json) -> np.ndarray[Any, Any]:
        stored = _named(self._arrays, name)
        _dtype(stored.dtype.name)
        if name not in self._built:
            # a copy: the bytes of the file are read-only
            self._built[name] = apply_layout(stored, layout), layout
        array, known = self._built[name]
        expect(known == layout, "two_layouts", name)
        return array

    def _map(self, held: Json) -> dict[str, Any]:
        expect(isinstance(held, dict), "not_a_mapping", held)
        return {key: self.decode(value) for key, value in held.items()}

    def _dict(self, pairs: Json) -> dict[Any, Any]:
        expect(len(_list(pairs)) <= MAX_KEYS, "too_many_keys", len(pairs))
        built = {self.decode(key): self.decode(held) for key, held in pairs}
        expect(len(built) == len(pairs), "duplicate_key")
        return built

    def _note(self, code: Json, values: Json) -> Note:
        expect(isinstance(code, str), "invalid_note", code)
        held = self.decode(values)
        try:
            note = Note(code, held)
            note.sentence()
        except Exception:  # of a newer version, or with values that the sentence does not take
            return Note("unknown_note", {"code": code, "values": held})
        return note

    def _scalar(self, parts: tuple[Json, Json]) -> Any:
        dtype, value = _dtype(parts[0]), self.decode(parts[1])
        kind = {"b": bool, "f": float}.get(dtype.kind, int)
        expect(type(value) is kind, "invalid_scalar", value)
        return dtype.type(value)

    def _words(self, items: Json) -> np.ndarray[Any, Any]:
        expect(all(type(item) is str for item in _list(items)), "not_strings", items)
        array = np.empty(len(items), dtype=object)
        array[:] = items
        return array


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


def _dtype(name: Json) -> np.dtype[Any]:
    expect(name in DTYPES, "unknown_dtype", name)
    return np.dtype(name)


def _named(choices: Mapping[str, Any], name: Json, code: str = "no_such_name") -> Any:
    expect(isinstance(name, str) and name in choices, code, name)
    return choices[name]


def _list(written: Json) -> list[Any]:
    expect(isinstance(written, list), "not_a_list", written)
    return cast(list[Any], written)
