"""Names of columns that have none: x0, x1, …, as scikit-learn calls them."""

from __future__ import annotations

import re

PLACE = re.compile(r"x?(0|[1-9][0-9]*)")


def unnamed_columns(n: int) -> list[str]:
    """Return the names of n columns without names.

    Examples
    --------
    >>> unnamed_columns(3)
    ['x0', 'x1', 'x2']
    """
    return [unnamed_column(j) for j in range(n)]


def unnamed_column(j: int) -> str:
    """Return the name of column j, counted from 0, of columns without names."""
    return f"x{j}"


def as_unnamed(word: str) -> str | None:
    """Return the name of an unnamed column that was typed as a name or a number; else None.

    Examples
    --------
    >>> as_unnamed("2"), as_unnamed("x2"), as_unnamed("height")
    ('x2', 'x2', None)
    """
    found = PLACE.fullmatch(word)
    return None if found is None else unnamed_column(int(found[1]))
