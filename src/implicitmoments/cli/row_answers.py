"""Answers of a model for each row of a file; rows that lack a number have an empty one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.cli.input_rows import ModelRows
from implicitmoments.cli.output import Piece
from implicitmoments.rows import Block

READ_ROWS = 16_384  # per block, as many as are fast: results are written while the file is read

Answer: TypeAlias = Callable[[Block], Piece]


class RowAnswers:
    """Answers for the rows of a source, in their order, block by block.

    ``counts`` says how many rows lacked a number so far.
    """

    def __init__(self, source: ModelRows, answer: Answer) -> None:
        self._source, self._answer = source, answer
        self.counts = {"incomplete": 0}

    def pieces(self) -> Iterator[Piece]:
        """Yield the answers; columns are masked arrays where rows lack a number."""
        for block in blocks_of(self._source):
            whole = _whole_rows(block)
            self.counts["incomplete"] += int(np.sum(~whole))
            yield self._answer(block) if whole.all() else self._with_gaps(block, whole)

    def _with_gaps(self, block: Block, whole: Any) -> Piece:
        """Answer for the whole rows, and leave the others empty."""
        some = {name: np.asarray(column)[whole] for name, column in block.items()}
        if not whole.any():  # a row that is masked afterwards gives the names of the columns
            some = {name: np.zeros_like(column[:1]) for name, column in block.items()}
        piece = {}
        for name, found in self._answer(some).items():
            filled = np.zeros(len(whole), dtype=found.dtype)
            filled[whole] = found[: int(whole.sum())]
            piece[name] = np.ma.masked_array(filled, mask=~whole)
        return piece

    def has_gaps(self) -> bool:
        """Return whether any row lacks a number, by a pass over all of them."""
        return not all(_whole_rows(block).all() for block in blocks_of(self._source))


def blocks_of(source: ModelRows) -> Iterator[Block]:
    """Yield the rows of a source in blocks."""
    for start in range(0, source.n_rows, READ_ROWS):
        yield source.pick(np.arange(start, min(start + READ_ROWS, source.n_rows)))


def with_nan(piece: Piece) -> Piece:
    """Return numbers in which NaN stands for an empty answer, for files without empty cells."""
    floats = {
        name: column.astype(np.result_type(column.dtype, np.float32), copy=False)
        for name, column in piece.items()
    }
    return {name: np.ma.filled(column, np.nan) for name, column in floats.items()}


def _whole_rows(block: Block) -> Any:
    """Return which rows lack no number, (n,)."""
    columns = [np.asarray(column) for column in block.values()]
    return np.all([np.isfinite(c).reshape(len(c), -1).all(axis=1) for c in columns], axis=0)
