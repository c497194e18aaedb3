"""The commands, thin: words in, a table out."""

from __future__ import annotations

from typing import Annotated

import typer

import implicitmoments
from implicitmoments.cli.commands.demo import DEMO, demo
from implicitmoments.cli.commands.fit import FIT, fit
from implicitmoments.cli.commands.query import PREDICT, SAMPLE, SCORE, predict, sample, score
from implicitmoments.cli.commands.show import DESCRIBE, REPORT, describe, report
from implicitmoments.cli.console import PlainGroup

__all__ = ["app"]

app = typer.Typer(
    name="implicitmoments",
    cls=PlainGroup,
    help="Learn latent-variable models from implicit high-order moment tensors.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help that a pipe and a narrow window can show
    context_settings={"help_option_names": ["-h", "--help"]},
)

ENDING = """\b
Examples:
  implicitmoments fit mixture rows.csv -k 3 -o model.im
  implicitmoments report model.im rows.csv -o report.html --open

\b
Exit codes: 0 done, 1 the work failed, 2 bad usage or bad input, 130 interrupted,
143 terminated.
"""


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(implicitmoments.__version__)
        raise typer.Exit


@app.callback(epilog=ENDING)
def entry(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Learn latent-variable models from implicit high-order moment tensors."""


app.command(epilog=FIT)(fit)
app.command(epilog=PREDICT)(predict)
app.command(epilog=SCORE)(score)
app.command(epilog=SAMPLE)(sample)
app.command(epilog=REPORT)(report)
app.command(epilog=DESCRIBE)(describe)
app.command(epilog=DEMO)(demo)
