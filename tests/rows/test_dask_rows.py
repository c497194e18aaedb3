import copy
import subprocess
import sys

import cloudpickle
import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicitmoments.moments import HermiteProblem, implicit_moments
from implicitmoments.rows import (
    ArraySource,
    DaskSource,
    RowDraws,
    Rows,
    map_rows,
)
from support import refuses

N, D = 211, 4


@pytest.fixture(autouse=True)
def _one_at_a_time():
    with dask.config.set(scheduler="synchronous"):
        yield


def table(dtype=np.float64):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, D)).astype(dtype)
    return X, rng.normal(size=N).astype(dtype), rng.integers(0, 4, size=N)


def measure(block, rows):
    """Sums that depend on every column and on the numbers of the rows."""
    numbers = np.arange(rows.start, rows.stop, dtype=block["x"].dtype)
    weights = block["y"] * block["counts"]
    return {
        "gram": block["x"].T @ (weights[:, None] * block["x"]),
        "numbers": numbers @ block["x"],
        "rows": np.asarray(len(rows)),
    }


def plain(block, rows):
    return {"total": block["x"].sum(axis=0)}


class Watched:
    """A scheduler that keeps what it was asked for."""

    def __init__(self):
        self.graphs, self.wanted = [], []

    def __call__(self, graph, keys, **_):
        if hasattr(graph, "__dask_graph__"):
            graph = graph.optimize().__dask_graph__()
        self.graphs.append(dict(graph))
        self.wanted.append(keys)
        return dask.get(graph, keys)

    def tasks(self, name):
        return sum(name in str(key) for key in self.graphs[-1])


@pytest.fixture
def watched():
    watch = Watched()
    with dask.config.set(scheduler=watch):
        yield watch


class ComputedEarlyError(Exception):
    pass


def refuse(graph, keys, **_):
    raise ComputedEarlyError


cuts = st.lists(st.integers(1, N - 1), unique=True, max_size=12).map(
    lambda edges: tuple(np.diff([0, *sorted(edges), N]).tolist())
)


@given(
    x_chunks=cuts,
    y_chunks=cuts,
    column_chunk=st.integers(1, D),
    ends=st.tuples(st.integers(0, N - 1), st.integers(1, N)).map(sorted),
    rows_per_block=st.integers(1, N),
    single=st.booleans(),
)
def test_any_chunks_give_the_sums_and_rows_of_an_array(
    x_chunks, y_chunks, column_chunk, ends, rows_per_block, single
):
    X, y, counts = table(np.float32 if single else np.float64)
    whole = ArraySource(X, y=y, counts=counts)
    source = DaskSource(
        da.from_array(X, chunks=(x_chunks, column_chunk)),
        y=da.from_array(y, chunks=(y_chunks,)),
        counts=da.from_array(counts, chunks=50),
    )
    rows = range(ends[0], max(ends[1], ends[0] + 1))
    found, expected = (s.fold(measure, rows, rows_per_block) for s in (source, whole))
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_allclose(found[name], value, rtol=2e-4 if single else 1e-10, atol=2e-3)
    chosen = np.unique([rows.start, *np.arange(rows.start, rows.stop, 7), rows.stop - 1])
    picked, taken = source.pick(chosen), whole.pick(chosen)
    read = source.read(rows, RowDraws(0, rows))
    for name, value in taken.items():
        assert picked[name].dtype == read[name].dtype == X.dtype
        np.testing.assert_array_equal(picked[name], value)
        np.testing.assert_array_equal(read[name], whole.read(rows, RowDraws(0, rows))[name])
    assert Rows(source).total == Rows(whole).total
    assert (source.n_rows, source.n_features) == (N, D)


def test_the_bits_do_not_depend_on_the_scheduler():
    X, y, counts = table()
    columns = (da.from_array(a, chunks=17) for a in (X, y, counts))
    source = DaskSource(next(columns), y=next(columns), counts=next(columns))
    one = source.fold(measure, range(N), 8)
    with dask.config.set(scheduler="threads", num_workers=4):
        other = source.fold(measure, range(N), 8)
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_nothing_is_computed_before_rows_are_asked_for():
    X, y, _ = table()
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")), npartitions=3)
    with dask.config.set(scheduler=refuse):
        source = DaskSource(da.from_array(X, chunks=(50, 2)), y=da.from_array(y, chunks=30))
        assert (source.n_rows, source.n_features, Rows(source).n) == (N, D, N)
        assert DaskSource.from_frame(frame, y="d").n_features == 3
        assert map_rows(source._columns["x"], np.sum).chunks == ((50, 50, 50, 50, 11),)
        assert map_rows(frame, np.sum, width=2).shape[1] == 2
        with pytest.raises(ComputedEarlyError):
            source.fold(plain, range(N), 10)


