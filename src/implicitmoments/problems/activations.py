"""Activations: functions of one variable with their Hermite coefficients (section 4.2)."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import array_api_compat
import numpy as np

from implicitmoments.arrays import Array, Floats, namespace_of
from implicitmoments.notes import InputError, InputTypeError
from implicitmoments.problems.activation_functions import (
    cosine_coefficient,
    cosine_slope,
    cosine_value,
    gelu_slope,
    gelu_value,
    leaky_coefficient,
    leaky_slope,
    leaky_value,
    relu_coefficient,
    relu_slope,
    relu_value,
    sigmoid_slope,
    sigmoid_value,
    softplus_value,
    square_coefficient,
    square_value,
    tanh_slope,
    tanh_value,
)
from implicitmoments.problems.hermite_quadrature import hermite_coefficients
from implicitmoments.validation import check_number, check_positive_number

ORDERS = 48  # tabulated; higher orders are integrated when needed
STEP = 1e-6  # of a central difference: near the cube root of the rounding error


@dataclass(frozen=True)
class Activation:
    r"""A function of one variable and its Hermite coefficients.

    Attributes
    ----------
    name : str
        Name in messages.
    function : callable
        A function of arrays of any library, or of NumPy only.
    coefficient : callable
        ``coefficient(t)`` is :math:`c_{\sigma,t} = E[\sigma(G) h_t(G)]`.
    derivative : callable, optional
        The derivative; by default a difference quotient.
    mean_square : float, optional
        :math:`E[\sigma(G)^2]`; by default from quadrature.
    error : float
        Error of the coefficients: 0 for formulas, an estimate for quadrature.
    kinks : tuple of float
        Points where quadrature found that the function or its derivative jumps.
    origin : tuple of str and tuple of float, optional
        Name and parameters of a built-in activation, as stored in model files.

    See Also
    --------
    as_activation : Convert a name or a function.
    from_function : An activation from any function.

    Examples
    --------
    >>> from implicitmoments.problems import cosine
    >>> sigma = cosine(1.0)
    >>> [round(sigma.coefficient(t), 4) for t in range(4)]
    [0.6065, -0.0, -0.4289, 0.0]
    >>> round(sigma.tail(4), 4)
    0.0005
    """

    name: str
    function: Callable[[Array], Array]
    coefficient: Callable[[int], float]
    derivative: Callable[[Array], Array] | None = None
    mean_square: float | None = None
    error: float = 0.0
    kinks: tuple[float, ...] = ()
    origin: tuple[str, tuple[float, ...]] | None = None

    def __call__(self, u: Any) -> Any:
        """Apply the function; the result has the library and precision of u."""
        return self._apply(self.function, u)

    def __repr__(self) -> str:
        return f"<activation {self.name}>"

    def slope(self, u: Any) -> Any:
        """Apply the derivative.

        Parameters
        ----------
        u : array

        Returns
        -------
        array of the shape, library and precision of u
        """
        if self.derivative is not None:
            return self._apply(self.derivative, u)
        xp = namespace_of(u)
        v = xp.astype(u, xp.float64, copy=False)  # a difference quotient needs double precision
        rise = self._apply(self.function, v + STEP) - self._apply(self.function, v - STEP)
        return xp.astype(rise / (2 * STEP), u.dtype, copy=False)

    def _apply(self, function: Callable[[Array], Array], u: Array) -> Array:
        """Call a function with an array of any library, and check its result."""
        if isinstance(u, np.ndarray):
            return np.asarray(function(u), dtype=u.dtype)
        xp, cause, value = namespace_of(u), cast(Exception | None, None), cast(Any, None)
        try:
            value = function(u)
            why = f"it returns {type(value).__name__}"
        except Exception as reason:
            why, cause = f"{type(reason).__name__}: {reason}", reason
        if cause or not (array_api_compat.is_array_api_obj(value) and namespace_of(value) is xp):
            raise InputTypeError(
                "activation_needs_numpy",
                "the activation {name} supports NumPy arrays only, and the rows are of {library} "
                "({why}). Named activations support every library: {names} and cosine(frequency, "
                "phase). Use functions of array_api_compat.array_namespace(u), or pass the rows "
                "as NumPy arrays",
                name=self.name,
                why=why,
                names=", ".join(map(repr, NAMED)),
                library=type(u).__module__.split(".")[0],
            ) from cause
        return cast(Array, value if value.dtype == u.dtype else xp.astype(value, u.dtype))

    def tail(self, degree: int) -> float:
        r"""Return :math:`\sum_{t > n} c_{\sigma,t}^2`, the error of degree n for a unit sum.

        Parameters
        ----------
        degree : int

        Returns
        -------
        float
        """
        square = self.mean_square
        if square is None:
            square = hermite_coefficients(self.function, 0, self.name).mean_square
        return max(0.0, square - sum(self.coefficient(t) ** 2 for t in range(degree + 1)))


def relu() -> Activation:
    r"""Return :math:`\max(0, u)`.

    Erratum 1: Corollary 4.9 prints a coefficient that is imaginary at t = 4. The right one is
    :math:`(-1)^{(t-2)/2} (t-3)!! / \sqrt{2\pi\, t!}` for even t, zero for odd t above 1.
    """
    return Activation("relu", relu_value, relu_coefficient, relu_slope, 0.5, origin=("relu", ()))


def leaky_relu(slope: float = 0.01) -> Activation:
    """Return u for positive u and ``slope`` times u for negative.

    Parameters
    ----------
    slope : float, default 0.01
        Slope for negative u.

    Returns
    -------
    Activation

    See Also
    --------
    cosine : A cosine of given frequency and phase.
    from_function : An activation from any function.

    Examples
    --------
    >>> leaky_relu(0.1)(np.array([-1.0, 2.0])).tolist()
    [-0.1, 2.0]
    """
    check_number("slope", slope, -math.inf)
    return Activation(
        f"leaky_relu({slope:g})",
        partial(leaky_value, slope),
        partial(leaky_coefficient, slope),
        partial(leaky_slope, slope),
        (1 + slope**2) / 2,
        origin=("leaky_relu", (slope,)),
    )


def absolute() -> Activation:
    """Return the absolute value, 2 relu(u) − u: a leaky ReLU of slope −1."""
    return replace(leaky_relu(-1.0), name="abs", function=abs, origin=("abs", ()))


def square() -> Activation:
    r"""Return :math:`u^2 = \sqrt 2\, h_2(u) + 1`."""
    slope = partial(operator.mul, 2)
    return Activation(
        "square", square_value, square_coefficient, slope, 3.0, origin=("square", ())
    )


def softplus() -> Activation:
    r"""Return :math:`\log(1 + e^u)`, with coefficients by quadrature; its odd part is u/2."""
    return replace(
        from_function(softplus_value, "softplus", sigmoid_value), origin=("softplus", ())
    )


def gelu() -> Activation:
    r"""Return :math:`u\, \Phi(u)`, with coefficients by quadrature; its odd part is u/2."""
    return replace(from_function(gelu_value, "gelu", gelu_slope), origin=("gelu", ()))


def tanh() -> Activation:
    r"""Return the hyperbolic tangent, which is odd, with coefficients by quadrature."""
    return replace(from_function(tanh_value, "tanh", tanh_slope), origin=("tanh", ()))


def sigmoid() -> Activation:
    r"""Return :math:`1/(1 + e^{-u})`, odd but for a constant, with coefficients by quadrature."""
    return replace(from_function(sigmoid_value, "sigmoid", sigmoid_slope), origin=("sigmoid", ()))


def cosine(frequency: float = 1.0, phase: float = 0.0) -> Activation:
    r"""Return :math:`\cos(\gamma u + \theta)`.

    Its coefficients are :math:`e^{-\gamma^2/2} \gamma^t / \sqrt{t!} \cos(\theta + t\pi/2)`.

    Parameters
    ----------
    frequency : float, default 1.0
        The paper's :math:`\gamma`, positive.
    phase : float, default 0.0
        The paper's :math:`\theta`, in radians.

    Returns
    -------
    Activation

    See Also
    --------
    leaky_relu : A ReLU with a slope below zero.
    from_function : An activation from any function.

    Examples
    --------
    >>> cosine(2.0)
    <activation cos(2u + 0)>
    """
    check_positive_number("frequency", frequency)
    check_number("phase", phase, -math.inf)
    return Activation(
        f"cos({frequency:g}u + {phase:g})",
        partial(cosine_value, frequency, phase),
        partial(cosine_coefficient, frequency, phase),
        partial(cosine_slope, frequency, phase),
        (1 + math.exp(-2 * frequency**2) * math.cos(2 * phase)) / 2,
        origin=("cos", (frequency, phase)),
    )


def from_function(
    function: Callable[[Array], Array],
    name: str | None = None,
    derivative: Callable[[Array], Array] | None = None,
) -> Activation:
    """Build an activation from any function, with Hermite coefficients by quadrature.

    Parameters
    ----------
    function : callable
        Applied to arrays elementwise; quadrature locates its kinks and jumps. A fit calls it
        with arrays of the library of the rows, which a function of NumPy arrays may not accept.
    name : str, optional
        By default the function's own name.
    derivative : callable, optional
        The derivative; by default a difference quotient.

    Returns
    -------
    Activation

    See Also
    --------
    as_activation : Convert a name or a function.
    cosine : A cosine of given frequency and phase.

    Examples
    --------
    >>> import numpy as np
    >>> hinge = from_function(lambda u: np.maximum(0, u - 0.3), "hinge")
    >>> round(hinge.kinks[0], 4), hinge.error < 1e-12
    (0.3, True)
    """
    called = name or str(getattr(function, "__name__", "activation"))
    found = hermite_coefficients(function, ORDERS, called)
    return Activation(
        called,
        function,
        partial(_from_table, function, found.coefficients, called),
        derivative,
        found.mean_square,
        found.error,
        found.kinks,
    )


def _from_table(function: Callable[[Array], Array], table: Floats, name: str, t: int) -> float:
    """Return a coefficient from a table, or by quadrature beyond it."""
    if t < len(table):
        return float(table[t])
    return float(hermite_coefficients(function, t, name).coefficients[t])


NAMED: dict[str, Callable[[], Activation]] = {
    "relu": relu,
    "leaky_relu": leaky_relu,
    "softplus": softplus,
    "gelu": gelu,
    "tanh": tanh,
    "sigmoid": sigmoid,
    "abs": absolute,
    "square": square,
    "cos": cosine,
}


def as_activation(given: str | Activation | Callable[[Array], Array]) -> Activation:
    """Convert a name or a function to an activation.

    Parameters
    ----------
    given : str, Activation or callable
        One of ``"relu"``, ``"leaky_relu"``, ``"softplus"``, ``"gelu"``, ``"tanh"``,
        ``"sigmoid"``, ``"abs"``, ``"square"`` and ``"cos"``; an activation, such as
        ``cosine(2.0)``; or a function of an array.

    Returns
    -------
    Activation

    See Also
    --------
    from_function : An activation from any function.
    Activation : A function and its Hermite coefficients.

    Examples
    --------
    >>> as_activation("gelu")
    <activation gelu>
    """
    if isinstance(given, Activation):
        return given
    for name, make in NAMED.items():
        if given is cast(object, make) or (isinstance(given, str) and given == name):
            return make()  # relu for relu()
    if isinstance(given, str):
        raise InputError(
            "unknown_activation",
            "activation={given!r} is unknown; expected one of {named}, cosine(frequency, phase) "
            "or a function of arrays",
            given=given,
            named=", ".join(map(repr, NAMED)),
        )
    if callable(given):
        return from_function(given)
    raise InputTypeError(
        "not_an_activation",
        "activation must be a name such as 'relu', an Activation or a function of an array, got "
        "{given!r}",
        given=given,
    )
