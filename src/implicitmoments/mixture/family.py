"""Spherical mixtures as a family of the search: densities, E-step, M-step, where to split."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from implicitmoments.arrays import (
    TINY,
    Array,
    Floats,
    cross_sums,
    lift_rows,
    linear_rows,
    move_like,
    namespace_of,
    softmax_rows,
    to_numpy,
)
from implicitmoments.rows import Block, Rows, Sums
from implicitmoments.search import Expectations, State
from implicitmoments.search.em import Places

FAR_CENTER = 1e3  # units: subtracting the centre afterwards loses 6 of 16 digits
MOST_DEVIATIONS = 1e6  # mean squared length over the variance: likelihoods are its differences
EMPTY = 1e-8  # of a row: a component with less keeps its mean
SMALLEST_SHARE = 1e-12  # weight of an empty component, so that it can come back
LOWEST_LOG = -600.0  # exp of less is 0
# Starts of a split, in standard deviations of the component along an axis.
HALVES = 0.8  # on either side: the means of the halves of a Gaussian
UNEQUAL, TAIL = (0.85, 0.15), 1.5  # weights, and where the light part is
LIGHT, FEWEST = 0.02, 2.0  # weight of a part at an ill-explained row, and its least rows
# Axes, and ill-explained rows, from which splits start; successive halving keeps the best three.
N_AXES, N_WORST = 3, 4
N_NEAREST = 3  # components next to each, the midpoints to which may hide another
N_SPARSE, SPARSE, NEIGHBOURS = 60, 0.3, 40  # seeds, share of rows, neighbours averaged
POWER_STEPS = 4  # iterations for the longest axes: a start needs no digits


@dataclass(frozen=True, eq=False)
class Mixture(State):
    r"""The mixture :math:`\sum_i w_i N(\mu_i, v_i I)`, with weights (k,)."""

    means: Floats  # (k, d)
    variances: Floats  # (k,), equal entries for a shared variance

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.means.shape[1])

    @property
    def pooled(self) -> float:
        """Mean variance of a row."""
        return float(self.weights @ self.variances / self.weights.sum())

    @property
    def slopes(self) -> Floats:
        """Log weight plus log density as linear functions of (x, |x|², 1): (d + 2, k)."""
        v = self.variances
        offsets = np.log(np.maximum(self.weights, TINY))
        offsets = offsets - 0.5 * np.sum(self.means**2, axis=1) / v
        offsets = offsets - 0.5 * self.d * np.log(2 * math.pi * v)
        return np.vstack([self.means.T / v, -0.5 / v, offsets])

    def moved(self, center: Floats, scale: float) -> Mixture:
        """Return the mixture of ``center + scale · x``."""
        return Mixture(self.weights, center + scale * self.means, scale**2 * self.variances)


@dataclass(frozen=True, eq=False)
class MixtureSums(Expectations):
    """Sums over rows that EM needs, each row times its responsibilities."""

    counts: Floats  # (k,)
    points: Floats  # (k, d)
    squares: Floats  # (k,), of squared lengths


def log_joint(x: Array, mixture: Mixture) -> Array:
    """Return ``log w_i + log N(x; μ_i, v_i I)`` for rows (n, d), as (n, k).

    One matrix product of (x, |x|², 1) with (μ_i / v_i, −1 / 2v_i, offset).
    """
    return linear_rows(lift_rows(x), move_like(mixture.slopes, x))


def log_densities(x: Array, mixture: Mixture) -> Array:
    """Return the log density of every row (n, d), in the units of the mixture."""
    return softmax_rows(log_joint(x, mixture))[1]


@dataclass(frozen=True)
class SphericalFamily:
    """Spherical mixtures in the terms of :class:`implicitmoments.search.Family`."""

    known: float | None = None  # the variance of every component
    shared: bool = True  # one variance for all components, or one each
    # Least variance, in squares of a typical distance from the centre: a likelihood without one
    # has no maximum.
    floor: float = 1e-6

    @property
    def estimated_once(self) -> bool:
        """Whether one variance is estimated from all components."""
        return self.known is None and self.shared

    def e_step(self, rows: Rows, state: Mixture) -> MixtureSums:
        """Return the sums of one pass over all rows."""
        if _plain(rows, state):
            return _plain_e_step(rows, state)
        step = partial(_lifted_sums, move_like(state.slopes, rows.like))
        found = rows.lifted.fold(step, width=state.k, what="EM")
        moments = to_numpy(found["moments"])
        level, total = float(found["log_likelihood"]), float(found["total"])
        return MixtureSums(level, total, moments[:, -1], moments[:, :-2], moments[:, -2])

    def m_step(self, sums: MixtureSums, before: Mixture) -> Mixture:
        """Return the mixture that maximises the expected log-likelihood."""
        means, inside = _means(sums, before)
        weights = np.maximum(sums.counts / sums.total, SMALLEST_SHARE)
        variances = self._variances(sums, before, inside)
        if self.estimated_once:
            pooled = float(inside.sum()) / (sums.total * before.d)
            variances = np.full(before.k, max(pooled, self.floor))
        return Mixture(weights / weights.sum(), means, variances)

    def _variances(self, sums: MixtureSums, before: Mixture, inside: Floats) -> Floats:
        """Return one variance for each component; what is shared or known stays as it was."""
        if self.known is not None:
            return np.full(before.k, self.known)
        if self.shared:
            return before.variances
        filled = sums.counts > EMPTY
        own = inside / (np.where(filled, sums.counts, 1.0) * before.d)
        return np.maximum(np.where(filled, own, before.variances), self.floor)

    def pack(self, state: Mixture) -> Floats:
        """Return logarithms of weights, means, and logarithms of variances."""
        weights = np.log(np.maximum(state.weights, SMALLEST_SHARE))
        return np.concatenate([weights, state.means.ravel(), np.log(state.variances)])

    def unpack(self, packed: Floats, like: Mixture) -> Mixture:
        """Return the mixture of a vector; variances are not below their floor."""
        k, logs = like.k, packed[: like.k]
        weights = np.exp(np.clip(logs - logs.max(), LOWEST_LOG, 0.0))
        variances = np.exp(np.clip(packed[-k:], LOWEST_LOG, -LOWEST_LOG))
        return Mixture(
            weights / weights.sum(),
            packed[k:-k].reshape(like.means.shape),
            np.maximum(variances, self.floor),
        )

    def scale(self, state: Mixture) -> Floats:
        """Return roots of the complete-data information per row."""
        root = np.sqrt(state.weights)
        means = np.repeat(root / np.sqrt(state.variances), state.d)
        return np.concatenate([root, means, root * math.sqrt(0.5 * state.d)])

    def n_parameters(self, state: Mixture) -> int:
        """Count the free parameters."""
        n_variances = 0 if self.known is not None else 1 if self.shared else state.k
        return state.k * (state.d + 1) - 1 + n_variances

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
        if not self.estimated_once:
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
        if self.estimated_once and rest is not None:
            n, squares = rest
            pooled = (_per_trial(inside, size) + squares) / (_per_trial(sums.counts, size) + n)
            variances = np.repeat(np.maximum(pooled / before.d, self.floor), size)
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
        if self.known is None and not self.shared:
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


def _plain(rows: Rows, mixture: Mixture) -> bool:
    """Return whether rows may be multiplied as they are, and their centre subtracted afterwards.

    That needs one variance and the sum of all |x|². Double precision has 16 digits, and a far
    centre or long rows would take too many of them.
    """
    v, squares = mixture.variances, rows.census.squares
    if rows.keep or rows.weights is not None or rows.wide or squares is None:
        return False
    x, far = rows.first["x"], float(np.abs(rows.origin).max())
    double = isinstance(x, np.ndarray) and x.dtype == np.float64
    near = far <= FAR_CENTER * rows.unit
    short = bool(squares <= MOST_DEVIATIONS * v[0] * max(rows.total, 1.0))
    return double and near and short and bool(np.all(v == v[0]))


def _plain_e_step(rows: Rows, mixture: Mixture) -> MixtureSums:
    r"""Sum as the E-step does, over rows that are neither moved, scaled nor lifted.

    For :math:`z = (x - c) / s` and one variance v, :math:`z \cdot \mu_i / v` is a product of x
    less a number of the component, and :math:`-|z|^2 / 2v` adds to the likelihood what all rows
    make together. Sums of z are sums of x less those of c. Of the sum of :math:`|z|^2`
    components get what gives each the same variance: a shared one asks for no more.
    """
    center, s, v = rows.origin, rows.unit, float(mixture.variances[0])
    slopes = mixture.slopes[:-2] / s
    step = partial(_plain_sums, slopes, mixture.slopes[-1] - center @ slopes)
    found = rows.as_given().fold(step, width=mixture.k, what="EM")
    counts, total = to_numpy(found["counts"]), float(found["total"])
    points = (to_numpy(found["points"]) - counts[:, None] * center) / s
    squares = float(rows.census.squares or 0.0)
    about_zero = np.sum(points**2, axis=1) / np.maximum(counts, TINY)
    inside = max(squares - float(about_zero.sum()), 0.0)
    likelihood = float(found["log_likelihood"]) - 0.5 * squares / v
    return MixtureSums(likelihood, total, counts, points, about_zero + inside * counts / total)


def _lifted_sums(slopes: Array, block: Block) -> Sums:
    """Return the sums of a block of lifted rows; on a device nothing waits for them."""
    lifted, times = block["x"], block.get("counts")
    xp = namespace_of(lifted)
    shares, densities = softmax_rows(linear_rows(lifted, move_like(slopes, lifted)))
    total = float(lifted.shape[0])
    if times is not None:
        lifted, densities = lifted * times[:, None], densities * times
        total = float(xp.sum(times, dtype=xp.float64))
    return {
        "moments": cross_sums(shares, lifted),
        "log_likelihood": xp.sum(densities, dtype=xp.float64),
        "total": total,
    }


def _plain_sums(slopes: Floats, offsets: Floats, block: Block) -> Sums:
    """Return the sums of a block of rows that are neither centred nor scaled."""
    x, times = block["x"], block.get("counts")
    joint = linear_rows(x, slopes)
    joint += offsets
    shares, densities = softmax_rows(joint)
    total = float(x.shape[0])
    if times is not None:
        shares *= times[:, None]
        densities, total = densities * times, float(np.sum(times))
    return {
        "counts": np.sum(shares, axis=0),
        "points": cross_sums(shares, x),
        "log_likelihood": float(np.sum(densities)),
        "total": total,
    }


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
