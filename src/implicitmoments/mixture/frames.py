"""Data frames as numbers: kinds and levels of columns, and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array

from implicitmoments.arrays import Floats
from implicitmoments.mixture.cells import Counts, Numbers, Outcomes
from implicitmoments.notes import InputError
from implicitmoments.validation import unnamed_columns

KINDS = ("gaussian", "lognormal", "poisson", "binomial", "bernoulli", "categorical")
LEVELS = KINDS[4:]
FEW = 10  # values of a column of whole numbers that are taken as levels
LIBRARIES = ("pandas", "polars")

Columns = Mapping[str, np.ndarray[Any, Any]]


def columns_of(X: Any, fewest: int = 1) -> Columns:
    """Return the columns of a data frame or an array by name, None for missing cells of text."""
    if isinstance(X, Mapping) and not issparse(X):
        return {str(name): np.asarray(column) for name, column in X.items()}
    if hasattr(X, "columns"):
        return {str(name): cells_of(X[name]) for name in X.columns}
    array = check_array(X, dtype=None, ensure_all_finite=False, ensure_min_samples=fewest)
    return dict(zip(unnamed_columns(array.shape[1]), array.T, strict=True))


def cells_of(series: Any) -> np.ndarray[Any, Any]:
    """Return the cells of one column of a frame."""
    found = np.asarray(series.to_numpy())
    if found.dtype.kind in "fiubmM":
        return found
    missing = np.asarray(series.isna() if hasattr(series, "isna") else series.is_null())
    cells = found.astype(object)
    cells[missing] = None
    return cells


def is_missing(cell: Any) -> bool:
    """Return whether a cell is None or NaN."""
    return cell is None or (isinstance(cell, float) and np.isnan(cell))


def as_numbers(cells: np.ndarray[Any, Any]) -> Floats | None:
    """Return the cells of a column in double precision, NaN for missing ones; None for text."""
    if cells.dtype.kind in "fiu":
        return cells.astype(np.float64)
    seen = [None if is_missing(cell) else cell for cell in cells.tolist()]
    if cells.dtype.kind == "b" or any(isinstance(cell, bool | str) for cell in seen):
        return None
    try:
        return np.array([np.nan if cell is None else cell for cell in seen], dtype=np.float64)
    except (TypeError, ValueError):
        return None


def guess_kind(cells: np.ndarray[Any, Any]) -> str:
    """Return the kind of a column by its type and values; "counts?" where a fit has to tell."""
    values = as_numbers(cells)
    if values is None:
        return "categorical"
    seen = values[~np.isnan(values)]
    if np.all(seen == np.round(seen)):
        if len(np.unique(seen)) <= FEW:
            return "categorical"
        return "counts?" if seen.min(initial=0.0) >= 0 else "gaussian"
    if seen.min() <= 0:
        return "gaussian"
    logs = np.log(seen)
    nearer = np.log(logs.std() + 1e-300) + logs.mean() < np.log(seen.std() + 1e-300)
    return "lognormal" if nearer else "gaussian"


@dataclass(frozen=True, eq=False)
class Layout:
    """Kinds of the columns of a table, and their levels; others hold exposures or trials."""

    kinds: dict[str, str]  # by name, in the order of the numbers
    levels: dict[str, list[Any]]
    beside: dict[str, str]  # column of exposures or trials of a column
    library: str  # of the tables that are returned; "dict" or "array" without one

    @property
    def names(self) -> list[str]:
        """Columns of the rows: those of a kind, exposures and trials."""
        return [*self.kinds, *dict.fromkeys(self.beside.values())]

    def numbers(self, X: Any) -> Floats:
        """Return the cells as numbers (n, ·), NaN for missing ones; levels by their place."""
        columns = columns_of(X)
        check_columns(self.names, columns)
        found = [self._column(name, columns[name], columns) for name in self.names]
        return np.column_stack(found)

    def _column(self, name: str, cells: np.ndarray[Any, Any], columns: Columns) -> Floats:
        """Return the numbers of one column, if they fit its kind."""
        kind = self.kinds.get(name, "exposure")
        if name in self.levels:
            return self._places(name, cells)
        values = as_numbers(cells)
        if values is None:
            raise misfit(name, kind, "a number", next(c for c in cells if not is_missing(c)))
        bad = ~np.isfinite(values) & ~np.isnan(values)
        expected = "a finite number"
        if kind == "lognormal":
            bad, expected = bad | (values <= 0), "a number above 0"
        if kind in ("poisson", "binomial", "exposure"):
            bad, expected = bad | (values < 0), "no number below 0"
        if kind in ("poisson", "binomial"):
            bad, expected = bad | (values != np.round(values)) & ~np.isnan(values), "a count"
        if kind == "binomial":
            trials = as_numbers(columns[self.beside[name]])
            if trials is not None:
                bad, expected = bad | (values > trials), "a count up to the number of trials"
        if bad.any():
            raise misfit(name, kind, expected, values[bad][0])
        return values

    def _places(self, name: str, cells: np.ndarray[Any, Any]) -> Floats:
        """Return the places of cells among the levels of a column."""
        places = {level: float(i) for i, level in enumerate(self.levels[name])}
        seen = [None if is_missing(cell) else cell for cell in cells.tolist()]
        new = next((cell for cell in seen if cell is not None and cell not in places), None)
        if new is not None:
            expected = "one of " + ", ".join(map(str, self.levels[name]))
            raise misfit(name, self.kinds[name], expected, new)
        return np.array([np.nan if cell is None else places[cell] for cell in seen])

    def parts(self) -> tuple[Numbers | Counts | Outcomes, ...]:
        """Return the kinds of columns as parts of a family."""
        of = {kind: [name for name, own in self.kinds.items() if own == kind] for kind in KINDS}
        at = {name: i for i, name in enumerate(self.names)}
        numbers = of["gaussian"] + of["lognormal"]
        outcomes = of["binomial"] + of["bernoulli"] + of["categorical"]

        def places(names: list[str]) -> Any:
            return np.array([at.get(self.beside.get(name, ""), -1) for name in names])

        def own(names: list[str]) -> Any:
            return np.array([at[name] for name in names])

        logs = np.array([self.kinds[name] == "lognormal" for name in numbers])
        sizes = np.array([len(self.levels.get(name, "ab")) for name in outcomes])
        found: list[Numbers | Counts | Outcomes] = [Numbers(own(numbers), logs)] if numbers else []
        found += [Counts(own(of["poisson"]), places(of["poisson"]))] if of["poisson"] else []
        found += [Outcomes(own(outcomes), sizes, places(outcomes))] if outcomes else []
        return tuple(found)

    def frame(self, numbers: Floats) -> Any:
        """Return numbers (n, ·) as a table of the library, with levels in their places."""
        columns: dict[str, Any] = {}
        for name, values in zip(self.names, numbers.T, strict=True):
            levels = self.levels.get(name)
            columns[name] = values
            if levels is not None:
                whole = np.array([*levels, None], dtype=object)
                places = np.where(np.isnan(values), len(levels), values).astype(np.int64)
                columns[name] = whole[places].tolist()
        return frame_of(self.library, columns)


def frame_of(library: str, columns: Mapping[str, Any]) -> Any:
    """Return columns as a frame of a library, a dictionary or an array."""
    if library in LIBRARIES:
        return import_module(library).DataFrame(dict(columns))
    if library == "dict":
        return {name: np.asarray(column) for name, column in columns.items()}
    found = [np.asarray(column) for column in columns.values()]
    text = any(column.dtype.kind not in "fiub" for column in found)
    return np.column_stack([column.astype(object) for column in found] if text else found)


def misfit(name: str, kind: str, expected: str, cell: Any) -> InputError:
    """Return the error of a cell that does not fit the kind of its column."""
    template = "column {column!r} is {kind} and holds {cell!r}, expected {expected}; set another "
    template += "kind in `columns`, or mend the cell"
    cell = cell[:80] if isinstance(cell, str) else getattr(cell, "item", lambda: cell)()
    values = {"column": name, "kind": kind, "cell": cell, "expected": expected}
    return InputError("cell_of_another_kind", template, **values)


def check_columns(names: list[str], columns: Columns) -> None:
    """Raise if a table lacks one of some columns."""
    gone = [name for name in names if name not in columns]
    if gone:
        template = "the table has no column {column!r}; it has {columns}"
        raise InputError("no_such_table_column", template, column=gone[0], columns=[*columns])


def kind_of(name: str, cells: np.ndarray[Any, Any], n_values: int, given: str) -> str:
    """Return the kind of a column of some values: the given one, or a guess."""
    if cells.dtype.kind in "mM":
        raise misfit(name, "of dates", "a number, such as days", str(cells[0]))
    kind = guess_kind(cells) if given == "auto" else given
    if given == "auto" and kind == "categorical" and n_values > max(FEW, len(cells) / 2):
        template = "column {column!r} has {n:count level}, nearly one for each row; leave it out "
        template += "of `columns`, or name its kind there"
        raise InputError("column_of_many_levels", template, column=name, n=n_values)
    return kind


def layout_of(
    X: Any, columns: Any, exposure: Mapping[str, str], trials: Mapping[str, str]
) -> Layout:
    """Return the layout of a table; kinds that are not given are guessed, "counts?" among them."""
    cells, beside = columns_of(X, fewest=2), {**exposure, **trials}
    given = {} if columns == "auto" else dict(columns)
    names = [name for name in cells if name not in beside.values()] if not given else [*given]
    given = dict.fromkeys(exposure, "poisson") | dict.fromkeys(trials, "binomial") | given
    kinds, levels = {}, {}
    check_columns([*names, *beside.values()], cells)
    for name in names:
        seen = {cell for cell in cells[name].tolist() if not is_missing(cell)}
        if len(seen) < 2:
            template = "column {column!r} has {n:count value} in all; leave it out of `columns`"
            raise InputError("column_of_one_value", template, column=name, n=len(seen))
        kind = kind_of(name, cells[name], len(seen), given.get(name, "auto"))
        if kind not in (*KINDS, "counts?"):
            template = (
                "column {column!r}: {kind!r} is no kind of a column; expected one of {kinds}"
            )
            raise InputError(
                "unknown_column_kind", template, column=name, kind=kind, kinds=[*KINDS]
            )
        if kind == "binomial" and name not in trials:
            template = "column {column!r} is binomial; name the column of its trials in `trials`"
            raise InputError("trials_missing", template, column=name)
        if kind in LEVELS:
            levels[name] = sorted(seen, key=lambda level: (str(type(level)), level))
        if kind == "bernoulli" and len(seen) > 2:
            raise misfit(name, kind, "one of two values", levels[name][2])
        kinds[name] = kind
    plain = "dict" if isinstance(X, Mapping) else "array"
    library = next((each for each in LIBRARIES if type(X).__module__.startswith(each)), plain)
    return Layout(kinds, levels, {name: beside[name] for name in kinds if name in beside}, library)
