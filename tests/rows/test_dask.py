"""Rows of Dask arrays and frames: sums on the workers are those of arrays."""

import contextlib
import logging
import os
import signal
import threading
import time

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from threadpoolctl import threadpool_info

import implicitmoments as im
from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.rows import ArrayTable, DaskTable, Rows
from support import refuses

# of a cluster that is starting, losing a worker or closing
pytestmark = pytest.mark.filterwarnings("ignore")

N = 2_000
X, _ = make_spherical_mixture(N, 3, 4, radius=4.0, separation=4.0, random_state=0)
Y, COUNTS = X @ np.array([1.0, -1.0, 0.5, 2.0]), np.arange(N) % 3 + 0.0
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(label=Y, weight=COUNTS)


def of_arrays():
    chunked = [da.from_array(a, chunks=c) for a, c in ((X, (300, 2)), (Y, 700), (COUNTS, N))]
    return DaskTable(chunked[0], y=chunked[1], counts=chunked[2])


def of_frame():
    return DaskTable(dd.from_pandas(FRAME, npartitions=7), y="label", counts="weight")


def of_unknown():
    frame = dd.from_pandas(FRAME, npartitions=5)
    points, labels = frame[list("abcd")].to_dask_array(), frame["label"]
    return DaskTable(points, y=labels, counts=frame["weight"])


def sums(block):
    w = block["counts"]
    return {"x": w @ block["x"], "xx": block["x"].T @ block["x"], "y": float(w @ block["y"])}


def of_both():
    frame = dd.from_pandas(FRAME.drop(columns="label"), npartitions=3)
    return DaskTable(frame, y=dd.from_pandas(FRAME["label"], npartitions=3), counts="weight")


@pytest.mark.parametrize("make", [of_arrays, of_frame, of_unknown, of_both])
def test_rows_are_those_of_the_array(make):
    table, reference = make(), ArrayTable(X, y=Y, counts=COUNTS)
    assert (table.n_rows, table.n_features) == (N, 4)
    found, expected = (each.fold(sums, 256) for each in (table, reference))
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-10)
    np.testing.assert_array_equal(np.concatenate([b["x"] for b in table.blocks(999)]), X)
    some = np.array([0, 299, 300, 301, N - 1])
    np.testing.assert_array_equal(table.take(some)["y"], Y[some])
    one, other = (Rows(each).sample(100, 3).points for each in (table, reference))
    np.testing.assert_array_equal(one, other)


def test_sums_have_the_same_bits_on_any_scheduler():
    table, found = of_arrays(), []
    for scheduler in ("synchronous", "threads"):
        with dask.config.set(scheduler=scheduler):
            found.append(table.fold(sums, 100)["xx"])
    np.testing.assert_array_equal(*found)


def test_fits_and_answers_are_those_of_arrays():
    frame, model = dd.from_pandas(FRAME[list("abcd")], npartitions=4), im.GaussianMixture(3)
    there = model.set_params(random_state=0).fit(frame)
    here = im.GaussianMixture(3, random_state=0).fit(FRAME[list("abcd")])
    np.testing.assert_allclose(there.means_, here.means_, rtol=1e-8)
    assert list(there.feature_names_in_) == list("abcd")
    found = there.score_samples(frame)
    assert isinstance(found, da.Array)  # computes nothing yet
    np.testing.assert_allclose(found.compute(), here.score_samples(FRAME[list("abcd")]))
    assert there.score(frame) == pytest.approx(here.score(FRAME[list("abcd")]))
    lines = im.RegressionMixture(2, random_state=0)
    lines.fit(dd.from_pandas(FRAME, npartitions=4).drop(columns="weight"), "label")
    found = lines.score_samples(da.from_array(X, chunks=(500, 4)), da.from_array(Y))
    np.testing.assert_allclose(found.compute(), lines.score_samples(X, Y))


def test_text_of_a_frame_that_is_no_number():
    frame = FRAME[["a", "b"]].astype(object)
    frame.loc[1_234, "b"] = "high"
    with refuses("cell_not_a_number", column="b", cell="high"):
        im.GaussianMixture(2).fit(dd.from_pandas(frame, npartitions=3))
    digits = FRAME[["a", "b"]].astype(str)
    table = DaskTable(dd.from_pandas(digits, npartitions=3))
    np.testing.assert_allclose(table.take(np.arange(N))["x"], X[:, :2])


def test_rows_that_are_refused():
    bad = X.copy()
    bad[1_500, 2] = np.nan
    with refuses("not_finite", name="X", first=1_500):
        DaskTable(da.from_array(bad, chunks=(400, 4))).fold(lambda block: {}, 100)
    with refuses("weights_invalid"):
        im.GaussianMixture(2).fit(da.from_array(X), sample_weight=da.from_array(-COUNTS - 1))
    with refuses("wrong_length"):
        DaskTable(da.from_array(X), y=da.from_array(Y[:-1]))
    with refuses("no_such_column", wanted=["z"]):
        DaskTable(dd.from_pandas(FRAME), columns=["a", "z"])
    with refuses("wrong_axes"):
        DaskTable(da.ones(5)[:, None, None])


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def test_a_worker_that_is_killed_changes_nothing(client, tmp_path):
    started = tmp_path / "started"
    rows = da.random.default_rng(0).normal(1.0, size=(20_000, 4), chunks=(1_000, 2))
    table = DaskTable(rows)

    def gram(block):
        blas = [i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"]
        return {"gram": block["x"].T @ block["x"], "crowded": float(max(blas) > 1)}

    def slow(block):
        if not started.exists():  # sums of other partitions die with it
            own = tmp_path / str(os.getpid())
            own.write_text(own.name)
            with contextlib.suppress(FileExistsError):  # the first worker that comes here
                os.link(own, started)
                time.sleep(60)
        return {**gram(block), "rows": len(block["x"])}

    def kill():
        while not started.exists():
            time.sleep(0.01)
        os.kill(int(started.read_text()), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found = table.fold(slow, 1_000)
    killer.join()
    assert (found["rows"], found["crowded"]) == (20_000, 0)
    with dask.config.set(scheduler="synchronous"):
        undisturbed = table.fold(gram, 1_000)
    np.testing.assert_array_equal(found["gram"], undisturbed["gram"])
    assert int(started.read_text()) not in client.run(os.getpid).values()
    held = rows.persist()
    again = DaskTable(held).fold(gram, 1_000)
    np.testing.assert_allclose(again["gram"], found["gram"], rtol=1e-12)
