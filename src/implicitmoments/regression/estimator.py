"""Mixtures of linear regressions (section 4.4) as an estimator."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from implicitmoments.arrays import (
    Array,
    Floats,
    index_like,
    move_like,
    namespace_of,
    to_numpy,
)
from implicitmoments.description import column_names
from implicitmoments.evaluation import DensityCriteria, Predictions, RowFunction
from implicitmoments.notes import Note, Notes
from implicitmoments.regression.diagnostics import (
    bound_notes,
    data_notes,
    fit_notes,
    fit_stats,
    rounding_notes,
)
from implicitmoments.regression.fit import FittedLines, fit_lines
from implicitmoments.regression.lines import (
    Lines,
    Standard,
    design,
    responsibilities,
    standardise,
)
from implicitmoments.regression.outliers import ROUNDS, find_outliers
from implicitmoments.regression.parameters import check_parameters, most_lines
from implicitmoments.regression.products import columns_of
from implicitmoments.regression.standard_errors import ScoredLines, line_errors
from implicitmoments.regression.summary import RegressionMixtureSummary
from implicitmoments.rows import RandomState, Rows, Source
from implicitmoments.rows.constants import precision_of
from implicitmoments.rows.outliers import count_extreme_rows
from implicitmoments.search import unknown_errors
from implicitmoments.search.noise import draw_scales
from implicitmoments.validation import check_whole


@dataclass(eq=False, repr=False)  # scikit-learn compares and prints estimators
class RegressionMixture(RegressionMixtureSummary, Predictions, DensityCriteria, BaseEstimator):
    r"""A mixture of linear regressions, :math:`y = a_i + b_i \cdot x + N(0, s_i^2)`.

    Each row lies on one of k lines (planes, with more features), on line i with probability
    :math:`w_i`. The fit maximises the likelihood of y given x. Its initialisation is global: the
    peaks of the characteristic function of (x, y) and vectors decoded from the moments of
    Lemma 4.23 with Fourier weights compete with lines grown from one by splits. EM on a sample
    follows, then moves (a split of one line, a merge of two others) that the likelihood judges,
    and EM on all rows. There is nothing to restart.

    Rows may be NumPy arrays, arrays of other libraries and devices, or a source. Whatever uses
    every row is a sum over blocks; searches use a sample. Results are arrays of the library and
    device of the rows.

    Parameters
    ----------
    n_components : int or "auto", default 2
        The number k of components. k lines may not have more coefficients than there are rows.
        ``"auto"`` grows and prunes lines while BIC falls.
    noise_type : {"shared", "separate"}, default "shared"
        One standard deviation for all lines, or one for each.
    noise : {"gaussian", "student"}, default "gaussian"
        The distribution of the noise. ``"student"`` is Student's t with degrees of freedom that
        are estimated, one number for all lines: rows far from every line then count little. No
        rows are left out as outliers.
    fit_intercept : bool, default True
        Whether components have intercepts of their own. If not, lines go through the origin.
    max_components : int, default 50
        The largest number of components that ``"auto"`` tries.
    max_iter : int, default 500
        The largest number of EM iterations over all rows.
    tol : float, default 1e-7
        EM stops when the mean log-likelihood per row can rise by less than this.
    errors : {"observed", "robust"} or None, default "observed"
        Standard errors of all parameters: from the observed information, which assumes that the
        model is right; from the sandwich, which also holds where the noise has another law, for
        the parameters that the fit has in the limit of many rows; or none.
    drop_outliers : bool, default True
        Leave out rows far from the bulk that have too few neighbours to be a component. Of lines
        these are rows whose label is far from all of them and whose x is not far: a far x may be
        the most informative one. ``stats_["outliers"]`` counts them.
    random_state : int, generator, np.random or None, default None
        Seed of all random numbers; also of :meth:`sample`.
    rows_per_block : int, optional
        Rows that are processed at a time; chosen by the memory they take by default.

    Attributes
    ----------
    weights_ : array of shape (k,)
        In decreasing order.
    coef_ : array of shape (k, n_features)
    intercept_ : array of shape (k,)
    noise_ : array of shape (k,)
        Standard deviations; equal where they are shared. Of Student's t its scales, which are
        smaller than standard deviations by a factor :math:`\sqrt{(\nu - 2)/\nu}` for
        :math:`\nu > 2`.
    degrees_of_freedom_ : float
        Of Student's t, between 1 and 1,000; infinite for Gaussian noise.
    weight_errors_, coef_errors_, intercept_errors_, noise_errors_ : arrays or None
        Standard errors, in the shapes of the parameters; NaN where a note says so.
    degrees_of_freedom_errors_ : float or None
        Standard error of ``degrees_of_freedom_``; NaN if they are at a bound, 0 for Gaussian
        noise.
    n_components_ : int
        The number k of components.
    lower_bound_ : float
        Mean log-likelihood per row, without outliers. That of y given x.
    n_iter_ : int
        Iterations over all rows.
    converged_ : bool
        Whether iterations stopped by ``tol``.
    notes_ : Notes
        Findings about the fit, which print as sentences.
    stats_ : dict
        ``rows_used``; ``outliers`` left out; ``outliers_kept``, rows with x very far from all
        others;
        ``n_varying``, coordinates in which the inputs vary; ``n_peaks`` and
        ``n_decoded``, starts from peaks and from moments; ``n_moves`` that raised the likelihood;
        ``highest_peak_left`` and ``noise_maximum``, in standard errors: a peak far above the
        noise is a missing line; ``searches_apart``, the nats by which two independent searches
        differed; ``split_gain_by_line``, the rise of the log-likelihood of some rows if a line is
        split, and ``split_penalty``, the rise above which BIC prefers the split;
        ``bic_gain_by_noise``, what BIC of some rows is lower by with Student's t, and with
        separate noise, where they were compared; ``bic_by_n_components`` of ``"auto"``;
        ``mean_log_likelihood_history`` of EM, in standard units; ``spectra``, ``noise_floor``,
        ``ranks`` and ``moment_orders`` of the moments, where they were decoded.
    n_features_in_, feature_names_in_ : number of columns; their names, where they have any

    See Also
    --------
    RegressionMixtureDensity : The joint density of x and y alone.
    GaussianMixture : Covariances of any shape.
    ActivationSumRegressor : A sum of known activations of hidden directions.

    Examples
    --------
    >>> from implicitmoments import RegressionMixture
    >>> from implicitmoments.datasets import make_regression_mixture
    >>> X, y, truth = make_regression_mixture(5_000, 3, 4, noise=0.2, random_state=0)
    >>> model = RegressionMixture(n_components=3, random_state=0).fit(X, y)
    >>> model.coef_.shape
    (3, 4)
    >>> round(float(model.noise_[0]), 2)
    0.2
    >>> model.predict(X[:2]).shape, model.predict_component(X[:2], y[:2]).shape
    ((2,), (2,))
    """

    n_components: int | str = 2
    _: KW_ONLY
    noise_type: str = "shared"
    noise: str = "gaussian"
    fit_intercept: bool = True
    max_components: int = 50
    max_iter: int = 500
    tol: float = 1e-7
    errors: str | None = "observed"
    drop_outliers: bool = True
    random_state: RandomState = None
    rows_per_block: int | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_parameters(self)

    def _fit(self, given: Rows, seed: int) -> None:
        k, self._model = check_parameters(self)
        self._near, n_out = None, 0
        standard, rows, fitted, notes = self._fit_rows(given, k, seed)
        # rows far out are what Student's law is for
        for _ in range(ROUNDS if self.drop_outliers and self.noise != "student" else 0):
            coef, intercept, _ = standard.original(fitted.lines)
            lines = np.column_stack([intercept, coef])
            found = find_outliers(given, lines, fitted.lines.weights, self._near, n_out)
            if found is None:
                break
            self._near, given, n_out = found[0], given.kept_by(found[0]), n_out + found[1]
            standard, rows, fitted, notes = self._fit_rows(given, k, seed)
        if n_out:
            notes.append(Note("outliers_dropped", {"n": n_out}))
        labelled = self.noise != "student"
        n_extreme = count_extreme_rows(given, fitted.lines.k, seed, labelled=labelled)
        if n_extreme:
            notes.append(Note("outliers_kept", {"n": n_extreme}))
        self._store(fitted, standard, given.first["x"])
        notes += self._store_errors(rows, fitted.lines, given.first["x"])
        self.stats_ = {
            "rows_used": given.kept,
            "outliers": n_out,
            "outliers_kept": n_extreme,
            **fit_stats(fitted, standard),
        }
        notes += fit_notes(fitted, float(np.sqrt(fitted.lines.variances.max())))
        epsilon = precision_of(given.first["x"])
        notes += rounding_notes(standard, fitted.lines, epsilon, column_names(self))
        if not self.converged_:
            notes.append(Note("not_converged", {"max_iter": self.max_iter}))
        self.notes_ = Notes(notes)

    def _fit_rows(
        self, given: Rows, k: int | None, seed: int
    ) -> tuple[Standard, Rows, FittedLines, list[Note]]:
        """Fit lines; return standard coordinates, the rows in them, the fit, and notes."""
        model, names = self._model, column_names(self)
        standard, rows = standardise(given, intercept=model.intercept)
        most = most_lines(self, rows.kept, standard.n_features + model.intercept, k)
        notes = data_notes(given, standard, k, names)
        fitted = fit_lines(
            rows,
            k,
            model,
            most=most,
            gaussian=not any(note.code == "inputs_not_gaussian" for note in notes),
            seed=seed,
            max_iter=self.max_iter,
            tol=self.tol,
        )
        notes += bound_notes(fitted, most, self.max_components)
        return standard, rows, fitted, notes

    def _prediction(self) -> RowFunction:
        lines = self._lines()
        mean = lines.weights @ lines.coef  # of all lines, by their weights

        def predicted(x: Array) -> Any:
            return x @ move_like(mean[1:], x) + float(mean[0])

        return RowFunction(predicted)

    def predict_proba(self, X: Any, y: Any = None) -> Any:
        """Return the probability of each line given (x, y).

        Without y it is the weight of the line, whatever x is.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), data frame, path, Dask or Source
        y : array of shape (n_samples,), optional

        Returns
        -------
        array of shape (n_samples, k)
        """
        check_is_fitted(self)
        lines = self._lines()

        def weights(x: Array) -> Any:
            return move_like(lines.weights, x) + namespace_of(x).zeros_like(x[:, :1])

        def probabilities(x: Array, y: Array) -> Any:
            shares, _ = responsibilities(lines, _columns(x, y))
            return namespace_of(shares).matrix_transpose(shares)

        if y is None and not isinstance(X, Source):
            return RowFunction(weights).evaluate(self, X)
        return RowFunction(probabilities, labelled=True).evaluate(self, X, y)

    def predict_component(self, X: Any, y: Any = None) -> Any:
        """Return the most probable line of each row.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), data frame, path, Dask or Source
        y : array of shape (n_samples,)

        Returns
        -------
        array of int of shape (n_samples,)
        """
        check_is_fitted(self)
        lines = self._lines()

        def largest(x: Array, y: Array) -> Any:
            shares, _ = responsibilities(lines, _columns(x, y))
            return namespace_of(shares).argmax(shares, axis=0)

        return RowFunction(largest, labelled=True).evaluate(self, X, y)

    def sample(
        self, n_samples: int = 1, random_state: RandomState = None, *, X: Any = None
    ) -> tuple[Any, Any, Any]:
        """Draw rows from the mixture.

        Parameters
        ----------
        n_samples : int
            Rows to draw, where X is not given.
        random_state : int, generator or None; by default that of the estimator
        X : array of shape (n_samples, n_features), optional
            Inputs at which y is drawn. By default they are drawn too, from a Gaussian with the
            mean and covariance of the inputs that were fitted.

        Returns
        -------
        X : array of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        labels : array of int of shape (n_samples,)
            The line of each row.
        """
        rng = np.random.default_rng(self._seed(random_state))
        if X is None:
            n = check_whole("n_samples", n_samples, 1)
            inputs = self._standard.inputs
            drawn = inputs.mean + rng.normal(size=(n, len(inputs.mean))) @ inputs.root
            X = move_like(drawn, self.coef_)
        else:
            X = RowFunction(lambda x: x).evaluate(self, X)
        lines, xp = self._lines(), namespace_of(X)
        labels = rng.choice(lines.k, size=X.shape[0], p=lines.weights)
        noise = np.sqrt(lines.variances)[labels] * rng.normal(size=X.shape[0])
        noise *= draw_scales(lines.freedom[labels], rng)
        offsets = move_like(lines.coef[labels, 0] + noise, X)
        slopes = move_like(lines.coef[labels, 1:], X)
        return X, xp.sum(X * slopes, axis=1) + offsets, index_like(labels, X)

    def _lines(self) -> Lines:
        """Return the lines in the user's coordinates, on the host."""
        weights, coef, intercept, noise = (
            to_numpy(a).astype(np.float64)
            for a in (self.weights_, self.coef_, self.intercept_, self.noise_)
        )
        freedom = np.full(len(weights), self.degrees_of_freedom_)
        both = np.column_stack([intercept, coef])
        return Lines(weights / weights.sum(), both, noise**2, freedom)

    def _log_density(self, X: Any, y: Any) -> RowFunction:  # noqa: ARG002
        lines = self._lines()
        return RowFunction(partial(_log_densities, lines), labelled=True, width=4 * lines.k)

    def _n_parameters(self) -> int:
        return self._model.n_parameters(self.n_components_, self._standard.n_features + 1)

    def _store(self, fitted: FittedLines, standard: Standard, like: Array) -> None:
        """Set the fitted attributes, in the user's units and in the library of the rows."""
        lines = fitted.lines
        self._standard, self.n_components_ = standard, lines.k
        self.degrees_of_freedom_ = float(lines.freedom[0])
        coef, intercept, noise = standard.original(lines)
        if not self._model.intercept:
            intercept = np.zeros(lines.k)
        self.weights_, self.coef_, self.intercept_, self.noise_ = (
            _given_as(value, like) for value in (lines.weights, coef, intercept, noise)
        )
        # y was divided by its scale, so its density was multiplied by it
        self.lower_bound_ = fitted.fit.em.level - float(np.log(standard.scale))
        self.n_iter_, self.converged_ = fitted.fit.em.n_iter, fitted.fit.em.converged

    def _store_errors(self, rows: Rows, lines: Lines, like: Array) -> list[Note]:
        """Set the standard errors, in the user's units; note where there are none."""
        names = ("weight_errors_", "noise_errors_", "coef_errors_", "intercept_errors_")
        if self.errors is None:
            for name in (*names, "degrees_of_freedom_errors_"):
                setattr(self, name, None)
            return []
        scored, standard = ScoredLines(lines, self._model), self._standard
        found = line_errors(rows, scored, robust=self.errors == "robust")
        values = (found.weights, standard.scale * found.noise, *standard.errors(found.coef))
        for name, value in zip(names, values, strict=True):
            setattr(self, name, _given_as(value, like))
        self.degrees_of_freedom_errors_ = found.freedom
        return unknown_errors(scored, found.weights)


def _given_as(value: Floats, like: Array) -> Any:
    """Return numbers in the library of the rows and on their device."""
    return value if isinstance(like, np.ndarray) else move_like(value, like)


def _columns(x: Array, y: Array) -> Array:
    return columns_of(design({"x": x, "y": y}))


def _log_densities(lines: Lines, x: Array, y: Array) -> Array:
    return responsibilities(lines, _columns(x, y))[1]
