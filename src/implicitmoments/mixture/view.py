"""Rows as a type of covariance sees them: standardised, with the resolution of their columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.mixture.family import GaussianFamily
from implicitmoments.mixture.gaussians import CovarianceType, Gaussians
from implicitmoments.mixture.least_variances import (
    raise_covariances,
    rounding_steps,
    step_variances,
)
from implicitmoments.notes import InputError
from implicitmoments.rows import Rows
from implicitmoments.rows.constants import DOUBLE, resolution
from implicitmoments.rows.draws import Integers
from implicitmoments.rows.fold import DEFAULT_BUDGET, blocks
from implicitmoments.search import Fitted

BINDING = 1.01  # times the least variance: so near, it is that


@dataclass(frozen=True, eq=False)
class View:
    """Rows as a type of covariance sees them: (x − center) / scale."""

    center: Floats  # (d,)
    scale: Floats | float  # (d,), equal entries for spherical covariances, or one number
    family: GaussianFamily
    # (d,), 1 for columns of few values, whose steps are least deviations; 0 for others
    rounded: Floats | None = None

    def __post_init__(self) -> None:
        scale = np.broadcast_to(np.asarray(self.scale, dtype=float), self.center.shape)
        object.__setattr__(self, "scale", np.array(scale))

    def rows(self, rows: Rows) -> Rows:
        """Return rows, in the coordinates of the user, in those of the view."""
        return rows.mapped(self.center, 1 / self.scale)

    def hold(self, rows: Rows) -> Rows:
        """Hold rows in the coordinates of the view.

        In single precision where components share one variance: a narrow one needs more, and so
        do products of columns.
        """
        return self.rows(rows).hold(single=self.family.kind.name == "tied_spherical")

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

    def at_floor(self, state: Gaussians) -> Integers:
        """Return which components, in the user's units, have the least variance allowed.

        Along some direction of the columns that are not rounded: whole numbers are no surprise.
        """
        if self.family.known is not None:
            return np.zeros(0, dtype=np.int64)
        inside = self.inside(state)
        least = self.family.least_variances(inside.means)
        if self.rounded is not None and self.family.kind.shape != "spherical":
            (own,) = np.nonzero(self.rounded == 0)
            inside, least = inside.take_columns(own), least[:, own]
        elif self.rounded is not None and self.rounded.any():
            return np.zeros(0, dtype=np.int64)
        covariances = inside.covariances
        if self.family.kind.tied:
            covariances, least = covariances[:1], inside.weights[None] @ least
        found = raise_covariances(covariances, BINDING * least, BINDING * self.family.epsilon)
        changed = np.any((found != covariances).reshape(len(found), -1), axis=1)
        return np.flatnonzero(np.broadcast_to(changed, inside.k))

    def with_known(self, covariance: Floats) -> View:
        """Return the view of components with a known covariance, in the user's units."""
        one = Gaussians(np.ones(1), self.center[None], covariance[None])
        known = self.inside(one).covariances[0]
        return replace(self, family=replace(self.family, known=known))


def make_view(
    sample: Rows,
    kind: CovarianceType,
    ridge: float = 0.0,
    means: Floats | None = None,
    epsilon: float = DOUBLE,
    *,
    alike: bool | None = None,
) -> View:
    """Standardise columns; all alike for spherical covariances, which depend on their units.

    With ``alike=False`` those are spherical in standardised columns, as a start of others is.

    Least variances are what the precision of the rows, equal values of a column and ``ridge``
    ask for. The latter is relative to the variances of the columns, or of their deviations from
    the nearest of some ``means``, in the user's units. ``epsilon`` is that of the precision in
    which the rows were given.
    """
    x, counts = np.asarray(sample.points, dtype=np.float64), sample.counts
    center = counts @ x / counts.sum()
    variances = sum_squares(x, counts, center) / counts.sum()
    sizes = np.maximum(x.max(axis=0), -x.min(axis=0))
    if kind.shape == "spherical" if alike is None else alike:
        variances, sizes = (np.full(len(center), each.mean()) for each in (variances, sizes))
    # a column that varies in other rows alone keeps the unit of its values
    flat = variances <= resolution(sizes, epsilon) ** 2
    scale = np.where(flat, np.where(sizes > 0, sizes, 1.0), np.sqrt(variances))
    steps, rounded = rounding_steps(x, counts)
    relative = np.ones(len(center))
    if means is not None:
        z, placed = (x - center) / scale, (means - center) / scale
        nearest = np.argmin(np.sum(placed**2, axis=1) - 2 * z @ placed.T, axis=1)
        within = z - placed[nearest]
        relative = np.minimum(counts @ within**2 / counts.sum(), 1.0)
    # values have the steps of their precision, which is that of the centre as well
    steps = np.maximum(steps, epsilon * (scale + np.abs(center)))
    least = step_variances(steps / scale)
    if kind.shape == "spherical":
        least = np.full(len(center), least.max())
        relative = np.full(len(center), relative.mean())
    family = GaussianFamily(kind, np.maximum(least, ridge * relative), epsilon=epsilon)
    return View(center, scale, family, rounded.astype(float) if rounded.any() else None)


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
