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
    to_numpy,
)
from implicitmoments.mixture.gaussians import (
    CovarianceType,
    Gaussians,
    inverse_roots,
    pairs,
    precisions_of,
    symmetric,
)
from implicitmoments.rows import Block, Rows, Sums
from implicitmoments.search import (
    ComponentScores,
    information_sums,
    parameter_covariance,
    row_weights,
    weight_errors,
)
from implicitmoments.search.noise import Derivatives, is_estimated


@dataclass(frozen=True, eq=False)
class MixtureErrors:
    """Standard errors of a mixture; NaN where they are not known, 0 where it is.

    Attributes
    ----------
    weights : array of shape (k,)
    means : array of shape (k, d)
    covariances : array of shape (k, d, d), or (k, d) of diagonals
    freedom : float
        Of the degrees of freedom.
    """

    weights: Floats
    means: Floats
    covariances: Floats
    freedom: float


@dataclass(frozen=True, eq=False)
class ScoredGaussians:
    r"""Gaussians with their scores, as :class:`implicitmoments.search.ScoredComponents`.

    With :math:`C = L L^T` and :math:`u = L^{-1}(x - \mu)`, the parameters of a component are h and
    P, about h = 0 and P = I, on which its density depends through
    :math:`\delta = (u - P^{-1} h)^T P (u - P^{-1} h)` and :math:`\log |P| / 2`. A Gaussian has the
    score :math:`(u, -u_a u_b)` there, with :math:`(1 - u_a^2)/2` for the diagonal of P, and its
    information is diagonal and the same for all rows. The logarithm of the degrees of freedom of
    t components is common to all.
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
        """The covariance that is shared, and degrees of freedom that are estimated."""
        return (self.n_shape if self.kind.tied else 0) + is_estimated(self.freedom)

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the components."""
        return float(self.mixture.freedom[0])

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
        squares = xp.stack([xp.sum(u**2, axis=1) for u in points], axis=1)
        shares, _ = softmax_rows(self._log_joint(squares))
        law = Derivatives.of(squares, self.freedom, self.mixture.d)
        weights = shares * row_weights(block, shares)
        found = [self._component(u, weights, law, i) for i, u in enumerate(points)]
        scores, curvatures = zip(*found, strict=True)
        return ComponentScores(shares, xp.stack(scores, axis=1), np.stack(curvatures))

    def information(self, block: Block) -> Sums:
        """Return the sums of which the information is made."""
        return information_sums(self, block)

    def leverages(self, block: Block, covariances: Floats) -> Array:
        """Return the leverage on each component, the same for all rows, (1, k)."""
        q, far = len(self._information), self.freedom + self.mixture.d
        factor = 1.0 if np.isinf(far) else far / (far + 2)  # the expected information of h
        traces = np.einsum("iaa,a->i", covariances[:, :q, :q], self._information)
        return move_like(factor * traces[None], block["x"])

    def _log_joint(self, squares: Array) -> Array:
        """Return log weight plus log density, up to a common constant, of squared distances."""
        heights = move_like(self._log_heights, squares)
        if np.isinf(self.freedom):
            return heights - 0.5 * squares
        rate = 0.5 * (self.freedom + self.mixture.d)
        return heights - rate * namespace_of(squares).log1p(squares / self.freedom)

    def _component(
        self, u: Array, weights: Array, law: Derivatives, i: int
    ) -> tuple[Array, Floats]:
        """Return the scores of component i, (n, q), and its curvatures, (q, q).

        With a the derivative of δ by (h, P) they are linear in a, and in its products.
        """
        xp, d = namespace_of(u), self.mixture.d
        a, offset = self._distance_slopes(u)
        weight, factors, p = weights[:, i], law.factors[:, i], a.shape[1]
        scores = offset - 0.5 * factors[:, None] * a
        diagonal = float(xp.sum(weight)) * self._information
        diagonal[:d] = float(xp.sum(weight * factors))
        curvature = np.diag(diagonal)
        if not np.isinf(self.freedom):
            bent = 0.5 * weight * law.bends[:, i]
            curvature -= to_numpy(cross_sums(bent[:, None] * a, a))
        if law.tails is None:
            return scores, curvature
        score, cross, bend = (each[:, i] for each in law.tails)
        whole = np.zeros((p + 1, p + 1))
        whole[:p, :p] = curvature
        whole[:p, p] = whole[p, :p] = to_numpy(cross_sums((weight * cross)[:, None], a))[0]
        whole[p, p] = float(xp.sum(weight * bend))
        return xp.concat([scores, score[:, None]], axis=1), whole

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

    def _distance_slopes(self, u: Array) -> tuple[Array, Array]:
        """Return derivatives of δ by (h, P), (n, p), and of the half of log |P|, (p,)."""
        xp, d, (factors, means) = namespace_of(u), self.mixture.d, self._shape_parts
        offset = move_like(np.append(np.zeros(d), factors * means), u)
        if self.known:
            return -2 * u, offset
        if self.kind.shape == "spherical":
            products = xp.sum(u**2, axis=1, keepdims=True)
        else:
            products = quadratic_rows(u, pairs=self.kind.shape == "full")[:, d:-1]
        return xp.concat([-2 * u, move_like(2 * factors, u) * products], axis=1), offset


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
    freedom = 0.0 if np.isinf(scored.freedom) else np.nan
    covariance = parameter_covariance(rows, scored, robust=robust)
    if covariance is None:
        unknown = np.full(mixture.covariances.shape, 0.0 if scored.known else np.nan)
        return MixtureErrors(
            np.full(mixture.k, np.nan), np.full(mixture.means.shape, np.nan), unknown, freedom
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
    if is_estimated(scored.freedom):
        place = len(covariance) - mixture.k  # before the log-weights
        freedom = scored.freedom * float(np.sqrt(covariance[place, place]))
    return MixtureErrors(weight_errors(covariance, mixture.weights), means, covariances, freedom)


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
