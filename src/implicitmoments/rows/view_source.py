"""A view of rows as a source, for problems that read sources."""

from __future__ import annotations

from typing import Any

from implicitmoments.rows.block_map import BlockMap
from implicitmoments.rows.draws import RowDraws
from implicitmoments.rows.fold import Block, Measure, Sums
from implicitmoments.rows.sources import Integers, Source
from implicitmoments.rows.view import Rows

__all__ = ["source_of"]


def source_of(rows: Rows) -> Source:
    """Return the rows of a view as a source; those that are not kept have weight 0."""
    plain = rows.center is None and rows.linear is None and rows.labels is None
    if plain and not rows.keep and rows.weights is None and not rows.wide:
        return rows.source
    return _ViewSource(rows)


class _ViewSource(Source):
    def __init__(self, rows: Rows) -> None:
        self._source, self._reader = rows.source, rows.reader()
        self.n_rows, self.n_features = rows.source.n_rows, rows.n_features
        self.local = rows.source.local

    def read(self, rows: range, rng: RowDraws) -> Block:
        return _read(self._reader, self._source.read(rows, rng), rows)

    def fold(self, measure: Measure, rows: range, block_rows: int, **how: Any) -> Sums:
        reader = self._reader

        def mapped(block: Block, rows: range) -> Any:
            return measure(_read(reader, block, rows), rows)

        return self._source.fold(mapped, rows, block_rows, **how)

    def pick(self, rows: Integers, *, what: str = "") -> Block:
        return _read(self._reader, self._source.pick(rows, what=what), rows)


def _read(reader: BlockMap, block: Block, rows: Any) -> Block:
    origin = block.get("origin", block["x"])
    return {"origin": origin, **reader.whole(block, rows)}
