"""What estimators take: rows of every kind give one fit; each is read and checked once."""

import numpy as np
import pandas as pd
import pyarrow.csv
import pytest

import implicitmoments as im
from implicitmoments.rows import GeneratedTable, Rows, Table, inputs, table
from support import refuses

X, _ = im.datasets.make_spherical_mixture(3_000, 3, 4, radius=5.0, random_state=0)
NAMES = ["a", "b", "c", "d"]


@pytest.fixture
def folder(tmp_path):
    frame = pd.DataFrame(X, columns=NAMES)
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    np.save(tmp_path / "x.npy", X)
    return tmp_path


KINDS = {
    "frame": lambda folder: pd.DataFrame(X, columns=NAMES),
    "lists": lambda folder: X.tolist(),
    "csv": lambda folder: folder / "x.csv",
    "parquet": lambda folder: str(folder / "x.parquet"),
    "npy": lambda folder: folder / "x.npy",
    "iterator": lambda folder: iter([X[:1_000], X[1_000:]]),
    "function": lambda folder: GeneratedTable(lambda rows, rng: X[rows.start : rows.stop], 3_000),
    "rows": lambda folder: Rows.of(X),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_rows_gives_one_fit(folder, kind):
    model = im.GaussianMixture(3, random_state=0).fit(KINDS[kind](folder))
    expected = im.GaussianMixture(3, random_state=0).fit(X)
    np.testing.assert_allclose(model.means_, expected.means_, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(KINDS[kind](folder)), expected.predict(X))
    named = kind in ("frame", "csv", "parquet")
    assert list(getattr(model, "feature_names_in_", [])) == (NAMES if named else [])


def test_a_file_is_read_once_by_predict(folder, monkeypatch):
    model = im.GaussianMixture(3, random_state=0).fit(folder / "x.csv")
    expected = model.predict(pd.DataFrame(X, columns=NAMES))
    streams, read = [], pyarrow.csv.open_csv

    def counted(path, *args, **how):
        streams.append(args[-1].column_types)
        return read(path, *args, **how)

    monkeypatch.setattr(pyarrow.csv, "open_csv", counted)
    wider = pd.read_csv(folder / "x.csv").assign(note="text")[["note", *NAMES[::-1]]]
    wider.to_csv(folder / "wider.csv", index=False)
    np.testing.assert_array_equal(model.predict(folder / "wider.csv"), expected)
    assert len([types for types in streams if types]) == 1  # the other looks at types alone


def test_numbers_are_checked_once(monkeypatch):
    calls = []
    monkeypatch.setattr(table, "check_finite", lambda *args: calls.append(args))
    im.SphericalMixture(3, random_state=0).fit(X)
    assert calls == []  # scikit-learn has checked the array

    class Counted(Table):
        n_rows, n_features, n_passes = 3_000, 4, 0

        def blocks(self, size):
            Counted.n_passes += size > 1
            for start in range(0, 3_000, size):
                yield {"x": X[start : start + size]}

    model = im.SphericalMixture(3, random_state=0).fit(X)
    model.predict(Counted())
    assert Counted.n_passes == 1


def test_numbers_of_rows_in_a_sample_of_a_view():
    marked = np.column_stack([np.arange(1_000.0), X[:1_000, 0]])
    rows = Rows.of(marked).kept_by(lambda block: block["x"][:, 1] > 0)
    for held in (rows.sample(50, 3), rows.hold(), rows.mapped(np.ones(2), 2.0).sample(50, 3)):
        assert len(held.numbers) == held.n < 1_000
        assert np.all(np.diff(held.numbers) > 0)
    np.testing.assert_array_equal(rows.sample(50, 3).points, marked[rows.sample(50, 3).numbers])
    np.testing.assert_array_equal(rows.hold().points, marked[rows.hold().numbers])


def test_typical_rows_of_a_view_have_the_numbers_of_the_data():
    from implicitmoments.plot.canvas import sample_rows  # noqa: PLC0415

    model = im.SphericalMixture(3, random_state=0).fit(X)
    view = Rows.of(X).kept_by(lambda block: block["x"][:, 0] > 0)
    sample = sample_rows(model, view, None, 200)
    np.testing.assert_array_equal(X[sample.numbers], sample.x)


@pytest.mark.parametrize(
    ("weights", "code"),
    [
        (np.full(3_000, 1e300), "entries_too_large"),
    ],
)
def test_weights_that_are_refused(weights, code):
    with refuses(code):
        im.GaussianMixture(2).fit(X, sample_weight=weights)


def test_weights_are_counts_or_proportions():
    counts = np.arange(3_000) % 3
    for weights, total in ((counts, 3_000), (counts / 7, 2_000), (counts + 0.5, 3_000)):
        with inputs.open_rows(im.GaussianMixture(2), X, None, weights) as (rows, _):
            assert rows.total == pytest.approx(total)
            assert rows.kept == np.count_nonzero(weights)


def test_other_inputs_that_are_refused(folder):
    model = im.GaussianMixture(2, random_state=0).fit(pd.DataFrame(X, columns=NAMES))
    with refuses("no_such_column"):
        pd.DataFrame(X, columns=["a", "b", "c", "z"]).to_parquet(folder / "z.parquet")
        model.predict(folder / "z.parquet")
    with refuses("wrong_n_features"):
        model.predict(Rows.of(X[:, :2]))
    with refuses("labels_missing"):
        im.RegressionMixture(2).fit(folder / "x.csv")
    with refuses("column_beside_rows", name="sample_weight"):
        model.fit(Rows.of(X), sample_weight=np.ones(3_000))
    with refuses("cell_not_a_number", column="b", row=1, cell="high"):
        model.fit(pd.DataFrame({"a": [1.0, 2.0], "b": ["3", "high"]}))
    with refuses("weights_invalid"):
        model.fit(folder / "x.npy", sample_weight=0)
    with refuses("entries_too_small", column="x1"):
        model.fit(X * np.array([1.0, 1e-200, 1.0, 1.0]))
    with refuses("entries_too_large"):
        model.fit(X * 1e200)
    with refuses("entries_masked"):
        model.fit(np.ma.masked_array(X, X > 5))
