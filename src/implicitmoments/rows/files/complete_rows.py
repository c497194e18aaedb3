"""Rows that were written to temporary files, and the rows of a file that have all numbers."""

from __future__ import annotations

from implicitmoments.rows.files.file_source import FileSource
from implicitmoments.rows.files.matrix import MatrixSource
from implicitmoments.rows.files.spool import Spool
from implicitmoments.rows.fold import blocks

__all__ = ["complete_rows", "source_of"]

BLOCK_ROWS = 65_536


def source_of(spool: Spool) -> MatrixSource:
    """Return the rows that were written, with the files that hold them."""
    if not spool.n_rows:
        raise ValueError(
            f"every row of {spool.label} lacks a number, expected at least one that has all of "
            "them; leave out the column that is empty"
        )
    points, others = spool.matrices()
    source = MatrixSource(
        spool.label,
        points,
        columns=others,
        dtype=spool.dtype,
        feature_names=spool.feature_names,
        is_checked=True,
    )
    source.n_dropped = spool.n_dropped
    return source


def complete_rows(source: FileSource) -> MatrixSource:
    """Copy rows that have all numbers to a temporary file, and close the source."""
    with source:
        dtype = source.unchecked(range(1))["x"].dtype
        spool = Spool(source.label, dtype, source.feature_names, drop_missing=True)
        try:
            for rows in blocks(range(source.n_rows), BLOCK_ROWS):
                spool.append(source.unchecked(rows))
            return source_of(spool)
        except BaseException:
            spool.close()
            raise
