"""Rows that can be had once, written to a temporary file and read from there."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO, Any

import numpy as np

from implicitmoments.rows.files.file_source import Numbers, check_block, close_all
from implicitmoments.rows.files.matrix import RawMatrix

__all__ = ["Spool"]


class Spool:
    """Columns in temporary files, one each; they have no name, so none outlives the process.

    Parameters
    ----------
    label : str
        What messages call the rows.
    dtype : numpy.dtype
        Of what is written.
    feature_names : sequence of str, optional
    first_line : int, optional
        The line of text that the first row stands in; messages count lines then, and not rows.
    drop_missing : bool
        Leave out rows without all their numbers, rather than refuse them.

    Attributes
    ----------
    n_rows, n_dropped : int
        Rows that were written, and that were left out.
    """

    def __init__(
        self,
        label: str,
        dtype: np.dtype[Any],
        feature_names: Sequence[str] | None = None,
        *,
        first_line: int | None = None,
        drop_missing: bool = False,
    ) -> None:
        self.label, self.dtype, self.feature_names = label, dtype, feature_names
        self.n_rows, self.n_dropped = 0, 0
        self._first_line, self._drop_missing = first_line, drop_missing
        self._files: dict[str, IO[bytes]] = {}
        self._widths: dict[str, int] = {}

    def append(self, block: Mapping[str, Numbers]) -> None:
        """Check the columns of some rows and write them behind those before."""
        with np.errstate(over="ignore", invalid="ignore"):  # infinity is found by the check
            written = {n: np.ascontiguousarray(c, dtype=self.dtype) for n, c in block.items()}
        n_before = self.n_rows + self.n_dropped
        if self._drop_missing:
            written = self._complete(written)
        counted = ("row", 0) if self._first_line is None else ("line", self._first_line)
        first = n_before + counted[1]
        check_block(written, self.label, first, self.feature_names, counted[0])
        for name, column in written.items():
            if name not in self._files:
                # closed by close, or by the source that takes the files over
                self._files[name] = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
                self._widths[name] = column.shape[1] if column.ndim == 2 else 1
            _write(self._files[name], column)
        self.n_rows += len(written["x"])

    def _complete(self, block: dict[str, Numbers]) -> dict[str, Numbers]:
        """Leave out rows in which a number is missing."""
        n = len(block["x"])
        there = [np.isfinite(c).reshape(n, -1).all(axis=1) for c in block.values() if n]
        whole = np.logical_and.reduce(there) if there else np.ones(0, dtype=bool)
        self.n_dropped += n - int(whole.sum())
        return {name: np.ascontiguousarray(column[whole]) for name, column in block.items()}

    def matrices(self) -> tuple[RawMatrix, dict[str, RawMatrix]]:
        """Return the points that were written, and the other columns by name."""
        columns = {
            name: RawMatrix(file, (self.n_rows, self._widths[name]), self.dtype)
            for name, file in self._files.items()
        }
        return columns.pop("x"), columns

    def close(self) -> None:
        """Delete the temporary files."""
        close_all(list(self._files.values()))


def _write(file: IO[bytes], column: Numbers) -> None:
    left = column.reshape(-1).view(np.uint8).data
    try:
        while left:
            left = left[file.write(left) :]
    except OSError as reason:
        if reason.errno != errno.ENOSPC:
            raise
        raise OSError(
            errno.ENOSPC,
            f"there is no room left for rows in the temporary folder {tempfile.gettempdir()}; "
            "set the environment variable TMPDIR to a folder on a larger disk",
        ) from reason
