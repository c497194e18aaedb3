"""Which component a row is of, by the rule of Bayes with known means, weights and variance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from implicitmoments.arrays import Array, Floats, index_like, move_like, namespace_of, to_numpy
from implicitmoments.mixture.mean_span import SphericalSpan
from implicitmoments.rows import Block, Source, Sums
from implicitmoments.rows.sampling import Integers, counts_of

__all__ = ["Components", "Within", "cluster_moments", "move_means", "spread_within"]

ASSIGNED = 2**21  # distances held at a time
FEWEST_ROWS, MOST_ROWS = 256, 65_536  # of a block


@dataclass(frozen=True, eq=False)
class Components:
    """Components of a spherical mixture.

    Attributes
    ----------
    means : array of shape (k, d)
    weights : array of shape (k,)
    variance : float
    """

    means: Floats
    weights: Floats
    variance: float

    @property
    def k(self) -> int:
        """Number of components."""
        return len(self.weights)

    @cached_property
    def origin(self) -> Floats:
        """The middle of the means: rounding is that of distances, not of coordinates."""
        return np.asarray(np.mean(self.means, axis=0))

    def heaviest_first(self) -> Components:
        """Return the components sorted by weight, from the largest down."""
        order = np.argsort(-self.weights, kind="stable")
        return Components(self.means[order], self.weights[order], self.variance)

    def scores(self, X: Array) -> Array:
        """Return posterior log-probabilities of components (n, k), up to a number a row."""
        moved = self.means - self.origin
        offset = np.log(self.weights) - np.sum(moved**2, axis=1) / (2 * self.variance)
        across = namespace_of(X).matrix_transpose(move_like(moved, X))
        apart = X - move_like(self.origin, X)[None, :]
        return apart @ across / self.variance + move_like(offset, X)[None, :]

    def distances(self, X: Array) -> Array:
        """Return the Euclidean distance (n, k) of every row (n, d) from every mean."""
        xp, moved = namespace_of(X), self.means - self.origin
        apart = X - move_like(self.origin, X)[None, :]
        across = apart @ xp.matrix_transpose(move_like(moved, X))
        lengths = move_like(np.sum(moved**2, axis=1), X)[None, :]
        squares = xp.sum(apart**2, axis=1, keepdims=True) - 2 * across + lengths
        return xp.sqrt(xp.clip(squares, min=0.0))

    def assign(self, X: Array) -> Array:
        """Send every row (n, d) to the component of the largest posterior probability."""
        return namespace_of(X).argmax(self.scores(X), axis=1)

    def doubt(self, X: Array) -> Array:
        """Return the chance that a row is of another component, if the model is right."""
        xp, scores = namespace_of(X), self.scores(X)
        relative = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
        return 1.0 - 1.0 / xp.sum(relative, axis=1)

    def block_rows(self) -> int:
        """Return how many rows are taken at a time."""
        wanted = ASSIGNED // (self.k + int(self.means.shape[1]))
        return min(max(FEWEST_ROWS, wanted), MOST_ROWS)


def cluster_moments(
    X: Floats, labels: Integers, k: int, sample_weight: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return the mean (k, d) and the weight (k,) of every cluster; NaN means where it is empty."""
    counts = np.ones(len(X)) if sample_weight is None else sample_weight
    members = (labels[:, None] == np.arange(k)) * counts[:, None]
    sums, sizes = members.T @ X, np.sum(members, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums / sizes[:, None]
    return means, sizes / np.sum(sizes)


def move_means(source: Source, components: Components) -> Components:
    """Assign all rows and average those of each component, in one pass; drop empty ones."""
    rows, size = range(source.n_rows or 0), components.block_rows()
    sums = source.fold(_Members(components), rows, size, what="means of clusters")
    sizes = to_numpy(sums["sizes"])
    kept = sizes > 0
    means = to_numpy(sums["totals"])[kept] / sizes[kept, None] + components.origin
    return Components(means, sizes[kept] / np.sum(sizes), components.variance)


@dataclass(frozen=True, eq=False)
class _Members:
    """Sums rows by component, about the middle of the means."""

    components: Components

    def __call__(self, block: Block, rows: range) -> Sums:  # noqa: ARG002
        x, found = block["x"], self.components
        xp = namespace_of(x)
        labels = found.assign(x)
        numbers = index_like(np.arange(found.k), x)
        members = xp.astype(labels[:, None] == numbers[None, :], x.dtype)
        members = members * counts_of(block)[:, None]
        totals = xp.matrix_transpose(members) @ (x - move_like(found.origin, x)[None, :])
        return {
            "totals": xp.astype(totals, xp.float64, copy=False),
            "sizes": xp.sum(members, axis=0, dtype=xp.float64),
        }


@dataclass(frozen=True, eq=False)
class Within:
    """What rows are like within their clusters.

    Attributes
    ----------
    doubt : float
        The mean chance that a row is of another component than its label.
    covariances : array of shape (k, p, p)
        Of the coordinates of each cluster, about its mean.
    there : array of shape (k,)
        Rows of each cluster.
    """

    doubt: float
    covariances: Floats
    there: Floats


def spread_within(source: Source, components: Components, span: SphericalSpan) -> Within:
    """Measure doubt and spread in one pass."""
    rows, size = range(source.n_rows or 0), components.block_rows()
    sums = source.fold(_Spread(components, span), rows, size, what="spread within clusters")
    mass = to_numpy(sums["mass"])
    squares = to_numpy(sums["squares"]) / np.maximum(mass, np.finfo(float).tiny)[:, None, None]
    doubt = float(sums["doubt"]) / float(np.sum(mass))
    return Within(doubt, squares, to_numpy(sums["there"]))


@dataclass(frozen=True, eq=False)
class _Spread:
    """Sums squares of coordinates by component, and doubts."""

    components: Components
    span: SphericalSpan

    def __call__(self, block: Block, rows: range) -> Sums:  # noqa: ARG002
        x, found, counts = block["x"], self.components, counts_of(block)
        xp = namespace_of(x)
        labels, z = found.assign(x), self.span.coordinates(x)
        centers = move_like(self.span.coordinates(found.means), x)
        squares, mass, there = [], [], []
        for c in range(found.k):
            (chosen,) = xp.nonzero(xp.logical_and(labels == c, counts > 0))
            weight = xp.take(counts, chosen, axis=0)
            moved = xp.take(z, chosen, axis=0) - centers[c, :][None, :]
            square = xp.matrix_transpose(moved * weight[:, None]) @ moved
            squares.append(xp.astype(square, xp.float64, copy=False))
            mass.append(float(xp.sum(weight, dtype=xp.float64)))
            there.append(int(chosen.shape[0]))
        doubt = xp.sum(counts * found.doubt(x), dtype=xp.float64)
        return {
            "squares": xp.stack(squares),
            "mass": np.array(mass),
            "there": np.array(there),
            "doubt": float(doubt),
        }
