"""Which columns of a file are features, labels and weights."""

from __future__ import annotations

import difflib
import operator
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from implicitmoments.rows.files.errors import brief, refusal

INDEX = re.compile(r"__index_level_\d+__")  # where pandas keeps the labels of rows
ARGUMENTS = {"y": "y", "counts": "sample_weight"}  # columns of a block, as the user names them
ROLES = {"y": "target", "counts": "weight"}  # and as a fitted estimator remembers them
MOST_COMPARED = 1_000  # names that a mistyped one is compared with
MOST_LISTED = 12  # names in a suggestion


@dataclass(frozen=True)
class Choice:
    """What the user asked for: names of columns, or their numbers."""

    columns: Any = None
    y: Any = None
    sample_weight: Any = None


@dataclass(frozen=True)
class Chosen:
    """Names of columns that exist and hold numbers."""

    features: tuple[str, ...]
    others: Mapping[str, str]  # "y" and "counts", where they were asked for

    @property
    def names(self) -> tuple[str, ...]:
        """Every column that is read."""
        return (*self.features, *self.others.values())

    def remembered(self, *, by_number: bool) -> dict[str, str]:
        """Return the columns by role; features where they were chosen by number."""
        roles = {ROLES[column]: name for column, name in self.others.items()}
        return {**roles, "features": ",".join(self.features)} if by_number else roles


def choose_columns(
    file: str,
    names: Sequence[str],
    choice: Choice,
    not_numbers: Mapping[str, Mapping[str, Any]] | None = None,
) -> Chosen:
    """Find the columns that were asked for among the names of all columns.

    Columns without names are named by numbers. ``not_numbers`` has values for an error about each
    column that does not hold numbers: ``"found"`` says what, ``"cell"`` and ``"line"`` belong to
    the first text.
    """
    given = {"y": choice.y, "counts": choice.sample_weight}
    others = {
        column: find_column(file, names, wanted, ARGUMENTS[column])
        for column, wanted in given.items()
        if wanted is not None
    }
    if choice.columns is None:
        features = [n for n in names if n not in others.values() and not INDEX.fullmatch(n)]
        if "" in features:
            raise refusal("column_without_name", file=file, column=list(names).index(""))
    else:
        listed = choice.columns
        if isinstance(listed, str | bytes) or not isinstance(listed, Iterable):
            raise refusal("columns_not_a_list", file=file, given=listed)
        features = [find_column(file, names, wanted, "columns") for wanted in listed]
    if not features:
        raise refusal("no_features", file=file, names=[brief(name) for name in names])
    chosen = Chosen(tuple(features), others)
    for column, name in others.items():
        if name in features:
            what = ARGUMENTS[column]
            raise refusal("column_in_two_roles", file=file, column=brief(name), what=what)
    asked, there = Counter(chosen.names), Counter(names)
    for name in chosen.names:
        if asked[name] > 1 or there[name] > 1:
            raise refusal("column_twice", file=file, column=brief(name))
        if not_numbers and name in not_numbers:
            good = [brief(n) for n in names if n not in not_numbers and n not in others.values()]
            about = {"column": brief(name), "numeric": good[:MOST_LISTED], **not_numbers[name]}
            raise refusal("column_not_numeric", file=file, **about)
    return chosen


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
