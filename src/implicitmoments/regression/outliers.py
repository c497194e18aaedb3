"""Outliers of a mixture of regressions: labels far from all lines, at points that are not far."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from implicitmoments.arrays import Array, Floats, move_like, namespace_of, to_numpy
from implicitmoments.rows import Block, Rows
from implicitmoments.rows.far_rows import FEWEST
from implicitmoments.rows.outliers import (
    EXTREME,
    Near,
    count_far,
    far_limit,
    few_enough,
    near_rule,
    probe_rows,
)

ROUNDS = 3  # of fits and rules: outliers may hide behind others


@dataclass(frozen=True, eq=False)
class NearLines:
    """Keeps rows (x, y) that are near some line, or whose x is far: leverage is no error.

    A line of too few rows is none: rows of which it is the nearest need not be as far from the
    others.
    """

    coef: Floats  # (k, 1 + d), the intercept first, of lines with rows enough
    limit: float  # distance from all of them, along y, beyond which a row is an outlier
    alone: Floats  # (j, 1 + d), of lines with too few rows
    limit_alone: float  # the distance for rows that are nearest to one of these
    points: Near
    before: NearLines | None = None  # a rule that rows have to fulfil as well

    def __call__(self, block: Block) -> Array | None:
        """Return which rows of a block are kept; None for all."""
        x, y = block["x"], block["y"]
        xp, kept = namespace_of(x), None if self.before is None else self.before(block)
        apart, to_alone = _distances(self.coef, x, y), _distances(self.alone, x, y)
        inside = self.points({"x": x})
        near = xp.where(to_alone < apart, apart <= self.limit_alone, apart <= self.limit)
        if inside is not None:
            near = near | ~inside
        near = near if kept is None else near & kept
        return None if bool(xp.all(near)) else near


def _distances(coef: Floats, x: Array, y: Array) -> Array:
    """Return how far labels are from the nearest of some lines, (n,); infinite for none."""
    xp = namespace_of(x)
    nearest = xp.full_like(y, xp.inf)
    for line in coef:
        mean = x @ move_like(line[1:], x) + float(line[0])
        nearest = xp.minimum(nearest, xp.abs(y - mean))
    return nearest


def find_outliers(
    rows: Rows, coef: Floats, weights: Floats, before: NearLines | None, n_before: int = 0
) -> tuple[NearLines, int] | None:
    """Return the rule that leaves out labels far from all lines, and how many; None for none.

    Distances have the limit of outliers, five times as large for rows whose nearest line has more
    rows than coefficients: regressions keep heavy tails of the noise. A line of fewer rows was
    fitted to outliers if they are far from the others.

    Parameters
    ----------
    rows : Rows
        With labels, without the outliers that were found before.
    coef : array of shape (k, 1 + d)
        Lines in the user's units, the intercept first.
    weights : array of shape (k,)
    before : NearLines or None
        The rule by which they were.
    n_before : int
        How many they were. None are found where all together would be more than a fifth of the
        rows.
    """
    # as many as a line has parameters, and a far group rows; weights are those of EM, not whole
    enough = weights * rows.total > max(FEWEST, coef.shape[1] + 1) - 0.5
    if not enough.any():
        return None
    probe = probe_rows(rows)
    x, y = (np.asarray(to_numpy(probe.block[name]), dtype=np.float64) for name in ("x", "y"))
    apart = np.asarray(_distances(coef[enough], x, y))
    limit = far_limit(apart, rows.kept)
    rule = NearLines(
        coef[enough],
        EXTREME * limit,
        coef[~enough],
        limit,
        near_rule(rows, labelled=False),
        before,
    )
    found = rows.as_given().fold(partial(count_far, rule), width=4, what="outliers")
    n_out = int(found.get("out", 0))
    if n_out == 0 or limit == 0 or not few_enough(n_before + n_out, n_before + rows.kept):
        return None
    return rule, n_out
