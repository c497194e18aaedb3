"""What a reader must not do with a file: run code, write elsewhere, or hang."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

__all__ = ["LateError", "Watch", "time_limit"]

PATIENT = 4  # times the limit of processor time

FORBIDDEN = ("exec", "compile", "import", "marshal.loads", "pickle.find_class", "code.__new__")
FAMILIES = ("os.", "subprocess.", "socket.", "ctypes.", "shutil.", "urllib.", "tempfile.")


class LateError(BaseException):
    """An input exceeded the time limit; not an Exception, so that nothing catches it."""


class Watch:
    """Records forbidden actions of a reader while it is on.

    Parameters
    ----------
    everywhere : bool
        In all threads, for readers that have threads of their own, rather than in this one.
    spool : str, optional
        A folder in which temporary files may be made.
    allowed : collection of str
        Events that do no harm.
    """

    def __init__(
        self,
        *,
        everywhere: bool = False,
        spool: str | None = None,
        allowed: frozenset[str] = frozenset(),
    ) -> None:
        self.on, self.seen = False, Counter[str]()
        self._thread = None if everywhere else get_ident()
        self._spool, self._allowed = spool, allowed
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.on or (self._thread is not None and get_ident() != self._thread):
            return
        if event == "open":
            if _writes(args) and not self._is_spool(args[0]):
                self.seen["open for writing"] += 1
        elif event in self._allowed or _only_parses(event, args):
            return
        elif event in FORBIDDEN or event.startswith(FAMILIES):
            self.seen[f"import of {args[0]}" if event == "import" else event] += 1

    def _is_spool(self, path: Any) -> bool:
        # a file without a name: the folder is opened, and then what it gave, by number
        return self._spool is not None and (isinstance(path, int) or path == self._spool)


def _writes(args: tuple[Any, ...]) -> bool:
    mode, flags = args[1], args[2]
    wrote = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    return bool(wrote) or (isinstance(mode, str) and bool(set(mode) & set("wax+")))


def _only_parses(event: str, args: tuple[Any, ...]) -> bool:
    """Recognise ``ast.literal_eval``, by which NumPy reads headers: it runs no code."""
    return event == "compile" and args[1] == "<unknown>"


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Limit processor time, and waiting to a multiple of it: a machine may be busy."""

    def stop(*_: object) -> None:
        raise LateError

    timers = {
        signal.ITIMER_PROF: (signal.SIGPROF, 1),
        signal.ITIMER_REAL: (signal.SIGALRM, PATIENT),
    }
    for timer, (number, times) in timers.items():
        signal.signal(number, stop)
        signal.setitimer(timer, times * seconds)
    try:
        yield
    finally:
        for timer in timers:
            signal.setitimer(timer, 0)
