"""Rows that can be read once, written to a temporary file and read from there."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any

import numpy as np

from implicitmoments.rows.files.array_file import RawArray, SlicedSource
from implicitmoments.rows.files.errors import refusal
from implicitmoments.rows.files.file_source import FileSource, Numbers, check_block, close_all
from implicitmoments.rows.fold import blocks

__all__ = ["Spool", "complete_rows"]

BLOCK_ROWS = 65_536  # copied at a time


class Spool:
    """Columns in temporary files, one each; they have no name, so none outlives the process.

    Parameters
    ----------
    file : str
        What messages call the rows.
    dtype : numpy.dtype
        Of what is written.
    feature_names : sequence of str, optional
    first_line : int, optional
        The line of text that holds the first row; messages then count lines instead of rows.
    drop_missing : bool
        Leave out rows that lack a number, rather than refuse them.

    Attributes
    ----------
    n_rows, n_dropped : int
        Rows that were written, and that were left out.
    """

    def __init__(
        self,
        file: str,
        dtype: np.dtype[Any],
        feature_names: Sequence[str] | None = None,
        *,
        first_line: int | None = None,
        drop_missing: bool = False,
    ) -> None:
        self.file, self.dtype, self.feature_names = file, dtype, feature_names
        self.n_rows, self.n_dropped = 0, 0
        self._first_line, self._drop_missing = first_line, drop_missing
        self._files: dict[str, IO[bytes]] = {}
        self._widths: dict[str, tuple[int, ...]] = {}

    def append(self, block: Mapping[str, Numbers]) -> None:
        """Check the columns of some rows and write them after those before."""
        with np.errstate(over="ignore", invalid="ignore"):  # infinity is found by the check
            written = {n: np.ascontiguousarray(c, dtype=self.dtype) for n, c in block.items()}
        n_before, n = self.n_rows + self.n_dropped, len(written["x"])
        if self._drop_missing and n:
            finite = [np.isfinite(c).reshape(n, -1).all(axis=1) for c in written.values()]
            kept = np.logical_and.reduce(finite)
            written = {name: column[kept] for name, column in written.items()}
            self.n_dropped += n - len(written["x"])
        unit, first = ("row", 0) if self._first_line is None else ("line", self._first_line)
        check_block(written, self.file, n_before + first, self.feature_names, unit)
        for name, column in written.items():
            if name not in self._files:
                # closed by `filling`, or by the source that takes the files over
                self._files[name] = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
                self._widths[name] = column.shape[1:]
            _write(self._files[name], column)
        self.n_rows += len(written["x"])

    @contextmanager
    def filling(self) -> Iterator[None]:
        """Delete the temporary files if the rows cannot be had."""
        try:
            yield
        except BaseException:
            close_all(list(self._files.values()))
            raise

    def contents(self) -> dict[str, Any]:
        """Return the rows that were written as arguments of ``SlicedSource``."""
        if not self.n_rows:
            raise refusal("all_rows_incomplete" if self.n_dropped else "no_rows", file=self.file)
        arrays = {
            name: RawArray(file, (self.n_rows, *self._widths[name]), self.dtype)
            for name, file in self._files.items()
        }
        return {
            "file": self.file,
            "points": arrays.pop("x"),
            "others": arrays,
            "feature_names": self.feature_names,
            "is_checked": True,
        }

    def source(self, columns: Mapping[str, str] | None = None) -> SlicedSource:
        """Return the rows that were written, with the files that hold them."""
        source = SlicedSource(**self.contents(), columns=columns)
        source.n_dropped = self.n_dropped
        return source


def complete_rows(source: FileSource) -> SlicedSource:
    """Copy the rows that have all numbers to a temporary file, and close the source."""
    with source:
        dtype = source.read_unchecked(range(1))["x"].dtype
        spool = Spool(source.file, dtype, source.feature_names, drop_missing=True)
        with spool.filling():
            for rows in blocks(range(source.n_rows), BLOCK_ROWS):
                spool.append(source.read_unchecked(rows))
            return spool.source(source.columns)


def _write(file: IO[bytes], column: Numbers) -> None:
    left = np.ascontiguousarray(column).reshape(-1).view(np.uint8).data
    try:
        while left:
            left = left[file.write(left) :]
    except OSError as reason:
        if reason.errno != errno.ENOSPC:
            raise
        raise refusal("no_room", folder=tempfile.gettempdir(), errno=errno.ENOSPC) from reason
