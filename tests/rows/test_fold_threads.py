"""Who has the threads: folds, or BLAS."""

import os
import subprocess
import sys

import numpy as np
import pytest

from implicitmoments.rows import (
    ArrayTable,
    as_table,
)

OF_FOLDS = """
import threading
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits
from implicitmoments.rows import ArrayTable, threads_for_folds

def blas_threads():
    return max(lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas")

def seen_threads():
    seen = set()
    ArrayTable(np.ones((1_000, 2))).fold(
        lambda block, rows: seen.add(threading.get_ident()) or {}, range(1_000), 10
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
        if len(at) > 1:  # and not the first row, by which the source is checked
            during()
        return X[at.start : at.stop]

    model.predict(GeneratedTable(rows, 400))

def fold(during):
    ArrayTable(X).fold(lambda block, rows: during() or {"n": 1}, range(400), 2)

def task(during):
    with dask.config.set(scheduler="synchronous"):
        source = DaskTable(da.from_array(X, chunks=(400, 2)))
        source.fold(lambda block, rows: during() or {"n": 1}, range(400), 100)

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


FORKED = """
import os, threading
from threadpoolctl import threadpool_info, threadpool_limits
from implicitmoments.rows import threads_for_folds

def blas_threads():
    return max(lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas")

held, done = threading.Event(), threading.Event()

def hold():
    with threads_for_folds():
        held.set()
        assert done.wait(600)

with threadpool_limits(2, user_api="blas"):
    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    child = os.fork()
    if not child:  # has no other thread
        before = blas_threads()
        with threads_for_folds():
            during = blas_threads()
        print(before, during, blas_threads(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    before = blas_threads()
    done.set()
    other.join()
    print(before, blas_threads())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="takes fork")
def test_a_forked_process_does_not_inherit_the_limits_of_other_threads():
    assert printed_by(FORKED) == ["2", "1", "2", "1", "2"]


def test_local_rows_are_numpy_arrays(xp):
    x = xp.ones((3, 2))
    local = isinstance(x, np.ndarray)
    assert ArrayTable(x).local is local
    assert not as_table(lambda rows, rng: rng.normal(3)).local
