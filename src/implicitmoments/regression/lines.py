"""Parameters of a mixture of regressions, and the sums over rows from which they are estimated."""

from __future__ import annotations

from dataclasses import dataclass

from implicitmoments.arrays import Floats
from implicitmoments.search import Expectations, State


@dataclass(frozen=True)
class Model:
    """Which parameters are free.

    Attributes
    ----------
    shared : bool
        One noise variance for all lines.
    intercept : bool
        Lines have intercepts.
    """

    shared: bool = True
    intercept: bool = True

    @property
    def first(self) -> int:
        """The first feature of z = (1, x) that has a coefficient."""
        return 0 if self.intercept else 1

    def n_parameters(self, k: int, q: int) -> int:
        """Count the free parameters of k lines in q features, the constant among them."""
        return k * (q - self.first) + (k - 1) + (1 if self.shared else k)


@dataclass(frozen=True, eq=False)
class Lines(State):
    r"""A mixture of regressions :math:`y = b_i \cdot z + N(0, v_i)`, with z = (1, x).

    Attributes
    ----------
    weights : array of shape (k,)
    coef : array of shape (k, q)
        The intercept first.
    variances : array of shape (k,)
        Equal where they are shared.
    """

    coef: Floats
    variances: Floats


@dataclass(frozen=True, eq=False)
class LineSums(Expectations):
    """Sums of responsibility times u uᵀ, u = (1, x, y)."""

    products: Floats  # (k, q + 1, q + 1)
