"""What other libraries raise over a file they cannot make sense of, in words of this one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["as_damage", "brief", "without_warnings"]

LETTERS = 200  # of what a file holds or a library says, in a message


def brief(words: object) -> str:
    """Return words, or their beginning: what a message quotes from a file may have any length."""
    told = str(words)
    return told if len(told) <= LETTERS else f"{told[:LETTERS]}…"


@contextmanager
def as_damage(path: Path | str, fault: str, advice: str = "write it again") -> Iterator[None]:
    """Raise one error that names the file, whatever a library raises that reads it.

    Of a damaged file those raise what they came upon: KeyError, MemoryError, RecursionError and
    many others. An error of the system stays an OSError with its number, anything else becomes a
    ValueError. Around calls of other libraries only: it would hide faults of this one.

    Parameters
    ----------
    path : path
    fault : str
        What the file seems to be, such as "is cut off or no Parquet file".
    advice : str
    """
    try:
        yield
    except Exception as reason:
        said = "".join(c if c.isprintable() else " " for c in brief(reason)).strip()
        told = f"{path} {fault} ({said or type(reason).__name__}); {advice}"
        if isinstance(reason, OSError) and reason.errno is not None:
            raise OSError(reason.errno, told) from reason
        raise ValueError(told) from reason


@contextmanager
def without_warnings() -> Iterator[None]:
    """Say nothing of how a file was written: whoever reads it cannot act on that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
