"""Passes on worker processes of a cluster on this machine."""

import contextlib
import logging
import os
import signal
import threading
import time

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster
from sklearn.base import clone
from threadpoolctl import threadpool_info

from implicitmoments import GaussianMixture, SphericalMixture
from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.rows import DaskTable
from support import refuses

# of a cluster that is starting, losing a worker or closing
pytestmark = pytest.mark.filterwarnings("ignore")

N = 20_000


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


@pytest.fixture(scope="module")
def source():
    return DaskTable(da.random.default_rng(0).normal(1.0, size=(N, 4), chunks=(1_000, 2)))


@pytest.fixture(scope="module")
def points(source):
    return source._columns["x"].compute(scheduler="synchronous")


def test_a_pass_on_workers_gives_the_sums_of_the_rows(client, source, points):
    here = os.getpid()

    def gram(block, rows):
        blas = [i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"]
        return {
            "gram": block["x"].T @ block["x"],
            "crowded": np.asarray(max(blas) > 1),
            "here": np.asarray(os.getpid() == here),
        }

    found = source.fold(gram, range(N), 300)
    np.testing.assert_allclose(found["gram"], points.T @ points, rtol=1e-10)
    assert not found["crowded"]
    assert not found["here"]
    chosen = np.array([0, 999, 1_000, 19_999])
    np.testing.assert_array_equal(source.pick(chosen)["x"], points[chosen])


def test_a_bad_row_on_a_worker_is_named_here(client):
    rows = da.where(da.arange(N, chunks=1_000) == 12_345, np.nan, 1.0)[:, None]
    with refuses("not_finite", name="X", kind="NaN", first=12_345):
        DaskTable(rows).fold(lambda block, rows: {}, range(N), 300)


def test_a_worker_that_is_killed_changes_nothing(client, source, points, tmp_path):
    started = tmp_path / "started"

    def slow(block, rows):
        if rows.start > N // 4 and not started.exists():  # sums of other partitions die with it
            own = tmp_path / str(os.getpid())
            own.write_text(own.name)
            with contextlib.suppress(FileExistsError):  # the first worker that comes here
                os.link(own, started)
                time.sleep(60)
        return {**gram(block), "rows": np.asarray(len(rows))}

    def gram(block):
        return {"gram": block["x"].T @ block["x"]}

    def kill():
        while not started.exists():
            time.sleep(0.01)
        os.kill(int(started.read_text()), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found = source.fold(slow, range(N), 1_000)
    killer.join()
    assert found["rows"] == N
    with dask.config.set(scheduler="synchronous"):
        undisturbed = source.fold(lambda block, rows: gram(block), range(N), 1_000)
    np.testing.assert_array_equal(found["gram"], undisturbed["gram"])
    np.testing.assert_allclose(found["gram"], points.T @ points, rtol=1e-10)
    assert int(started.read_text()) not in client.run(os.getpid).values()


def test_rows_that_the_cluster_holds_are_passed_over(client):
    x = da.random.default_rng(1).normal(size=(3_000, 2), chunks=(1_000, 2)).persist()
    found = DaskTable(x).fold(
        lambda block, rows: {"sum": block["x"].sum(axis=0)}, range(3_000), 500
    )
    np.testing.assert_allclose(found["sum"], x.sum(axis=0).compute(), rtol=1e-9)
    chosen = np.array([1, 999, 1_000, 2_999])
    np.testing.assert_array_equal(DaskTable(x).pick(chosen)["x"], x.compute()[chosen])


X, TRUTH = make_spherical_mixture(N, 3, 4, radius=4.0, separation=4.0, random_state=0)


@pytest.mark.parametrize(
    "model",
    [
        SphericalMixture(3, random_state=0),
        GaussianMixture(3, means_init=TRUTH.vectors, n_moves=0, random_state=0),  # fewer passes
    ],
)
def test_a_fit_on_the_cluster_is_that_of_arrays(client, model):
    there = clone(model).fit(da.from_array(X, chunks=(3_000, 4)))
    here = clone(model).fit(X)
    np.testing.assert_allclose(there.means_, here.means_, rtol=1e-8)
