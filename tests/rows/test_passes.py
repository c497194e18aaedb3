"""Passes: sums in the order of the rows, for any number of threads, and threads of BLAS."""

import subprocess
import sys

import numpy as np
import pytest

from implicitmoments.arrays import threads_for_folds
from implicitmoments.rows import ArrayTable, Rows, fold_blocks

OF_FOLDS = """
import threading
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits
from implicitmoments.arrays import threads_for_folds
from implicitmoments.rows import ArrayTable

def blas_threads():
    return max(lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas")

def seen_threads():
    seen = set()
    ArrayTable(np.ones((1_000, 2))).fold(
        lambda block: seen.add(threading.get_ident()) or {}, 10
    )
    return seen

here = threading.get_ident()
with threadpool_limits(2, user_api="blas"):
    with threads_for_folds():
        print(blas_threads(), here in seen_threads())
        with threads_for_folds():  # a fit within a fit
            print(here in seen_threads())
    print(blas_threads())
with threadpool_limits(1, user_api="blas"), threads_for_folds():
    print(seen_threads() == {here})
"""


def printed_by(script):
    # the threads of BLAS are those of a process, and other tests set them too
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    return done.stdout.split()


def test_folds_take_the_threads_of_blas():
    assert printed_by(OF_FOLDS) == ["1", "False", "False", "2", "True"]


OVERLAP = """
import os, threading
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits
import dask, dask.array as da
import implicitmoments as im
from implicitmoments.rows import ArrayTable, GeneratedTable, DaskTable

X = np.random.default_rng(0).normal(size=(400, 2))
model = im.SphericalMixture(1, random_state=0).fit(X)

def blas_threads():
    return max(lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas")

def fit(during):
    im.SphericalMixture(1, random_state=0).fit(X, progress=lambda *_: during())

def answer(during):
    def rows(at, rng):
        if len(at) > 1:  # and not the first row, by which the table is checked
            during()
        return X[at.start : at.stop]

    model.predict(GeneratedTable(rows, 400))

def fold(during):
    ArrayTable(X).fold(lambda block: during() or {"n": 1}, 2)

def task(during):
    with dask.config.set(scheduler="synchronous"):
        table = DaskTable(da.from_array(X, chunks=(400, 2)))
        table.fold(lambda block: during() or {"n": 1}, 100)

def overlap(first, second):
    \"""The first begins before the second, and ends before it.\"""
    begun, over, ended = (threading.Event() for _ in range(3))

    def during_first():
        begun.set()
        assert over.wait(600)

    def during_second():
        over.set()
        assert ended.wait(600)

    def run_first():
        first(during_first)
        ended.set()

    threads = [threading.Thread(target=run_first)]
    threads.append(threading.Thread(target=lambda: second(during_second)))
    threads[0].start()
    assert begun.wait(600)
    threads[1].start()
    for thread in threads:
        thread.join()
    return blas_threads()

# In a thread that ends: threadpoolctl may ignore others while the one that set a limit lives.
setting = threading.Thread(target=lambda: threadpool_limits(2, user_api="blas"))
setting.start()
setting.join()
calls = [fit, answer, fold, task]
print(*(overlap(first, second) for first in calls for second in calls))
with threadpool_limits(3, user_api="blas"):  # set by this thread
    print(overlap(fit, answer), overlap(task, fold))
print(blas_threads())
"""


def test_calls_that_overlap_restore_the_threads_of_blas():
    assert printed_by(OVERLAP) == [*"2" * 16, "3", "3", "2"]


@pytest.mark.parametrize("n", [30, 1_000, 4_321])
def test_sums_have_the_same_bits_for_any_number_of_threads(rng, n):
    X = rng.standard_normal((n, 5)) * 10.0 ** rng.integers(-8, 9, (n, 5))

    def measure(block):
        return {"x": block["x"].sum(axis=0), "xx": block["x"].T @ block["x"]}

    def fold(n_threads):
        with threads_for_folds(n_threads):
            return Rows(ArrayTable(X), rows_per_block=17).fold(measure)

    expected = fold(1)
    for n_threads in (2, 3, 8):
        found = fold(n_threads)
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name])
    backwards = Rows(ArrayTable(X[::-1]), rows_per_block=17).fold(measure)
    assert np.any(backwards["x"] != expected["x"])  # the order matters: the control


def test_an_error_of_a_measure_ends_the_pass():
    def measure(block):
        if block["x"][0, 0] == 50:
            raise ZeroDivisionError
        return {}

    with threads_for_folds(2), pytest.raises(ZeroDivisionError):
        ArrayTable(np.arange(100.0)[:, None]).fold(measure, 5)


def test_blocks_are_told_to_the_caller_in_order():
    seen = []
    pieces = ({"x": np.ones((1, 1))} for i in range(40))
    with threads_for_folds(3):
        fold_blocks(pieces, lambda block: {"n": len(block["x"])}, 40, seen.append)
    assert seen == list(range(1, 41))
