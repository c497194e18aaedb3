"""Base of all estimators: ``fit``, and the interface of reports, pictures, files and commands.

A new estimator is one class, exported by the package and listed in ``saving``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.utils._param_validation import validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted

from implicitmoments.arrays import Array, Floats, move_like, to_numpy
from implicitmoments.notes import Note, Notes, warn_of
from implicitmoments.picture_data import ComponentView, FitView, RowSample
from implicitmoments.rows import CheckpointPath, Progress, Rows, open_rows
from implicitmoments.validation import RandomState, as_seed, unnamed_columns, whole

SMALL_BIC = 2.0  # a smaller difference of BIC is no evidence (Kass and Raftery 1995)
TABLE = (
    '<table style="font:13px/1.5 sans-serif;border-collapse:collapse;margin:.5em 0">'
    '<caption style="text-align:left;font-weight:600">{caption}</caption>{rows}</table>'
)
ROW = (
    '<tr{code}><th scope="row" style="text-align:left;font-weight:400;padding:0 1em 0 0">{name}'
    '</th><td style="text-align:left">{value}</td></tr>'
)


# fitted attributes and statistics that have one name in all estimators
FOUND = {
    "n_components_": "components",
    "covariance_type_": "covariance type",
    "degree_": "degree",
    "order_": "order of the test",
    "variance_": "variance",
    "noise_": "noise (scale)",
    "degrees_of_freedom_": "degrees of freedom of the noise",
    "weights_": "weights",
    "lower_bound_": "mean log-likelihood per row",
    "acceptance_rate_": "acceptance rate",
    "n_iter_": "iterations",
    "converged_": "converged",
}
MEASURED = {
    "separation": "separation (noise standard deviations)",
    "distance": "Kolmogorov distance from the rows",
    "outliers": "outliers left out",
}
SHOWN = 4  # entries of an array in the table of findings
FEATURES = ""  # heading of a parameter with a value for each feature


@dataclass(frozen=True, eq=False)
class Table:
    """A table with names of columns."""

    name: str  # its heading
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]  # numbers and strings
    meanings: Mapping[str, str] = field(default_factory=dict)  # what the first cells of rows mean
    marked: frozenset[str] = frozenset()  # first cells of rows that stand out
    note: str = ""  # beneath the heading


class Check(NamedTuple):
    """A measurement that supports a fit, or speaks against it."""

    code: str
    passed: bool
    words: str  # the measurement as a sentence

    def __str__(self) -> str:
        return self.words


class FittedEstimator:
    """Base of all estimators: fit, findings and display.

    Attributes
    ----------
    allowed : mapping of str to list
        Constraints of parameters, in the form of scikit-learn; any of a list will do.
    labelled : bool
        Whether it is fitted to rows with labels.
    answers : mapping of str to str
        Which of the questions ``"labels"``, ``"probabilities"``, ``"predictions"``,
        ``"components"`` (given x and y), ``"densities"`` and ``"samples"`` it answers, and by
        which method.
    saved : mapping of str to type
        Fitted attributes in a model file; a type without None is that of a required one.
    records : tuple of type
        Dataclasses in a model file beyond those that the types of ``saved`` lead to.
    iterative : bool
        Whether a fit has steps that a picture may show.
    captions : mapping of str to str
        How to read each picture that there is: ``"spectra"``, ``"components"``,
        ``"fit"``, and variants
        ``"components_of_one"`` and ``"components_one_column"``.
    component : str
        What a component is called.
    vectors : str
        The fitted attribute with one vector per component; empty without components.
    tables : mapping of str to mapping
        Fitted parameters of the components: tables by name, of attributes by heading.
    density_of_labels : bool
        Whether densities are of labels given rows, and do not depend on the units of columns.
    """

    labelled: ClassVar[bool] = False
    answers: ClassVar[Mapping[str, str]] = {}
    saved: ClassVar[Mapping[str, Any]] = {}
    records: ClassVar[tuple[type, ...]] = ()
    iterative: ClassVar[bool] = True
    captions: ClassVar[Mapping[str, str]] = {}
    fewest_rows: ClassVar[int] = 1
    allowed: ClassVar[Mapping[str, list[Any]]] = {
        "rows_per_block": [whole(1), None],
        "drop_outliers": ["boolean"],
    }
    component: ClassVar[str] = "component"
    vectors: ClassVar[str] = ""
    tables: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    density_of_labels: ClassVar[bool] = False

    stats_: dict[str, Any]
    notes_: Notes
    n_features_in_: int
    weights_: Any
    means_: Any
    covariances_: Any
    covariance_type_: str
    degrees_of_freedom_: float
    variance_: Any
    random_state: RandomState
    rows_per_block: int | None
    max_components: int  # of estimators that choose their number

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        checkpoint: CheckpointPath = None,
        progress: Progress | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array (n_samples, n_features), data frame, path, iterator of blocks, Dask or Table
        y : array of shape (n_samples,) or column name, optional
            Labels, for estimators that have them; ignored by the others. Sources and iterators of
            blocks bring their own.
        sample_weight : array of shape (n_samples,), optional
            Number of times each row counts; 0 leaves it out. Weights that are not all whole
            numbers, or have a mean below 1, are proportions, and are scaled to a mean of 1.
        checkpoint : path, optional
            File in which finished passes are kept, so that an interrupted fit can be resumed.
        progress : callable, optional
            Called as ``progress(what, rows_done, rows_total)``.

        Returns
        -------
        self
        """
        self._check_parameters()
        how: dict[str, Any] = {"labelled": self.labelled, "fewest": self.fewest_rows}
        how |= {"checkpoint": checkpoint, "progress": progress}
        labels = y if self.labelled else None
        with open_rows(self, X, labels, sample_weight, **how) as (rows, seed):
            self._fit(rows, seed)
        self._label(X)
        warn_of(self.notes_)
        return self

    def _check_parameters(self) -> None:
        """Raise for parameters that cannot be used."""
        given: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        validate_parameter_constraints(self.allowed, given, type(self).__name__)

    def _fit(self, rows: Rows, seed: int) -> None:
        """Fit to rows, and set the fitted attributes."""
        raise NotImplementedError

    def _label(self, X: Any) -> None:
        """Set the fitted attributes that have one entry per row."""

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn, with the requirement of labels."""
        tags: Any = super().__sklearn_tags__()  # type: ignore[misc]
        tags.target_tags.required |= self.labelled
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Say whether a fit has ended; one that raised an error may have set other attributes."""
        return hasattr(self, "stats_")

    def _seed(self, random_state: RandomState) -> int:
        """Return the seed of draws of a fitted model: by default that of the estimator."""
        check_is_fitted(self)
        return as_seed(self.random_state if random_state is None else random_state)

    @property
    def _constant_values(self) -> Floats | None:
        """Values of columns that the fit left out, (d,), NaN for the others; None for none."""
        return getattr(self, "_constants", None)

    def _k(self) -> int:
        """Return the number of components found, or asked for where none are."""
        return int(getattr(self, "n_components_", None) or self.n_components)  # type: ignore[attr-defined]

    def _findings(self) -> dict[str, Any]:
        """Return the findings of a fit, by name."""
        found = {
            words: getattr(self, name) for name, words in FOUND.items() if hasattr(self, name)
        }
        freedom = FOUND["degrees_of_freedom_"]
        if np.isinf(found.get(freedom, 0.0)):  # of Gaussian noise
            del found[freedom]
        return found | {
            words: self.stats_[name] for name, words in MEASURED.items() if name in self.stats_
        }

    def _parameter_tables(self) -> list[Table]:
        """Return the fitted parameters, with a row for each component."""
        found = []
        for name, attributes in self.tables.items():
            columns, parts = [self.component], [np.arange(self._k(), dtype=float)]
            for heading, attribute in attributes.items():
                value = getattr(self, attribute, None)
                if value is not None:
                    columns += column_names(self) if heading == FEATURES else [heading]
                    values = as_floats(value)
                    parts.append(np.broadcast_to(values, self._k()) if not values.ndim else values)
            if len(parts) > 1:
                rows = np.column_stack(parts).tolist()
                found.append(Table(name, columns, [[int(i), *row] for i, *row in rows]))
        return found

    def _title(self) -> str:
        """Return a description of the fitted model: "a mixture of 3 spherical Gaussians"."""
        raise NotImplementedError

    def _checks(self) -> list[Check]:
        """Return measurements of the fit for and against it, beyond its notes."""
        return []

    def _bic_checks(self) -> list[Check]:
        """Return how clearly BIC chose the number of components."""
        k, scores = self._k(), self.stats_.get("bic_by_n_components", {})
        others = {n: score - scores[k] for n, score in scores.items() if k in scores and n != k}
        if not others:
            return []
        if k == max(scores) == self.max_components:
            words = f"BIC still decreases at max_components={k}; increase max_components"
            return [Check("bic", False, words)]
        other = min(others, key=others.__getitem__)
        gap = others[other]
        if gap < 0:
            # errors are those of differences from the least
            noise = 2 * self.stats_.get("bic_noise_by_n_components", {}).get(k, 0.0)
            words = (
                f"BIC of {other} components is {-gap:,.1f} lower than that of {k} "
                f"(two standard errors: {noise:,.1f})"
            )
            return [Check("bic", k < other and -gap <= noise, words)]
        words = f"BIC is lowest with {k} components; with {other} it is {gap:,.1f} higher"
        return [Check("bic", gap >= SMALL_BIC, words)]

    def _codes(self) -> set[str]:
        """Return the codes of the notes of the fit."""
        return set(self.notes_.codes)

    def _weighted(self) -> bool:
        """Say whether rows had weights in the fit, as far as the model knows."""
        used = float(self.stats_.get("rows_used", 1))
        return bool(
            "weight" in getattr(self, "columns_in_", {})
            or not np.isclose(float(self.stats_.get("rows_counted", used)), used, rtol=1e-9)
        )

    def _noise_free(self, rows: RowSample) -> bool:  # noqa: ARG002
        """Say whether the noise is at its floor, so that samples differ from the rows."""
        return False

    def _component_view(self, rows: RowSample) -> ComponentView:
        """Return the data of a picture of rows and components."""
        raise NotImplementedError

    def _fit_view(self, rows: RowSample) -> FitView:
        """Return the data of a picture of the model against rows."""
        raise NotImplementedError

    def _caption(self, picture: str, target: str = "y") -> str:
        """Return how to read a picture, with the name of the labels."""
        words = self.captions.get(picture, "")
        if self._k() == 1:
            words = self.captions.get(f"{picture}_of_one", words)
        if self.n_features_in_ == 1:
            words = self.captions.get(f"{picture}_one_column", words)
        return words.format(target=target)

    def _repr_html_inner(self) -> str:
        diagram: str = super()._repr_html_inner()  # type: ignore[misc]
        return diagram + self._summary_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._summary_html()
        return bundle

    def _summary_html(self) -> str:
        """Return a table of findings and notes; nothing before a fit."""
        if not (hasattr(self, "stats_") and hasattr(self, "notes_")):
            return ""
        rows = [
            ROW.format(code="", name=escape(name), value=escape(value))
            for name, value in findings_of(self).items()
        ]
        rows += [
            ROW.format(code=f' data-code="{note.code}"', name="note", value=escape(str(note)))
            for note in self.notes_
        ]
        caption = f"Fitted {escape(type(self).__name__)}"
        return TABLE.format(caption=caption, rows="".join(rows))


