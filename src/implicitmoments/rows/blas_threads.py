"""Threads of BLAS: one limit per process, shared by fits, answers, folds and tasks of Dask."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from threading import Lock, get_ident
from typing import Any

from threadpoolctl import ThreadpoolController

_threads_of_folds: ContextVar[int | None] = ContextVar("threads of folds", default=None)


class ProcessLimit:
    """Limits BLAS to one thread for as long as anything in the process holds the limit.

    The threads of BLAS belong to the process, and what limits them overlaps in threads. The first
    holder sets the limit, and the last one to leave restores what was there before.

    Examples
    --------
    >>> limit = ProcessLimit()
    >>> with limit.held(), limit.held():
    ...     limit.blas_threads()
    1
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._holders: dict[object, int] = {}  # and the thread of each
        self._before: list[tuple[Any, int]] = []  # libraries, and the threads that each had
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._lock.acquire,
                after_in_parent=self._lock.release,
                after_in_child=self._after_fork,
            )

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the limit."""
        holder = object()
        try:  # begins before the limit is set: an interruption at any point releases it
            self._hold(holder)
            yield
        finally:
            self._release(holder)

    def blas_threads(self) -> int:
        """Return the number of threads that BLAS may use now."""
        with self._lock:
            return max((library.num_threads for library in _blas_libraries()), default=1)

    def _hold(self, holder: object) -> None:
        with self._lock:
            if not self._holders:
                for library in _blas_libraries():
                    self._before.append((library, library.num_threads))
                    _set_threads(library, 1)
            self._holders[holder] = get_ident()

    def _release(self, holder: object) -> None:
        with self._lock:
            self._holders.pop(holder, None)
            self._restore()

    def _after_fork(self) -> None:
        """Drop the holders of threads that the new process does not have."""
        here = get_ident()
        self._holders = {h: thread for h, thread in self._holders.items() if thread == here}
        self._restore()
        self._lock.release()

    def _restore(self) -> None:
        while self._before and not self._holders:
            library, n_threads = self._before.pop()
            if library.num_threads == 1:  # otherwise the user has changed it since
                _set_threads(library, n_threads)


@cache
def _blas_libraries() -> list[Any]:
    """Return the controllers of BLAS libraries: finding them takes milliseconds."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _set_threads(library: Any, n_threads: int) -> None:
    """Set the threads of a library from any thread of the process.

    From version 3.8 on, threadpoolctl ignores all threads but the first that has set those of
    OpenBLAS, until that ends. Here a limit may be set in one thread and lifted in another.
    """
    release = getattr(library, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)
    library.set_num_threads(n_threads)
    if release is not None:
        release(force=True)


_limit = ProcessLimit()


def allowed_threads() -> int:
    """Return the number of threads that the user, joblib or the machine allows BLAS.

    While another thread of the process is in a fit, that is one: it has the others.
    """
    given = _threads_of_folds.get()
    return _limit.blas_threads() if given is None else given


@contextmanager
def threads_for_folds(n_threads: int | None = None) -> Iterator[None]:
    """Give folds the threads that BLAS may use, and BLAS one, for as long as it is open.

    For fits whose products are small: threads of BLAS would only wait for one another.

    Parameters
    ----------
    n_threads : int, optional
        Threads of a fold; those that BLAS may use by default, and 1 where folds themselves run in
        threads, as tasks of Dask do.
    """
    token = _threads_of_folds.set(allowed_threads() if n_threads is None else n_threads)
    try:
        with _limit.held():
            yield
    finally:
        _threads_of_folds.reset(token)
