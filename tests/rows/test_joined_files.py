"""Rows of several files, one after the other."""

import os
import resource

import numpy as np
import pandas as pd
import pyarrow.feather
import pytest
import zarr

from implicitmoments.rows import RowDraws, open_file
from support import refuses

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
CUTS = [slice(0, 120), slice(120, 121), slice(121, 300)]
NAMED = {
    ".csv": lambda frame, path: frame.to_csv(path, index=False),
    ".tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    ".parquet": lambda frame, path: frame.to_parquet(path, row_group_size=50),
    ".arrow": pyarrow.feather.write_feather,
}
UNNAMED = {
    ".npy": lambda frame, path: np.save(path, frame.to_numpy()),
    ".zarr": lambda frame, path: zarr.create_array(path, data=frame.to_numpy(), chunks=(40, 3)),
    ".csv": lambda frame, path: frame.to_csv(path, index=False, header=False),
}
KINDS = {
    **{f"named {end}": [(end, write)] * 3 for end, write in NAMED.items()},
    **{f"unnamed {end}": [(end, write)] * 3 for end, write in UNNAMED.items()},
    "named, mixed": list(NAMED.items())[1:],
    "unnamed, mixed": list(UNNAMED.items()),
}


def write_all(folder, kinds, frame=FRAME):
    paths = []
    for number, ((end, write), rows) in enumerate(zip(kinds, CUTS, strict=True)):
        paths.append(folder / f"part{number}{end}")
        write(frame[rows].reset_index(drop=True), paths[-1])
    return paths


def read(source, rows=None):
    rows = range(source.n_rows) if rows is None else rows
    return source.read(rows, RowDraws(0, rows))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_come_in_the_order_of_the_files(kind, tmp_path):
    with open_file(write_all(tmp_path, KINDS[kind])) as source:
        assert (source.n_rows, source.n_features) == X.shape
        assert source.feature_names == (("a", "b", "c") if kind.startswith("named") else None)
        for rows in (range(300), range(100, 130), range(120, 121), range(7, 7), range(250, 300)):
            np.testing.assert_array_equal(read(source, rows)["x"], X[rows.start : rows.stop])
        for some in ([0, 119, 120, 121, 299], [120], [5, 200]):
            np.testing.assert_array_equal(source.pick(np.array(some))["x"], X[some])


@pytest.mark.parametrize("end", NAMED)
def test_columns_are_matched_by_name(end, tmp_path):
    paths = write_all(tmp_path, [(end, NAMED[end])] * 3)
    NAMED[end](FRAME[CUTS[2]][["c", "a", "b"]].reset_index(drop=True), paths[2])
    with open_file(paths, y="b") as source:
        assert source.feature_names == ("a", "c")
        np.testing.assert_array_equal(read(source)["x"], X[:, [0, 2]])
        np.testing.assert_array_equal(read(source)["y"], X[:, 1])


@pytest.mark.parametrize("end", NAMED)
def test_a_file_of_other_columns_is_named(end, tmp_path):
    paths = write_all(tmp_path, [(end, NAMED[end])] * 3)
    about = {"file": str(paths[1]), "other_file": str(paths[0])}
    for columns, name in ((["a", "b", "d"], "c"), (["a", "b"], "c"), (["a", "b", "c", "d"], "d")):
        NAMED[end](FRAME.assign(d=1.0)[CUTS[1]][columns].reset_index(drop=True), paths[1])
        with refuses("columns_differ", column=name, **about):
            open_file(paths)
        with open_file(paths, columns=["a", "b"]) as source:
            np.testing.assert_array_equal(read(source)["x"], X[:, :2])
    NAMED[end](FRAME[CUTS[1]][["a", "b"]].reset_index(drop=True), paths[1])
    with refuses("no_such_column", file=str(paths[1]), wanted="c"):
        open_file(paths, columns=["c"])


