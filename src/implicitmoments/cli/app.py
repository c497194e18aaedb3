"""The commands, thin: words in, a table out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import implicitmoments
from implicitmoments.cli.asking import PREDICT, SAMPLE, SCORE, predict, sample, score
from implicitmoments.cli.console import BAD_INPUT, FAILED, PlainGroup, complain
from implicitmoments.cli.demo import run_components, run_demo, table_of, write_files
from implicitmoments.cli.demo_learned import run_learned, table_of_learned, write_learned
from implicitmoments.cli.fit import EXAMPLES as FIT
from implicitmoments.cli.fit import fit
from implicitmoments.cli.showing import DESCRIBE, REPORT, describe, report

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
Exit codes: 0 done, 1 the work failed, 2 bad usage or bad input, 130 interrupted.
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


DEMO = """\b
Examples:
  implicitmoments demo
  implicitmoments demo --seed 1 -o elsewhere
"""


@app.command(epilog=DEMO)
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder to write to; made if need be.")
    ] = Path("implicitmoments-demo"),
    random_state: Annotated[int, typer.Option("--seed", min=0, help="Of the data.")] = 0,
) -> None:
    """Learn the four problems beside the truth and the usual tool, and write a report."""
    console = Console()
    if output.exists() and not output.is_dir():
        complain(f"{output} is a file, expected a folder to write to")
        raise typer.Exit(BAD_INPUT)
    with console.status("learning …"):
        learned = run_learned(random_state)
    console.print(table_of_learned(learned.rows))
    with console.status("estimating moments …"):
        rows, found = run_demo(random_state), run_components(random_state)
    console.print(table_of(rows))
    console.print(str(found), soft_wrap=True)
    try:
        paths = [*write_files(rows, found, output), *write_learned(learned, output)]
    except OSError as reason:
        complain(f"cannot write to {output}: {reason.strerror}")
        raise typer.Exit(FAILED) from None
    console.print(f"wrote {', '.join(str(path) for path in paths)}", soft_wrap=True)
