"""Gaussian mixtures as a family of the search: E-step, M-step, and where to split."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from implicitmoments.arrays import (
    TINY,
    Array,
    Floats,
    cross_sums,
    linear_rows,
    move_like,
    namespace_of,
    softmax_rows,
    to_numpy,
)
from implicitmoments.mixture.candidates import missing_components, split_starts
from implicitmoments.mixture.gaussians import (
    CovarianceType,
    Gaussians,
    GaussianSums,
    pairs,
    precisions_of,
)
from implicitmoments.rows import Block, Rows, Sums
from implicitmoments.search.em import Places

EMPTY = 1e-8  # of a row: a component with less keeps its mean
SMALLEST_SHARE = 1e-12  # weight of an empty component, so that it can come back
LOWEST_LOG = -600.0  # exp of less is 0
FAR_CENTER = 1e3  # units: subtracting the centre afterwards loses 3 of 16 digits


@dataclass(frozen=True)
class GaussianFamily:
    """Gaussian mixtures in the terms of :class:`implicitmoments.search.Family`.

    Rows are expected in standardised columns: ``least`` is relative to their variance.
    """

    kind: CovarianceType
    # Least variances of the columns, a number or (d,): a likelihood without any has no maximum.
    least: Floats | float = 1e-6
    # Covariance of every component, in the shape that a state has, where it is not estimated.
    known: Floats | float | None = None

    @property
    def free(self) -> bool:
        """Whether each component has a covariance of its own."""
        return self.known is None and not self.kind.tied

    def e_step(self, rows: Rows, state: Gaussians) -> GaussianSums:
        """Return the sums of one pass over all rows."""
        if not self.free and state.shared:
            return self._shared_e_step(rows, state)
        lifted = rows.lifted_by(self.kind.lift)
        slopes = self.kind.slopes(state)
        found = lifted.fold(partial(_block_sums, slopes, None), width=state.k, what="EM")
        level, total = float(found["log_likelihood"]), float(found["total"])
        return _as_sums(to_numpy(found["moments"]), state.d, level, total)

    def _shared_e_step(self, rows: Rows, state: Gaussians) -> GaussianSums:
        r"""Sum as the E-step does where all components have one covariance C.

        The term :math:`-x^\top C^{-1} x / 2` is common to all components: it follows from the sum
        of products of all rows, which is computed once. Of that sum components get what gives
        each the same covariance: a shared one asks for no more.
        """
        linear, offsets, precisions = state.linear_parts(state.covariances[:1])
        given, center, scale = _unmapped(rows)
        slopes = scale[:, None] * linear.T
        step = partial(_block_sums, slopes, offsets - center @ slopes)
        found = given.fold(step, width=state.k, what="EM")
        counts, total = to_numpy(found["counts"]), float(found["total"])
        points = (to_numpy(found["moments"]) - counts[:, None] * center) * scale
        products = rows.lifted_by(self.kind.lift).point_sum[None, state.d : -1]
        common = np.sum(precisions * self.kind.covariances(products, state.d))
        about_zero = counts[:, None] * self.kind.products(
            points / np.maximum(counts, TINY)[:, None]
        )
        inside = products - about_zero.sum(axis=0)
        products = about_zero + inside * (counts / total)[:, None]
        level = float(found["log_likelihood"]) - 0.5 * float(common)
        return GaussianSums(level, total, counts, points, products)

    def m_step(self, sums: GaussianSums, before: Gaussians) -> Gaussians:
        """Return the mixture that maximises the expected log-likelihood.

        A component with too few rows for its covariance borrows from the pooled one as many as
        it lacks, so that no likelihood is gained by components that collapse.
        """
        means, inside = self._about_means(sums, before)
        weights = np.maximum(sums.counts / sums.total, SMALLEST_SHARE)
        pooled = inside.sum(axis=0, keepdims=True) / sums.total
        if self.known is not None:
            covariances = np.broadcast_to(self.known, before.covariances.shape)
        elif self.kind.tied:
            covariances = np.repeat(self._covariances(pooled, before.d), before.k, axis=0)
        else:
            covariances = self._separate(sums.counts, inside, pooled, before)
        return Gaussians(weights / weights.sum(), means, covariances)

    def _about_means(self, sums: GaussianSums, before: Gaussians) -> tuple[Floats, Floats]:
        """Return means, and sums of products about them, (k, q)."""
        filled = sums.counts > EMPTY
        safe = np.where(filled, sums.counts, 1.0)[:, None]
        means = np.where(filled[:, None], sums.points / safe, before.means)
        return means, sums.products - sums.counts[:, None] * self.kind.products(means)

    def _covariances(self, products: Floats, d: int) -> Floats:
        if self.kind.shape != "full":
            products = np.maximum(products, 0.0)  # but for rounding
        return self.raised(self.kind.covariances(products, d))

    def raised(self, covariances: Floats) -> Floats:
        """Return the most likely covariances that are at least diag(least)."""
        if covariances.ndim == 2:
            return np.maximum(covariances, self.least)
        least = np.broadcast_to(np.asarray(self.least, dtype=float), covariances.shape[-1:])
        try:  # a tenth of the time of eigenvalues
            np.linalg.cholesky(covariances - np.diag(least))
        except np.linalg.LinAlgError:
            roots = np.sqrt(np.outer(least, least))
            values, vectors = np.linalg.eigh(covariances / roots)
            raised = vectors * np.maximum(values, 1.0)[:, None, :]
            low = values[:, 0] < 1
            covariances = covariances.copy()
            covariances[low] = (raised @ vectors.transpose(0, 2, 1) * roots)[low]
        return covariances

    def _separate(
        self, counts: Floats, inside: Floats, pooled: Floats, before: Gaussians
    ) -> Floats:
        """Return one covariance per component; that of an empty one stays as it was."""
        borrowed = np.maximum(self.kind.fewest_rows(before.d) - counts, 0.0)[:, None]
        products = (inside + borrowed * pooled) / (counts[:, None] + borrowed)
        found = self._covariances(products, before.d)
        empty = counts <= EMPTY
        found[empty] = before.covariances[empty]
        return found

    def pack(self, state: Gaussians) -> Floats:
        """Return logarithms of weights, means, and Cholesky factors with logarithmic diagonals.

        A covariance that components share is there once, and one that is known is not.
        """
        weights = np.log(np.maximum(state.weights, SMALLEST_SHARE))
        covariances = state.covariances[: self._n_estimated(state)]
        if self.kind.shape == "spherical":
            shape = 0.5 * np.log(covariances[:, 0])
        elif state.diagonal:
            shape = 0.5 * np.log(covariances)
        else:
            j, i = pairs(state.d)
            shape = np.asarray(np.linalg.cholesky(covariances)[:, i, j], dtype=float)
            shape[:, i == j] = np.log(shape[:, i == j])
        return np.concatenate([weights, state.means.ravel(), shape.ravel()])

    def unpack(self, packed: Floats, like: Gaussians) -> Gaussians:
        """Return the mixture of a vector."""
        k, d, logs = like.k, like.d, packed[: like.k]
        weights = np.exp(np.clip(logs - logs.max(), LOWEST_LOG, 0.0))
        means, covariances = packed[k : k + k * d].reshape(k, d), like.covariances
        if self.known is None:
            shape = packed[k + k * d :].reshape(self._n_estimated(like), -1)
            covariances = self.raised(self._unpacked_covariances(shape, d))
            covariances = np.repeat(covariances, k // len(covariances), axis=0)
        return Gaussians(weights / weights.sum(), means, covariances)

    def _unpacked_covariances(self, shape: Floats, d: int) -> Floats:
        if self.kind.shape != "full":
            variances = _exp(shape) ** 2
            return np.repeat(variances, d // variances.shape[1], axis=1)
        j, i = pairs(d)
        lower, at = np.zeros((len(shape), d, d)), np.arange(d)
        lower[:, i, j] = shape
        lower[:, at, at] = _exp(lower[:, at, at])
        return lower @ lower.transpose(0, 2, 1)

    def scale(self, state: Gaussians) -> Floats:
        """Return roots of the complete-data information per row."""
        root, deviations = np.sqrt(state.weights), np.sqrt(state.variances)
        means = root[:, None] / deviations
        n, d = self._n_estimated(state), state.d
        roots = np.ones((n, 1)) if self.kind.tied else root[:n, None]
        if self.kind.shape == "spherical":
            shape = math.sqrt(2.0 * d) * roots
        elif state.diagonal:
            shape = np.repeat(math.sqrt(2.0) * roots, d, axis=1)
        else:
            j, i = pairs(d)
            shape = np.where(i == j, math.sqrt(2.0), 1 / deviations[:n, i]) * roots
        return np.concatenate([root, means.ravel(), shape.ravel()])

    def _n_estimated(self, state: Gaussians) -> int:
        """Count the covariances that are estimated."""
        return self.kind.n_covariances(state.k) if self.known is None else 0

    def n_parameters(self, state: Gaussians) -> int:
        """Count the free parameters."""
        n = state.k * (state.d + 1) - 1
        return n + self._n_estimated(state) * self.kind.n_numbers(state.d)

    def log_joint(self, rows: Rows, state: Gaussians) -> Array:
        """Return log weight plus log density, (n, k)."""
        lifted, slopes = rows.lifted_by(self.kind.lift), self.kind.slopes(state)
        if lifted.held:
            x = lifted.block["x"]
            return linear_rows(x, move_like(slopes, x))
        parts = [
            linear_rows(block["x"], move_like(slopes, block["x"]))
            for block in lifted.blocks(state.k)
        ]
        return namespace_of(parts[0]).concat(parts)

    def counts(self, rows: Rows) -> Array:
        """Return how often each row counts, (n,)."""
        x = rows.block["x"]
        return rows.block.get("counts", namespace_of(x).ones_like(x[:, 0]))

    def part(self, rows: Rows, places: Places, counts: Floats) -> Rows:
        """Return the rows at some places, each counting as often as given."""
        return rows.take(places, counts)

    def expect(self, rows: Rows, shares: Array, state: Gaussians) -> GaussianSums:
        """Return the sums for given responsibilities (n, m)."""
        lifted = rows.lifted_by(self.kind.lift)
        if lifted.held:
            moments = to_numpy(cross_sums(shares, lifted.block["x"]))
        else:
            moments, start = np.zeros(()), 0
            for block in lifted.blocks(int(shares.shape[1])):
                end = start + int(block["x"].shape[0])
                moments = moments + to_numpy(cross_sums(shares[start:end, :], block["x"]))
                start = end
        return _as_sums(moments, rows.n_features, 0.0, rows.total)

    def pool(self, sums: GaussianSums, state: Gaussians) -> Floats:
        """Return rows and products about the mean of each component where one is shared."""
        if self.free or self.known is not None:
            return np.zeros((state.k, 0))
        return np.column_stack([sums.counts, self._about_means(sums, state)[1]])

    def fit_trials(
        self, sums: GaussianSums, before: Gaussians, size: int, rest: Floats | None
    ) -> Gaussians:
        """Return the M-step of trials of ``size`` components, each trial by itself."""
        means, inside = self._about_means(sums, before)
        weights = np.maximum(sums.counts / sums.total, SMALLEST_SHARE)
        if size > 1:
            weights = weights / np.repeat(weights.reshape(-1, size).sum(axis=1), size)
        counts = sums.counts.reshape(-1, size).sum(axis=1)[:, None]
        together = inside.reshape(len(counts), size, -1).sum(axis=1)
        if self.free:
            pooled = together / np.maximum(counts, EMPTY)
            covariances = self._separate(
                sums.counts, inside, np.repeat(pooled, size, axis=0), before
            )
        elif rest is None or self.known is not None:
            covariances = before.covariances
        else:
            shared = (together + rest[1:]) / (counts + rest[0])
            covariances = np.repeat(self._covariances(shared, before.d), size, axis=0)
        return Gaussians(weights, means, covariances)

    def rest_bound(self, rest: Floats, trials: Gaussians, size: int) -> Floats:
        """Return the expected log-likelihood of the rest, up to a constant, for each trial."""
        shared = trials.covariances[::size]
        if len(rest) == 0:
            return np.zeros(len(shared))
        precisions, log_dets = precisions_of(shared)
        inside = self.kind.covariances(rest[None, 1:], trials.d)[0]
        inside = np.sum((precisions * inside).reshape(len(shared), -1), axis=1)
        return np.asarray(-0.5 * rest[0] * log_dets - 0.5 * inside)

    def split_starts(
        self, part: Rows, state: Gaussians, i: int, rng: np.random.Generator
    ) -> Gaussians:
        """Return halves, unequal parts, concentric ones, and a light part."""
        if not self.kind.tied and part.total < 2 * self.kind.fewest_rows(state.d):
            # two parts would borrow the covariances in which they differ
            return state.take(np.zeros(0, dtype=np.int64))
        return split_starts(part, state, i, self.kind, rng, free=self.free)

    def candidates(
        self, rows: Rows, state: Gaussians, log_density: Array, rng: np.random.Generator
    ) -> Gaussians:
        """Return components that others may hide."""
        return missing_components(rows, state, log_density, rng, free=self.free)

    def from_shares(self, rows: Rows, shares: Array) -> Gaussians:
        """Return the mixture of held rows with given responsibilities (n, k)."""
        counts, d = self.counts(rows), rows.n_features
        like = self.single(int(shares.shape[1]), d)
        sums = self.expect(rows, shares * counts[:, None], like)
        sums = replace(sums, total=float(sums.counts.sum()))
        return self.m_step(sums, like)

    def single(self, k: int, d: int) -> Gaussians:
        """Return k equal components of standardised rows."""
        one = self.kind.ridge(d, 1.0)
        covariances = np.broadcast_to(one if self.known is None else self.known, (k, *one.shape))
        return Gaussians(np.full(k, 1 / k), np.zeros((k, d)), np.array(covariances))


def _exp(logs: Floats) -> Floats:
    """Return exponentials whose squares and inverses are finite."""
    return np.asarray(np.exp(np.clip(logs, LOWEST_LOG / 4, -LOWEST_LOG / 4)))


def _as_sums(moments: Floats, d: int, level: float, total: float) -> GaussianSums:
    """Return named sums of products with lifted rows (x, products, 1)."""
    return GaussianSums(level, total, moments[:, -1], moments[:, :d], moments[:, d:-1])


def _unmapped(rows: Rows) -> tuple[Rows, Floats, Floats]:
    """Return rows to multiply, and the centre and scale (d,) to apply to their sums.

    Rows of double precision whose centre is near are multiplied as they are, without a copy.
    """
    d, x = rows.n_features, rows.first["x"]
    scale = np.asarray(1.0 if rows.linear is None else rows.linear, dtype=np.float64)
    double = x.dtype == namespace_of(x).float64
    if double and scale.ndim < 2 and np.all(np.abs(rows.origin * scale) <= FAR_CENTER):
        plain = rows.center is None and rows.linear is None
        return rows if plain else rows.as_given(), rows.origin, np.broadcast_to(scale, (d,))
    return rows, np.zeros(d), np.ones(d)


def _block_sums(slopes: Floats, offsets: Floats | None, block: Block) -> Sums:
    """Return the sums of a block of rows, in whose numbers log densities are linear."""
    x, times = block["x"], block.get("counts")
    xp = namespace_of(x)
    joint = linear_rows(x, move_like(slopes, x))
    if offsets is not None:
        joint += move_like(offsets, x)
    shares, densities = softmax_rows(joint)
    total = float(x.shape[0])
    if times is not None:
        shares, densities = shares * times[:, None], densities * times
        total = float(xp.sum(times, dtype=xp.float64))
    return {
        "counts": xp.sum(shares, axis=0, dtype=xp.float64),
        "moments": cross_sums(shares, x),
        "log_likelihood": xp.sum(densities, dtype=xp.float64),
        "total": total,
    }
