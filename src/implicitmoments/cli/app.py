"""The commands, with what the help says of all of them.

SciPy and scikit-learn take a second to import, so that each command imports its work when it is
called: ``--help`` does without.
"""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Option

import implicitmoments
from implicitmoments.cli.console import Command, CommandGroup
from implicitmoments.cli.examples import EXAMPLES
from implicitmoments.cli.model_commands import demo, describe, fit, sample
from implicitmoments.cli.row_commands import compare, evaluate, predict, report, score

COMMANDS = (fit, predict, score, evaluate, compare, sample, report, describe, demo)

app = typer.Typer(
    name="implicitmoments",
    cls=CommandGroup,
    help="Find groups, lines and sums of activations in tables of numbers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help that a pipe and a narrow window can show
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(implicitmoments.__version__)
        raise typer.Exit


@app.callback(epilog=EXAMPLES[""])
def entry(
    version: Annotated[
        bool,
        Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Find groups, lines and sums of activations in tables of numbers."""


for command in COMMANDS:
    app.command(cls=Command, epilog=EXAMPLES[command.__name__])(command)
