"""The command line, ``implicitmoments``: how it begins, and signals that end it.

Ctrl-C, kill and a terminal that closes end a command in one line, at any time: the handler is
installed before anything large is imported.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any, NoReturn

__all__ = ["main"]

WORDS = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "the terminal was closed"}
REPEATED = 1.0  # seconds in which a second Ctrl-C is ignored, so that cleaning up can finish
# handlers that may be replaced: others were installed by the caller
USUAL = (signal.SIG_DFL, signal.default_int_handler)


class Stopped(KeyboardInterrupt):
    """A signal that ends the work; the exit status says which, as in a shell."""

    def __init__(self, number: int) -> None:
        super().__init__(WORDS[signal.Signals(number).name])
        self.code = 128 + number


def end_at_once(number: int, frame: Any = None) -> NoReturn:  # noqa: ARG001
    """End the process with one line, while there is nothing to clean up.

    Modules are imported then, and some of them turn an exception into another, or swallow it.
    """
    stopped = Stopped(number)
    with contextlib.suppress(OSError):
        os.write(2, f"implicitmoments: error: {stopped}\n".encode())
    os._exit(stopped.code)


def install(handler: Callable[[int, Any], None]) -> dict[int, Any]:
    """Install a handler of the signals, and return the handlers before.

    Signals that are ignored, as under ``nohup`` or in the background of a shell, stay ignored.
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
def raise_on_signals() -> Iterator[list[Stopped]]:
    """Raise Stopped when a signal arrives; the list contains the signals received."""
    came: list[Stopped] = []
    last = -REPEATED

    def stop(number: int, frame: Any) -> None:  # noqa: ARG001
        nonlocal last
        if monotonic() - last < REPEATED:
            return
        last = monotonic()
        came.append(Stopped(number))
        raise came[-1]

    before = install(stop)
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main() -> None:
    """Run the command line, or print which library is missing."""
    try:
        install(end_at_once)
        for name in ("stdout", "stderr"):  # a process may be started without them
            if getattr(sys, name) is None:
                setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        from implicitmoments.cli.app import app  # noqa: PLC0415 (typer is an extra)
    except ModuleNotFoundError as missing:
        if missing.name not in {"typer", "rich"}:
            raise
        sys.exit(
            f"implicitmoments: the command line needs {missing.name}; "
            "install it with: pip install 'implicitmoments[cli]'"
        )
    except KeyboardInterrupt:  # before the handler was installed
        end_at_once(signal.SIGINT)
    app(prog_name="implicitmoments")
