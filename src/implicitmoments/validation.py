"""Checks that estimators share: what was given, what was expected, what to try."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

__all__ = [
    "check_flag",
    "check_method",
    "check_number",
    "check_progress",
    "check_unknowns",
    "check_variance",
    "check_whole",
]


def check_whole(name: str, value: Any, least: int, most: float = math.inf) -> int:
    """Return a whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} is a whole number, got {value!r}")
    number = int(value)
    if not least <= number <= most:
        upper = "" if most == math.inf else f" and at most {most}"
        raise ValueError(f"{name} is at least {least}{upper}, got {value}")
    return number


def check_number(name: str, value: Any, least: float, most: float = math.inf) -> float:
    """Return a finite number within bounds."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is a number, got {value!r}")
    number = float(value)
    if not (math.isfinite(number) and least <= number <= most):
        upper = "" if most == math.inf else f" and at most {most:g}"
        raise ValueError(f"{name} is a finite number of at least {least:g}{upper}, got {value}")
    return number


def check_flag(name: str, value: Any) -> bool:
    """Return True or False; words for them, and 0 and 1, are refused."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is True or False, got {value!r}")
    return bool(value)


def check_progress(progress: Any) -> None:
    """Raise for what cannot be called, however few the rows are."""
    if progress is not None and not callable(progress):
        raise TypeError(
            "progress is a function that is called as progress(what, rows_done, rows_total), or "
            f"None; got {progress!r}"
        )


def check_unknowns(k: int, each: int, n_rows: int, what: str, unknowns: str) -> None:
    """Raise where labels are fewer than what is to be found from them."""
    if k * each > n_rows:
        most = n_rows // each
        enough = f"use at most n_components={most}, or more rows" if most else "use more rows"
        raise ValueError(
            f"n_components={k}: {k:,} {what} with {each} {unknowns} each are {k * each:,} "
            f"unknowns, and {n_rows:,} rows do not determine them; {enough}"
        )


def check_variance(variance: Any) -> float | None:
    """Return a positive number, or None for one that is to be estimated."""
    if variance is None:
        return None
    if isinstance(variance, bool) or not hasattr(variance, "__float__"):
        raise TypeError(f"variance is a positive number or None, got {variance!r}")
    if not (math.isfinite(variance) and variance > 0):
        raise ValueError(f"variance is a positive number or None, got {variance!r}")
    return float(variance)


def check_method(method: Any, methods: tuple[str, ...] = ("closed_form", "paper")) -> str:
    """Return the name of a method."""
    if method not in methods:
        raise ValueError(f"method is {' or '.join(map(repr, methods))}, got {method!r}")
    return str(method)
