"""Expectation maximisation with Anderson acceleration, for any family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.search.budget import Budget
from implicitmoments.search.family import E, EMFamily, R, S

__all__ = ["Fitted", "run_em"]

PLAIN_STEPS = 3  # EM steps before the first extrapolation, and after one that failed
DEPTH = 6  # steps that an extrapolation uses: Henderson and Varadhan take 5 to 10
DAMPING = 1e-8  # of the least squares problem, relative to its trace
CALM = 2  # passes in a row that predict less than the tolerance
ROUNDING = 1e-12  # of a mean log-likelihood, relative


@dataclass(frozen=True, eq=False)
class Fitted(Generic[S]):
    """A state after EM.

    Attributes
    ----------
    state : State
    level : float
        Its mean log-likelihood per row.
    history : tuple of float
        Mean log-likelihoods, one per pass.
    converged : bool
    """

    state: S
    level: float
    history: tuple[float, ...]
    converged: bool

    @property
    def n_iter(self) -> int:
        """Passes over the rows."""
        return len(self.history)


def run_em(family: EMFamily[R, S, E], rows: R, state: S, budget: Budget) -> Fitted[S]:
    r"""Run EM until the mean log-likelihood can rise by less than ``budget.tol``.

    Near its limit EM is a linear map, whose fixed point is extrapolated from the last steps
    (Anderson acceleration; Henderson and Varadhan 2019 for EM). A step that lowers the
    likelihood is undone, and EM continues from where it was.

    Parameters
    ----------
    family : EMFamily
    rows : rows of the family
    state : State
    budget : Budget
        Its ``steps`` and ``tol``.

    Returns
    -------
    Fitted
    """
    history: list[float] = []
    past: list[tuple[Floats, Floats]] = []
    fallback: S | None = None
    best, gain, measured = -np.inf, np.inf, state
    converged, calm, plain = False, 0, PLAIN_STEPS
    for _ in range(budget.steps):
        sums = family.e_step(rows, state)
        history.append(sums.level)
        if fallback is not None and not sums.level >= best - ROUNDING * (1 + abs(best)):
            state, fallback, past, plain = fallback, None, [], PLAIN_STEPS
            calm, converged = 0, gain < budget.tol  # the step was within rounding of the maximum
            if converged:
                break
            continue
        best, measured = sums.level, state
        updated = family.m_step(sums, state)
        scale, here, there = family.scale(state), family.pack(state), family.pack(updated)
        past = [*past, (there, there - here)][-DEPTH - 1 :]
        aim = _extrapolate(past, scale)
        # The score is scale² times the EM step: a quadratic rises by half its product with the
        # distance to the maximum.
        step, rest = scale * past[-1][1], scale * (aim - here)
        gain = 0.5 * max(float(step @ step), abs(float(step @ rest)))
        plain -= 1
        calm = calm + 1 if len(past) > PLAIN_STEPS and gain < budget.tol else 0
        converged = calm == CALM
        if converged:
            break
        fallback = None if plain > 0 else updated
        state = updated if plain > 0 else family.unpack(aim, updated)
    return Fitted(measured, best, tuple(history), converged)


def _extrapolate(past: list[tuple[Floats, Floats]], scale: Floats) -> Floats:
    """Return where steps would vanish if they were linear in the position."""
    images, steps = (np.stack(parts) for parts in zip(*past, strict=True))
    if len(past) == 1:
        return np.asarray(images[-1])
    moved = np.diff(steps, axis=0) * scale
    gram = moved @ moved.T
    gram += (DAMPING * np.trace(gram) + np.finfo(float).tiny) * np.eye(len(gram))
    part = np.linalg.solve(gram, moved @ (steps[-1] * scale))
    return np.asarray(images[-1] - part @ np.diff(images, axis=0))
