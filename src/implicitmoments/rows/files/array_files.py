"""Arrays in files: .npy, and Zarr restricted to plain files and codecs of numbers."""

from __future__ import annotations

import io
import json
import math
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from implicitmoments.notes import InputError
from implicitmoments.rows.files.errors import brief, refusal
from implicitmoments.rows.files.expansion import (
    COMPRESSORS,
    MOST_DECODED,
    ExpansionError,
    check_expansion,
)
from implicitmoments.rows.files.file_source import Numbers, as_unreadable, require
from implicitmoments.rows.files.raw_rows import RawArray
from implicitmoments.rows.fold import DEFAULT_BUDGET

HEADER_BYTES = 2**14  # NumPy refuses headers of more than 10,000
# Codecs of numbers. A description may name others, and Zarr would run them: one of numcodecs'
# unpickles, and those of installed packages are imported.
CODECS = frozenset(
    (
        *("bytes", "endian", "transpose", "sharding_indexed", "crc32c", "gzip", "blosc", "zstd"),
        *("zlib", "bz2", "lzma", "lz4", "delta", "shuffle", "bitround", "fixedscaleoffset"),
        *("quantize", "packbits", "astype", "crc32", "adler32", "fletcher32", "jenkins_lookup3"),
    )
)
OF_ZARR = ("blosc", "gzip", "zstd")  # compressors of format 3
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
        self._array, self._path = _open_zarr(path), path
        with as_unreadable(path, "Zarr"):
            self.shape: tuple[int, ...] = tuple(self._array.shape)
            self.dtype: np.dtype[Any] = np.dtype(self._array.dtype)
            chunks = tuple(self._array.chunks)
        check_array(path, self.shape, self.dtype, ndim)
        width = self.shape[1] if ndim == 2 else 1
        if min(chunks) < 1:
            raise refusal("impossible_shape", file=str(path), shape=brief(chunks))
        across = -(-width // chunks[-1]) if ndim == 2 else 1
        if width > MOST_FEATURES or across > MOST_ACROSS:
            sizes = {"most_features": MOST_FEATURES, "most_chunks": MOST_ACROSS}
            about = {"n_features": width, "n_chunks": across, **sizes}
            raise refusal("shape_too_large", file=str(path), **about)
        # rows are held because their chunks were decoded anyway; larger ones are decoded anew
        self._step = chunks[0] if chunks[0] * width <= DEFAULT_BUDGET.held else 0
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

    def release(self) -> None:
        """Let go of the rows that are held."""
        self._held, self._first = np.empty(0), -1

    close = release  # Zarr holds no file open

    def _decode(self, rows: slice) -> Numbers:
        with self._limited(), as_unreadable(self._path, "Zarr"):
            shape = (rows.stop - rows.start, *self.shape[1:])
            return np.asarray(self._array[rows]).reshape(shape)

    @contextmanager
    def _limited(self) -> Iterator[None]:
        try:
            yield
        except InputError as error:
            if not isinstance(error.__cause__, ExpansionError):
                raise
            about = {"part": "chunk", "most": MOST_DECODED}
            raise refusal("expands_too_far", file=str(self._path), **about) from error


def _open_zarr(path: Path) -> Any:
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
        example = brief(path / (arrays or ["x"])[0])
        arrays = [brief(name) for name in arrays]
        raise refusal("zarr_group", file=str(path), arrays=arrays, example=example)
    version = 2 if description == path / ".zarray" else 3
    compressor = about.get("compressor")
    with as_unreadable(path, "Zarr"), warnings.catch_warnings(action="ignore"):
        store = _plain_files()(path, read_only=True)
        if version == 2 and isinstance(compressor, dict):
            store.compressor = str(compressor.get("id"))
        with zarr.config.set({f"codecs.{name}": _checked_codec(name) for name in OF_ZARR}):
            return zarr.open_array(store, mode="r", zarr_format=version)


@cache
def _plain_files() -> Any:
    """Return a store of plain files: reading a device or a pipe would never end."""
    storage = require("zarr.storage", ".zarr", "zarr")

    class PlainFiles(storage.LocalStore):  # type: ignore[misc,name-defined]
        compressor = ""  # of every chunk of format 2

        async def get(self, key: str, *args: Any, **how: Any) -> Any:
            file = self.root / key
            if file.exists() and not stat.S_ISREG(file.stat().st_mode):
                raise ValueError(f"{key} is not a plain file")
            data = await super().get(key, *args, **how)
            if data is not None and self.compressor and not file.name.startswith(".z"):
                _check_chunk(self.compressor, data)
            return data

    return PlainFiles


@cache
def _checked_codec(name: str) -> str:
    """Register a codec of format 3 that checks sizes first; return its name in Zarr."""
    base: Any = getattr(require("zarr.codecs", ".zarr", "zarr"), f"{name.capitalize()}Codec")

    class Checked(base):  # type: ignore[misc]
        def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
            _check_chunk(name, chunk_bytes)
            return super()._decode_sync(chunk_bytes, chunk_spec)

        async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
            _check_chunk(name, chunk_bytes)
            return await super()._decode_single(chunk_bytes, chunk_spec)

    own = f"{__name__}.Checked{name.capitalize()}"
    require("zarr.registry", ".zarr", "zarr").register_codec(name, Checked, qualname=own)
    return own


def _check_chunk(compressor: str, data: Any) -> None:
    """Raise for a chunk that expands too far, or of Blosc, which would read beyond its end."""
    if compressor not in COMPRESSORS:
        return
    content = memoryview(data.as_numpy_array()).cast("B")
    if compressor == "blosc":
        claimed = int.from_bytes(content[12:BLOSC_HEADER], "little")
        if not BLOSC_HEADER <= len(content) == claimed:
            raise ValueError(f"a chunk has {len(content)} bytes and claims {claimed}")
    check_expansion(compressor, content)


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
                inner = codec.get("configuration")
                yield from _codecs(inner if isinstance(inner, dict) else {})
                names = [str(codec[key]) for key in ("id", "name") if key in codec]
            else:
                names = [] if codec is None else [str(codec)]
            for name in names:  # without that of its package, except what is not checked there
                plain = name.removeprefix("numcodecs.")
                if plain in COMPRESSORS and entry == "filters":
                    yield f"{plain} as a filter"
                else:
                    yield name if plain in COMPRESSORS else plain


def open_npy(path: Path, ndim: int = 2) -> RawArray:
    """Open an array of ``ndim`` axes."""
    file = open(path, "rb", buffering=0)  # noqa: SIM115 (the array closes it)
    try:
        front = io.BytesIO(file.read(HEADER_BYTES))  # a header may claim any length
        with as_unreadable(path, ".npy"), warnings.catch_warnings(action="ignore"):
            version = npy_format.read_magic(front)
            first = version == (1, 0)
            read = npy_format.read_array_header_1_0 if first else npy_format.read_array_header_2_0
            shape, by_columns, dtype = read(front)
        check_array(path, shape, dtype, ndim)
        n_bytes = path.stat().st_size
        expected = front.tell() + math.prod(shape) * dtype.itemsize
        if n_bytes < expected:
            raise refusal("cut_off", file=str(path), n_bytes=n_bytes, expected=expected)
    except BaseException:
        file.close()
        raise
    return RawArray(file, shape, dtype, offset=front.tell(), by_columns=by_columns)


def check_array(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], ndim: int) -> None:
    """Raise unless a file describes an array of real numbers with ``ndim`` axes and some rows."""
    about = {"file": str(path), "shape": brief(shape)}
    if dtype.hasobject:
        raise refusal("pickled_objects", file=str(path))
    if dtype.kind not in "fiub":
        raise refusal("not_numeric", file=str(path), dtype=brief(dtype))
    if len(shape) != ndim:
        layout = "(n_samples, n_features)" if ndim == 2 else "(n_samples,)"
        hint = "; save X.reshape(-1, 1) for one feature" if (len(shape), ndim) == (1, 2) else ""
        raise refusal("wrong_axes", hint, **about, layout=layout)
    if min(shape) < 0 or max(shape) >= 2**63:
        raise refusal("impossible_shape", **about)
    if 0 in shape:
        raise refusal("no_rows", **about)
