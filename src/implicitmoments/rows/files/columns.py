"""Columns of a file: those that were asked for among all, by name or number."""

from __future__ import annotations

import difflib
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from implicitmoments.column_names import unnamed_column
from implicitmoments.notes import CodedError
from implicitmoments.rows.files.errors import brief, refusal
from implicitmoments.rows.files.file_source import ARGUMENTS

# names of columns by the column of a block that they fill: features of "x", and one of others
ColumnNames: TypeAlias = Mapping[str, Sequence[str]]

INDEX = re.compile(r"__index_level_\d+__")  # where pandas keeps the labels of rows
COUNTED = 20  # rows that a column must number: fewer may be a coincidence
MOST_COMPARED = 1_000  # names that a mistyped one is compared with
MOST_LISTED = 12  # names in a suggestion
# what an error adds where it may help
ENCODE_HINT = "; encode it as numbers"
OTHERS_HINT = " or choose the columns of numbers: `columns={numeric!r}{options}`"
MARKER_HINT = "; if such text stands for missing numbers, give `na_values={markers!r}`"
DECIMAL_HINT = "; if the decimal separator is {decimal!r}, give `decimal={decimal!r}`"
SEP_HINT = "; if columns are separated by {sep!r}, give `sep={sep!r}`"
REMEDY_HINTS = {"sep": SEP_HINT, "decimal": DECIMAL_HINT, "markers": MARKER_HINT}
# texts that stand for a missing number in a column of numbers, most probably
USUAL_MARKERS = {"-", "--", "–", "—", ".", "..", "?"}


# options of ``open_file``
Remedy: TypeAlias = Mapping[str, Any]


class FileColumns(NamedTuple):
    """The columns of a file, and what errors about them say.

    ``not_numbers`` has values for an error about each column that does not hold numbers:
    ``"found"`` says what, ``"cell"`` and ``"line"`` belong to the first text. ``remedies`` returns
    for some columns the options of ``open_file`` by which each may hold numbers: ``na_values``,
    ``decimal`` and ``sep``. ``row_numbers`` returns those of some columns that number the rows.
    Both may read the file, and are called for errors only.
    """

    file: str
    names: Sequence[str]
    has_names: bool = True
    not_numbers: Mapping[str, Mapping[str, Any]] = {}
    remedies: Callable[[Sequence[str]], Mapping[str, Remedy]] = lambda _: {}
    row_numbers: Callable[[Sequence[str]], set[str]] = lambda _: set()

    def suggested(self, without: Iterable[str], remedies: Mapping[str, Remedy]) -> list[str]:
        """Return the columns that may be features: numbers, and no numbers of rows.

        Columns with a remedy hold numbers too.
        """
        out = {*without, *(name for name in self.not_numbers if name not in remedies), ""}
        others = (n for n in self.names if n not in out and not INDEX.fullmatch(n))
        first = list(islice(others, 2 * MOST_LISTED))
        plain = [name for name in first if name not in self.not_numbers]
        numbering = self.row_numbers(plain) if len(set(first)) == len(first) else set()
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
    with np.errstate(invalid="ignore"):  # a column may have infinite numbers
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
            sure = _sure(given.remedies(list(given.not_numbers)))
            choice = _choice(given, others.values(), sure)
            place = unnamed_column(list(names).index(""))
            hint = OTHERS_HINT if choice["numeric"] else ""
            raise refusal("column_without_name", hint, file=file, column=place, **choice)
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
            raise _not_numeric(given, name, features, others.values())
    return {"x": tuple(features), **{column: (name,) for column, name in others.items()}}


def _not_numeric(
    given: FileColumns, name: str, features: Sequence[str], others: Iterable[str]
) -> CodedError:
    """Return the error about a column without numbers, with the options to try."""
    remedies = given.remedies(list(given.not_numbers))
    sure, found = _sure(remedies), {"column": brief(name), **given.not_numbers[name]}
    choice = _choice(given, others, sure)
    if all(n in sure for n in features if n in given.not_numbers):
        found |= _merged(sure[n] for n in features if n in sure)
        hint = "".join(words for value, words in REMEDY_HINTS.items() if value in found)
    else:
        found["markers"] = markers = list(remedies.get(name, {}).get("na_values", []))
        hint = ENCODE_HINT + (OTHERS_HINT if choice["numeric"] else "")
        hint += MARKER_HINT if markers and name not in sure else ""
    return refusal("column_not_numeric", hint, file=given.file, **choice, **found)


def _sure(remedies: Mapping[str, Remedy]) -> dict[str, Remedy]:
    """Return the remedies of columns that hold numbers, beside usual signs of missing ones."""
    return {n: r for n, r in remedies.items() if USUAL_MARKERS.issuperset(r.get("na_values", ()))}


def _choice(
    given: FileColumns, others: Iterable[str], sure: Mapping[str, Remedy]
) -> dict[str, Any]:
    """Return values of ``OTHERS_HINT``: the columns to choose, and further options they need."""
    good = given.suggested(others, sure)
    needed = _merged(sure[n] for n in good if n in sure)
    needed = {"na_values" if name == "markers" else name: one for name, one in needed.items()}
    options = "".join(f", {name}={one!r}" for name, one in needed.items())
    return {"numeric": [brief(name) for name in good], "options": options}


def _merged(remedies: Iterable[Remedy]) -> dict[str, Any]:
    """Return the options that several columns need, as values of ``REMEDY_HINTS``."""
    found = list(remedies)
    plain = {name: one for each in found for name, one in each.items() if name != "na_values"}
    markers = dict.fromkeys(chain.from_iterable(each.get("na_values", ()) for each in found))
    return {**plain, "markers": list(markers)} if markers else plain


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