def constant_notes(model: Any, constants: Floats | None) -> Notes:
    """Return a note on the constant columns that a fit left out, if there are any."""
    if constants is None:
        return Notes()
    columns = [column_names(model)[j] for j in np.flatnonzero(~np.isnan(constants))]
    return Notes([Note("columns_left_out", {"columns": columns})])


def outlier_notes(n: int) -> list[Note]:
    """Return a note on outliers that a fit left out, if there are any."""
    return [Note("outliers", {"n": n, "done": "left out of"})] if n else []


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


def as_floats(array: Any) -> Floats:
    """Return an array of any library in NumPy, in double precision."""
    return np.asarray(to_numpy(array), dtype=np.float64)


def as_like(value: Any, other: Array) -> Any:
    """Return a number as a float, and an array as ``move_like`` does."""
    array = np.asarray(value, dtype=np.float64)
    return move_like(array, other) if array.ndim else float(array)


def column_names(model: Any) -> list[str]:
    """Return the names of the features, or their places in the file, x0, x1, …, without names."""
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    columns: Mapping[str, Any] = getattr(model, "columns_in_", {})
    if "features" in columns:
        return str(columns["features"]).split(",")
    taken = [columns.get(role) for role in ("target", "weight")]
    free = [name for name in unnamed_columns(model.n_features_in_ + 2) if name not in taken]
    return free[: model.n_features_in_]


def _shown(value: Any) -> str:
    """Return a number, or the first entries of an array, in few digits."""
    if value is None or isinstance(value, str):
        return value or "none"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    numbers = np.ravel(to_numpy(value))
    if len(numbers) > 1 and np.all(numbers == numbers[0]):
        numbers = numbers[:1]
    words = ", ".join(short_number(each) for each in numbers[:SHOWN].tolist())
    return words if len(numbers) <= SHOWN else f"{words}, … ({len(numbers)})"


def short_number(value: float) -> str:
    """Return about four digits, and all before the point where they are at most nine.

    Examples
    --------
    >>> short_number(3.14159), short_number(14012.3), short_number(2.5e-7), short_number(1000)
    ('3.142', '14,012', '2.5e-07', '1,000')
    """
    whole = float(value).is_integer() or 1e4 <= abs(value) < 1e9
    return f"{value:,.0f}" if whole else f"{value:.4g}"
