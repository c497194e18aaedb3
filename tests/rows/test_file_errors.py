import os
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import zarr

from implicitmoments.rows import RowDraws, open_file
from support import refuses

FRAME = pd.DataFrame({"a": np.arange(6.0), "b": np.arange(6.0) ** 2, "town": list("uvwxyz")})
GOOD = FRAME[["a", "b"]]
MANY = pd.DataFrame(np.random.default_rng(0).normal(size=(60_000, 2)), columns=["a", "b"])


def read(source, rows=None):
    rows = range(source.n_rows) if rows is None else rows
    return source.read(rows, RowDraws(0, rows))


def write_arrow(frame, path):
    pa.feather.write_feather(frame, path, compression="uncompressed")


WRITE = {
    "x.parquet": lambda frame, path: frame.to_parquet(path),
    "x.arrow": write_arrow,
    "x.csv": lambda frame, path: frame.to_csv(path, index=False),
}
NUMBERS = {
    "x.npy": lambda frame, path: np.save(path, frame.to_numpy()),
    "x.zarr": lambda frame, path: zarr.create_array(path, data=frame.to_numpy()),
}


ALL = ["a", "b", "town"]


@pytest.mark.parametrize("name", WRITE)
@pytest.mark.parametrize(
    ("given", "code", "values"),
    [
        ({}, "column_not_numeric", {"column": "town", "numeric": ["a", "b"]}),
        ({"columns": ["a", "town"]}, "column_not_numeric", {"column": "town"}),
        ({"columns": ["a", "z"]}, "no_such_column", {"what": "columns", "wanted": "z"}),
        ({"columns": ["towns"]}, "no_such_column", {"near": ["town"]}),
        ({"y": "z"}, "no_such_column", {"what": "y", "names": ALL, "near": []}),
        ({"sample_weight": 7}, "no_such_column_number", {"what": "sample_weight", "n_columns": 3}),
        ({"columns": "a"}, "columns_not_a_list", {"given": "a"}),
        ({"columns": ["a", "a"]}, "column_twice", {"column": "a"}),
        ({"columns": ["a"], "y": "a"}, "column_in_two_roles", {"column": "a", "what": "y"}),
        ({"columns": []}, "no_features", {"names": ALL}),
        ({"y": np.zeros(6)}, "not_a_column", {"what": "y"}),
        ({"columns": ["a"], "dtype": "int8"}, "not_a_float_type", {"dtype": "int8"}),
        ({"columns": ["a"], "dtype": "soft"}, "not_a_float_type", {"dtype": "'soft'"}),
    ],
)
def test_columns_that_do_not_fit(tmp_path, name, given, code, values):
    WRITE[name](FRAME, tmp_path / name)
    with refuses(code, **values) as caught:
        open_file(tmp_path / name, **given)
    assert caught.error.values.get("file", str(tmp_path / name)) == str(tmp_path / name)


@pytest.mark.parametrize("name", [*WRITE, *NUMBERS])
@pytest.mark.parametrize("hole", [np.nan, np.inf])
def test_a_row_with_a_hole_is_named(tmp_path, name, hole):
    frame = MANY.copy()
    frame.loc[40_123, "b"] = hole
    {**WRITE, **NUMBERS}[name](frame, tmp_path / name)
    values = {
        "name": "feature 'x1'" if name in NUMBERS else "feature 'b'",
        "kind": "NaN" if np.isnan(hole) else "infinity",
        "n_rows": 1,
        # lines are counted as editors do
        **({"unit": "line", "first": 40_125} if name == "x.csv" else {"unit": "row"}),
    }
    if name != "x.csv":  # which is looked at as a whole when it is opened
        with open_file(tmp_path / name) as source:
            assert len(read(source, range(40_123))["x"]) == 40_123
    with refuses("not_finite", **values), open_file(tmp_path / name) as source:
        read(source)


@pytest.mark.parametrize("name", [*WRITE, *NUMBERS])
def test_weights_below_zero(tmp_path, name):
    {**WRITE, **NUMBERS}[name](GOOD - 3, tmp_path / name)
    unit, first = ("line", 2) if name == "x.csv" else ("row", 0)
    with (
        refuses("negative_weight", weight=-3.0, unit=unit, first=first),
        open_file(tmp_path / name, sample_weight=0) as source,
    ):
        read(source)


@pytest.mark.parametrize("name", ["x.npy", "x.parquet", "x.arrow", "x.csv", "x.zarr"])
def test_files_that_are_not_there(tmp_path, name):
    with refuses("no_such_file", file=str(tmp_path / name)) as caught:
        open_file(tmp_path / name)
    assert isinstance(caught.error, FileNotFoundError)


