"""How many components a fitted network has: more or fewer, while a criterion falls."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from implicitmoments.activation.network import Network, Polished, fit_weights, polish
from implicitmoments.activation.precision import wide
from implicitmoments.activation.standard_errors import Certainty, measure_certainty
from implicitmoments.arrays import Floats, namespace_of, to_numpy
from implicitmoments.problems.labelled_rows import LabelledRows, Rows
from implicitmoments.rows import Sums

__all__ = ["Criterion", "grow", "prune"]

# ``polish_all(start)`` fits a network to all rows
PolishAll: TypeAlias = Callable[[Network], Polished]

QUICK_STEPS, QUICK_TOL = 8, 1e-3
# Components that may be nothing or one: within so many standard errors, so light, or so near.
DOUBTFUL, LIGHT, NEAR = 3.5, 0.1, 0.2
# Of the mean square of the labels: they seem to have no noise, and a few steps tell nothing.
SMALL = 1e-4
MOST_MORE, ROUNDS = 8, 3  # components that are added one by one, before all is polished
FIRST_STEPS = 3  # from each start, before one is chosen
FEWEST_ROWS, ROWS_PER_UNKNOWN = 20_000, 20  # that are asked whether there is one more
HOPE = 0.5  # of what it must gain, after a few steps
RANDOM_STARTS = 3  # where residuals of order 2 say nothing


@dataclass(frozen=True)
class Criterion:
    """The Bayesian information criterion of networks fitted to the same rows.

    Attributes
    ----------
    n : float
        Number of rows.
    size : float
        Mean square of the labels.
    """

    n: float
    size: float

    @classmethod
    def of(cls, rows: LabelledRows) -> Criterion:
        """Measure the labels, in a pass."""
        sums = rows.fold(_sum_squares, 1, "size of the labels")
        n = float(sums["mass"])
        return cls(n, float(sums["squares"]) / n)

    def __call__(self, polished: Polished) -> float:
        """Return it: the least is best."""
        loss = max(polished.loss, polished.rounding.loss * self.size, np.finfo(float).tiny)
        return self.n * math.log(loss) + polished.network.n_unknowns * math.log(self.n)

    def falls(self, before: Polished, larger: Polished, n: float) -> bool:
        """Say whether n rows, after a few steps, give hope that it falls on all of them."""
        least = np.finfo(float).tiny + before.rounding.loss * self.size
        gain = n * math.log(max(before.loss, least) / max(larger.loss, least))
        more = larger.network.n_unknowns - before.network.n_unknowns
        return gain > HOPE * more * math.log(n)

    def hopeful(self, fewer: Polished, best: Polished) -> bool:
        """Say after a few steps whether it is worth while to go on."""
        gain = best.network.directions.shape[1] * math.log(self.n)
        return self(fewer) < self(best) + gain or fewer.loss < SMALL * self.size


def grow(
    rows: LabelledRows, best: Polished, polish_all: PolishAll, *, even: bool, seed: int
) -> Polished:
    r"""Add components one by one while the criterion falls.

    The moments count directions that stand clear of the noise. One that does not, or that lies
    near another or opposite to it, is left out of the count and yet seen in what the network
    leaves of the labels: a further one starts along the extreme eigenvector of
    :math:`E[(y - h(x))(x x^\top - I)]`. A few steps on some of the rows tell whether it is worth
    while to go on.
    """
    criterion, rng = Criterion.of(rows), np.random.default_rng(seed)
    for _ in range(ROUNDS):  # a network at its best shows what one after a few steps hides
        larger = _larger(rows, best, criterion, even, rng)
        if larger is None:
            break
        polished = polish_all(larger)
        if criterion(polished) >= criterion(best):
            break
        best = polished
    return best


def _larger(
    rows: LabelledRows, best: Polished, criterion: Criterion, even: bool, rng: np.random.Generator
) -> Network | None:
    """Add components, each after a few steps on some of the rows; None if none seems to help."""
    k, d = best.network.directions.shape
    some = rows.about(max(FEWEST_ROWS, ROWS_PER_UNKNOWN * (k + 1) * (d + 1)))
    larger = best if some is rows else polish(some, best.network, max_iter=0)
    for _ in range(MOST_MORE):
        if 2 * (larger.network.n_unknowns + d) >= some.mass:  # the rows do not tell more
            break
        starts = [
            polish(some, _with(some, larger.network, v), max_iter=FIRST_STEPS)
            for v in _further(some, larger.network, even, rng)
        ]
        start = min(starts, key=lambda polished: polished.loss).network
        tried = polish(some, start, max_iter=QUICK_STEPS, tol=QUICK_TOL)
        if not criterion.falls(larger, tried, some.mass):
            break
        larger = tried
    return larger.network if len(larger.network.weights) > k else None


def _with(rows: LabelledRows, network: Network, direction: Floats) -> Network:
    """Add a direction, with the best weights of all."""
    directions = np.vstack([network.directions, direction])
    return fit_weights(rows, directions, network.activation)


def _further(
    rows: LabelledRows, network: Network, even: bool, rng: np.random.Generator
) -> list[Floats]:
    """Return unit vectors to start a further component from."""
    d, second = network.directions.shape[1], network.activation.coefficient(2)
    if second == 0:
        drawn = rng.standard_normal((RANDOM_STARTS, d))
        return list(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))
    sums = rows.fold(_Left(network), 2 * d, "what is left of the labels")
    moment = to_numpy(sums["moment"]) - float(sums["total"]) * np.eye(d)
    _, vectors = np.linalg.eigh(moment * math.copysign(1.0, second))
    return [vectors[:, -1]] if even else [vectors[:, -1], -vectors[:, -1]]


@dataclass(frozen=True, eq=False)
class _Left:
    """Sums what a network leaves of the labels, by products of the points."""

    network: Network

    def __call__(self, rows: Rows) -> Sums:
        xp = namespace_of(rows.x)
        left = (rows.y - self.network(rows.x)) * rows.counts
        return {
            "moment": wide(xp.matrix_transpose(rows.x * left[:, None]) @ rows.x),
            "total": xp.sum(wide(left)),
        }


def prune(
    rows: LabelledRows, best: Polished, certainty: Certainty, polish_all: PolishAll
) -> tuple[Polished, Certainty]:
    """Leave out or merge components that are in doubt, while the criterion falls."""
    criterion = Criterion.of(rows)
    while len(best.network.weights) > 1:
        fewer = [
            polish(rows, smaller, max_iter=QUICK_STEPS, tol=QUICK_TOL)
            for smaller in _smaller(best.network, certainty)
        ]
        hopeful = [few for few in fewer if criterion.hopeful(few, best)]
        if not hopeful:
            break
        leanest = polish_all(min(hopeful, key=criterion).network)
        if criterion(leanest) >= criterion(best):
            break
        best, certainty = leanest, measure_certainty(rows, leanest)
    return best, certainty


def _smaller(network: Network, certainty: Certainty) -> list[Network]:
    """Return the network without a component that may be nothing, and with two that may be one."""
    w, V = network.weights, network.directions
    closeness = V @ V.T - 2 * np.eye(len(w))
    i, j = np.unravel_index(int(np.argmax(closeness)), closeness.shape)
    light = int(np.argmin(w))
    apart = float(np.linalg.norm(V[i] - V[j]))
    blur = float(np.hypot(certainty.direction_errors[i], certainty.direction_errors[j]))
    doubtful = bool(certainty.loose.any())
    smaller = []
    if doubtful or w[light] < max(LIGHT * w.mean(), DOUBTFUL * certainty.weight_errors[light]):
        kept = np.arange(len(w)) != light
        smaller.append(replace(network, weights=w[kept], directions=V[kept]))
    joined = w[i] * V[i] + w[j] * V[j]
    if (doubtful or apart < max(NEAR, DOUBTFUL * blur)) and np.linalg.norm(joined) > 0:
        rest = ~np.isin(np.arange(len(w)), (i, j))
        merged = np.vstack([V[rest], joined / np.linalg.norm(joined)])
        smaller.append(
            replace(network, weights=np.append(w[rest], w[i] + w[j]), directions=merged)
        )
    return smaller


def _sum_squares(rows: Rows) -> Sums:
    xp, counts = namespace_of(rows.y), wide(rows.counts)
    return {"squares": counts @ wide(rows.y) ** 2, "mass": xp.sum(counts)}
