"""The number of components of a network, by the Bayesian information criterion.

Components are fitted by Gauss-Newton steps rather than by EM, and have no responsibilities, so
this search shares its order (grow, then prune) with :mod:`implicitmoments.search`, not its moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np

from implicitmoments.activation.network import (
    FittedNetwork,
    Network,
    StandardErrors,
    fit_network,
    fit_weights,
    measure_loss,
    standard_errors,
    unit_rows,
)
from implicitmoments.arrays import Floats, as_double, namespace_of, to_numpy
from implicitmoments.rows import Block, Rows, Sums, weights_of

# fit_all(start) fits a network to all rows
FitAll: TypeAlias = Callable[[Network], FittedNetwork]

QUICK_STEPS, QUICK_TOL = 8, 1e-3
# Components that may be zero or equal: within so many standard errors, so light, or so near.
DOUBTFUL, LIGHT, NEAR = 3.5, 0.1, 0.2
SMALL = 1e-4  # of the mean square of the labels: labels without noise, which take more steps
MOST_MORE, ROUNDS = 8, 3  # components added one by one before a fit to all rows; such fits
FIRST_STEPS = 3  # from each start, before one is chosen
FEWEST_ROWS, ROWS_PER_UNKNOWN = 20_000, 20  # on which a further component is tried
HOPE = 0.5  # of the gain needed, after a few steps
RANDOM_STARTS = 3  # where residuals of order 2 are not informative


def bic(fitted: FittedNetwork, n: float) -> float:
    """Return the Bayesian information criterion of a network fitted to n rows."""
    return n * math.log(fitted.resolved_loss) + fitted.network.n_unknowns * math.log(n)


def grow(
    rows: Rows, best: FittedNetwork, fit_all: FitAll, *, even: bool, seed: int
) -> FittedNetwork:
    r"""Add components one by one while the criterion decreases.

    The moments count directions above the noise floor. A direction below it, or one near or
    opposite to another, is missed, but shows in the residuals of the network: a further component
    starts along the extreme eigenvector of :math:`E[(y - h(x))(x x^\top - I)]`. A few steps on a
    sample of the rows decide whether to continue.

    Parameters
    ----------
    even : bool
        Whether the activation is even, so that signs of directions do not matter.
    """
    rng, n = np.random.default_rng(seed), rows.total
    for _ in range(ROUNDS):  # a converged network shows what one after a few steps does not
        larger = _larger(rows, best, even, rng)
        if larger is None:
            break
        fitted = fit_all(larger)
        if bic(fitted, n) >= bic(best, n):
            break
        best = fitted
    return best


def _larger(
    rows: Rows, best: FittedNetwork, even: bool, rng: np.random.Generator
) -> Network | None:
    """Add components, each after a few steps on a sample; None if none seems to help."""
    k, d = best.network.directions.shape
    wanted = max(FEWEST_ROWS, ROWS_PER_UNKNOWN * (k + 1) * (d + 1))
    some = rows.sample(wanted, rng) if rows.n >= 2 * wanted else rows
    larger = best if some is rows else measure_loss(some, best.network)
    for _ in range(MOST_MORE):
        if 2 * (larger.network.n_unknowns + d) >= some.total:  # too few rows for more
            break
        starts = [
            fit_network(some, _with(some, larger.network, v), max_iter=FIRST_STEPS)
            for v in _further(some, larger.network, even, rng)
        ]
        start = min(starts, key=lambda fitted: fitted.loss).network
        tried = fit_network(some, start, max_iter=QUICK_STEPS, tol=QUICK_TOL)
        gain = some.total * math.log(larger.resolved_loss / tried.resolved_loss)
        if gain <= HOPE * d * math.log(some.total):
            break
        larger = tried
    return larger.network if larger.network.k > k else None


def _with(rows: Rows, network: Network, direction: Floats) -> Network:
    """Add a direction, with the best weights of all."""
    directions = np.vstack([network.directions, direction])
    return fit_weights(rows, directions, network.activation)


def _further(rows: Rows, network: Network, even: bool, rng: np.random.Generator) -> list[Floats]:
    """Return unit vectors from which a further component may start."""
    d, second = network.directions.shape[1], network.activation.coefficient(2)
    if second == 0:
        return list(unit_rows(rng.standard_normal((RANDOM_STARTS, d))))
    sums = rows.fold(partial(_sum_residuals, network), width=2 * d, what="residuals")
    moment = to_numpy(sums["moment"]) - float(sums["sum"]) * np.eye(d)
    _, vectors = np.linalg.eigh(moment * math.copysign(1.0, second))
    return [vectors[:, -1]] if even else [vectors[:, -1], -vectors[:, -1]]


def _sum_residuals(network: Network, block: Block) -> Sums:
    """Sum residuals of a network, and their products with those of the points."""
    x, xp = block["x"], namespace_of(block["x"])
    residual = (block["y"] - network(x)) * weights_of(block)
    return {
        "moment": as_double(xp.matrix_transpose(x * residual[:, None]) @ x),
        "sum": xp.sum(as_double(residual)),
    }


def prune(
    rows: Rows, best: FittedNetwork, errors: StandardErrors, fit_all: FitAll
) -> tuple[FittedNetwork, StandardErrors]:
    """Drop or merge components that are in doubt, while the criterion decreases."""
    n = rows.total
    while best.network.k > 1:
        # a few steps decide whether a smaller network is worth fitting
        margin = best.network.directions.shape[1] * math.log(n)
        promising = [
            fewer
            for smaller in _smaller(best.network, errors)
            for fewer in [fit_network(rows, smaller, max_iter=QUICK_STEPS, tol=QUICK_TOL)]
            if bic(fewer, n) < bic(best, n) + margin or fewer.loss < SMALL * fewer.size
        ]
        if not promising:
            break
        leanest = fit_all(min(promising, key=lambda fewer: bic(fewer, n)).network)
        if bic(leanest, n) >= bic(best, n):
            break
        best, errors = leanest, standard_errors(rows, leanest)
    return best, errors


def _smaller(network: Network, errors: StandardErrors) -> list[Network]:
    """Return the network without its lightest component, and with its nearest two merged."""
    w, V = network.weights, network.directions
    cosines = V @ V.T - 2 * np.eye(len(w))
    i, j = np.unravel_index(int(np.argmax(cosines)), cosines.shape)
    light = int(np.argmin(w))
    distance = float(np.linalg.norm(V[i] - V[j]))
    error = float(np.hypot(errors.directions[i], errors.directions[j]))
    doubtful = bool(errors.free.any())
    smaller = []
    if doubtful or w[light] < max(LIGHT * w.mean(), DOUBTFUL * errors.weights[light]):
        smaller.append(network.take(np.arange(len(w)) != light))
    joined = w[i] * V[i] + w[j] * V[j]
    if (doubtful or distance < max(NEAR, DOUBTFUL * error)) and np.linalg.norm(joined) > 0:
        rest = network.take(~np.isin(np.arange(len(w)), (i, j)))
        weights = np.append(rest.weights, w[i] + w[j])
        directions = np.vstack([rest.directions, unit_rows(joined[None, :])])
        smaller.append(replace(rest, weights=weights, directions=directions))
    return smaller
