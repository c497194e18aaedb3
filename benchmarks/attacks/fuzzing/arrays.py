"""Hostile .npy files."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from attacks.fuzzing.changes import mutate_bytes, pick

__all__ = ["write_npy"]

MAGIC = b"\x93NUMPY"
DESCRIPTIONS: tuple[Any, ...] = (
    *("<f8", ">f4", "<f2", "<f16", "|b1", "<i8", ">u2", "|O", "|S3", "<U2", "<c16", "<M8[D]"),
    *("<m8", "|V8", "V0", "f", "float64,float64", "", "8", "<f3", "<f99999999", None, 8, b"<f8"),
    *([("a", "<f8"), ("b", "|O")], [("x", "<f8", (3,))], [], [("a",)], ("<f8", (2,)), {"x": 1}),
)
SHAPES: tuple[Any, ...] = (
    *((6, 2), (), (12,), (0, 2), (2, 0), (3, 2, 2), (-1, 2), (-6, -2), (6, -2), (10**12, 2)),
    *((10**30, 2), (2, 10**12), (2**63, 0), (2**32, 2**32), (True, 2), (6.0, 2), ("6", 2)),
    *([6, 2], 12, None, (1,) * 70, (6, (2,)), (2**62, 4)),
)
ORDERS: tuple[Any, ...] = (False, True, 0, 1, None, "C", [], 2)
EXPRESSIONS = (
    "__import__('os').system('touch ran')",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (6, 2), **{}}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': tuple(range(2))}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (2L, 2L), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (6, 2)} or exit()",
    "[x for x in (1).__class__.__base__.__subclasses__()]",
    "{'descr': '<f8', 'descr': '|O', 'fortran_order': False, 'shape': (6, 2)}",
    "{[]: 1}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "9" * 5_000 + ", 2)}",
    "(" * 300 + ")" * 300,
    "(" * 90 + ")" * 90,
    "-" * 9_000 + "1",
    "-~" * 4_000 + "1",
    "1" + "+1j" * 3_000,
    "1" + ".a" * 4_000,
    "lambda: 0",
    "f'{exit()}'",
    "'" * 3 + "a",
    "\\",
    "\x00",
    "{'descr': '\ud800'}",
    "é",
    "",
    " " * 9_990,
    "a" * 70_000,
)


@cache
def examples() -> tuple[bytes, ...]:
    """Return small files of several types, orders and versions."""
    x = np.random.default_rng(0).normal(size=(40, 3))
    written = []
    for array in (
        x,
        np.asfortranarray(x),
        x.astype("<f4"),
        x.astype(">f8"),
        x.astype("<i2"),
        x > 0,
    ):
        file = io.BytesIO()
        np.save(file, array)
        written.append(file.getvalue())
    for version in ((2, 0), (3, 0)):
        file = io.BytesIO()
        np.lib.format.write_array(file, x, version=version)
        written.append(file.getvalue())
    return tuple(written)


def write_npy(folder: Path, rng: np.random.Generator) -> tuple[str, Path]:
    """Write one hostile file; return what was done, and its path."""
    made: dict[str, Callable[[], bytes]] = {
        "bytes": lambda: mutate_bytes(pick(examples(), rng), rng),
        "first bytes": lambda: _mutate_front(pick(examples(), rng), rng),
        "header": lambda: _framed(repr(_fields(rng)), rng),
        "expression in the header": lambda: _framed(pick(EXPRESSIONS, rng), rng),
        "length of the header": lambda: _mutate_length(pick(examples(), rng), rng),
        "random": lambda: pick((b"", MAGIC), rng) + rng.bytes(int(rng.integers(0, 400))),
    }
    how = str(rng.choice(list(made)))
    path = folder / "rows.npy"
    path.write_bytes(made[how]())
    return how, path


def _mutate_front(data: bytes, rng: np.random.Generator) -> bytes:
    return mutate_bytes(data[:128], rng) + data[128:]


def _fields(rng: np.random.Generator) -> dict[Any, Any]:
    fields: dict[Any, Any] = {"descr": "<f8", "fortran_order": False, "shape": (6, 2)}
    choices: dict[Any, tuple[Any, ...]] = {
        "descr": DESCRIPTIONS,
        "shape": SHAPES,
        "fortran_order": ORDERS,
    }
    for name in rng.choice(list(choices), size=int(rng.integers(1, 3)), replace=False):
        fields[str(name)] = pick(choices[str(name)], rng)
    if rng.random() < 0.1:
        fields[pick(("more", 1, "Shape"), rng)] = 0
    if rng.random() < 0.1:
        del fields[pick(list(fields), rng)]
    return fields


def _framed(text: str, rng: np.random.Generator) -> bytes:
    """Put a header around some numbers, in one of the versions of the format."""
    version = int(rng.choice([1, 1, 2, 3, 4, 255]))
    header = text.encode("utf-8" if version > 2 else "latin1", "replace")
    n_bytes = 2 if version == 1 else 4
    room = 2 ** (8 * n_bytes)
    numbers = rng.bytes(96) if rng.random() < 0.2 else rng.normal(size=12).tobytes()
    frame: bytes = MAGIC + bytes([version, 0]) + (len(header) % room).to_bytes(n_bytes, "little")
    return frame + header + numbers


def _mutate_length(data: bytes, rng: np.random.Generator) -> bytes:
    length = int(pick((0, 1, 2**16 - 1, 2**31, 2**32 - 1, 4_000), rng))
    size = 2 if data[6] == 1 else 4
    stated: bytes = (length % 2 ** (8 * size)).to_bytes(size, "little")
    return data[:8] + stated + data[8 + size :]
