"""Console output of a command: one line per error, and an exit status."""

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

from implicitmoments.cli.signals import Stopped, raise_on_signals
from implicitmoments.cli.vocabulary import COMMAND_LINE
from implicitmoments.notes import CodedError, InputError, Note
from implicitmoments.registry import class_names

if TYPE_CHECKING:
    from implicitmoments.cli.progress import PassProgress

SENTENCES = {
    # models and parameters
    "kind_missing": "{word} is not a KIND; did you forget mixture? The kinds are {kinds}",
    "unknown_model": "there is no model {word!r}, expected one of {kinds}{near}",
    "number_required": "{kind} does not choose the number of components; give -k N",
    "unknown_parameter": "{kind} has no parameter {name!r}, given by {option}; --set takes "
    "{known}{near}",
    "setting_without_value": "--set takes name=value, got {text!r}",
    "parameter_twice": "{name!r} was given twice; give it once",
    "seed_by_setting": "the seed is given by --seed, not by --set",
    "value_of_another_type": "{option} takes {expected}, got {text!r}",
    # columns
    "no_names": "{option} takes names separated by commas, got {text!r}",
    "target_required": "{kind} has labels; name their column by --target",
    "target_not_used": "{kind} has no labels, so --target does not apply; name the features by "
    "--columns",
    "features_differ": "the rows have {found:count feature} and the model takes {expected}; "
    "choose them by --columns",
    "model_column_missing": "the model was fitted to column {wanted!r}, which {file} does not "
    "have; it has {names}; choose others by {option}",
    # input
    "not_rows": "{file} {advice}",
    "rows_missing": "the file ends before its last row; it changed while it was read",
    "standard_input_closed": "standard input is closed; pipe rows into it",
    "model_from_standard_input": "- is standard input, from which rows can be read; a model has "
    "to be a file",
    "model_columns_damaged": "the model file is damaged: its columns have no names",
    "model_scale_damaged": "the model file is damaged: its scale is not one positive number per "
    "column",
    # output
    "output_not_a_file": "{path} is not a plain file; {instead}",
    "output_kind": "{path} has the suffix {suffix!r}, expected one of {kinds}",
    "output_is_folder": "{path} is a folder, expected a file to write to",
    "output_not_a_folder": "{path} is a file, expected a folder to write to",
    "output_without_folder": "{path} cannot be written: there is no folder {folder}",
    "output_not_permitted": "{path} cannot be written: permission denied",
    "output_is_input": "{path} is an input file; give {option} another name",
    "output_is_checkpoint": "{path} is given by -o and by --checkpoint; give one of them another "
    "name",
    # answers
    "no_answer": "a model of kind {kind} gives no {question}; {instead}",
    "numbers_only": "{path} can hold numbers only, so --keep does not apply",
    "output_without_rows": "-o requires --rows; the score is printed",
    "rows_not_dropped": "--rows answers for every row, so --drop-missing does not apply",
}


class MissingError(CodedError, ImportError):
    """A library that a command needs is not installed."""


class UnwritableError(CodedError, RuntimeError):
    """The result cannot be written; the input was good."""


def bad_input(code: str, **values: Any) -> InputError:
    """Return the error of a code, for invalid user input."""
    return InputError(code, SENTENCES[code], **values)


FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130  # exit statuses

# disk full, quota exceeded, file too large
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# errors caused by the user's input, with exit status BAD_INPUT
BAD = (ValueError, TypeError, ImportError, FileNotFoundError, PermissionError, IsADirectoryError)


class Command(TyperCommand):
    """A command that reports an error in one line and by its exit status.

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
    """Print an error in one line on standard error."""
    _print_line("error", words)


def print_note(code: str, **values: Any) -> None:
    """Print a note in one line on standard error, before the work."""
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
    """Print rich tables and text; a closed pipe raises BrokenPipeError."""
    from rich.console import Console  # noqa: PLC0415 (not for --help)

    console = Console()
    with name_full_device("standard output"), console.capture() as captured:
        for one in shown:
            console.print(one, soft_wrap=isinstance(one, str), highlight=False, markup=False)
    print_line(captured.get().removesuffix("\n"))


def show_progress(quiet: bool) -> contextlib.AbstractContextManager[PassProgress | None]:
    """Return a progress display for passes over the rows; None without a terminal."""
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
    """Redirect unflushed output, so that the interpreter exits without an error."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
