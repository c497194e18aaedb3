"""What commands print: notes, tables of a model, and progress on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from implicitmoments.notes import printable


def print_notes(notes: Iterable[object]) -> None:
    """Print notes on standard error, one per line."""
    for note in notes:
        print(f"note: {note}", file=sys.stderr)  # noqa: T201


def print_text(*shown: Any) -> None:
    """Print tables and lines on standard output; names of columns are no markup."""
    console = Console(markup=False, emoji=False, highlight=False)
    for one in shown:
        console.print(one, soft_wrap=isinstance(one, str))


def as_table(
    title: str, columns: Mapping[str, Sequence[Any]], most_rows: int = 12, most_columns: int = 8
) -> Table:
    """Return columns as a table, cut to what a terminal of 80 columns shows."""
    cut = len(columns) > most_columns
    names = [*columns][: most_columns - 1] if cut else [*columns]
    table = Table(box=SIMPLE_HEAD, title=title)
    for name in [*map(printable, names), *["…"] * cut]:
        table.add_column(name, justify="right")
    n_rows = len(columns[names[0]])
    for i in range(min(n_rows, most_rows)):
        table.add_row(*(short(columns[name][i]) for name in names), *["…"] * cut)
    if cut or n_rows > most_rows:
        table.caption = f"{n_rows} rows and {len(columns)} columns; describe -o writes all of them"
    return table


def short(value: Any) -> str:
    """Return a number in four digits, or all before the point; other values as they are."""
    if isinstance(value, float | np.floating):
        return f"{value:,.0f}" if 1e4 <= abs(float(value)) < 1e9 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int | np.integer) else printable(str(value))


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """Show passes over the rows while they last, on a terminal; yield what reports them."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task("reading rows", total=None)

        def report(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield report
