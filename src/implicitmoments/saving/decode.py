"""From JSON with tags and arrays back to values. Nothing but what is named here is built."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from implicitmoments.problems.activations import NAMED
from implicitmoments.saving.classes import FIELDS, RECORDS
from implicitmoments.saving.encode import DTYPES, Arrays, Json
from implicitmoments.saving.memory_layout import lay_out
from implicitmoments.saving.special import SPECIAL
from implicitmoments.saving.type_checks import matches

__all__ = ["Decoder"]

HINTS = {**FIELDS, **{name: how.hints for name, how in SPECIAL.items()}}
# Bounds on what a file can make its reader do. Whole numbers can be chosen to collide in a dict.
MOST_OBJECTS = 10_000
MOST_KEYS = 1_000  # of a mapping whose keys are not words
FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class Decoder:
    """Reads values; a ValueError says what a file holds that it should not.

    Parameters
    ----------
    objects : list
        As :class:`Encoder` writes them.
    arrays : dict of str to array
    """

    def __init__(self, objects: Json, arrays: Arrays) -> None:
        self._arrays, self._layouts = arrays, dict[str, Json]()
        self._built: dict[str, np.ndarray[Any, Any]] = {}
        self._objects: list[Any] = []
        self._used: set[int] = set()
        self._tags: dict[str, Callable[[Json], Any]] = {
            "array": lambda name: self._array(name, None),
            "array layout": lambda parts: self._array(*parts),
            "dict": self._dict,
            "float": lambda name: _named(FLOATS, name),
            "maker": lambda name: _named(NAMED, name),
            "map": self._map,
            "object": self._object,
            "range": lambda ends: range(*_list(ends)),
            "scalar value": self._scalar,
            "tuple": lambda items: tuple(map(self.decode, _list(items))),
            "type": lambda name: _dtype(name).type,
            "words": self._words,
        }
        if len(_list(objects)) > MOST_OBJECTS:
            raise ValueError(f"{len(objects)} objects are more than {MOST_OBJECTS}")
        for written in objects:
            self._objects.append(self._build(written))

    def decode(self, written: Json) -> Any:
        """Return the value of some JSON."""
        if isinstance(written, list):
            return [self.decode(item) for item in written]
        if isinstance(written, float) and not math.isfinite(written):
            raise ValueError("a number is out of range")
        if not isinstance(written, dict):
            return written
        tag, parts = " ".join(written), tuple(written.values())
        if tag not in self._tags:
            raise ValueError(f"the tag {tag[:40]!r} is not known")
        return self._tags[tag](parts[0] if len(parts) == 1 else parts)

    def check_all_used(self) -> None:
        """Raise if the file holds arrays or objects that nothing refers to."""
        unused = [name for name in self._arrays if name not in self._built]
        unused += [f"object {i}" for i in range(len(self._objects)) if i not in self._used]
        if unused:
            raise ValueError(f"nothing refers to {unused[0][:40]!r}")

    def _build(self, written: Json) -> Any:
        if not isinstance(written, dict) or set(written) != {"class", "fields"}:
            raise ValueError("an object has no class and fields")
        name, held = written["class"], written["fields"]
        if not isinstance(name, str) or name not in HINTS:
            raise ValueError(f"the class {str(name)[:40]!r} is not one that model files hold")
        hints = HINTS[name]
        if not isinstance(held, dict) or set(held) != set(hints):
            raise ValueError(f"{name} has not the fields {', '.join(hints)}")
        values = {key: self.decode(held[key]) for key in hints}
        for key, hint in hints.items():
            if not matches(values[key], hint):
                raise ValueError(f"{name}.{key} is of another type")
        return RECORDS[name](**values) if name in RECORDS else SPECIAL[name].build(values)

    def _object(self, number: Json) -> Any:
        # only to those before: there are no circles
        if type(number) is not int or not 0 <= number < len(self._objects):
            raise ValueError(f"there is no object {number!r} so far")
        self._used.add(number)
        return self._objects[number]

    def _array(self, name: Json, layout: Json) -> np.ndarray[Any, Any]:
        if not isinstance(name, str) or name not in self._built:
            # a copy, since what lies in a file cannot be written to and arrays can
            self._built[name] = lay_out(_named(self._arrays, name), layout)
            self._layouts[name] = layout
        if self._layouts[name] != layout:
            raise ValueError(f"the array {name[:40]!r} has two layouts")
        return self._built[name]

    def _map(self, held: Json) -> dict[str, Any]:
        if not isinstance(held, dict):
            raise ValueError(f"a mapping is expected where there is a {type(held).__name__}")
        return {key: self.decode(value) for key, value in held.items()}

    def _dict(self, pairs: Json) -> dict[Any, Any]:
        if len(_list(pairs)) > MOST_KEYS:
            raise ValueError(f"a mapping of {len(pairs)} numbers is too large")
        decoded = [(self.decode(key), self.decode(held)) for key, held in pairs]
        built = dict(decoded)
        if len(built) < len(decoded):
            raise ValueError("a key stands twice in a mapping")
        return built

    def _scalar(self, parts: tuple[Json, Json]) -> Any:
        dtype, value = _dtype(parts[0]), self.decode(parts[1])
        kinds = {"b": bool, "f": float}
        if type(value) is not kinds.get(dtype.kind, int):
            raise ValueError(f"a number of type {dtype} is a {type(value).__name__}")
        return dtype.type(value)

    def _words(self, items: Json) -> np.ndarray[Any, Any]:
        if not all(type(item) is str for item in _list(items)):
            raise ValueError("words are something else")
        array = np.empty(len(items), dtype=object)
        array[:] = items
        return array


def _dtype(name: Json) -> np.dtype[Any]:
    if name not in DTYPES:
        raise ValueError(f"the type {name!r} is not one of a number")
    return np.dtype(name)


def _named(choices: Mapping[str, Any], name: Json) -> Any:
    if not isinstance(name, str) or name not in choices:
        raise ValueError(f"there is no {str(name)[:40]!r} to refer to")
    return choices[name]


def _list(written: Json) -> list[Any]:
    if not isinstance(written, list):
        raise ValueError(f"a list is expected where there is a {type(written).__name__}")
    return written
