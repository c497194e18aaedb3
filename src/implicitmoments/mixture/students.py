r"""Student's t in place of Gaussian noise: a wrapper that scales rows in the E-step.

A row of Student's t with :math:`\nu` degrees of freedom is a Gaussian row whose precision is
multiplied by a hidden scale :math:`u \sim \Gamma(\nu/2, \nu/2)`. Given the row, u has the mean
:math:`(\nu + p)/(\nu + \delta)`, where :math:`\delta` is the squared distance from the centre in
units of the noise and p its dimension. So sums are taken of features times u, and the M-step is
that of the Gaussian family (PX-EM; Liu, Rubin and Wu 1998).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from implicitmoments.arrays import Array, Floats, namespace_of
from implicitmoments.mixture.family import (
    TINY,
    Family,
    Parameters,
    Places,
    heavy_tails,
    log_constant,
)
from implicitmoments.mixture.gaussians import Gaussians
from implicitmoments.mixture.lines import Lines
from implicitmoments.rows import Block, Rows

LEAST, MOST = 1.0, 1_000.0  # degrees of freedom
START = -1.1  # mean of log u - u that stands for about ten degrees of freedom


@dataclass(frozen=True, eq=False)
class Students(Family):
    """Components with Student's t; one number of degrees of freedom for all.

    Features are (1, those of the family, a constant). Sums are the size of a component, the sums
    of the family's features scaled by u, and the sum of E[log u] - E[u], which determines the
    degrees of freedom. Coefficients are (log weight, those of the family, ν, the largest Gaussian
    log density, and four functions of ν). Parameters are those of the family and ``freedom``
    (1, 1).

    Parameters
    ----------
    base : Gaussians or Lines
        All its features have coefficients per component; see :meth:`of`.
    fastest : float
        Steps of EM in the degrees of freedom that one step stands for, at most.
    """

    base: Gaussians | Lines
    fastest: float = 20.0

    needs_logits: ClassVar[bool] = True

    @classmethod
    def of(cls, base: Gaussians | Lines) -> Students:
        """Wrap a family; its components have all coefficients of their own."""
        family: Any = base.unshared()
        own = dict.fromkeys(("n_own", "n_features"), family.n_features + 2)
        same = {each.name: getattr(family, each.name) for each in fields(Family)}
        return cls(family, **(same | own))

    @property
    def linear(self) -> slice:
        """Places of the family's sums and coefficients."""
        return slice(1, self.n_own - 1)

    def prepare(self, rows: Rows) -> Students:
        """Return the family in the units of some rows."""
        return Students.of(self.base.prepare(rows))

    def features(self, block: Block) -> Array:
        """Return the features of the family between two constants."""
        found = self.base.features(block)
        xp, one = namespace_of(found), found[:, :1]
        return xp.concat([one, found, START * one], axis=1)

    def pool(self, sums: Floats, rest: Floats) -> Floats:
        """Return what the family shares, and the degrees of freedom, in one array."""
        shared = self.base.pool(sums[..., 1:-1], rest)
        mean = sums[..., -1].sum(-1) / (sums[..., 0].sum(-1) + TINY)
        return np.concatenate([shared, degrees_of_freedom(mean)[..., None, None]], axis=-1)

    def estimate(self, sums: Floats, shared: Any) -> Parameters:
        """Return the parameters of the family and the degrees of freedom."""
        found = self.base.estimate(sums[..., 1:-1], shared[..., :-1])
        return found | {"freedom": shared[..., -1:]}

    def coefficients(self, parameters: Parameters) -> tuple[Floats, Floats | None]:
        """Return coefficients (..., k, s + 2)."""
        found = self.base.coefficients(parameters)[0]
        column = (*found.shape[:-1], 1)
        freedom, peaks = parameters["freedom"], self.base.peaks(parameters)
        half, p = freedom / 2, self.base.d
        tail = [peaks, log_constant(freedom, p), digamma(half + p / 2), mean_at(freedom)]
        tail = [freedom, *tail, acceleration(freedom, p, self.fastest)]
        tail = [np.broadcast_to(part, column) for part in tail]
        return np.concatenate([np.zeros(column), found, *tail], axis=-1), None

    def logits(self, coefficients: Array, features: Array) -> Array:
        """Return the log densities of Student's t."""
        gaussian = self.base.logits(coefficients[..., self.linear], features[..., self.linear])
        freedom, peaks, constant = columns_at_end(coefficients, 6)[:3]
        found = heavy_tails(gaussian, peaks, freedom, self.base.d)
        return found + constant + coefficients[..., :1]

    def sum_features(
        self, shares: Array, features: Array, coefficients: Array, logits: Any
    ) -> Array:
        """Return the sums of scaled features, and what determines the degrees of freedom."""
        xp, p = namespace_of(features), self.base.d
        freedom, peaks, constant, mean_log, own, faster = columns_at_end(coefficients, 6)
        below = coefficients[..., :1] + peaks + constant - logits
        # ν + δ, from the log density, which is less than its peak by (ν + p)/2 log(1 + δ/ν)
        spread = freedom * xp.exp(below * (2 / (freedom + p)))
        scales = (freedom + p) / spread
        scaled = (shares * scales) @ features[..., self.linear]
        logs = mean_log - xp.log(spread / 2) - scales
        logs = logs + (faster - 1) * (logs - own)
        sizes, last = (xp.sum(part, axis=-1)[..., None] for part in (shares, shares * logs))
        return xp.concat([sizes, scaled, last], axis=-1)

    def split_scores(self, features: Floats, weights: Floats) -> Floats:
        """Return those of the family."""
        return self.base.split_scores(features[..., self.linear], weights)

    def points(self, features: Floats) -> Floats:
        """Return those of the family."""
        return self.base.points(features[:, 1:-1])

    def n_parameters(self, k: int) -> int:
        """Return those of the family, and one."""
        return self.base.n_parameters(k) + 1

    def to_user(self, parameters: Parameters) -> Parameters:
        """Return those of the family in the user's units, and ν."""
        freedom = parameters["freedom"][..., 0, 0]
        return self.base.to_user(parameters) | {"degrees_of_freedom": freedom}

    def sums_of(self, given: Parameters, sizes: Floats) -> Floats:
        """Return sums of rows with these parameters."""
        inner = self.base.sums_of(given, sizes)
        return np.column_stack([sizes, inner, mean_at(given["degrees_of_freedom"]) * sizes])

    def left_out(self) -> Places:
        """Return those of the family."""
        return self.base.left_out()

    def steps(self, parameters: Parameters) -> Parameters:
        """Return those of the family, and ν."""
        return self.base.steps(parameters) | {"freedom": parameters["freedom"][..., None]}

    def plain(self) -> Students:
        """Return the family with plain steps of EM in the degrees of freedom."""
        return replace(self, fastest=1.0)

    def complete_level(self, sums: Floats, parameters: Parameters) -> Floats:
        """Return the expected complete log-likelihood, of rows and their hidden scales."""
        level = self.base.complete_level(sums[..., self.linear], parameters)
        # log-determinants count rows, not scaled rows
        sizes, scaled = sums[..., 0], sums[..., 1]
        level = level + (sizes - scaled) * self.base.peaks(parameters)[..., 0]
        half = parameters["freedom"][..., 0] / 2
        level += sizes * (half * np.log(half) - gammaln(half)) + half * sums[..., -1]
        return np.asarray(level)