def test_columns_by_number_are_the_same_in_every_file(tmp_path):
    paths = write_all(tmp_path, KINDS["named .csv"])
    NAMED[".csv"](FRAME[CUTS[1]][["b", "a", "c"]], paths[1])
    with refuses("columns_differ", file=str(paths[1])):
        open_file(paths, columns=[0, 2])


def test_files_with_names_and_without(tmp_path):
    paths = write_all(tmp_path, KINDS["named .csv"])
    np.save(tmp_path / "x.npy", X)
    with refuses("names_differ", file=str(tmp_path / "x.npy"), other_file=str(paths[0])):
        open_file([*paths, tmp_path / "x.npy"])


def test_arrays_of_different_widths(tmp_path):
    np.save(tmp_path / "0.npy", X)
    np.save(tmp_path / "1.npy", X[:, :2])
    with refuses("columns_differ", file=str(tmp_path / "1.npy"), column="x2"):
        open_file([tmp_path / "0.npy", tmp_path / "1.npy"])


def test_labels_of_a_second_file_are_for_one_array(tmp_path):
    np.save(tmp_path / "0.npy", X)
    np.save(tmp_path / "y.npy", X[:, 0])
    for y in (tmp_path / "y.npy", X[:, 0]):
        with refuses("not_a_column", what="y"):
            open_file([tmp_path / "0.npy", tmp_path / "0.npy"], y=y)


def test_precision_is_that_of_the_most_precise_file(tmp_path):
    np.save(tmp_path / "0.npy", X.astype(np.float32))
    np.save(tmp_path / "1.npy", X)
    paths = [tmp_path / "0.npy", tmp_path / "0.npy", tmp_path / "1.npy"]
    for files, kind in ((paths, np.float64), (paths[:2], np.float32)):
        with open_file(files) as source:
            assert read(source, range(2))["x"].dtype == kind
            assert source.pick(np.array([1]))["x"].dtype == kind


@pytest.mark.parametrize("kind", KINDS)
def test_a_hole_is_named_by_its_file_and_row(kind, tmp_path):
    frame = FRAME.copy()
    frame.loc[130, "b"] = np.nan
    paths = write_all(tmp_path, KINDS[kind], frame)
    named = kind.startswith("named")
    where = {"file": str(paths[2]), "name": "feature 'b'" if named else "feature 'x1'"}
    text = paths[2].suffix in (".csv", ".tsv")
    where |= {"unit": "line", "first": 10 + named} if text else {"unit": "row", "first": 9}
    with refuses("not_finite", **where), open_file(paths) as source:
        read(source)
    with open_file(paths, drop_missing=True) as source:
        assert (source.n_rows, source.n_dropped) == (299, 1)
        np.testing.assert_array_equal(read(source)["x"], np.delete(X, 130, axis=0))
    with open_file(paths, keep_missing=True) as source:
        np.testing.assert_array_equal(read(source)["x"], frame.to_numpy())
    with refuses("kept_and_dropped"):
        open_file(paths, drop_missing=True, keep_missing=True)


@pytest.mark.parametrize("drop_missing", [False, True])
@pytest.mark.parametrize("end", NAMED)
def test_a_file_without_rows_among_others(end, drop_missing, tmp_path):
    empty = tmp_path / f"empty{end}"
    NAMED[end](FRAME[:0], empty)
    paths = write_all(tmp_path, [(end, NAMED[end])] * 3)
    with open_file([empty, *paths, empty], drop_missing=drop_missing) as source:
        np.testing.assert_array_equal(read(source)["x"], X)
    with refuses("no_rows"):
        open_file([empty, empty], drop_missing=drop_missing)


def test_many_text_files_take_one_open_file(tmp_path):
    paths = [tmp_path / f"{number:04d}.csv" for number in range(400)]
    for number, path in enumerate(paths):
        path.write_text(f"a,b\n{number},1\n")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 100, before[1]))
    try:
        with open_file(paths) as source:
            np.testing.assert_array_equal(read(source)["x"][:, 0], range(400))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
