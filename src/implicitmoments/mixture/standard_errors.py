"""Standard errors of Gaussian mixtures, from the information of all parameters together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from implicitmoments.arrays import (
    TINY,
    Array,
    Floats,
    cross_sums,
    move_like,
    namespace_of,
    quadratic_rows,
    softmax_rows,
)
from implicitmoments.mixture.gaussians import (
    CovarianceType,
    Gaussians,
    inverse_roots,
    pairs,
    precisions_of,
    symmetric,
)
from implicitmoments.rows import Block, Rows
from implicitmoments.search import (
    ComponentScores,
    parameter_covariance,
    row_weights,
    weight_errors,
)


@dataclass(frozen=True, eq=False)
class MixtureErrors:
    """Standard errors of a Gaussian mixture; NaN where they are not known, 0 where it is.

    Attributes
    ----------
    weights : array of shape (k,)
    means : array of shape (k, d)
    covariances : array of shape (k, d, d), or (k, d) of diagonals
    """

    weights: Floats
    means: Floats
    covariances: Floats


@dataclass(frozen=True, eq=False)
class ScoredGaussians:
    r"""Gaussians with their scores, as :class:`implicitmoments.search.ScoredComponents`.

    With :math:`C = L L^T` and :math:`u = L^{-1}(x - \mu)`, the parameters of a component are h and
    P of the density :math:`\exp(-u^T P u / 2 + h \cdot u - A)`, about h = 0 and P = I: its score
    is :math:`(u, -u_a u_b)`, with :math:`(1 - u_a^2)/2` for the diagonal of P, and its
    information is diagonal and the same for all rows.
    """

    mixture: Gaussians
    kind: CovarianceType
    known: bool = False  # covariances are not estimated

    @property
    def weights(self) -> Floats:
        """Weights of the components."""
        return self.mixture.weights

    @property
    def n_shape(self) -> int:
        """Parameters of one covariance."""
        return 0 if self.known else self.kind.n_numbers(self.mixture.d)

    @property
    def n_own(self) -> int:
        """Means, and covariances that are not shared."""
        return self.mixture.d + (0 if self.kind.tied else self.n_shape)

    @property
    def n_common(self) -> int:
        """The covariance that is shared."""
        return self.n_shape if self.kind.tied else 0

    @cached_property
    def roots(self) -> Floats:
        """The matrices L, (k, d, d) or (k, d)."""
        if self.mixture.diagonal:
            return np.asarray(np.sqrt(self.mixture.covariances))
        return np.asarray(np.linalg.cholesky(self.mixture.covariances))

    def __call__(self, block: Block) -> ComponentScores:
        """Return the scores of a block of rows."""
        x = block["x"]
        xp, k = namespace_of(x), self.mixture.k
        points = [self._standardised(x, i) for i in range(k)]
        joint = xp.stack([-0.5 * xp.sum(u**2, axis=1) for u in points], axis=1)
        shares, _ = softmax_rows(joint + move_like(self._log_heights, x))
        scores = xp.stack([self._scores(u) for u in points], axis=1)
        masses = xp.reshape(cross_sums(row_weights(block, shares), shares), (k, 1, 1))
        information = move_like(np.diag(self._information), masses)
        return ComponentScores(shares, scores, masses * information)

    def leverages(self, block: Block, covariances: Floats) -> Array:
        """Return the leverage on each component, the same for all rows, (1, k)."""
        return move_like(np.einsum("iaa,a->i", covariances, self._information)[None], block["x"])

    @cached_property
    def _log_heights(self) -> Floats:
        """Log weight plus log density at the mean, up to a common constant, (k,)."""
        logs = np.log(np.maximum(self.weights, TINY))
        return np.asarray(logs - 0.5 * precisions_of(self.mixture.covariances)[1])

    @property
    def _information(self) -> Floats:
        """Information of a row that is known to be of a component, which is diagonal, (q,)."""
        shape, d = self._shape_parts[0], self.mixture.d
        return np.append(np.ones(d), d * shape if self.kind.shape == "spherical" else shape)

    @cached_property
    def _shape_parts(self) -> tuple[Floats, Floats]:
        """Minus derivatives of the log density by products of u, and means of these, (p,)."""
        d = self.mixture.d
        if self.kind.shape == "spherical":
            factors, means = np.full(1, 0.5), np.full(1, float(d))
        elif self.kind.shape == "diag":
            factors, means = np.full(d, 0.5), np.ones(d)
        else:
            a, b = pairs(d)
            factors, means = np.where(a == b, 0.5, 1.0), np.where(a == b, 1.0, 0.0)
        return factors[: self.n_shape], means[: self.n_shape]

    def _standardised(self, x: Array, i: int) -> Array:
        """Return rows as u of component i, (n, d)."""
        away = x - move_like(self.mixture.means[i], x)
        if self.mixture.diagonal:
            return away / move_like(self.roots[i], x)
        return away @ move_like(inverse_roots(self.mixture.covariances[i : i + 1])[0].T, x)

    def _scores(self, u: Array) -> Array:
        """Return the scores of a component, (n, q)."""
        if self.known:
            return u
        xp, (factors, means) = namespace_of(u), self._shape_parts
        if self.kind.shape == "spherical":
            products = xp.sum(u**2, axis=1, keepdims=True)
        else:
            products = quadratic_rows(u, pairs=self.kind.shape == "full")[:, self.mixture.d : -1]
        return xp.concat([u, move_like(factors, u) * (move_like(means, u) - products)], axis=1)


def standard_errors(rows: Rows, scored: ScoredGaussians, *, robust: bool) -> MixtureErrors:
    """Return the standard errors of a mixture.

    Parameters
    ----------
    rows : Rows
        All rows that were fitted.
    robust : bool
        The sandwich instead of the inverse of the observed information.
    """
    mixture, roots, d = scored.mixture, scored.roots, scored.mixture.d
    covariance = parameter_covariance(rows, scored, robust=robust)
    if covariance is None:
        unknown = np.full(mixture.covariances.shape, 0.0 if scored.known else np.nan)
        return MixtureErrors(
            np.full(mixture.k, np.nan), np.full(mixture.means.shape, np.nan), unknown
        )
    means, covariances = np.zeros(mixture.means.shape), np.zeros(mixture.covariances.shape)
    for i, root in enumerate(roots):
        start = i * scored.n_own
        at = slice(start, start + d)
        means[i] = _spread(covariance[at, at], np.diag(root) if mixture.diagonal else root)
        begin = mixture.k * d if scored.kind.tied else start + d
        at = slice(begin, begin + scored.n_shape)
        if not scored.known:
            covariances[i] = _shape_errors(covariance[at, at], root, scored.kind)
    return MixtureErrors(weight_errors(covariance, mixture.weights), means, covariances)


def _spread(covariance: Floats, linear: Floats) -> Floats:
    """Return standard deviations of linear combinations, the rows of a matrix."""
    return np.asarray(np.sqrt(np.einsum("ab,ab->a", linear @ covariance, linear)))


def _shape_errors(covariance: Floats, root: Floats, kind: CovarianceType) -> Floats:
    """Return standard errors of a covariance from the covariance of P: dC = -L dP Lᵀ."""
    if kind.shape != "full":
        variances, errors = root**2, np.sqrt(np.diagonal(covariance))
        return np.asarray(variances * errors)
    d = len(root)
    a, b = pairs(d)
    # dC_ab = -Σ L_ac L_be dP_ce; an entry c < e of P stands for two
    linear = root[a][:, a] * root[b][:, b] + np.where(a == b, 0.0, root[a][:, b] * root[b][:, a])
    return np.asarray(_spread(covariance, linear)[symmetric(d)])
