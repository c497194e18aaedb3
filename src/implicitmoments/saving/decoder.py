"""Values from tagged JSON and arrays. Objects are records of their fields, and have no methods."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

import numpy as np

from implicitmoments.notes import Note, Notes
from implicitmoments.saving.checks import expect

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


class Record(SimpleNamespace):
    """The fields of an object whose class is not imported."""

    def __init__(self, name: str, fields: Mapping[str, Any]) -> None:
        super().__init__(**fields)
        self._name = name

    def __repr__(self) -> str:
        held = (f"{key}={value!r}" for key, value in vars(self).items() if key != "_name")
        return f"{self._name}({', '.join(held)})"


class Decoder:
    """Reads values; a subclass says what objects are built."""

    def __init__(self, objects: Json, arrays: Arrays) -> None:
        self._arrays = arrays
        self._built: dict[str, tuple[np.ndarray[Any, Any], Json]] = {}  # with their layouts
        self._written, self._limit = _list(objects), len(_list(objects))
        self._objects: dict[int, Any] = {}
        self._readers: dict[str, Callable[[Json], Any]] = {
            "array": lambda name: self._array(name, None),
            "array layout": lambda parts: self._array(*parts),
            "dict": self._dict,
            "float": lambda name: named(FLOATS, name),
            "maker": self.maker,
            "map": self._map,
            "notes": lambda pairs: Notes(self._note(*pair) for pair in _list(pairs)),
            "object": self._object,
            "range": lambda ends: range(*_list(ends)),
            "scalar value": self._scalar,
            "tuple": lambda items: tuple(map(self.decode, _list(items))),
            "type": lambda name: dtype_of(name).type,
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

    def maker(self, name: Json) -> Any:
        """Return a function of the library that makes an activation, here its name."""
        return name

    def build(self, name: Json, held: Json) -> Any:
        """Return the object of a class with encoded fields."""
        return Record(name, self._map(held))

    def _build(self, written: Json) -> Any:
        right = isinstance(written, dict) and set(written) == {"class", "fields"}
        expect(right, "invalid_object")
        name, held = written["class"], written["fields"]
        return self.build(name, held)

    def _object(self, number: Json) -> Any:
        # fields refer to earlier objects only, so that there are no cycles
        expect(type(number) is int and 0 <= number < self._limit, "no_such_object", number)
        if number not in self._objects:
            limit, self._limit = self._limit, number
            self._objects[number] = self._build(self._written[number])
            self._limit = limit
        return self._objects[number]

    def _array(self, name: Json, layout: Json) -> np.ndarray[Any, Any]:
        stored = named(self._arrays, name)
        dtype_of(stored.dtype.name)
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
        dtype, value = dtype_of(parts[0]), self.decode(parts[1])
        kind = {"b": bool, "f": float}.get(dtype.kind, int)
        expect(type(value) is kind, "invalid_scalar", value)
        return dtype.type(value)

    def _words(self, items: Json) -> np.ndarray[Any, Any]:
        expect(all(type(item) is str for item in _list(items)), "not_strings", items)
        array = np.empty(len(items), dtype=object)
        array[:] = items
        return array


def dtype_of(name: Json) -> np.dtype[Any]:
    """Return the type of entries by its name."""
    expect(name in DTYPES, "unknown_dtype", name)
    return np.dtype(name)


def named(choices: Mapping[str, Any], name: Json, code: str = "no_such_name") -> Any:
    """Return a choice by its name; the code is the reason if there is none."""
    expect(isinstance(name, str) and name in choices, code, name)
    return choices[name]


def _list(written: Json) -> list[Any]:
    expect(isinstance(written, list), "not_a_list", written)
    return cast(list[Any], written)
