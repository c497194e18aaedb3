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


@pytest.mark.parametrize("name", WRITE)
@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({}, TypeError, r"column 'town' of .* holds .*expected numbers; .*columns=\['a', 'b'\]"),
        ({"columns": ["a", "town"]}, TypeError, r"column 'town' of .* holds"),
        ({"columns": ["a", "z"]}, ValueError, r"columns names column 'z', which .* does not have"),
        ({"columns": ["towns"]}, ValueError, r"it has .*; did you mean town\?"),
        ({"y": "z"}, ValueError, r"y names column 'z'.*it has \['a', 'b', 'town'\]"),
        ({"sample_weight": 7}, ValueError, r"sample_weight is column 7, and .* has 3 columns"),
        ({"columns": "a"}, TypeError, r"columns is a list of columns, got 'a'"),
        ({"columns": ["a", "a"]}, ValueError, r"'a' of .* more than once"),
        ({"columns": ["a"], "y": "a"}, ValueError, r"'a' of .* as a feature and as y; leave it"),
        ({"columns": []}, ValueError, r"no column of .* is a feature"),
        ({"y": np.zeros(6)}, TypeError, r"y is a column by name or number"),
        ({"columns": ["a"], "dtype": "int8"}, ValueError, r"dtype is float32 or float64"),
        ({"columns": ["a"], "dtype": "soft"}, TypeError, r"dtype is float32 or float64"),
    ],
)
def test_columns_that_do_not_fit(tmp_path, name, given, error, message):
    WRITE[name](FRAME, tmp_path / name)
    with pytest.raises(error, match=message):
        open_file(tmp_path / name, **given)


@pytest.mark.parametrize("name", [*WRITE, *NUMBERS])
@pytest.mark.parametrize("hole", [np.nan, np.inf])
def test_a_row_with_a_hole_is_named(tmp_path, name, hole):
    frame = MANY.copy()
    frame.loc[40_123, "b"] = hole
    {**WRITE, **NUMBERS}[name](frame, tmp_path / name)
    feature = "1" if name in NUMBERS else "'b'"
    kind = "NaN" if np.isnan(hole) else "infinity"
    row = "line 40125" if name == "x.csv" else "row 40123"  # lines are counted as editors do
    message = rf"x\.\w+: feature {feature} contains {kind} in 1 row, the first is {row};"
    if name != "x.csv":  # which is looked at as a whole when it is opened
        with open_file(tmp_path / name) as source:
            assert len(read(source, range(40_123))["x"]) == 40_123
    with pytest.raises(ValueError, match=message), open_file(tmp_path / name) as source:
        read(source)


@pytest.mark.parametrize("name", [*WRITE, *NUMBERS])
def test_weights_below_zero(tmp_path, name):
    {**WRITE, **NUMBERS}[name](GOOD - 3, tmp_path / name)
    row = "line 2" if name == "x.csv" else "row 0"
    with (
        pytest.raises(ValueError, match=f"sample_weight is -3 in {row}, expected at least 0"),
        open_file(tmp_path / name, sample_weight=0) as source,
    ):
        read(source)


@pytest.mark.parametrize("name", ["x.npy", "x.parquet", "x.arrow", "x.csv", "x.zarr"])
def test_files_that_are_not_there(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=f"there is no file .*{name}; the folder here is"):
        open_file(tmp_path / name)


@pytest.mark.parametrize("name", ["x.npy", "x.parquet", "x.arrow", "x.csv"])
def test_empty_files(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(ValueError, match=rf"{name} .*([Ee]mpty|cut off)"):
        open_file(tmp_path / name)


@pytest.mark.parametrize("name", [*WRITE, *NUMBERS])
def test_tables_without_rows(tmp_path, name):
    {**WRITE, **NUMBERS}[name](GOOD[:0], tmp_path / name)
    with pytest.raises(ValueError, match=rf"{name} .*at least one"):
        open_file(tmp_path / name)


@pytest.mark.parametrize("name", ["x.npy", "x.parquet", "x.arrow"])
def test_files_that_were_cut_off(tmp_path, name):
    {**WRITE, **NUMBERS}[name](MANY, tmp_path / name)
    os.truncate(tmp_path / name, 400_000)
    with pytest.raises(ValueError, match="cut off"):
        open_file(tmp_path / name)


@pytest.mark.parametrize("name", ["x.npy", "x.parquet", "x.arrow"])
def test_files_that_change_while_they_are_read(tmp_path, name):
    path = tmp_path / name
    {**WRITE, **NUMBERS}[name](MANY, path)
    with open_file(path) as source:
        read(source, range(100))
        os.truncate(path, 400_000)
        with pytest.raises(OSError, match=r"was changed while its rows were read.*has 400000\)"):
            read(source)
        os.remove(path)
        with pytest.raises(FileNotFoundError, match="was removed while its rows were read"):
            read(source)


def test_a_csv_may_change_once_it_was_parsed(tmp_path):
    WRITE["x.csv"](GOOD, tmp_path / "x.csv")
    with open_file(tmp_path / "x.csv") as source:
        os.remove(tmp_path / "x.csv")
        np.testing.assert_array_equal(read(source)["x"], GOOD)


LATE = "a,b\n" + "1,2\n" * 300_000


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            "a,b\n1,2\n3,x4\n",
            TypeError,
            r"'b' of .* text in 1 of the first 2 cells, such as 'x4' in line 3",
        ),
        (LATE + "3,x4\n", ValueError, r"x.csv, line 300002: column 'b' holds 'x4', expected a"),
        (LATE + "3\n", ValueError, r"x.csv, line 300002: expected 2 columns, got 1"),
        ("a,b\n1,2\n,3\n", ValueError, r"feature 'a' contains NaN in 1 row, the first is line 3"),
        (",b\n0,2\n1,3\n", ValueError, r"column 0 of .* has no name, as where row labels"),
        ("a,a\n1,2\n", ValueError, r"column 'a' of .* more than once"),
        (
            "a,t\n1,2020-01-01T00:00:00.123456789Z\n",
            TypeError,
            r"'t' of .*such as '2020-01-01 00:",
        ),
        ("a,day\n1,2020-01-01\n", TypeError, r"'day' of .* text, such as '2020-01-01' in line 2"),
    ],
)
def test_text_that_is_no_table_of_numbers(tmp_path, text, error, message):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(error, match=message):
        open_file(tmp_path / "x.csv")


