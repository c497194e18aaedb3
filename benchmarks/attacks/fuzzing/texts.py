"""Hostile CSV files."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np

from attacks.fuzzing.changes import mutate_bytes, pick

__all__ = ["write_csv"]

CELLS = (
    *("1", "2.5", "-3e4", "0", "", " ", "nan", "NaN", "NULL", "None", "inf", "-1e300", "1e999"),
    *("9" * 400, "0x10", "1_000", "1,5", '"1"', '"', '""', '"1', "1\x00", "\x00", "true", "False"),
    *("2020-01-01", "2020-01-01T00:00:00.123456789Z", "99999-12-31", "12:00:00", "1e-400", "٣"),
    *("é", "\u202e", "\ufeff", "=cmd()", "$(touch ran)", "1;2", "1\t2", "'1'", "+1", ".5", "5."),
    *("a" * 3_000, "0001-01-01", "9999-12-31 23:59:59", "1e", "--1", "1 2", "\\N", "#1"),
)
NAMES = ("a", "b", "c", "a", "", "1", "0", "é", '"x"', '"x', "\x00", "inf", "a" * 999, " a", "y")
ENDS = ("\n", "\r\n", "\r", "\n\n", "\n\r")
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "latin1", "cp500", "utf-7")
SUFFIXES = (".csv", ".csv", ".csv", ".tsv", ".csv.gz", ".tsv.gz")


def write_csv(folder: Path, rng: np.random.Generator) -> tuple[str, Path]:
    """Write one hostile file; return what was done, and its path."""
    suffix = str(rng.choice(SUFFIXES))
    made: dict[str, Callable[[], bytes]] = {
        "bytes": lambda: mutate_bytes(_encode(_numbers(rng)), rng),
        "cells": lambda: _encode(_with_cells(rng)),
        "ragged rows": lambda: _encode(_ragged(rng)),
        "quotes and ends of lines": lambda: _encode(_marked(rng)),
        "names": lambda: _encode(_named(rng)),
        "encodings": lambda: _encode(_named(rng) + "é,ü\n", str(rng.choice(ENCODINGS))),
        "long lines": lambda: _encode(_long(rng)),
        "random": lambda: rng.bytes(int(rng.integers(0, 2_000))),
    }
    how = str(rng.choice(list(made)))
    data = made[how]()
    if suffix.startswith(".tsv"):
        data = data.replace(b",", b"\t")
    if suffix.endswith(".gz"):
        data = gzip.compress(data, 1, mtime=0)
        data = mutate_bytes(data, rng) if rng.random() < 0.5 else data
    path = folder / f"rows{suffix}"
    path.write_bytes(data)
    return how, path


def _encode(text: str, encoding: str = "utf-8") -> bytes:
    return text.encode(encoding, "replace")


def _table(rng: np.random.Generator, names: str = "a,b,c,d") -> list[list[str]]:
    width = int(rng.integers(1, 5)) if rng.random() < 0.3 else 3
    n_rows = int(rng.integers(0, 30)) if rng.random() < 0.9 else 3_000
    cells = rng.normal(size=(n_rows, width)).round(3)
    return [names.split(",")[:width], *([str(cell) for cell in row] for row in cells.tolist())]


def _joined(rows: list[list[str]]) -> str:
    return "".join(",".join(row) + "\n" for row in rows)


def _numbers(rng: np.random.Generator) -> str:
    return _joined(_table(rng))


def _with_cells(rng: np.random.Generator) -> str:
    rows = _table(rng)
    for _ in range(int(rng.integers(1, 5))):
        row = pick(rows, rng)
        row[int(rng.integers(len(row)))] = pick(CELLS, rng)
    if rng.random() < 0.2:  # a column of one kind
        cell, at = pick(CELLS, rng), int(rng.integers(len(rows[0])))
        for row in rows[1:]:
            row[at : at + 1] = [cell]
    return _joined(rows)


def _ragged(rng: np.random.Generator) -> str:
    rows = _table(rng)
    for _ in range(int(rng.integers(1, 4))):
        row = pick(rows, rng)
        if rng.random() < 0.5:
            row.extend(["1"] * int(rng.integers(1, 4)))
        else:
            del row[int(rng.integers(len(row) or 1)) :]
    return _joined(rows)


def _marked(rng: np.random.Generator) -> str:
    text = _joined(_table(rng)).replace("\n", pick(ENDS, rng))
    for _ in range(int(rng.integers(1, 6))):
        place = int(rng.integers(len(text) + 1))
        text = (
            text[:place]
            + pick(('"', '""', "\\", "\r", "\n", "\x00", ",", "'"), rng)
            + text[place:]
        )
    return text


def _named(rng: np.random.Generator) -> str:
    rows = _table(rng)
    rows[0] = [pick(NAMES, rng) for _ in rows[0]]
    return _joined(rows if rng.random() < 0.8 else rows[:1])


def _long(rng: np.random.Generator) -> str:
    """Write a line longer than what is read at a time, or very many columns."""
    kind, size = int(rng.integers(5)), int(rng.choice([1_000, 20_000, 3 * 2**20]))
    if kind == 0:
        return "a,b\n1," + "9" * size + "\n"
    if kind == 1:
        return "a" * size + ",b\n1,2\n"
    if kind == 2:
        return 'a,b\n1,"' + "x\n" * (size // 2)
    if kind == 3:
        return "1,2\n" + "\n" * size + "3,4\n"
    width = {1_000: 1_000, 20_000: 8_000}.get(size, 200_000)
    names = [f"c{i}" for i in range(width)] if rng.random() < 0.5 else ["1.5"] * width
    return ",".join(names) + "\n" + ",".join(["1"] * width) + "\n"
