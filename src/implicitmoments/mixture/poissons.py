r"""Mixtures of independent counts, as a family: the features are the counts.

A row x of counts with rates :math:`\lambda_i` in component i has
:math:`\log p(x \mid i) = \sum_j (x_j \log \lambda_{ij} - \lambda_{ij} - \log x_j!)`; the last term
is the same for all components, so it is one shared feature.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from implicitmoments.arrays import Array, Floats, move_like, namespace_of, to_numpy
from implicitmoments.mixture.family import TINY, Family, principal_scores
from implicitmoments.rows import Block, Rows
from implicitmoments.rows.second_moments import mean_and_covariance

PRIOR_ROWS = 1e-3  # of the overall rates, added to every component: no rate is 0


class Poisson(NamedTuple):
    """Parameters of a mixture of counts."""

    weights: Floats  # (k,)
    rates: Floats  # (k, d)


@dataclass(frozen=True, eq=False)
class Poissons(Family):
    """Independent Poisson counts; features are 1, x and the sum of log x!."""

    overall: Floats = field(default_factory=lambda: np.zeros(0))  # (d,) rates of all rows

    @property
    def n_own(self) -> int:
        """The constant and the counts."""
        return 1 + len(self.overall)

    @property
    def n_features(self) -> int:
        """The log factorials are shared."""
        return 2 + len(self.overall)

    def prepare(self, rows: Rows) -> Poissons:
        """Return the family with the rates of all rows."""
        return replace(self, overall=mean_and_covariance(rows).mean)

    def features(self, block: Block) -> Array:
        """Return 1, the counts, and the sum of their log factorials."""
        xp = namespace_of(block["x"])
        x = xp.astype(block["x"], xp.float64, copy=False)
        factorials = move_like(gammaln(to_numpy(x) + 1).sum(1), x)
        return xp.concat([xp.ones_like(x[:, :1]), x, factorials[:, None]], axis=1)

    def natural(self, sums: Floats, shared: Floats | None) -> Floats:  # noqa: ARG002
        """Return minus the total rate, and log rates."""
        return self.coefficients_at(self._rates(sums), np.zeros(0))[..., : self.n_own]

    def _rates(self, sums: Floats) -> Floats:
        counts = sums[..., 1 : self.n_own] + PRIOR_ROWS * self.overall + TINY
        return np.asarray(counts / (sums[..., :1] + PRIOR_ROWS))

    def shared_coefficients(self, shared: Floats | None) -> Floats | None:  # noqa: ARG002
        """Return the coefficient of the log factorials."""
        return np.full(1, -1.0)

    def split_scores(self, features: Floats, weights: Floats, coefficients: Floats) -> Floats:
        """Return principal coordinates of counts in units of their deviations."""
        return principal_scores(features[..., 1:] / np.exp(coefficients[:, None, 1:] / 2), weights)

    def points(self, features: Floats) -> Floats:
        """Return roots, in which counts have about equal variance (Anscombe 1948)."""
        return 2 * np.sqrt(features[:, 1 : self.n_own] + 0.375)

    def n_parameters(self, k: int) -> int:
        """Return the number of weights and rates."""
        return k - 1 + k * len(self.overall)

    def parameters(self, sums: Floats, rest: Floats) -> Poisson:  # noqa: ARG002
        """Return weights and rates."""
        return Poisson(sums[:, 0] / sums[:, 0].sum(), self._rates(sums))

    def vectors(self, parameters: Poisson) -> tuple[Floats, Floats]:
        """Return the rates."""
        return parameters.rates, np.zeros(0)

    def steps(self, own: Floats, shared: Floats) -> tuple[Floats, Floats]:  # noqa: ARG002
        """Return the deviations of counts, as far as rates stay positive."""
        sizes = np.minimum(np.sqrt(own), own)
        return sizes[..., None] * np.eye(own.shape[1]), np.zeros((0, 0))

    def coefficients_at(self, own: Floats, shared: Floats) -> Floats:  # noqa: ARG002
        """Return the coefficients (..., k, n_features) of rates."""
        factorials = np.full((*own.shape[:-1], 1), -1.0)
        return np.concatenate([-own.sum(-1, keepdims=True), np.log(own), factorials], axis=-1)

    def errors(self, covariance: Floats, k: int) -> Poisson:
        """Return standard errors of the rates."""
        return Poisson(np.zeros(k), np.sqrt(np.diag(covariance)).reshape(k, -1))

    def sums_of(self, parameters: Any, n: float) -> Floats:
        """Return the sums of n rows with these rates."""
        sizes = n * parameters.weights[:, None]
        return np.hstack([sizes, sizes * parameters.rates])
