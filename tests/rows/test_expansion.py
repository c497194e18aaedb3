"""Small files that expand to more than is decoded at once are refused before they are decoded."""

import bz2
import gzip
import lzma
import resource
import zlib
from pathlib import Path

import numcodecs
import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest
import zarr

from implicitmoments.rows import open_file
from implicitmoments.rows.files.arrow_messages import expanded_sizes
from implicitmoments.rows.files.expansion import MOST_DECODED, ExpansionError, check_expansion
from support import refuses

ZEROS = bytes(300_000)
NOISE = np.random.default_rng(0).bytes(300_000)
ENCODED = {
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "bz2": bz2.compress,
    "lzma": lzma.compress,
    "zstd": lambda data: bytes(numcodecs.Zstd().encode(data)),
    "lz4": lambda data: bytes(numcodecs.LZ4().encode(data)),
    "blosc": lambda data: bytes(numcodecs.Blosc().encode(data)),
}


@pytest.mark.parametrize("compressor", ENCODED)
@pytest.mark.parametrize("data", [ZEROS, NOISE], ids=["zeros", "noise"])
def test_sizes_are_known_before_data_are_decoded(compressor, data):
    encoded = memoryview(ENCODED[compressor](data))
    check_expansion(compressor, encoded, most=len(data) + 2**17)  # of zstd, up to a block more
    with pytest.raises(ExpansionError):
        check_expansion(compressor, encoded, most=len(data) - 1)


def test_several_streams_are_counted_together():
    twice = memoryview(2 * gzip.compress(ZEROS))
    check_expansion("gzip", twice, most=2 * len(ZEROS))
    with pytest.raises(ExpansionError):
        check_expansion("gzip", twice, most=2 * len(ZEROS) - 1)


@pytest.fixture
def little_memory():
    """Makes a decoded bomb an error of its own."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MOST_DECODED // 2, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def chunk_of(path):
    return next(
        p for p in path.rglob("*") if p.is_file() and not p.name.startswith((".z", "zarr"))
    )


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_zarr_chunk_that_expands_beyond_what_its_array_claims(tmp_path, zarr_format):
    compressor = numcodecs.GZip(1) if zarr_format == 2 else zarr.codecs.GzipCodec(level=1)
    array = zarr.create_array(
        tmp_path / "x.zarr",
        shape=(40, 3),
        chunks=(40, 3),
        dtype="f8",
        compressors=compressor,
        zarr_format=zarr_format,
    )
    array[:] = 1.0
    piece = gzip.compress(bytes(2**26), 9)
    chunk_of(tmp_path / "x.zarr").write_bytes(piece * (MOST_DECODED // 2**26 + 1))
    with refuses("expands_too_far", part="chunk"):
        open_file(tmp_path / "x.zarr").block(range(3))


def write_batch(path, n, *, stream=False, compression="zstd"):
    schema = pa.schema([("a", pa.float64()), ("b", pa.float64())])
    options = pa.ipc.IpcWriteOptions(compression=compression)
    zeros = pa.array(np.zeros(n))
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(path, schema, options=options) as file:
        file.write_batch(pa.record_batch([zeros, zeros], schema=schema))
        file.write_batch(pa.record_batch([zeros[:5], zeros[:5]], schema=schema))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("compression", ["zstd", "lz4", None])
def test_the_sizes_of_arrow_batches_are_those_that_they_state(tmp_path, stream, compression):
    path = tmp_path / "x.arrow"
    write_batch(path, 1_000, stream=stream, compression=compression)
    found = list(expanded_sizes(path.read_bytes(), is_stream=stream))
    assert found == ([16_000, 80] if compression else [0, 0])


@pytest.mark.parametrize("stream", [False, True])
def test_an_arrow_batch_that_expands_too_far(tmp_path, stream):
    path = tmp_path / "x.arrow"
    write_batch(path, 1_000, stream=stream)
    data = path.read_bytes()
    claim = (8_000).to_bytes(8, "little")  # of the first buffers
    assert claim in data
    path.write_bytes(data.replace(claim, (2**31).to_bytes(8, "little")))
    with refuses("expands_too_far", part="batch"):
        open_file(path)
    write_batch(path, 1_000, stream=stream)
    assert open_file(path).n_rows == 1_005
