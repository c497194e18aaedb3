import gc
import os
import weakref
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from implicitmoments.column_names import unnamed_columns
from implicitmoments.rows import ArrayTable, BlockSource, RowDraws, Rows, open_file
from implicitmoments.rows.files import file_parts
from support import refuses

N, D = 500, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D))
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
    FRAME[230:].to_parquet(path / "2.parquet", index=True)  # an index is no feature
    (path / "_notes.parquet").write_text("begins with a line, and is left out")


TABLES = {
    "groups.parquet": lambda path: FRAME.to_parquet(path, row_group_size=64),
    "one.pq": FRAME.to_parquet,
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
FORMATS = [*TABLES, *ARRAYS, "blocks", "list of files"]


def open_format(folder, name):
    if name == "blocks":
        cuts = range(0, N, 90)
        return BlockSource((X[i : i + 90], Y[i : i + 90], COUNTS[i : i + 90]) for i in cuts)
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


@pytest.fixture(scope="module")
def sources(folder):
    opened = {name: open_format(folder, name) for name in FORMATS}
    yield opened
    for source in opened.values():
        source.close()


def read(source, rows):
    return source.read(rows, RowDraws(0, rows))


def assert_same(one, other):
    assert set(one) == set(other)
    for name in one:
        assert one[name].dtype == other[name].dtype
        np.testing.assert_array_equal(one[name], other[name])


REFERENCE = ArrayTable(X, y=Y, counts=COUNTS)
RANGES = st.tuples(st.integers(0, N), st.integers(0, N)).map(lambda ends: range(*sorted(ends)))


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(asked=st.lists(RANGES, min_size=1, max_size=6))
def test_rows_are_those_of_the_array_in_any_order(sources, name, asked):
    for rows in asked:
        assert_same(read(sources[name], rows), read(REFERENCE, rows))


def measure(block, rows):
    x, weighted = block["x"], block["counts"] * block["y"]
    return {"x": (x * np.array(rows)[:, None]).T @ weighted, "n": np.asarray(len(rows))}


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=10, deadline=None, derandomize=True)
@given(rows=RANGES.filter(bool), rows_per_block=st.integers(1, 600), seed=st.integers(0, 9))
def test_passes_and_picks_are_those_of_the_array(sources, name, rows, rows_per_block, seed):
    source = sources[name]
    assert_same(
        source.fold(measure, rows, rows_per_block), REFERENCE.fold(measure, rows, rows_per_block)
    )
    some = np.sort(np.random.default_rng(seed).choice(N, 20, replace=False))
    assert_same(source.pick(some), REFERENCE.pick(some))


@pytest.mark.parametrize("name", FORMATS)
def test_what_a_source_says_of_itself(sources, name):
    source = sources[name]
    assert (source.n_rows, source.n_features) == (N, D)
    named = name in TABLES or name == "list of files"
    assert source.feature_names == (("a", "b", "c") if named else None)
    assert Rows(source).total == COUNTS.sum()


def test_features_are_chosen_by_name_or_number_in_the_order_given(folder):
    for columns in (["c", "a"], [2, 0], ["c", 0]):
        for name in ("one.pq", "batches.feather", "rows.csv"):
            with open_file(folder / name, columns=columns) as source:
                assert source.feature_names == ("c", "a")
                assert_same(read(source, range(9)), {"x": X[:9, [2, 0]]})
    with open_file(folder / "rows.npy", columns=[2, 0]) as source:
        assert_same(read(source, range(9)), {"x": X[:9, [2, 0]]})


def test_labels_of_a_second_file_and_of_an_array(folder, tmp_path):
    np.save(tmp_path / "y.npy", Y.astype(np.float32))
    zarr.create_array(tmp_path / "w.zarr", data=COUNTS.astype(int), chunks=(33,))
    for name in ("rows.npy", "chunks.zarr"):
        path, labels, weights = folder / name, tmp_path / "y.npy", tmp_path / "w.zarr"
        with open_file(path, columns=[0, 1, 2], y=labels, sample_weight=weights) as source:
            block = read(source, range(40, 140))
        assert_same({**block, "y": Y[40:140]}, read(REFERENCE, range(40, 140)))
        np.testing.assert_array_equal(block["y"], Y[40:140].astype(np.float32))
        with open_file(path, columns=[0, 1, 2], y=Y, sample_weight=list(COUNTS)) as source:
            assert_same(read(source, range(40, 140)), read(REFERENCE, range(40, 140)))


