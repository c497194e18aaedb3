"""Mixtures of linear regressions (section 4.4)."""

from __future__ import annotations

import math
from functools import cached_property

from implicitmoments.backends import Array, Floats, namespace_of
from implicitmoments.models.polynomials import monic_polynomial, recurrence_from_moments
from implicitmoments.moments import HermiteProblem
from implicitmoments.samples import (
    ArraySource,
    Block,
    MappedSource,
    RowDraws,
    Stream,
    Whitening,
    blocks,
)

__all__ = ["RegressionMixtureProblem"]


WEIGHTS = ("orthogonal", "monomial")
HIGHEST_ORDER = 9  # of orthogonal weights; moments of y to twice that are still accurate
BLOCK_ROWS = 65_536


class RegressionMixtureProblem(HermiteProblem):
    r"""Moments of the regressors of :math:`y = \beta_i \cdot x + \nu`, with Gaussian x.

    Lemma 4.23: :math:`E[(y^t / t!)\, He_t(x)] = \sum_i w_i \beta_i^{\otimes t}` for any law of
    the noise, since its parts of lower degree in x are orthogonal to :math:`He_t`. So are those of
    any polynomial :math:`y^t + \ldots`; the one orthogonal to lower powers of y has the least
    variance among them.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    y : array of shape (n_samples,)
    weights : {"orthogonal", "monomial"}
        The monic orthogonal polynomial of the law of y over t!, or the paper's y^t / t!.
    whiten : bool
        Estimate the mean and covariance of x and work with standardised points; vectors are
        mapped back. Otherwise x is taken to be from N(0, I).
    sample_weight : array of shape (n_samples,), optional
        How often each row counts.
    """

    def __init__(
        self,
        X: Array,
        y: Array,
        *,
        weights: str = "orthogonal",
        whiten: bool = False,
        sample_weight: Array | None = None,
    ) -> None:
        if weights not in WEIGHTS:
            raise ValueError(f"weights is one of {', '.join(map(repr, WEIGHTS))}, got {weights!r}")
        source = ArraySource(X, y=y)
        self.weights = weights
        self.whitening = Whitening.of(source, sample_weight) if whiten else None
        super().__init__(
            source if self.whitening is None else MappedSource(source, self.whitening.apply),
            sample_weight=sample_weight,
        )

    def weigh(self, order: int, block: Block, rows: range) -> Array:  # noqa: ARG002
        """Return the weight of each row at an order."""
        y = block["y"]
        if self.weights == "monomial" or order > HIGHEST_ORDER:
            return y**order / math.factorial(order)
        unit, (a, b) = self._recurrence
        return monic_polynomial(y / unit, order, a, b) * (unit**order / math.factorial(order))

    def original_vectors(self, vectors: Floats) -> Floats:
        """Return the regressors of the points as they were given."""
        return vectors if self.whitening is None else self.whitening.original(vectors)

    @cached_property
    def _recurrence(self) -> tuple[float, tuple[list[float], list[float]]]:
        """The root mean square of y, and the recurrence of polynomials in y over it."""
        square = self._mean_power(1.0, [2])[0]
        unit = math.sqrt(square) if square > 0 else 1.0
        moments = self._mean_power(unit, list(range(2 * HIGHEST_ORDER + 2)))
        return unit, recurrence_from_moments(moments)

    def _mean_power(self, unit: float, powers: list[int]) -> list[float]:
        sums = [0.0] * len(powers)
        n_rows = self.n_rows or 0
        for rows in blocks(range(n_rows), BLOCK_ROWS):
            y = self.source.read(rows, RowDraws(0, rows, (Stream.ROWS,)))["y"] / unit
            xp = namespace_of(y)
            counts = self.multiplicity(rows, y)
            ones = xp.ones_like(y) if counts is None else counts
            for i, power in enumerate(powers):
                sums[i] += float(xp.sum(ones * y**power))
        return [value / n_rows for value in sums]
