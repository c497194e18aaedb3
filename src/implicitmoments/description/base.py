"""Base of all descriptions: findings and tables of a fitted model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from implicitmoments.arrays import Floats, to_numpy
from implicitmoments.column_names import as_unnamed, feature_places
from implicitmoments.notes import Notes

LEVEL = "mean log-likelihood per row"
FREEDOM = "degrees of freedom of the noise"
# fitted attributes and statistics that have one name in all estimators
FOUND = {
    "n_components_": "components",
    "covariance_type_": "covariance type",
    "degree_": "degree",
    "order_": "order of the test",
    "variance_": "variance",
    "noise_": "noise (scale)",
    "degrees_of_freedom_": FREEDOM,
    "weights_": "weights",
    "lower_bound_": LEVEL,
    "acceptance_rate_": "acceptance rate",
    "n_iter_": "iterations",
    "converged_": "converged",
}
MEASURED = {
    "separation": "separation (noise standard deviations)",
    "distance": "total variation from the rows, at least",
    "outliers": "outliers left out",
}
SHOWN = 4  # entries of an array in the table of findings
LONG, LONGEST = 1e4, 1e9  # numbers that are written out, though they have more digits


@dataclass(frozen=True, eq=False)
class Table:
    """A table with names of columns."""

    name: str  # its heading
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]  # numbers and strings
    meanings: Mapping[str, str] = field(default_factory=dict)  # what the first cells of rows mean
    marked: frozenset[str] = frozenset()  # first cells of rows that stand out
    note: str = ""  # beneath the heading


class Description:
    """What a fitted model shows of itself. Base of all estimators.

    Attributes
    ----------
    kind : str
        The word of the command line.
    component : str
        What a component is called.
    vectors : str
        The fitted attribute with one vector per component; empty without components.
    results : tuple of str
        Fitted attributes for a user, in the order they are shown.
    points, slopes : tuple of str
        Fitted attributes in the units of the columns, and in their inverse.
    score_name : str
        What ``score`` returns.
    density_of_labels : bool
        Whether densities are of labels given rows, and do not depend on the units of columns.
    """

    kind: ClassVar[str]
    component: ClassVar[str] = "component"
    vectors: ClassVar[str] = ""
    results: ClassVar[tuple[str, ...]] = ()
    points: ClassVar[tuple[str, ...]] = ()
    slopes: ClassVar[tuple[str, ...]] = ()
    score_name: ClassVar[str] = LEVEL
    density_of_labels: ClassVar[bool] = False

    stats_: dict[str, Any]
    notes_: Notes
    n_features_in_: int

    def _k(self) -> int:
        """Return the number of components found, or asked for where none are."""
        return int(getattr(self, "n_components_", None) or self.n_components)  # type: ignore[attr-defined]

    def _findings(self) -> dict[str, Any]:
        """Return the findings of a fit, by name."""
        found = {
            words: getattr(self, name) for name, words in FOUND.items() if hasattr(self, name)
        }
        if np.isinf(found.get(FREEDOM, 0.0)):  # of Gaussian noise
            del found[FREEDOM]
        return found | {
            words: self.stats_[name] for name, words in MEASURED.items() if name in self.stats_
        }

    def _parameter_tables(self) -> list[Table]:
        """Return the fitted parameters."""
        raise NotImplementedError


def counted(n: int, one: str, many: str | None = None) -> str:
    """Return a number of things in words.

    Examples
    --------
    >>> counted(1, "row"), counted(2_000, "row"), counted(2, "pass", "passes")
    ('1 row', '2,000 rows', '2 passes')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def findings_of(model: Any) -> dict[str, str]:
    """Return the findings of a fit, by name, rounded."""
    return {name: _shown(value) for name, value in model._findings().items()}


def fit_columns(model: Any) -> Mapping[str, Any]:
    """Return the columns of a file that a model was fitted to, by role."""
    columns: Mapping[str, Any] = getattr(model, "columns_in_", {})
    if hasattr(model, "feature_names_in_") or not isinstance(columns, Mapping):
        return columns
    return {role: _unnamed(words) for role, words in columns.items()}


def _unnamed(words: Any) -> Any:
    """Return columns of a file without names; older model files have their numbers."""
    if not isinstance(words, str):
        return words
    return ",".join(as_unnamed(word) or word for word in words.split(","))


def as_floats(array: Any) -> Floats:
    """Return an array of any library in NumPy, in double precision."""
    return np.asarray(to_numpy(array), dtype=np.float64)


def column_names(model: Any) -> list[str]:
    """Return the names of the features, or their places in the file, x0, x1, …, without names."""
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    return feature_places(fit_columns(model), model.n_features_in_)


def error_table(model: Any, columns: Sequence[str], *names: str) -> list[Table]:
    """Return a table of standard errors; none where they were not asked for."""
    errors: list[Any] = [getattr(model, name, None) for name in names]  # files of before
    if any(part is None for part in errors):
        return []
    parts = (np.broadcast_to(as_floats(e), model._k()) if np.ndim(e) == 0 else e for e in errors)
    return [Table("Standard errors", columns, numbered_rows(*parts))]


def numbered_rows(*parts: Any) -> list[list[Any]]:
    """Return rows of a table: the number of a component and its parameters."""
    table = np.column_stack([as_floats(part) for part in parts])
    return [[i, *(float(value) for value in row)] for i, row in enumerate(table)]


def _shown(value: Any) -> str:
    """Return a number, or the first entries of an array, in few digits."""
    if value is None or isinstance(value, str):
        return value or "none"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    numbers = np.ravel(to_numpy(value))
    if len(numbers) > 1 and np.all(numbers == numbers[0]):
        numbers = numbers[:1]
    words = ", ".join(_number(each) for each in numbers[:SHOWN])
    return words if len(numbers) <= SHOWN else f"{words}, … ({len(numbers)})"


def _number(value: Any) -> str:
    return f"{int(value):,}" if float(value).is_integer() else short_number(float(value))


def short_number(value: float) -> str:
    """Return about four digits, and all before the point where they are at most nine.

    Examples
    --------
    >>> short_number(3.14159), short_number(14012.3), short_number(2.5e-7)
    ('3.142', '14,012', '2.5e-07')
    """
    return f"{value:,.0f}" if LONG <= abs(value) < LONGEST else f"{value:.4g}"
