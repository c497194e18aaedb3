"""Folders of Zarr, of which nothing is read but plain files of numbers."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from implicitmoments.rows.files.optional_imports import require
from implicitmoments.rows.files.reader_errors import as_damage, brief, without_warnings

__all__ = ["ADVICE", "FAULT", "open_zarr", "zarr_description"]

FAULT, ADVICE = "cannot be read as a Zarr array", "write it again"
# Codecs of numbers. A description may name others, and Zarr would run them: one of numcodecs'
# unpickles, and those of installed packages are imported.
CODECS = frozenset(
    (
        *("bytes", "endian", "transpose", "sharding_indexed", "crc32c", "gzip", "blosc", "zstd"),
        *("zlib", "bz2", "lzma", "lz4", "delta", "shuffle", "bitround", "fixedscaleoffset"),
        *("quantize", "packbits", "astype", "crc32", "adler32", "fletcher32", "jenkins_lookup3"),
    )
)
BLOSC_HEADER = 16  # bytes; the last four say how many there are with those that follow


def zarr_description(path: Path) -> Path | None:
    """Return the file that describes a Zarr array or group, or None where ``path`` is none."""
    for name in ("zarr.json", ".zarray", ".zgroup"):
        if (path / name).is_file():
            return path / name
    return None


def open_zarr(path: Path) -> Any:
    """Open an array whose description names nothing but codecs of numbers."""
    zarr = require("zarr", ".zarr", "zarr")
    description = zarr_description(path)
    with as_damage(path, FAULT, ADVICE):
        about = _read_json(description)
        names = set(_codecs(about))
    if unknown := sorted(names - CODECS):
        raise ValueError(
            f"{path} is written with the codec {brief(unknown[0])!r}, expected one of "
            f"{', '.join(sorted(CODECS))}; write it with one of those"
        )
    if about.get("node_type") == "group" or description == path / ".zgroup":
        arrays = sorted(part.name for part in path.iterdir() if _is_array(part))
        raise ValueError(
            f"{path} is a group of arrays {brief(arrays)}, expected one array; open one of them, "
            f"such as {path / (arrays or ['x'])[0]}"
        )
    version = 2 if description == path / ".zarray" else 3
    compressor = about.get("compressor")
    by_blosc = isinstance(compressor, dict) and compressor.get("id") == "blosc"
    with as_damage(path, FAULT, ADVICE), without_warnings():
        store = _plain_files()(path, read_only=True)
        store.by_blosc = version == 2 and by_blosc
        with zarr.config.set({"codecs.blosc": _checked_blosc()}):
            return zarr.open_array(store, mode="r", zarr_format=version)


@cache
def _plain_files() -> Any:
    """Return a store of plain files: of a device or a pipe, reading would never end."""
    storage = require("zarr.storage", ".zarr", "zarr")

    class PlainFiles(storage.LocalStore):  # type: ignore[misc,name-defined]
        by_blosc = False  # every chunk of format 2

        async def get(self, key: str, *args: Any, **how: Any) -> Any:
            file = self.root / key
            if file.exists() and not stat.S_ISREG(file.stat().st_mode):
                raise ValueError(f"{key} is no plain file")
            data = await super().get(key, *args, **how)
            if data is not None and self.by_blosc and not file.name.startswith(".z"):
                _check_blosc(data)
            return data

    return PlainFiles


@cache
def _checked_blosc() -> str:
    """Register a codec of format 3 that looks at the length first; return the name Zarr has."""
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
    """Raise unless a chunk is as long as it claims; Blosc would read on behind its end."""
    claimed = int.from_bytes(data.as_numpy_array()[12:BLOSC_HEADER].tobytes(), "little")
    if not BLOSC_HEADER <= len(data) == claimed:
        raise ValueError(f"a chunk has {len(data)} bytes and claims {claimed}")


def _read_json(description: Path | None) -> dict[str, Any]:
    about = json.loads(description.read_text("utf-8")) if description else {}
    if not isinstance(about, dict):
        raise ValueError("its description is no mapping")
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
                yield from (_name(name, entry) for name in names)
                inner = codec.get("configuration")
                yield from _codecs(inner if isinstance(inner, dict) else {})
            elif codec is not None:
                yield _name(codec, entry)


def _name(given: Any, entry: str) -> str:
    """Return the name of a codec without that of its package, but for Blosc without a check."""
    name = str(given)
    if name == "blosc" and entry == "filters":
        return "blosc as a filter"
    return name if name == "numcodecs.blosc" else name.removeprefix("numcodecs.")
