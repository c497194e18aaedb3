r"""What rows tell of the norms of the hidden vectors, with a confidence that does not depend on k.

A row of a component whose hidden vector has the norm r shows a number (for a spherical mixture
:math:`\|x - c\|`, for a regression :math:`|y|`) that is above a with a known probability, which
increases with r. So the proportion of all rows above a is the mean of that probability over the
unknown distribution of the norms. A confidence band of these proportions, at all a together,
leaves a convex set of distributions: linear programs over it give bounds that hold with that
confidence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.optimize import linprog
from scipy.special import betaincinv

from implicitmoments.arrays import TINY, Floats

# (numbers (J, 1), norms (1, C)) -> the probabilities (J, C) that a row shows more than the number
Survival: TypeAlias = Callable[[Floats, Floats], Floats]

RISK = 1e-3  # probability that the band misses the truth somewhere
THRESHOLDS = 60  # numbers at which the proportions are compared: more widen the band
CELLS = 160  # of norms: a finer grid changes bounds by less than a tenth


@dataclass(frozen=True, eq=False)
class NormBand:
    """Distributions of norms that the rows do not contradict.

    Norms above the largest number observed are excluded: of a component with m rows one at least
    shows more than the norm, but for a probability of at most :math:`2^{-m}`.

    Attributes
    ----------
    thresholds : array of shape (J,)
    low, high : arrays of shape (J,)
        With probability 1 − ``RISK`` the probability that a row shows more than a threshold is
        between these, at all thresholds.
    survival : callable
        The same probability for a row of a component, by the norm of its vector.
    """

    thresholds: Floats
    low: Floats
    high: Floats
    survival: Survival

    @staticmethod
    def of(observed: Floats, survival: Survival, counts: Floats | None = None) -> NormBand:
        """Return the band of numbers (n,) observed at rows, which may have multiplicities."""
        counts = np.ones(len(observed)) if counts is None else counts
        top = float(np.max(observed, initial=0.0, where=counts > 0))
        thresholds = np.linspace(0.0, top, THRESHOLDS + 1)[1:]
        order = np.argsort(observed)
        below = np.append(0.0, np.cumsum(counts[order]))
        total = below[-1]
        share = 1 - below[np.searchsorted(observed[order], thresholds, side="right")] / total
        # the interval of Clopper and Pearson, for so many rows of equal multiplicity
        n = float(total**2 / np.sum(counts**2))
        risk, above = RISK / (2 * THRESHOLDS), np.clip(share, 0.0, 1.0) * n
        with np.errstate(invalid="ignore"):
            low = np.where(above > 0, betaincinv(above, n - above + 1, risk), 0.0)
            high = np.where(above < n, betaincinv(above + 1, n - above, 1 - risk), 1.0)
        return NormBand(thresholds, low, high, survival)

    def largest(self, least_weight: float) -> float:
        """Bound the norms of the components that weigh at least ``least_weight``.

        The largest norm r for which the band allows such a weight at r and all other rows at
        norm 0, which is where they take least of the band. The largest number observed where it
        does not even allow all rows at 0, so that the rows contradict the model.
        """
        norms = self._norms(float(self.thresholds[-1]))
        within = self.survival(self.thresholds[:, None], norms[None, :])
        shown = least_weight * within + (1 - least_weight) * within[:, :1]
        (allowed,) = np.nonzero(np.all(shown <= self.high[:, None], axis=0))
        return float(norms[min(allowed[-1] + 1, CELLS) if len(allowed) else CELLS])

    def bound_mean(self, error: Callable[[Floats], Floats], longest: float) -> float:
        """Bound the mean of an error over components, none of a norm above ``longest``.

        ``error`` maps norms (C,) to errors and increases. A mean above 1 counts as 1, and so does
        one over no distribution, where the rows contradict the model.
        """
        norms = self._norms(longest)
        within = self.survival(self.thresholds[:, None], norms[None, :])
        # A cell has the error of its upper end; at its lower end its rows show least, at its upper
        # end most, so that every distribution on the cells obeys both constraints.
        least, most = within[:, :-1], within[:, 1:]
        # any mass that the band allows, times this, is above 1
        errors = np.minimum(error(norms[1:]), 1 / np.min(self.high))
        largest = max(float(np.max(errors)), TINY)
        seen = self.low > 0
        scale = 1 / self.high[:, None]
        found = linprog(
            -errors / largest,
            A_ub=np.concatenate([least * scale, -(most * scale)[seen]]),
            b_ub=np.concatenate([np.ones(len(scale)), -(self.low * scale[:, 0])[seen]]),
            A_eq=np.ones((1, CELLS)),
            b_eq=[1.0],
        )
        return min(1.0, float(errors @ found.x)) if found.status == 0 else 1.0

    @staticmethod
    def _norms(longest: float) -> Floats:
        return np.linspace(0.0, longest, CELLS + 1)


def largest_norm(
    observed: Floats, survival: Survival, least_weight: float, counts: Floats | None = None
) -> float:
    """Bound the largest norm of hidden vectors of weight ``least_weight`` or more, from rows.

    ``observed`` (n,) is a number shown by each row, of multiplicity ``counts``, and ``survival``
    the probability that it is above a threshold, by the norm of the hidden vector.

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
    return NormBand.of(observed, survival, counts).largest(least_weight)
