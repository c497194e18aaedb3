"""Opening the file of a journal: its lock, its header, and words about files that do not fit."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["ADVICE", "as_json", "clear_errors", "open_journal"]

APPLICATION, SCHEMA = 0x696D_6A6F, 1  # "imjo": tells a journal from other SQLite files
TABLES = """
CREATE TABLE header (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE passes (
    number INTEGER PRIMARY KEY, task TEXT NOT NULL, next_row INTEGER, arrays TEXT NOT NULL
);
CREATE TABLE contents (
    number INTEGER, place INTEGER, part INTEGER, bytes BLOB NOT NULL,
    PRIMARY KEY (number, place, part)
)
"""
ADVICE = "delete the file to start anew, or give another path"
PAGE_BYTES = 2**14  # large arrays are written faster than with SQLite's own 4,096
WORDS = 80  # characters of a value that a message shows


def open_journal(path: Path, header: Mapping[str, str]) -> sqlite3.Connection:
    """Open a file or make it, lock it for as long as it is open, and check that it fits.

    Parameters
    ----------
    path : Path
    header : mapping of str to str
        Names and JSON values. A file with others is refused by a ValueError.
    """
    folder = path.absolute().parent
    if not folder.is_dir():
        raise ValueError(f"the folder {folder} of the checkpoint does not exist; create it first")
    if path.is_dir():
        raise ValueError(f"the checkpoint {path} is a folder; give the path of a file")
    with clear_errors(path):
        file = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            _prepare(file, path, header)
        except BaseException:
            file.close()
            raise
    return file


@contextmanager
def clear_errors(path: Path, kind: type[Exception] = ValueError) -> Iterator[None]:
    """Say errors of SQLite in words about the checkpoint."""
    try:
        yield
    except sqlite3.ProgrammingError as reason:
        raise ValueError(f"the checkpoint {path} is closed; open it again") from reason
    except sqlite3.Error as reason:
        code = getattr(reason, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            words = "is in use by another fit; wait until that ends, or give another path"
        elif code == sqlite3.SQLITE_NOTADB:
            words = "is no checkpoint, or damaged; give another path, or delete it if it was one"
        elif code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
            words = f"is damaged ({reason}); {ADVICE}"
        else:
            words = f"cannot be written ({reason}); make room and allow it, or give another path"
        raise kind(f"the checkpoint {path} {words}") from reason


def as_json(name: str, value: Any) -> str:
    """Return a value of a header in JSON; equal values give equal words."""
    try:
        return json.dumps(value, sort_keys=True, default=_plain)
    except TypeError as reason:
        raise TypeError(
            f"{name} is {value!r}, and a checkpoint compares numbers, words, lists and mappings "
            "of them; describe it by these"
        ) from reason


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no JSON")


def _prepare(file: sqlite3.Connection, path: Path, header: Mapping[str, str]) -> None:
    # In this order: the lock is taken first, and nothing is written before the file is known.
    file.execute("PRAGMA locking_mode = EXCLUSIVE")
    tables = _number(file, "SELECT count(*) FROM sqlite_master")
    if tables or _number(file, "PRAGMA application_id"):
        _check_format(file, path)
        _check_header(file, path, header)
    file.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # of a new file
    # A log ahead of the file: after a crash a commit is there whole or not at all, and it need
    # not wait for the disk.
    file.execute("PRAGMA journal_mode = WAL")
    file.execute("PRAGMA synchronous = NORMAL")
    file.execute("BEGIN EXCLUSIVE")
    if not tables:
        for statement in TABLES.split(";"):
            file.execute(statement)
        file.executemany("INSERT INTO header VALUES (?, ?)", header.items())
        file.execute(f"PRAGMA application_id = {APPLICATION}")
        file.execute(f"PRAGMA user_version = {SCHEMA}")
    file.execute("COMMIT")


def _check_format(file: sqlite3.Connection, path: Path) -> None:
    if _number(file, "PRAGMA application_id") != APPLICATION:
        raise ValueError(f"{path} is a database and not a checkpoint; give another path")
    schema = _number(file, "PRAGMA user_version")
    if schema != SCHEMA:
        raise ValueError(
            f"the checkpoint {path} has format {schema}, and this version of implicitmoments "
            f"reads format {SCHEMA}; use the version that wrote it, {ADVICE}"
        )
    (state,) = file.execute("PRAGMA quick_check(1)").fetchone()
    if state != "ok":
        raise sqlite3.DatabaseError(" ".join(state.split()))


def _check_header(file: sqlite3.Connection, path: Path, header: Mapping[str, str]) -> None:
    had: dict[str, str] = dict(file.execute("SELECT name, value FROM header"))
    differ = [
        f"{name} was {_short(had.get(name))} and is {_short(header.get(name))}"
        for name in dict.fromkeys([*header, *had])
        if had.get(name) != header.get(name)
    ]
    if differ:
        raise ValueError(
            f"the checkpoint {path} belongs to another fit: {'; '.join(differ)}. "
            f"Give what was given then, {ADVICE}"
        )


def _number(file: sqlite3.Connection, question: str) -> int:
    return int(file.execute(question).fetchone()[0])


def _short(value: str | None) -> str:
    if value is None:
        return "not there"
    return value if len(value) <= WORDS else value[:WORDS] + "…"
