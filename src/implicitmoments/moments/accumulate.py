"""Averages of circuits over rows, block by block: memory never grows with the rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from implicitmoments.backends import Array, namespace_of
from implicitmoments.circuits import Circuit
from implicitmoments.moments.problem import MomentProblem
from implicitmoments.projections import RecursiveProjection, evaluate, evaluate_split
from implicitmoments.samples import Block, Progress, RowDraws, Stream, blocks

__all__ = ["Averager", "Progress", "circuit_of_order"]

BLOCK_NUMBERS = 2**19  # numbers the widest wire of a block may hold: 4 MB of float64


@dataclass(frozen=True)
class Averager:
    """Averages circuits of a problem over ranges of its rows.

    Attributes
    ----------
    problem : MomentProblem
    seed : int
        Of the auxiliary draws.
    block_rows : int or None
        Rows read at a time; chosen from the width of the projection by default.
    progress : callable or None
        Called as ``progress(what, rows_done, rows_total)`` after each block.
    """

    problem: MomentProblem
    seed: int
    block_rows: int | None = None
    progress: Progress | None = None

    def matrix(
        self, order: int, left: RecursiveProjection, right: RecursiveProjection, rows: range
    ) -> Array:
        """Average ``S_order`` through ``left ⊗ right``, as a (left.dim, right.dim) matrix."""
        circuit = circuit_of_order(self.problem, order)
        total: Array = 0.0
        for block, inputs in self._read(order, rows, max(left.width, right.width)):
            for head, tail in evaluate_split(circuit, inputs, left, right, first_row=block.start):
                part = namespace_of(head).matrix_transpose(head) @ tail
                total = total + part
            self._tell(f"order {order}", block, rows)
        return total / len(rows)

    def vector(self, order: int, projection: RecursiveProjection, rows: range) -> Array:
        """Average ``S_order`` through ``projection``, as a vector of ``projection.dim``."""
        circuit = circuit_of_order(self.problem, order)
        total: Array = 0.0
        for block, inputs in self._read(order, rows, projection.width * projection.n_features):
            images = evaluate(circuit, inputs, projection, first_row=block.start)
            part = namespace_of(images).sum(images, axis=0)
            total = total + part
            self._tell(f"order {order}", block, rows)
        return total / len(rows)

    def _read(self, order: int, rows: range, width: int) -> Iterator[tuple[range, Block]]:
        size = self.block_rows or max(64, BLOCK_NUMBERS // width)
        for block in blocks(rows, size):
            yield block, self._draw(order, block)

    def _draw(self, order: int, rows: range) -> Block:
        rng = RowDraws(self.seed, rows, (Stream.AUXILIARY, order))
        inputs = self.problem.draw(order, rows, rng)
        for name, array in inputs.items():
            given = array.shape[0] if hasattr(array, "shape") else len(array)
            if given != len(rows):
                raise ValueError(
                    f"{type(self.problem).__name__}.draw gave {given} rows of {name!r} "
                    f"and was asked for {len(rows)}"
                )
        return inputs

    def _tell(self, what: str, block: range, rows: range) -> None:
        if self.progress is not None:
            self.progress(what, block.stop - rows.start, len(rows))


def circuit_of_order(problem: MomentProblem, order: int) -> Circuit:
    """Return ``problem.circuit(order)``, checked to be what the name says."""
    circuit = problem.circuit(order)
    if not isinstance(circuit, Circuit):
        raise TypeError(
            f"{type(problem).__name__}.circuit({order}) gave {circuit!r}, not a circuit"
        )
    if circuit.order != order:
        raise ValueError(
            f"{type(problem).__name__}.circuit({order}) gave a circuit of order {circuit.order}"
        )
    return circuit
