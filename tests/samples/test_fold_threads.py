"""Who has the threads: folds, or BLAS."""

import threading

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from implicitmoments.samples import (
    ArraySource,
    CountedSource,
    MappedSource,
    as_source,
    threads_for_folds,
)


def blas_threads():
    return max(found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas")


def seen_threads(source):
    seen = set()

    def measure(block, rows):
        seen.add(threading.get_ident())
        return {"n": len(rows), "most": blas_threads()}

    assert source.fold(measure, range(1_000), 10)["n"] == 1_000
    return seen


def test_folds_take_the_threads_of_blas():
    source, here = ArraySource(np.ones((1_000, 2))), threading.get_ident()
    with threadpool_limits(2, user_api="blas"):
        with threads_for_folds():
            assert blas_threads() == 1
            assert here not in seen_threads(source)
            with threads_for_folds():  # a fit within a fit
                assert here not in seen_threads(source)
        assert blas_threads() == 2
    with threadpool_limits(1, user_api="blas"), threads_for_folds():
        assert seen_threads(source) == {here}


def test_local_rows_are_numpy_arrays_whatever_is_around_them(xp):
    x = xp.ones((3, 2))
    local = isinstance(x, np.ndarray)
    source = ArraySource(x)
    assert source.local is local
    assert MappedSource(source, lambda block: block).local is local
    assert CountedSource(source, xp.ones(3)).local is local
    assert not as_source(lambda rows, rng: rng.normal(3)).local
