r"""Theorems 4.7, 4.16 and 4.22 with explicit constants; see docs/theory.md for the derivations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import gammaln, ndtri_exp

from implicitmoments.arrays import Floats
from implicitmoments.notes import InputError
from implicitmoments.problems.activation_sum import degree_for
from implicitmoments.problems.activations import Activation, as_activation
from implicitmoments.problems.hermite_quadrature import hermite_coefficients
from implicitmoments.theory.hermite_variance import log_hermite_second_moment
from implicitmoments.theory.proposition import (
    Bound,
    Box,
    check_probability,
    circuit_size,
    log_sum,
    make_bound,
)
from implicitmoments.validation import (
    check_method,
    check_number,
    check_positive_number,
    check_whole,
)

SAMPLER = 6  # the proof replaces epsilon by epsilon / 6 for clipping and sampling
HALVED = 2.0  # labels are divided by it, so that B and sigma are at most a half


def activation_bound(
    k: int,
    d: int,
    epsilon: float,
    *,
    activation: str | Activation = "relu",
    tau: float = 0.01,
) -> Bound:
    r"""Return the rows at which Theorem 4.7 guarantees an error of a sum of activations.

    Parameters
    ----------
    k : int
        Number of units; their weights are positive and sum to 1.
    d : int
        Number of features.
    epsilon : float
        The :math:`L_2` distance of the polynomial from the sum, under N(0, I).
    activation : str or Activation, default "relu"
        The function :math:`\sigma`.
    tau : float, default 0.01
        Probability of failure.

    Returns
    -------
    Bound
        ``order`` is the degree n of the polynomial.

    See Also
    --------
    moment_bound : Rows by Proposition 3.2.
    implicitmoments.ActivationSumRegressor : A sum of known activations of hidden directions.

    Examples
    --------
    >>> bound = activation_bound(3, 6, 0.5)
    >>> bound.order, bound.log10_rows > 15
    (2, True)
    """
    _check_sizes(k, d, epsilon, tau)
    sigma = as_activation(activation)
    n = degree_for(sigma, epsilon)
    estimator = activation_second_moment(sigma)
    orders = [m for m in range(1, n + 1) if sigma.coefficient(m) != 0]
    boxes = []
    for m in orders:
        query = log_hermite_second_moment(m, 0.0)
        box = Box.of_moment((k, d, m), tau / len(orders), estimator, query)
        allowed = epsilon / (4 * n * abs(sigma.coefficient(m)))
        boxes.append((box, box.log_rows(math.log(allowed))))
    return _sum_over_orders("Theorem 4.7", epsilon, tau, boxes)


def activation_second_moment(sigma: Activation) -> Callable[[int], float]:
    """Return the second moments of F(X) H_t(X, Y) / c_t."""
    fourth = hermite_coefficients(lambda u: np.asarray(sigma(u)) ** 2, 0, sigma.name).mean_square

    def log_second_moment(t: int) -> float:
        c = sigma.coefficient(t)
        if c == 0:
            raise InputError(
                "coefficient_zero",
                "Theorem 4.7 divides by the Hermite coefficient of order {order} of {name}, "
                "which is 0",
                order=t,
                name=sigma.name,
            )
        # ‖F ⟨A, H_t⟩‖₂ ≤ ‖F‖₄ ‖⟨A, H_t⟩‖₄ ≤ ‖σ‖₄ 3^(t/2) ‖⟨A, H_t⟩‖₂
        own = log_hermite_second_moment(t, 0.0)
        return math.log(fourth) / 2 + t * math.log(3) + own - 2 * math.log(abs(c))

    return log_second_moment


def mixture_density_bound(
    k: int,
    d: int,
    epsilon: float,
    *,
    radius: float,
    tau: float = 0.01,
) -> Bound:
    r"""Return the rows at which Theorem 4.16 guarantees a density of a spherical mixture.

    Parameters
    ----------
    k : int
        Number of components.
    d : int
        Number of features.
    epsilon : float
        Total variation distance of the sampler from the mixture.
    radius : float
        The largest norm R of a mean, in units of the noise; :math:`O(\sqrt{\log k})` in the text.
    tau : float, default 0.01
        Probability of failure.

    Returns
    -------
    Bound
        ``order`` is the degree :math:`n_0` of the expansion.

    See Also
    --------
    moment_bound : Rows by Proposition 3.2.
    implicitmoments.SphericalMixtureDensity : The density alone, also where components overlap.

    Examples
    --------
    >>> bound = mixture_density_bound(3, 6, 0.1, radius=1.0)
    >>> bound.order, bound.log10_clip < 3
    (7, True)
    """
    _check_sizes(k, d, epsilon, tau)
    R = check_positive_number("radius", radius)
    inner = epsilon / SAMPLER
    n0, estimator = _mixture_degree(R, inner), mixture_second_moment(R, R)
    boxes = []
    for n in range(1, n0 + 1):
        # means are divided by R, as the text divides them by √log k
        query = log_hermite_second_moment(n, 0.0) - math.lgamma(n + 1) + 2 * n * math.log(R)
        box = Box.of_moment((k, d, n), tau / n0, estimator, query)
        boxes.append((box, box.log_rows(math.log(inner / (2 * (n0 + 1))))))
    # k E[(e^{R g} − A)₊] ≤ k e^{R²/2} P(g > log(A)/R − R)
    tail = math.log(inner / k) - R * R / 2
    clip = R * (R - float(ndtri_exp(min(tail, 0.0))))
    return _sum_over_orders("Theorem 4.16", epsilon, tau, boxes, clip)


def mixture_second_moment(R: float, u: float) -> Callable[[int], float]:
    """Return the second moments of √(t!/u^2t) H_t(X, Y)."""
    return lambda t: math.lgamma(t + 1) - 2 * t * math.log(u) + log_hermite_second_moment(t, R)


def _mixture_degree(R: float, epsilon: float) -> int:
    """Return the least degree at which Σ_{n > n0} R^{2n}/n! is at most ε²/4."""
    n, wanted = 1, 2 * math.log(epsilon / 2)
    while True:
        first = 2 * (n + 1) * math.log(R) - math.lgamma(n + 2)
        ratio = R * R / (n + 2)  # of the second term to the first; those of later ones are smaller
        if ratio < 1 and first - math.log1p(-ratio) <= wanted:
            return n
        n += 1


def regression_density_bound(
    k: int,
    d: int,
    epsilon: float,
    *,
    sigma: float,
    largest_norm: float = 1.0,
    method: str = "text",
    tau: float = 0.01,
) -> Bound:
    r"""Return the rows at which Theorem 4.22 guarantees a density of regressions.

    Parameters
    ----------
    k : int
        Number of regressions.
    d : int
        Number of features.
    epsilon : float
        Total variation distance of the sampler from the mixture.
    sigma : float
        Standard deviation of the noise.
    largest_norm : float, default 1.0
        The largest norm B of a regressor.
    method : {"text", "direct"}, default "text"
        ``"text"``: norms of regressors by contraction with identities, as in the text; their
        second moment has a factor :math:`d^b` (Erratum 11), so that the number of rows is not a
        polynomial in d. ``"direct"``: the coefficients :math:`E[H_a(X) h_{n-a}(y)]` are averaged
        over rows on the subspaces of the moments, which makes the theorem true as stated.
    tau : float, default 0.01
        Probability of failure.

    Returns
    -------
    Bound

    See Also
    --------
    moment_bound : Rows by Proposition 3.2.
    implicitmoments.RegressionMixtureDensity : The joint density of x and y alone.

    Examples
    --------
    >>> text = regression_density_bound(3, 6, 0.5, sigma=1.0)
    >>> direct = regression_density_bound(3, 6, 0.5, sigma=1.0, method="direct")
    >>> direct.log10_rows < text.log10_rows
    True
    """
    _check_sizes(k, d, epsilon, tau)
    sigma = check_positive_number("sigma", sigma)
    B = check_number("largest_norm", largest_norm, 0.0)
    check_method(method, ("text", "direct"))
    # labels over 2, and over B + sigma first where these exceed 1
    scale = HALVED * (1.0 if max(B, sigma) <= 1 else B + sigma)
    sigma, B, inner = sigma / scale, max(B / scale, np.finfo(float).tiny), epsilon / SAMPLER
    gamma = 1 - sigma**2 / 2
    # Σ over even n > n0 of gamma^n is at most ε²/4
    wanted = 2 * math.log(inner / 2) + math.log1p(-(gamma**2))
    n0 = 2 * max(1, math.ceil(wanted / (2 * math.log(gamma)) - 1))
    estimator = regression_second_moment(B**2 + sigma**2)
    if method == "text":
        boxes = _contracted_terms(k, d, n0, inner / 2, sigma, B, tau, estimator)
    else:
        boxes = _direct_terms(k, d, n0, inner / 2, B, tau, estimator)
    box, log_n, n_terms = boxes
    operations = math.log(n_terms) + box.log_operations(log_n, circuit_size(n0))
    # P(F/G > C) ≤ 2 k P(g > z) with log(C sigma) = (B² + sigma²/2) z²/2
    z = -float(ndtri_exp(min(math.log(inner / (2 * k)), -math.log(2))))
    clip = (B**2 + sigma**2 / 2) * z * z / 2 - math.log(sigma)
    return make_bound("Theorem 4.22", epsilon, tau, box, log_n, operations=operations, clip=clip)


def regression_second_moment(variance: float) -> Callable[[int], float]:
    """Return the second moments of y^t/√t! H_t(X, Y), for y of a variance (Lemma 4.23)."""

    def log_second_moment(t: int) -> float:
        # E[y^4t] = variance^2t (4t − 1)!!, and ‖⟨T, H_t⟩‖₄² ≤ 3^t ‖⟨T, H_t⟩‖₂²
        factorials = math.lgamma(4 * t + 1) - math.lgamma(2 * t + 1) - 2 * t * math.log(2)
        labels = t * math.log(variance) + factorials / 2 - math.lgamma(t + 1)
        return labels + t * math.log(3) + log_hermite_second_moment(t, 0.0)

    return log_second_moment


def _contracted_terms(
    k: int,
    d: int,
    n0: int,
    error: float,
    sigma: float,
    B: float,
    tau: float,
    estimator: Callable[[int], float],
) -> tuple[Box, float, int]:
    """Return the most expensive term ⟨M_{a+2b} ⊗ e_y^{n−a}, H_n ⊗ I^b⟩, its N, and their number.

    That of a = 0, b = n/2 and n = n0: it has the largest order and the largest second moment.
    """
    n = np.arange(2.0, n0 + 1, 2)
    # Σ of the factors of the terms of T_n is (n−1)!!/√n! (2 + 1 + 1 − sigma²)^{n/2}
    factors = _log_prefactor(n) + n / 2 * math.log(4 - sigma**2)
    allowed = math.log(error) - log_sum(factors)
    n_terms = int(np.sum((n / 2 + 1) * (n / 2 + 2) / 2))
    query = (n0 - 1) * math.log(2) + n0 / 2 * math.log(d)  # ‖I_d^{⊗b}‖² = d^b: Erratum 11
    # the largest of every other factor, over all orders
    largest = max(estimator(t) for t in range(1, 2 * n0 + 1))
    box = Box(
        k=k,
        d=d,
        m=n0,
        tau=tau / n_terms,
        subspaces=largest,
        average=largest,
        query=query,
        length=math.log(B),
        norm=0.0,
        spread=math.log(k) / 2,
    )
    return box, box.log_rows(allowed), n_terms


def _direct_terms(
    k: int, d: int, n0: int, error: float, B: float, tau: float, estimator: Callable[[int], float]
) -> tuple[Box, float, int]:
    """Return the most expensive term, its N, and the number of terms.

    A term is ⟨E[H_a(X) h_{n−a}(y)], H_a(x)⟩ h_{n−a}(y); each factor has its largest value.
    """
    n = np.arange(2.0, n0 + 1, 2)
    largest = -math.inf  # the coefficient of β^{⊗a}: (n−1)!!/√n! C(n/2, a) 2^a / C(n, a)^½
    for a in range(n0 // 2 + 1):
        some = n[n >= 2 * a]
        half, whole = _log_binomial(some / 2, float(a)), _log_binomial(some, float(a))
        logs = _log_prefactor(some) + half + a * math.log(2) - whole / 2
        largest = max(largest, float(np.max(logs)))
    n_terms = int(np.sum(n / 2 + 1))
    a = n0 // 2
    average = n0 * math.log(3) + max(a - 1, 0) * math.log(2)
    box = Box(
        k=k,
        d=d,
        m=a,
        tau=tau / n_terms,
        subspaces=max(estimator(t) for t in range(2, 2 * a + 1, 2)),
        average=average,
        query=max(a - 1, 0) * math.log(2),
        length=math.log(B),
        norm=largest,
        spread=largest + math.log(k) / 2,
    )
    return box, box.log_rows(math.log(error / n_terms)), n_terms


def _log_prefactor(n: Floats) -> Floats:
    """Return log((n−1)!!/√n!) = log(C(n, n/2)/2^n)/2 for even n."""
    return (_log_binomial(n, n / 2) - n * math.log(2)) / 2


def _log_binomial(n: Floats, j: float | Floats) -> Floats:
    found: Floats = gammaln(n + 1) - gammaln(j + 1) - gammaln(n - j + 1)
    return found


def _sum_over_orders(
    statement: str,
    error: float,
    tau: float,
    boxes: list[tuple[Box, float]],
    clip: float | None = None,
) -> Bound:
    """Return the bound of several orders: rows are shared, since failures are only added up."""
    rows = max(log_n + math.log(box.m + 1) for box, log_n in boxes)
    each = [box.log_operations(log_n, circuit_size(box.m)) for box, log_n in boxes]
    box, _ = max(boxes, key=lambda pair: pair[0].m)
    box = replace(box, subspaces=max(max(b.subspaces, b.average, b.query) for b, _ in boxes))
    largest = max(log_n for _, log_n in boxes)
    return make_bound(
        statement, error, tau, box, largest, rows=rows, operations=log_sum(each), clip=clip
    )


def _check_sizes(k: int, d: int, epsilon: float, tau: float) -> None:
    check_whole("k", k, 1)
    check_whole("d", d, 1)
    check_positive_number("epsilon", epsilon)
    check_probability(tau)
