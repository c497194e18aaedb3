r"""Sums of activations (section 4.2): the functions, their Hermite coefficients, the problem.

The coefficient of order t is :math:`c_{\sigma,t} = E[\sigma(G) h_t(G)]` for a standard normal G,
by quadrature.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, TypeAlias, cast

import array_api_compat
import numpy as np
from scipy.integrate import quad_vec
from scipy.special import eval_hermitenorm, gammaln, ndtr

from implicitmoments.arrays import TINY, Array, Floats, move_like, namespace_of, to_numpy
from implicitmoments.moments.problems import HermiteProblem
from implicitmoments.notes import InputError, InputTypeError, Note
from implicitmoments.rows import Block, Rows, Table, Whitening
from implicitmoments.validation import check_number, check_positive_number

Function: TypeAlias = Callable[[Array], Array]

HIGHEST_DEGREE = 20  # of a sum of activations


@dataclass(frozen=True)
class Activation:
    r"""A function of one variable and its Hermite coefficients.

    Parameters
    ----------
    name : str
        Name in messages.
    function : callable
        Applied to arrays elementwise, of any library or of NumPy only. Quadrature finds its kinks
        and jumps.
    origin : tuple of str and tuple of float, optional
        Name and parameters of a named activation, as model files store them.

    See Also
    --------
    as_activation : Convert a name or a function.
    cosine : A cosine of given frequency and phase.

    Examples
    --------
    >>> import numpy as np
    >>> hinge = Activation("hinge", lambda u: np.maximum(0, u - 0.3))
    >>> round(hinge.coefficient(2), 4)
    0.2697
    """

    name: str
    function: Function
    origin: tuple[str, tuple[float, ...]] | None = None

    def __call__(self, u: Any) -> Any:
        """Apply the function; the result has the library and precision of u."""
        if isinstance(u, np.ndarray):
            return np.asarray(self.function(u), dtype=u.dtype)
        try:
            value: Any = self.function(u)
        except (TypeError, ValueError, RuntimeError, AttributeError) as error:
            value = error
        if type(value) is type(u):
            return namespace_of(u).astype(value, u.dtype, copy=False)
        template = "the activation {name} gives {found} for {given}: write it with "
        template += "array_api_compat.array_namespace(u), or pass the rows as NumPy arrays"
        values = {"found": type(value).__name__, "given": type(u).__module__.split(".")[0]}
        raise InputTypeError("activation_needs_numpy", template, name=self.name, **values)

    def __repr__(self) -> str:
        return f"<activation {self.name}>"

    def slope(self, u: Any) -> Any:
        """Return the derivative, by a difference quotient.

        Parameters
        ----------
        u : array

        Returns
        -------
        array of the shape, library and precision of u
        """
        xp, step = namespace_of(u), 1e-6  # near the cube root of the rounding error
        v = xp.astype(u, xp.float64, copy=False)
        return xp.astype((self(v + step) - self(v - step)) / (2 * step), u.dtype, copy=False)

    def coefficient(self, order: int) -> float:
        """Return a Hermite coefficient.

        Parameters
        ----------
        order : int

        Returns
        -------
        float
            0 where it is below the error of quadrature.
        """
        return float(self._table[order])

    def has_order(self, order: int) -> bool:
        """Return whether labels carry information about the moment of an order.

        Parameters
        ----------
        order : int

        Returns
        -------
        bool
        """
        return self.coefficient(order) != 0

    @cached_property
    def _table(self) -> Floats:
        return integrate(self.function, 80, self.name)  # the highest order of a moment


def integrate(function: Function, order: int, name: str = "the activation") -> Floats:
    """Return the Hermite coefficients of orders 0 to ``order``, 0 where they are below the error.

    Adaptive quadrature halves intervals, so that they accumulate at kinks and jumps. Their number
    limits the time for functions with very many kinks.

    Examples
    --------
    >>> integrate(lambda u: np.maximum(0, u - 0.3), 2).round(4)
    array([0.2668, 0.3821, 0.2697])
    """
    orders = np.arange(order + 1)
    scales = np.exp(-gammaln(orders + 1) / 2) / math.sqrt(2 * math.pi)

    def integrand(u: float) -> Floats:
        (value,) = _values(function, np.array([u]), name)
        return np.asarray(value * math.exp(-u * u / 2) * eval_hermitenorm(orders, u) * scales)

    # the density underflows beside the largest values of He_t beyond its turning point 2√t
    reach = math.ceil(2 * math.sqrt(order) + 12)
    # intervals do not end at round numbers, where kinks would be missed
    ends = np.arange(-reach, reach + 1) - math.pi / 100
    grid = np.linspace(ends[0], ends[-1], 200 * reach)
    with np.errstate(over="ignore"):  # refused below
        energy = _values(function, grid, name) ** 2 * np.exp(-(grid**2) / 2)
        size = math.sqrt(max(float(np.mean(energy)) * reach, TINY))
    if not (math.isfinite(size) and max(energy[0], energy[-1]) <= 1e-7 * size**2):
        raise _not_integrable(name, "its mean square under N(0, 1) is not finite")
    how: Any = {"epsabs": 1e-12 * size, "epsrel": 0.0, "norm": "max", "limit": 3_000}
    coefficients, error = quad_vec(integrand, ends[0], ends[-1], points=ends[1:-1], **how)
    if not error <= 1e-7 * size:
        raise _not_integrable(name, "it has too many jumps, or is random")
    return np.where(np.abs(coefficients) <= max(error, 1e-13 * size), 0.0, coefficients)


def _values(function: Function, u: Floats, name: str) -> Floats:
    try:
        values = np.asarray(function(u), dtype=np.float64)
    except Exception as reason:
        raise _not_integrable(name, reason) from reason
    if values.shape == u.shape and np.isfinite(values).all():
        return values
    raise _not_integrable(name, f"it has no finite value for each of {u.tolist()[:3]} …")


def _not_integrable(name: str, reason: object) -> InputError:
    template = "{name} has no Hermite coefficients: {reason}; expected a function of polynomial "
    template += "growth on all of R, applied to each entry of an array"
    return InputError("function_not_integrable", template, name=name, reason=reason)


def _leaky(slope: float, u: Array) -> Array:
    return (1 - slope) * (u + abs(u)) / 2 + slope * u


def _square(u: Array) -> Array:
    return u * u


def _softplus(u: Array) -> Array:
    return namespace_of(u).logaddexp(u, 0 * u)


def _sigmoid(u: Array) -> Array:
    return (1 + namespace_of(u).tanh(u / 2)) / 2


def _tanh(u: Array) -> Array:
    return namespace_of(u).tanh(u)


def _gelu(u: Array) -> Array:
    if array_api_compat.is_torch_array(u):
        return cast(Array, u * cast(Any, namespace_of(u)).special.ndtr(u))
    # libraries without an error function use the host
    return u * move_like(np.asarray(ndtr(to_numpy(u))), u)


def _cosine(frequency: float, phase: float, u: Array) -> Array:
    return namespace_of(u).cos(frequency * u + phase)


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
    as_activation : Convert a name or a function.

    Examples
    --------
    >>> leaky_relu(0.1)(np.array([-1.0, 2.0])).tolist()
    [-0.1, 2.0]
    """
    check_number("slope", slope, -math.inf)
    origin = ("leaky_relu", (slope,))
    return Activation(f"leaky_relu({slope:g})", partial(_leaky, slope), origin)