def test_rows_of_a_frame_are_counted_once_by_one_column(watched):
    X, _, _ = table()
    source = DaskSource.from_frame(
        dd.from_pandas(pd.DataFrame(X, columns=list("abcd")), npartitions=5), y="d"
    )
    assert source.n_rows == source.n_rows == N
    assert len(watched.graphs) == 1
    assert source._lengths_of.shape[1] == 1
    np.testing.assert_allclose(source.fold(plain, range(N), 10)["total"], X[:, :3].sum(axis=0))
    assert len(watched.graphs) == 2


def test_one_measure_one_result_and_a_tree_of_sums(watched):
    held = np.ones(50_000)

    def heavy(block, rows):
        return {"total": block["x"].sum(axis=0) + 0 * held.sum()}

    sizes = {}
    for chunk in (50, 1):
        DaskSource(da.zeros((100, 2), chunks=(chunk, 2))).fold(heavy, range(100), 10)
        sizes[chunk] = len(cloudpickle.dumps(watched.graphs[-1]))
        assert len(watched.wanted[-1]) == 1
    assert sizes[50] < 2 * held.nbytes
    assert sizes[1] - sizes[50] < 100 * 1_000  # a partition more is less than a kilobyte more
    # the measure, partitions that make their rows themselves, and what adds them up
    assert len(watched.graphs[-1]) == watched.tasks("fold-") == 1 + 100 + 13 + 2 + 1


def test_only_partitions_that_are_asked_for_are_computed(watched):
    source = DaskSource(da.zeros((100, 2), chunks=(10, 2)))
    source.fold(plain, range(25, 41), 4)
    assert watched.tasks("fold-") == 1 + 3 + 1
    source.pick(np.array([3, 4, 99]))
    assert watched.tasks("pick-") == 2
    for _ in range(3):
        source.read(range(1), RowDraws(0, range(1)))
    assert len(watched.graphs) == 3


class Stored:
    """An array outside memory, which notes how many rows are read at a time."""

    def __init__(self, array):
        self.array, self.lengths = array, set()
        self.shape, self.ndim, self.dtype = array.shape, array.ndim, array.dtype

    def __getitem__(self, where):
        part = self.array[where].copy()
        self.lengths.add(len(part))
        return part


def test_a_row_is_read_without_the_rest_of_its_chunk():
    stored = Stored(np.ones((1_000, 2)))
    source = DaskSource(da.from_array(stored, chunks=(500, 2), asarray=False))
    np.testing.assert_array_equal(source.read(range(1), RowDraws(0, range(1)))["x"], [[1.0, 1.0]])
    assert max(stored.lengths) == 1
    source.fold(plain, range(1_000), 100)
    assert max(stored.lengths) == 500


def test_a_source_leaves_its_rows_behind_when_it_is_pickled():
    X, _, _ = table()
    sizes = set()
    for chunk in (1, N):
        problem = HermiteProblem(DaskSource(da.from_array(X, chunks=(chunk, D))))
        assert problem.rows.n == N
        data = cloudpickle.dumps(lambda block, rows, held=problem: held.weigh(2, block))
        sizes.add(len(data))
    assert len(sizes) == 1
    assert max(sizes) < 2_000
    absent = cloudpickle.loads(cloudpickle.dumps(problem)).rows.source
    assert (absent.n_rows, absent.n_features) == (N, D)
    with refuses("rows_elsewhere"):
        absent.read(range(1), RowDraws(0, range(1)))
    assert copy.deepcopy(problem).rows.source is problem.rows.source


def test_sums_before_are_added_and_the_end_is_told_once():
    X, _, _ = table()
    told = []
    source = DaskSource(da.from_array(X, chunks=(20, D)))
    first = source.fold(plain, range(90), 7)
    both = source.fold(
        plain, range(90, N), 7, initial=first, after=lambda sums, row: told.append((sums, row))
    )
    np.testing.assert_allclose(both["total"], X.sum(axis=0))
    assert told == [(both, N)]
    assert source.fold(plain, range(0), 7, initial=first).keys() == first.keys()


