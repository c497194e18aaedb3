"""The command line, ``implicitmoments``: one line for an error, and the exit status."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

__all__ = ["main"]


def unwind_when_ended() -> None:
    """Let signals that end the process raise, as Ctrl-C does: half-written files are removed."""

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores one
            signal.signal(number, leave)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; errors of input and of the system are printed in one line.

    The exit status is 2 for bad input, 1 for an error of the system, and 0 otherwise, also where
    a fit did not converge, of which there is a note.
    """
    try:
        from implicitmoments.cli.app import app  # noqa: PLC0415 (typer is an extra)
    except ModuleNotFoundError as missing:
        sys.exit(f"implicitmoments needs {missing.name}: pip install 'implicitmoments[cli]'")
    from implicitmoments.notes import CodedError, printable  # noqa: PLC0415

    if arguments is None:
        unwind_when_ended()
    try:
        app(arguments, prog_name="implicitmoments")
    except (CodedError, ValueError, OSError, ImportError) as error:
        sentence = str(error)
        if isinstance(error, OSError) and not isinstance(error, CodedError) and error.filename:
            sentence = f"{error.filename}: {error.strerror}"
        print(f"implicitmoments: error: {printable(sentence)}", file=sys.stderr)  # noqa: T201
        of_system = isinstance(error, OSError) and not isinstance(error, FileNotFoundError)
        raise SystemExit(1 if of_system else 2) from error
