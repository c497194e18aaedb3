"""Means of circuits over rows, block by block: memory does not grow with the number of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Array, namespace_of
from implicitmoments.circuits import Circuit
from implicitmoments.moments.problem import MomentProblem
from implicitmoments.notes import InputError, InputTypeError
from implicitmoments.projections import RecursiveProjection, evaluate, evaluate_split
from implicitmoments.rows import DEFAULT_BUDGET, Block, Measure, Progress, Sums

ON_HOST = np.zeros((0, 0))  # draws of a problem are generated on the host


@dataclass(frozen=True)
class CircuitMeans:
    """Averages circuits of a problem over ranges of its rows."""

    problem: MomentProblem
    seed: int  # for the auxiliary draws
    # block size; by default chosen from the width of the projection
    rows_per_block: int | None = None
    # called as ``progress(what, rows_done, rows_total)`` after each block
    progress: Progress | None = None

    def matrix(
        self, order: int, left: RecursiveProjection, right: RecursiveProjection, rows: range
    ) -> Array:
        """Average ``S_order`` through ``left ⊗ right``, as a (left.dim, right.dim) matrix."""
        circuit = _circuit_of_order(self.problem, order)

        def measure(inputs: Block, block: range) -> Sums:
            halves = evaluate_split(circuit, inputs, left, right, first_row=block.start)
            products = (namespace_of(head).matrix_transpose(head) @ tail for head, tail in halves)
            return {"sum": sum(products)}

        return self._mean(order, measure, rows, max(left.width, right.width))

    def vector(self, order: int, projection: RecursiveProjection, rows: range) -> Array:
        """Average ``S_order`` through ``projection``, as a vector of ``projection.dim``."""
        circuit = _circuit_of_order(self.problem, order)

        def measure(inputs: Block, block: range) -> Sums:
            images = evaluate(circuit, inputs, projection, first_row=block.start)
            return {"sum": namespace_of(images).sum(images, axis=0)}

        return self._mean(order, measure, rows, projection.width * projection.n_features)

    def _mean(self, order: int, measure: Measure, rows: range, width: int) -> Array:
        size = self.rows_per_block or DEFAULT_BUDGET.rows_per_block(width, ON_HOST)
        progress = self.progress

        def after(_: Sums, done: int) -> None:
            if progress is not None:
                progress(f"order {order}", done - rows.start, len(rows))

        sums = self.problem.fold(order, measure, rows, size, seed=self.seed, after=after)
        mean: Array = sums["sum"] / len(rows)
        return mean


def _circuit_of_order(problem: MomentProblem, order: int) -> Circuit:
    """Return ``problem.circuit(order)`` after checking that it is a circuit of that order."""
    circuit, kind = problem.circuit(order), type(problem).__name__
    if not isinstance(circuit, Circuit):
        raise InputTypeError(
            "not_a_circuit",
            "{kind}.circuit({order}) must return a circuit, got {circuit!r}",
            **{"kind": kind, "order": order, "circuit": circuit},
        )
    if circuit.order != order:
        template = "{kind}.circuit({order}) returned a circuit of order {found}"
        raise InputError("orders_differ", template, kind=kind, order=order, found=circuit.order)
    return circuit