@pytest.mark.parametrize(
    ("kept", "dtype", "expected"),
    [
        ("float32", None, "float32"),
        ("float64", None, "float64"),
        ("int16", None, "float64"),
        ("bool", None, "float64"),
        ("float16", None, "float64"),
        ("float64", "float32", "float32"),
        ("float32", np.float64, "float64"),
    ],
)
def test_precision_is_that_of_the_file_or_what_is_asked_for(tmp_path, kept, dtype, expected):
    numbers = (10 * X[:20]).astype(kept)
    frame = pd.DataFrame(numbers, columns=["a", "b", "c"])
    np.save(tmp_path / "x.npy", numbers)
    frame.to_parquet(tmp_path / "x.parquet")
    pa.feather.write_feather(frame, tmp_path / "x.arrow")
    zarr.create_array(tmp_path / "x.zarr", data=numbers)
    opened = [open_file(tmp_path / f"x{end}", dtype=dtype) for end in (".npy", ".parquet")]
    opened += [open_file(tmp_path / f"x{end}", dtype=dtype) for end in (".arrow", ".zarr")]
    opened.append(BlockSource([numbers[:5], numbers[5:]], dtype=dtype))
    for source in opened:
        with source:
            assert_same(read(source, range(3, 20)), {"x": numbers[3:].astype(expected)})


def test_tables_of_decimals_and_truth_values(tmp_path):
    table = pa.table(
        {"d": pa.array([1, 2, 3]).cast(pa.decimal128(30, 2)), "t": [True, False, True]}
    )
    pa.parquet.write_table(table, tmp_path / "x.parquet")
    table.to_pandas().to_csv(tmp_path / "x.csv", index=False)
    for name in ("x.parquet", "x.csv"):
        with open_file(tmp_path / name) as source:
            assert_same(read(source, range(3)), {"x": np.array([[1.0, 1], [2, 0], [3, 1]])})


