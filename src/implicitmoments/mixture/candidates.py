"""Where the components of a Gaussian mixture may be split, and where one may be missing."""

from __future__ import annotations

import math

import numpy as np

from implicitmoments.arrays import Array, Floats, to_numpy
from implicitmoments.mixture.gaussians import CovarianceType, Gaussians, inverse_roots
from implicitmoments.rows import DEFAULT_BUDGET, Rows, blocks
from implicitmoments.search.em import Places

# Starts of a split, in standard deviations of the component along an axis.
HALVES = 0.8  # on either side: the means of the halves of a Gaussian
HALVED = 2 / math.pi  # of the variance along the axis along which a Gaussian is halved
UNEQUAL, TAIL = (0.85, 0.15), 1.5  # weights, and where the light part is
LIGHT, FEWEST = 0.02, 2.0  # weight of a part at an ill-explained row, and its least rows
# Covariances in two dimensions: of a light part and of two concentric ones, relative to that of
# the component, and of a further component, relative to the pooled one.
SMALL, NARROW, WIDE, NEW = 0.3, 0.4, 1.8, 0.5
RIDGE = 0.01  # of the mean variance, added to that of a half: it may have no width at all
# Longest and random axes, and ill-explained rows, from which splits start; successive halving
# keeps the best three.
N_AXES, N_RANDOM, N_WORST = 3, 2, 4
POWER_STEPS = 4  # iterations for the longest axes: a start needs no digits
N_NEAREST = 3  # components next to each, the midpoints to which may hide another
# Seeds, at least one for each component that there is; share of rows; neighbours averaged.
N_SPARSE, SPARSE, NEIGHBOURS = 60, 0.3, 40


def split_starts(
    part: Rows,
    state: Gaussians,
    i: int,
    kind: CovarianceType,
    rng: np.random.Generator,
    *,
    free: bool,
) -> Gaussians:
    """Return pairs of parts of component i: halves, unequal and concentric parts, and light ones.

    Halves lie along the longest axes and random ones, unequal parts along the longest. Light
    parts lie at the rows that the component explains worst, apart from one another.

    Parameters
    ----------
    part : Rows
        Those that the component holds.
    free : bool
        Whether each part has a covariance of its own; otherwise all keep that of the component.
    """
    x, counts = np.asarray(part.points, dtype=np.float64), part.counts
    mean, own, total = state.means[i], state.covariances[i], float(counts.sum())
    root = inverse_root(own)
    z = x - counts @ x / total
    starts, steps = PairStarts(own, free), axes(z, counts, root, rng)
    spread = kind.scatter(z, counts) / total
    ridge = kind.ridge(state.d, RIDGE * float(counts @ np.mean(z**2, axis=1)) / total)
    halves = kind.covariances(spread - HALVED * kind.products(steps), state.d) + ridge
    for step, half in zip(steps, halves, strict=True):
        starts.add(0.5, (mean + HALVES * step, mean - HALVES * step), (half, half))
    small, narrow, wide = (scaled(factor, state.d) for factor in (SMALL, NARROW, WIDE))
    heavy, light = UNEQUAL
    for step in (sign * step for step in steps[: min(N_AXES, state.d)] for sign in (1, -1)):
        balanced = mean - TAIL * light / heavy * step
        starts.add(light, (balanced, mean + TAIL * step), (own, small * own))
    if free:
        starts.add(0.5, (mean, mean), (narrow * own, wide * own))
    light = min(max(LIGHT, FEWEST / total), 0.5)
    for place in ill_explained(_in_metric(x - mean, root), counts):
        starts.add(light, (mean, x[place]), (own, small * own))
    return starts.state()


def scaled(factor: float, d: int) -> float:
    """Return a factor of covariances in d dimensions that costs a row as much as one in two.

    A row of N(0, I) loses d/2 (1/s − 1 + log s), or about d/4 (1 − s)², under N(0, s I).
    """
    return 1 + (factor - 1) * math.sqrt(min(1.0, 2 / d))


class PairStarts:
    """Pairs of parts, one after the other."""

    def __init__(self, own: Floats, free: bool) -> None:
        self.own, self.free = own, free
        self.weights: list[float] = []
        self.means: list[Floats] = []
        self.covariances: list[Floats] = []

    def add(
        self, light: float, means: tuple[Floats, Floats], covariances: tuple[Floats, Floats]
    ) -> None:
        """Add a pair; parts without covariances of their own keep that of the component."""
        self.weights += [1 - light, light]
        self.means += means
        self.covariances += covariances if self.free else (self.own, self.own)

    def state(self) -> Gaussians:
        """Return all pairs as one state."""
        return Gaussians(np.array(self.weights), np.array(self.means), np.array(self.covariances))