def cosine(frequency: float = 1.0, phase: float = 0.0) -> Activation:
    r"""Return :math:`\cos(\gamma u + \theta)`.

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
    as_activation : Convert a name or a function.

    Examples
    --------
    The coefficients are :math:`e^{-\gamma^2/2} \gamma^t / \sqrt{t!} \cos(\theta + t\pi/2)`:

    >>> sigma = cosine(1.0)
    >>> [round(sigma.coefficient(t), 4) for t in range(4)]
    [0.6065, 0.0, -0.4289, 0.0]
    """
    check_positive_number("frequency", frequency)
    check_number("phase", phase, -math.inf)
    name, origin = f"cos({frequency:g}u + {phase:g})", ("cos", (frequency, phase))
    return Activation(name, partial(_cosine, frequency, phase), origin)


def _named(name: str, function: Function) -> Callable[[], Activation]:
    """Return a function that returns an activation without parameters, integrated once."""
    return cache(partial(Activation, name, function, (name, ())))


NAMED: Mapping[str, Callable[..., Activation]] = {
    "relu": _named("relu", partial(_leaky, 0.0)),
    "leaky_relu": leaky_relu,
    "softplus": _named("softplus", _softplus),
    "gelu": _named("gelu", _gelu),
    "tanh": _named("tanh", _tanh),
    "sigmoid": _named("sigmoid", _sigmoid),
    "abs": _named("abs", abs),
    "square": _named("square", _square),
    "cos": cosine,
}