def test_csv_without_names_and_with_whole_numbers_first(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("1,2\n" * 400_000 + "1.5,2.5\n")  # types are guessed from the first megabyte
    with open_file(path, y=1) as source:
        assert source.feature_names is None
        assert source.n_rows == 400_001
        assert_same(
            read(source, range(399_999, 400_001)),
            {"x": np.array([[1.0], [1.5]]), "y": np.array([2.0, 2.5])},
        )
    for width, names in ((3, ("0", "1", "2")), (1, ("0",))):  # as pandas names columns
        pd.DataFrame(X[:, :width]).to_csv(path, index=False)
        with open_file(path) as source:
            assert source.feature_names == names
            assert_same(read(source, range(N)), {"x": X[:, :width]})


def test_columns_that_were_asked_for_are_remembered(folder, tmp_path):
    (tmp_path / "plain.csv").write_text("1,2,3\n4,5,6\n")
    asked = {
        (folder / "one.pq", "label", None): {"target": "label"},
        (folder / "rows.csv", "label", ("a",)): {"target": "label"},
        (folder / "rows.npy", -1, (2, 0)): {"target": "x4", "features": "x2,x0"},
        (tmp_path / "plain.csv", 2, (1,)): {"target": "x2", "features": "x1"},
    }
    for (path, y, columns), expected in asked.items():
        with open_file(path, y=y, columns=columns) as source:
            assert source.columns == expected


def test_an_array_of_a_zarr_group(tmp_path):
    zarr.open_group(tmp_path / "all.zarr", mode="w").create_array("points", data=X)
    with open_file(tmp_path / "all.zarr" / "points") as source:
        assert_same(read(source, range(N)), {"x": X})
    with refuses("zarr_group", arrays=["points"], example=str(tmp_path / "all.zarr/points")):
        open_file(tmp_path / "all.zarr")


def test_rows_are_checked_in_the_first_pass_alone(folder):
    y = Y.copy()  # the file may not change while it is read; an array of labels may
    with open_file(folder / "rows.npy", y=y) as source:
        read(source, range(100, 200))
        y[150] = np.nan
        with refuses("not_finite", name="y", first=150):
            read(source, range(100, 200))
        y[150] = Y[150]
        for rows in (range(300), range(250, N)):
            read(source, rows)
        y[150] = np.nan
        assert np.isnan(read(source, range(N))["y"][150])


def test_what_was_closed_is_not_read(folder):
    for name in FORMATS:
        with open_format(folder, name) as source:
            read(source, range(3))
        source.close()
        with refuses("source_closed"):
            read(source, range(3))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system lists no open files")
def test_a_source_that_is_deleted_closes_its_files(folder):
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    source = open_format(folder, "blocks")
    assert len(os.listdir("/proc/self/fd")) == before + 1
    gone = weakref.ref(source)
    del source
    gc.collect()
    assert gone() is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_open_files_are_not_copied(sources):
    with refuses("not_copyable"):
        sources["rows.npy"].__reduce_ex__(2)


def test_rows_that_are_not_there(sources):
    for name in FORMATS:
        with refuses("no_such_rows", start=499, stop=501, n_rows=N):
            read(sources[name], range(499, 501))


@pytest.mark.parametrize("labels", [None, "apart", 2])
def test_a_few_of_many_rows_are_read_from_their_places(tmp_path, labels):
    x = np.random.default_rng(0).normal(size=(5_000, 4))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", x[:, 0] ** 2)
    y = tmp_path / "y.npy" if labels == "apart" else labels
    chosen = np.array([0, 17, 18, 2_500, 4_999])
    with open_file(tmp_path / "x.npy", y=y) as source:
        picked = source.pick(chosen)
        spans = [source.read(range(i, i + 1), RowDraws(0, range(i, i + 1))) for i in chosen]
    for name, column in picked.items():
        np.testing.assert_array_equal(column, np.concatenate([span[name] for span in spans]))


def test_a_picked_row_with_a_hole_is_named(tmp_path):
    x = np.ones((5_000, 2))
    x[4_321, 1] = np.nan
    np.save(tmp_path / "x.npy", x)
    with open_file(tmp_path / "x.npy") as source, refuses("not_finite", first=4_321):
        source.pick(np.array([7, 4_321]))


@pytest.mark.parametrize(
    ("text", "names", "n_rows"),
    [
        ("2019,2020,2021\n1.5,2,3\n4,5,6\n", ("2019", "2020", "2021"), 2),
        ("2020,2019\n1.5,2\n", ("2020", "2019"), 1),
        ("2000,2010,2020\n12,15,18\n", ("2000", "2010", "2020"), 1),
        ("2019,2020,2021\n2018,2019,2020\n2020,2021,2022\n", None, 3),  # among its column
        ("1200,2500\n1300,2600\n", None, 2),  # no turn of years
        ("2019,2019\n1,2\n", None, 2),
        ("1,2,3\n4,5,6\n", None, 2),
        ("2019\n1.5\n", None, 2),
        ("2019,2020,2021\n", None, 1),
    ],
)
def test_a_header_of_years_is_no_row(tmp_path, text, names, n_rows):
    path = tmp_path / "x.csv"
    path.write_text(text)
    source = open_file(path)
    assert (source.feature_names, source.n_rows) == (names, n_rows)


def test_columns_of_wide_arrays_are_not_searched_one_by_one(tmp_path, monkeypatch):
    """A million columns, each looked for in the list of all of them, took minutes."""

    class Names(list):
        def index(self, *_):
            pytest.fail("a search of all names for one")

    monkeypatch.setattr(file_parts, "unnamed_columns", lambda n: Names(unnamed_columns(n)))
    np.save(tmp_path / "x.npy", X)
    with open_file(tmp_path / "x.npy", columns=[2, 0]) as source:
        assert_same(read(source, range(9)), {"x": X[:9, [2, 0]]})
