"""The six kinds of node of a sequential tensor computation.

Definition 3.1 (Sequential Tensor Computation): a tensor is computed from scalars and vectors by
scaling, adding and *appending a vector in the last slot*. No other operation is allowed, since no
other passes through a recursive pseudo-projection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from types import MappingProxyType
from typing import ClassVar

from implicitmoments.notes import InputError, InputTypeError


@dataclass(frozen=True, eq=False, repr=False)
class Circuit(ABC):
    """A plan for computing a tensor of a known order; it contains no data.

    Build circuits from :func:`vector`, :func:`scalar` and :func:`unit` with ``c * T``,
    ``T + S``, ``T - S``, ``-T``, ``T / 2`` and ``T.append(x)``. Nodes are frozen and compared
    by identity: a node used twice is computed, and counted, once.

    Attributes
    ----------
    order : int
        Number of slots of the output tensor; 0 for a scalar, 1 for a vector.
    inputs : mapping of str to int
        The order (0 or 1) of every named input the circuit reads.
    size : int
        Number of operations, shared subcircuits counted once.

    See Also
    --------
    vector : A named vector input.
    describe : The cost of a circuit.
    implicitmoments.projections.evaluate : Evaluate a circuit through a projection.

    Examples
    --------
    >>> from implicitmoments.circuits import scalar, vector
    >>> x, y, c = vector("x"), vector("y"), scalar("c")
    >>> T = c * (x.append(y) - 2.0 * y.append(x))
    >>> T.order, T.size, dict(T.inputs)
    (2, 6, {'c': 0, 'x': 1, 'y': 1})
    """

    order: int = field(init=False)
    inputs: Mapping[str, int] = field(init=False)

    @property
    @abstractmethod
    def operands(self) -> tuple[Circuit, ...]:
        """The circuits that this node reads; empty for an input."""

    @cached_property
    def size(self) -> int:
        """Number of operations, shared subcircuits counted once."""
        return sum(1 for node in wires(self) if node.operands)

    def append(self, vector: Circuit) -> Circuit:
        """Return the tensor product with a vector in a new last slot.

        Parameters
        ----------
        vector : Circuit of order 1
            The vector.

        Returns
        -------
        Circuit
            Of order ``self.order + 1``.
        """
        return Append(self, vector)

    def __add__(self, other: object) -> Circuit:
        return Add(self, other) if isinstance(other, Circuit) else NotImplemented

    def __radd__(self, other: object) -> Circuit:
        # sum() starts from the number 0
        return self if isinstance(other, Real) and other == 0 else NotImplemented

    def __sub__(self, other: object) -> Circuit:
        return Add(self, -other) if isinstance(other, Circuit) else NotImplemented

    def __neg__(self) -> Circuit:
        return Scale(-1.0, self)

    def __mul__(self, other: object) -> Circuit:
        if isinstance(other, Circuit):
            # A scalar on either side scales the other; two scalars read left to right.
            return (
                Scale(other, self) if self.order > 0 and other.order == 0 else Scale(self, other)
            )
        return Scale(float(other), self) if isinstance(other, Real) else NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> Circuit:
        return Scale(1.0 / float(other), self) if isinstance(other, Real) else NotImplemented

    def __repr__(self) -> str:
        names = ", ".join(self.inputs) or "none"
        return f"<circuit of order {self.order}, size {self.size}, inputs: {names}>"

    def _settle(self, order: int, inputs: Mapping[str, int]) -> None:
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "inputs", MappingProxyType(dict(inputs)))


@dataclass(frozen=True, eq=False, repr=False)
class _Input(Circuit):
    input_order: ClassVar[int]
    name: str

    def __post_init__(self) -> None:
        kind = type(self).__name__.lower()
        if not isinstance(self.name, str):
            raise InputTypeError(
                "name_not_a_string",
                "the name of a {kind} must be a string, got {name!r}",
                **{"kind": kind, "name": self.name},
            )
        if not self.name:
            raise InputError(
                "name_empty",
                "the name of a {kind} is empty; use a name such as {kind}('x')",
                kind=kind,
            )
        self._settle(self.input_order, {self.name: self.input_order})

    @property
    def operands(self) -> tuple[Circuit, ...]:
        """Empty: an input reads no circuit."""
        return ()


@dataclass(frozen=True, eq=False, repr=False)
class Vector(_Input):
    """A named vector input, of order 1.

    Examples
    --------
    >>> Vector("x").order
    1
    """

    input_order = 1


@dataclass(frozen=True, eq=False, repr=False)
class Scalar(_Input):
    """A named scalar input, of order 0.

    Examples
    --------
    >>> Scalar("c").order
    0
    """

    input_order = 0


@dataclass(frozen=True, eq=False, repr=False)
class Unit(Circuit):
    """The number 1 as a tensor of order 0, the start of a chain of appends.

    Examples
    --------
    >>> Unit().append(Vector("x")).order
    1
    """

    def __post_init__(self) -> None:
        self._settle(0, {})

    @property
    def operands(self) -> tuple[Circuit, ...]:
        """Empty: an input reads no circuit."""
        return ()


@dataclass(frozen=True, eq=False, repr=False)
class Scale(Circuit):
    """Operation (i): a tensor times a number or a scalar circuit.

    Examples
    --------
    >>> type(2.0 * Vector("x")).__name__
    'Scale'
    """

    factor: float | Circuit
    tensor: Circuit

    def __post_init__(self) -> None:
        if isinstance(self.factor, Circuit):
            if self.factor.order != 0:
                raise InputError(
                    "factor_not_a_scalar",
                    "cannot multiply a tensor of order {order} by one of order {other_order}: "
                    "only scalars multiply; to raise the order use T.append(x)",
                    **{"order": self.factor.order, "other_order": self.tensor.order},
                )
            self._settle(self.tensor.order, merge_inputs(self.factor, self.tensor))
        else:
            self._settle(self.tensor.order, self.tensor.inputs)

    @property
    def operands(self) -> tuple[Circuit, ...]:
        """The factor, if it is a circuit, and the tensor."""
        if isinstance(self.factor, Circuit):
            return (self.factor, self.tensor)
        return (self.tensor,)


@dataclass(frozen=True, eq=False, repr=False)
class Add(Circuit):
    """Operation (ii): the sum of two tensors of the same order.

    Examples
    --------
    >>> type(Vector("x") + Vector("y")).__name__
    'Add'
    """

    left: Circuit
    right: Circuit

    def __post_init__(self) -> None:
        if self.left.order != self.right.order:
            raise InputError(
                "orders_differ",
                "cannot add a tensor of order {order} and one of order {other_order}: "
                "both sides of + need the same order",
                **{"order": self.left.order, "other_order": self.right.order},
            )
        self._settle(self.left.order, merge_inputs(self.left, self.right))

    @property
    def operands(self) -> tuple[Circuit, ...]:
        """Both sides."""
        return (self.left, self.right)


@dataclass(frozen=True, eq=False, repr=False)
class Append(Circuit):
    """Operation (iii): tensor product with a vector in a new last slot.

    Examples
    --------
    >>> T = Vector("x").append(Vector("y"))
    >>> type(T).__name__, T.order
    ('Append', 2)
    """

    tensor: Circuit
    vector: Circuit

    def __post_init__(self) -> None:
        check_vector(self.vector, "append")
        self._settle(self.tensor.order + 1, merge_inputs(self.tensor, self.vector))

    @property
    def operands(self) -> tuple[Circuit, ...]:
        """The tensor and the vector."""
        return (self.tensor, self.vector)


def merge_inputs(left: Circuit, right: Circuit) -> dict[str, int]:
    """Join the inputs of two circuits; one name cannot be both a scalar and a vector."""
    merged = dict(left.inputs)
    for name, order in right.inputs.items():
        if merged.setdefault(name, order) != order:
            raise InputError(
                "name_of_two_kinds",
                "{name!r} is the name of a vector and of a scalar; rename one of them",
                name=name,
            )
    return merged


def check_vector(x: Circuit, function: str) -> None:
    """Raise unless ``x`` is a circuit of order 1."""
    if not isinstance(x, Circuit):
        raise InputTypeError(
            "not_a_vector",
            "{function} needs a vector circuit such as vector('x'), got {x!r}",
            **{"function": function, "x": x},
        )
    if x.order != 1:
        raise InputError(
            "not_a_vector",
            "{function} needs a vector (order 1), got a circuit of order {order}; a sequential "
            "computation adds one slot at a time",
            **{"function": function, "order": x.order},
        )


def wires(circuit: Circuit) -> list[Circuit]:
    """List every node once, operands before the nodes that read them.

    Iterative, so that a chain of thousands of appends does not exceed the recursion limit.

    Examples
    --------
    >>> from implicitmoments.circuits import power, vector
    >>> [type(node).__name__ for node in wires(power(vector("x"), 2))]
    ['Unit', 'Vector', 'Append', 'Append']
    """
    listed: list[Circuit] = []
    seen = {id(circuit)}
    stack: list[tuple[Circuit, Iterator[Circuit]]] = [(circuit, iter(circuit.operands))]
    while stack:
        node, operands = stack[-1]
        for operand in operands:
            if id(operand) not in seen:
                seen.add(id(operand))
                stack.append((operand, iter(operand.operands)))
                break
        else:
            stack.pop()
            listed.append(node)
    return listed
