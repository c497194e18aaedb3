"""Answers of a model go by the names of columns, wherever rows come from."""

import numpy as np
import pandas as pd
import pytest

import implicitmoments as im
from implicitmoments.datasets import make_regression_mixture, make_spherical_mixture
from implicitmoments.rows import open_file
from support import refuses

NAMES = list("abcd")


@pytest.fixture(scope="module")
def frame():
    X, _ = make_spherical_mixture(600, 3, 4, radius=8.0, separation=8.0, random_state=0)
    return pd.DataFrame(X, columns=NAMES)


@pytest.fixture(scope="module")
def model(frame):
    return im.SphericalMixture(3, random_state=0).fit(frame)


def write(frame, path):
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return str(path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_of_a_file_are_taken_by_name(model, frame, tmp_path, suffix):
    expected = model.score_samples(frame)
    turned = frame[NAMES[::-1]].assign(more=1.0)
    texts = turned.assign(id="k1")
    for number, table in enumerate((frame, turned, texts)):
        path = write(table, tmp_path / f"rows{number}{suffix}")
        np.testing.assert_allclose(model.score_samples(path), expected, rtol=1e-12)
        assert model.score(path) == pytest.approx(expected.mean(), rel=1e-12)


def test_a_file_without_a_column_of_the_fit_is_refused(model, frame, tmp_path):
    path = write(frame.rename(columns={"b": "e"}), tmp_path / "rows.csv")
    with refuses("no_such_column"):
        model.predict(path)


def test_a_file_without_names_goes_by_position(model, frame, tmp_path):
    np.save(tmp_path / "rows.npy", frame.to_numpy())
    found = model.predict(str(tmp_path / "rows.npy"))
    np.testing.assert_array_equal(found, model.predict(frame))


def test_sources_and_blocks_in_another_order_are_refused(model, frame, tmp_path):
    turned = frame[NAMES[::-1]]
    with refuses("feature_names_differ", expected=NAMES):
        model.predict(iter([turned]))
    path = write(turned, tmp_path / "rows.parquet")
    with (
        open_file(path) as source,
        refuses("feature_names_differ"),
    ):
        model.predict(source)
    with open_file(path, columns=NAMES) as source:
        np.testing.assert_array_equal(model.predict(source), model.predict(frame))


def test_labels_are_told_by_name_too(tmp_path):
    X, y, _ = make_regression_mixture(800, 2, 4, noise=0.3, random_state=0)
    frame = pd.DataFrame(X, columns=NAMES).assign(y=y)
    model = im.RegressionMixture(2, random_state=0).fit(frame[NAMES], y)
    path = write(frame[["y", *NAMES[::-1]]], tmp_path / "rows.csv")
    assert model.score(path, "y") == pytest.approx(model.score(frame[NAMES], y), rel=1e-12)


def test_dask_frames_are_taken_by_name(model, frame):
    dask = pytest.importorskip("dask.dataframe")
    turned = dask.from_pandas(frame[NAMES[::-1]].assign(more=1.0), npartitions=3)
    expected = model.score_samples(frame)
    np.testing.assert_allclose(np.asarray(model.score_samples(turned)), expected, rtol=1e-12)
    assert model.score(turned) == pytest.approx(expected.mean(), rel=1e-12)
    fitted = im.SphericalMixture(3, random_state=0).fit(turned[NAMES])
    assert list(fitted.feature_names_in_) == NAMES
