"""Expectation maximisation for spherical mixtures, with shared or separate variances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from implicitmoments.mixture.likelihood import Mixture, Sums, gather
from implicitmoments.mixture.standard_rows import AnyRows

__all__ = ["Polished", "VarianceModel", "maximise", "polish"]

EMPTY = 1e-8  # of a row: a component with less keeps its mean
PLAIN = 4  # iterations before the first extrapolation
LONGEST = 60.0  # step of an extrapolation, in EM steps
LOWEST_LOG = -600.0
SMALLEST_SHARE = 1e-12  # weight of an empty component, so that it can come back


@dataclass(frozen=True)
class VarianceModel:
    """What is known of the variances.

    Attributes
    ----------
    known : float or None
        The variance of every component.
    shared : bool
        One variance for all components, or one each.
    floor : float
        Least variance: a likelihood without one has no maximum.
    """

    known: float | None = None
    shared: bool = True
    floor: float = 1e-6

    def parameters(self, k: int) -> int:
        """Return how many variances are estimated."""
        if self.known is not None:
            return 0
        return 1 if self.shared else k


@dataclass(frozen=True, eq=False)
class Polished:
    """Where EM came to rest.

    Attributes
    ----------
    mixture : Mixture
    level : float
        Mean log-likelihood of a row.
    n_iter : int
    converged : bool
    history : tuple of float
        The level at each iteration.
    """

    mixture: Mixture
    level: float
    n_iter: int
    converged: bool
    history: tuple[float, ...] = ()


def maximise(sums: Sums, before: Mixture, model: VarianceModel) -> Mixture:
    """Return the mixture that is likeliest for given responsibilities: the M-step."""
    counts, d = sums.counts, sums.points.shape[1]
    filled = counts > EMPTY
    safe = np.where(filled, counts, 1.0)
    means = np.where(filled[:, None], sums.points / safe[:, None], before.means)
    weights = np.maximum(counts / sums.total, SMALLEST_SHARE)
    inside = np.maximum(sums.squares - counts * np.sum(means**2, axis=1), 0.0)
    if model.known is not None:
        variances = np.full(len(counts), model.known)
    elif model.shared:
        variances = np.full(len(counts), max(float(inside.sum()) / (sums.total * d), model.floor))
    else:
        variances = np.where(filled, inside / (safe * d), before.variances)
        variances = np.maximum(variances, model.floor)
    return Mixture(weights / weights.sum(), means, variances)


def polish(
    rows: AnyRows, mixture: Mixture, model: VarianceModel, max_iter: int, tol: float
) -> Polished:
    r"""Iterate EM until the mean log-likelihood of a row rises by less than ``tol``.

    Components that overlap make EM slow. So after some iterations every third is an
    extrapolation (Varadhan and Roland 2008): from :math:`\theta_0` and two EM steps, with
    :math:`r = \theta_1 - \theta_0` and :math:`u = \theta_2 - \theta_1 - r`, to
    :math:`\theta_0 + 2 a r + a^2 u`, :math:`a = |r| / |u|`. It is taken back unless it is
    likelier than :math:`\theta_1`.
    """
    history: list[float] = []
    trail = [mixture]  # at most θ_0, θ_1, θ_2 since the last extrapolation
    while len(history) < max_iter:
        sums = gather(rows, trail[-1])
        level = sums.log_likelihood / sums.total
        rise = level - history[-1] if history else np.inf
        history.append(level)
        trail.append(maximise(sums, trail[-1], model))
        if len(history) < PLAIN:
            trail = trail[-1:]
        elif len(trail) == 3:
            leap = _extrapolate(trail, model)
            if rise < tol and leap is None:
                return Polished(trail[-1], history[-1], len(history), True, tuple(history))
            if leap is not None and len(history) < max_iter:
                ahead = gather(rows, leap)
                reached = ahead.log_likelihood / ahead.total
                if reached > level:
                    history.append(reached)
                    trail.append(maximise(ahead, leap, model))
            if rise < tol and history[-1] - level < tol:
                return Polished(trail[-1], history[-1], len(history), True, tuple(history))
            trail = trail[-1:]
    return Polished(trail[-1], history[-1], len(history), False, tuple(history))


def _extrapolate(trail: list[Mixture], model: VarianceModel) -> Mixture | None:
    """Return where three mixtures in a row lead to; None where it is nowhere else."""
    first, second, third = trail
    # lengths in which a unit is about a standard error, whatever the parameter
    root = np.sqrt(third.weights)
    metric = (root, (root / np.sqrt(third.variances))[:, None], root * np.sqrt(0.5 * third.d))
    points = [(np.log(m.weights), m.means, np.log(m.variances)) for m in (first, second, third)]
    r = [b - a for a, b in zip(points[0], points[1], strict=True)]
    u = [c - b - e for b, c, e in zip(points[1], points[2], r, strict=True)]
    above = sum(float(np.sum((g * e) ** 2)) for g, e in zip(metric, r, strict=True))
    below = sum(float(np.sum((g * e) ** 2)) for g, e in zip(metric, u, strict=True))
    if not below > 0 or above <= below:  # a ≤ 1 is no further than EM has come
        return None
    a = min(np.sqrt(above / below), LONGEST)
    logs, means, spreads = (
        p + 2 * a * e + a * a * f for p, e, f in zip(points[0], r, u, strict=True)
    )
    weights = np.exp(np.clip(logs - logs.max(), LOWEST_LOG, 0.0))
    variances = np.maximum(np.exp(np.clip(spreads, LOWEST_LOG, -LOWEST_LOG)), model.floor)
    return Mixture(weights / weights.sum(), means, variances)
