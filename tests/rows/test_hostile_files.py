"""Files that claim what is not so: each was found by the attack fuzz, or could have been."""

import gzip
import json
import os
import pickle
import struct

import numcodecs
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import zarr

from implicitmoments.rows import GeneratedTable, RowDraws, open_file
from support import refuses

X = np.random.default_rng(0).normal(size=(40, 3))


def read(path, **options):
    with open_file(path, **options) as source:
        rows = range(source.n_rows)
        return source.read(rows, RowDraws(0, rows))["x"]


def write_header(path, text, version=1):
    size = struct.pack("<H" if version == 1 else "<I", len(text))
    path.write_bytes(b"\x93NUMPY" + bytes([version, 0]) + size + text.encode("latin1") + bytes(96))


@pytest.mark.parametrize(
    "text",
    [
        "-" * 9_000 + "1",  # more than the parser of Python takes: RecursionError
        "{[]: 1}",  # TypeError
        "{'descr': '<f8', 'fortran_order': False, 'shape': (6, 2)",  # TokenError
        "__import__('os').abort()",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "9" * 5_000 + ", 2)}",
    ],
)
def test_headers_that_cannot_be_read(tmp_path, text):
    write_header(tmp_path / "x.npy", text)
    with refuses("unreadable", kind=".npy") as caught:
        open_file(tmp_path / "x.npy")
    assert len(str(caught.error)) < 500


@pytest.mark.parametrize("shape", [(-6, 2), (6, -2), (-6, -2)])
def test_sizes_below_zero(tmp_path, shape):
    write_header(
        tmp_path / "x.npy", repr({"descr": "<f8", "fortran_order": False, "shape": shape})
    )
    with refuses("impossible_shape", shape=str(shape)):
        open_file(tmp_path / "x.npy")


def test_a_header_that_claims_four_gigabytes(tmp_path):
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(200))
    with refuses("unreadable", kind=".npy"):
        open_file(tmp_path / "x.npy")


def test_a_header_of_python_2_is_read_without_a_warning(tmp_path):
    write_header(
        tmp_path / "x.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (6L, 2L), }"
    )
    np.testing.assert_array_equal(read(tmp_path / "x.npy"), np.zeros((6, 2)))


@pytest.mark.parametrize("name", ["x.npy", "x.csv"])
def test_numbers_too_large_for_single_precision(tmp_path, name):
    np.save(tmp_path / "x.npy", [[1.0, 1e300]])
    (tmp_path / "x.csv").write_text("a,b\n1,1e300\n")
    with refuses("not_finite", kind="infinity", n_rows=1):
        read(tmp_path / name, dtype="float32")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("claimed", [41, 10**6, 10**12, -1])
def test_arrow_columns_that_claim_more_rows_than_they_have(tmp_path, stream, claimed):
    batch = pa.record_batch({"a": X[:, 0], "b": X[:, 1]})
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as file, new(file, batch.schema) as writer:
        writer.write(batch)
    data = (tmp_path / "x.arrow").read_bytes()
    assert data.count(struct.pack("<q", 40)) == 3  # of the batch and of both columns
    changed = data.replace(struct.pack("<q", 40), struct.pack("<q", claimed))
    (tmp_path / "x.arrow").write_bytes(changed)
    with refuses("unreadable", kind="Arrow"):
        read(tmp_path / "x.arrow")


def test_parquet_pages_that_are_damaged(tmp_path):
    path = tmp_path / "x.parquet"
    pa.parquet.write_table(pa.table({"a": X[:, 0], "b": X[:, 1]}), path)
    data = bytearray(path.read_bytes())
    data[4:40] = b"\xff" * 36
    path.write_bytes(data)
    with refuses("unreadable", file=str(path)):
        read(path)


def test_names_in_another_encoding(tmp_path):
    (tmp_path / "x.csv").write_bytes("größe,b\n1,2\n".encode("latin1"))
    with refuses("not_utf8"):
        open_file(tmp_path / "x.csv")


