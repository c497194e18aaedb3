"""Console output of a command: one line per error in the words of its options, and a status."""

from __future__ import annotations

import ast
import contextlib
import csv
import errno
import io
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from implicitmoments.cli import Stopped, raise_on_signals
from implicitmoments.notes import QUIET, SENTENCES, CodedError, InputError, Note, printable
from implicitmoments.registry import ESTIMATORS

if TYPE_CHECKING:
    from implicitmoments.cli.progress import PassProgress


FAILED, BAD_INPUT = 1, 2  # exit statuses

# disk full, quota exceeded, file too large
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# errors caused by the user's input, with exit status BAD_INPUT
BAD = (ValueError, TypeError, ImportError, FileNotFoundError, PermissionError, IsADirectoryError)

# arguments of the library that have options of their own; --set gives other parameters
OPTIONS = {
    "n_components": "-k",
    "covariance_type": "--covariance",
    "activation": "--activation",
    "degree": "--degree",
    "random_state": "--seed",
    "columns": "--columns",
    "y": "--target",
    "sample_weight": "--weight",
    "checkpoint": "--checkpoint",
    "sep": "--sep",
    "decimal": "--decimal",
    "na_values": "--na-values",
}
# parameters without an option that sentences mention by their name alone
SETTINGS = {
    *("epsilon", "fit_intercept", "init_params", "max_components", "max_degree", "max_iter"),
    *("max_slope", "n_moves", "n_starts", "noise", "order", "precisions_init", "reg_covar"),
    *("tol", "variance", "weights_init"),
}
FLAGS = {"drop_missing": "--drop-missing"}
ATTRIBUTES = {
    "lower_bound_": "the mean log-likelihood",
    "score_samples": "implicitmoments score --rows",
    "implicitmoments.save": "fit",
}
# Python values as typed on the command line
CONSTANTS = {None: "none", True: "true", False: "false", ...: "…"}


class MissingError(CodedError, ImportError):
    """A library that a command needs is not installed."""


class UnwritableError(CodedError, RuntimeError):
    """The result cannot be written; the input was good."""


def bad_input(code: str, **values: Any) -> InputError:
    """Return the error of a code, for invalid user input."""
    return InputError(code, SENTENCES[code], **values)


def check_model_path(path: Path) -> None:
    """Raise for a model from standard input: model files are read in several places."""
    if str(path) == "-":
        raise bad_input("model_from_standard_input")


def as_typed(text: str) -> str:
    r"""Return a Python expression of a sentence as it is typed in a shell; unchanged if unknown.

    Examples
    --------
    >>> as_typed("n_components=3"), as_typed("degree='cv'"), as_typed("max_iter=200")
    ('-k 3', '--degree cv', '--set max_iter=200')
    >>> as_typed("SphericalMixture"), as_typed("columns=['a', 'b, c']")
    ('mixture', '--columns \'a,"b, c"\'')
    >>> as_typed("sep=';', decimal=','")
    "--sep ';' --decimal ,"
    """
    try:
        call = ast.parse(f"_({text})", mode="eval").body
    except SyntaxError:
        return text
    if not isinstance(call, ast.Call):
        return text
    if not call.args and all(each.arg is not None for each in call.keywords):
        options = [option_of(str(each.arg), _shell(_value(each.value))) for each in call.keywords]
        return " ".join(options) or text
    if len(call.args) == 1 and not call.keywords:
        one = call.args[0]
        return _name(ast.unparse(one)) if isinstance(one, ast.Name | ast.Attribute) else text
    return text


def _shell(value: str) -> str:
    """Return a value in quotes if a shell would read it otherwise."""
    return value if value == CONSTANTS[...] else shlex.quote(value)


def option_of(name: str, value: str = "…") -> str:
    """Return how the command line gives a parameter a value."""
    if name in FLAGS:
        return FLAGS[name]
    return f"{OPTIONS[name]} {value}" if name in OPTIONS else f"--set {name}={value}"


