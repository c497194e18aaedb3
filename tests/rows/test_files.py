"""Rows of files: every format gives the rows of the array, block by block."""

import contextlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from implicitmoments.notes import CodedError
from implicitmoments.rows import ArrayTable, Rows, open_file
from implicitmoments.rows.file_table import spool_blocks
from support import refuses

N = 500
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y, COUNTS = RNG.normal(size=N), RNG.integers(0, 4, N).astype(float)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=Y, weight=COUNTS)
TABLE = pa.Table.from_pandas(FRAME)
WHOLE = FRAME.to_numpy()


def write_stream(path):
    with pa.ipc.new_stream(path, TABLE.schema) as stream:
        stream.write_table(TABLE, max_chunksize=77)


def write_parts(path):
    path.mkdir()
    FRAME[:200].to_parquet(path / "0.parquet", row_group_size=30)
    pa.feather.write_feather(FRAME[200:230].reset_index(drop=True), path / "1.feather")
    FRAME[230:].iloc[:, ::-1].to_parquet(path / "2.parquet", index=False)  # in another order
    (path / "_notes.parquet").write_text("begins with a line, and is left out")


TABLES = {
    "groups.parquet": lambda path: FRAME.to_parquet(path, row_group_size=64),
    "batches.feather": lambda path: pa.feather.write_feather(TABLE, path, chunksize=91),
    "plain.arrow": lambda path: pa.feather.write_feather(TABLE, path, compression="uncompressed"),
    "stream.ipc": write_stream,
    "rows.csv": lambda path: FRAME.to_csv(path, index=False),
    "rows.csv.gz": lambda path: FRAME.to_csv(path, index=False),
    "rows.tsv": lambda path: FRAME.to_csv(path, index=False, sep="\t"),
    "parts": write_parts,
}
ARRAYS = {
    "rows.npy": lambda path: np.save(path, WHOLE),
    "columns.npy": lambda path: np.save(path, np.asfortranarray(WHOLE)),
    "other_end.npy": lambda path: np.save(path, WHOLE.astype(">f8")),
    "chunks.zarr": lambda path: zarr.create_array(path, data=WHOLE, chunks=(90, 2)),
}


