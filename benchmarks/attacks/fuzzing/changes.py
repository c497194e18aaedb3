"""Mutations of a file: bytes, integers and JSON documents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

__all__ = ["NUMBERS", "mutate_bytes", "mutate_json", "mutate_words", "pick", "spots"]

NUMBERS = (0, 1, -1, 7, 17, 255, 2**16, 10**6, 2**31 - 1, -(2**31), 2**40, 10**12, 2**62, -(2**63))


def pick(values: Sequence[Any], rng: np.random.Generator) -> Any:
    """Return one of some values."""
    return values[int(rng.integers(len(values)))]


def mutate_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Change, cut, repeat, insert or drop a few bytes."""
    changed = bytearray(data)
    n_changes = int(rng.integers(1, 4))
    while n_changes > 0 or changed == data:
        n_changes -= 1
        place = int(rng.integers(len(changed) + 1))
        length = int(rng.integers(1, 9)) if rng.random() < 0.8 else int(rng.integers(1, 3000))
        kind = rng.choice(6, p=[0.1, 0.1, 0.1, 0.1, 0.2, 0.4])
        if kind == 0:
            del changed[place:]
        elif kind == 1:
            del changed[place : place + length]
        elif kind == 2:
            changed[place:place] = rng.bytes(length)
        elif kind == 3:
            changed[place:place] = changed[place : place + length]
        elif kind == 4:
            changed[place : place + length] = rng.bytes(length)
        else:  # one letter, which is likelier to leave words that can be read
            changed[place : place + 1] = bytes([int(rng.integers(32, 127))])
    return bytes(changed)


def mutate_words(data: bytes, rng: np.random.Generator, old: int | None = None) -> bytes:
    """Write other whole numbers into some places, of 4 or 8 bytes, that hold ``old`` or any."""
    changed, size = bytearray(data), int(rng.choice([4, 8]))
    changed += bytes(max(0, size - len(data)))
    places = range(0, len(changed) - size + 1, 4)
    if old is not None:
        word = old.to_bytes(size, "little")
        share = rng.choice([0.3, 1.0])
        chosen = [i for i in places if data[i : i + size] == word and rng.random() < share]
    else:
        chosen = [int(i) for i in rng.choice(places, size=int(rng.integers(1, 4)))]
    new = int(pick(NUMBERS, rng)) % 2 ** (8 * size)
    for i in chosen:
        changed[i : i + size] = new.to_bytes(size, "little")
    return bytes(changed)


def mutate_json(
    root: Any, rng: np.random.Generator, hostile: Sequence[Any], names: Sequence[str]
) -> Any:
    """Change a few places of a document, by values that are hostile and other names."""
    for _ in range(int(rng.integers(1, 4))):
        places = list(spots(root))
        if not places:
            break
        holder, key = pick(places, rng)
        kind = rng.integers(6)
        if kind == 0 and isinstance(holder, dict):
            holder[str(rng.choice(names))] = holder.pop(key)
        elif kind == 1:
            del holder[key]
        elif kind == 2:
            other, name = pick(places, rng)
            holder[key] = json.loads(json.dumps(other[name])) if _has(other, name) else None
        elif kind == 3 and isinstance(holder[key], int | float):
            holder[key] = int(rng.integers(-3, 3)) if rng.random() < 0.5 else float(rng.normal())
        else:
            holder[key] = json.loads(json.dumps(pick(hostile, rng)))
    return root


def _has(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else key < len(holder)


def spots(root: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place of a document: what holds a value, and its name or number there."""
    keys = list(root) if isinstance(root, dict) else range(len(root))
    for key in keys:
        yield root, key
        if isinstance(root[key], dict | list):
            yield from spots(root[key])
