"""Mixtures of regressions as a family of the search: E-step, M-step, splits and merges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from implicitmoments.arrays import TINY, Array, Floats, move_like, namespace_of, to_numpy
from implicitmoments.regression.lines import (
    LOG_TWO_PI,
    Lines,
    LineSums,
    Model,
    apply_factors,
    expect,
    log_joint,
)
from implicitmoments.regression.pair_trials import fit_pairs
from implicitmoments.regression.products import (
    as_sum,
    columns_of,
    share_products,
    weighted_products,
)
from implicitmoments.rows import Rows
from implicitmoments.search.em import Places
from implicitmoments.search.noise import information, log_constants, unpack_freedom, update_freedom

SMALLEST_VARIANCE = 1e-12  # of the variance of y: residuals below it are rounding
# A line through as many rows as it has coefficients has no noise, and the likelihood no maximum
# (Hathaway 1985). A row of a line of weight w and noise s that goes to a line of m of n rows and
# noise s_i gains log(m s / (n w s_i)). So if s_i >= c s with c = R q / (n w), a line of fewer than
# R rows for each of its q coefficients gains nothing. Chance hardly makes lines of more rows, so
# that theirs is c^(m / (R q)) s. Of 50 sets of 60 to 400 rows drawn from 1 to 3 lines, BIC
# preferred further lines in 1 with R = 4, and in none with R = 6.
ROWS_PER_COEFFICIENT = 6
LARGEST_FLOOR = 0.5  # of the noise of the others: with fewer rows, noise may still differ
RIDGE = 1e-9  # per row: a line with fewer rows than coefficients still has a solution
ROUNDING = 1e-6  # relative, of a variance at its floor
SMALLEST_WEIGHT = 1e-9  # whose logarithm is extrapolated
ROUGH_VARIANCE = 0.25  # of random lines, of what is to be explained: some of it is not noise
DIRECTIONS = 2  # of splits, beside the intercept: the widest one, and a random one
# Two parts of a line, in standard deviations of its residuals, and their weights. Unequal parts
# find a light line in the tails of a heavy one; the heavy part moves against the light one.
PARTS = (
    ((0.8, -0.8), (0.5, 0.5)),
    ((-0.2, 1.5), (0.85, 0.15)),
    ((0.2, -1.5), (0.85, 0.15)),
)


@dataclass(frozen=True, eq=False)
class LineFamily:
    """The model of a search: see :class:`implicitmoments.search.Family`.

    Attributes
    ----------
    model : Model
    least_ratio : float
        R q / n, where the noise of light lines has a floor; 0 for none but rounding.
    """

    model: Model
    least_ratio: float = 0.0

    def e_step(self, rows: Rows, state: Lines) -> LineSums:
        """Return the sums of one pass over all rows."""
        return expect(rows, state)

    def m_step(self, sums: LineSums, before: Lines) -> Lines:
        """Return weighted least squares of each line; one without rows stays where it is."""
        n = sums.counts
        there = n > np.finfo(float).eps * sums.total
        coef = self._solve(sums.products, before.coef)
        squares = _squares(sums.products, coef)
        pooled = float(squares[there].sum()) / sums.total
        own = np.where(there, squares / np.maximum(n, TINY), pooled)
        variances = np.full(before.k, pooled) if self.model.shared else own
        factors, tails = float(sums.products[:, 0, 0].sum()), float(sums.tails.sum())
        freedom = update_freedom(before.freedom, 1, float(n.sum()), factors, tails)
        return Lines(n / n.sum(), coef, self._bounded(variances, n / n.sum()), freedom)

    def adopt(self, state: Lines) -> Lines:
        """Return lines with noise of another law, to start from."""
        return replace(state, freedom=self.model.freedom(state.k))

    def log_peaks(self, state: Lines) -> Floats:
        """Return log weight plus log density on each line, (k,)."""
        constants = log_constants(state.freedom, 1)
        weights = np.maximum(state.weights, np.finfo(np.float64).tiny)
        return np.asarray(np.log(weights) - 0.5 * np.log(state.variances) + constants)

    def freedom(self, state: Lines) -> float:
        """Return the degrees of freedom, which all lines share."""
        return float(state.freedom[0])

    def pack(self, state: Lines) -> Floats:
        """Return coefficients and logarithms of the other parameters as one vector."""
        weights = np.log(np.maximum(state.weights, SMALLEST_WEIGHT))
        freedom = np.log(state.freedom[: self.model.student])
        return np.concatenate([freedom, state.coef.ravel(), weights, np.log(state.variances)])

    def unpack(self, packed: Floats, like: Lines) -> Lines:
        """Return the lines of a vector."""
        k, q = like.coef.shape
        freedom = like.freedom
        if self.model.student:
            packed, freedom = packed[1:], unpack_freedom(packed[0], k)
        weights = np.exp(packed[k * q : -k] - packed[k * q : -k].max())
        variances = np.exp(np.clip(packed[-k:], np.log(SMALLEST_VARIANCE), 50.0))
        coef = packed[: k * q].reshape(k, q)
        weights = weights / weights.sum()
        return Lines(weights, coef, self._bounded(variances, weights), freedom)

    def scale(self, state: Lines) -> Floats:
        """Return roots of the complete-data information per row."""
        root = np.sqrt(state.weights)
        slopes = np.repeat(root / np.sqrt(state.variances), state.coef.shape[1])
        freedom = np.sqrt(information(state.freedom[: self.model.student], 1))
        return np.concatenate([freedom, slopes, root, root / np.sqrt(2)])

    def n_parameters(self, state: Lines) -> int:
        """Count the free parameters."""
        return self.model.n_parameters(*state.coef.shape)

    def log_joint(self, rows: Rows, state: Lines) -> Array:
        """Return log weight plus log density of held rows, (n, k)."""
        joint = log_joint(state, columns_of(rows.block))
        return namespace_of(joint).matrix_transpose(joint)

    def counts(self, rows: Rows) -> Array:
        """Return how often each held row counts."""
        return rows.block["counts"]

    def part(self, rows: Rows, places: np.ndarray[Any, Any], counts: Floats) -> Rows:
        """Return held rows at some places, each counting as often as given."""
        return rows.take(places, counts)

    def expect(self, rows: Rows, shares: Array, state: Lines) -> LineSums:
        """Return the sums for given responsibilities (n, m), which include the counts."""
        turned, u = namespace_of(shares).matrix_transpose(shares), columns_of(rows.block)
        turned, extra = apply_factors(state, u, turned)
        return LineSums.of(0.0, rows.total, share_products(rows, turned), extra)

    def pool(self, sums: LineSums, state: Lines) -> Floats:
        """Return rows and squared residuals of each line, (k, 2), for a shared variance."""
        if not self.model.shared:
            return np.zeros((state.k, 0))
        return np.column_stack([sums.counts, _squares(sums.products, state.coef)])

    def fit_trials(
        self,
        sums: LineSums,
        before: Lines,
        size: int,
        rest: Floats | None,
        like: Lines | None = None,
    ) -> Lines:
        """Return the M-step of trials of ``size`` lines, each trial by itself."""
        n = sums.counts.reshape(-1, size)
        coef = self._solve(sums.products, before.coef)
        squares = _squares(sums.products, coef).reshape(-1, size)
        whole = n.sum(axis=1, keepdims=True)
        weights = n / np.maximum(whole, TINY) if size > 1 else n / sums.total
        variances = before.variances.reshape(-1, size)
        if not self.model.shared:
            variances = squares / np.maximum(n, TINY)
            usual = (before if like is None else like).variances.max()
            variances = np.maximum(variances, self.least_ratio**2 * usual)
        elif rest is not None:
            pooled = (squares.sum(axis=1, keepdims=True) + rest[1]) / (whole + rest[0])
            variances = np.repeat(pooled, size, axis=1)
        own = np.maximum(variances, SMALLEST_VARIANCE).ravel()
        return Lines(weights.ravel(), coef, own, before.freedom)

    def rest_bound(self, rest: Floats, trials: Lines, size: int) -> Floats:
        """Return the expected log-likelihood of the rest under each trial's shared variance."""
        v = trials.variances.reshape(-1, size)[:, 0]
        if not self.model.shared:
            return np.zeros(len(v))
        return np.asarray(-0.5 * (rest[0] * (LOG_TWO_PI + np.log(v)) + rest[1] / v))

    def fit_pairs(
        self, parts: Sequence[Rows], alone: Lines, pairs: Lines, rest: Floats, steps: int
    ) -> tuple[Lines, Floats]:
        """Run EM of trials of two parts of lines, each line on rows of its own."""
        return fit_pairs(self, parts, alone, pairs, rest, steps)

    def split_starts(self, part: Rows, state: Lines, i: int, rng: np.random.Generator) -> Lines:
        r"""Return two parts for line i, apart in several directions, equal and unequal.

        A step :math:`s A^{-1/2} g` with g of length 1 and A the second moments of z moves a line
        by s in the mean square over its rows, whatever the design. Directions are the intercept,
        random ones, and the one along which squared residuals vary most: two lines
        :math:`b \pm \delta` in place of b gain :math:`\delta^T H \delta / v` for a short
        :math:`\delta`, with :math:`H = \sum R (r^2 / v - 1) z z^T / 2`.
        """
        q, first = state.coef.shape[1], self.model.first
        alone, u = state.take(np.array([i])), columns_of(part.block)
        factors, _ = apply_factors(alone, u, part.block["counts"][None, :])
        products = weighted_products(factors, u)[0]
        values, vectors = np.linalg.eigh(products[first:-1, first:-1] / products[0, 0])
        varying = values > 1e-8 * values[-1]  # directions in which these rows vary
        root = vectors[:, varying] / np.sqrt(values[varying])
        line = self._solve(products[None], state.coef[i : i + 1])
        variance = float(_squares(products[None], line)[0] / part.total)
        g = rng.normal(size=(DIRECTIONS, root.shape[1]))
        g[0] = self._widest(part, alone, line[0], max(variance, SMALLEST_VARIANCE), root)
        g /= np.linalg.norm(g, axis=1, keepdims=True)
        steps = np.zeros((DIRECTIONS + self.model.intercept, q))
        steps[:DIRECTIONS, first:] = g @ root.T
        if self.model.intercept:
            steps[-1, 0] = 1.0
        steps *= np.sqrt(max(variance, SMALLEST_VARIANCE))
        coef, weights = [], []
        for lengths, sizes in PARTS:
            coef.append(line + np.multiply.outer(lengths, steps).transpose(1, 0, 2))
            weights.append(np.tile(sizes, len(steps)))
        k = 2 * len(PARTS) * len(steps)
        variances, freedom = np.full(k, state.variances[i]), np.full(k, state.freedom[i])
        coefs = np.concatenate(coef).reshape(k, q)
        return Lines(np.concatenate(weights), coefs, variances, freedom)

    def _widest(
        self, part: Rows, alone: Lines, line: Floats, variance: float, root: Floats
    ) -> Floats:
        """Return the direction along which squared residuals of a line vary most."""
        u, counts = columns_of(part.block), part.block["counts"]
        factors, _ = apply_factors(alone, u, namespace_of(u).ones_like(counts)[None, :])
        residuals = u[-1, :] - move_like(line, u) @ u[:-1, :]
        excess = residuals**2 / variance * factors[0, :] - 1
        z = move_like(root.T, u) @ u[self.model.first : -1, :]
        moment = as_sum((z * (excess * counts)) @ namespace_of(u).matrix_transpose(z))
        widest: Floats = np.linalg.eigh(moment)[1][:, -1]
        return widest

    def candidates(
        self,
        rows: Rows,  # noqa: ARG002
        state: Lines,
        log_density: Array,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Lines:
        """Return no lines: splits find the missing ones."""
        return state.take(np.zeros(0, dtype=int))

    def random_lines(self, rows: Rows, like: Lines, rng: np.random.Generator) -> Lines:
        """Return random lines: with the slopes of least squares, or with slopes of their own.

        Lines of common slopes go through one random row each. The others go through one row more
        than they have coefficients, by turns at random.
        """
        k, u = like.k, columns_of(rows.block)
        plain = replace(like, freedom=np.full(k, np.inf))  # least squares
        if self.model.intercept and rng.integers(2):
            products = self.expect(rows, rows.block["counts"][:, None], plain).products
            coef = self._solve(products, like.coef[:1])
            variance = float(_squares(products, coef)[0] / products[0, 0, 0])
            chosen = to_numpy(u)[:, rng.choice(rows.n, k, replace=False)]
            coef = np.repeat(coef, k, axis=0)
            coef[:, 0] += chosen[-1] - coef[0] @ chosen[:-1]
        else:
            shares, variance = np.zeros((rows.n, k)), 1.0
            size = min(like.coef.shape[1] - self.model.first + 1, rows.n)
            for i in range(k):
                shares[rng.choice(rows.n, size, replace=False), i] = 1
            coef = self._solve(self.expect(rows, move_like(shares, u), plain).products, like.coef)
        variances = np.full(k, max(ROUGH_VARIANCE * variance, SMALLEST_VARIANCE))
        return replace(like, weights=np.full(k, 1 / k), coef=coef, variances=variances)

    def at_floor(self, state: Lines) -> Places:
        """Return the lines whose noise is as small as it may be."""
        least = self._least_variances(state.variances, state.weights)
        return np.flatnonzero(state.variances <= (1 + ROUNDING) * least)

    def _bounded(self, variances: Floats, weights: Floats) -> Floats:
        return np.maximum(variances, self._least_variances(variances, weights))

    def _least_variances(self, variances: Floats, weights: Floats) -> Floats:
        r"""Return the floor :math:`c^{2 \max(1, m_i / (R q))} \sum_j w_j v_j` of each line.

        The mean weight of the line of a row is :math:`\sum_j w_j^2`.
        """
        if self.model.shared or self.least_ratio == 0:
            return np.full(len(weights), SMALLEST_VARIANCE)
        c = min(self.least_ratio / float(weights @ weights), LARGEST_FLOOR)
        power = np.maximum(weights / self.least_ratio, 1.0)
        floor = float(weights @ variances) * c ** (2 * power)
        return np.asarray(np.maximum(floor, SMALLEST_VARIANCE))

    def _solve(self, products: Floats, before: Floats) -> Floats:
        """Return weighted least squares of each line; one without rows stays where it is."""
        first, n = self.model.first, products[:, 0, 0]
        A, c = products[:, first:-1, first:-1], products[:, first:-1, -1]
        ridge = RIDGE * np.maximum(n, 1.0)[:, None, None] * np.eye(A.shape[1])
        solved = before.copy()
        found = np.linalg.solve(A + ridge, c[:, :, None])[:, :, 0]
        solved[n > 0, first:] = found[n > 0]
        return solved


def least_ratio(n: int, q: int) -> float:
    """Return R q / n, for n rows and lines of q coefficients.

    Examples
    --------
    >>> least_ratio(1_000, 5)
    0.03
    """
    return ROWS_PER_COEFFICIENT * q / n


def _squares(products: Floats, coef: Floats) -> Floats:
    """Return the sums of squared residuals of each line."""
    A, c = products[:, :-1, :-1], products[:, :-1, -1]
    squares = products[:, -1, -1] - 2 * np.sum(coef * c, axis=1)
    squares += np.einsum("ki,kij,kj->k", coef, A, coef)
    return np.asarray(np.maximum(squares, 0.0))
