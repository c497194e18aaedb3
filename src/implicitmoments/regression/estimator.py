"""Mixtures of linear regressions (section 4.4) as an estimator."""

from __future__ import annotations

from dataclasses import dataclass
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
from implicitmoments.moments.spectra import account_of_components
from implicitmoments.notes import tell, tell_unfinished
from implicitmoments.regression.characteristic_function import noise_maximum
from implicitmoments.regression.choose_k import bic, choose_lines, n_parameters
from implicitmoments.regression.design_rows import lay_out
from implicitmoments.regression.fit import FittedLines, Workspace, fit_lines
from implicitmoments.regression.likelihood import (
    Lines,
    measure_likelihood,
    responsibilities,
)
from implicitmoments.regression.splits import doubleness
from implicitmoments.regression.standard_errors import covariances
from implicitmoments.regression.standardise import Standard, standardise
from implicitmoments.regression.summary import RegressionMixtureSummary
from implicitmoments.regression.validation import (
    check_parameters,
    missing_line,
    most_lines,
    words_for_user,
)
from implicitmoments.rows import (
    Block,
    Progress,
    RandomState,
    Source,
    Sums,
    as_seed,
)
from implicitmoments.rows.answers import answer
from implicitmoments.rows.inputs import Checkpoint, open_rows, probe_of
from implicitmoments.validation import check_whole

__all__ = ["RegressionMixture"]

SCORED_ROWS = 16_384
ABOUT = 12  # lines that n_components="auto" lays rows out for


