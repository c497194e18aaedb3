"""Passes over the rows, told on a terminal while they are under way."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["PassProgress", "told_passes"]


class PassProgress:
    """Passes over the rows on a terminal: which one, rows done, and time left in it."""

    def __init__(self, console: Console) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[rows]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left, {task.fields[spent]} spent"),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("opening", total=None, rows="", spent="0:00:00")
        self._number, self._last, self._clock = 0, ("", 0), perf_counter()

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
        spent = timedelta(seconds=int(perf_counter() - self._clock))
        told: dict[str, Any] = {"rows": f"{done:,}/{total:,} rows,", "spent": str(spent)}
        if what != self._last[0] or done <= self._last[1]:
            self._number += 1
            words = f"pass {self._number}: {what or 'rows'}"
            self._bar.reset(self._task, total=total, description=words, **told)
        self._last = (what, done)
        self._bar.update(self._task, completed=done, **told)


def told_passes(quiet: bool) -> contextlib.AbstractContextManager[PassProgress | None]:
    """Return what is told of passes: nothing where nobody looks on."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        return contextlib.nullcontext()
    return PassProgress(console)