def joined(names: Iterable[str]) -> str:
    """Return names in the syntax of an option; a name with a comma is quoted."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def _name(name: str) -> str:
    """Return the words for a parameter, an attribute or a class that is mentioned alone."""
    for words in ({own: kind for kind, own in ESTIMATORS.items()}, OPTIONS, FLAGS, ATTRIBUTES):
        if name in words:
            return words[name]
    if name.endswith("_"):
        return name.strip("_").replace("_", " ")
    return option_of(name) if name in SETTINGS else name


def _value(node: ast.expr) -> str:
    """Return a value as it is typed: without quotes, lists separated by commas."""
    if isinstance(node, ast.List | ast.Tuple):
        return joined(map(_value, node.elts))
    if isinstance(node, ast.Constant):
        value: Any = node.value
        if value is None or isinstance(value, bool) or value is ...:
            return CONSTANTS[value]
        if isinstance(value, str):
            return value
    return ast.unparse(node)


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
                _print_line("error", _sentence(reason))
                _flush_output()
                bad = isinstance(reason, BAD) and not _is_numeric(reason)
                raise SystemExit(BAD_INPUT if bad else FAILED) from reason


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
            raise SystemExit(_end_stopped((), None)) from reason
        except BrokenPipeError:
            _drop_output()
            status = 0
        except OSError as reason:  # of --help and --version
            _print_line("error", f"standard output: {reason.strerror}")
            _flush_output()
            raise SystemExit(FAILED) from reason
        except Exception as reason:
            # typer has classes of its own for usage, or click's, by its version
            if not hasattr(reason, "format_message"):
                raise
            raise SystemExit(_end_usage(reason)) from reason
        sys.exit(status if isinstance(status, int) else 0)


def _end_usage(reason: Any) -> int:
    context = getattr(reason, "ctx", None)
    if type(reason).__name__ == "NoArgsIsHelpError" and context is not None:
        typer.echo(context.get_help())
        return 0
    kind = str(getattr(context, "params", {}).get("kind"))
    missing = type(reason).__name__ == "MissingParameter" and reason.ctx.command.name == "fit"
    if missing and kind not in ("None", *ESTIMATORS, *ESTIMATORS.values()):
        missed = bad_input("kind_missing", word=kind, kinds=", ".join(ESTIMATORS))
        _print_line("error", str(missed))
        return int(reason.exit_code)
    words = reason.format_message().strip().rstrip(".?")
    path = getattr(context, "command_path", "implicitmoments")
    _print_line("error", f"{words[:1].lower()}{words[1:]}; see {path} --help")
    return int(reason.exit_code)


def _end_stopped(came: Sequence[Stopped], checkpoint: Any) -> int:
    stopped = came[0] if came else Stopped(signal.SIGINT)
    resume = "" if checkpoint is None else f"; the same command resumes from {checkpoint}"
    _print_line("error", f"{stopped}{resume}")
    return stopped.code


def _sentence(reason: Exception) -> str:
    if isinstance(reason, CodedError):
        return reason.sentence(as_typed)
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


def print_note(code: str, **values: Any) -> None:
    """Print a note in one line on standard error, before the work."""
    _print_line("note", Note(code, values).sentence(as_typed))


def print_warnings(notes: Iterable[Note]) -> None:
    """Print the notes that may mean a wrong answer, which ``--quiet`` does not silence."""
    for note in notes:
        if note.code not in QUIET:
            _print_line("warning", note.sentence(as_typed))


def _print_line(what: str, words: str) -> None:
    with contextlib.suppress(OSError):
        typer.echo(f"implicitmoments: {what}: {printable(' '.join(words.split()))}", err=True)


def print_line(words: str) -> None:
    """Print to standard output, and see that it gets there; control characters are escaped."""
    _write_line(printable(words))


def _write_line(words: str) -> None:
    with name_full_device("standard output"):
        sys.stdout.write(f"{words}\n")
        sys.stdout.flush()


def print_tables(*shown: Any) -> None:
    """Print rich tables and text; a closed pipe raises BrokenPipeError.

    Names come from files: they are printed without control characters, and are no markup.
    """
    from rich.console import Console  # noqa: PLC0415 (not for --help)

    class PlainConsole(Console):
        def render_str(self, text: str, **how: Any) -> Any:
            return super().render_str(printable(text), **how)

    console = PlainConsole(markup=False, emoji=False, highlight=False)
    with name_full_device("standard output"), console.capture() as captured:
        for one in shown:
            console.print(one, soft_wrap=isinstance(one, str))
    _write_line(captured.get().removesuffix("\n"))


def show_progress(quiet: bool) -> contextlib.AbstractContextManager[PassProgress | None]:
    """Return a progress display for passes over the rows; None without a terminal."""
    if quiet or not sys.stderr.isatty():
        return contextlib.nullcontext()
    from implicitmoments.cli.progress import PassProgress  # noqa: PLC0415 (not for --help)

    return PassProgress()


def begin(progress: PassProgress | None, stage: str) -> None:
    """Name the stage that begins, where progress is shown."""
    if progress is not None:
        progress.begin(stage)


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


def _flush_output() -> None:
    """Write unflushed output, or drop it if that fails, as the interpreter would do once more."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        _drop_output()


def _drop_output() -> None:
    """Redirect unflushed output, so that the interpreter exits without an error."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
