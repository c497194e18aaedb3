"""TableMixture: data frames of numbers, counts and categories, with missing cells."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import _check_n_features, _check_sample_weight, check_is_fitted

from implicitmoments.arrays import Floats
from implicitmoments.estimator import Table, as_floats
from implicitmoments.evaluation import RowFunction, Total
from implicitmoments.mixture.estimator import Fit, Mixture, MixtureEstimator
from implicitmoments.mixture.family import Family
from implicitmoments.mixture.frames import LIBRARIES, Layout, frame_of, layout_of
from implicitmoments.mixture.tables import Tables
from implicitmoments.notes import AssumptionWarning, Note, Notes, warn_of
from implicitmoments.rows import ArrayTable, Progress, Rows
from implicitmoments.validation import RandomState, check_enough_rows, check_whole, whole, words

LIKE_COUNTS = 0.5, 2.0  # variance over mean of a Poisson column within components


class TableMixture(MixtureEstimator, DensityMixin, BaseEstimator):
    r"""Mixture for a table as it is: numbers, counts, categories and missing cells.

    Columns are independent within a component, each of its own kind. A missing cell says nothing
    about its row: the likelihood is that of the cells that are there, so a fit needs no
    imputation if cells are missing at random. The search is that of all mixtures.

    Parameters
    ----------
    n_components : int or "auto", default "auto"
        The number k of components; ``"auto"`` for the least Bayesian information criterion.
    columns : "auto" or mapping of str to str, default "auto"
        The columns that are used, and the kind of each: ``"gaussian"``; ``"lognormal"``, Gaussian
        in its logarithm; ``"poisson"``, counts; ``"binomial"``, successes in a number of trials;
        ``"bernoulli"``, one of two values; ``"categorical"``; or ``"auto"``, which decides by
        type and values. Text, booleans, and whole numbers of at most ten values are categorical;
        positive numbers whose logarithms are nearer to a Gaussian are lognormal; whole
        numbers are counts if their variance is near their mean within the components of a first
        fit. All columns of the table, of kind ``"auto"``, by default.
    exposure : mapping of str to str, optional
        For counts, the column that says how long or how much was counted.
    trials : mapping of str to str, optional
        For successes, the column of the number of trials.
    max_components : int, default 50
        The largest number of components that ``"auto"`` tries.
    max_iter : int, default 500
        The largest number of EM iterations.
    tol : float, default 1e-7
        EM stops when the mean log-likelihood per row can rise by less than this.
    n_init : int, default 1
        Number of complete searches with random numbers of their own, the best of which is kept.
    rows_per_block : int, optional
        Rows that are processed at a time; chosen by the memory they take by default.
    random_state : int, generator, np.random or None, default None
        Seed of all random numbers; also of :meth:`sample`.

    Attributes
    ----------
    columns_ : dict of str to str
        The kind of each column.
    weights_ : array of shape (k,)
        In decreasing order.
    profiles_ : frame
        A row for each parameter of a column, such as its mean or the share of a level, and a
        column for each component; of the library of the table, or a dictionary of columns.
    n_components_ : int
        The number k of components.
    lower_bound_ : float
        Mean log-likelihood per row, without outliers. That of the cells that are there.
    n_iter_ : int
        Iterations over all rows.
    converged_ : bool
        Whether iterations stopped by ``tol``.
    notes_ : Notes
        Findings about the fit, which print as sentences.
    stats_ : dict
        ``misclassification_rate``, expected; ``bic_by_n_components`` of ``"auto"``;
        ``mean_log_likelihood_history`` of EM; ``seconds_search`` and ``seconds_em``.
    n_features_in_, feature_names_in_ : number of columns; their names, where they have any
    errors, drop_outliers : None and False, parameters of other mixtures that tables do not have

    See Also
    --------
    GaussianMixture : Columns that depend on each other within a component.

    Examples
    --------
    >>> import numpy as np
    >>> import implicitmoments as im
    >>> rng = np.random.default_rng(0)
    >>> group = rng.integers(2, size=500)
    >>> age = rng.normal([30, 60], [5, 8], size=(500, 2))[np.arange(500), group]
    >>> age[::7] = np.nan
    >>> table = {"age": age, "visits": rng.poisson([2, 9], size=(500, 2))[np.arange(500), group],
    ...          "plan": np.where(rng.random(500) < 0.2 + 0.6 * group, "full", "basic")}
    >>> columns = {"age": "gaussian", "visits": "poisson", "plan": "categorical"}
    >>> model = im.TableMixture(columns=columns, random_state=0).fit(table)
    >>> agreement = (model.predict(table) == group).mean()
    >>> model.n_components_, bool(max(agreement, 1 - agreement) > 0.9)
    (2, True)
    """

    saved: ClassVar[Mapping[str, Any]] = {
        "weights_": np.ndarray,
        "_mixture": Mixture,
        "_layout": Layout,
        "weight_errors_": np.ndarray | None,
        "columns_": dict[str, str],
    }
    answers: ClassVar[Mapping[str, str]] = {
        "labels": "predict",
        "probabilities": "predict_proba",
        "densities": "score_samples",
    }
    parameters = ("weights",)
    vectors = ""
    allowed: ClassVar[Mapping[str, list[Any]]] = {
        **{
            name: constraints
            for name, constraints in MixtureEstimator.allowed.items()
            if name in ("n_components", "max_components", "max_iter", "tol")
        },
        "columns": [words("auto"), dict],
        "exposure": [dict, None],
        "trials": [dict, None],
        "n_init": [whole(1)],
        "rows_per_block": [whole(1), None],
        "random_state": ["random_state"],
    }
    errors = None
    drop_outliers = False

    def __init__(  # noqa: PLR0913 (each documented)
        self,
        n_components: int | str = "auto",
        *,
        columns: Any = "auto",
        exposure: Mapping[str, str] | None = None,
        trials: Mapping[str, str] | None = None,
        max_components: int = 50,
        max_iter: int = 500,
        tol: float = 1e-7,
        n_init: int = 1,
        rows_per_block: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_components = n_components
        self.columns = columns
        self.exposure = exposure
        self.trials = trials
        self.max_components = max_components
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.rows_per_block = rows_per_block
        self.random_state = random_state

    def fit(  # type: ignore[override]  # a table is in memory: no checkpoint
        self, X: Any, y: Any = None, sample_weight: Any = None, *, progress: Progress | None = None
    ) -> Self:
        """Fit the mixture.

        Parameters
        ----------
        X : data frame, mapping of columns, or array of shape (n_samples, n_features)
            NaN and None are missing cells.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            Number of times each row counts.
        progress : callable, optional
            Called as ``progress(what, rows_done, rows_total)``.

        Returns
        -------
        self
        """
        self._check_parameters()
        layout = layout_of(X, self.columns, self.exposure or {}, self.trials or {})
        unsure = [name for name, kind in layout.kinds.items() if kind == "counts?"]
        if unsure:
            kinds = layout.kinds | dict.fromkeys(unsure, "gaussian")
            self._layout = replace(layout, kinds=kinds)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AssumptionWarning)  # they may be of another fit
                super().fit(self._rows(X, sample_weight, reset=True), y, progress=progress)
            layout = replace(layout, kinds=kinds | dict.fromkeys(self._counts(unsure), "poisson"))
        if unsure and layout.kinds == self._layout.kinds:
            warn_of(self.notes_)
        else:
            self._layout = layout
            super().fit(self._rows(X, sample_weight, reset=True), y, progress=progress)
        guessed = [f"{name} ({layout.kinds[name]})" for name in unsure]
        if guessed:
            self.notes_ = Notes([*self.notes_, Note("kinds_guessed", {"columns": guessed})])
        return self

    def _counts(self, names: list[str]) -> list[str]:
        """Return the columns whose variance is near their mean within most rows' components."""
        found, counts = self._mixture.values, []
        numbers = [name for name, kind in self._layout.kinds.items() if kind == "gaussian"]
        for name in names:
            j = numbers.index(name)
            ratios = found["variances"][:, j] / np.maximum(found["means"][:, j], 1e-9)
            low, high = LIKE_COUNTS
            if self.weights_ @ ((ratios > low) & (ratios < high)) > 0.5:
                counts.append(name)
        return counts

    def _rows(self, X: Any, sample_weight: Any = None, *, reset: bool = False) -> ArrayTable:
        """Return a table of frames as numbers; tables that are numbers already stay."""
        if isinstance(X, ArrayTable):
            return X
        every = self._layout.library == "array" and self.columns == "auto"
        if every and not reset and np.ndim(X) == 2:
            _check_n_features(self, X, reset=False)
        block: dict[str, Any] = {"x": self._layout.numbers(X)}
        if sample_weight is not None:
            how = {"dtype": np.float64, "ensure_non_negative": True}
            block["counts"] = _check_sample_weight(sample_weight, block["x"], **how)
        table = ArrayTable.of(block)
        table.names = tuple(self._layout.names)
        return table

    @property
    def partial_fit(self) -> Any:
        """Tables are fitted as a whole."""
        raise AttributeError("TableMixture has no partial_fit; fit all rows at once")

    def _families(self, start: Any) -> list[Family]:  # noqa: ARG002
        return [Tables(kinds=self._layout.parts())]

    def _select_rows(self, rows: Rows) -> tuple[Rows, int]:
        check_enough_rows(rows.n, 1 if self.n_components == "auto" else int(self.n_components))
        return replace(rows, wide=True), 0

    def _store(self, fit: Fit, rows: Rows, n_outliers: int) -> Floats:
        sums = super()._store(fit, rows, n_outliers)
        self.columns_ = dict(self._layout.kinds)
        return sums

    def _prediction(self) -> RowFunction:
        return self._function("most_probable")

    def predict(self, X: Any) -> Any:
        """Return the most probable component of each row.

        Parameters
        ----------
        X : as for :meth:`fit`

        Returns
        -------
        array of int of shape (n_samples,)
        """
        check_is_fitted(self)
        return super().predict(self._rows(X))

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit the mixture and return the most probable component of every row.

        Parameters
        ----------
        X, y, sample_weight : as for :meth:`fit`

        Returns
        -------
        array of int of shape (n_samples,)
        """
        return self.fit(X, y, sample_weight).predict(X)

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each component given the cells of a row that are there.

        Parameters
        ----------
        X : as for :meth:`fit`

        Returns
        -------
        array of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        return self._function("probabilities").evaluate(self, self._rows(X))

    def score_samples(self, X: Any, y: Any = None) -> Any:
        """Return the log density of the cells of each row that are there.

        Parameters
        ----------
        X : as for :meth:`fit`
        y : ignored

        Returns
        -------
        array of shape (n_samples,)
        """
        check_is_fitted(self)
        return super().score_samples(self._rows(X), y)

    def icl(self, X: Any, y: Any = None) -> float:
        """Return the integrated completed likelihood criterion; see :meth:`GaussianMixture.icl`.

        Parameters
        ----------
        X : as for :meth:`fit`
        y : ignored

        Returns
        -------
        float
        """
        check_is_fitted(self)
        return super().icl(self._rows(X), y)

    def _log_likelihood(self, X: Any, y: Any = None, sample_weight: Any = None) -> Total:
        check_is_fitted(self)
        return super()._log_likelihood(self._rows(X, sample_weight), y)

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> tuple[Any, Any]:
        """Draw rows from the mixture, without missing cells.

        Parameters
        ----------
        n_samples : int
        random_state : int, generator or None; by default that of the estimator

        Returns
        -------
        X : table with the columns of the fit
            Exposures are missing: counts are those of the mean exposure. Successes are of one
            trial.
        labels : array of int of shape (n_samples,)
        """
        rng = np.random.default_rng(self._seed(random_state))
        check_whole("n_samples", n_samples, 1)
        labels = np.sort(rng.choice(len(self.weights_), n_samples, p=self._mixture.weights))
        layout = self._layout
        drawn = np.full((n_samples, len(layout.names)), np.nan)
        cells = self._family.draw(self._mixture.values, labels, rng)
        drawn[:, : cells.shape[1]] = cells
        for name in self.trials or {}:
            drawn[:, layout.names.index(layout.beside[name])] = 1.0
        return layout.frame(drawn), labels

    def impute(self, X: Any) -> Any:
        """Return a table whose missing cells are filled.

        Parameters
        ----------
        X : as for :meth:`fit`

        Returns
        -------
        table with the columns of the fit
            Numbers and counts have their mean given the cells of the row that are there,
            categories their most probable level.
        """
        shares, layout = self.predict_proba(X), self._layout
        filled, found = layout.numbers(X), self._mixture.values
        for kind in self._family.kinds:
            filled = kind.fill(filled, shares, found)
        return layout.frame(filled)

    @property
    def _family(self) -> Any:
        return self._mixture.family

    @property
    def profiles_(self) -> Any:
        """The parameters of each column in each component."""
        (table,) = self._parameter_tables()
        named = dict(zip(table.columns, zip(*table.rows, strict=True), strict=True))
        library = self._layout.library if self._layout.library in LIBRARIES else "dict"
        return frame_of(library, {name: [*cells] for name, cells in named.items()})

    def _parameter_tables(self) -> list[Table]:
        """Return one table: a row for each parameter of a column, a column for each component."""
        rows: list[list[Any]] = [["weight", "", *as_floats(self.weights_).tolist()]]
        for kind in self._family.kinds:
            for place, of, values in kind.profile(self._mixture.values):
                name = self._layout.names[place]
                levels = self._layout.levels.get(name, ["success", "failure"])
                parameter = str(levels[of]) if isinstance(of, int) else of
                rows.append([name, parameter, *values.tolist()])
        columns = ["column", "parameter", *(f"component {i}" for i in range(self._k()))]
        return [Table("Components", columns, rows)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def _title(self) -> str:
        k = self._k()
        return "one component" if k == 1 else f"a mixture of {k:,} components of a table"