def as_activation(given: str | Activation | Function) -> Activation:
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
    Activation : A function and its Hermite coefficients.
    cosine : A cosine of given frequency and phase.

    Examples
    --------
    >>> as_activation("gelu")
    <activation gelu>
    """
    if isinstance(given, Activation):
        return given
    if isinstance(given, str) and given in NAMED:
        return NAMED[given]()
    if isinstance(given, str) or not callable(given):
        template = "activation={given!r} is unknown; expected a function of arrays, or {named}"
        raise InputError("unknown_activation", template, given=given, named=", ".join(NAMED))
    made = Activation(str(getattr(given, "__name__", "activation")), given)
    _ = made._table  # integrates the function, so that its errors are found here
    return made


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
        Standardises the points first; the directions are those of whitened points.
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
    >>> problem = im.moments.ActivationSumProblem(X, y, "relu")
    >>> im.implicit_moments(problem, n_components=3, order=2).components()
    <3 of 3 components resolved>
    """

    reduces = True

    def __init__(
        self,
        X: Array | Table | Rows,
        y: Array | None,
        activation: str | Activation | Function,
        *,
        biased: bool = False,
        whitening: Whitening | None = None,
        sample_weight: Array | None = None,
    ) -> None:
        super().__init__(X, y=y, sample_weight=sample_weight, whitening=whitening)
        self.activation, self.biased = as_activation(activation), biased

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
        odd, even = (any(map(self.activation.has_order, range(i, 20, 2))) for i in (1, 0))
        return int(even) - int(odd)

    def has_order(self, order: int) -> bool:
        """Return whether the moment of this order can be estimated."""
        return self.biased or self.activation.has_order(order)

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
        for m, answer in lower.items():
            weights = weights - answer * (self.coefficient(m) / self._divisor(order))
        return weights

    def _divisor(self, order: int) -> float:
        return self.coefficient(order) * math.sqrt(math.factorial(order))

    def weigh(self, order: int, rows: Block) -> Array:
        r"""Return :math:`y / (c_t \sqrt{t!})`, or :math:`y / \sqrt{t!}` with biases."""
        return rows["y"] / self._divisor(order)


def largest_degree(
    activation: Activation, at_most: int, least: int = 1, *, biased: bool = False
) -> int:
    """Return the largest degree whose subspaces the moments of an activation determine.

    A subspace needs the even order 2n, or the odd order below it. With biases there are moments of
    every order, unless the activation is linear.
    """
    has = activation.has_order
    if not any(map(has, range(2, HIGHEST_DEGREE + 1))):
        template = "{name} is linear, and so is a sum of it; use linear regression"
        raise InputError("activation_linear", template, name=activation.name)
    if biased:
        return at_most
    # a degree needs a moment of its own order or of the next, if it is odd
    missing = (n for n in range(1, at_most + 1, 2) if not (has(n) or has(n + 1)))
    largest = next(missing, at_most + 1) - 1
    if largest < least:
        values = {"order": largest + 1, "after": largest + 2, "degree": least, "largest": largest}
        template = "the coefficients of {name} of orders {order} and {after} are zero, and degree "
        template += "{degree} needs one of them (Theorem 4.7); use a degree up to {largest}"
        raise InputError("coefficient_zero", template, name=activation.name, **values)
    return largest


def parity_note(activation: Activation) -> Note | None:
    """Note that one parity nearly vanishes: a phase near a multiple of π/2 (Remark 4.11).

    Below a hundredth of the energy, moments of the weak parity take 100 times the rows.
    """
    energies = [activation.coefficient(t) ** 2 for t in range(2, 11)]
    even, odd = sum(energies[::2]), sum(energies[1::2])
    if 0 < min(even, odd) < 0.01 * max(even, odd):
        parity = "even" if even > odd else "odd"
        return Note("nearly_symmetric", {"name": activation.name, "parity": parity})
    return None
