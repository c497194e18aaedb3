"""Traversals of a circuit: its wires in order, its size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from implicitmoments.circuits.nodes import Circuit


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


def count_operations(circuit: Circuit) -> int:
    """Count scalings, additions and appends; inputs and the unit are free."""
    return sum(1 for node in wires(circuit) if node.operands)
