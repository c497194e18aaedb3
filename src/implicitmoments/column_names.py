"""Names of columns that have none: x0, x1, …, as scikit-learn calls them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

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


def feature_places(columns: Mapping[str, Any], n_features: int) -> list[str]:
    """Return the names of the features of a file without names, given its columns by role.

    Examples
    --------
    >>> feature_places({"target": "x1"}, 2), feature_places({"features": "x2,x0"}, 2)
    (['x0', 'x2'], ['x2', 'x0'])
    """
    if "features" in columns:
        return str(columns["features"]).split(",")
    taken = [columns.get(role) for role in ("target", "weight")]
    free = [name for name in unnamed_columns(n_features + len(taken)) if name not in taken]
    return free[:n_features]


def column_place(word: str) -> int | None:
    """Return the place of an unnamed column that is given by name or number; else None.

    Examples
    --------
    >>> column_place("2"), column_place("x2"), column_place("height")
    (2, 2, None)
    """
    found = PLACE.fullmatch(word)
    return None if found is None else int(found[1])


def as_unnamed(word: str) -> str | None:
    """Return the name of an unnamed column that is given by name or number; else None.

    Examples
    --------
    >>> as_unnamed("2"), as_unnamed("x2"), as_unnamed("height")
    ('x2', 'x2', None)
    """
    place = column_place(word)
    return None if place is None else unnamed_column(place)