class RegressionMixture(RegressionMixtureSummary, BaseEstimator):
    r"""A mixture of linear regressions, :math:`y = a_i + b_i \cdot x + N(0, s_i^2)`.

    Each row lies on one of k lines (planes, with more features), i with probability
    :math:`w_i`. Coefficients are those of the largest likelihood that is found. The start is
    global: peaks of the characteristic function of (x, y), and vectors read off the moments of
    Lemma 4.23 with Fourier weights. EM on some of the rows follows, then a search for lines that
    are missing, judged by the likelihood, and EM on all rows. There is nothing to restart.

    Rows may be NumPy arrays, arrays of other libraries and devices, or a source; all that looks
    at every row is a sum over blocks, and searches look at some of the rows. Results come in the
    library and on the device of the rows.

    Parameters
    ----------
    n_components : int or "auto", default 2
        The number k of lines, with no more coefficients together than there are rows. ``"auto"``
        starts at the number of clear peaks and goes up or down while BIC falls.
    noise : {"shared", "separate"}, default "shared"
        One standard deviation for all lines, or one for each.
    fit_intercept : bool, default True
        Whether lines have intercepts.
    max_components : int, default 30
        Lines that ``"auto"`` tries at most.
    max_iter : int, default 500
        Passes of EM over all rows.
    tol : float, default 1e-7
        EM ends when what is still to be gained in mean log-likelihood is estimated below it.
    random_state : int, RandomState or None, default None
        Of the points from which peaks are climbed.

    Attributes
    ----------
    coef_ : array of shape (k, n_features)
        The heaviest line first.
    intercept_ : array of shape (k,)
    weights_ : array of shape (k,)
    noise_ : array of shape (k,)
        Standard deviations; equal where they are shared.
    coef_errors_, intercept_errors_ : arrays of the shapes of ``coef_`` and ``intercept_``
        Standard errors, from the observed information; NaN where it is singular.
    n_components_ : int
    log_likelihood_ : float
        Of y given x, summed over the rows.
    n_iter_ : int
        Passes of EM over all rows.
    converged_ : bool
    stats_ : dict
        ``n_rows``; ``n_varying``, coordinates in which the inputs vary; ``n_peaks`` and
        ``n_decoded``, starts from peaks and from moments; ``repairs`` that raised the likelihood;
        ``highest_peak_left`` and ``noise_maximum``, in standard errors: a peak far above the
        noise is a line that is missing; ``double_by_line``, how much each line looks like two;
        ``bic_by_n_components`` of ``"auto"``; ``mean_log_likelihood_history`` of EM, in standard
        units; ``spectra``, ``noise_floor``, ``ranks`` and ``moment_orders`` of the moments, where
        they were read; and ``notes``, words for the user.
    n_features_in_ : int
    feature_names_in_ : array of str of shape (n_features,)
        Where the columns of the rows have names.

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

    def __init__(
        self,
        n_components: int | str = 2,
        *,
        noise: str = "shared",
        fit_intercept: bool = True,
        max_components: int = 30,
        max_iter: int = 500,
        tol: float = 1e-7,
        random_state: RandomState = None,
    ) -> None:
        self.n_components = n_components
        self.noise = noise
        self.fit_intercept = fit_intercept
        self.max_components = max_components
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        checkpoint: Checkpoint = None,
        progress: Progress | None = None,
    ) -> RegressionMixture:
        """Fit the lines.

        Parameters
        ----------
        X : array (n_samples, n_features), data frame, path, iterator of blocks, Dask or Source
            A source has labels of its own, in a column ``y``.
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), optional
            How often each row counts; 0 leaves it out. Weights above 0 with a mean below 1 are
            scaled to a mean of 1.
        checkpoint : path, optional
            Where a long fit keeps what it has done, to go on from there.
        progress : callable, optional
            Called as ``progress(what, rows_done, rows_total)``.
        """
        k, self._model = check_parameters(self)
        with open_rows(
            self,
            X,
            y,
            sample_weight,
            labelled=True,
            fewest=2,
            checkpoint=checkpoint,
            progress=progress,
        ) as (source, seed):
            self._fit(source, k, seed)
        tell(self.stats_["notes"])
        self.stats_["notes"] += missing_line(
            self.stats_, float(np.max(to_numpy(self.noise_))) / self._standard.scale
        )
        if not self.converged_:
            tell_unfinished(self.stats_["notes"], self.max_iter)
        return self

    def _fit(self, source: Source, k: int | None, seed: int) -> None:
        model = self._model
        standard = standardise(source, intercept=model.intercept)
        n_coefficients = standard.n_features + model.intercept
        most = most_lines(self, source.n_rows or 0, n_coefficients, k)
        how: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol, "seed": seed}
        scores: dict[int, float] = {}
        space = Workspace.of(standard.rows(source), k or min(most, ABOUT))
        if k is None:
            fitted, scores = choose_lines(space, model, most=most, **how)
        else:
            fitted = fit_lines(space, k, model, **how)
        found = covariances(space.rows, fitted.lines, model)
        self._store(fitted, standard, found, space, probe_of(source))
        units = 2 * space.rows.mass * float(np.log(standard.scale))
        self.stats_["bic_by_n_components"] = {k: v + units for k, v in scores.items()}
        self.stats_["double_by_line"] = doubleness(space.rows, fitted.lines, model).tolist()
        self.stats_["notes"] = words_for_user(self, source, standard, model)

    def predict(self, X: Any) -> Array:
        """Return the mean of y given x: that of all lines, by their weights."""
        check_is_fitted(self)
        lines = self._lines()
        mean = lines.weights @ lines.coef

        def predicted(x: Array) -> Array:
            return x @ move_like(mean[1:], x) + float(mean[0])

        return answer(self, X, predicted)

    def predict_proba(self, X: Any, y: Any = None) -> Array:
        """Return the chance of each line given (x, y), of shape (n_samples, k).

        Without y it is the weight of the line, whatever x is.
        """
        check_is_fitted(self)
        lines = self._lines()

        def weights(x: Array) -> Array:
            return move_like(lines.weights, x) + namespace_of(x).zeros_like(x[:, :1])

        def chances(x: Array, y: Array) -> Array:
            shares, _ = responsibilities(lines, lay_out(x, y))
            return namespace_of(shares).matrix_transpose(shares)

        if y is None and not isinstance(X, Source):
            return answer(self, X, weights)
        return answer(self, X, chances, y, labelled=True)

    def predict_component(self, X: Any, y: Any = None) -> Array:
        """Return the most probable line of each row."""
        check_is_fitted(self)
        lines = self._lines()

        def largest(x: Array, y: Array) -> Array:
            shares, _ = responsibilities(lines, lay_out(x, y))
            return namespace_of(shares).argmax(shares, axis=0)

        return answer(self, X, largest, y, labelled=True)

    def score_samples(self, X: Any, y: Any = None) -> Array:
        """Return the logarithm of the density of y given x at each row."""
        check_is_fitted(self)
        lines = self._lines()
        return answer(
            self, X, lambda x, y: responsibilities(lines, lay_out(x, y))[1], y, labelled=True
        )

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the mean logarithm of the density of y given x, as mixtures do."""
        total, mass = self._likelihood(X, y, sample_weight)
        return total / mass

    def bic(self, X: Any, y: Any = None) -> float:
        """Return the Bayesian information criterion of y given x; the less the better."""
        total, mass = self._likelihood(X, y)
        return bic(total / mass, mass, self._n_parameters())

    def aic(self, X: Any, y: Any = None) -> float:
        """Return the information criterion of Akaike of y given x; the less the better."""
        return -2 * self._likelihood(X, y)[0] + 2 * self._n_parameters()

    def sample(
        self, n_samples: int = 1, X: Any = None, random_state: RandomState = None
    ) -> tuple[Array, Array, Array]:
        """Draw rows.

        Parameters
        ----------
        n_samples : int
            Rows to draw, where X is not given.
        X : array of shape (n, n_features), optional
            Inputs at which labels are drawn. By default they are drawn too, from a Gaussian with
            the mean and covariance of the inputs that were fitted.
        random_state : int, RandomState or None
            That of the estimator by default.

        Returns
        -------
        X : array of shape (n, n_features)
        y : array of shape (n,)
        components : array of shape (n,)
        """
        check_is_fitted(self)
        chosen = self.random_state if random_state is None else random_state
        rng = np.random.default_rng(as_seed(chosen))
        if X is None:
            n = check_whole("n_samples", n_samples, 1)
            whitening = self._standard.whitening
            drawn = whitening.mean + rng.normal(size=(n, len(whitening.mean))) @ whitening.root
            X = move_like(drawn, self.coef_)
        else:
            X = answer(self, X, lambda x: x)
        lines, xp = self._lines(), namespace_of(X)
        labels = rng.choice(lines.k, size=X.shape[0], p=lines.weights)
        noise = np.sqrt(lines.variances)[labels] * rng.normal(size=X.shape[0])
        offsets = move_like(lines.coef[labels, 0] + noise, X)
        slopes = move_like(lines.coef[labels, 1:], X)
        return X, xp.sum(X * slopes, axis=1) + offsets, index_like(labels, X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _lines(self) -> Lines:
        """Return the lines in the user's coordinates, on the host."""
        weights, coef, intercept, noise = (
            to_numpy(a).astype(np.float64)
            for a in (self.weights_, self.coef_, self.intercept_, self.noise_)
        )
        return Lines(weights / weights.sum(), np.column_stack([intercept, coef]), noise**2)

    def _likelihood(self, X: Any, y: Any, sample_weight: Any = None) -> tuple[float, float]:
        """Return the log-likelihood of the rows, and how many they are."""
        check_is_fitted(self)
        measure = _Likelihood(self._lines())
        with open_rows(self, X, y, sample_weight, labelled=True, reset=False) as (source, _):
            rows = range(source.n_rows or 0)
            sums = source.fold(measure, rows, SCORED_ROWS, what="likelihood")
        return float(sums["log_likelihood"]), float(sums["mass"])

    def _n_parameters(self) -> int:
        q = self._standard.n_features + 1
        return n_parameters(self.n_components_, q, self._model)

    def _store(
        self,
        fitted: FittedLines,
        standard: Standard,
        found: Floats,
        space: Workspace,
        like: Array,
    ) -> None:
        lines = fitted.lines
        self._standard, self.n_components_ = standard, lines.k
        coef, intercept, noise = standard.original(lines)
        if not self._model.intercept:
            intercept = np.zeros(lines.k)
        names = ("weights_", "coef_", "intercept_", "noise_", "coef_errors_", "intercept_errors_")
        values = (lines.weights, coef, intercept, noise, *standard.errors(found))
        for name, value in zip(names, values, strict=True):
            setattr(self, name, value if isinstance(like, np.ndarray) else move_like(value, like))
        rows = space.rows
        # labels were divided by their scale, and densities of them multiplied
        self.log_likelihood_ = rows.mass * (
            fitted.mean_log_likelihood - float(np.log(standard.scale))
        )
        self.n_iter_, self.converged_ = len(fitted.history), fitted.converged
        self.stats_: dict[str, Any] = {
            "n_rows": rows.n_rows,
            "n_varying": standard.n_features,
            "n_peaks": fitted.n_peaks,
            "n_decoded": fitted.n_decoded,
            "repairs": fitted.accepted,
            "highest_peak_left": fitted.z,
            "noise_maximum": noise_maximum(space.waves.n_searched),
            "mean_log_likelihood_history": fitted.history,
            **account_of_components(fitted.read),
        }


@dataclass(frozen=True, eq=False)
class _Likelihood:
    """The log-likelihood of labelled rows, as they were given."""

    lines: Lines

    def __call__(self, block: Block, rows: range) -> Sums:  # noqa: ARG002
        laid_out = lay_out(block["x"], block["y"], block.get("counts"))
        return measure_likelihood(self.lines, laid_out)
