"""Errors in one line, and how a command ends."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from implicitmoments.cli.options import KINDS
from implicitmoments.cli.signals import Stopped, stopping
from implicitmoments.cli.wording import forgotten_kind, spoken

__all__ = [
    "BAD_INPUT",
    "FAILED",
    "INTERRUPTED",
    "PlainGroup",
    "complain",
    "naming",
    "plain_errors",
    "remark",
    "say",
]

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130  # what a command ends with

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class PlainGroup(TyperGroup):
    """The commands, with words that were mistyped told in one line."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and end the process with its exit code."""
        run = partial(super().main, args, prog_name, complete_var, False, windows_expand_args)
        if not standalone_mode:
            return run(**extra)
        try:
            code = run(**extra)
        except (typer.Abort, KeyboardInterrupt):
            complain("interrupted")
            code = INTERRUPTED
        except BrokenPipeError:
            _drop_output()
            code = 0
        except Exception as reason:
            if isinstance(reason, OSError):  # of --help and --version
                complain(f"standard output: {reason.strerror}")
                sys.exit(FAILED)
            # typer has classes of its own for usage, or click's, by its version
            if not hasattr(reason, "format_message"):
                raise
            code = _told_usage(reason)
        sys.exit(code if isinstance(code, int) else 0)


def _told_usage(reason: Any) -> int:
    context = getattr(reason, "ctx", None)
    if type(reason).__name__ == "NoArgsIsHelpError" and context is not None:
        typer.echo(context.get_help())
        return 0
    kind = str(getattr(context, "params", {}).get("model"))
    if _lacks_kind(reason, kind):
        complain(forgotten_kind(kind))
        return int(reason.exit_code)
    words = reason.format_message().strip().rstrip(".?")
    path = getattr(context, "command_path", "implicitmoments")
    complain(f"{words[:1].lower()}{words[1:]}; see {path} --help")
    return int(reason.exit_code)


def _lacks_kind(reason: Any, kind: str) -> bool:
    """Say whether ``fit`` was given a file, and not what to fit."""
    missing = type(reason).__name__ == "MissingParameter" and reason.ctx.command.name == "fit"
    return missing and kind not in ("None", *KINDS, *KINDS.values())


def complain(words: str) -> None:
    """Say in one line on standard error what is wrong."""
    with contextlib.suppress(OSError):
        typer.echo(f"implicitmoments: error: {' '.join(words.split())}", err=True)


def say(words: str) -> None:
    """Print to standard output, and see that it gets there."""
    with naming("standard output"):
        sys.stdout.write(f"{words}\n")
        sys.stdout.flush()


@contextlib.contextmanager
def naming(place: str) -> Iterator[None]:
    """Have errors for want of room say where there is none."""
    try:
        yield
    except OSError as reason:
        if reason.filename is not None or reason.errno not in NO_ROOM:
            raise
        raise OSError(reason.errno, reason.strerror, place) from reason


def remark(words: str) -> None:
    """Say in one line on standard error what is worth knowing before the work."""
    with contextlib.suppress(OSError):
        typer.echo(f"implicitmoments: note: {words}", err=True)


@contextlib.contextmanager
def plain_errors(debug: bool, checkpoint: Path | None = None) -> Iterator[None]:
    """End a command with one line and an exit code where something goes wrong.

    Parameters
    ----------
    debug : bool
        Print the traceback too.
    checkpoint : path, optional
        Where a fit that is interrupted has kept what was done.
    """
    with stopping() as came:
        try:
            yield
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:
            _drop_output()
            raise typer.Exit(0) from None
        except (KeyboardInterrupt, Exception) as reason:
            if debug:
                traceback.print_exc()
            if isinstance(reason, KeyboardInterrupt) or came:
                # where a module was being imported, an interruption may come as another error
                raise typer.Exit(_told_stop(came, checkpoint)) from None
            complain(_words_of(reason))
            raise typer.Exit(_code_of(reason)) from None


def _told_stop(came: Sequence[Stopped], checkpoint: Path | None) -> int:
    stopped = came[0] if came else Stopped(signal.SIGINT)
    kept = "" if checkpoint is None else f"; the same command goes on from {checkpoint}"
    complain(f"{stopped}{kept}")
    return stopped.code


def _code_of(reason: Exception) -> int:
    if _is_numeric(reason):
        return FAILED
    bad = (ValueError, TypeError, ImportError, FileNotFoundError, PermissionError)
    return BAD_INPUT if isinstance(reason, (*bad, IsADirectoryError)) else FAILED


def _words_of(reason: Exception) -> str:
    if isinstance(reason, OSError) and reason.strerror:
        name = f"{reason.filename}: " if reason.filename else ""
        return f"{name}{reason.strerror}"
    if isinstance(reason, MemoryError):
        return "there is not enough memory"
    known = isinstance(reason, ValueError | TypeError | ImportError | RuntimeError | OSError)
    if _is_numeric(reason) or not known:
        return f"{type(reason).__name__}: {reason}; --debug shows where"
    return spoken(str(reason))


def _is_numeric(reason: Exception) -> bool:
    return type(reason).__name__ == "LinAlgError"  # a ValueError; NumPy may not be imported yet


def _drop_output() -> None:
    """Let what is still to be flushed go nowhere, so that the interpreter ends in peace."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
