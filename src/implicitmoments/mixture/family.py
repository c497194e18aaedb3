"""Spherical mixtures as a family for the search: the M-step, and where to split."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    cross_sums,
    linear_rows,
    move_like,
    to_numpy,
)
from implicitmoments.mixture import likelihood
from implicitmoments.mixture.likelihood import Mixture, MixtureSums
from implicitmoments.rows import Rows
from implicitmoments.search.family import Places

EMPTY = 1e-8  # of a row: a component with less keeps its mean
SMALLEST_SHARE = 1e-12  # weight of an empty component, so that it can come back
LOWEST_LOG = -600.0  # exp of less is 0
# Starts of a split, in standard deviations of the component along an axis.
HALVES = 0.8  # on either side: the means of the halves of a Gaussian
UNEQUAL, TAIL = (0.85, 0.15), 1.5  # weights, and where the light part is
LIGHT, FEWEST = 0.02, 2.0  # weight of a part at an ill-explained row, and its least rows
N_AXES, N_WORST = 3, 4  # axes, and ill-explained rows, to start from (starting values)
N_NEAREST = 3  # components next to each, the midpoints to which may hide another
N_SPARSE, SPARSE, NEIGHBOURS = 60, 0.3, 40  # seeds, share of rows, neighbours averaged
POWER_STEPS = 4  # iterations for the longest axes: a start needs no digits


@dataclass(frozen=True)
class VarianceModel:
    """Model of the variances: known, shared or separate."""

    known: float | None = None  # the variance of every component
    shared: bool = True  # one variance for all components, or one each
    floor: float = 1e-6  # least variance: a likelihood without one has no maximum

    @property
    def estimated_once(self) -> bool:
        """Whether one variance is estimated from all components."""
        return self.known is None and self.shared

    def parameters(self, k: int) -> int:
        """Return how many variances are estimated."""
        if self.known is not None:
            return 0
        return 1 if self.shared else k


@dataclass(frozen=True)
class SphericalFamily:
    """Spherical mixtures in the terms of :class:`implicitmoments.search.Family`."""

    model: VarianceModel

    def e_step(self, rows: Rows, state: Mixture) -> MixtureSums:
        """Return the sums of one pass over all rows."""
        return likelihood.e_step(rows, state)

    def m_step(self, sums: MixtureSums, before: Mixture) -> Mixture:
        """Return the mixture that maximises the expected log-likelihood."""
        means, inside = _means(sums, before)
        weights = np.maximum(sums.counts / sums.total, SMALLEST_SHARE)
        variances = self._variances(sums, before, inside)
        if self.model.estimated_once:
            pooled = float(inside.sum()) / (sums.total * before.d)
            variances = np.full(before.k, max(pooled, self.model.floor))
        return Mixture(weights / weights.sum(), means, variances)

    def _variances(self, sums: MixtureSums, before: Mixture, inside: Floats) -> Floats:
        """Return one variance for each component; what is shared or known stays as it was."""
        if self.model.known is not None:
            return np.full(before.k, self.model.known)
        if self.model.shared:
            return before.variances
        filled = sums.counts > EMPTY
        own = inside / (np.where(filled, sums.counts, 1.0) * before.d)
        return np.maximum(np.where(filled, own, before.variances), self.model.floor)

    def pack(self, state: Mixture) -> Floats:
        """Return logarithms of weights, means, and logarithms of variances."""
        weights = np.log(np.maximum(state.weights, SMALLEST_SHARE))
        return np.concatenate([weights, state.means.ravel(), np.log(state.variances)])

    def unpack(self, packed: Floats, like: Mixture) -> Mixture:
        """Return the mixture of a vector; variances are not below their floor."""
        k = like.k
        logs = packed[:k]
        weights = np.exp(np.clip(logs - logs.max(), LOWEST_LOG, 0.0))
        variances = np.exp(np.clip(packed[-k:], LOWEST_LOG, -LOWEST_LOG))
        return Mixture(
            weights / weights.sum(),
            packed[k:-k].reshape(like.means.shape),
            np.maximum(variances, self.model.floor),
        )

    def scale(self, state: Mixture) -> Floats:
        """Return roots of the complete-data information per row."""
        root = np.sqrt(state.weights)
        means = np.repeat(root / np.sqrt(state.variances), state.d)
        return np.concatenate([root, means, root * math.sqrt(0.5 * state.d)])

    def n_parameters(self, state: Mixture) -> int:
        """Count the free parameters."""
        return state.k * (state.d + 1) - 1 + self.model.parameters(state.k)

    def log_joint(self, rows: Rows, state: Mixture) -> Array:
        """Return log weight plus log density, (n, k)."""
        lifted = rows.lifted.block["x"]
        return linear_rows(lifted, move_like(state.slopes, lifted))

    def counts(self, rows: Rows) -> Array:
        """Return how often each row counts, (n,)."""
        return rows.block.get("counts", rows.lifted.block["x"][:, -1])

    def part(self, rows: Rows, places: Places, counts: Floats) -> Rows:
        """Return the rows at some places, each counting as often as given."""
        return rows.take(places, counts)

    def expect(self, rows: Rows, shares: Array) -> MixtureSums:
        """Return the sums for given responsibilities (n, m)."""
        moments = to_numpy(cross_sums(shares, rows.lifted.block["x"]))
        return MixtureSums(0.0, rows.total, moments[:, -1], moments[:, :-2], moments[:, -2])

    def pool(self, sums: MixtureSums, state: Mixture) -> Floats:
        """Return rows and squared deviations of each component, (k, 2) where one is shared."""
        if not self.model.estimated_once:
            return np.zeros((state.k, 0))
        return np.column_stack([sums.counts, _means(sums, state)[1]])

    def fit_trials(
        self, sums: MixtureSums, before: Mixture, size: int, rest: Floats | None
    ) -> Mixture:
        """Return the M-step of trials of ``size`` components, each trial by itself."""
        means, inside = _means(sums, before)
        weights = np.maximum(sums.counts / sums.total, SMALLEST_SHARE)
        if size > 1:
            weights = weights / np.repeat(_per_trial(weights, size), size)
        variances = self._variances(sums, before, inside)
        if self.model.estimated_once and rest is not None:
            n, squares = rest
            pooled = (_per_trial(inside, size) + squares) / (_per_trial(sums.counts, size) + n)
            variances = np.repeat(np.maximum(pooled / before.d, self.model.floor), size)
        return Mixture(weights, means, variances)

    def rest_bound(self, rest: Floats, trials: Mixture, size: int) -> Floats:
        """Return the expected log-likelihood of the rest, up to a constant, for each trial."""
        v = trials.variances[::size]
        if len(rest) == 0:
            return np.zeros(len(v))
        n, squares = rest
        return np.asarray(-0.5 * n * trials.d * np.log(v) - 0.5 * squares / v)

    def split_starts(
        self, part: Rows, state: Mixture, i: int, rng: np.random.Generator
    ) -> Mixture:
        """Return starts of a split: halves, unequal parts, and a light part in the tail.

        Halves lie along the longest axes and a random one, unequal parts along the longest. Light
        parts lie at the rows that the component explains worst, apart from one another. Where
        variances differ, a narrow part may lie inside a wide one.
        """
        x, counts = part.points.astype(np.float64), part.counts
        mean, v = state.means[i], float(state.variances[i])
        steps = _axes(x - counts @ x / counts.sum(), counts, rng)
        starts = [((0.5, 0.5), (mean + HALVES * s, mean - HALVES * s)) for s in steps]
        heavy, light = UNEQUAL
        for s in (steps[0], -steps[0]):
            balanced = mean - TAIL * light / heavy * s
            starts.append((UNEQUAL, (balanced, mean + TAIL * s)))
        light = min(max(LIGHT, FEWEST / counts.sum()), 0.5)
        for place in _ill_explained(x, counts, mean, v):
            starts.append(((1 - light, light), (mean, x[place])))
        factors = np.ones(2 * len(starts))
        if self.model.known is None and not self.model.shared:
            starts.append(((0.5, 0.5), (mean, mean)))
            factors = np.append(factors, [0.4, 1.8])
        weights = np.array([weights for weights, _ in starts]).ravel()
        means = np.array([means for _, means in starts]).reshape(-1, len(mean))
        return Mixture(weights, means, v * factors)

    def candidates(
        self, rows: Rows, state: Mixture, log_density: Array, rng: np.random.Generator
    ) -> Mixture:
        """Return components that others may hide.

        Midpoints of near components, the centre, and means of neighbours among the rows of lowest
        density.
        """
        means = np.vstack([_midpoints(state), _sparse_places(rows, log_density, rng)])
        weights = np.full(len(means), 0.5 / state.k)
        return Mixture(weights, means, np.full(len(means), state.pooled))


def _midpoints(state: Mixture) -> Floats:
    """Return the centre, and midpoints of each component and the nearest others."""
    m, n = state.means, min(N_NEAREST, state.k - 1)
    squares = np.sum(m**2, axis=1)
    apart = squares[:, None] + squares - 2 * m @ m.T
    np.fill_diagonal(apart, np.inf)
    nearest = np.argsort(apart, axis=1, kind="stable")[:, :n]
    pairs = np.column_stack([np.repeat(np.arange(state.k), n), nearest.ravel()])
    i, j = np.unique(np.sort(pairs, axis=1), axis=0).T
    return np.vstack([(state.weights @ m)[None, :], (m[i] + m[j]) / 2])


def _sparse_places(rows: Rows, log_density: Array, rng: np.random.Generator) -> Floats:
    """Return means of neighbours among the rows of lowest density."""
    low = np.argsort(to_numpy(log_density), kind="stable")[: max(1, int(SPARSE * rows.n))]
    points = rows.points[low].astype(np.float64)
    seeds = rng.choice(len(low), min(N_SPARSE, len(low)), replace=False)
    apart = np.sum(points**2, axis=1) - 2 * points[seeds] @ points.T
    n = min(NEIGHBOURS, len(low))
    nearest = np.argpartition(apart, n - 1, axis=1)[:, :n]
    return np.asarray(points[nearest].mean(axis=1))


def _means(sums: MixtureSums, before: Mixture) -> tuple[Floats, Floats]:
    """Return means, and sums of squared deviations from them."""
    filled = sums.counts > EMPTY
    safe = np.where(filled, sums.counts, 1.0)
    means = np.where(filled[:, None], sums.points / safe[:, None], before.means)
    inside = np.maximum(sums.squares - sums.counts * np.sum(means**2, axis=1), 0.0)
    return means, inside


def _per_trial(values: Floats, size: int) -> Floats:
    return np.asarray(values.reshape(-1, size).sum(axis=1))


def _axes(z: Floats, counts: Floats, rng: np.random.Generator) -> Floats:
    """Return the longest axes of centred rows and a random one, as long as a deviation."""
    d = z.shape[1]
    axes = rng.normal(size=(d, min(N_AXES, d)))
    for _ in range(POWER_STEPS):
        longest, _ = np.linalg.qr(axes[:, : max(1, axes.shape[1] - 1)])
        axes[:, : longest.shape[1]] = z.T @ (counts[:, None] * (z @ longest))
    axes /= np.maximum(np.linalg.norm(axes, axis=0), np.finfo(float).tiny)
    deviations = np.sqrt(counts @ (z @ axes) ** 2 / counts.sum())
    return np.asarray((axes * deviations).T)


def _ill_explained(x: Floats, counts: Floats, mean: Floats, v: float) -> list[int]:
    """Return rows far from the mean of the component that holds them, and from one another."""
    held = counts > 0.3 * np.median(counts)  # not those that other components hold, too
    apart = np.where(held, np.sum((x - mean) ** 2, axis=1), -np.inf)
    found: list[int] = []
    for _ in range(N_WORST):
        found.append(int(np.argmax(apart)))
        # two rows of one component are √(2 d v) apart
        from_it = np.sum((x - x[found[-1]]) ** 2, axis=1) - 2 * x.shape[1] * v
        apart = np.minimum(apart, from_it)
    return found
