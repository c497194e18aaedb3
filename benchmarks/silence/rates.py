"""Fits of many data sets at a time, and tables of how often something happened."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any, TypeVar

T = TypeVar("T")
A = TypeVar("A")


@dataclass(frozen=True)
class Run:
    """What was asked for on the command line."""

    seeds: range
    jobs: int

    def map(self, fit: Callable[[A], T], given: Iterable[A]) -> list[T]:
        """Apply ``fit``, a function of a module, to each item, ``jobs`` at a time."""
        quiet = partial(_quietly, fit)
        if self.jobs == 1:
            return [quiet(each) for each in given]
        with ProcessPoolExecutor(self.jobs, mp_context=get_context("spawn")) as pool:
            return list(pool.map(quiet, given))


def _quietly(fit: Callable[[Any], T], given: Any) -> T:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(given)


def print_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table in Markdown; floats with two decimals."""
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for row in rows:
        cells = (f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row)
        print("| " + " | ".join(cells) + " |", flush=True)
