"""Arrays in Zarr's folders of chunks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from implicitmoments.samples.files.optional import require
from implicitmoments.samples.files.rows import Numbers

__all__ = ["ZarrMatrix", "zarr_description"]

KEPT_BYTES = 2**28  # of rows that are held because the chunks they lie in were decoded anyway


def zarr_description(path: Path) -> Path | None:
    """Return the file that describes a Zarr array or group, or None where ``path`` is none."""
    for name in ("zarr.json", ".zarray", ".zgroup"):
        if (path / name).is_file():
            return path / name
    return None


class ZarrMatrix:
    """A Zarr array of ``ndim`` axes; one of one axis is a matrix of one column.

    A chunk is decoded as a whole, so its rows are held until others are asked for.
    """

    def __init__(self, path: Path, ndim: int = 2) -> None:
        zarr = require("zarr", ".zarr", "zarr")
        array = zarr.open(str(path), mode="r")
        if not hasattr(array, "shape"):
            names = sorted(name for name, _ in array.arrays())
            raise ValueError(
                f"{path} is a group of arrays {names}, expected one array; open one of them, "
                f"such as {path / (names or ['x'])[0]}"
            )
        if array.dtype.kind not in "fiub":
            raise TypeError(f"{path} holds entries of type {array.dtype}, expected real numbers")
        if array.ndim != ndim or 0 in array.shape:
            layout = "(n_samples, n_features)" if ndim == 2 else "(n_samples,)"
            raise ValueError(
                f"{path} holds an array of shape {array.shape}, expected {layout} with at least "
                "one row"
            )
        self.shape: tuple[int, int] = (array.shape[0], array.shape[1] if ndim == 2 else 1)
        self.dtype: np.dtype[Any] = np.dtype(array.dtype)
        self._array, self._kept, self._kept_rows = array, np.empty((0, 0)), range(0)
        few = array.chunks[0] * self.shape[1] * self.dtype.itemsize <= KEPT_BYTES
        self._step = array.chunks[0] if few else 0

    def read(self, rows: range) -> Numbers:
        """Read the rows, chunk by chunk where chunks are not too large to be held."""
        if not self._step or not rows:
            return self._slice(rows)
        block = np.empty((len(rows), self.shape[1]), dtype=self.dtype)
        for first in range(rows.start // self._step * self._step, rows.stop, self._step):
            if self._kept_rows.start != first or not self._kept_rows:
                self._kept_rows = range(first, min(first + self._step, self.shape[0]))
                self._kept = self._slice(self._kept_rows)
            low, high = max(rows.start, first), min(rows.stop, self._kept_rows.stop)
            block[low - rows.start : high - rows.start] = self._kept[low - first : high - first]
        return block

    def close(self) -> None:
        """Let go of the rows that are held; Zarr holds no file open."""
        self._kept, self._kept_rows = np.empty((0, self.shape[1])), range(0)

    def _slice(self, rows: range) -> Numbers:
        part = np.asarray(self._array[rows.start : rows.stop])
        return part.reshape(len(rows), self.shape[1])