def test_a_csv_that_is_no_gzip(tmp_path):
    (tmp_path / "x.csv.gz").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="cannot be read as CSV"):
        open_file(tmp_path / "x.csv.gz")


@pytest.mark.parametrize(
    ("array", "error", "message"),
    [
        (np.ones(3), ValueError, r"1 axes \(shape \(3,\)\), expected 2.*X.reshape\(-1, 1\)"),
        (np.ones((2, 2, 2)), ValueError, "3 axes"),
        (np.array([["a", 1]], dtype=object), TypeError, "pickled Python objects, which are not"),
        (np.array([["a"]]), TypeError, "entries of type <U1, expected real numbers"),
        (np.ones((2, 2), complex), TypeError, "entries of type complex128"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, array, error, message):
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(error, match=message):
        open_file(tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": 2}, r"y is 2, expected the number of a column of .*, which has 2"),
        ({"y": 0.5}, r"y is 0.5, expected the number"),
        ({"y": np.ones(5)}, r"y has 5 rows and .* has 6; expected one value a row"),
        ({"y": "short.npy"}, r"y has 5 rows and .* has 6; expected one value a row"),
        ({"y": "x.npy"}, r"2 axes \(shape \(6, 2\)\), expected 1: \(n_samples,\)"),
        ({"y": "x.txt"}, r"x.txt is neither a .npy file nor"),
        ({"columns": [0], "y": 0}, r"columns \[0\] of .* are features and \[0\] are not"),
        ({"columns": [4]}, r"columns is column 4, and .* has 2 columns"),
    ],
)
@pytest.mark.parametrize("name", NUMBERS)
def test_columns_of_arrays_that_do_not_fit(tmp_path, monkeypatch, name, given, message):
    monkeypatch.chdir(tmp_path)
    for file, write in NUMBERS.items():
        write(GOOD, file)
    np.save("short.npy", np.ones(5))
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(ValueError, match=message):
        open_file(name, **given)


def test_other_zarr_arrays(tmp_path):
    zarr.create_array(tmp_path / "x.zarr", data=np.ones(3))
    with pytest.raises(ValueError, match=r"array of shape \(3,\), expected \(n_samples, n_feat"):
        open_file(tmp_path / "x.zarr")
    zarr.create_array(tmp_path / "z.zarr", data=np.ones((3, 2), complex))
    with pytest.raises(TypeError, match="entries of type complex128"):
        open_file(tmp_path / "z.zarr")
    (tmp_path / "none.zarr").mkdir()
    with pytest.raises(ValueError, match=r"neither a .npy file nor a folder of Zarr"):
        open_file(tmp_path / "none.zarr")


def test_names_that_end_otherwise(tmp_path):
    (tmp_path / "x.xlsx").write_bytes(b"")
    with pytest.raises(
        ValueError, match=r"ends in '.xlsx', expected one of .npy, .parquet, .*csv"
    ):
        open_file(tmp_path / "x.xlsx")
    with pytest.raises(ValueError, match=r"holds no file that ends in .parquet"):
        open_file(tmp_path)
    np.save(tmp_path / "x.npy", np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"'.npy', expected one of .parquet.*BlockSource takes"):
        open_file([tmp_path / "x.npy", tmp_path / "x.npy"])


def test_what_is_no_path():
    with pytest.raises(TypeError, match="path or a list of paths, got ndarray; as_source takes"):
        open_file(np.ones((2, 2)))


def test_files_of_different_columns(tmp_path):
    GOOD.to_parquet(tmp_path / "0.parquet")
    GOOD.rename(columns={"b": "c"}).to_parquet(tmp_path / "1.parquet")
    with pytest.raises(ValueError, match=r"1.parquet has columns \['a', 'c'\] and .*\['a', 'b'\]"):
        open_file(tmp_path)
    with open_file(tmp_path, columns=["a"]) as source:
        np.testing.assert_array_equal(read(source)["x"][:, 0], [*range(6), *range(6)])


def test_text_that_only_claims_to_be_a_table(tmp_path):
    for name in ("x.parquet", "x.arrow", "x.npy"):
        (tmp_path / name).write_text("a,b\n1,2\n" * 100)
        with pytest.raises(ValueError, match=rf"{name} is .*no \S+ file"):
            open_file(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "module", "advice"),
    [
        ("x.parquet", "pyarrow.parquet", r"pip install 'implicitmoments\[files\]'"),
        ("x.arrow", "pyarrow", r"pip install 'implicitmoments\[files\]'"),
        ("x.csv", "pyarrow.csv", r"pip install 'implicitmoments\[files\]'"),
        ("x.zarr", "zarr", r"pip install 'implicitmoments\[zarr\]'"),
    ],
)
def test_a_library_that_is_not_installed(tmp_path, monkeypatch, name, module, advice):
    {**WRITE, **NUMBERS}[name](GOOD, tmp_path / name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=advice):
        open_file(tmp_path / name)


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
