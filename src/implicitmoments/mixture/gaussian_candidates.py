"""Where the components of a Gaussian mixture may be split, and where one may be missing."""

from __future__ import annotations

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.mixture.family import N_AXES, N_NEAREST, N_SPARSE, N_WORST, NEIGHBOURS
from implicitmoments.mixture.gaussians import Gaussians, inverse_roots

N_RANDOM = 2  # further axes of a split, in random directions


class PairStarts:
    """Pairs of parts, one after the other."""

    def __init__(self, tied: bool, own: Floats) -> None:
        self.tied, self.own = tied, own
        self.weights: list[float] = []
        self.means: list[Floats] = []
        self.covariances: list[Floats] = []

    def add(
        self, light: float, means: tuple[Floats, Floats], covariances: tuple[Floats, Floats]
    ) -> None:
        """Add a pair; parts that share their covariance keep that of the component."""
        self.weights += [1 - light, light]
        self.means += means
        self.covariances += (self.own, self.own) if self.tied else covariances

    def state(self) -> Gaussians:
        """Return all pairs as one state."""
        return Gaussians(np.array(self.weights), np.array(self.means), np.array(self.covariances))


def longest_axes(spread: Floats, rng: np.random.Generator) -> list[Floats]:
    """Return the longest axes of a covariance and random ones, as long as a deviation."""
    d = len(spread)
    values, vectors = np.linalg.eigh(spread)
    roots = vectors * np.sqrt(np.maximum(values, 0.0))
    axes = [roots[:, -1 - j] for j in range(min(N_AXES, d))]
    if d > 1:
        directions = rng.normal(size=(N_RANDOM, d))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        axes += list(directions @ roots.T)
    return axes


def inverse_root(covariance: Floats) -> Floats:
    """Return R with |x R| the Mahalanobis length: (d, d), or (d,) that multiplies columns."""
    if covariance.ndim == 1:
        return np.asarray(1 / np.sqrt(covariance))
    return np.asarray(inverse_roots(covariance[None])[0].T)


def ill_explained(x: Floats, counts: Floats, state: Gaussians, i: int) -> list[int]:
    """Return rows far from the mean of the component that holds them, and from one another."""
    root = inverse_root(state.covariances[i])
    moved = x - state.means[i]
    z = moved @ root if root.ndim == 2 else moved * root
    held = counts > 0.3 * np.median(counts)  # not those that other components hold, too
    apart = np.where(held, np.sum(z**2, axis=1), -np.inf)
    found: list[int] = []
    for _ in range(N_WORST):
        found.append(int(np.argmax(apart)))
        # two rows of one component are √(2 d) deviations apart
        apart = np.minimum(apart, np.sum((z - z[found[-1]]) ** 2, axis=1) - 2 * state.d)
    return found


def midpoints(state: Gaussians, root: Floats) -> Floats:
    """Return the centre, and midpoints of each component and the nearest others."""
    m, n = state.means, min(N_NEAREST, state.k - 1)
    z = m @ root if root.ndim == 2 else m * root
    squares = np.sum(z**2, axis=1)
    apart = squares[:, None] + squares - 2 * z @ z.T
    np.fill_diagonal(apart, np.inf)
    nearest = np.argsort(apart, axis=1, kind="stable")[:, :n]
    pairs = np.column_stack([np.repeat(np.arange(state.k), n), nearest.ravel()])
    i, j = np.unique(np.sort(pairs, axis=1), axis=0).T
    return np.vstack([(state.weights @ m)[None, :], (m[i] + m[j]) / 2])


def neighbour_means(points: Floats, z: Floats, rng: np.random.Generator) -> Floats:
    """Return means of the neighbours of some points; z are the points in the metric used."""
    seeds = rng.choice(len(z), min(N_SPARSE, len(z)), replace=False)
    apart = np.sum(z**2, axis=1) - 2 * z[seeds] @ z.T
    n = min(NEIGHBOURS, len(z))
    nearest = np.argpartition(apart, n - 1, axis=1)[:, :n]
    return np.asarray(points[nearest].mean(axis=1))
