r"""Definition 3.1 (Sequential Tensor Computation), Definition 4.1 and Remark 4.2 (Hermite).

A circuit is a plan for a tensor. It contains no data: its inputs are named, and
:mod:`implicitmoments.paper.projections` gives them values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

Operation: TypeAlias = Literal["number", "scalar", "vector", "scale", "add", "append"]


@dataclass(frozen=True, eq=False)
class Circuit:
    """Definition 3.1 (Sequential Tensor Computation): one wire and the operation that computes it.

    With circuits T and S of one order, a vector x and a scalar c: ``c * T`` and ``2.0 * T`` are
    operation (i), ``T + S`` and ``T - S`` operation (ii), and ``T.append(x)`` operation (iii).
    Wires are compared by identity, so a wire that is read twice is computed once.

    Attributes
    ----------
    operation : str
        ``"number"``, ``"scalar"`` and ``"vector"`` are inputs.
    order : int
        Number of slots of the tensor; 0 for a scalar, 1 for a vector.
    operands : tuple of Circuit
        The wires that are read; empty for an input.
    value : str or float
        Name of a scalar or vector input, or the number.

    Examples
    --------
    >>> x, y, c = vector("x"), vector("y"), scalar("c")
    >>> T = c * (x.append(y) - y.append(x))
    >>> T.order, size(T)
    (2, 5)
    """

    operation: Operation
    order: int
    operands: tuple[Circuit, ...] = ()
    value: str | float = ""

    def append(self, x: Circuit) -> Circuit:
        """Return operation (iii): the tensor product with a vector in a new last slot."""
        if x.order != 1:
            raise ValueError(
                f"append expects a vector (order 1), got a circuit of order {x.order}"
            )
        return Circuit("append", self.order + 1, (self, x))

    def __add__(self, other: Circuit) -> Circuit:
        if self.order != other.order:
            raise ValueError(f"cannot add tensors of orders {self.order} and {other.order}")
        return Circuit("add", self.order, (self, other))

    def __sub__(self, other: Circuit) -> Circuit:
        return self + -1.0 * other

    def __mul__(self, tensor: Circuit) -> Circuit:
        if self.order != 0:
            raise ValueError(f"only scalars multiply, got a factor of order {self.order}")
        return Circuit("scale", tensor.order, (self, tensor))

    def __rmul__(self, factor: float) -> Circuit:
        return number(factor) * self


def number(value: float) -> Circuit:
    """Return a constant of order 0; the number 1 starts a chain of appends.

    Parameters
    ----------
    value : float

    Returns
    -------
    Circuit of order 0
    """
    return Circuit("number", 0, (), float(value))


def scalar(name: str) -> Circuit:
    """Return a named scalar input.

    Parameters
    ----------
    name : str
        Name of an input of shape (n_samples,).

    Returns
    -------
    Circuit of order 0
    """
    return Circuit("scalar", 0, (), name)


def vector(name: str) -> Circuit:
    """Return a named vector input.

    Parameters
    ----------
    name : str
        Name of an input of shape (n_samples, n_features).

    Returns
    -------
    Circuit of order 1
    """
    return Circuit("vector", 1, (), name)


def wires(circuit: Circuit) -> list[Circuit]:
    """List every wire once, operands before the wires that read them.

    Iterative: a chain of thousands of appends does not exceed the recursion limit.
    """
    listed: list[Circuit] = []
    seen = {circuit}
    path: list[tuple[Circuit, Iterator[Circuit]]] = [(circuit, iter(circuit.operands))]
    while path:
        wire, operands = path[-1]
        operand = next((w for w in operands if w not in seen), None)
        if operand is None:
            listed.append(wire)
            path.pop()
        else:
            seen.add(operand)
            path.append((operand, iter(operand.operands)))
    return listed


def size(circuit: Circuit) -> int:
    """Return the number of operations, shared ones counted once (Definition 3.1)."""
    return sum(1 for wire in wires(circuit) if wire.operands)


def power(x: Circuit, order: int) -> Circuit:
    r"""Return the tensor power :math:`x \otimes \cdots \otimes x`.

    Parameters
    ----------
    x : Circuit of order 1
    order : int
        The number of factors, at least 0.

    Returns
    -------
    Circuit of that order
    """
    tensor = number(1.0)
    for _ in range(order):
        tensor = tensor.append(x)
    return tensor


def complex_power(x: Circuit, y: Circuit, order: int) -> tuple[Circuit, Circuit]:
    r"""Return the real and the imaginary part of :math:`(x + i y)^{\otimes n}`.

    Remark 4.2: carrying both parts takes six operations per slot, where the expanded product has
    :math:`2^n` terms.

    Parameters
    ----------
    x, y : Circuit
        Both of order 1.
    order : int
        The order n, at least 0.

    Returns
    -------
    tuple of two Circuits of order n
    """
    if order == 0:
        return number(1.0), number(0.0)
    minus_y = -1.0 * y
    re, im = x, y
    for _ in range(order - 1):
        # append x + i y to re + i im
        re, im = re.append(x) + im.append(minus_y), re.append(y) + im.append(x)
    return re, im


def hermite(x: Circuit, y: Circuit, order: int) -> Circuit:
    r"""Definition 4.1 (Extended Hermite Tensor), a circuit of size O(n) (Remark 4.2).

    .. math:: H_n(x, y) = \mathrm{Re}\,(x + i y)^{\otimes n} / \sqrt{n!}

    Its mean over :math:`y \sim N(0, I)` is the Hermite tensor :math:`H_n(x)` of Definition 2.2.

    Parameters
    ----------
    x, y : Circuit
        Both of order 1.
    order : int
        The order n, at least 0.

    Returns
    -------
    Circuit of order n

    Examples
    --------
    >>> [size(hermite(vector("x"), vector("y"), n)) for n in (2, 3, 4, 20)]
    [5, 11, 17, 113]
    """
    return (1.0 / math.sqrt(math.factorial(order))) * complex_power(x, y, order)[0]
