"""The commands, thin: words in, a table out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import implicitmoments
from implicitmoments.cli.demo import run_components, run_demo, table_of, write_files

__all__ = ["app"]

app = typer.Typer(
    name="implicitmoments",
    help="Learn latent-variable models from implicit high-order moment tensors.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(implicitmoments.__version__)
        raise typer.Exit


@app.callback()
def entry(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Learn latent-variable models from implicit high-order moment tensors."""


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder to write to; made if need be.")
    ] = Path("implicitmoments-demo"),
    random_state: Annotated[int, typer.Option("--seed", min=0, help="Of the data.")] = 0,
) -> None:
    """Estimate moments of the four problems, and thirty means, beside the truth."""
    console = Console()
    if output.exists() and not output.is_dir():
        typer.echo(f"implicitmoments: {output} is a file, expected a folder to write to", err=True)
        raise typer.Exit(2)
    with console.status("estimating …"):
        rows, found = run_demo(random_state), run_components(random_state)
    try:
        paths = write_files(rows, found, output)
    except OSError as reason:
        typer.echo(f"implicitmoments: cannot write to {output}: {reason.strerror}", err=True)
        raise typer.Exit(1) from None
    console.print(table_of(rows))
    console.print(str(found), soft_wrap=True)
    console.print(f"wrote {', '.join(str(path) for path in paths)}", soft_wrap=True)
