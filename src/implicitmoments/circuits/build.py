"""Functions that build circuits: inputs, powers and the extended Hermite tensor."""

from __future__ import annotations

import math

from implicitmoments.circuits.nodes import Circuit, Scalar, Unit, Vector, check_vector
from implicitmoments.notes import InputError, InputTypeError

LARGEST_FACTORIAL = 170  # of the factorials that are finite doubles


def vector(name: str) -> Circuit:
    """Return a named vector input.

    Parameters
    ----------
    name : str
        Name of an input array of shape ``(n_samples, n_features)``.

    Returns
    -------
    Circuit
        Of order 1.

    See Also
    --------
    scalar : A named scalar input.
    power : The tensor power of a vector.

    Examples
    --------
    >>> vector("x").append(vector("y"))
    <circuit of order 2, size 1, inputs: x, y>
    """
    return Vector(name)


def scalar(name: str) -> Circuit:
    """Return a named scalar input.

    Parameters
    ----------
    name : str
        Name of an input array of shape ``(n_samples,)``.

    Returns
    -------
    Circuit
        Of order 0.

    See Also
    --------
    vector : A named vector input.
    unit : The number 1, the start of a chain.

    Examples
    --------
    >>> scalar("c") * vector("x")
    <circuit of order 1, size 1, inputs: c, x>
    """
    return Scalar(name)


def unit() -> Circuit:
    """Return the number 1 as a tensor of order 0, to start a chain of appends.

    Returns
    -------
    Circuit

    See Also
    --------
    vector : A named vector input.
    scalar : A named scalar input.

    Examples
    --------
    >>> unit().append(vector("x")).append(vector("x"))
    <circuit of order 2, size 2, inputs: x>
    """
    return Unit()


def power(x: Circuit, order: int) -> Circuit:
    r"""Return the tensor power of a vector, :math:`x \otimes \cdots \otimes x`.

    Parameters
    ----------
    x : Circuit of order 1
        The vector.
    order : int
        At least 0; order 0 is the unit.

    Returns
    -------
    Circuit of order ``order``
        Its size is ``order``.

    See Also
    --------
    vector : A named vector input.
    hermite : The extended Hermite tensor.

    Examples
    --------
    >>> power(vector("x"), 12)
    <circuit of order 12, size 12, inputs: x>
    """
    check_vector(x, "power")
    tensor = unit()
    for _ in range(check_order(order, "power")):
        tensor = tensor.append(x)
    return tensor


def hermite(x: Circuit, y: Circuit, order: int) -> Circuit:
    r"""Return the extended Hermite tensor, a circuit of size O(order).

    .. math:: H_n(x, y) = \mathrm{Re}\,(x + i y)^{\otimes n} / \sqrt{n!}

    Definition 4.1 (Extended Hermite Tensor). Expanded it has :math:`2^n` terms; carrying the
    real and the imaginary part side by side takes six operations per slot (Remark 4.2). With
    :math:`y \sim N(0, I)` its mean over :math:`y` is the Hermite tensor :math:`H_n(x)`.

    Parameters
    ----------
    x, y : Circuit of order 1
        The real and the imaginary part.
    order : int
        At least 0; order 0 is the unit.

    Returns
    -------
    Circuit of order ``order``
        Its size is O(order).

    See Also
    --------
    power : The tensor power of a vector.
    implicitmoments.projections.hermite_dense : Dense Hermite tensors.

    Examples
    --------
    >>> hermite(vector("x"), vector("y"), 4)
    <circuit of order 4, size 19, inputs: x, y>
    """
    check_vector(x, "hermite")
    check_vector(y, "hermite")
    n = check_order(order, "hermite")
    if n > LARGEST_FACTORIAL:
        raise InputError(
            "order_too_high",
            "hermite needs an order of at most {largest}, got {n}: the factorial overflows",
            **{"largest": LARGEST_FACTORIAL, "n": n},
        )
    if n == 0:
        return unit()
    minus_y = -y
    #   re + i·im  ──append x + i·y──▶  (re⊗x − im⊗y) + i·(re⊗y + im⊗x)
    re, im = unit().append(x), unit().append(y)
    for slot in range(2, n + 1):
        re_next = re.append(x) + im.append(minus_y)
        if slot < n:  # the last slot is read for its real part alone
            im = re.append(y) + im.append(x)
        re = re_next
    return re / math.sqrt(math.factorial(n))


def check_order(order: int, function: str) -> int:
    """Return ``order`` as an int, or raise unless it is an integer of at least 0."""
    if isinstance(order, bool) or not hasattr(order, "__index__"):
        raise InputTypeError(
            "not_an_integer",
            "{function} needs an integer order, got {order!r}",
            **{"function": function, "order": order},
        )
    if order < 0:
        raise InputError(
            "order_negative",
            "{function} needs an order of at least 0, got {order}",
            **{"function": function, "order": order},
        )
    return int(order)
