"""Columns of Dask DataFrames, by name."""

import datetime

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import implicitmoments as im
from implicitmoments.rows import ArrayTable, DaskTable, RowDraws, Rows, map_rows
from support import refuses

N, D = 211, 4


@pytest.fixture(autouse=True)
def _one_at_a_time():
    with dask.config.set(scheduler="synchronous"):
        yield


def table():
    rng = np.random.default_rng(5)
    return rng.normal(size=(N, D)), rng.normal(size=N), rng.integers(0, 4, size=N)


def measure(block, rows):
    """Sums that depend on every column and on the numbers of the rows."""
    weights = block["y"] * block["counts"]
    return {
        "products": weights @ block["x"],
        "numbers": np.arange(rows.start, rows.stop) @ block["x"],
    }


def plain(block, rows):
    return {"total": block["x"].sum(axis=0)}


def frame():
    X, y, counts = table()
    columns = {name: X[:, i] for i, name in enumerate("abcd")}
    columns |= {"label": y, "times": counts, "flag": counts > 1}
    return pd.DataFrame(columns)


def test_all_columns_are_taken_by_default():
    lazy = dd.from_pandas(frame(), npartitions=4)
    source = DaskTable.from_frame(lazy, y="label", sample_weight="times")
    assert source.n_features == 5
    X, y, counts = table()
    expected = ArrayTable(np.c_[X, counts > 1], y=y, counts=counts).fold(measure, range(N), 50)
    for labels in ("label", lazy["label"], lazy["label"].to_dask_array()):
        source = DaskTable.from_frame(
            lazy, columns=[*"abcd", "flag"], y=labels, sample_weight="times"
        )
        found = source.fold(measure, range(N), 16)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value)


@pytest.mark.parametrize("apart", [False, True])
def test_partitions_of_files_that_dask_joins_stay_together(tmp_path, apart):
    X, y, counts = table()
    for i in range(9):
        frame().iloc[25 * i : 25 * (i + 1)].to_parquet(tmp_path / f"{i}.parquet")
    lazy = dd.read_parquet(tmp_path)
    assert lazy[["a"]].to_dask_array().numblocks[0] < 9  # fewer columns, fewer partitions
    labels, times = (lazy["label"], lazy["times"]) if apart else ("label", "times")
    source = DaskTable.from_frame(lazy, columns=list("abcd"), y=labels, sample_weight=times)
    expected = ArrayTable(X, y=y, counts=counts)
    assert (source.n_rows, Rows(source).total) == (N, Rows(expected).total)
    found, sums = (s.fold(measure, range(N), 16) for s in (source, expected))
    for name, value in sums.items():
        np.testing.assert_allclose(found[name], value)


def test_partitions_without_rows_are_passed_over():
    lazy = dd.from_pandas(frame(), npartitions=6)
    few = lazy[lazy["times"] > 2]
    kept = frame().query("times > 2").reset_index(drop=True)
    none = lazy[(lazy["a"] > 1) & (lazy.index > 150)]  # the first partitions are empty
    assert DaskTable.from_frame(few).n_rows == len(kept)
    source = DaskTable.from_frame(none, columns=["a", "b"])
    expected = frame().query("a > 1 and index > 150")[["a", "b"]].to_numpy()
    np.testing.assert_allclose(
        source.fold(plain, range(source.n_rows), 3)["total"], expected.sum(axis=0)
    )
    np.testing.assert_array_equal(source.pick(np.array([0, 2]))["x"], expected[[0, 2]])
    np.testing.assert_array_equal(source.read(range(1), RowDraws(0, range(1)))["x"], expected[:1])
    answers = map_rows(none, lambda x: x.mean(axis=1), columns=["a", "b"])
    np.testing.assert_allclose(answers.compute(), expected.mean(axis=1))


def test_float32_and_missing_numbers_of_frames():
    whole = frame().astype(dict.fromkeys("abcd", np.float32))
    whole["a"] = whole["a"].astype("Float32")
    source = DaskTable.from_frame(dd.from_pandas(whole, npartitions=2), columns=list("abcd"))
    assert source.read(range(1), RowDraws(0, range(1)))["x"].dtype == np.float32
    whole["flag"] = pd.array([1] * N, dtype="Int64")
    whole.loc[150, "flag"] = pd.NA
    source = DaskTable.from_frame(dd.from_pandas(whole, npartitions=2), y="flag")
    with refuses("not_finite", name="column 'flag'", n_rows=1, first=150):
        source.fold(plain, range(N), 50)


@pytest.mark.parametrize(
    ("how", "code", "values"),
    [
        ({"columns": ["a", "z"]}, "no_such_column", {"wanted": "z"}),
        ({"y": "lable"}, "no_such_column", {"wanted": "lable"}),
        ({"columns": "a"}, "columns_not_a_list", {"given": "a"}),
        ({"columns": []}, "columns_not_a_list", {"given": []}),
    ],
)
def test_columns_that_do_not_fit(how, code, values):
    with refuses(code, **values):
        DaskTable.from_frame(dd.from_pandas(frame(), npartitions=2), **how)