def open_format(folder, name):
    if name == "blocks":
        cuts = range(0, N, 90)
        return spool_blocks((X[i : i + 90], Y[i : i + 90], COUNTS[i : i + 90]) for i in cuts)
    if name == "list of files":
        parts = [folder / "parts" / part for part in ("0.parquet", "1.feather", "2.parquet")]
        return open_file(parts, y="label", sample_weight="weight")
    if name in TABLES:
        return open_file(folder / name, y="label", sample_weight="weight")
    return open_file(str(folder / name), y=3, sample_weight=-1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    for name, write in {**TABLES, **ARRAYS}.items():
        write(folder / name)
    return folder


FORMATS = [*TABLES, *ARRAYS, "blocks", "list of files"]


@pytest.mark.parametrize("name", FORMATS)
def test_blocks_are_those_of_the_array(folder, name):
    reference = ArrayTable(X, y=Y, counts=COUNTS)
    with open_format(folder, name) as table:
        assert (table.n_rows, table.n_features) == (N, 3)
        assert table.names == (None if name in (*ARRAYS, "blocks") else ("a", "b", "c"))
        for size in (1, 64, 200, 10_000):
            for found, expected in zip(table.blocks(size), reference.blocks(size), strict=True):
                assert set(found) == set(expected)
                for column in expected:
                    np.testing.assert_array_equal(found[column], expected[column])
        some = np.array([0, 3, 199, 200, 229, 499])
        np.testing.assert_array_equal(table.take(some)["x"], X[some])
        np.testing.assert_array_equal(Rows(table).points, X[COUNTS > 0])


def read(path, **options):
    with open_file(path, **options) as table:
        return next(table.blocks(10**6))["x"]


NUMBERS = arrays(
    np.float64,
    st.tuples(st.integers(1, 40), st.integers(2, 5)),
    elements=st.floats(allow_nan=False, allow_infinity=False, width=64),
)
WRITERS = {
    "x.csv": lambda x, path: pd.DataFrame(x, columns=[f"c{j}" for j in range(x.shape[1])]).to_csv(
        path, index=False
    ),
    "x.parquet": lambda x, path: pa.parquet.write_table(
        pa.table({f"c{j}": x[:, j] for j in range(x.shape[1])}), path, row_group_size=7
    ),
    "x.arrow": lambda x, path: pa.feather.write_feather(
        pa.table({f"c{j}": x[:, j] for j in range(x.shape[1])}), path, chunksize=5
    ),
    "x.npy": lambda x, path: np.save(path, x),
    "x.zarr": lambda x, path: zarr.create_array(path, data=x, chunks=(6, 2), overwrite=True),
}


@pytest.mark.parametrize("name", WRITERS)
@settings(max_examples=30)
@given(x=NUMBERS)
def test_numbers_come_back_as_they_were_written(tmp_path_factory, name, x):
    path = tmp_path_factory.getbasetemp() / f"property-{name}"
    WRITERS[name](x, path)
    np.testing.assert_array_equal(read(path), x)


@pytest.mark.parametrize("name", [name for name in WRITERS if name != "x.zarr"])
@settings(max_examples=60)
@given(data=st.data())
def test_damaged_files_are_read_or_refused(tmp_path_factory, name, data):
    path = tmp_path_factory.getbasetemp() / f"damaged-{name}"
    WRITERS[name](X[:20], path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with contextlib.suppress(CodedError):
        read(path)


def test_quoted_line_breaks_beyond_the_first_megabyte(tmp_path):
    n = 60_000
    frame = pd.DataFrame({"a": np.arange(n), "note": 'one "line"\nand, another\n', "b": 0.5})
    frame.to_csv(tmp_path / "quoted.csv", index=False)
    assert (tmp_path / "quoted.csv").stat().st_size > 2**21
    found = read(tmp_path / "quoted.csv", columns=["a", "b"])
    np.testing.assert_array_equal(found, frame[["a", "b"]].to_numpy(dtype=float))


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("a,b\n1,2\n3,4\n", {}, [[1, 2], [3, 4]]),
        ("1,2\n3,4\n", {}, [[1, 2], [3, 4]]),  # no names
        ("0,1\n5,6\n", {}, [[5, 6]]),  # names that pandas gives
        ("a;b\n1,5;2\n3;4,25\n", {}, [[1.5, 2], [3, 4.25]]),
        ("a|b\n1|2\n", {}, [[1, 2]]),
        ("a\tb\n1\t2\n", {}, [[1, 2]]),
        ("a\n1\n2\n", {}, [[1], [2]]),
        ("\ufeffa,b\r\n1,2\r\n", {}, [[1, 2]]),
        ("a,b\ntrue,2\nfalse,3\n", {}, [[1, 2], [0, 3]]),
        ("a/b\n1/2\n", {"sep": "/"}, [[1, 2]]),
        ("a;b\n1,5;-9\n1,25;2\n", {"na_values": ["-9"], "drop_missing": True}, [[1.25, 2]]),
        ("a,b\n1,\n,2\n3,4\n", {"drop_missing": True}, [[3, 4]]),
        ("a,b\n1,NA\n3,4\n", {"keep_missing": True}, [[1, np.nan], [3, 4]]),
        (
            ",a,b,b\n0,1,2,3\n1,3,4,5\n",
            {"columns": ["a"]},
            [[1], [3]],
        ),  # as pandas writes its index
    ],
)
def test_text_files(tmp_path, text, options, expected):
    (tmp_path / "x.csv").write_text(text, encoding="utf-8", newline="")
    np.testing.assert_array_equal(read(tmp_path / "x.csv", **options), expected)


@pytest.mark.parametrize(
    ("text", "options", "code", "values"),
    [
        ("", {}, "no_rows", {}),
        ("a,b\n", {}, "no_rows", {}),
        ("a,b\n1,2\n3,x\n", {}, "cell_not_a_number", {"column": "b", "row": 1, "cell": "x"}),
        ("a,b\n1,2\n3\n", {}, "unreadable", {}),
        ("a,b\n1,2\n3,\n", {}, "not_finite", {"kind": "NaN", "first": 1}),
        ("a,b\n1,2\n3,inf\n", {}, "not_finite", {"kind": "infinity", "first": 1}),
        ("a,b\n1,2\n", {"y": "c"}, "no_such_column", {"what": "y"}),
        ("a,b\n1,2\n", {"columns": ["a", 7]}, "no_such_column", {"what": "columns"}),
        ("a,b\n1,2\n", {"columns": ["a"], "y": "a"}, "columns_overlap", {}),
        ("a,a\n1,2\n", {}, "column_without_name", {}),
        (",a\n1,2\n", {}, "column_without_name", {}),
        ("a,b\n1,2\n", {"sep": "::"}, "not_one_character", {"name": "sep"}),
        ("a,b\n1,\n", {"drop_missing": True}, "no_rows", {}),
    ],
)
def test_text_files_that_are_refused(tmp_path, text, options, code, values):
    (tmp_path / "x.csv").write_text(text, encoding="utf-8")
    with refuses(code, **values):
        read(tmp_path / "x.csv", **options)


