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

from fuzzing.watch import LateError, Watch, time_limit
from implicitmoments.rows import RowDraws, open_file

__all__ = ["Attempt", "attempt", "complaint", "read_twice", "resident_mb"]

LIBRARY = f"{os.sep}implicitmoments{os.sep}"
OPTIONS: tuple[dict[str, Any], ...] = (
    *({}, {}, {}, {"y": 0}, {"y": -1}, {"sample_weight": 1}, {"dtype": "float32"}),
    {"columns": [0], "y": 1},
)
WHOLE, PART = 2**16, 16  # of more numbers than the former, as many rows from either end
WIDEST = 2**21  # numbers that are asked for at a time
MEMORY_MB = 600  # what one file of a few kilobytes may take; of Zarr 256 MB of rows are held


@dataclass(frozen=True)
class Attempt:
    """What became of one input.

    Attributes
    ----------
    outcome : str
        ``"rows"``, or the class of the error.
    wrong : str
        What should not have happened, or nothing.
    seconds, grown_mb : float
        By how much the process grew at its peak.
    """

    outcome: str
    wrong: str
    seconds: float
    grown_mb: float


def attempt(
    path: Path,
    options: dict[str, Any],
    watch: Watch,
    limit: float,
    read: Callable[..., None] | None = None,
) -> Attempt:
    """Read a file under watch."""
    watch.seen.clear()
    before, clock = resident_mb(reset=True), time.perf_counter()
    outcome, wrong = "rows", ""
    try:
        with time_limit(limit):
            watch.on = True
            (read or read_twice)(path, **options)
    except LateError:
        outcome, wrong = "late", f"took more than {limit:g} s"
    except BaseException as error:
        watch.on = False
        outcome, wrong = type(error).__name__, complaint(error, path)
    finally:
        watch.on = False
    seconds, grown = time.perf_counter() - clock, resident_mb(peak=True) - before
    if not wrong and watch.seen:
        wrong = f"did what a reader must not do: {dict(watch.seen)}"
    if not wrong and grown > MEMORY_MB:
        wrong = f"took {grown:.0f} MB"
    return Attempt(outcome, wrong, seconds, grown)


def read_twice(path: Path, **options: Any) -> None:
    """Read all rows in blocks of two sizes; raise an AssertionError unless they agree."""
    with open_file(path, **options) as source:
        n = source.n_rows
        whole = n * source.n_features <= WHOLE or n <= 2 * PART
        ends = [range(n)] if whole else [range(PART), range(n - PART, n)]
        if _digest(source, ends, 1_000) != _digest(source, ends, 37):
            raise AssertionError("two passes gave different rows")
        rows = np.unique([0, n // 2, n - 1]) if whole else np.arange(1)
        if source.pick(rows)["x"].shape != (len(rows), source.n_features):
            raise AssertionError("rows that were picked have another shape")


def _digest(source: Any, ends: list[range], size: int) -> str:
    sums: dict[str, Any] = {}
    size = max(1, min(size, WIDEST // source.n_features))
    for end in ends:
        for start in range(end.start, end.stop, size):
            rows = range(start, min(start + size, end.stop))
            for name, column in source.read(rows, RowDraws(0, rows)).items():
                width = (source.n_features,) if name == "x" else ()
                if column.shape != (len(rows), *width) or not np.isfinite(column).all():
                    raise AssertionError("a block has another shape, or numbers are not finite")
                sums.setdefault(name, sha256()).update(np.ascontiguousarray(column).data)
    return " ".join(f"{name} {one.hexdigest()}" for name, one in sorted(sums.items()))


def complaint(error: BaseException, path: Path) -> str:
    """Say what is wrong with an error, or nothing.

    It is to be a ValueError, a TypeError or an OSError, raised by the library itself and not by
    what it is built on, which names the file, and what was expected or is to be done.
    """
    told = str(error)
    frames = traceback.extract_tb(error.__traceback__)
    faults = {
        "another class of error": type(error) not in (ValueError, TypeError)
        and not _of_system(error),
        "raised elsewhere": LIBRARY not in frames[-1].filename,
        "does not name the file": path.name not in told,
        "does not say what to do": not any(sign in told for sign in ("expected", ";")),
        "is more than a line": not told.isprintable(),
        f"has {len(told)} letters": len(told) > 2_000,
    }
    own = [f"{Path(f.filename).name}:{f.lineno}" for f in frames if LIBRARY in f.filename]
    for fault, is_so in faults.items():
        if is_so:
            return f"{fault}: {type(error).__name__}: {told[:300]} {own[-1:]}"
    return ""


def _of_system(error: BaseException) -> bool:
    return isinstance(error, OSError) and type(error).__module__ == "builtins"


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