@pytest.mark.parametrize("name", ["x.npy", "x.parquet", "x.arrow", "x.csv"])
def test_empty_files(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    with refuses("empty_file", file=str(tmp_path / name)):
        open_file(tmp_path / name)


@pytest.mark.parametrize("name", [*WRITE, *NUMBERS])
def test_tables_without_rows(tmp_path, name):
    {**WRITE, **NUMBERS}[name](GOOD[:0], tmp_path / name)
    with refuses("no_rows", file=str(tmp_path / name)):
        open_file(tmp_path / name)


@pytest.mark.parametrize("name", ["x.npy", "x.parquet", "x.arrow"])
def test_files_that_were_cut_off(tmp_path, name):
    {**WRITE, **NUMBERS}[name](MANY, tmp_path / name)
    os.truncate(tmp_path / name, 400_000)
    with refuses("cut_off" if name == "x.npy" else "unreadable", file=str(tmp_path / name)):
        open_file(tmp_path / name)


@pytest.mark.parametrize("name", ["x.npy", "x.parquet", "x.arrow"])
def test_files_that_change_while_they_are_read(tmp_path, name):
    path = tmp_path / name
    {**WRITE, **NUMBERS}[name](MANY, path)
    with open_file(path) as source:
        read(source, range(100))
        os.truncate(path, 400_000)
        with refuses("file_changed", file=str(path), now=400_000) as caught:
            read(source)
        assert isinstance(caught.error, OSError)
        os.remove(path)
        with refuses("file_removed", file=str(path)) as caught:
            read(source)
        assert isinstance(caught.error, FileNotFoundError)


def test_a_csv_may_change_once_it_was_parsed(tmp_path):
    WRITE["x.csv"](GOOD, tmp_path / "x.csv")
    with open_file(tmp_path / "x.csv") as source:
        os.remove(tmp_path / "x.csv")
        np.testing.assert_array_equal(read(source)["x"], GOOD)


LATE = "a,b\n" + "1,2\n" * 300_000


@pytest.mark.parametrize(
    ("text", "code", "values"),
    [
        (LATE + "3,x4\n", "cell_not_a_number", {"line": 300_002, "column": "b", "cell": "x4"}),
        (LATE + "3\n", "wrong_number_of_cells", {"line": 300_002, "expected": 2, "found": 1}),
        ("a,b\n1,2\n3\n", "wrong_number_of_cells", {"line": 3, "expected": 2, "found": 1}),
        ("a,b\n1,2\n,3\n", "not_finite", {"name": "feature 'a'", "unit": "line", "first": 3}),
        (",b\n0,2\n1,3\n", "column_without_name", {"column": "x0"}),
        ("a,a\n1,2\n", "column_twice", {"column": "a"}),
        ("a,b\n1," + "2" * 3 * 2**20, "line_too_long", {"most": 2**20}),
    ],
)
def test_text_that_is_no_table_of_numbers(tmp_path, text, code, values):
    (tmp_path / "x.csv").write_text(text)
    with refuses(code, file=str(tmp_path / "x.csv"), **values):
        open_file(tmp_path / "x.csv")


@pytest.mark.parametrize(
    ("text", "column", "cell", "line"),
    [
        ("a,b\n1,2\n3,x4\n", "b", "x4", 3),
        ("a,t\n1,2020-01-01T00:00:00.123456789Z\n", "t", "2020-01-01T00:00:00.123456789Z", 2),
        ("a,day\n1,2020-01-01\n", "day", "2020-01-01", 2),
        ("a;b\n1,5;2,5\n3,5;x4\n", "b", "x4", 3),
    ],
)
def test_a_column_of_text_is_named_with_its_first_text(tmp_path, text, column, cell, line):
    (tmp_path / "x.csv").write_text(text)
    with refuses("column_not_numeric", column=column, cell=cell, line=line):
        open_file(tmp_path / "x.csv")


def test_a_csv_that_is_no_gzip(tmp_path):
    (tmp_path / "x.csv.gz").write_text("a,b\n1,2\n")
    with refuses("unreadable", kind="CSV"):
        open_file(tmp_path / "x.csv.gz")


@pytest.mark.parametrize(
    ("array", "code", "values"),
    [
        (np.ones(3), "wrong_axes", {"shape": "(3,)", "layout": "(n_samples, n_features)"}),
        (np.ones((2, 2, 2)), "wrong_axes", {"shape": "(2, 2, 2)"}),
        (np.array([["a", 1]], dtype=object), "pickled_objects", {}),
        (np.array([["a"]]), "not_numeric", {"dtype": "<U1"}),
        (np.ones((2, 2), complex), "not_numeric", {"dtype": "complex128"}),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, array, code, values):
    np.save(tmp_path / "x.npy", array)
    with refuses(code, file=str(tmp_path / "x.npy"), **values):
        open_file(tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("given", "code", "values"),
    [
        ({"y": 2}, "no_such_column_number", {"what": "y", "n_columns": 2}),
        ({"y": 0.5}, "not_a_column", {"what": "y", "given": "0.5"}),
        ({"y": np.ones(5)}, "wrong_length", {"what": "y", "n_rows": 5, "expected": 6}),
        ({"y": "short.npy"}, "wrong_length", {"what": "y", "n_rows": 5, "expected": 6}),
        ({"y": "x.npy"}, "wrong_axes", {"shape": "(6, 2)", "layout": "(n_samples,)"}),
        ({"y": "x.txt"}, "not_an_array", {"file": "x.txt"}),
        ({"columns": [0], "y": 0}, "column_in_two_roles", {"column": "x0", "what": "y"}),
        ({"columns": [4]}, "no_such_column_number", {"what": "columns", "wanted": 4}),
    ],
)
@pytest.mark.parametrize("name", NUMBERS)
def test_columns_of_arrays_that_do_not_fit(tmp_path, monkeypatch, name, given, code, values):
    monkeypatch.chdir(tmp_path)
    for file, write in NUMBERS.items():
        write(GOOD, file)
    np.save("short.npy", np.ones(5))
    (tmp_path / "x.txt").write_text("")
    with refuses(code, **values):
        open_file(name, **given)


def test_other_zarr_arrays(tmp_path):
    zarr.create_array(tmp_path / "x.zarr", data=np.ones(3))
    with refuses("wrong_axes", shape="(3,)"):
        open_file(tmp_path / "x.zarr")
    zarr.create_array(tmp_path / "z.zarr", data=np.ones((3, 2), complex))
    with refuses("not_numeric", dtype="complex128"):
        open_file(tmp_path / "z.zarr")
    (tmp_path / "none.zarr").mkdir()
    with refuses("not_an_array"):
        open_file(tmp_path / "none.zarr")


def test_names_that_end_otherwise(tmp_path):
    (tmp_path / "x.xlsx").write_bytes(b"")
    with refuses("unknown_kind", suffix=".xlsx"):
        open_file(tmp_path / "x.xlsx")
    with refuses("no_tables", file=str(tmp_path)):
        open_file(tmp_path)
    with refuses("no_tables"):
        open_file([])


def test_what_is_no_path():
    with refuses("not_a_path", given="ndarray"):
        open_file(np.ones((2, 2)))
    with refuses("empty_path"):
        open_file("")


def test_files_of_different_columns(tmp_path):
    GOOD.to_parquet(tmp_path / "0.parquet")
    GOOD.rename(columns={"b": "c"}).to_parquet(tmp_path / "1.parquet")
    with refuses("columns_differ", columns=["a", "c"], other_columns=["a", "b"]):
        open_file(tmp_path)
    with open_file(tmp_path, columns=["a"]) as source:
        np.testing.assert_array_equal(read(source)["x"][:, 0], [*range(6), *range(6)])


def test_text_that_only_claims_to_be_a_table(tmp_path):
    for name in ("x.parquet", "x.arrow", "x.npy"):
        (tmp_path / name).write_text("a,b\n1,2\n" * 100)
        with refuses("unreadable", file=str(tmp_path / name)):
            open_file(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("x.parquet", "pyarrow.parquet", "files"),
        ("x.arrow", "pyarrow", "files"),
        ("x.csv", "pyarrow.csv", "files"),
        ("x.zarr", "zarr", "zarr"),
    ],
)
def test_a_library_that_is_not_installed(tmp_path, monkeypatch, name, module, extra):
    {**WRITE, **NUMBERS}[name](GOOD, tmp_path / name)
    monkeypatch.setitem(sys.modules, module, None)
    with refuses("not_installed", extra=extra) as caught:
        open_file(tmp_path / name)
    assert isinstance(caught.error, ImportError)


@pytest.mark.parametrize("name", [*WRITE, *NUMBERS])
def test_rows_with_holes_are_left_out_when_asked(tmp_path, name):
    frame = MANY.copy()
    frame.loc[40_123, "b"] = np.nan
    frame.loc[7, "a"] = np.inf
    {**WRITE, **NUMBERS}[name](frame, tmp_path / name)
    kept = frame.drop(index=[7, 40_123]).to_numpy()
    with open_file(tmp_path / name, drop_missing=True) as source:
        assert (source.n_rows, source.n_dropped) == (len(kept), 2)
        np.testing.assert_array_equal(read(source)["x"], kept)


def test_a_file_of_rows_that_all_have_holes(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,\n,2\n")
    with refuses("all_rows_incomplete", file=str(tmp_path / "x.csv")):
        open_file(tmp_path / "x.csv", drop_missing=True)