def test_frames_that_do_not_fit():
    lazy = dd.from_pandas(frame(), npartitions=2)
    with refuses("not_a_dask_array", kind="DataFrame"):
        DaskTable(lazy)
    with refuses("not_a_dask_frame", kind="DataFrame"):
        DaskTable.from_frame(frame())
    with refuses("no_features", names=["label"]):
        DaskTable.from_frame(lazy[["label"]], y="label")


COLUMN = np.random.default_rng(6).integers(0, 9, size=N) / 4
# each becomes the numbers above in a frame of pandas
TAKEN = {
    "objects": pd.Series(list(COLUMN), dtype=object),
    "text": pd.Series([repr(float(v)) for v in COLUMN]),
    "text as objects": pd.Series([repr(float(v)) for v in COLUMN], dtype=object),
    "categories": pd.Series(COLUMN).astype("category"),
    "categories of text": pd.Series([str(v) for v in COLUMN]).astype("category"),
}
words = [str(v) for v in COLUMN]
words[150] = "red"
# each is refused in a frame of pandas, by its first row that is no number
REFUSED = {
    "text": (pd.Series(words), 150),
    "categories": (pd.Series(words).astype("category"), 150),
    "dates": (pd.Series(pd.date_range("2020-01-01", periods=N)), 0),
    "dates of a zone": (pd.Series(pd.date_range("2020-01-01", periods=N, tz="UTC")), 0),
    "durations": (pd.Series(pd.to_timedelta(np.arange(N), unit="s")), 0),
    "periods": (pd.Series(pd.period_range("2020-01-01", periods=N)), 0),
    "dates as objects": (pd.Series([datetime.date(2020, 1, 1)] * N, dtype=object), 0),
}


def rows_of(column):
    """Return a frame with a column of any kind as pandas and Dask have it."""
    whole = pd.DataFrame({"a": table()[0][:, 0], "b": column, "c": 1.0})
    return whole, dd.from_pandas(whole, npartitions=4)


@pytest.fixture
def _objects_stay():
    """Let Dask make no strings of objects."""
    with dask.config.set({"dataframe.convert-string": False}):
        yield


@pytest.mark.parametrize("kind", TAKEN)
def test_columns_that_pandas_takes_as_numbers_are_taken(kind):
    whole, lazy = rows_of(TAKEN[kind])
    source = DaskTable.from_frame(lazy)
    expected = np.c_[whole["a"], COLUMN, np.ones(N)]
    np.testing.assert_array_equal(source.read(range(N), RowDraws(0, range(N)))["x"], expected)
    np.testing.assert_allclose(source.fold(plain, range(N), 50)["total"], expected.sum(axis=0))
    np.testing.assert_array_equal(map_rows(lazy, lambda x: x[:, 1]).compute(), COLUMN)
    model = im.SphericalMixture(1, random_state=0)
    there, here = (clone(model).fit(rows) for rows in (lazy[["a", "b"]], whole[["a", "b"]]))
    np.testing.assert_allclose(there.means_, here.means_, rtol=1e-12)
    np.testing.assert_allclose(
        np.asarray(here.score_samples(lazy)), here.score_samples(whole[["a", "b"]]), rtol=1e-12
    )


@pytest.mark.usefixtures("_objects_stay")
def test_objects_that_are_numbers_are_taken():
    _, lazy = rows_of(TAKEN["objects"])
    assert lazy.dtypes["b"].kind == "O"
    np.testing.assert_array_equal(map_rows(lazy, lambda x: x[:, 1]).compute(), COLUMN)


@pytest.mark.usefixtures("_objects_stay")
@pytest.mark.parametrize("kind", REFUSED)
def test_columns_that_pandas_refuses_are_refused_by_the_same_row(kind):
    column, row = REFUSED[kind]
    whole, lazy = rows_of(column)
    model = im.SphericalMixture(1, random_state=0)
    for rows in (whole, lazy):
        with refuses("cell_not_a_number", name="X", column="b", row=row, cell=column[row]):
            model.fit(rows)
    source = DaskTable.from_frame(lazy, columns=["a"], y="b")
    with refuses("cell_not_a_number", column="b", row=row):
        source.pick(np.arange(150, 160))
    with refuses("cell_not_a_number", column="b"):
        map_rows(lazy, lambda x: x[:, 1]).compute()


def test_a_column_that_is_missing_is_named():
    X, y, _ = im.datasets.make_regression_mixture(200, 1, 2, random_state=0)
    whole = pd.DataFrame(X, columns=["a", "b"]).assign(y=y)
    lazy = dd.from_pandas(whole, npartitions=2)
    model = im.RegressionMixture(1, random_state=0).fit(whole[["a", "b"]], y)
    asked = [lambda: model.predict(lazy[["a"]]), lambda: model.score(lazy[["a", "y"]], "y")]
    asked.append(lambda: model.score_samples(lazy[["a", "y"]], "y"))
    for ask in asked:
        with refuses("no_such_column", wanted="b"):
            ask()
    with refuses("no_such_column", wanted="z"):
        model.score_samples(lazy, "z")
    expected = model.score_samples(whole[["a", "b"]], y)
    for labels in ("y", lazy["y"], lazy["y"].to_dask_array()):
        found = np.asarray(model.score_samples(lazy, labels))
        np.testing.assert_allclose(found, expected, rtol=1e-12)
