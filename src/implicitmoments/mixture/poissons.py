r"""Mixtures of independent counts, as a family: the features are the counts.

A row x of counts with rates :math:`\lambda_i` in component i has
:math:`\log p(x \mid i) = \sum_j (x_j \log \lambda_{ij} - \lambda_{ij} - \log x_j!)`; the last term
is the same for all components, so it is one shared feature.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import gammaln

from implicitmoments.arrays import Array, Floats, move_like, namespace_of, to_numpy
from implicitmoments.mixture.family import TINY, Family, Parameters, principal_scores
from implicitmoments.rows import Block, Rows, mean_and_covariance


@dataclass(frozen=True, eq=False)
class Poissons(Family):
    """Independent Poisson counts; features are 1, x and the sum of log x!.

    The parameters are ``rates`` (k, d).
    """

    overall: Floats = field(default_factory=partial(np.zeros, 0))  # (d,) rates of all rows

    def prepare(self, rows: Rows) -> Poissons:
        """Return the family with the rates of all rows."""
        overall, d = mean_and_covariance(rows).mean, rows.n_features
        return replace(self, overall=overall, n_own=1 + d, n_features=2 + d)

    def features(self, block: Block) -> Array:
        """Return 1, the counts, and the sum of their log factorials."""
        x = block["x"]
        xp = namespace_of(x)
        factorials = move_like(gammaln(to_numpy(x) + 1).sum(1), x)
        return xp.concat([xp.ones_like(x[:, :1]), x, factorials[:, None]], axis=1)

    def estimate(self, sums: Floats, shared: Any) -> Parameters:  # noqa: ARG002
        """Return the rates of sums (..., k, s)."""
        rows = 1e-3  # of the overall rates, added to every component: no rate is 0
        counts = sums[..., 1 : self.n_own] + rows * self.overall + TINY
        return {"rates": counts / (sums[..., :1] + rows)}

    def coefficients(self, parameters: Parameters) -> tuple[Floats, Floats | None]:
        """Return minus the total rate, and log rates; the log factorials count -1."""
        rates = parameters["rates"]
        own = np.concatenate([-rates.sum(-1, keepdims=True), np.log(rates)], axis=-1)
        return own, np.full((*rates.shape[:-2], 1, 1), -1.0)

    def split_scores(self, features: Floats, weights: Floats) -> Floats:
        """Return principal coordinates of counts in units of their deviations."""
        counts = features[..., 1 : self.n_own]
        rates = weights[:, None] @ counts / (weights.sum(1)[:, None, None] + TINY)
        return principal_scores(counts / np.sqrt(rates + TINY), weights)

    def points(self, features: Floats) -> Floats:
        """Return roots, in which counts have about equal variance (Anscombe 1948)."""
        return 2 * np.sqrt(features[:, 1 : self.n_own] + 0.375)

    def n_parameters(self, k: int) -> int:
        """Return the number of weights and rates."""
        return k - 1 + k * len(self.overall)

    def steps(self, parameters: Parameters) -> Parameters:
        """Return the deviations of counts, as far as rates stay positive."""
        rates = parameters["rates"]
        sizes = np.minimum(np.sqrt(rates), rates)
        return {"rates": sizes[..., None] * np.eye(rates.shape[1])}
