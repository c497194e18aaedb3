"""What is known of a file that is read: whether it changed, and which rows were looked at."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from pathlib import Path

__all__ = ["RowSet", "Stamp"]


class Stamp:
    """The state of a file when it was opened: its size and when it was last written."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._state = self._look()

    def check(self) -> None:
        """Raise an OSError if the file is another one now."""
        try:
            now = self._look()
        except FileNotFoundError as reason:
            raise FileNotFoundError(
                f"{self.path} was removed while its rows were read; put it back and start again"
            ) from reason
        if now != self._state:
            raise OSError(
                f"{self.path} was changed while its rows were read (it had {self._state[0]} bytes "
                f"and has {now[0]}); open it again"
            )

    def _look(self) -> tuple[int, int, int]:
        state = os.stat(self.path)
        return state.st_size, state.st_mtime_ns, state.st_ino


class RowSet:
    """Row numbers as disjoint ranges in ascending order, none of which touch."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def missing(self, rows: range) -> list[range]:
        """Return the parts of ``rows`` that are not in the set."""
        gaps, start = [], rows.start
        at = bisect_right(self._stops, rows.start)
        while at < len(self._starts) and self._starts[at] < rows.stop:
            gaps.append(range(start, self._starts[at]))
            start = self._stops[at]
            at += 1
        gaps.append(range(start, rows.stop))
        return [gap for gap in gaps if gap]

    def add(self, rows: range) -> None:
        """Put ``rows`` into the set, and join the ranges they touch."""
        if not rows:
            return
        low, high = bisect_left(self._stops, rows.start), bisect_right(self._starts, rows.stop)
        start = min([rows.start, *self._starts[low : low + 1]]) if low < high else rows.start
        stop = max([rows.stop, *self._stops[high - 1 : high]]) if low < high else rows.stop
        self._starts[low:high], self._stops[low:high] = [start], [stop]