def test_views_pass_over_the_rows_where_they_are(watched):
    X, _, counts = table()
    lazy = DaskSource(da.from_array(X, chunks=(20, D)))
    found, expected = (
        Rows(source, linear=2.0, rows_per_block=16)
        .transformed(lambda b: {**b, "x": b["x"] ** 3})
        .weighted(counts)
        for source in (lazy, ArraySource(X))
    )

    def counted(block):
        return {"total": block["counts"] @ block["x"]}

    assert found.n_features == D
    watched.graphs.clear()
    sums = found.fold(counted)["total"]
    assert len(watched.graphs) == 1
    np.testing.assert_allclose(sums, expected.fold(counted)["total"])


def test_moments_are_those_of_the_array():
    X, _, _ = table()
    both = [
        implicit_moments(HermiteProblem(rows), n_components=2, order=4)
        for rows in (X, DaskSource(da.from_array(X, chunks=(70, 3))))
    ]
    np.testing.assert_allclose(both[0].hermite(X[:9]), both[1].hermite(X[:9]), rtol=1e-9)


def test_rows_that_lie_askew_in_memory_give_the_same_bits():
    X, _, _ = table()
    askew = np.frombuffer(b"-" + X.tobytes(), np.uint8)[1:].view(np.float64).reshape(X.shape)
    assert not askew.flags.aligned
    sums = [
        DaskSource(da.from_array(rows, chunks=(50, -1), asarray=False, name=False)).fold(
            lambda block, rows: {"gram": block["x"].T @ block["x"]}, range(N), 50
        )
        for rows in (X, askew, np.asfortranarray(X))
    ]
    np.testing.assert_array_equal(sums[0]["gram"], sums[1]["gram"])
    np.testing.assert_array_equal(sums[0]["gram"], sums[2]["gram"])


THREADS = """
import threading
import dask, dask.array as da, numpy as np
from threadpoolctl import threadpool_info, threadpool_limits
from implicitmoments.rows import DaskSource

def blas_threads():
    return max(i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas")

seen, both = set(), threading.Barrier(2)

def measure(block, rows):
    if rows.start % 100 == 0 and rows.start < 200:
        both.wait(600)  # two tasks are in their first block at a time, and one ends first
    seen.add((threading.current_thread().name, blas_threads()))
    return {"n": np.asarray(len(rows))}

source = DaskSource(da.zeros((400, 2), chunks=(100, 2)))
with threadpool_limits(2, "blas"), dask.config.set(scheduler="threads", num_workers=2):
    before = blas_threads()
    total = source.fold(measure, range(400), 2)["n"]
    print(total, {n for _, n in seen}, len(seen) <= 2, blas_threads() == before)
"""


def test_tasks_that_overlap_have_one_thread_each_and_start_none():
    # the threads of BLAS are those of a process, and other tests set them too
    command = [sys.executable, "-c", THREADS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "400 {1} True True\n", done.stderr


def test_answers_are_lazy_and_in_the_chunks_of_the_rows():
    X, _, _ = table(np.float32)
    x = da.from_array(X, chunks=((100, 100, 11), 3))
    sums = map_rows(x, lambda rows: rows.sum(axis=1), dtype=np.float32)
    assert (sums.shape, sums.chunks, sums.dtype) == ((N,), ((100, 100, 11),), np.float32)
    np.testing.assert_allclose(sums.compute(), X.sum(axis=1), rtol=1e-5)
    pairs = map_rows(x, lambda rows: rows[:, :2], width=2)
    assert (pairs.shape, pairs.dtype) == ((N, 2), np.float64)
    np.testing.assert_array_equal(pairs.compute(), X[:, :2])
    with refuses("wrong_answers"):
        map_rows(x, lambda rows: rows[:, :3], width=2).compute()


def test_rows_that_passed_are_not_checked_again():
    X = np.ones((40, 2))
    source = DaskSource(da.from_array(Stored(X), chunks=(10, 2), asarray=False, name=False))
    source.fold(plain, range(20), 10)
    X[3] = np.nan
    with refuses("not_finite", first=3):
        source.fold(plain, range(20), 10)
    X[3] = 1.0
    source.fold(plain, range(40), 10)  # all rows were seen
    X[3] = np.nan
    assert np.isnan(source.fold(plain, range(20), 10)["total"]).all()
