"""What a command prints, and how it ends: one line for an error, and an exit status."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from implicitmoments.cli.errors import bad_input
from implicitmoments.cli.signals import Stopped, raise_on_signals
from implicitmoments.cli.vocabulary import COMMAND_LINE
from implicitmoments.notes import CodedError, InputError, Note
from implicitmoments.registry import class_names

if TYPE_CHECKING:
    from implicitmoments.cli.progress import PassProgress

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130  # exit statuses

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
BAD = (ValueError, TypeError, ImportError, FileNotFoundError, PermissionError, IsADirectoryError)


class Command(TyperCommand):
    """A command that ends with one line and an exit status where something goes wrong.

    The exception is the cause of the ``SystemExit``.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with raise_on_signals() as came:
            try:
                return super().invoke(ctx)
            except (typer.Exit, typer.Abort):
                raise
            except BrokenPipeError:
                _drop_output()
                raise typer.Exit(0) from None
            except (KeyboardInterrupt, Exception) as reason:
                if ctx.params.get("debug"):
                    traceback.print_exc()
                if isinstance(reason, KeyboardInterrupt) or came:
                    # where a module was being imported, an interruption may come as another error
                    raise SystemExit(_end_stopped(came, ctx.params.get("checkpoint"))) from reason
                print_error(_sentence(reason))
                raise SystemExit(_status(reason)) from reason


class CommandGroup(TyperGroup):
    """The commands, with errors of usage in one line."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and end the process with its exit status."""
        run = partial(super().main, args, prog_name, complete_var, False, windows_expand_args)
        if not standalone_mode:
            return run(**extra)
        try:
            status = run(**extra)
        except (typer.Abort, KeyboardInterrupt) as reason:
            print_error(str(Stopped(signal.SIGINT)))
            raise SystemExit(INTERRUPTED) from reason
        except BrokenPipeError:
            _drop_output()
            status = 0
        except OSError as reason:  # of --help and --version
            print_error(f"standard output: {reason.strerror}")
            raise SystemExit(FAILED) from reason
        except Exception as reason:
            # typer has classes of its own for usage, or click's, by its version
            if not hasattr(reason, "format_message"):
                raise
            raise SystemExit(_end_usage(reason)) from reason
        sys.exit(status if isinstance(status, int) else 0)


def kind_missing(word: str) -> InputError:
    """Return the error for a file in the place of the kind of a model."""
    return bad_input("kind_missing", word=word, kinds=", ".join(class_names()))


def _end_usage(reason: Any) -> int:
    context = getattr(reason, "ctx", None)
    if type(reason).__name__ == "NoArgsIsHelpError" and context is not None:
        typer.echo(context.get_help())
        return 0
    kind = str(getattr(context, "params", {}).get("kind"))
    missing = type(reason).__name__ == "MissingParameter" and reason.ctx.command.name == "fit"
    if missing and kind not in ("None", *class_names(), *class_names().values()):
        print_error(str(kind_missing(kind)))
        return int(reason.exit_code)
    words = reason.format_message().strip().rstrip(".?")
    path = getattr(context, "command_path", "implicitmoments")
    print_error(f"{words[:1].lower()}{words[1:]}; see {path} --help")
    return int(reason.exit_code)


def _end_stopped(came: Sequence[Stopped], checkpoint: Any) -> int:
    stopped = came[0] if came else Stopped(signal.SIGINT)
    resume = "" if checkpoint is None else f"; the same command resumes from {checkpoint}"
    print_error(f"{stopped}{resume}")
    return stopped.code


def _status(reason: Exception) -> int:
    return BAD_INPUT if isinstance(reason, BAD) and not _is_numeric(reason) else FAILED


def _sentence(reason: Exception) -> str:
    if isinstance(reason, CodedError):
        return reason.sentence(COMMAND_LINE)
    if isinstance(reason, OSError) and reason.strerror:
        name = f"{reason.filename}: " if reason.filename else ""
        return f"{name}{reason.strerror}"
    if isinstance(reason, MemoryError):
        return "there is not enough memory"
    known = isinstance(reason, ValueError | TypeError | ImportError | RuntimeError | OSError)
    if _is_numeric(reason) or not known:
        return f"{type(reason).__name__}: {reason}; --debug shows where"
    return str(reason)


def _is_numeric(reason: Exception) -> bool:
    return type(reason).__name__ == "LinAlgError"  # a ValueError; NumPy may not be imported yet


def print_error(words: str) -> None:
    """Print what is wrong in one line on standard error."""
    _print_line("error", words)


def print_note(code: str, **values: Any) -> None:
    """Print in one line on standard error what is worth knowing before the work."""
    _print_line("note", Note(code, values).sentence(COMMAND_LINE))


def _print_line(what: str, words: str) -> None:
    with contextlib.suppress(OSError):
        typer.echo(f"implicitmoments: {what}: {' '.join(words.split())}", err=True)


def print_line(words: str) -> None:
    """Print to standard output, and see that it gets there."""
    with name_full_device("standard output"):
        sys.stdout.write(f"{words}\n")
        sys.stdout.flush()


def print_tables(*shown: Any) -> None:
    """Print tables of rich and text; a reader that is gone raises BrokenPipeError."""
    from rich.console import Console  # noqa: PLC0415 (not for --help)

    console = Console()
    with name_full_device("standard output"), console.capture() as captured:
        for one in shown:
            console.print(one, soft_wrap=isinstance(one, str), highlight=False, markup=False)
    print_line(captured.get().removesuffix("\n"))


def show_progress(quiet: bool) -> contextlib.AbstractContextManager[PassProgress | None]:
    """Return what shows passes over the rows on a terminal; None where there is no terminal."""
    if quiet or not sys.stderr.isatty():
        return contextlib.nullcontext()
    from implicitmoments.cli.progress import PassProgress  # noqa: PLC0415 (not for --help)

    return PassProgress()


@contextlib.contextmanager
def name_full_device(place: str) -> Iterator[None]:
    """Add to an error of a full disk which output it was."""
    try:
        yield
    except OSError as reason:
        named = isinstance(reason, CodedError) or reason.filename is not None
        if named or reason.errno not in NO_ROOM:
            raise
        raise OSError(reason.errno, reason.strerror, place) from reason


def _drop_output() -> None:
    """Redirect what is still to be flushed, so that the interpreter ends without an error."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
