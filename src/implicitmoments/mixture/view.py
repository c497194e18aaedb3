"""Rows as a type of covariance sees them: standardised, with the resolution of their columns."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.mixture.family import GaussianFamily
from implicitmoments.mixture.gaussians import CovarianceType, Gaussians
from implicitmoments.notes import InputError
from implicitmoments.rows import Rows
from implicitmoments.rows.draws import Integers, draw_numbers
from implicitmoments.rows.fold import DEFAULT_BUDGET, blocks
from implicitmoments.search import Fitted

# A column is rounded if it has fewer distinct values than this share of the rows; values that
# differ by less, in deviations of the column, are equal but for rounding.
TIED, ROUNDING = 0.5, 1e-6
FLAT = 1e-13  # of the values of a column of a sample: deviations that are rounding
BINDING = 1.01  # times the least variance: so near, it is that
LEAST = 1e-20  # variance, relative to that of a column: with less, squares lose all their digits


@dataclass(frozen=True, eq=False)
class View:
    """Rows as a type of covariance sees them: (x − center) / scale."""

    center: Floats  # (d,)
    scale: Floats | float  # (d,), equal entries for spherical covariances, or one number
    family: GaussianFamily

    def __post_init__(self) -> None:
        scale = np.broadcast_to(np.asarray(self.scale, dtype=float), self.center.shape)
        object.__setattr__(self, "scale", np.array(scale))

    def rows(self, rows: Rows) -> Rows:
        """Return rows, in the coordinates of the user, in those of the view."""
        return rows.mapped(self.center, 1 / self.scale)

    def hold(self, rows: Rows) -> Rows:
        """Hold rows in the coordinates of the view.

        In single precision where no products of columns are needed, which lose half of it.
        """
        return self.rows(rows).hold(single=self.family.kind.shape == "spherical")

    def back(self, rows: Rows) -> Rows:
        """Return rows in the coordinates of the view in those of the user."""
        return rows.mapped(-self.center / self.scale, self.scale)

    @property
    def log_unit(self) -> float:
        """What log densities in the user's units are less by."""
        return float(np.log(self.scale).sum())

    def inside(self, state: Gaussians) -> Gaussians:
        """Return a mixture in the user's units in those of the view."""
        return state.moved(-self.center / self.scale, 1 / self.scale)

    def outside(self, state: Gaussians) -> Gaussians:
        """Return a mixture of the view in the user's units."""
        return state.moved(self.center, self.scale)

    def fitted(self, found: Fitted[Gaussians]) -> Fitted[Gaussians]:
        """Return what EM has found, in the user's units."""
        history = tuple(float(level) - self.log_unit for level in found.history)
        level = found.level - self.log_unit
        return replace(found, state=self.outside(found.state), level=level, history=history)

    def at_floor(self, state: Gaussians, ridge: float) -> Integers:
        """Return which components, in the user's units, have the least variance allowed.

        Where the floor is ``ridge``, not where it is that of rounded columns.
        """
        inside, least = self.inside(state), self.family.least
        if self.family.known is not None or np.any(least > BINDING * ridge):
            return np.zeros(0, dtype=np.int64)
        if inside.diagonal:
            ratios = (inside.covariances / least).min(axis=1)
        else:
            roots = np.sqrt(least)
            ratios = np.linalg.eigvalsh(inside.covariances / roots / roots[:, None])[:, 0]
        return np.flatnonzero(ratios <= BINDING)

    def with_known(self, covariance: Floats) -> View:
        """Return the view of components with a known covariance, in the user's units."""
        one = Gaussians(np.ones(1), self.center[None], covariance[None])
        known = self.inside(one).covariances[0]
        return replace(self, family=replace(self.family, known=known))


def make_view(
    sample: Rows, kind: CovarianceType, ridge: float, means: Floats | None = None
) -> View:
    """Standardise columns; all alike for spherical covariances, which depend on their units.

    Least variances are ``ridge`` times those of the columns, or of their deviations from the
    nearest of some ``means``, in the user's units.
    """
    x, counts = np.asarray(sample.points, dtype=np.float64), sample.counts
    center = counts @ x / counts.sum()
    variances = sum_squares(x, counts, center) / counts.sum()
    flat = variances <= (FLAT * np.maximum(x.max(axis=0), -x.min(axis=0))) ** 2
    if kind.shape == "spherical":
        variances = np.full(len(center), variances.mean())
        flat = np.full(len(center), flat.all())
    # a column that varies in other rows alone keeps its unit
    scale = np.sqrt(np.where(flat, 1.0, variances))
    least = (rounding_steps(x, counts, scale) / scale) ** 2 / (2 * math.pi)
    relative = np.ones(len(center))
    if means is not None:
        z, placed = (x - center) / scale, (means - center) / scale
        nearest = np.argmin(np.sum(placed**2, axis=1) - 2 * z @ placed.T, axis=1)
        within = z - placed[nearest]
        relative = np.minimum(counts @ within**2 / counts.sum(), 1.0)
    if kind.shape == "spherical":
        least = np.full(len(center), least.max())
        relative = np.full(len(center), relative.mean())
    least = np.maximum(np.maximum(least, ridge * relative), LEAST)
    return View(center, scale, GaussianFamily(kind, least))


def sum_squares(x: Floats, counts: Floats, center: Floats) -> Floats:
    """Return the weighted sums of squared deviations of columns (n, d) from a centre, (d,).

    By blocks: an array of the size of x is not formed.
    """
    found = np.zeros(x.shape[1])
    for rows in blocks(range(len(x)), DEFAULT_BUDGET.rows_per_block(x.shape[1], x)):
        apart = x[rows.start : rows.stop] - center
        apart *= apart
        found += counts[rows.start : rows.stop] @ apart
    return found


def rounding_steps(x: Floats, counts: Floats, scale: Floats) -> Floats:
    """Return the step to which each column is rounded, (d,); 0 for columns with few equal values.

    A component at one value then has the density 1/h there if its variance is h²/2π: with less,
    it would gain likelihood by the rounding alone.
    """
    found, total = np.zeros(x.shape[1]), float(counts.sum())
    # Of n rows that take n/2 values, 6 √n hold 18 equal pairs on average: a column without any
    # among them has more values.
    n = math.ceil(6 * math.sqrt(total)) if total == len(x) else 0
    some = draw_numbers(len(x), n, 0)
    for j, column in enumerate(x.T):
        if n and np.all(np.diff(np.sort(column[some])) > 0):
            continue
        values = np.unique(column)
        if 1 < len(values) < TIED * total:
            gaps = np.diff(values)
            gaps = gaps[gaps > ROUNDING * scale[j]]
            found[j] = np.quantile(gaps, 0.1) if len(gaps) else 0.0
    return found


def check_distinct(sample: Rows, k: int | None) -> None:
    """Raise where all rows are equal, or fewer are distinct than there are components."""
    if sample.n == 1:
        raise InputError(
            "rows_all_equal",
            "all {n:count row} are equal, so there is no covariance to estimate; check the data",
            n=round(sample.total),
        )
    if k is not None and sample.n < k:
        raise InputError(
            "too_few_distinct_rows",
            "`n_components={k}` is more than the {n:count distinct row}; use at most "
            "`n_components={n}`",
            k=k,
            n=sample.n,
        )
