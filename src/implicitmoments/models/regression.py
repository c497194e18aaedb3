"""Mixtures of linear regressions (section 4.4)."""

from __future__ import annotations

import math

from implicitmoments.backends import Array
from implicitmoments.moments import HermiteProblem
from implicitmoments.samples import ArraySource, Block

__all__ = ["RegressionMixtureProblem"]


class RegressionMixtureProblem(HermiteProblem):
    r"""Moments of the regressors of :math:`y = \beta_i \cdot x + \nu`, with x from N(0, I).

    Lemma 4.23: :math:`E[(y^t / t!)\, He_t(x)] = \sum_i w_i \beta_i^{\otimes t}`, whatever the
    law of the noise, since its parts of lower degree in x are orthogonal to :math:`He_t`.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    y : array of shape (n_samples,)
    """

    def __init__(self, X: Array, y: Array) -> None:
        super().__init__(ArraySource(X, y=y))

    def weigh(self, order: int, block: Block, rows: range) -> Array:  # noqa: ARG002
        """Return ``y ** order / order!``."""
        return block["y"] ** order / math.factorial(order)
