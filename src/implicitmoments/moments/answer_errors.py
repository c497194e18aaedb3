"""Errors of answers, from estimations repeated on two halves of the rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.arrays import Floats, move_like, to_numpy
from implicitmoments.moments.closed_form import Fold
from implicitmoments.rows import DrawPurpose, RowDraws

# points of a root mean square, which is accurate to some percent up to order 8 with 10,000; no
# more than there are rows, so that queries cost less than the passes
MOST_QUERIES = 10_000

# part (i, q) of the rows -> folds, whose answers are averaged
Estimation: TypeAlias = Callable[[tuple[int, int]], Sequence[Fold]]


class Statistics(Mapping[str, Any]):
    """Measurements by name, of which some are computed only when they are first read.

    Parameters
    ----------
    known : mapping of str to object
        Measurements that exist already.
    later : mapping of str to callable
        Functions without arguments that compute the others.
    """

    def __init__(self, known: Mapping[str, Any], later: Mapping[str, Callable[[], Any]]) -> None:
        self._known, self._later = dict(known), dict(later)

    def __getitem__(self, name: str) -> Any:
        if name not in self._known and name in self._later:
            self._known[name] = self._later[name]()
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in self._later

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys([*self._known, *self._later])

    def __len__(self) -> int:
        return len(self._known.keys() | self._later.keys())

    def __repr__(self) -> str:
        pending = ", ".join(name for name in self._later if name not in self._known)
        return f"<{self._known}" + (f", on request: {pending}>" if pending else ">")


def split_half_errors(folds: Sequence[Fold], estimate: Estimation) -> dict[int, float]:
    r"""Return for each order the error of its answers, relative to their size.

    Everything is estimated again on each half of the rows, subspaces included. The halves are
    independent and have half the rows, so half the difference of their answers is as large as
    the error of an answer from all rows; both sizes are root mean squares over queries
    :math:`\langle H_n(x), M_n \rangle` at x from N(0, I). It contains no bias that the halves
    share. Infinite if all answers are 0, or if a half has no rows.
    """
    halves = [estimate((i, 2)) for i in (0, 1)]
    frame = folds[0].moments.frame
    queries = range(max(1, min(MOST_QUERIES, int(folds[0].n_rows))))
    drawn = RowDraws(0, queries, (DrawPurpose.QUERY,)).normal(int(frame.basis.shape[1]))
    points = move_like(drawn, frame.basis)
    whole, first, second = (_answers(some, points) for some in (folds, *halves))
    empty = any(fold.n_rows == 0 for half in halves for fold in half)
    errors = {}
    for order, answers in whole.items():
        size = float(np.linalg.norm(answers))
        apart = float(np.linalg.norm(first[order] - second[order])) / 2
        errors[order] = math.inf if empty or size == 0 else apart / size
    return errors


def _answers(folds: Sequence[Fold], points: Any) -> dict[int, Floats]:
    """Return the answers of all orders, averaged over the folds."""
    found: dict[int, Floats] = {}
    for fold in folds:
        moments = fold.moments
        answers = moments.hermite(moments.frame.points(points), moments.by_order)
        for order, values in answers.items():
            found[order] = found.get(order, 0.0) + to_numpy(values) / len(folds)
    return found
