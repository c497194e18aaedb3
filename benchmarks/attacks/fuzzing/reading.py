"""One hostile file, read as a fit reads it, and what is wrong with the outcome."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from attacks.fuzzing.watch import LateError, Watch, time_limit
from implicitmoments.notes import CodedError
from implicitmoments.rows import RowDraws, open_file

__all__ = ["Attempt", "attempt", "compare_passes", "read_twice", "resident_mb"]

LIBRARY = f"{os.sep}implicitmoments{os.sep}"
OPTIONS: tuple[dict[str, Any], ...] = (
    *({}, {}, {}, {"y": 0}, {"y": -1}, {"sample_weight": 1}, {"dtype": "float32"}),
    {"columns": [0], "y": 1},
)
WHOLE, PART = 2**16, 16  # of files with more numbers, so many rows are read from either end
WIDEST = 2**21  # numbers that are asked for at a time
MEMORY_MB = 600  # what one file of a few kilobytes may take; of Zarr 256 MB of rows are held
MOST_LETTERS = 2_000  # of a message


@dataclass(frozen=True)
class Attempt:
    """The outcome of one input.

    Attributes
    ----------
    outcome : str
        ``"rows"``, or the class of the error.
    wrong : str
        A code for what should not have happened, or nothing.
    detail : str
        What it was.
    seconds, grown_mb : float
        By how much the process grew at its peak.
    """

    outcome: str
    wrong: str
    detail: str
    seconds: float
    grown_mb: float


def attempt(
    path: Path,
    options: dict[str, Any],
    watch: Watch,
    limit: float,
    read: Callable[..., None] | None = None,
    memory_mb: float = MEMORY_MB,
) -> Attempt:
    """Read a file under watch, within limits of seconds and memory."""
    watch.seen.clear()
    before, clock = resident_mb(reset=True), time.perf_counter()
    outcome, wrong, detail = "rows", "", ""
    try:
        with time_limit(limit):
            watch.on = True
            (read or read_twice)(path, **options)
    except LateError:
        outcome, wrong, detail = "late", "late", f"took more than {limit:g} s"
    except WrongRowsError as error:
        outcome, wrong, detail = "wrong rows", error.args[0], error.args[0]
    except BaseException as error:
        watch.on = False
        outcome, (wrong, detail) = _family(error), _complaint(error, path)
    finally:
        watch.on = False
    seconds, grown = time.perf_counter() - clock, resident_mb(peak=True) - before
    if not wrong and watch.seen:
        wrong, detail = "forbidden", ", ".join(watch.seen)
    if not wrong and grown > memory_mb:
        wrong, detail = "memory", f"took {grown:.0f} MB"
    return Attempt(outcome, wrong, detail, seconds, grown)


class WrongRowsError(Exception):
    """A source gave invalid rows; the argument is a code."""


def read_twice(path: Path, **options: Any) -> None:
    """Read all rows of a file in blocks of two sizes."""
    with open_file(path, **options) as source:
        compare_passes(source)


def compare_passes(source: Any) -> None:
    """Raise a WrongRowsError unless passes in blocks of two sizes give the same finite rows."""
    n = source.n_rows
    whole = n * source.n_features <= WHOLE or n <= 2 * PART
    ends = [range(n)] if whole else [range(PART), range(n - PART, n)]
    if _digest(source, ends, 1_000) != _digest(source, ends, 37):
        raise WrongRowsError("passes_differ")
    rows = np.unique([0, n // 2, n - 1]) if whole else np.arange(1)
    if source.pick(rows)["x"].shape != (len(rows), source.n_features):
        raise WrongRowsError("wrong_shape")


def _digest(source: Any, ends: list[range], size: int) -> str:
    sums: dict[str, Any] = {}
    size = max(1, min(size, WIDEST // source.n_features))
    for end in ends:
        for start in range(end.start, end.stop, size):
            rows = range(start, min(start + size, end.stop))
            for name, column in source.read(rows, RowDraws(0, rows)).items():
                width = (source.n_features,) if name == "x" else ()
                if column.shape != (len(rows), *width) or not np.isfinite(column).all():
                    raise WrongRowsError("wrong_shape_or_not_finite")
                sums.setdefault(name, sha256()).update(np.ascontiguousarray(column).data)
    return " ".join(f"{name} {one.hexdigest()}" for name, one in sorted(sums.items()))


def _family(error: BaseException) -> str:
    families = (ValueError, TypeError, OSError)
    return next((f.__name__ for f in families if isinstance(error, f)), type(error).__name__)


def _complaint(error: BaseException, path: Path) -> tuple[str, str]:
    """Return what is wrong with an error, as a code and in words, or nothing.

    It must be a ValueError, a TypeError or an OSError with a code, raised by the library itself
    and not by a dependency, and must name the file in one line.
    """
    frames = traceback.extract_tb(error.__traceback__)
    coded = isinstance(error, CodedError) and isinstance(error, ValueError | TypeError | OSError)
    named = path.name in str(getattr(error, "values", {}).get("file"))
    faults = {
        "other_class": not coded,
        "raised_elsewhere": LIBRARY not in frames[-1].filename,
        "file_not_named": not named,
        "several_lines": not str(error).isprintable(),
        "too_long": len(str(error)) > MOST_LETTERS,
    }
    own = [f"{Path(f.filename).name}:{f.lineno}" for f in frames if LIBRARY in f.filename]
    for fault, is_so in faults.items():
        if is_so:
            return fault, f"{type(error).__name__}: {str(error)[:300]} {own[-1:]}"
    return "", ""


def resident_mb(*, peak: bool = False, reset: bool = False) -> float:
    """Return the resident memory of this process, now or at its peak since the last reset."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
    except OSError:  # no Linux
        return 0.0
    entry = "VmHWM:" if peak else "VmRSS:"
    return int(status.split(entry)[1].split()[0]) / 1024
