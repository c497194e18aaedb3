"""Every estimator fits the same model, wherever its rows are."""

from functools import cache, partial
from itertools import pairwise

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather
from sklearn.base import clone

import implicitmoments as im
from support import refuses

N = 20_000
POINTS, _ = im.datasets.make_spherical_mixture(N, 3, 4, radius=3.0, separation=4.0, random_state=0)
NEAR, _ = im.datasets.make_spherical_mixture(N, 3, 4, radius=1.2, random_state=0)
LINES = im.datasets.make_regression_mixture(N, 2, 3, noise=1.0, random_state=0)[:2]
SUMS = im.datasets.make_activation_sum(N, 2, 3, random_state=0)[:2]
CASES = {
    **{
        f"GaussianMixture {name}": (
            im.GaussianMixture(3, covariance_type=name, random_state=0),
            (POINTS,),
            "score_samples",
        )
        for name in ("full", "tied", "diag", "auto")
    },
    "SphericalMixture": (im.SphericalMixture(3, random_state=0), (POINTS,), "score_samples"),
    "SphericalMixtureDensity": (
        im.SphericalMixtureDensity(3, degree=4, random_state=0),
        (NEAR,),
        "score_samples",
    ),
    "SphericalMixtureClusterer": (
        im.SphericalMixtureClusterer(3, random_state=0),
        (2 * POINTS,),
        "predict",
    ),
    "RegressionMixture": (im.RegressionMixture(2, random_state=0), LINES, "score_samples"),
    "RegressionMixtureDensity": (
        im.RegressionMixtureDensity(2, degree=4, random_state=0),
        LINES,
        "score_samples",
    ),
    "ActivationSumRegressor": (
        im.ActivationSumRegressor("relu", 2, random_state=0),
        SUMS,
        "predict",
    ),
}


# answers are asked for rows without the names of the file
pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")


@cache
def example(name):
    """Return an estimator, its rows, and answers of a fit to arrays in memory."""
    model, data, method = CASES[name]
    ask = partial(answers, data=data, method=method)
    return model, data, ask, ask(clone(model).fit(*data))


@pytest.fixture(params=CASES)
def case(request):
    return example(request.param)


def answers(model, data, method):
    asked = data[:1] if method == "predict" else data
    return getattr(model, method)(*(column[:50] for column in asked))


def table(data):
    """Return the columns as one matrix, and the place of the labels."""
    return np.column_stack(data), (data[0].shape[1] if len(data) == 2 else None)


def write(folder, kind, data):
    """Write rows to a file; return how to fit it."""
    matrix, y = table(data)
    names = [f"c{i}" for i in range(matrix.shape[1])]
    if kind == "npy":
        np.save(folder / "rows.npy", matrix)
        return folder / "rows.npy", y
    rows = pa.table(dict(zip(names, matrix.T, strict=True)))
    path = folder / f"rows.{kind}"
    if kind == "parquet":
        pq.write_table(rows, path)
    elif kind == "csv":
        csv.write_csv(rows, path)
    else:
        feather.write_feather(rows, path)
    return path, None if y is None else names[y]


def fit(model, X, y, **how):
    return model.fit(X, **({} if y is None else {"y": y}), **how)


# the type of the covariances does not change how a file is read
FILES = [
    (name, kind)
    for name in CASES
    for kind in ("npy", "parquet", "csv", "arrow")
    if kind == "npy" or name not in [f"GaussianMixture {t}" for t in ("tied", "diag", "auto")]
]


@pytest.mark.parametrize(("case", "kind"), FILES, indirect=["case"])
def test_fits_a_file(case, kind, tmp_path):
    model, data, ask, expected = case
    fitted = fit(clone(model), *write(tmp_path, kind, data))
    np.testing.assert_allclose(ask(fitted), expected, rtol=1e-6, atol=1e-9)
    assert (kind == "npy") != hasattr(fitted, "feature_names_in_")


def test_fits_blocks_of_an_iterator(case):
    model, data, ask, expected = case
    cuts = [0, 7_001, 7_002, 15_000, N]
    parts = (
        tuple(column[a:b] for column in data) if len(data) == 2 else data[0][a:b]
        for a, b in pairwise(cuts)
    )
    np.testing.assert_allclose(ask(clone(model).fit(parts)), expected, rtol=1e-6, atol=1e-9)


def test_fits_dask_arrays_and_answers_them_lazily(case):
    model, data, ask, expected = case
    there = [da.from_array(column, chunks=(4_500, *column.shape[1:])) for column in data]
    with dask.config.set(scheduler="synchronous"):
        fitted = clone(model).fit(*there)
        np.testing.assert_allclose(ask(fitted), expected, rtol=1e-6, atol=1e-9)
        lazy = ask(fitted, data=there)
        assert hasattr(lazy, "__dask_graph__")
        np.testing.assert_allclose(lazy.compute(), expected, rtol=1e-6, atol=1e-9)


def test_fits_a_dask_frame(case):
    model, data, ask, expected = case
    matrix, y = table(data)
    names = [f"c{i}" for i in range(matrix.shape[1])]
    frame = dd.from_pandas(pd.DataFrame(matrix, columns=names), npartitions=3)
    with dask.config.set(scheduler="synchronous"):
        fitted = fit(clone(model), frame, None if y is None else names[y])
    np.testing.assert_allclose(ask(fitted), expected, rtol=1e-6, atol=1e-9)


class StoppedError(Exception):
    """A fit that is interrupted."""


def test_goes_on_from_a_checkpoint_to_the_same_bits(case, tmp_path):
    model, data, ask, _ = case
    if isinstance(model, im.ActivationSumRegressor):  # it holds rows that fit in memory otherwise
        model = clone(model).set_params(rows_per_block=4_096)
    path, y = write(tmp_path, "npy", data)
    seen = []
    whole = fit(clone(model), path, y, progress=lambda *told: seen.append(told))
    assert all(done <= total for _, done, total in seen)
    for share in (0.3, 0.8):
        left = int(share * len(seen))

        def stop(*_):
            nonlocal left
            left -= 1
            if left < 0:
                raise StoppedError

        checkpoint = tmp_path / f"checkpoint{share}"
        with pytest.raises(StoppedError):
            fit(clone(model), path, y, checkpoint=checkpoint, progress=stop)
        resumed = fit(clone(model), path, y, checkpoint=checkpoint)
        np.testing.assert_array_equal(ask(resumed), ask(whole))
    other = clone(model).set_params(random_state=1)
    with refuses("checkpoint_of_another_fit"):
        fit(other, path, y, checkpoint=checkpoint)
