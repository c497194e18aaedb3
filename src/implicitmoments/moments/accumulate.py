"""Averages of circuits over rows, block by block: memory never grows with the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Array, namespace_of
from implicitmoments.circuits import Circuit
from implicitmoments.moments.problem import MomentProblem
from implicitmoments.notes import InputError, InputTypeError
from implicitmoments.projections import RecursiveProjection, evaluate, evaluate_split
from implicitmoments.rows import DEFAULT_BUDGET, Block, Measure, Progress, Sums

__all__ = ["Averager", "Progress", "circuit_of_order"]

NO_ROWS = np.zeros((0, 0))  # draws of a problem are made on the host


@dataclass(frozen=True)
class Averager:
    """Averages circuits of a problem over ranges of its rows.

    Attributes
    ----------
    problem : MomentProblem
    seed : int
        Of the auxiliary draws.
    rows_per_block : int or None
        Rows read at a time; chosen from the width of the projection by default.
    progress : callable or None
        Called as ``progress(what, rows_done, rows_total)`` after each block.
    """

    problem: MomentProblem
    seed: int
    rows_per_block: int | None = None
    progress: Progress | None = None

    def matrix(
        self, order: int, left: RecursiveProjection, right: RecursiveProjection, rows: range
    ) -> Array:
        """Average ``S_order`` through ``left ⊗ right``, as a (left.dim, right.dim) matrix."""
        circuit = circuit_of_order(self.problem, order)

        def measure(inputs: Block, block: range) -> Sums:
            halves = evaluate_split(circuit, inputs, left, right, first_row=block.start)
            return {
                "sum": sum(
                    namespace_of(head).matrix_transpose(head) @ tail for head, tail in halves
                )
            }

        return self._mean(order, measure, rows, max(left.width, right.width))

    def vector(self, order: int, projection: RecursiveProjection, rows: range) -> Array:
        """Average ``S_order`` through ``projection``, as a vector of ``projection.dim``."""
        circuit = circuit_of_order(self.problem, order)

        def measure(inputs: Block, block: range) -> Sums:
            images = evaluate(circuit, inputs, projection, first_row=block.start)
            return {"sum": namespace_of(images).sum(images, axis=0)}

        return self._mean(order, measure, rows, projection.width * projection.n_features)

    def _mean(self, order: int, measure: Measure, rows: range, width: int) -> Array:
        size = self.rows_per_block or DEFAULT_BUDGET.rows_per_block(width, NO_ROWS)
        tell = self.progress

        def after(_: Sums, done: int) -> None:
            if tell is not None:
                tell(f"order {order}", done - rows.start, len(rows))

        sums = self.problem.fold(order, measure, rows, size, seed=self.seed, after=after)
        mean: Array = sums["sum"] / len(rows)
        return mean


def circuit_of_order(problem: MomentProblem, order: int) -> Circuit:
    """Return ``problem.circuit(order)``, checked to be what the name says."""
    circuit = problem.circuit(order)
    if not isinstance(circuit, Circuit):
        raise InputTypeError(
            "not_a_circuit",
            "{kind}.circuit({order}) gave {circuit!r}, not a circuit",
            kind=type(problem).__name__,
            order=order,
            circuit=circuit,
        )
    if circuit.order != order:
        raise InputError(
            "orders_differ",
            "{kind}.circuit({order}) gave a circuit of order {found}",
            kind=type(problem).__name__,
            order=order,
            found=circuit.order,
        )
    return circuit
