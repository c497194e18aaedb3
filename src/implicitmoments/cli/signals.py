"""What a process does when it is told to stop: by Ctrl-C, by kill, by a terminal that closes."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any, NoReturn, TypeAlias

__all__ = ["Stopped", "end_at_once", "handled", "stopping"]

WORDS = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "the terminal was closed"}
ONE_WISH = 1.0  # seconds in which a second Ctrl-C is the same wish: what was begun is tidied up
USUAL = (signal.SIG_DFL, signal.default_int_handler)

Handler: TypeAlias = Callable[[int, Any], None]


class Stopped(KeyboardInterrupt):
    """A signal that ends the work; the exit code says which, as a shell has it."""

    def __init__(self, number: int) -> None:
        super().__init__(WORDS[signal.Signals(number).name])
        self.code = 128 + number


def end_at_once(number: int, frame: Any = None) -> NoReturn:  # noqa: ARG001
    """End the process in one line, while it has nothing to tidy up.

    Modules are imported then, and some of them turn an exception into another, or swallow it.
    """
    said = Stopped(number)
    with contextlib.suppress(OSError):
        os.write(2, f"implicitmoments: error: {said}\n".encode())
    os._exit(said.code)


def handled(handler: Handler) -> dict[int, Any]:
    """Let a function take the signals, and return what took them before.

    What whoever started the process has told it to ignore, as ``nohup`` does, stays ignored.
    """
    before = {}
    for name in WORDS:
        number = getattr(signal, name, None)  # other systems have fewer
        if number is None or signal.getsignal(number) not in (*USUAL, end_at_once):
            continue
        with contextlib.suppress(ValueError):  # another thread than the main one
            before[int(number)] = signal.signal(number, handler)
    return before


@contextlib.contextmanager
def stopping() -> Iterator[list[Stopped]]:
    """Raise Stopped in the work when a signal comes; the list holds what has come."""
    came: list[Stopped] = []
    last = -ONE_WISH

    def stop(number: int, frame: Any) -> None:  # noqa: ARG001
        nonlocal last
        if monotonic() - last < ONE_WISH:
            return
        last = monotonic()
        came.append(Stopped(number))
        raise came[-1]

    before = handled(stop)
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
