"""The cost of a circuit, computed before it is evaluated."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from implicitmoments.circuits.nodes import Add, Append, Circuit, Scalar, Scale, Unit, Vector, wires
from implicitmoments.notes import InputError


@dataclass(frozen=True)
class Wire:
    """One line of a description: a node and its cost per row of data."""

    label: str
    expression: str
    order: int
    numbers: int
    dense_numbers: int
    flops: int


@dataclass(frozen=True)
class Description:
    """Wires and cost of a circuit through a projection of a given width; prints as a table.

    Examples
    --------
    >>> from implicitmoments.circuits import describe, power, vector
    >>> plan = describe(power(vector("x"), 12), n_features=20, width=6)
    >>> plan.flops, plan.largest_wire, plan.dense_numbers
    (16100, 20, 4096000000000000)
    """

    wires: tuple[Wire, ...]  # in order of computation
    order: int  # of the circuit
    size: int
    n_features: int  # as given to :func:`describe`
    width: int

    @property
    def flops(self) -> int:
        """Floating-point operations per row."""
        return sum(wire.flops for wire in self.wires)

    @property
    def largest_wire(self) -> int:
        """Largest number of values carried by a wire per row."""
        return max(wire.numbers for wire in self.wires)

    @property
    def dense_numbers(self) -> int:
        """Number of entries of the dense output tensor."""
        return int(self.n_features**self.order)

    def __str__(self) -> str:
        head = (
            f"circuit of order {self.order}, size {self.size}, through width {self.width} "
            f"in {self.n_features} features",
            f"per row: {self.flops:,} flops, largest wire {self.largest_wire:,} numbers "
            f"(dense tensor: {_count(self.dense_numbers)})",
        )
        rows = [("wire", "=", "order", "numbers", "dense", "flops")]
        for w in self.wires:
            counts = f"{w.numbers:,}", _count(w.dense_numbers), f"{w.flops:,}"
            rows.append((w.label, w.expression, str(w.order), *counts))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if i < 2 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join((*head, "", *lines))

    __repr__ = __str__


def describe(circuit: Circuit, *, n_features: int, width: int) -> Description:
    """Describe the wires, orders and cost of a circuit before it is evaluated.

    See Also
    --------
    Circuit : A plan for computing a tensor.
    implicitmoments.projections.evaluate : Evaluate a circuit through a projection.

    Examples
    --------
    >>> from implicitmoments.circuits import describe, power, vector
    >>> describe(power(vector("x"), 3), n_features=10, width=4)
    circuit of order 3, size 3, through width 4 in 10 features
    per row: 730 flops, largest wire 10 numbers (dense tensor: 1,000)
    <BLANKLINE>
    wire  =       order  numbers  dense  flops
    %1    1           0        1      1      0
    x     input       1       10     10      0
    %2    %1 ⊗ x      1       10     10     10
    %3    %2 ⊗ x      2        4    100    400
    %4    %3 ⊗ x      3        4  1,000    320

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    n_features : int
        Length d of the vectors.
    width : int
        Largest number of rows of a step of the projection, usually the number of components k.

    Returns
    -------
    Description
        Prints as a table.
    """
    for name, value in (("n_features", n_features), ("width", width)):
        if value < 1:
            template = "{name} must be at least 1, got {value}"
            raise InputError("not_positive", template, name=name, value=value)
    labels: dict[int, str] = {}
    listed, numbered = [], itertools.count(1)
    for node in wires(circuit):
        label = node.name if isinstance(node, Vector | Scalar) else f"%{next(numbered)}"
        labels[id(node)] = label
        dense = n_features**node.order
        # Scalars and vectors are not projected: they may be appended later.
        numbers = dense if node.order < 2 else min(width, dense)
        flops = _flops(node, numbers, n_features, width)
        listed.append(Wire(label, _expression(node, labels), node.order, numbers, dense, flops))
    return Description(tuple(listed), circuit.order, circuit.size, n_features, width)


def _expression(node: Circuit, labels: dict[int, str]) -> str:
    match node:
        case Unit():
            return "1"
        case Scale(factor=factor, tensor=tensor):
            shown = labels[id(factor)] if isinstance(factor, Circuit) else f"{factor:.4g}"
            return f"{shown} · {labels[id(tensor)]}"
        case Add(left=left, right=right):
            return f"{labels[id(left)]} + {labels[id(right)]}"
        case Append(tensor=tensor, vector=vector):
            return f"{labels[id(tensor)]} ⊗ {labels[id(vector)]}"
        case _:
            return "input"


def _flops(node: Circuit, numbers: int, n_features: int, width: int) -> int:
    """Count operations per row: an append multiplies by a (n_s, n_{s-1}·d) matrix."""
    if not isinstance(node, Append) or node.order == 1:
        return numbers if node.operands else 0
    carried = min(width, int(n_features**node.tensor.order))
    entering = 2 * carried * n_features if node.order == 2 else 0
    return 2 * numbers * carried * n_features + entering


def _count(number: int) -> str:
    """Format a count that may have hundreds of digits."""
    if number < 10**9:
        return f"{number:,}"
    return f"{number:.1e}" if number < 10**300 else f"~1e{len(str(number)) - 1}"
