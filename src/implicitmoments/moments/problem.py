"""Moment problems: circuits whose mean is the moment, and averages of them over rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.arrays import Array, Floats, namespace_of
from implicitmoments.circuits import Circuit
from implicitmoments.notes import InputError, InputTypeError, Note
from implicitmoments.projections import (
    RecursiveProjection,
    evaluate,
    evaluate_split,
    read_inputs,
)
from implicitmoments.rows import (
    DEFAULT_BUDGET,
    After,
    Block,
    DrawPurpose,
    KeyedPermutation,
    NumberedMeasure,
    Progress,
    RowDraws,
    Sums,
    blocks,
    fold_blocks,
    take_along,
)

ON_HOST = np.zeros((0, 0))  # draws of a problem are generated on the host


class MomentProblem(ABC):
    r"""Estimators of :math:`M_t = \sum_i w_i v_i^{\otimes t}`, one for each order.

    The hypothesis of Proposition 3.2: for every order t, a circuit :math:`\mathcal{S}_t` and a
    distribution :math:`\mathcal{D}_t` of its inputs such that the mean of the output is
    :math:`M_t`. A subclass defines two methods and two attributes.

    Attributes
    ----------
    n_features : int
        Length d of the vectors.
    n_rows : int or None
        Number of independent rows; None if rows can be drawn without limit.
    notes : tuple of Note
        What is to be said about the rows; a result has it among its notes.

    See Also
    --------
    HermiteProblem : A problem defined by one weight per row.
    implicit_moments : Estimate moments of a problem.

    Examples
    --------
    Moments of vectors that are observed without noise:

    >>> import numpy as np
    >>> from implicitmoments.circuits import power, vector
    >>> class Raw(MomentProblem):
    ...     def __init__(self, V):
    ...         self.V, (self.n_rows, self.n_features) = V, V.shape
    ...     def circuit(self, order):
    ...         return power(vector("v"), order)
    ...     def draw(self, order, rows, rng):
    ...         return {"v": self.V[rows.start : rows.stop]}
    >>> Raw(np.eye(3)).circuit(4).order
    4
    """

    n_features: int
    n_rows: int | None = None
    notes: tuple[Note, ...] = ()
    # whether a row has the same weight at all orders, and whether lower orders can be removed from
    # it: for problems with weights, see HermiteProblem
    uniform: bool = False
    reduces: bool = False
    lowest_order: int = 1  # order 0, the sum of all weights, need not have a circuit

    @abstractmethod
    def circuit(self, order: int) -> Circuit:
        """Return the circuit :math:`S_t`.

        Parameters
        ----------
        order : int
            The order t.

        Returns
        -------
        Circuit
            Of order ``order``.
        """

    @abstractmethod
    def draw(self, order: int, rows: range, rng: RowDraws) -> Block:
        """Return the inputs of ``circuit(order)`` for the given rows: one block of :math:`D_t`.

        Different rows are independent draws.

        Parameters
        ----------
        order : int
            The order t.
        rows : range
            Row numbers.
        rng : RowDraws
            The only source of randomness, so that the values of a row do not depend on the block
            that contains it.

        Returns
        -------
        mapping of str to array
            Inputs by name, one entry per row.
        """

    def has_order(self, order: int) -> bool:
        """Return whether the rows carry information about the moment of an order.

        Parameters
        ----------
        order : int
            The order of the moment.

        Returns
        -------
        bool
            False if the moment cannot be estimated. By default all orders from 1 on can.
        """
        return order >= self.lowest_order

    def original_vectors(self, vectors: Floats) -> Floats:
        """Map hidden vectors to the user's coordinates.

        Parameters
        ----------
        vectors : array of shape (k, n_features)
            Hidden vectors in the coordinates of the problem.

        Returns
        -------
        array of shape (k, n_features)
            In the user's coordinates; by default the same.
        """
        return vectors

    def _fold(
        self, order: int, measure: NumberedMeasure, rows: range, size: int, seed: int, after: After
    ) -> Sums:
        """Sum ``measure(inputs, rows)`` of the inputs of ``circuit(order)`` in blocks of rows."""

        def read(piece: range) -> Block:
            inputs = self.draw(order, piece, RowDraws(seed, piece, (DrawPurpose.AUXILIARY, order)))
            array: Any
            for name, array in inputs.items():
                given = array.shape[0] if hasattr(array, "shape") else len(array)
                if given != len(piece):
                    raise InputError(
                        "lengths_differ",
                        "{kind}.draw returned {given} rows of {name!r}, expected {n}",
                        **{"kind": type(self).__name__, "given": given, "name": name},
                        n=len(piece),
                    )
            return inputs

        pieces = ((piece, read(piece)) for piece in blocks(rows, size))
        return fold_blocks(pieces, measure, -(-len(rows) // size), after)


@dataclass(frozen=True)
class CircuitMeans:
    """Averages circuits of a problem over rows, block by block: memory does not grow with rows.

    If the number of rows is known, they are numbered in a shuffled order, so that rows sorted by
    component or by time are assigned at random. Each pass then reads all of them.
    """

    problem: MomentProblem
    seed: int  # for the auxiliary draws
    # block size; by default chosen from the width of the projection
    rows_per_block: int | None = None
    progress: Progress | None = None  # called as ``progress(what, rows_done, rows_total)``

    def matrix(
        self, order: int, left: RecursiveProjection, right: RecursiveProjection, rows: range
    ) -> Array:
        """Average ``S_order`` through ``left ⊗ right``, as a (left.dim, right.dim) matrix."""
        return self.matrices(order, left, right, [rows])[0]

    def matrices(
        self,
        order: int,
        left: RecursiveProjection,
        right: RecursiveProjection,
        parts: Sequence[range],
    ) -> list[Array]:
        """Average ``S_order`` through ``left ⊗ right`` over each of several parts of the rows."""

        def product(circuit: Circuit, inputs: Block, first_row: int) -> Any:
            halves = evaluate_split(circuit, inputs, left, right, first_row=first_row)
            return sum(namespace_of(head).matrix_transpose(head) @ tail for head, tail in halves)

        return self._means(order, product, parts, max(left.width, right.width))

    def vector(self, order: int, projection: RecursiveProjection, rows: range) -> Array:
        """Average ``S_order`` through ``projection``, as a vector of ``projection.dim``."""
        return self.vectors(order, projection, [rows])[0]

    def vectors(
        self, order: int, projection: RecursiveProjection, parts: Sequence[range]
    ) -> list[Array]:
        """Average ``S_order`` through ``projection`` over each of several parts of the rows."""

        def image(circuit: Circuit, inputs: Block, first_row: int) -> Array:
            images = evaluate(circuit, inputs, projection, first_row=first_row)
            return namespace_of(images).sum(images, axis=0)

        return self._means(order, image, parts, projection.width * projection.n_features)

    def _means(
        self,
        order: int,
        total: Callable[[Circuit, Block, int], Array],
        parts: Sequence[range],
        width: int,
    ) -> list[Array]:
        """Average over each part what ``total(circuit, inputs, first_row)`` sums, in one pass."""
        circuit, kind = self.problem.circuit(order), type(self.problem).__name__
        if not isinstance(circuit, Circuit):
            raise InputTypeError(
                "not_a_circuit",
                "{kind}.circuit({order}) must return a circuit, got {circuit!r}",
                **{"kind": kind, "order": order, "circuit": circuit},
            )
        if circuit.order != order:
            template = "{kind}.circuit({order}) returned a circuit of order {found}"
            raise InputError(
                "orders_differ", template, kind=kind, order=order, found=circuit.order
            )

        there, n_features = self.problem.n_rows, self.problem.n_features
        passed = range(parts[0].start, parts[-1].stop) if there is None else range(there)
        shuffled = None if there is None else KeyedPermutation(there)

        def measure(inputs: Block, block: range) -> Sums:
            given = read_inputs(circuit.inputs, inputs, n_features, block.start).arrays
            sums: Sums = {}
            for i, part in enumerate(parts):
                if shuffled is None:
                    chosen = np.arange(max(block.start, part.start), min(block.stop, part.stop))
                    chosen = chosen - block.start
                else:
                    chosen = np.flatnonzero(shuffled.chosen(block, part))
                picked = {name: take_along(array, chosen) for name, array in given.items()}
                if len(chosen):
                    sums[str(i)] = total(circuit, picked, block.start)
            return sums

        def after(done: int) -> None:
            if self.progress is not None:
                self.progress(f"order {order}", done - passed.start, len(passed))

        size = self.rows_per_block or DEFAULT_BUDGET.rows_per_block(width, ON_HOST)
        sums = self.problem._fold(order, measure, passed, size, self.seed, after)
        return [sums[str(i)] / len(part) for i, part in enumerate(parts)]
