"""Arrays in Zarr's folders of chunks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from implicitmoments.rows.files.file_source import Numbers
from implicitmoments.rows.files.reader_errors import as_damage, brief
from implicitmoments.rows.files.zarr_folder import ADVICE, FAULT, open_zarr

__all__ = ["ZarrMatrix"]

KEPT_BYTES = 2**28  # of rows that are held because the chunks they lie in were decoded anyway
MOST_FEATURES = 2**22  # a description claims what it likes, for chunks need not be there
MOST_ACROSS = 2**13  # chunks that one row lies in


class ZarrMatrix:
    """A Zarr array of ``ndim`` axes; one of one axis is a matrix of one column.

    A chunk is decoded as a whole, so its rows are held until others are asked for.
    """

    def __init__(self, path: Path, ndim: int = 2) -> None:
        array = open_zarr(path)
        with as_damage(path, FAULT, ADVICE):
            shape, chunks = tuple(array.shape), tuple(array.chunks)
            dtype: np.dtype[Any] = np.dtype(array.dtype)
        if dtype.kind not in "fiub":
            raise TypeError(f"{path} holds entries of type {dtype}, expected real numbers")
        if len(shape) != ndim or min(shape) < 1:
            layout = "(n_samples, n_features)" if ndim == 2 else "(n_samples,)"
            raise ValueError(
                f"{path} holds an array of shape {brief(shape)}, expected {layout} with at least "
                "one row"
            )
        self.shape: tuple[int, int] = (shape[0], shape[1] if ndim == 2 else 1)
        _check_sizes(path, self.shape, chunks)
        self.path, self.dtype = path, dtype
        self._array, self._kept, self._kept_rows = array, np.empty((0, 0)), range(0)
        few = chunks[0] * self.shape[1] * dtype.itemsize <= KEPT_BYTES
        self._step = chunks[0] if few else 0

    def read(self, rows: range) -> Numbers:
        """Read the rows, chunk by chunk where chunks are not too large to be held."""
        if not self._step or not rows:
            return self._slice(rows)
        block = np.empty((len(rows), self.shape[1]), dtype=self.dtype)
        for first in range(rows.start // self._step * self._step, rows.stop, self._step):
            if self._kept_rows.start != first or not self._kept_rows:
                kept = range(first, min(first + self._step, self.shape[0]))
                self._kept, self._kept_rows = self._slice(kept), kept
            low, high = max(rows.start, first), min(rows.stop, self._kept_rows.stop)
            block[low - rows.start : high - rows.start] = self._kept[low - first : high - first]
        return block

    def close(self) -> None:
        """Let go of the rows that are held; Zarr holds no file open."""
        self._kept, self._kept_rows = np.empty((0, self.shape[1])), range(0)

    def _slice(self, rows: range) -> Numbers:
        with as_damage(self.path, FAULT, ADVICE):
            part = np.asarray(self._array[rows.start : rows.stop])
            return part.reshape(len(rows), self.shape[1])


def _check_sizes(path: Path, shape: tuple[int, int], chunks: tuple[int, ...]) -> None:
    if shape[0] >= 2**63 or shape[1] > MOST_FEATURES:
        raise ValueError(
            f"{path} claims a shape of {brief(shape)}, expected at most {MOST_FEATURES} features "
            "and fewer than 2**63 rows"
        )
    if min(chunks) < 1:
        raise ValueError(f"{path} claims chunks of {brief(chunks)}, expected sizes; {ADVICE}")
    across = -(-shape[1] // chunks[-1]) if len(chunks) == 2 else 1
    if across > MOST_ACROSS:
        raise ValueError(
            f"{path} has rows of {across} chunks, expected at most {MOST_ACROSS}; write it with "
            "wider chunks"
        )
