"""Which columns of a table are features, labels and weights."""

from __future__ import annotations

import difflib
import operator
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from implicitmoments.rows.files.reader_errors import brief

__all__ = ["Choice", "Chosen", "choose_columns", "choose_numbers", "find_column"]

INDEX = re.compile(r"__index_level_\d+__")  # where pandas keeps the labels of rows

MOST_COMPARED = 1_000  # names, with one that was mistyped


@dataclass(frozen=True)
class Choice:
    """What the user asked for: names of columns, or their numbers."""

    columns: Any = None
    y: Any = None
    sample_weight: Any = None


@dataclass(frozen=True)
class Chosen:
    """Names of columns that are there and hold numbers.

    Attributes
    ----------
    features : tuple of str
    others : dict of str to str
        ``"y"`` and ``"counts"``, where they were asked for.
    """

    features: tuple[str, ...]
    others: Mapping[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """Every column that is read."""
        return (*self.features, *self.others.values())


def choose_columns(
    label: str, names: Sequence[str], not_numbers: Mapping[str, str], choice: Choice
) -> Chosen:
    """Find the columns that were asked for.

    Parameters
    ----------
    label : str
        The name of the file, for messages.
    names : sequence of str
        Of all columns.
    not_numbers : mapping of str to str
        What columns hold that hold no numbers.
    choice : Choice
    """
    given = {"y": choice.y, "counts": choice.sample_weight}
    others = {
        column: find_column(
            label, names, wanted, "sample_weight" if column == "counts" else column
        )
        for column, wanted in given.items()
        if wanted is not None
    }
    if choice.columns is None:
        features = [n for n in names if n not in others.values() and not INDEX.fullmatch(n)]
        if "" in features:
            raise ValueError(
                f"column {list(names).index('')} of {label} has no name, as where row labels "
                "are written; write the file without them, or name the columns by columns="
            )
    else:
        features = [
            find_column(label, names, wanted, "columns") for wanted in _listed(choice.columns)
        ]
    chosen = Chosen(tuple(features), others)
    if not features:
        raise ValueError(
            f"no column of {label} is a feature, expected at least one of {brief(list(names))}"
        )
    asked, there = Counter(chosen.names), Counter(names)
    for column, name in others.items():
        if name in features:
            what = "sample_weight" if column == "counts" else column
            raise ValueError(
                f"column {brief(name)!r} of {label} is asked for as a feature and as {what}; "
                "leave it out of columns"
            )
    for name in chosen.names:
        if asked[name] > 1 or there[name] > 1:
            raise ValueError(
                f"column {brief(name)!r} of {label} is there or asked for more than once, "
                "expected columns of different names"
            )
        if name in not_numbers:
            good = [n for n in names if n not in not_numbers and n not in others.values()]
            raise TypeError(
                f"column {brief(name)!r} of {label} holds {not_numbers[name]}, expected numbers; "
                f"encode it as numbers or choose others: columns={brief(good)}"
            )
    return chosen


def choose_numbers(label: str, width: int, columns: Any, taken: Iterable[int]) -> list[int]:
    """Find the columns of an array that are features: by default those not taken."""
    numbers = range(width)
    if columns is None:
        chosen = [j for j in numbers if j not in taken]
    else:
        names = [str(j) for j in numbers]
        chosen = [int(find_column(label, names, j, "columns")) for j in _listed(columns)]
    if not chosen or len({*chosen, *taken}) != len([*chosen, *taken]):
        raise ValueError(
            f"columns {chosen} of {label} are features and {list(taken)} are not, expected at "
            "least one feature and each column once"
        )
    return chosen


def _listed(columns: Any) -> list[Any]:
    if isinstance(columns, str | bytes) or not isinstance(columns, Iterable):
        raise TypeError(f"columns is a list of columns, got {columns!r}")
    return list(columns)


def find_column(label: str, names: Sequence[str], wanted: Any, what: str) -> str:
    """Return the name of a column by name or number; ``what`` asks for it."""
    if isinstance(wanted, str):
        if wanted in names:
            return wanted
        raise ValueError(
            f"{what} names column {wanted!r}, which {label} does not have; it has "
            f"{brief(list(names))}{_near(wanted, names)}"
        )
    try:
        return names[operator.index(wanted)]
    except TypeError as reason:
        raise TypeError(
            f"{what} is a column by name or number for a file of columns, got {wanted!r}"
        ) from reason
    except IndexError as reason:
        raise ValueError(
            f"{what} is column {wanted}, and {label} has {len(names)} columns, expected a number "
            f"below that"
        ) from reason


def _near(wanted: str, names: Sequence[str]) -> str:
    """Return a question where a name was mistyped."""
    by_letters = {name.lower(): name for name in names[:MOST_COMPARED]}
    found = difflib.get_close_matches(wanted.lower(), by_letters, 1)
    return f"; did you mean {brief(by_letters[found[0]])}?" if found else ""
