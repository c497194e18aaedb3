"""Zarr arrays, restricted to plain files and codecs of numbers."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from implicitmoments.rows.files.array_file import check_array
from implicitmoments.rows.files.errors import (
    as_unreadable,
    brief,
    refusal,
    require,
    without_warnings,
)
from implicitmoments.rows.files.file_source import Numbers
from implicitmoments.rows.fold import DEFAULT_BUDGET

# Codecs of numbers. A description may name others, and Zarr would run them: one of numcodecs'
# unpickles, and those of installed packages are imported.
CODECS = frozenset(
    (
        *("bytes", "endian", "transpose", "sharding_indexed", "crc32c", "gzip", "blosc", "zstd"),
        *("zlib", "bz2", "lzma", "lz4", "delta", "shuffle", "bitround", "fixedscaleoffset"),
        *("quantize", "packbits", "astype", "crc32", "adler32", "fletcher32", "jenkins_lookup3"),
    )
)
BLOSC_HEADER = 16  # bytes; the last four give the length of the chunk with its header
MOST_FEATURES = 2**22  # a description may claim any size, for chunks need not exist
MOST_ACROSS = 2**13  # chunks that one row lies in


def zarr_description(path: Path) -> Path | None:
    """Return the file that describes a Zarr array or group, or None if there is none."""
    for name in ("zarr.json", ".zarray", ".zgroup"):
        if (path / name).is_file():
            return path / name
    return None


class ZarrArray:
    """A Zarr array of ``ndim`` axes.

    A chunk is decoded as a whole, so its rows are held until others are asked for.
    """

    def __init__(self, path: Path, ndim: int = 2) -> None:
        self._array, self._path = _open(path), path
        with as_unreadable(path, "Zarr"):
            self.shape: tuple[int, ...] = tuple(self._array.shape)
            self.dtype: np.dtype[Any] = np.dtype(self._array.dtype)
            chunks = tuple(self._array.chunks)
        check_array(path, self.shape, self.dtype, ndim)
        _check_sizes(path, self.shape, chunks)
        row_bytes = self.dtype.itemsize * (self.shape[1] if ndim == 2 else 1)
        # larger chunks are not held, and decoded anew for every block
        self._step = chunks[0] if chunks[0] * row_bytes <= DEFAULT_BUDGET.held_bytes else 0
        self._held, self._first = np.empty(0), -1

    def __getitem__(self, rows: slice, /) -> Numbers:
        """Read the rows, chunk by chunk."""
        if not self._step or rows.start == rows.stop:
            return self._decode(rows)
        block = np.empty((rows.stop - rows.start, *self.shape[1:]), dtype=self.dtype)
        for first in range(rows.start // self._step * self._step, rows.stop, self._step):
            if self._first != first:
                stop = min(first + self._step, self.shape[0])
                self._held, self._first = self._decode(slice(first, stop)), first
            low, high = max(rows.start, first), min(rows.stop, first + self._step)
            block[low - rows.start : high - rows.start] = self._held[low - first : high - first]
        return block

    def close(self) -> None:
        """Release the rows that are held; Zarr holds no file open."""
        self._held, self._first = np.empty(0), -1

    def _decode(self, rows: slice) -> Numbers:
        with as_unreadable(self._path, "Zarr"):
            shape = (rows.stop - rows.start, *self.shape[1:])
            return np.asarray(self._array[rows]).reshape(shape)


def _check_sizes(path: Path, shape: tuple[int, ...], chunks: tuple[int, ...]) -> None:
    width = shape[1] if len(shape) == 2 else 1
    if min(chunks) < 1:
        raise refusal("impossible_shape", file=str(path), shape=brief(chunks))
    across = -(-width // chunks[-1]) if len(chunks) == 2 else 1
    if width > MOST_FEATURES or across > MOST_ACROSS:
        raise refusal(
            "shape_too_large",
            file=str(path),
            n_features=width,
            n_chunks=across,
            most_features=MOST_FEATURES,
            most_chunks=MOST_ACROSS,
        )


def _open(path: Path) -> Any:
    """Open an array whose description names only codecs of numbers."""
    zarr = require("zarr", ".zarr", "zarr")
    description = zarr_description(path)
    with as_unreadable(path, "Zarr"):
        about = _read_json(description)
        names = set(_codecs(about))
    if unknown := sorted(names - CODECS):
        known = ", ".join(sorted(CODECS))
        raise refusal("unknown_codec", file=str(path), codec=brief(unknown[0]), known=known)
    if about.get("node_type") == "group" or description == path / ".zgroup":
        arrays = sorted(part.name for part in path.iterdir() if _is_array(part))
        raise refusal(
            "zarr_group",
            file=str(path),
            arrays=[brief(name) for name in arrays],
            example=brief(path / (arrays or ["x"])[0]),
        )
    version = 2 if description == path / ".zarray" else 3
    compressor = about.get("compressor")
    by_blosc = isinstance(compressor, dict) and compressor.get("id") == "blosc"
    with as_unreadable(path, "Zarr"), without_warnings():
        store = _plain_files()(path, read_only=True)
        store.by_blosc = version == 2 and by_blosc
        with zarr.config.set({"codecs.blosc": _checked_blosc()}):
            return zarr.open_array(store, mode="r", zarr_format=version)


@cache
def _plain_files() -> Any:
    """Return a store of plain files: reading a device or a pipe would never end."""
    storage = require("zarr.storage", ".zarr", "zarr")

    class PlainFiles(storage.LocalStore):  # type: ignore[misc,name-defined]
        by_blosc = False  # every chunk of format 2

        async def get(self, key: str, *args: Any, **how: Any) -> Any:
            file = self.root / key
            if file.exists() and not stat.S_ISREG(file.stat().st_mode):
                raise ValueError(f"{key} is not a plain file")
            data = await super().get(key, *args, **how)
            if data is not None and self.by_blosc and not file.name.startswith(".z"):
                _check_blosc(data)
            return data

    return PlainFiles


@cache
def _checked_blosc() -> str:
    """Register a codec of format 3 that checks the length first; return its name in Zarr."""
    codecs = require("zarr.codecs", ".zarr", "zarr")

    class CheckedBlosc(codecs.BloscCodec):  # type: ignore[misc,name-defined]
        def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
            _check_blosc(chunk_bytes)
            return super()._decode_sync(chunk_bytes, chunk_spec)

        async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
            _check_blosc(chunk_bytes)
            return await super()._decode_single(chunk_bytes, chunk_spec)

    name = f"{__name__}.CheckedBlosc"
    require("zarr.registry", ".zarr", "zarr").register_codec("blosc", CheckedBlosc, qualname=name)
    return name


def _check_blosc(data: Any) -> None:
    """Raise unless a chunk is as long as it claims; Blosc would read beyond its end."""
    claimed = int.from_bytes(data.as_numpy_array()[12:BLOSC_HEADER].tobytes(), "little")
    if not BLOSC_HEADER <= len(data) == claimed:
        raise ValueError(f"a chunk has {len(data)} bytes and claims {claimed}")


def _read_json(description: Path | None) -> dict[str, Any]:
    about = json.loads(description.read_text("utf-8")) if description else {}
    if not isinstance(about, dict):
        raise ValueError("its description is not a mapping")
    return about


def _is_array(path: Path) -> bool:
    try:
        description = zarr_description(path)
        return description is not None and (
            description.name == ".zarray" or _read_json(description).get("node_type") == "array"
        )
    except (OSError, ValueError, RecursionError):
        return False


def _codecs(about: dict[str, Any]) -> Iterator[str]:
    """Yield the names of all codecs of a description, and of those within them."""
    for entry in ("codecs", "index_codecs", "filters", "compressor"):
        given = about.get(entry)
        for codec in given if isinstance(given, list) else [given]:
            if isinstance(codec, dict):
                names = [codec[key] for key in ("id", "name") if key in codec]
                yield from (_codec_name(name, entry) for name in names)
                inner = codec.get("configuration")
                yield from _codecs(inner if isinstance(inner, dict) else {})
            elif codec is not None:
                yield _codec_name(codec, entry)


def _codec_name(given: Any, entry: str) -> str:
    """Return the name of a codec without that of its package, except unchecked Blosc."""
    name = str(given)
    if name == "blosc" and entry == "filters":
        return "blosc as a filter"
    return name if name == "numcodecs.blosc" else name.removeprefix("numcodecs.")