def columns_at_end(array: Array, n: int) -> list[Array]:
    """Return the last n columns of an array, each as a column."""
    width = int(array.shape[-1])
    return [array[..., i : i + 1] for i in range(width - n, width)]


def mean_at(freedom: Floats) -> Floats:
    """Return the mean of log u - u of scales with some degrees of freedom."""
    half = freedom / 2
    return np.asarray(digamma(half) - np.log(half) - 1)


def acceleration(freedom: Floats, p: int, most: float) -> Floats:
    """Return by how much a step of EM in ν falls short of one of Newton's method.

    The ratio of the information about ν in rows with known scales to that in the rows, within
    bounds: EM of ν is arbitrarily slow where tails are those of a Gaussian.
    """
    half, far = freedom / 2, freedom + p
    known = polygamma(1, half) - 1 / half
    seen = polygamma(1, half) - polygamma(1, far / 2)
    seen = seen - 2 * p * (far + 4) / (freedom * far * (far + 2))
    return np.asarray(np.clip(known / np.maximum(seen, TINY), 1.0, most))


def degrees_of_freedom(mean: Floats) -> Floats:
    """Solve log(ν/2) - ψ(ν/2) = -1 - mean for ν, by Newton's method in 1/ν (Minka 2002)."""
    right = np.maximum(-1.0 - mean, 1e-6)
    half = (3 - right + np.sqrt((right - 3) ** 2 + 24 * right)) / (12 * right)
    for _ in range(4):
        value = np.log(half) - digamma(half) - right
        slope = 1 / half - polygamma(1, half)
        half = 1 / (1 / half + value / (half**2 * slope))
    return np.asarray(np.clip(2 * half, LEAST, MOST))


def draw_scales(freedom: float, n: int, rng: np.random.Generator) -> Any:
    """Draw the factors (n, 1) that turn normal noise into Student's t; 1 for Gaussians."""
    if np.isinf(freedom):
        return 1.0
    return np.sqrt(freedom / 2 / rng.standard_gamma(freedom / 2, size=(n, 1)))
