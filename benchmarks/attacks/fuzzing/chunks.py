"""Hostile Zarr folders: metadata in JSON, chunks in separate files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numcodecs
import numpy as np
import zarr
from zarr.codecs import BloscCodec, GzipCodec

from attacks.fuzzing.changes import mutate_bytes, mutate_json, mutate_words, pick

__all__ = ["examples", "write_files", "write_zarr"]

Folder = dict[str, bytes]  # files by name

NAMES = (
    "zarr_format",
    "node_type",
    "shape",
    "chunks",
    "codecs",
    "filters",
    "must_understand",
    "é",
)
CODECS: list[Any] = [
    *({"id": "pickle"}, {"id": "vlen-utf8"}, {"id": "json2"}, {"id": "zlib", "level": 1}, "os"),
    *({"id": "astype", "encode_dtype": "|O", "decode_dtype": "|O"}, {"id": "delta", "dtype": "O"}),
    *({"id": "categorize", "labels": ["a"], "dtype": "O"}, {"id": "base64"}, {"id": "os.system"}),
    *({"name": "numcodecs.pickle"}, {"name": "gzip", "configuration": {"level": 99}}),
    *({"name": "transpose", "configuration": {"order": [0, 0]}}, {"name": "vlen-bytes"}),
    *({"name": "bytes", "configuration": {"endian": "middle"}}, {"name": "crc32c"}),
    *({"name": "../../os", "configuration": {}}, {"name": None}, {"name": "zstd"}, {}),
    {"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 1], "codecs": []}},
    {"name": "sharding_indexed", "configuration": {"chunk_shape": [0, 0], "codecs": [1]}},
    {"name": "bytes", "must_understand": False},
    *({"id": "shuffle", "elementsize": size} for size in (0, -1, 4, 7, 10**9, 2**40)),
    *({"id": "blosc"}, {"id": "zstd", "level": 1}, {"id": "lzma"}, {"id": "bz2"}, {"id": "lz4"}),
    *({"id": "fletcher32"}, {"id": "crc32"}, {"id": "packbits"}, {"id": "jenkins_lookup3"}),
    {"id": "fixedscaleoffset", "offset": 1e308, "scale": 0, "dtype": "<f8", "astype": "|u1"},
    {"id": "quantize", "digits": 10**6, "dtype": "<f8", "astype": "<f4"},
    {"id": "delta", "dtype": "<i8", "astype": "<U9"},
    {"name": "numcodecs.shuffle", "configuration": {"elementsize": 3}},
    {"name": "numcodecs.blosc", "configuration": {}},
]
HOSTILE: list[Any] = [
    *(None, True, -1, 0, 1, 2**40, 2**70, 10**400, 1.5, 1e308, "", "NaN", "é", "..", "/etc"),
    *([], {}, [[]], [0, 0], [-1, 3], [10**12, 3], [40, 10**12], [2**70, 3], [40], [40, 3, 1]),
    *([1, 1], [10**12, 10**12], ["a", 3], [40.0, 3], [True, 3], "object", "|O", "<U4", "float16"),
    *("complex128", "bool", "r8", "datetime64", [["a", "<f8"], ["b", "|O"]], "0x7ff8000000000001"),
    *({"name": "rectangular", "configuration": {}}, {"name": "default"}, {"name": "v2"}, "C", "K"),
    *({"name": "regular", "configuration": {"chunk_shape": [10**9, 10**9]}},),
    *({"name": "regular", "configuration": {"chunk_shape": [0, 1]}},),
    *({"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}},),
    *({"name": "default", "configuration": {"separator": "/../"}},),
    *({"name": "structured", "configuration": {"fields": [["a", "float64"]]}},),
    *([{"name": "os"}], "a" * 5_000, 2, 3, 4),
    *CODECS,
]


@cache
def examples() -> tuple[Folder, ...]:
    """Return small arrays of both formats, with several codecs, and a group."""
    x = np.random.default_rng(0).normal(size=(40, 3))
    old: tuple[dict[str, Any], ...] = (
        {"compressors": None},
        {"compressors": numcodecs.Zlib(1), "filters": [numcodecs.Delta("<f8")]},
        {"compressors": numcodecs.Blosc("lz4")},
        {"compressors": numcodecs.LZ4()},
    )
    new: tuple[dict[str, Any], ...] = (
        {"compressors": None},
        {"compressors": GzipCodec(level=1)},
        {"compressors": BloscCodec(cname="lz4")},
        {"shards": (20, 4), "chunks": (10, 2)},
        {"shards": (20, 3), "chunks": (10, 3), "compressors": BloscCodec(cname="lz4")},
    )
    return (
        *(_stored(partial(_write, x, zarr_format=2, **options)) for options in old),
        *(_stored(partial(_write, x, zarr_format=3, **options)) for options in new),
        _stored(partial(_write, x.astype("f4"), zarr_format=3)),
        _stored(partial(_write_group, x)),
    )


def write_zarr(folder: Path, rng: np.random.Generator) -> tuple[str, Path]:
    """Write one hostile folder; return what was done, and its path."""
    files = dict(pick(examples(), rng))
    path = folder / "rows.zarr"
    changes: dict[str, Callable[[Folder, np.random.Generator], None]] = {
        "document": _mutate_document,
        "numbers of the document": _mutate_numbers,
        "codecs": _mutate_codecs,
        "text of the document": _mutate_text,
        "bytes of the document": _mutate_description,
        "bytes of a chunk": _mutate_chunk,
        "random": _randomise,
    }
    how = str(rng.choice([*changes, "links and folders"]))
    if how in changes:
        changes[how](files, rng)
    write_files(path, files)
    if how not in changes:
        _relink(path, pick(sorted(files), rng), rng)
    return how, path


def write_files(path: Path, files: Folder) -> None:
    """Write the files of a folder."""
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)


def _write(x: Any, path: Path, **options: Any) -> None:
    zarr.create_array(path, data=x, **{"chunks": (16, 3), **options})


def _write_group(x: Any, path: Path) -> None:
    zarr.create_group(path).create_array("x", data=x, chunks=(16, 3))


def _stored(write: Callable[[Path], None]) -> Folder:
    with TemporaryDirectory() as name:
        root = Path(name) / "a.zarr"
        write(root)
        found = sorted(path for path in root.rglob("*") if path.is_file())
        return {str(path.relative_to(root)): path.read_bytes() for path in found}


def _description(files: Folder) -> str:
    return next(name for name in ("zarr.json", ".zarray") if name in files)


def _mutate_document(files: Folder, rng: np.random.Generator) -> None:
    name = _description(files)
    document = mutate_json(json.loads(files[name]), rng, HOSTILE, NAMES)
    files[name] = json.dumps(document).encode()


def _mutate_numbers(files: Folder, rng: np.random.Generator) -> None:
    """Give an array another shape, and often chunks of another one."""
    name = _description(files)
    document = json.loads(files[name])
    sizes = (0, 1, -1, 3, 40, 41, 1_000, 10**6, 10**9, 10**12, 2**63, 2**70)
    for _ in range(int(rng.integers(1, 4))):
        lists = [document.get("shape"), document.get("chunks")]
        grid = document.get("chunk_grid", {}).get("configuration", {})
        lists.append(grid.get("chunk_shape"))
        for codec in document.get("codecs", []):
            lists.append(codec.get("configuration", {}).get("chunk_shape"))
        target = pick([one for one in lists if one] or [[0]], rng)
        target[int(rng.integers(len(target)))] = pick(sizes, rng)
    files[name] = json.dumps(document).encode()


def _mutate_codecs(files: Folder, rng: np.random.Generator) -> None:
    name = _description(files)
    document = json.loads(files[name])
    mark = "name" if "codecs" in document else "id"  # what each format calls a codec by
    codec = pick([one for one in CODECS if not isinstance(one, dict) or mark in one], rng)
    if "codecs" in document:
        codecs = document["codecs"]
        at = int(rng.integers(len(codecs) + 1))
        codecs[at : at + int(rng.integers(2))] = [codec]
    elif rng.random() < 0.5:
        document["compressor"] = codec
    else:
        document["filters"] = [codec, *(document.get("filters") or [])]
    files[name] = json.dumps(document).encode()


def _mutate_text(files: Folder, rng: np.random.Generator) -> None:
    name = _description(files)
    text = files[name].decode()
    values = ("[" * 5_000, "NaN", "1e999", "9" * 5_000, '"\\ud800"', "\x00", '{"a":' * 900)
    places = [i + 1 for i, letter in enumerate(text) if letter in ":[,"]
    place = pick(places, rng)
    end = next((i for i in range(place, len(text)) if text[i] in ",}]"), len(text))
    files[name] = (text[:place] + pick(values, rng) + text[end:]).encode()


def _mutate_description(files: Folder, rng: np.random.Generator) -> None:
    name = _description(files)
    files[name] = mutate_bytes(files[name], rng)


def _mutate_chunk(files: Folder, rng: np.random.Generator) -> None:
    name = pick(sorted(set(files) - {_description(files)}) or sorted(files), rng)
    change = pick((mutate_bytes, mutate_words, lambda data, _: data[:0]), rng)
    files[name] = change(files[name], rng)


def _randomise(files: Folder, rng: np.random.Generator) -> None:
    name = pick(sorted(files), rng)
    files[name] = rng.bytes(int(rng.integers(0, 300)))


def _relink(path: Path, name: str, rng: np.random.Generator) -> None:
    """Replace a file by a link, a folder, a pipe or a device."""
    file = path / name
    kept = file.read_bytes()
    file.unlink()
    kind = int(rng.integers(8))
    if kind == 0:
        file.symlink_to("/dev/zero")
    elif kind == 1:
        os.mkfifo(file)
    elif kind == 2:
        file.symlink_to(file.name)
    elif kind == 3:
        file.mkdir()
    elif kind == 4:
        file.symlink_to("/nowhere")
    elif kind == 5:
        outside = path.with_name("outside.zarr")
        outside.write_bytes(kept)
        file.symlink_to(outside)
    elif kind == 6:
        shutil.rmtree(path / name.split("/", maxsplit=1)[0], ignore_errors=True)
    else:
        (path / ".zgroup").write_bytes(b"{}")
        file.symlink_to(path)
