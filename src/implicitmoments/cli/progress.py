"""Passes over the rows, told on a terminal while they are under way."""

from __future__ import annotations

import contextlib
import math
from datetime import timedelta
from time import perf_counter
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

__all__ = ["PassProgress", "told_passes"]


class PassProgress:
    """Passes over the rows on a terminal: which one, rows done, and time left in it.

    How many passes there will be depends on the rows: EM ends when it has converged. Between
    passes a fit works on what they have summed up, or on some of the rows.
    """

    def __init__(self, console: Console) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=10),
            _Standing(perf_counter()),  # last, so that a narrow window loses the least of it
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("reading rows", total=None, what="")
        self._number, self._last = 0, ("", 0)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        reason: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Take in how far a pass is: what it is for, rows done, rows in all."""
        if what != self._last[0] or done <= self._last[1]:
            self._number += 1
            self._bar.reset(self._task, total=total, description=f"pass {self._number}", what=what)
        self._last = (what, done)
        self._bar.update(self._task, completed=done)


class _Standing(ProgressColumn):
    """Rows done of how many, time left in the pass where it can be told, time spent in all."""

    def __init__(self, begun: float) -> None:
        super().__init__(Column(no_wrap=True, overflow="ellipsis"))
        self._begun = begun

    def render(self, task: Task) -> Text:
        spent = f"{_clock(perf_counter() - self._begun)} spent"
        if task.total is None:
            return Text(spent)
        if task.finished:
            return Text(f"is done, now between passes, {spent}")
        left = task.time_remaining
        ahead = "" if left is None else f"{_clock(math.ceil(left))} left in it, "
        rows = f"{task.completed:,.0f}/{task.total:,.0f} rows"
        return Text(f"{rows}, {ahead}{spent}: {task.fields['what']}")


def _clock(seconds: float) -> str:
    """Tell a time as clocks do.

    Examples
    --------
    >>> _clock(75.2), _clock(7_275)
    ('1:15', '2:01:15')
    """
    return str(timedelta(seconds=int(seconds))).removeprefix("0:").removeprefix("0")


def told_passes(quiet: bool) -> contextlib.AbstractContextManager[PassProgress | None]:
    """Return what is told of passes: nothing where nobody looks on."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        return contextlib.nullcontext()
    return PassProgress(console)
