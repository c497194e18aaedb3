"""Positive sums of activations: their moments, and the conditions of Theorem 4.7."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from implicitmoments.arrays import Array, Floats
from implicitmoments.moments import HermiteProblem
from implicitmoments.notes import InputError, Note
from implicitmoments.problems.activations import Activation, as_activation
from implicitmoments.rows import Block, Rows, Table, Whitening

PARITY = range(20)  # orders by which an activation is even or odd
SMALLEST_COEFFICIENT = 1e-12  # rounding: a sine of a multiple of π is not exactly zero


def _present(activation: Activation, t: int) -> bool:
    return abs(activation.coefficient(t)) > SMALLEST_COEFFICIENT


class ActivationSumProblem(HermiteProblem):
    r"""Moments of the directions of :math:`y = \sum_i w_i \sigma(v_i \cdot x)`, x from N(0, I).

    Lemma 4.12: :math:`E[y\, H_t(x)] = c_{\sigma,t} \sum_i w_i v_i^{\otimes t}`. Labels may carry
    noise of mean zero. With biases, :math:`\sigma(v_i \cdot x + b_i)` has coefficients
    :math:`c_t(b_i) = E[\sigma(G + b_i) h_t(G)]` of its own, which remain in the moments:
    :math:`M_t = \sum_i w_i c_t(b_i) v_i^{\otimes t}`, with weights that depend on the order.

    Parameters
    ----------
    X : array of shape (n_samples, n_features), or Rows or Table with a column ``y``
    y : array of shape (n_samples,), or None for Rows and Table
    activation : str, Activation or callable
        The function :math:`\sigma`, as accepted by :func:`as_activation`.
    biased : bool, default False
        Whether components have biases.
    whitening : Whitening, optional
        Whitens the points first; the directions are those of whitened points.
    sample_weight : array of shape (n_samples,), optional
        Multiplicity of each row.

    See Also
    --------
    Activation : A function and its Hermite coefficients.
    implicitmoments.ActivationSumRegressor : A sum of known activations of hidden directions.

    Examples
    --------
    >>> import implicitmoments as im
    >>> X, y, _ = im.datasets.make_activation_sum(20_000, 3, 6, random_state=0)
    >>> problem = im.problems.ActivationSumProblem(X, y, "relu")
    >>> im.implicit_moments(problem, n_components=3, order=2).components()
    <3 of 3 components resolved from orders 4 and 6>
    """

    reduces = True

    def __init__(
        self,
        X: Array | Table | Rows,
        y: Array | None,
        activation: str | Activation | Callable[[Array], Array],
        *,
        biased: bool = False,
        whitening: Whitening | None = None,
        sample_weight: Array | None = None,
    ) -> None:
        rows = Rows.of(X, y=y)
        super().__init__(
            rows if whitening is None else whitening.map(rows), sample_weight=sample_weight
        )
        self.activation, self.whitening = as_activation(activation), whitening
        self.biased = biased

    def original_vectors(self, vectors: Floats) -> Floats:
        """Map directions to those that act on the original points, less their mean."""
        return vectors if self.whitening is None else self.whitening.original(vectors)

    def through(self, basis: Floats) -> ActivationSumProblem:
        """Return the problem of the points' coordinates in an orthonormal basis.

        Directions in the span of the basis keep their moments: Hermite tensors commute with
        projection.

        Parameters
        ----------
        basis : array of shape (p, n_features)
            Orthonormal rows.

        Returns
        -------
        ActivationSumProblem in p features
        """
        return self.of(self.rows.mapped(linear=basis.T))

    def of(self, rows: Rows) -> ActivationSumProblem:
        """Return the problem of other rows, already whitened.

        Parameters
        ----------
        rows : Rows
            With labels.

        Returns
        -------
        ActivationSumProblem
        """
        return ActivationSumProblem(rows, None, self.activation, biased=self.biased)

    @property
    def parity(self) -> int:
        r"""The sign in :math:`\sigma(-u) = \pm \sigma(u)`: 1 if even, −1 if odd, 0 if neither."""
        odd, even = (any(_present(self.activation, t) for t in PARITY[i::2]) for i in (1, 0))
        return int(even) - int(odd)

    def has_order(self, order: int) -> bool:
        """Return whether the moment of this order can be estimated."""
        return self.biased or _present(self.activation, order)

    def coefficient(self, order: int) -> float:
        """Return the Hermite coefficient by which the moment of the labels is divided.

        Parameters
        ----------
        order : int

        Returns
        -------
        float
            1 with biases: coefficients remain in the moments.
        """
        return 1.0 if self.biased else self.activation.coefficient(order)

    def reduce(self, order: int, weights: Array, lower: Mapping[int, Array]) -> Array:
        """Replace y by its residual after the known lower orders."""
        explained: Any = 0.0
        for m in filter(order.__gt__, lower):
            explained = explained + self.coefficient(m) * lower[m]
        return cast(Array, weights - explained / self._divisor(order))

    def _divisor(self, order: int) -> float:
        return self.coefficient(order) * math.sqrt(math.factorial(order))

    def weigh(self, order: int, block: Block, rows: range) -> Array:  # noqa: ARG002
        r"""Return :math:`y / (c_t \sqrt{t!})`, or :math:`y / \sqrt{t!}` with biases."""
        if not self.has_order(order):
            raise InputError(
                "order_without_data",
                "the Hermite coefficient of order {order} of {name} is zero, so labels carry no "
                "information about the moment of order {order}; use another order",
                order=order,
                name=self.activation.name,
            )
        return block["y"] / self._divisor(order)


HIGHEST_DEGREE = 20  # the fit costs O(k² degree²) features, and ReLU needs 20 for epsilon = 0.044
PARITIES = range(2, 11)  # orders at which even and odd parts are compared
# Ratio of their energies below which one parity is weak: its moments then take 100 times the rows.
NEARLY = 0.01


@dataclass(frozen=True)
class Conditions:
    r"""Conditions of Theorem 4.7 on an activation, at the degree in use."""

    degree: int  # the theorem's n
    # :math:`\sum_{t > n} c_{\sigma,t}^2`; the theorem requires :math:`\varepsilon^2/4`
    tail: float
    delta: float  # the smallest absolute value of a coefficient that is divided by


def degree_for(activation: Activation, epsilon: float) -> int:
    r"""Return the smallest n with :math:`\sum_{t>n} c_{\sigma,t}^2 < \varepsilon^2/4`.

    Errata 2 and 3: :math:`n = \Theta(\varepsilon^{-4/3})` for ReLU, and
    :math:`O(\gamma^2 + \log 1/\varepsilon)` for :math:`\cos(\gamma u)`.

    Examples
    --------
    >>> from implicitmoments.problems import relu
    >>> degree_for(relu(), 0.2)
    4
    """
    for n in range(1, HIGHEST_DEGREE + 1):
        if activation.tail(n) < epsilon**2 / 4:
            return n
    raise InputError(
        "epsilon_too_small",
        "`epsilon={epsilon:g}` requires a degree above {highest} for {name} (its tail there is "
        "{tail:.2g}, and {wanted:.2g} is required); use a larger `epsilon`, or `degree='cv'`",
        epsilon=epsilon,
        highest=HIGHEST_DEGREE,
        name=activation.name,
        tail=activation.tail(HIGHEST_DEGREE),
        wanted=epsilon**2 / 4,
    )


def degrees_to_try(
    activation: Activation,
    degree: int | str,
    epsilon: float,
    method: str,
    most: int,
    *,
    biased: bool = False,
) -> list[int]:
    """Return the degrees at which an activation has a coefficient, up to ``most`` for "cv"."""
    if degree == "cv":
        if method == "paper":
            raise InputError(
                "degree_cv_with_paper",
                "`degree='cv'` requires `method='closed_form'`, which holds rows out; for "
                "`method='paper'` set a degree or `degree='auto'`",
            )
        largest = most if biased else _largest_degree(activation, method, most)
        degrees = list(range(1, max(largest, 1) + 1))
    else:
        degrees = [degree_for(activation, epsilon) if degree == "auto" else int(degree)]
    check_conditions(activation, degrees[-1], method, biased=biased)
    present = [n for n in degrees if biased or activation.coefficient(n) != 0]
    return present or degrees[-1:]


def _largest_degree(activation: Activation, method: str, at_most: int) -> int:
    """Return the largest degree whose subspaces the coefficients allow."""
    n = 0
    while n < at_most and not _missing(activation, n + 1, method):
        n += 1
    return n


def check_conditions(
    activation: Activation, degree: int, method: str, *, biased: bool = False
) -> Conditions:
    """Check that the moments determine every subspace that a degree needs.

    With biases every order has moments; the conditions are then those of the activation itself.
    """
    # with biases, σ(u + b) has even orders even if σ is odd
    needed = range(2, HIGHEST_DEGREE + 1, 2 if method == "paper" and not biased else 1)
    if not any(_present(activation, t) for t in needed):
        raise _no_subspaces(activation)
    missing = [] if biased else _missing(activation, degree, method)
    if missing:
        possible = _largest_degree(activation, method, degree)
        advice = "no degree is possible" if missing[0] == 2 else "use `degree={possible}`"
        if method == "paper":
            advice += ", or `method='closed_form'`, which needs half the orders"
        raise InputError(
            "coefficient_zero",
            "the Hermite coefficient of order {order} of {name} is zero, and the moment of that "
            "order is needed for the subspaces of degree {degree} (Theorem 4.7); " + advice,
            order=missing[0],
            name=activation.name,
            degree=degree,
            possible=possible,
        )
    used = (t for t in range(1, _highest_needed(degree, method) + 1) if _present(activation, t))
    delta = min((abs(activation.coefficient(t)) for t in used), default=0.0)
    return Conditions(degree, activation.tail(degree), delta)


def _no_subspaces(activation: Activation) -> InputError:
    """Return the error for an activation whose moments determine no subspace."""
    if any(_present(activation, t) for t in range(2, HIGHEST_DEGREE + 1)):
        return InputError(
            "activation_odd",
            "{name} is odd up to a constant: its Hermite coefficients of even order vanish, and "
            "the subspaces of `method='paper'` are found from moments of even order (Theorem "
            "4.7); use `method='closed_form'`",
            name=activation.name,
        )
    return InputError(
        "activation_linear",
        "{name} is linear: its Hermite coefficients above order 1 vanish, and a sum of linear "
        "functions is one linear function; use linear regression",
        name=activation.name,
    )


def _highest_needed(degree: int, method: str) -> int:
    """Return the highest (even) order of the moments that determine the subspaces of a degree."""
    return 2 * degree if method == "paper" else 2 * ((degree + 1) // 2)


def _missing(activation: Activation, degree: int, method: str) -> list[int]:
    """Return the even orders without moments, which the odd order below may replace."""
    orders = range(2, _highest_needed(degree, method) + 1, 2)
    lower = method != "paper"
    return [
        t
        for t in orders
        if not _present(activation, t) and not (lower and _present(activation, t - 1))
    ]


def parity_note(activation: Activation) -> Note | None:
    """Note that one parity nearly vanishes: a phase near a multiple of π/2 (Remark 4.11)."""
    energies = {t: activation.coefficient(t) ** 2 for t in PARITIES if _present(activation, t)}
    even, odd = (sum(c for t, c in energies.items() if t % 2 == parity) for parity in (0, 1))
    if 0 < odd < NEARLY * even:
        return Note("nearly_symmetric", {"name": activation.name, "parity": "even"})
    if 0 < even < NEARLY * odd:
        return Note("nearly_symmetric", {"name": activation.name, "parity": "odd"})
    return None
