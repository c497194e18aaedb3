"""The progress of passes over the rows, on a terminal."""

from __future__ import annotations

import math
from datetime import timedelta
from time import perf_counter
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text


class PassProgress:
    """Shows which pass over the rows is under way, rows done, and the time left in it.

    The number of passes is not known in advance, since EM stops when it has converged. Between
    passes a fit works on sums over the rows, or on a sample of them.
    """

    def __init__(self) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=10),
            _Status(perf_counter()),  # last, so that a narrow window loses the least of it
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("reading rows", total=None, what="")
        self._stage = "reading rows"
        self._number, self._last = 0, ("", 0)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._bar.stop()

    def begin(self, stage: str) -> None:
        """Name the stage that begins; passes over the rows are shown as parts of it."""
        self._stage = stage
        self._bar.reset(self._task, total=None, description=stage, what="")

    def __call__(self, what: str, done: int, total: int) -> None:
        """Update the progress: the purpose of the pass, rows done, rows in all."""
        if what != self._last[0] or done <= self._last[1]:
            self._number += 1
            self._bar.reset(self._task, total=total, description=self._described(), what=what)
        self._last = (what, done)
        self._bar.update(self._task, completed=done)

    def _described(self) -> str:
        return f"{self._stage}, pass {self._number}"


class _Status(ProgressColumn):
    """Rows done, time left in the pass if it can be estimated, time spent in all."""

    def __init__(self, begun: float) -> None:
        super().__init__(Column(no_wrap=True, overflow="ellipsis"))
        self._begun = begun

    def render(self, task: Task) -> Text:
        spent = f"{_clock(perf_counter() - self._begun)} spent"
        if task.total is None:
            return Text(spent)
        if task.finished:
            return Text(f"done, between passes, {spent}")
        left = task.time_remaining
        ahead = "" if left is None else f"{_clock(math.ceil(left))} left in it, "
        rows = f"{task.completed:,.0f}/{task.total:,.0f} rows"
        return Text(f"{rows}, {ahead}{spent}: {task.fields['what']}")


def _clock(seconds: float) -> str:
    """Return a time as clocks show it.

    Examples
    --------
    >>> _clock(75.2), _clock(7_275)
    ('1:15', '2:01:15')
    """
    return str(timedelta(seconds=int(seconds))).removeprefix("0:").removeprefix("0")
