"""The SQLite file of a journal: its lock, its header, and errors about it."""

from __future__ import annotations

import io
import json
import math
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import array_api_compat
import numpy as np

from implicitmoments.arrays import Array, namespace_of, to_numpy
from implicitmoments.notes import CodedError, InputError, InputTypeError
from implicitmoments.rows.files.errors import UnreadableError

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
SHOWN = 80  # characters of a value in a message

TEMPLATES = {
    "checkpoint_no_folder": "the folder {folder} of the checkpoint does not exist; create it",
    "checkpoint_is_folder": "the checkpoint {path} is a folder; give the path of a file",
    "checkpoint_closed": "the checkpoint {path} is closed; open it again",
    "checkpoint_in_use": "the checkpoint {path} is in use by another fit; wait until that ends, "
    "or give another path",
    "checkpoint_not_one": "{path} is not a checkpoint, or damaged; give another path, or delete "
    "it if it was one",
    "checkpoint_damaged": "the checkpoint {path} is damaged ({reason}); delete the file to start "
    "again, or give another path",
    "checkpoint_unwritable": "the checkpoint {path} cannot be written ({reason}); make room and "
    "allow it, or give another path",
    "checkpoint_format": "the checkpoint {path} has format {found}, and this version of "
    "implicitmoments reads format {known}; delete the file to start again, or give another path",
    "checkpoint_of_another_fit": "the checkpoint {path} belongs to another fit: {words}. Use the "
    "same parameters and rows, delete the file to start again, or give another path",
}


class CheckpointError(UnreadableError):
    """A checkpoint cannot be written any more, as on a full disk."""


def refusal(code: str, **values: Any) -> InputError:
    """Return the error of a code."""
    return InputError(code, TEMPLATES[code], **values)


def open_journal(path: Path, header: Mapping[str, str]) -> sqlite3.Connection:
    """Open or create a file, lock it while it is open, and check that its header is this one."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise refusal("checkpoint_no_folder", path=str(path), folder=str(folder))
    if path.is_dir():
        raise refusal("checkpoint_is_folder", path=str(path))
    with sqlite_errors(path):
        file = sqlite3.connect(
            path, timeout=0, isolation_level="EXCLUSIVE", check_same_thread=False
        )
        try:
            _prepare(file, path, header)
        except BaseException:
            file.close()
            raise
    return file


@contextmanager
def sqlite_errors(path: Path, *, within_fit: bool = False) -> Iterator[None]:
    """Raise errors of SQLite as errors about the checkpoint."""
    try:
        yield
    except sqlite3.ProgrammingError as reason:
        raise refusal("checkpoint_closed", path=str(path)) from reason
    except sqlite3.Error as reason:
        found = getattr(reason, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        code = {
            sqlite3.SQLITE_BUSY: "checkpoint_in_use",
            sqlite3.SQLITE_LOCKED: "checkpoint_in_use",
            sqlite3.SQLITE_NOTADB: "checkpoint_not_one",
            sqlite3.SQLITE_CORRUPT: "checkpoint_damaged",
            sqlite3.SQLITE_ERROR: "checkpoint_damaged",
        }.get(found, "checkpoint_unwritable")
        kind: type[CodedError] = CheckpointError if within_fit else InputError
        words = " ".join(str(reason).split())
        raise kind(code, TEMPLATES[code], path=str(path), reason=words) from reason


def as_json(name: str, value: Any) -> str:
    """Return a value of a header in JSON; equal values give equal text."""
    try:
        return json.dumps(value, sort_keys=True, default=_plain)
    except TypeError as reason:
        raise InputTypeError(
            "checkpoint_not_comparable",
            "{name} is {value}, and a checkpoint compares numbers, strings, lists and mappings of "
            "them; describe it by these",
            name=name,
            value=repr(value),
        ) from reason


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError


def _prepare(file: sqlite3.Connection, path: Path, header: Mapping[str, str]) -> None:
    # In this order: the lock is taken first, and nothing is written before the file is known.
    file.execute("PRAGMA locking_mode = EXCLUSIVE")
    n_tables = _number(file, "SELECT count(*) FROM sqlite_master")
    application = _number(file, "PRAGMA application_id")
    if n_tables or application:
        if application != APPLICATION:
            raise refusal("checkpoint_not_one", path=str(path))
        schema = _number(file, "PRAGMA user_version")
        if schema != SCHEMA:
            raise refusal("checkpoint_format", path=str(path), found=schema, known=SCHEMA)
        (state,) = file.execute("PRAGMA quick_check(1)").fetchone()
        if state != "ok":
            raise sqlite3.DatabaseError(state)
        _check_header(file, path, header)
    file.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # of a new file
    # A log ahead of the file: after a crash a commit is complete or absent, and need not wait for
    # the disk.
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


def _check_header(file: sqlite3.Connection, path: Path, header: Mapping[str, str]) -> None:
    had: dict[str, str] = dict(file.execute("SELECT name, value FROM header"))
    differences = {
        name: [_short(had.get(name)), _short(header.get(name))]
        for name in dict.fromkeys([*header, *had])
        if had.get(name) != header.get(name)
    }
    if differences:
        words = "; ".join(f"{n} was {was} and is {now}" for n, (was, now) in differences.items())
        about = {"differences": differences, "words": words}
        raise refusal("checkpoint_of_another_fit", path=str(path), **about)


def _number(file: sqlite3.Connection, question: str) -> int:
    return int(file.execute(question).fetchone()[0])


def _short(value: str | None) -> str:
    if value is None:
        return "absent"
    return value if len(value) <= SHOWN else value[:SHOWN] + "…"


class Packed(NamedTuple):
    """A number or an array: JSON, or the .npy format without pickled objects."""

    kind: str  # "python" number, NumPy "scalar", "numpy" array, or array of the library of "rows"
    axes: str  # in the order in which they lie in memory: rounding of products depends on it
    content: memoryview


def pack(name: str, value: Any) -> Packed:
    """Return a number or an array as bytes."""
    if type(value) in (bool, int, float):
        return Packed("python", "[]", memoryview(json.dumps(value).encode()))
    kind = "scalar" if isinstance(value, np.generic) else "rows"
    if isinstance(value, np.ndarray):
        kind = "numpy"
    if kind == "scalar" or array_api_compat.is_array_api_obj(value):
        array = to_numpy(value)
        if array.dtype.kind in "biufc":
            axes = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
            file = io.BytesIO()
            np.lib.format.write_array(file, array.transpose(axes), allow_pickle=False)
            return Packed(kind, json.dumps(axes), file.getbuffer())
    raise InputTypeError(
        "sum_not_numeric",
        "the sum {name!r} is of type {kind}, and a checkpoint keeps numbers and arrays of numbers",
        name=name,
        kind=str(getattr(value, "dtype", type(value).__name__)),
    )


def unpack(kind: str, axes: str, content: bytes | bytearray, like: Callable[[], Array]) -> Any:
    """Return the number or array that was packed.

    ``like`` returns an array of the library and on the device of the rows. Raises a ValueError or
    TypeError if the bytes are damaged.
    """
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


def packed_size(sums: Mapping[str, Array]) -> int:
    """Return the number of bytes that named sums hold, without copying them."""
    shapes = ((getattr(v, "shape", ()), getattr(v, "dtype", None)) for v in sums.values())
    return sum(math.prod(shape) * getattr(dtype, "itemsize", 8) for shape, dtype in shapes)
