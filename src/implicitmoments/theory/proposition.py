r"""Proposition 3.2 with explicit constants; the derivation is on the page docs/theory.md.

All quantities are natural logarithms inside this folder, because they overflow quickly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from implicitmoments.notes import InputError
from implicitmoments.validation import check_number, check_positive_number, check_whole

SHARE = 4  # the proof gives a quarter of tau each to the subspaces, to A and to B
OPERATIONS_PER_SLOT = 6  # of the circuit of an extended Hermite tensor (Remark 4.2)
PER_STEP = 3  # flops per entry: a product with a vector, and a multiplication and an addition
SVD = 21  # flops of an SVD of an (n, n) matrix over n³ (Golub and Van Loan 2013, figure 8.6.1)
LARGEST_ERROR, SMALLEST_ERROR = 1e250, 1e-250  # between which error_bound searches
PRECISION = 1e-4  # of the error that error_bound returns, relative


@dataclass(frozen=True)
class Bound:
    """What a statement of the paper guarantees, with the constants of its proof.

    Attributes
    ----------
    statement : str
        Of the paper.
    error : float
        Guaranteed, as the statement measures it.
    failure_probability : float
        Of the whole guarantee.
    order : int or None
        The largest order m of a moment that is answered; moments up to order 2m are averaged.
        None where no order gives a guarantee.
    log10_second_moment : float
        The largest bound V of the second moment of an estimator.
    log10_rows_per_average : float
        N of Proposition 3.2.
    log10_rows : float
        All rows that are drawn from the data.
    log10_operations : float
        Floating-point operations of the fit.
    log10_clip : float or None
        The clip A of a density; sampling takes 2A rounds or fewer on average.

    See Also
    --------
    moment_bound : Rows by Proposition 3.2.
    error_bound : The error guaranteed by a number of rows.

    Examples
    --------
    >>> from implicitmoments.theory import moment_bound
    >>> bound = moment_bound(2, 3, 4, 0.1, second_moment=8.0, tau=0.1)
    >>> bound.order, round(bound.log10_rows, 1)
    (4, 14.8)
    """

    statement: str
    error: float
    failure_probability: float
    order: int | None
    log10_second_moment: float
    log10_rows_per_average: float
    log10_rows: float
    log10_operations: float
    log10_clip: float | None = None

    @property
    def rows(self) -> float:
        """Number of rows; infinite where it is too large for a floating-point number."""
        return _power(self.log10_rows)

    @property
    def operations(self) -> float:
        """Number of operations; infinite where it is too large for a floating-point number."""
        return _power(self.log10_operations)

    def __str__(self) -> str:
        if self.order is None or self.log10_rows == math.inf:
            return f"{self.statement}: error {self.error:g} is not guaranteed at this separation"
        return (
            f"{self.statement}: error {self.error:g} with probability "
            f"{1 - self.failure_probability:g} from 10^{self.log10_rows:.1f} rows in "
            f"10^{self.log10_operations:.1f} operations (moments up to order {2 * self.order})"
        )


def _power(log10: float) -> float:
    return 10.0**log10 if log10 < math.log10(np.finfo(np.float64).max) else math.inf


@dataclass(frozen=True)
class Box:
    """The quantities on which the error of algorithm Implicit-Moment-Estimation depends.

    All second moments and norms are logarithms of upper bounds.
    """

    k: int
    d: int
    m: int
    tau: float
    subspaces: float  # second moment of S_2, S_4, …, S_2m
    average: float  # of S_m, in step 6
    query: float  # of F_m
    length: float  # the largest norm of v_i
    norm: float  # of M_m
    spread: float  # the sum of √w_i, which multiplies eta_m in Claim 3.10

    @classmethod
    def of_moment(
        cls,
        sizes: tuple[int, int, int],
        tau: float,
        estimator: Callable[[int], float],
        query: float,
        *,
        length: float = 0.0,
        weight: float = 0.0,
    ) -> Box:
        """Return the box of M_m, from the logarithms of second moments by order.

        Parameters
        ----------
        sizes : k, d and m
        estimator : callable
            ``estimator(t)`` bounds the second moment of S_t.
        query : float
            Second moment of F_m.
        length, weight : float
            Logarithms of the largest norm of v_i and of the sum of w_i.
        """
        k, d, m = sizes
        subspaces = max(estimator(t) for t in range(2, 2 * m + 1, 2))
        spread = (math.log(k) + weight) / 2
        return cls(
            k=k,
            d=d,
            m=m,
            tau=tau,
            subspaces=subspaces,
            average=estimator(m),
            query=query,
            length=length,
            norm=weight + m * length,
            spread=spread,
        )

    def log_error(self, log_n: float) -> float:
        """Return the logarithm of the root mean square error at N rows per average."""
        noise = math.log(SHARE / self.tau) - log_n
        average = (math.log(self.k) + self.average + noise) / 2
        query = (math.log(self.k) + self.query + noise) / 2
        missed = -math.inf
        if self.m > 0:
            delta = math.log(self.d * self.k) + (math.log(self.m) + self.subspaces + noise) / 2
            eta = (math.log(2) + delta) / 2 + log_sum(np.arange(self.m) * self.length)
            missed = eta + self.spread
        terms = (
            query + self.norm,  # ⟨P M, error of B⟩
            average + (math.log(self.k) + self.query) / 2,  # ⟨error of A, P T⟩
            average + query,  # ⟨error of A, error of B⟩
            missed + self.query / 2,  # ⟨M − P M, T⟩
        )
        return log_sum(np.array(terms))

    def log_rows(self, log_error: float) -> float:
        """Return the logarithm of the least N at which the error is at most this."""
        excess = self.log_error(0.0) - log_error
        if excess <= 0:
            return 0.0
        # every term falls at least as fast as N^(−1/4)
        return float(brentq(lambda n: self.log_error(n) - log_error, 0.0, 4.0 * excess + 1.0))

    def log_operations(self, log_n: float, size: int, log_queries: float = 0.0) -> float:
        """Return the logarithm of the number of operations, with a number of queries."""
        k, d = math.log(self.k), math.log(self.d)
        step = math.log(PER_STEP * size) + log_n
        return log_sum(
            np.array(
                [
                    math.log(max(self.m, 1)) + step + 3 * k + 2 * d,  # windows of (kd)² numbers
                    step + 2 * k + d,  # step 6
                    step + 2 * k + d + log_queries,  # step 7
                    math.log(SVD * max(self.m, 1)) + 3 * (k + d),
                ]
            )
        )


def log_sum(logs: Any) -> float:
    """Return the logarithm of a sum, from the logarithms of its terms."""
    return float(np.logaddexp.reduce(logs))


def circuit_size(order: int) -> int:
    """Return the size of the largest circuit for moments up to twice this order."""
    return OPERATIONS_PER_SLOT * 2 * max(order, 1)


def make_bound(
    statement: str,
    error: float,
    tau: float,
    box: Box,
    log_n: float,
    *,
    rows: float | None = None,
    operations: float | None = None,
    clip: float | None = None,
) -> Bound:
    """Return a bound from natural logarithms; by default of one box, with one query."""
    if rows is None:  # N for each of the m averages of the recursion, and for A
        rows = log_n + math.log(box.m + 1)
    if operations is None:
        operations = box.log_operations(log_n, circuit_size(box.m))
    largest = max(box.subspaces, box.average, box.query)
    unit = math.log(10.0)
    return Bound(
        statement=statement,
        error=error,
        failure_probability=tau,
        order=box.m,
        log10_second_moment=largest / unit,
        log10_rows_per_average=log_n / unit,
        log10_rows=rows / unit,
        log10_operations=operations / unit,
        log10_clip=None if clip is None else clip / unit,
    )


def moment_bound(  # noqa: PLR0913 (those of the proposition)
    k: int,
    d: int,
    m: int,
    epsilon: float,
    *,
    second_moment: float,
    query_second_moment: float | None = None,
    tau: float = 0.01,
    total_weight: float = 1.0,
    largest_norm: float = 1.0,
    size: int | None = None,
) -> Bound:
    r"""Return the rows at which Proposition 3.2 guarantees an error.

    Parameters
    ----------
    k : int
        Number of hidden vectors.
    d : int
        Number of features.
    m : int
        Order of the moment.
    epsilon : float
        Root mean square error of :math:`\langle T(X), M_m \rangle` over queries X.
    second_moment : float
        The largest second moment V in any direction of the estimators :math:`S_t`, t even up to
        2m or equal to m.
    query_second_moment : float, optional
        That of the circuit :math:`F_m` of queries; V by default, as in the text.
    tau : float, default 0.01
        Probability of failure.
    total_weight : float, default 1.0
        :math:`\sum_i w_i`.
    largest_norm : float, default 1.0
        :math:`\max_i \|v_i\|`.
    size : int, optional
        Largest size S of a circuit; by default that of extended Hermite tensors up to order 2m.

    Returns
    -------
    Bound
        ``rows`` counts those of all m + 1 averages.

    See Also
    --------
    error_bound : The error guaranteed by a number of rows.
    implicitmoments.implicit_moments : Estimate moments of a problem.

    Examples
    --------
    >>> bound = moment_bound(3, 6, 4, 0.5, second_moment=1e4)
    >>> round(bound.log10_rows, 1), round(bound.log10_operations, 1)
    (23.6, 28.6)
    """
    k, d, m = (check_whole(name, v, 1) for name, v in (("k", k), ("d", d), ("m", m)))
    log_v = math.log(check_positive_number("second_moment", second_moment))
    query = second_moment if query_second_moment is None else query_second_moment
    weight = math.log(check_positive_number("total_weight", total_weight))
    length = math.log(check_positive_number("largest_norm", largest_norm))
    log_query = math.log(check_positive_number("query_second_moment", query))
    tau = check_probability(tau)
    box = Box.of_moment((k, d, m), tau, lambda _: log_v, log_query, length=length, weight=weight)
    log_n = box.log_rows(math.log(check_positive_number("epsilon", epsilon)))
    size = circuit_size(m) if size is None else check_whole("size", size, 1)
    operations = box.log_operations(log_n, size)
    return make_bound("Proposition 3.2", epsilon, tau, box, log_n, operations=operations)


def check_probability(tau: float, name: str = "tau") -> float:
    """Return a number between 0 and 1, both excluded."""
    tau = check_positive_number(name, tau)
    return check_number(name, tau, 0.0, math.nextafter(1.0, 0.0))


def error_bound(guarantee: Callable[..., Bound], n_rows: float, **parameters: Any) -> float:
    """Return the smallest error that a statement guarantees with a number of rows.

    Parameters
    ----------
    guarantee : callable
        A function of this module that returns a :class:`Bound` and takes ``epsilon``.
    n_rows : float
        Number of rows, in all.
    **parameters : object
        The other parameters of the function.

    Returns
    -------
    float
        As the statement measures it. Above 1 a bound on a total variation distance says nothing.

    See Also
    --------
    moment_bound : Rows by Proposition 3.2.
    Bound : The record that the bounds return.

    Examples
    --------
    >>> error = error_bound(moment_bound, 1e6, k=3, d=6, m=4, second_moment=1e4)
    >>> error > 1e4
    True
    """
    wanted = math.log10(check_positive_number("n_rows", n_rows))

    def enough(epsilon: float) -> bool:
        try:
            return guarantee(epsilon=epsilon, **parameters).log10_rows <= wanted
        except InputError as error:  # a degree to which no activation is expanded
            if error.code != "epsilon_too_small":
                raise
            return False

    high = 1.0
    while not enough(high):
        high *= 10.0
        if high > LARGEST_ERROR:
            return math.inf
    low = high / 10.0
    while enough(low) and low > SMALLEST_ERROR:
        low, high = low / 10.0, low
    while high > (1 + PRECISION) * low:  # rows jump where the degree does: bisection
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