def test_other_files_that_are_refused(tmp_path):
    np.save(tmp_path / "flat.npy", np.ones(3))
    np.save(tmp_path / "objects.npy", np.array([["a", 1]], dtype=object))
    np.save(tmp_path / "x.npy", X)
    FRAME.assign(label="no").to_parquet(tmp_path / "text.parquet")
    (tmp_path / "x.json").write_text("{}")
    for name, code in {
        "flat.npy": "wrong_array",
        "objects.npy": "unreadable",
        "text.parquet": "column_not_numeric",
        "x.json": "unknown_kind",
        "absent.npy": "no_such_file",
    }.items():
        with refuses(code):
            read(tmp_path / name)
    with refuses("not_a_text_file"):
        read(tmp_path / "x.npy", sep=";")
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "absent.npy")


def test_a_codec_that_runs_code_is_refused(tmp_path):
    zarr.create_array(tmp_path / "x.zarr", data=X, zarr_format=2)
    description = tmp_path / "x.zarr" / ".zarray"
    text = description.read_text().replace('"filters": null', '"filters": [{"id": "pickle"}]')
    description.write_text(text)
    with refuses("unreadable"):
        read(tmp_path / "x.zarr")


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_rows_left_out_keep_the_numbers_of_the_file(tmp_path, kind):
    frame = FRAME.copy()
    frame.loc[[0, 7, 8, 300], "b"] = np.nan
    write = frame.to_parquet if kind == "parquet" else frame.to_csv
    write(tmp_path / f"x.{kind}", index=False)
    with open_file([tmp_path / f"x.{kind}"] * 2, drop_missing=True) as table:
        assert (table.n_rows, table.n_dropped) == (2 * N - 8, 8)
        held = Rows(table).kept_by(lambda block: block["x"][:, 0] > 0).hold()
    both = np.tile(frame.to_numpy(), (2, 1))
    np.testing.assert_array_equal(held.points, both[held.numbers])


def test_single_precision_stays(tmp_path):
    pd.DataFrame(X.astype(np.float32), columns=["a", "b", "c"]).to_parquet(tmp_path / "x.parquet")
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    for name in ("x.parquet", "x.npy"):
        np.testing.assert_array_equal(read(tmp_path / name), X.astype(np.float32))
        assert read(tmp_path / name).dtype == np.float32


def test_files_of_different_columns(tmp_path):
    FRAME.to_parquet(tmp_path / "one.parquet")
    FRAME.rename(columns={"b": "z"}).to_parquet(tmp_path / "two.parquet")
    paths = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    with refuses("columns_differ", columns=["b", "z"]):
        read(paths)
    np.testing.assert_array_equal(read(paths, columns=["c", "a"])[:N], X[:, [2, 0]])


def test_blocks_that_come_once():
    frames = (FRAME[["a", "b", "c"]][i : i + 100] for i in range(0, N, 100))
    with spool_blocks(frames) as table:
        assert table.names == ("a", "b", "c")
        np.testing.assert_array_equal(Rows(table).points, X)
    batches = iter(pa.table({"a": X[:, 0], "b": X[:, 1]}).to_batches(max_chunksize=9))
    np.testing.assert_array_equal(Rows(spool_blocks(batches)).points, X[:, :2])
    empty = spool_blocks(iter([X[:0], X[:5]]))
    assert empty.n_rows == 5
    with refuses("no_rows"):
        spool_blocks(iter([]))
    with refuses("blocks_differ", number=1):
        spool_blocks(iter([X[:5], X[:5, :2]]))
    with refuses("not_finite", first=5):
        spool_blocks(iter([X[:5], X[:5] * np.nan]))


PASS = """
import sys
from implicitmoments.rows import open_file

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024

for path in sys.argv[1:]:  # what is imported on first use does not count
    before = peak()
    with open_file(path) as table:
        for _ in range(2):
            for block in table.blocks(16_384):
                block["x"].sum()
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no figures of the system")
@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.npy", "columns.npy", "x.csv"])
def test_memory_is_bounded_by_the_block(name, tmp_path):
    n = 1_500_000 if name != "x.csv" else 300_000
    x = np.random.default_rng(0).normal(size=(n, 16))  # 192 MB
    table = pa.table({f"c{j}": x[:, j] for j in range(16)})
    write = {
        "x.parquet": lambda path, rows: pa.parquet.write_table(table[:rows], path),
        "x.arrow": lambda path, rows: pa.feather.write_feather(
            table[:rows], path, compression="uncompressed", chunksize=n
        ),
        "x.npy": lambda path, rows: np.save(path, x[:rows]),
        "columns.npy": lambda path, rows: np.save(path, np.asfortranarray(x[:rows])),
        "x.csv": lambda path, rows: pa.csv.write_csv(table[:rows], path),
    }[name]
    write(tmp_path / f"small-{name}", 1_000)
    write(tmp_path / name, n)
    command = [sys.executable, "-c", PASS, str(tmp_path / f"small-{name}"), str(tmp_path / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    assert int(done.stdout) < 100