def test_a_stream_of_gzip_that_ends_early(tmp_path):
    numbers = np.random.default_rng(0).normal(size=(90_000, 2)).tolist()
    lines = "".join(f"{a},{b}\n" for a, b in numbers)
    data = gzip.compress(b"a,b\n" + lines.encode(), 1)
    (tmp_path / "x.csv.gz").write_bytes(data[: len(data) // 2])
    with refuses("unreadable", kind="CSV"):
        open_file(tmp_path / "x.csv.gz")


def test_text_of_very_many_columns(tmp_path):
    (tmp_path / "x.csv").write_text(",".join(["1"] * 100_000) + "\n")
    with refuses("too_many_columns", n_columns=100_000, most=65_536):
        open_file(tmp_path / "x.csv")
    columns = [pa.array([1.0])] * 5_000
    pa.parquet.write_table(
        pa.table(columns, names=[f"c{j}" for j in range(5_000)]), tmp_path / "x.parquet"
    )
    assert read(tmp_path / "x.parquet").shape == (1, 5_000)


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_text_of_many_rows_is_not_taken_for_many_columns(tmp_path, ends):
    (tmp_path / "x.csv").write_bytes((ends + "a,b" + ends + ("1,2" + ends) * 70_000).encode())
    assert read(tmp_path / "x.csv").shape == (70_000, 2)


def test_what_messages_quote_is_cut(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1," + "z" * 9_000 + "\n")
    with refuses("column_not_numeric", column="b") as caught:
        open_file(tmp_path / "x.csv")
    assert len(str(caught.error)) < 700


def write_zarr(path, **options):
    zarr.create_array(path, data=X, chunks=(16, 3), **options)
    return path


def rewrite(path, **changes):
    description = path / ("zarr.json" if (path / "zarr.json").exists() else ".zarray")
    description.write_text(json.dumps({**json.loads(description.read_text()), **changes}))


class Harm:
    def __reduce__(self):
        return os.abort, ()


@pytest.mark.parametrize(
    "changes",
    [
        {"filters": [{"id": "pickle"}]},
        {"filters": [{"id": "zlib"}, {"id": "pickle"}]},
        {"compressor": {"id": "pickle"}},
        {"filters": [{"id": "blosc"}]},
        {"compressor": "pickle"},
    ],
)
def test_zarr_codecs_that_run_code(tmp_path, changes):
    path = write_zarr(tmp_path / "x.zarr", zarr_format=2, compressors=None)
    rewrite(path, **changes)
    for chunk in path.glob("*.0"):
        chunk.write_bytes(pickle.dumps(Harm()))
    with refuses("unknown_codec"):
        open_file(path)


@pytest.mark.parametrize("name", ["numcodecs.pickle", "numcodecs.blosc", "os.system", "vlen-utf8"])
def test_zarr_codecs_within_codecs(tmp_path, name):
    path = write_zarr(tmp_path / "x.zarr", shards=(32, 3))
    document = json.loads((path / "zarr.json").read_text())
    document["codecs"][0]["configuration"]["codecs"].append({"name": name})
    rewrite(path, codecs=document["codecs"])
    with refuses("unknown_codec"):
        open_file(path)


BLOSC = zarr.codecs.BloscCodec(cname="lz4")


@pytest.mark.parametrize(
    ("options", "chunk"),
    [
        ({"zarr_format": 2, "compressors": numcodecs.Blosc("lz4")}, "1.0"),
        ({"compressors": BLOSC}, "c/1/0"),
    ],
)
def test_blosc_does_not_read_behind_the_end_of_a_chunk(tmp_path, options, chunk):
    path = write_zarr(tmp_path / "x.zarr", **options)
    np.testing.assert_array_equal(read(path), X)
    data = (path / chunk).read_bytes()
    for part in (data[:-50], data[:10], data[:12] + struct.pack("<I", 2**31 - 1) + data[16:]):
        (path / chunk).write_bytes(part)
        with refuses("unreadable", kind="Zarr"):
            read(path)


def test_blosc_within_a_shard(tmp_path):
    path = write_zarr(tmp_path / "x.zarr", shards=(32, 3), compressors=BLOSC)
    np.testing.assert_array_equal(read(path), X)
    data = bytearray((path / "c/0/0").read_bytes())
    data[12:16] = struct.pack("<I", 2**31 - 1)
    (path / "c/0/0").write_bytes(data)
    with refuses("unreadable", kind="Zarr"):
        read(path)


def test_blosc_of_other_readers_is_left_as_it_is(tmp_path):
    path = write_zarr(tmp_path / "x.zarr", compressors=BLOSC)
    read(path)
    (codec,) = zarr.open_array(path, mode="r").compressors
    assert type(codec) is zarr.codecs.BloscCodec


@pytest.mark.parametrize("kind", ["device", "pipe", "folder"])
def test_zarr_chunks_that_are_no_files(tmp_path, kind):
    path = write_zarr(tmp_path / "x.zarr")
    (path / "c/1/0").unlink()
    if kind == "device":
        (path / "c/1/0").symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path / "c/1/0")
    else:
        (path / "c/1/0").mkdir()
    with refuses("unreadable", kind="Zarr"):
        read(path)


@pytest.mark.parametrize(
    ("shape", "codes"),
    [
        ([40, 10**12], ["shape_too_large"]),
        ([2**70, 3], ["impossible_shape"]),
        ([40, 10**6], ["shape_too_large"]),
        ([-40, 3], ["unreadable", "impossible_shape"]),
        ([40], ["unreadable", "wrong_axes"]),
    ],
)
def test_zarr_shapes_that_cannot_be(tmp_path, shape, codes):
    path = write_zarr(tmp_path / "x.zarr")
    rewrite(path, shape=shape)
    with refuses(*codes, file=str(path)):
        open_file(path)


def test_zarr_rows_that_are_claimed_take_no_memory(tmp_path):
    path = write_zarr(tmp_path / "x.zarr")
    rewrite(path, shape=[10**12, 3])
    with open_file(path) as source:
        rows = range(source.n_rows - 5, source.n_rows)
        assert source.read(rows, RowDraws(0, rows))["x"].shape == (5, 3)
        picked = source.pick(np.array([0, 39, 10**12 - 1]))["x"]
    np.testing.assert_array_equal(picked, [X[0], X[39], np.zeros(3)])


def test_rows_are_picked_from_very_many():
    source = GeneratedTable(lambda rows, rng: {"x": np.array([[float(r)] for r in rows])}, 2**62)
    rows = np.array([0, 1, 65_535, 65_536, 10**12, 2**60])
    np.testing.assert_array_equal(source.pick(rows)["x"][:, 0], rows.astype(float))


def test_a_description_in_another_encoding(tmp_path):
    path = write_zarr(tmp_path / "x.zarr")
    text = (path / "zarr.json").read_text()
    (path / "zarr.json").write_bytes(text.encode("utf-16"))
    with refuses("unreadable", kind="Zarr"):
        open_file(path)
