"""Cells of tables and arrays of objects that are no numbers, by column and row."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import numpy as np

from implicitmoments.column_names import unnamed_columns
from implicitmoments.notes import InputError, InputTypeError


class Cell(NamedTuple):
    """A cell that is no number: the place of its column, its name if it has one, and its row."""

    place: int
    column: Any
    row: int
    content: Any
    reason: type[Exception]  # ValueError for text, TypeError for other objects

    def refuse(self, name: str) -> NoReturn:
        """Raise an error that names the argument, the column and the row."""
        where = "`{name}`" if self.column is None else "column {column!r} of {name}"
        values = {"name": name, "column": self.column, "row": self.row, "cell": self.content}
        if self.reason is ValueError:
            raise InputError(
                "cell_not_a_number",
                where + " holds {cell!r} in row {row}, expected a number; encode text and "
                "categories as numbers, or leave the column out",
                **values,
            ) from None
        raise InputTypeError(
            "cell_not_a_number",
            where + " holds {cell!r} in row {row}, an entry of type {kind}; an argument "
            "must be a number or a string of a number",
            **{**values, "kind": type(self.content).__name__},
        ) from None


def find_cell(given: Any) -> Cell | None:
    """Return the first cell that is no number: of the first such column, in its first such row."""
    cells, dtype = np.asarray(given, dtype=object), getattr(given, "dtype", None)
    flat = cells.size > 0 and cells.ndim in (1, 2)
    if not flat or getattr(dtype, "kind", "O") not in "OUST" or isinstance(cells.flat[0], list):
        return None  # another check has the better words
    unnamed = unnamed_columns(cells.shape[-1]) if cells.ndim == 2 else [None]
    names = list(getattr(given, "columns", unnamed)) if cells.ndim == 2 else unnamed
    for j, column in enumerate(cells.reshape(len(cells), -1).T):
        for row, cell in enumerate(column):
            try:
                float(0.0 if cell is None else cell)
            except (ValueError, TypeError) as reason:
                kind = ValueError if isinstance(reason, ValueError) else TypeError
                return Cell(j, names[j], row, cell, kind)
    return None


def check_cells(name: str, given: Any) -> None:
    """Raise an error that names the column and the row of the first entry that is no number."""
    found = find_cell(given)
    if found is not None:
        found.refuse(name)
