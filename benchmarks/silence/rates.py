"""Fits of many data sets at a time, and tables of how often something happened."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from multiprocessing import get_context
from typing import Any, TypeVar

T = TypeVar("T")
A = TypeVar("A")


@dataclass(frozen=True)
class Run:
    """What was asked for on the command line."""

    seeds: range
    jobs: int

    @cached_property
    def pool(self) -> ProcessPoolExecutor:
        """The processes of all fits of a run."""
        return ProcessPoolExecutor(self.jobs, mp_context=get_context("spawn"))

    def map(self, fit: Callable[[A], T], given: Iterable[A]) -> Iterator[T]:
        """Apply ``fit``, a function of a module, to each item, ``jobs`` at a time.

        Several processes begin at once with all items; results come in the order of the items, so
        that a caller who asks for all first and prints as they come loses little when stopped.
        """
        quiet = partial(_quietly, fit)
        return map(quiet, given) if self.jobs == 1 else self.pool.map(quiet, given)


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
