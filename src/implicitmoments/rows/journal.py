"""A journal: finished passes, and the sums of the current one, in an SQLite file."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any, Self

import array_api_compat
import numpy as np

from implicitmoments.arrays import Array, namespace_of, to_numpy
from implicitmoments.notes import CodedError, InputError, InputTypeError
from implicitmoments.rows.files.errors import UnreadableError
from implicitmoments.rows.fold import Sums

APPLICATION, SCHEMA = 0x696D_6A6F, 2  # "imjo": tells a journal from other SQLite files
TABLES = """
CREATE TABLE header (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE passes (number INTEGER PRIMARY KEY, task TEXT NOT NULL, next_row INTEGER);
CREATE TABLE arrays (
    number INTEGER, part INTEGER, name TEXT NOT NULL, kind TEXT NOT NULL, axes TEXT NOT NULL,
    crc INTEGER NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (number, part)
)
"""
PAGE_BYTES = 2**14  # large arrays are written faster than with SQLite's own 4,096
PART_BYTES = 2**20  # in a cell of SQLite, which holds less than 1 GB
SHOWN = 80  # characters of a value in a message
# Partial sums take at most 1/20 of the time, unless they have waited for 100 times ``every``.
SHARE, PATIENCE = 20, 100

ANOTHER = "delete the file to start again, or give another path"
TEMPLATES = {
    "checkpoint_no_folder": "the folder {folder} of the checkpoint does not exist; create it",
    "checkpoint_is_folder": "the checkpoint {path} is a folder; give the path of a file",
    "checkpoint_closed": "the checkpoint {path} is closed; open it again",
    "checkpoint_in_use": "the checkpoint {path} is in use by another fit; wait until that ends, "
    "or give another path",
    "checkpoint_not_one": "{path} is not a checkpoint, or damaged; give another path, or delete "
    "it if it was one",
    "checkpoint_damaged": "the checkpoint {path} is damaged ({reason}); " + ANOTHER,
    "checkpoint_unwritable": "the checkpoint {path} cannot be written ({reason}); make room and "
    "allow it, or give another path",
    "checkpoint_format": "the checkpoint {path} has format {found}, and this version of "
    "implicitmoments reads format {known}; " + ANOTHER,
    "checkpoint_of_another_fit": "the checkpoint {path} belongs to another fit: {words}. Use the "
    "same parameters and rows, " + ANOTHER,
}
SQLITE_CODES = {
    sqlite3.SQLITE_BUSY: "checkpoint_in_use",
    sqlite3.SQLITE_LOCKED: "checkpoint_in_use",
    sqlite3.SQLITE_NOTADB: "checkpoint_not_one",
    sqlite3.SQLITE_CORRUPT: "checkpoint_damaged",
    sqlite3.SQLITE_ERROR: "checkpoint_damaged",
}


def _refusal(code: str, path: Path, **values: Any) -> InputError:
    return InputError(code, TEMPLATES[code], path=str(path), **values)


class Journal:
    """A file that keeps the passes of one fit.

    One process at a time may open it; the lock ends with the process, however it ends.

    Parameters
    ----------
    path : str or path
        Created if it does not exist.
    fingerprint : mapping of str to JSON values
        What the passes depend on: parameters, seeds, sizes, a digest of rows. A file with another
        fingerprint is refused.
    every : float, default 5.0
        Seconds after which the sums of an unfinished pass are kept again.

    Examples
    --------
    What estimators do with ``checkpoint=path``:

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from implicitmoments.rows import ArraySource, Journal, JournaledSource
    >>> path = Path(tempfile.mkdtemp()) / "passes"
    >>> calls = []
    >>> def measure(block, rows):
    ...     calls.append(rows)
    ...     return {"sum": block["x"].sum(axis=0)}
    >>> for _ in range(2):
    ...     with Journal(path) as journal:
    ...         source = JournaledSource(ArraySource(np.ones((6, 2))), journal)
    ...         sums = source.fold(measure, range(6), 3, what="sums")
    >>> sums["sum"].tolist(), len(calls)  # the second pass was answered from the file
    ([6.0, 6.0], 2)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fingerprint: Mapping[str, Any] | None = None,
        *,
        every: float = 5.0,
    ) -> None:
        if not every >= 0:
            raise InputError("out_of_range", "`every={every}` must be at least 0 s", every=every)
        self.path, self.every = Path(path), every
        self._numbers, self._saved, self._cost = count(), time.monotonic(), 0.0
        given = {"implicitmoments": version("implicitmoments"), **(fingerprint or {})}
        header = {name: _as_json(name, value) for name, value in given.items()}
        folder = self.path.absolute().parent
        if not folder.is_dir():
            raise _refusal("checkpoint_no_folder", self.path, folder=str(folder))
        if self.path.is_dir():
            raise _refusal("checkpoint_is_folder", self.path)
        how: dict[str, Any] = {"isolation_level": "EXCLUSIVE", "check_same_thread": False}
        with self._sqlite_errors(InputError):
            self._file = sqlite3.connect(self.path, timeout=0, **how)
            try:
                self._prepare(header)
                (self._end,) = self._one("SELECT ifnull(max(number) + 1, 0) FROM passes")
            except BaseException:
                self._file.close()
                raise

    def number(self) -> int:
        """Return the number of the next pass, from 0 on."""
        return next(self._numbers)

    def recall(
        self, number: int, task: str, like: Callable[[], Array]
    ) -> tuple[Sums, int | None] | None:
        """Return the sums of a pass and the first row that is not in them, or None.

        There is no such row if the pass is finished. If the pass of that number had another task,
        it is deleted, and those after it. ``like`` returns an array of the library and on the
        device of the rows.
        """
        if number >= self._end:
            return None
        with self._sqlite_errors(InputError):
            found = self._one("SELECT task, next_row FROM passes WHERE number = ?", number)
            if found is not None and found[0] != task:
                with self._file:
                    self._delete("number >= ?", number)
                self._end, found = number, None
            if found is None:
                return None
            contents: dict[tuple[str, str, str, int], bytearray] = {}
            rows = "SELECT name, kind, axes, crc, bytes FROM arrays WHERE number = ? ORDER BY part"
            for *about, part in self._file.execute(rows, (number,)):
                contents.setdefault(tuple(about), bytearray()).extend(part)
        try:
            sums = {}
            for (name, kind, axes, crc), content in contents.items():
                if zlib.crc32(content) != crc:
                    raise ValueError(f"the checksum of {name!r} does not fit")
                sums[name] = _unpack(kind, axes, content, like)
        except (TypeError, ValueError) as reason:
            raise _refusal("checkpoint_damaged", self.path, reason=str(reason)) from reason
        return sums, found[1]

    def keep(
        self, number: int, task: str, sums: Mapping[str, Array], next_row: int | None = None
    ) -> None:
        """Store the sums of a pass durably, replacing earlier ones.

        ``next_row`` is the first row that is not in the sums of an unfinished pass.
        """
        start, part = time.monotonic(), count()
        packed = {name: _pack(name, value) for name, value in sums.items()}
        with self._sqlite_errors(UnreadableError), self._file:
            if number < self._end:
                self._delete("number = ?", number)
            self._file.execute("INSERT INTO passes VALUES (?, ?, ?)", (number, task, next_row))
            for name, (kind, axes, content) in packed.items():
                crc = zlib.crc32(content)
                for first in range(0, len(content), PART_BYTES):
                    cell = content[first : first + PART_BYTES]
                    row = (number, next(part), name, kind, axes, crc, cell)
                    self._file.execute("INSERT INTO arrays VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        self._end, self._saved = max(self._end, number + 1), time.monotonic()
        self._cost = self._saved - start

    def due(self) -> bool:
        """Return whether the sums of an unfinished pass are due to be stored."""
        wait = max(self.every, min(SHARE * self._cost, PATIENCE * self.every))
        return time.monotonic() - self._saved >= wait

    def remember(self, name: str, value: Any) -> Any:
        """Return the value kept under a name, or keep this one: a seed, for example."""
        with self._sqlite_errors(UnreadableError), self._file:
            found = self._one("SELECT value FROM settings WHERE name = ?", name)
            if found is None:
                found = (_as_json(name, value),)
                self._file.execute("INSERT INTO settings VALUES (?, ?)", (name, *found))
            return json.loads(found[0])

    def close(self) -> None:
        """Release the lock."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _prepare(self, header: Mapping[str, str]) -> None:
        """Lock the file, create its tables or check that its header is this one."""
        # In this order: the lock is taken first, and nothing is written before the file is known.
        file = self._file
        file.execute("PRAGMA locking_mode = EXCLUSIVE")
        (n_tables,) = self._one("SELECT count(*) FROM sqlite_master")
        (application,) = self._one("PRAGMA application_id")
        if n_tables or application:
            (schema,) = self._one("PRAGMA user_version")
            if application != APPLICATION:
                raise _refusal("checkpoint_not_one", self.path)
            if schema != SCHEMA:
                raise _refusal("checkpoint_format", self.path, found=schema, known=SCHEMA)
            (state,) = self._one("PRAGMA quick_check(1)")
            if state != "ok":
                raise sqlite3.DatabaseError(state)
            self._check_header(header)
        file.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # of a new file
        # A log ahead of the file: after a crash a commit is complete or absent, and need not wait
        # for the disk.
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("PRAGMA synchronous = NORMAL")
        with file:
            file.execute("BEGIN EXCLUSIVE")
            if not n_tables:
                for statement in TABLES.split(";"):
                    file.execute(statement)
                file.executemany("INSERT INTO header VALUES (?, ?)", header.items())
                file.execute(f"PRAGMA application_id = {APPLICATION}")
                file.execute(f"PRAGMA user_version = {SCHEMA}")

    def _check_header(self, header: Mapping[str, str]) -> None:
        had: dict[str, str] = dict(self._file.execute("SELECT name, value FROM header"))
        differences = {}
        for name in dict.fromkeys([*header, *had]):
            both = [values.get(name, "absent") for values in (had, header)]
            if both[0] != both[1]:
                differences[name] = [v if len(v) <= SHOWN else v[:SHOWN] + "…" for v in both]
        if differences:
            words = "; ".join(f"{n} was {a} and is {b}" for n, (a, b) in differences.items())
            about = {"differences": differences, "words": words}
            raise _refusal("checkpoint_of_another_fit", self.path, **about)

    def _one(self, question: str, *values: Any) -> Any:
        return self._file.execute(question, values).fetchone()

    def _delete(self, which: str, number: int) -> None:
        for table in ("passes", "arrays"):
            self._file.execute(f"DELETE FROM {table} WHERE {which}", (number,))

    @contextmanager
    def _sqlite_errors(self, kind: type[CodedError]) -> Iterator[None]:
        """Raise errors of SQLite as errors about the checkpoint; of ``kind``, unless closed."""
        try:
            yield
        except sqlite3.ProgrammingError as reason:
            raise _refusal("checkpoint_closed", self.path) from reason
        except sqlite3.Error as reason:
            found = getattr(reason, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            code = SQLITE_CODES.get(found, "checkpoint_unwritable")
            words = " ".join(str(reason).split())
            raise kind(code, TEMPLATES[code], path=str(self.path), reason=words) from reason


def _as_json(name: str, value: Any) -> str:
    """Return a value of a header in JSON; equal values give equal text."""
    try:
        return json.dumps(value, sort_keys=True, default=lambda array: array.tolist())
    except (AttributeError, TypeError) as reason:
        raise InputTypeError(
            "checkpoint_not_comparable",
            "{name} is {value}, and a checkpoint compares numbers, strings, lists and mappings of "
            "them; describe it by these",
            name=name,
            value=repr(value),
        ) from reason


def _pack(name: str, value: Any) -> tuple[str, str, memoryview]:
    """Return the kind of a number or array, the order of its axes in memory, and its bytes.

    Bytes are JSON, or the .npy format without pickled objects. Rounding of products depends on
    the order of the axes.
    """
    if type(value) in (bool, int, float):
        return "python", "[]", memoryview(json.dumps(value).encode())
    kind = "scalar" if isinstance(value, np.generic) else "rows"
    if isinstance(value, np.ndarray):
        kind = "numpy"
    if kind == "scalar" or array_api_compat.is_array_api_obj(value):
        array = to_numpy(value)
        if array.dtype.kind in "biufc":
            axes = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
            file = io.BytesIO()
            np.lib.format.write_array(file, array.transpose(axes), allow_pickle=False)
            return kind, json.dumps(axes), file.getbuffer()
    raise InputTypeError(
        "sum_not_numeric",
        "the sum {name!r} is of type {kind}, and a checkpoint keeps numbers and arrays of numbers",
        name=name,
        kind=str(getattr(value, "dtype", type(value).__name__)),
    )


def _unpack(kind: str, axes: str, content: bytes | bytearray, like: Callable[[], Array]) -> Any:
    """Return what was packed; raise a ValueError or TypeError if the bytes are damaged."""
    if kind == "python":
        return json.loads(content)
    stored = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    native = stored.astype(stored.dtype.newbyteorder("="), copy=False)
    array: np.ndarray[Any, Any] = native.transpose(np.argsort(json.loads(axes)).astype(int))
    if kind == "scalar":
        return array[()]
    if kind == "numpy":
        return array
    other = like()
    return namespace_of(other).asarray(array, device=array_api_compat.device(other))
