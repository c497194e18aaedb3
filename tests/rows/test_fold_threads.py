"""Who has the threads: folds, or BLAS."""

import subprocess
import sys

import numpy as np

from implicitmoments.rows import (
    ArraySource,
    as_source,
)

OF_FOLDS = """
import threading
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits
from implicitmoments.rows import ArraySource, threads_for_folds

def blas_threads():
    return max(lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas")

def seen_threads():
    seen = set()
    ArraySource(np.ones((1_000, 2))).fold(
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


def test_folds_take_the_threads_of_blas():
    # the threads of BLAS are those of a process, and other tests set them too
    done = subprocess.run(
        [sys.executable, "-c", OF_FOLDS], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["1", "False", "False", "2", "True"], done.stderr


def test_local_rows_are_numpy_arrays(xp):
    x = xp.ones((3, 2))
    local = isinstance(x, np.ndarray)
    assert ArraySource(x).local is local
    assert not as_source(lambda rows, rng: rng.normal(3)).local
