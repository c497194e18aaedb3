"""Gaussian mixtures as a family of the search: E-step, M-step, and where to split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from implicitmoments.arrays import (
    TINY,
    Array,
    Floats,
    namespace_of,
    to_numpy,
)
from implicitmoments.mixture.candidates import missing_components, split_starts
from implicitmoments.mixture.e_step import (
    as_sums,
    block_sums,
    linear_sums,
    sums_in_double,
    sums_with_products,
    unmapped,
    weighted_sums,
)
from implicitmoments.mixture.expansion import Expansion
from implicitmoments.mixture.gaussians import (
    CovarianceType,
    Gaussians,
    GaussianSums,
    pairs,
    precisions_of,
)
from implicitmoments.mixture.least_variances import (
    lost_variances,
    raise_covariances,
    step_variances,
)
from implicitmoments.mixture.pair_trials import fit_pairs
from implicitmoments.rows import Rows, Sums
from implicitmoments.rows.constants import DOUBLE
from implicitmoments.search.em import Places
from implicitmoments.search.noise import (
    FIRST,
    information,
    unpack_freedom,
    update_freedom,
)

EMPTY = 1e-8  # of a row: a component with less keeps its mean
SMALLEST_SHARE = 1e-12  # weight of an empty component, so that it can come back
LOWEST_LOG = -600.0  # exp of less is 0


@dataclass(frozen=True)
class GaussianFamily:
    """Gaussian mixtures in the terms of :class:`implicitmoments.search.Family`.

    Rows are expected in standardised columns: ``least`` is relative to their variance. The least
    variance of a component is that of the columns or, if larger, that of the precision of rows
    beside its mean.
    """

    kind: CovarianceType
    # Least variances of the columns, a number or (d,): a likelihood without any has no maximum.
    least: Floats | float = 1e-6
    # Covariance of every component, in the shape that a state has, where it is not estimated.
    known: Floats | float | None = None
    # Components have multivariate t distributions, whose degrees of freedom are shared.
    student: bool = False
    # Columns for which parameters are counted, where rows are coordinates on a span of them.
    columns: int | None = None
    epsilon: float = DOUBLE  # of the precision of the rows

    @property
    def free(self) -> bool:
        """Whether each component has a covariance of its own."""
        return self.known is None and not self.kind.tied

    def e_step(self, rows: Rows, state: Gaussians) -> GaussianSums:
        """Return the sums of one pass over all rows."""
        expansion = Expansion.of(state, self.kind, rows.like)
        if not self.free and state.shared and state.gaussian and not len(expansion.far):
            return self._shared_e_step(rows, state, double=expansion.double)
        lifted = rows.lifted_by(self.kind.lift)
        found = lifted.fold(partial(block_sums, expansion), width=state.k, what="EM")
        level, total = float(found["log_likelihood"]), float(found["total"])
        return as_sums(found, state.d, level, total, expansion.about)

    def _shared_e_step(self, rows: Rows, state: Gaussians, *, double: bool) -> GaussianSums:
        r"""Sum as the E-step does where all components have one covariance C.

        The term :math:`-x^\top C^{-1} x / 2` is common to all components: it follows from the sum
        of products of all rows, which the first pass computes. Of that sum components get what
        gives each the same covariance: a shared one asks for no more. Rows are multiplied in
        double precision where theirs is not enough.
        """
        linear, offsets, precisions = state.linear_parts(state.covariances[:1])
        given, center, scale = unmapped(rows)
        slopes = scale[:, None] * linear.T
        step = partial(linear_sums, slopes, offsets - center @ slopes)
        if self.kind.shape not in rows.product_sums:
            full = self.kind.shape == "full"
            step = partial(sums_with_products, step, full, center, scale)
        if double:
            step = partial(sums_in_double, step)
        found = given.fold(step, width=state.k, what="EM")
        counts, total = to_numpy(found["counts"]), float(found["total"])
        points = (to_numpy(found["moments"]) - counts[:, None] * center) * scale
        if "products" in found:
            rows.product_sums[self.kind.shape] = self.kind.gathered(to_numpy(found["products"]))
        products = rows.product_sums[self.kind.shape]
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
        least = self.least_variances(means, means - sums.about)
        if self.known is not None:
            covariances = np.broadcast_to(self.known, before.covariances.shape)
        elif self.kind.tied:
            least = weights[None] @ least / weights.sum()
            covariances = np.repeat(self._covariances(pooled, least), before.k, axis=0)
        else:
            covariances = self._separate(sums.counts, inside, pooled, least, before)
        freedom = self.adopt(before).freedom
        if not before.gaussian:
            every = (float(each.sum()) for each in (sums.counts, sums.factors, sums.tails))
            freedom = update_freedom(freedom, before.d, *every)
        return Gaussians(weights / weights.sum(), means, covariances, freedom)

    def adopt(self, state: Gaussians) -> Gaussians:
        """Return components of another law, to start from."""
        if state.gaussian != self.student:
            return state
        return replace(state, freedom=np.full(state.k, FIRST if self.student else np.inf))

    def log_peaks(self, state: Gaussians) -> Floats:
        """Return log weight plus log density at each mean, (k,)."""
        return state.log_peaks

    def freedom(self, state: Gaussians) -> float:
        """Return the degrees of freedom, which all components share."""
        return float(state.freedom[0])

    def _about_means(self, sums: GaussianSums, before: Gaussians) -> tuple[Floats, Floats]:
        """Return means, and sums of products about them, (k, q)."""
        filled = sums.counts > EMPTY
        safe = np.where(filled, sums.factors, 1.0)[:, None]
        steps = np.where(filled[:, None], sums.points / safe, before.means - sums.about)
        inside = sums.products - sums.factors[:, None] * self.kind.products(steps)
        return sums.about + steps, inside

    def _covariances(self, products: Floats, least: Floats) -> Floats:
        found = self.kind.covariances(products, least.shape[1])
        return raise_covariances(found, least, self.epsilon)

    def least_variances(self, means: Floats, steps: Floats | None = None) -> Floats:
        """Return the least variances of the columns of components with these means, (k, d).

        Those of the columns, or of the precision of rows beside the mean; with ``steps`` (k, d),
        the distances of the means from the points about which rows were summed, not below the
        rounding of these sums. The next E-step then takes them about the mean.
        """
        least = np.maximum(self.least, step_variances(self.epsilon * means))
        if steps is not None:
            least = np.maximum(least, lost_variances(steps))
        if self.kind.shape == "spherical":
            least = np.repeat(least.mean(axis=1, keepdims=True), means.shape[1], axis=1)
        return least

    def raised(self, covariances: Floats, means: Floats) -> Floats:
        """Return the most likely covariances that components with these means may have.

        One covariance is that of all components.
        """
        least = self.least_variances(means)
        if len(covariances) < len(means):
            least = least.mean(axis=0, keepdims=True)
        return raise_covariances(covariances, least, self.epsilon)

    def _separate(
        self, counts: Floats, inside: Floats, pooled: Floats, least: Floats, before: Gaussians
    ) -> Floats:
        """Return one covariance per component; that of an empty one stays as it was."""
        borrowed = np.maximum(self.kind.fewest_rows(before.d) - counts, 0.0)[:, None]
        products = (inside + borrowed * pooled) / (counts[:, None] + borrowed)
        found = self._covariances(products, least)
        empty = counts <= EMPTY
        found[empty] = before.covariances[empty]
        return found

    def pack(self, state: Gaussians) -> Floats:
        """Return logarithms of weights, means, and Cholesky factors with logarithmic diagonals.

        A covariance that components share is there once, and one that is known is not.
        """
        freedom = np.log(self.adopt(state).freedom[: self.student])
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
        return np.concatenate([freedom, weights, state.means.ravel(), shape.ravel()])

    def unpack(self, packed: Floats, like: Gaussians) -> Gaussians:
        """Return the mixture of a vector."""
        k, d, freedom = like.k, like.d, like.freedom
        if self.student:
            packed, freedom = packed[1:], unpack_freedom(packed[0], k)
        logs = packed[:k]
        weights = np.exp(np.clip(logs - logs.max(), LOWEST_LOG, 0.0))
        means, covariances = packed[k : k + k * d].reshape(k, d), like.covariances
        if self.known is None:
            shape = packed[k + k * d :].reshape(self._n_estimated(like), -1)
            covariances = self.raised(self._unpacked_covariances(shape, d), means)
            covariances = np.repeat(covariances, k // len(covariances), axis=0)
        return Gaussians(weights / weights.sum(), means, covariances, freedom)

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
        freedom = np.sqrt(information(self.adopt(state).freedom[: self.student], d))
        return np.concatenate([freedom, root, means.ravel(), shape.ravel()])

    def _n_estimated(self, state: Gaussians) -> int:
        """Count the covariances that are estimated."""
        return self.kind.n_covariances(state.k) if self.known is None else 0

    def n_parameters(self, state: Gaussians) -> int:
        """Count the free parameters."""
        d = self.columns or state.d
        n = state.k * (d + 1) - 1 + self.student
        return n + self._n_estimated(state) * self.kind.n_numbers(d)

    def log_joint(self, rows: Rows, state: Gaussians) -> Array:
        """Return log weight plus log density, (n, k)."""
        lifted = rows.lifted_by(self.kind.lift)
        expansion = Expansion.of(state, self.kind, rows.like)
        if lifted.held:
            return state.in_law(expansion.joint(lifted.block["x"]))
        parts = [state.in_law(expansion.joint(block["x"])) for block in lifted.blocks(state.k)]
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
        expansion = Expansion.of(state, self.kind, rows.like)
        if lifted.held:
            found = weighted_sums(expansion, lifted.block["x"], shares)
        else:
            sums, start = list[Sums](), 0
            for block in lifted.blocks(int(shares.shape[1])):
                end = start + int(block["x"].shape[0])
                sums.append(weighted_sums(expansion, block["x"], shares[start:end, :]))
                start = end
            found = {name: sum(to_numpy(each[name]) for each in sums) for name in sums[0]}
        return as_sums(found, rows.n_features, 0.0, rows.total, expansion.about)

    def pool(self, sums: GaussianSums, state: Gaussians) -> Floats:
        """Return rows and products about the mean of each component where one is shared."""
        if self.free or self.known is not None:
            return np.zeros((state.k, 0))
        return np.column_stack([sums.counts, self._about_means(sums, state)[1]])

    def fit_trials(
        self,
        sums: GaussianSums,
        before: Gaussians,
        size: int,
        rest: Floats | None,
        like: Gaussians | None = None,
    ) -> Gaussians:
        """Return the M-step of trials of ``size`` components, each trial by itself.

        The pool ``rest`` may differ between trials, (m, p).
        """
        means, inside = self._about_means(sums, before)
        weights = np.maximum(sums.counts / sums.total, SMALLEST_SHARE)
        if size > 1:
            weights = weights / np.repeat(weights.reshape(-1, size).sum(axis=1), size)
        counts = sums.counts.reshape(-1, size).sum(axis=1)[:, None]
        together = inside.reshape(len(counts), size, -1).sum(axis=1)
        least = self.least_variances(means, means - sums.about)
        if self.free:
            own = np.repeat(together / np.maximum(counts, EMPTY), size, axis=0)
            lent = own if like is None else self.kind.gathered(like.covariances[0])
            covariances = self._separate(sums.counts, inside, lent, least, before)
        elif rest is None or self.known is not None:
            covariances = before.covariances
        else:
            shared = (together + rest[..., 1:]) / (counts + rest[..., :1])
            least = least.reshape(-1, size, before.d).mean(axis=1)
            covariances = np.repeat(self._covariances(shared, least), size, axis=0)
        return Gaussians(weights, means, covariances, before.freedom)

    def rest_bound(self, rest: Floats, trials: Gaussians, size: int) -> Floats:
        """Return the expected log-likelihood of the rest, up to a constant, for each trial."""
        shared = trials.covariances[::size]
        if rest.shape[-1] == 0:
            return np.zeros(len(shared))
        precisions, log_dets = precisions_of(shared)
        inside = self.kind.covariances(np.atleast_2d(rest)[:, 1:], trials.d)
        inside = np.sum((precisions * inside).reshape(len(shared), -1), axis=1)
        return np.asarray(-0.5 * rest[..., 0] * log_dets - 0.5 * inside)

    def fit_pairs(
        self, parts: Sequence[Rows], alone: Gaussians, pairs: Gaussians, rest: Floats, steps: int
    ) -> tuple[Gaussians, Floats]:
        """Run EM of trials of two parts of components, each component on rows of its own."""
        return fit_pairs(self, parts, alone, pairs, rest, steps)

    def split_starts(
        self, part: Rows, state: Gaussians, i: int, rng: np.random.Generator
    ) -> Gaussians:
        """Return halves, unequal parts, concentric ones, and a light part."""
        if not self.kind.tied and part.total < 2 * self.kind.fewest_rows(state.d):
            # two parts would borrow the covariances in which they differ
            return state.take(np.zeros(0, dtype=np.int64))
        starts = split_starts(part, state, i, self.kind, rng, free=self.free)
        return replace(starts, freedom=np.full(starts.k, state.freedom[i]))

    def candidates(
        self, rows: Rows, state: Gaussians, log_density: Array, rng: np.random.Generator
    ) -> Gaussians:
        """Return components that others may hide."""
        found = missing_components(rows, state, log_density, rng, free=self.free)
        return replace(found, freedom=np.full(found.k, state.freedom[0]))

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
