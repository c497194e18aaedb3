r"""Bounds of the norms of hidden vectors, from rows, that hold whatever the number of components.

The length of a row, for a spherical mixture :math:`\|x - c\|`, is above a threshold with a
probability that is known by the norm of the hidden vector of its component and increases with it.
So the proportion of all rows above the threshold is the mean of that probability over the unknown
distribution of the norms. A confidence band of these proportions, at all thresholds together,
leaves a convex set of distributions: linear programs over it give bounds that hold with that
confidence. Rows that were left out may have had any length, which widens the band.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.optimize import linprog
from scipy.special import betaincinv

from implicitmoments.arrays import Floats

# (thresholds (J, 1), norms (1, C)) -> the probabilities (J, C) that a row is longer
Survival: TypeAlias = Callable[[Floats, Floats], Floats]

RISK = 1e-3  # probability that the band misses the truth somewhere
THRESHOLDS = 60  # lengths at which the proportions are compared: more widen the band
CELLS = 160  # of norms: a finer grid changes bounds by less than a tenth
# Further cells of the same width, beyond the longest row: a component there may have been left
# out, but for as many rows as are shorter than the longest. With fewer cells this proportion is
# bounded less closely.
BEYOND = 40


@dataclass(frozen=True, eq=False)
class ProportionBand:
    """A confidence band of the probabilities of some events, from their proportions of the rows.

    With probability 1 − ``RISK`` all of them are between ``low`` and ``high``, arrays of shape
    (J,).
    """

    low: Floats
    high: Floats

    @staticmethod
    def of(shares: Floats, n: float, dropped: float = 0.0) -> ProportionBand:
        """Return the band of proportions (J,) of n rows: intervals of Clopper and Pearson.

        Where a proportion ``dropped`` of all rows is not among the n, the band is that of the
        probabilities at all rows: at those left out an event may have happened never or always.
        """
        risk, least = RISK / (2 * len(shares)), np.clip(shares, 0.0, 1.0) * n
        total = n / (1 - dropped)
        most = np.minimum(least + dropped * total, total)
        with np.errstate(invalid="ignore"):
            low = np.where(least > 0, betaincinv(least, total - least + 1, risk), 0.0)
            high = np.where(most < total, betaincinv(most + 1, total - most, 1 - risk), 1.0)
        return ProportionBand(low, high)

    def largest_mean(self, values: Floats, least: Floats, most: Floats) -> float:
        """Return the largest mean of values (C,) over distributions on cells within the band.

        At a row of a component in a cell the events have probabilities between ``least`` and
        ``most`` (J, C). Infinite where no distribution is in the band: the rows contradict the
        model.
        """
        seen, scale = self.low > 0, 1 / self.high[:, None]
        unit = float(np.max(values, initial=0.0)) or 1.0
        found = linprog(
            -values / unit,
            A_ub=np.concatenate([least * scale, -(most * scale)[seen]]),
            b_ub=np.concatenate([np.ones(len(scale)), -(self.low * scale[:, 0])[seen]]),
            A_eq=np.ones((1, len(values))),
            b_eq=[1.0],
        )
        return float(-unit * found.fun) if found.fun is not None and found.status == 0 else np.inf

    def first_rare(self, cells: Floats, least: Floats, most: Floats, weight: float) -> int:
        """Return the smallest j such that cells numbered j or more weigh less than ``weight``.

        ``cells`` (C,) are the numbers of cells. Where no distribution is in the band, one more
        than the largest number.
        """
        numbers = range(int(np.max(cells)) + 1)
        return bisect_left(
            numbers,
            True,
            key=lambda j: self.largest_mean((cells >= j).astype(float), least, most) < weight,
        )


@dataclass(frozen=True, eq=False)
class NormBand:
    """Distributions of norms that the rows do not contradict.

    Attributes
    ----------
    thresholds : array of shape (J,)
        Lengths up to that of the longest row.
    band : ProportionBand
        Of the probabilities that a row is longer than each threshold.
    survival : callable
        The probability that a row of a component is longer than a threshold, by the norm of its
        vector.
    """

    thresholds: Floats
    band: ProportionBand
    survival: Survival

    @staticmethod
    def of(
        observed: Floats, survival: Survival, counts: Floats | None = None, dropped: float = 0.0
    ) -> NormBand:
        """Return the band of lengths (n,) of rows, which may have multiplicities.

        ``dropped`` is the proportion of all rows that were left out, of any length.
        """
        counts = np.ones(len(observed)) if counts is None else counts
        top = float(np.max(observed, initial=0.0, where=counts > 0))
        thresholds = np.linspace(0.0, top, THRESHOLDS + 1)[1:]
        order = np.argsort(observed)
        below = np.append(0.0, np.cumsum(counts[order]))
        share = 1 - below[np.searchsorted(observed[order], thresholds, side="right")] / below[-1]
        n = float(below[-1] ** 2 / np.sum(counts**2))  # the effective sample size
        return NormBand(thresholds, ProportionBand.of(share, n, dropped), survival)

    def largest(self, least_weight: float) -> float:
        """Bound the norms of the components that weigh at least ``least_weight``.

        All norms above it together weigh less in every distribution within the band. Infinite
        where the rows are too few to exclude a component of this weight at any norm, or where a
        proportion of this size was left out; and where no distribution is in the band: the rows
        contradict the model.
        """
        top = float(self.thresholds[-1])
        norms, least, most = self._cells(
            np.linspace(0.0, top * (1 + BEYOND / CELLS), CELLS + BEYOND + 1)
        )
        # the last cell has no upper end
        least = np.append(least, self.survival(self.thresholds[:, None], norms[None, -1:]), axis=1)
        most = np.append(most, np.ones((len(most), 1)), axis=1)
        j = self.band.first_rare(np.arange(float(len(norms))), least, most, least_weight)
        return float(np.append(norms, np.inf)[j])

    def bound_mean(self, error: Callable[[Floats], Floats], longest: float) -> float:
        """Bound the mean of an error over components, none of a norm above ``longest``.

        ``error`` maps norms (C,) to errors and increases. Bounds above 1 are only known to be
        above 1; infinite where ``longest`` is, or where no distribution is in the band.
        """
        if not np.isfinite(longest):
            return np.inf
        norms, least, most = self._cells(np.linspace(0.0, longest, CELLS + 1))
        # any weight that the band allows, times its cap, is above 1
        capped = np.minimum(error(norms[1:]), 2 / np.min(self.band.high))
        return self.band.largest_mean(capped, least, most)

    def _cells(self, norms: Floats) -> tuple[Floats, Floats, Floats]:
        """Return ends of cells, and the least and the largest probabilities in each.

        A cell has the value of its upper end; the probabilities are least at its lower end and
        largest at its upper end, so that every distribution on the cells obeys both constraints.
        """
        within = self.survival(self.thresholds[:, None], norms[None, :])
        return norms, within[:, :-1], within[:, 1:]


def largest_norm(
    observed: Floats,
    survival: Survival,
    least_weight: float,
    counts: Floats | None = None,
    dropped: float = 0.0,
) -> float:
    """Bound the largest norm of hidden vectors of weight ``least_weight`` or more, from rows.

    ``observed`` (n,) is the length of each row, of multiplicity ``counts``, and ``survival`` the
    probability that it is above a threshold, by the norm of the hidden vector. A proportion
    ``dropped`` of all rows was left out.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.special import chndtr
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=20_000) + 3.0 * (rng.uniform(size=20_000) < 0.1)
    >>> def survival(above, norms):
    ...     return 1 - chndtr(above**2, 1, norms**2)
    >>> 3.0 < largest_norm(np.abs(x), survival, 0.1) < 3.3
    True
    """
    return NormBand.of(observed, survival, counts, dropped).largest(least_weight)
