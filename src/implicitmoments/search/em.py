"""Expectation maximisation with squared extrapolation, for any family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

import numpy as np

from implicitmoments.search.family import E, EMFamily, R, S

ROWS_PER_COMPONENT = (
    400  # means of unit noise are then known to 0.05, well below a separation of 2
)


@dataclass(frozen=True)
class Budget:
    """Rows, EM steps and tolerance of one stage.

    Examples
    --------
    >>> SEARCH.rows_for(10), SEARCH.rows_for(100)
    (20000, 40000)
    """

    rows: int  # rows of the sample, at least
    steps: int  # EM steps, at most
    tol: float  # EM stops when the mean log-likelihood per row can rise by less than this

    def rows_for(self, k: int) -> int:
        """Return the size of a sample for k components."""
        return max(self.rows, ROWS_PER_COMPONENT * k)


# One component: EM of two parts. Twelve steps separate parts that are 3 deviations apart.
LOCAL = Budget(rows=4_000, steps=12, tol=0.0)
# A sample of the rows: starts and moves are compared there.
SEARCH = Budget(rows=20_000, steps=60, tol=1e-6)
# All rows: the last EM, unless the user says otherwise.
WHOLE = Budget(rows=2**62, steps=200, tol=1e-7)


PLAIN_STEPS = 3  # EM steps before the first extrapolation: the first ones turn sharply
LONGEST = 60.0  # extrapolation, in EM steps (starting value)


@dataclass(frozen=True, eq=False)
class Fitted(Generic[S]):
    """A state after EM."""

    state: S
    level: float  # its mean log-likelihood per row
    # the mean log-likelihood after each step that was kept; it never falls
    history: tuple[float, ...]
    converged: bool
    n_iter: int  # passes over the rows


def run_em(family: EMFamily[R, S, E], rows: R, state: S, budget: Budget) -> Fitted[S]:
    r"""Run EM until the mean log-likelihood rises by less than ``budget.tol``.

    EM is slow where components overlap. So after two steps from :math:`\theta_0`, with
    :math:`r = \theta_1 - \theta_0` and :math:`u = \theta_2 - \theta_1 - r`, it extrapolates to
    :math:`\theta_0 + 2 a r + a^2 u`, :math:`a = |r| / |u|` (SQUAREM, Varadhan and Roland 2008),
    unless that lowers the likelihood. Anderson acceleration needs fewer passes near a regular
    maximum, and two to three times as many where components overlap.

    Parameters
    ----------
    budget : Budget
        Its ``steps`` and ``tol``.
    """
    history: list[float] = []
    trail, n_iter, converged = [state], 0, False  # at most θ_0, θ_1, θ_2 since the last one
    while n_iter < budget.steps and not converged:
        state = trail[-1]
        sums, n_iter = family.e_step(rows, state), n_iter + 1
        rise = sums.level - history[-1] if history else np.inf
        history.append(sums.level)
        trail.append(family.m_step(sums, state))
        if n_iter > PLAIN_STEPS and len(trail) < 3:
            continue
        leap = _extrapolate(family, trail) if len(trail) == 3 else None
        gained = 0.0
        if leap is not None and n_iter < budget.steps:
            ahead, n_iter = family.e_step(rows, leap), n_iter + 1
            if ahead.level > history[-1]:
                state, gained = leap, ahead.level - history[-1]
                history.append(ahead.level)
                trail.append(family.m_step(ahead, leap))
        converged = len(trail) >= 3 and rise < budget.tol and gained < budget.tol
        trail = trail[-1:]
    return Fitted(state, history[-1], tuple(history), converged, n_iter)


def _extrapolate(family: EMFamily[R, S, E], trail: list[S]) -> S | None:
    """Extrapolate three successive states (SQUAREM); None if it does not pass the EM iterate."""
    first, second, third = (family.pack(state) for state in trail)
    scale = family.scale(trail[-1])  # a unit is about a standard error, whatever the parameter
    r = second - first
    u = third - second - r
    above, below = float(np.sum((scale * r) ** 2)), float(np.sum((scale * u) ** 2))
    if not below > 0 or above <= below:
        return None
    a = min(np.sqrt(above / below), LONGEST)
    return family.unpack(first + 2 * a * r + a * a * u, trail[-1])
