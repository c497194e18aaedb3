"""The command ``demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from implicitmoments.cli.console import plain_errors
from implicitmoments.cli.options import AsJson, Debug, Quiet

__all__ = ["DEMO", "demo"]

DEMO = """\b
Examples:
  implicitmoments demo
  implicitmoments demo --seed 1 -o elsewhere
"""


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder to write to; made if need be.")
    ] = Path("implicitmoments-demo"),
    *,
    random_state: Annotated[int, typer.Option("--seed", min=0, help="Of the data.")] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Learn the four problems beside the truth and the usual tool, and write a report."""
    from implicitmoments.cli.run_demo import demonstrate  # noqa: PLC0415 (SciPy)

    with plain_errors(debug):
        demonstrate(output, random_state, as_json=as_json, quiet=quiet)
