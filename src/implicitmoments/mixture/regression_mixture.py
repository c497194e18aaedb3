"""RegressionMixture: several regression lines when it is unknown which row is on which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from implicitmoments.arrays import Array, Floats, index_like, move_like, namespace_of, to_numpy
from implicitmoments.estimator import as_floats
from implicitmoments.evaluation import RowFunction
from implicitmoments.mixture.estimator import MixtureEstimator, saved_attributes, tables_of
from implicitmoments.mixture.family import Family
from implicitmoments.mixture.lines import Lines
from implicitmoments.mixture.students import Students, draw_scales
from implicitmoments.picture_data import Distribution, LinePicture, RowSample
from implicitmoments.rows import Near, Rows, Table, count_far, far_limit, few_enough, near_rule
from implicitmoments.validation import (
    RandomState,
    check_enough_rows,
    check_unknowns,
    check_whole,
)


@dataclass(frozen=True, eq=False)
class NearLines:
    """Keeps rows (x, y) that are near some line, or whose x is far: leverage is no error."""

    lines: Floats  # (k, 1 + d), the intercept first
    limit: float  # distance along y from all lines beyond which a row is an outlier
    points: Near

    @classmethod
    def of(cls, rows: Rows, lines: Floats) -> NearLines:
        """Estimate the limit, generously: regressions keep heavy tails of the noise."""
        probe = rows.as_given().sample(100_000).block
        x, y = (np.asarray(to_numpy(probe[name]), dtype=np.float64) for name in ("x", "y"))
        limit = far_limit(np.asarray(distances(lines, x, y)), rows.kept)
        return cls(lines, 5 * limit, near_rule(rows, labelled=False))

    def __call__(self, block: Any) -> Array | None:
        """Return which rows of a block are kept; None for rows without y."""
        if "y" not in block:
            return None
        near = distances(self.lines, block["x"], block["y"]) <= self.limit
        inside = self.points({"x": block["x"]})
        return near if inside is None else near | ~inside


def distances(lines: Floats, x: Array, y: Array) -> Array:
    """Return the distance along y of each row from the nearest line, (n,)."""
    xp = namespace_of(x)
    means = x @ move_like(lines[:, 1:].T, x) + move_like(lines[:, 0], x)
    return xp.min(xp.abs(y[:, None] - means), axis=1)


@dataclass(eq=False, repr=False)  # scikit-learn compares and prints estimators
class RegressionMixture(MixtureEstimator, BaseEstimator):
    r"""A mixture of linear regressions, :math:`y = a_i + b_i \cdot x + N(0, s_i^2)`.

    Each row lies on one of k lines (planes, with more features), on line i with probability
    :math:`w_i`. The fit maximises the likelihood of y given x. The search on a sample starts from
    small sets of rows; moves split and merge lines while the likelihood rises, and independent
    searches are crossed with each other. EM on all rows ends the fit.

    Rows may be NumPy arrays, arrays of other libraries and devices, or a source. Whatever uses
    every row is a sum over blocks; searches use a sample. Results are arrays of the library and
    device of the rows.

    Parameters
    ----------
    n_components : int or "auto", default 2
        The number k of components. k lines may not have more coefficients than there are rows.
        ``"auto"`` grows and prunes lines while BIC falls.
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
    noise_type : {"shared", "separate"}, default "shared"
        One standard deviation for all lines, or one for each.
    noise : {"gaussian", "student"}, default "gaussian"
        The distribution of the noise. ``"student"`` is Student's t with degrees of freedom that
        are estimated, one number for all lines: rows far from every line then count little. No
        rows are left out as outliers.
    fit_intercept : bool, default True
        Whether components have intercepts of their own. If not, lines go through the origin.

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
        ``rows_used``; ``outliers`` left out; ``misclassification_rate``, expected;
        ``bic_by_n_components`` of ``"auto"``, on the rows searched;
        ``mean_log_likelihood_history`` of EM; ``seconds_search`` and ``seconds_em``;
        ``rows_seen`` after ``partial_fit``.
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

    _: KW_ONLY
    noise_type: str = "shared"
    noise: str = "gaussian"
    fit_intercept: bool = True
    errors: str | None = "observed"

    fewest_rows = 2
    labelled = density_of_labels = True
    component = "line"
    vectors = "coef_"
    answers: ClassVar[Mapping[str, str]] = {
        **MixtureEstimator.answers,
        "predictions": "predict",
        "components": "predict_component",
    }
    parameters = ("weights", "coef", "intercept", "noise", "degrees_of_freedom")
    saved = saved_attributes(parameters, _near=NearLines | None)
    tables = tables_of("Lines", "weights", "noise", "intercept", "coef")
    captions: ClassVar[Mapping[str, str]] = {
        "components": "Rows by line, on the direction along which the slopes differ most.",
        "components_of_one": "Rows and the line, along its slope.",
        "fit": "Residuals of {target} from the most probable line of each row, and those of "
        "labels drawn from the model. If the model is right, both have the same distribution.",
    }

    def _families(self, start: Any) -> list[Family]:  # noqa: ARG002
        lines = Lines(self.noise_type == "separate", self.fit_intercept)
        return [Students.of(lines) if self.noise == "student" else lines]

    def _select_rows(self, rows: Rows) -> tuple[Rows, int]:
        k = 1 if self.n_components == "auto" else int(self.n_components)
        check_enough_rows(rows.n, k)
        unknowns = rows.n_features + self.fit_intercept
        check_unknowns(k, unknowns, round(max(rows.kept, rows.total)))
        self._near: NearLines | None = None
        return replace(rows, wide=True), 0

    def _fit(self, rows: Rows, seed: int) -> None:
        """Fit lines, leave out rows far from all of them, and go on from there."""
        every, n_outliers = self._select_rows(rows)
        rows, fit = every, self._fit_rows(every, None, seed)
        for _ in range(3 if self.drop_outliers and self.noise != "student" else 0):
            mixture = fit.mixture()
            found = mixture.values
            lines = np.column_stack([found["intercept"], found["coef"]])
            enough = mixture.weights * rows.total > lines.shape[1] + 1
            if not enough.any():
                break
            rule = NearLines.of(rows, lines[enough])
            n = count_far(every, rule)[1].kept
            if n == n_outliers or rule.limit == 0 or not few_enough(n, every.kept):
                break
            self._near, n_outliers, rows = rule, n, every.kept_by(rule)
            again = enough.all() and self.n_components != "auto"
            fit = self._fit_rows(rows, mixture if again else None, seed)
        self._store(fit, rows, n_outliers)

    def _prediction(self) -> RowFunction:
        found, weights = self._mixture.values, self._mixture.weights
        intercept, coef = float(weights @ found["intercept"]), weights @ found["coef"]
        return RowFunction(lambda x: x @ move_like(coef, x) + intercept)

    def predict_proba(self, X: Any, y: Any = None) -> Any:
        """Return the probability of each line given (x, y).

        Without y it is the weight of the line, whatever x is.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), data frame, path, Dask or Table
        y : array of shape (n_samples,), optional

        Returns
        -------
        array of shape (n_samples, k)
        """
        check_is_fitted(self)
        if y is not None or isinstance(X, Table):
            return self._function("probabilities").evaluate(self, X, y)
        weights = self._mixture.weights
        prior = RowFunction(lambda x: move_like(weights, x) + 0 * x[:, :1])
        return prior.evaluate(self, X)

    def predict_component(self, X: Any, y: Any = None) -> Any:
        """Return the most probable line of each row.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), data frame, path, Dask or Table
        y : array of shape (n_samples,)

        Returns
        -------
        array of int of shape (n_samples,)
        """
        check_is_fitted(self)
        return self._function("most_probable").evaluate(self, X, y)

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
            mean and covariance of the inputs that were fitted; without intercepts, with mean 0
            and their second moments.

        Returns
        -------
        X : array of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        labels : array of int of shape (n_samples,)
            The line of each row.
        """
        rng = np.random.default_rng(self._seed(random_state))
        if X is None:
            n, lines = check_whole("n_samples", n_samples, 1), self._mixture.base
            noise = rng.normal(size=(n, lines.q - 1))
            X = move_like(lines.centre + noise @ lines.root, self.coef_)
        else:
            X = RowFunction(lambda x: x).evaluate(self, X)
        found, n = self._mixture.values, int(X.shape[0])
        labels = rng.choice(len(found["weights"]), size=n, p=found["weights"])
        noise = rng.normal(size=(n, 1)) * draw_scales(self.degrees_of_freedom_, n, rng)
        offsets = found["intercept"][labels] + found["noise"][labels] * noise[:, 0]
        slopes = move_like(found["coef"][labels], X)
        y = namespace_of(X).sum(X * slopes, axis=1) + move_like(offsets, X)
        return X, y, index_like(labels, X)

    def _title(self) -> str:
        k = self._k()
        return "one linear regression" if k == 1 else f"a mixture of {k:,} linear regressions"

    def _noise_free(self, rows: RowSample) -> bool:
        return float(as_floats(self.noise_).max()) <= 1e-4 * float(rows.y.std() or 1.0)

    def _component_view(self, rows: RowSample) -> LinePicture:
        found, labels = self._mixture.values, self._most_probable(rows, rows.y)
        lines = (found["weights"], found["coef"], found["intercept"], found["noise"])
        return LinePicture(*lines, labels, self.degrees_of_freedom_)

    def _fit_view(self, rows: RowSample) -> Distribution:
        drawn = self._residuals(rows, as_floats(self.sample(X=rows.given)[1]))
        axis = "residual from its line (σ of the noise)"
        return Distribution("Residuals", axis, self._residuals(rows, rows.y), drawn)

    def _most_probable(self, rows: RowSample, y: Floats) -> Any:
        return np.asarray(to_numpy(self.predict_component(rows.given, y)))

    def _residuals(self, rows: RowSample, y: Floats) -> Floats:
        own, found = self._most_probable(rows, y), self._mixture.values
        apart = y - np.einsum("nd,nd->n", rows.x, found["coef"][own]) - found["intercept"][own]
        return np.asarray(apart / np.maximum(found["noise"][own], 1e-150))
