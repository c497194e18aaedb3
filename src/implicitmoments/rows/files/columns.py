"""Columns of a file: those that were asked for among all, by name or number."""

from __future__ import annotations

import difflib
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from implicitmoments.column_names import unnamed_column
from implicitmoments.rows.files.errors import brief, refusal
from implicitmoments.rows.files.file_source import ARGUMENTS

# names of columns by the column of a block that they fill: features of "x", and one of others
ColumnNames: TypeAlias = Mapping[str, Sequence[str]]

INDEX = re.compile(r"__index_level_\d+__")  # where pandas keeps the labels of rows
COUNTED = 20  # rows that a column must number: fewer may be a coincidence
MOST_COMPARED = 1_000  # names that a mistyped one is compared with
MOST_LISTED = 12  # names in a suggestion
# what an error adds where it may help
OTHERS_HINT = " or choose others: `columns={numeric!r}`"
MARKER_HINT = "; if such text stands for missing numbers, give `na_values={markers!r}`"


class FileColumns(NamedTuple):
    """The columns of a file, and what errors about them say.

    ``not_numbers`` has values for an error about each column that does not hold numbers:
    ``"found"`` says what, ``"cell"`` and ``"line"`` belong to the first text. ``markers`` returns
    the texts among the numbers of a column that may stand for missing ones, and ``row_numbers``
    those of some columns that number the rows; both may read the file, and are called for errors
    only.
    """

    file: str
    names: Sequence[str]
    has_names: bool = True
    not_numbers: Mapping[str, Mapping[str, Any]] = {}
    markers: Callable[[str], list[str]] = lambda _: []
    row_numbers: Callable[[Sequence[str]], set[str]] = lambda _: set()

    def suggested(self, without: Iterable[str]) -> list[str]:
        """Return the columns that may be features: numbers, and no numbers of rows."""
        out = {*without, *self.not_numbers, ""}
        others = (n for n in self.names if n not in out and not INDEX.fullmatch(n))
        first = list(islice(others, 2 * MOST_LISTED))
        numbering = self.row_numbers(first) if len(set(first)) == len(first) else set()
        return [name for name in first if name not in numbering][:MOST_LISTED]


def row_numbers(columns: Mapping[str, Any]) -> set[str]:
    """Return the names of columns, arrays of Arrow, that number the rows in steps of 1."""
    found = set()
    for name, column in columns.items():
        if str(column.type) in ("int64", "int32", "uint64", "uint32", "double", "float"):
            numbers = np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
            if counts_rows(numbers):
                found.add(name)
    return found


def counts_rows(numbers: Any) -> bool:
    """Return whether numbers are whole and increase by 1 from row to row."""
    whole = len(numbers) >= COUNTED and numbers[0] == np.floor(numbers[0])
    return bool(whole and np.all(np.diff(numbers) == 1))


def choose_columns(given: FileColumns, wanted: Mapping[str, Any]) -> ColumnNames:
    """Find the columns that were asked for among the columns of a file."""
    file, names = given.file, given.names
    others = {
        column: find_column(file, names, wanted[column], what)
        for column, what in ARGUMENTS.items()
        if wanted[column] is not None
    }
    listed = wanted["x"]
    if listed is None:
        features = [n for n in names if n not in others.values() and not INDEX.fullmatch(n)]
        if "" in features:
            good = [brief(name) for name in given.suggested(others.values())]
            place = unnamed_column(list(names).index(""))
            hint = OTHERS_HINT if good else ""
            raise refusal("column_without_name", hint, file=file, column=place, numeric=good)
    elif isinstance(listed, str | bytes) or not isinstance(listed, Iterable):
        raise refusal("columns_not_a_list", file=file, given=listed)
    else:
        features = [find_column(file, names, one, "columns") for one in listed]
    if not features:
        raise refusal("no_features", file=file, names=[brief(name) for name in names])
    for column, name in others.items():
        if name in features:
            about = {"column": brief(name), "what": ARGUMENTS[column]}
            raise refusal("column_in_two_roles", file=file, **about)
    asked, there = Counter([*features, *others.values()]), Counter(names)
    for name in asked:
        if asked[name] > 1 or there[name] > 1:
            raise refusal("column_twice", file=file, column=brief(name))
        if name in given.not_numbers:
            good = [brief(n) for n in given.suggested(others.values())]
            markers = given.markers(name)
            found = {"column": brief(name), "numeric": good, "markers": markers}
            hint = (OTHERS_HINT if good else "") + (MARKER_HINT if markers else "")
            raise refusal(
                "column_not_numeric", hint, file=file, **found, **given.not_numbers[name]
            )
    return {"x": tuple(features), **{column: (name,) for column, name in others.items()}}


def find_column(file: str, names: Sequence[str], wanted: Any, what: str) -> str:
    """Return the name of a column that the argument ``what`` gives by name or number."""
    if isinstance(wanted, str):
        if wanted in names:
            return wanted
        by_letters = {name.lower(): name for name in names[:MOST_COMPARED]}
        found = difflib.get_close_matches(wanted.lower(), by_letters, 1)
        raise refusal(
            "no_such_column",
            "; did you mean {near}?" if found else "",
            file=file,
            what=what,
            wanted=wanted,
            names=[brief(name) for name in names],
            near=[brief(by_letters[name]) for name in found],
        )
    try:
        return names[operator.index(wanted)]
    except TypeError as reason:
        raise refusal("not_a_column", file=file, what=what, given=brief(repr(wanted))) from reason
    except IndexError as reason:
        n = len(names)
        raise refusal(
            "no_such_column_number", file=file, what=what, wanted=wanted, n_columns=n
        ) from reason