def axes(z: Floats, counts: Floats, root: Floats, rng: np.random.Generator) -> Floats:
    r"""Return steps from the mean of a component to that of a half of it, (m, d), times 1.25.

    Cut across a direction a, a Gaussian of covariance S has halves with means at
    :math:`\pm 0.8\, S a / \sqrt{a^\top S a}`. Directions are the longest axes, by power iteration,
    and random ones in the metric of the component.

    Parameters
    ----------
    z : array of shape (n, d)
        Centred rows, which count as often as ``counts`` says.
    root : array
        Of the component, as :func:`inverse_root` returns it.
    """
    d, total = z.shape[1], float(counts.sum())
    weighted = z * (counts / total)[:, None]
    longest = rng.normal(size=(d, min(N_AXES, d)))
    for _ in range(POWER_STEPS):
        longest = weighted.T @ (z @ np.linalg.qr(longest)[0])
    random = rng.normal(size=(d, N_RANDOM if d > 1 else 0))
    random = root @ random if root.ndim == 2 else root[:, None] * random
    along = z @ np.column_stack([np.linalg.qr(longest)[0], random])
    lengths = np.sqrt(counts @ along**2 / total)
    return np.asarray((weighted.T @ along / np.maximum(lengths, np.finfo(float).tiny)).T)


def inverse_root(covariance: Floats) -> Floats:
    """Return R with |x R| the Mahalanobis length: (d, d), or (d,) that multiplies columns."""
    if covariance.ndim == 1:
        return np.asarray(1 / np.sqrt(covariance))
    return np.asarray(inverse_roots(covariance[None])[0].T)


def _in_metric(x: Floats, root: Floats) -> Floats:
    return np.asarray(x @ root if root.ndim == 2 else x * root)


def ill_explained(z: Floats, counts: Floats) -> list[int]:
    """Return rows far from the mean of the component that holds them, and from one another.

    Parameters
    ----------
    z : array of shape (n, d)
        Rows less the mean, in the metric of the component.
    """
    held = counts > 0.3 * np.median(counts)  # not those that other components hold, too
    apart = np.where(held, np.sum(z**2, axis=1), -np.inf)
    found: list[int] = []
    for _ in range(N_WORST):
        found.append(int(np.argmax(apart)))
        # two rows of one component are √(2 d) deviations apart
        apart = np.minimum(apart, np.sum((z - z[found[-1]]) ** 2, axis=1) - 2 * z.shape[1])
    return found


def missing_components(
    rows: Rows, state: Gaussians, log_density: Array, rng: np.random.Generator, *, free: bool
) -> Gaussians:
    """Return components that others may hide.

    Midpoints of near components, and means of neighbours among the rows of lowest density,
    both in the metric of the pooled covariance. Where each component has a covariance of its
    own (``free``), they are narrower than the others.
    """
    pooled = state.pooled
    root = inverse_root(pooled)
    low = np.argsort(to_numpy(log_density), kind="stable")[: max(1, int(SPARSE * rows.n))]
    points = np.asarray(rows.points[low], dtype=np.float64)
    seeds = rng.choice(len(points), min(max(N_SPARSE, state.k), len(points)), replace=False)
    places = neighbour_means(points, _in_metric(points, root), seeds)
    means = np.vstack([midpoints(state, root), places])
    within = scaled(NEW, state.d) * pooled if free else pooled
    weights = np.full(len(means), 0.5 / state.k)
    return Gaussians(weights, means, np.repeat(within[None], len(means), axis=0))


def midpoints(state: Gaussians, root: Floats) -> Floats:
    """Return the centre, and midpoints of each component and the nearest others."""
    m, n = state.means, min(N_NEAREST, state.k - 1)
    z = _in_metric(m, root)
    squares = np.sum(z**2, axis=1)
    apart = squares[:, None] + squares - 2 * z @ z.T
    np.fill_diagonal(apart, np.inf)
    nearest = np.argsort(apart, axis=1, kind="stable")[:, :n]
    pairs = np.column_stack([np.repeat(np.arange(state.k), n), nearest.ravel()])
    i, j = np.unique(np.sort(pairs, axis=1), axis=0).T
    return np.vstack([(state.weights @ m)[None, :], (m[i] + m[j]) / 2])


def neighbour_means(points: Floats, z: Floats, seeds: Places) -> Floats:
    """Return means of the neighbours of some points; z are the points in the metric used."""
    squares, n, means = np.sum(z**2, axis=1), min(NEIGHBOURS, len(z)), list[Floats]()
    for part in blocks(range(len(seeds)), max(1, DEFAULT_BUDGET.block // len(z))):
        apart = squares - 2 * z[seeds[part.start : part.stop]] @ z.T
        nearest = np.argpartition(apart, n - 1, axis=1)[:, :n]
        means.append(points[nearest].mean(axis=1))
    return np.concatenate(means)
