"""Mixtures of linear regressions (section 4.4) as an estimator."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from implicitmoments.backends import Floats
from implicitmoments.fitting.gaussianity import measure_gaussianity
from implicitmoments.fitting.regression.choose_k import bic, choose_lines, n_parameters
from implicitmoments.fitting.regression.em import Model
from implicitmoments.fitting.regression.errors import covariances
from implicitmoments.fitting.regression.features import FeatureBlock
from implicitmoments.fitting.regression.fit import FittedLines, Workspace, fit_lines
from implicitmoments.fitting.regression.fourier import noise_maximum
from implicitmoments.fitting.regression.likelihood import Lines, responsibilities
from implicitmoments.fitting.regression.standard import Standard, standardise
from implicitmoments.fitting.spectra import account_of_components
from implicitmoments.learners.checks import check_number, check_whole
from implicitmoments.learners.summary import FittedSummary
from implicitmoments.learners.warnings import AssumptionWarning
from implicitmoments.samples import ArraySource, RandomState, Whitening, as_seed, blocks

__all__ = ["RegressionMixture"]

PREDICTED_ROWS = 16_384
ABOUT = 12  # lines that n_components="auto" lays rows out for
ROWS_TO_COUNT = 3  # for each parameter of the lines that n_components="auto" tries


class RegressionMixture(FittedSummary, BaseEstimator):
    r"""A mixture of linear regressions, :math:`y = a_i + b_i \cdot x + N(0, s_i^2)`.

    Each row lies on one of k lines (planes, with more features), i with probability
    :math:`w_i`. Coefficients are those of the largest likelihood that is found. The start is
    global: peaks of the characteristic function of (x, y), and vectors read off the moments of
    Lemma 4.23 with Fourier weights. EM on some of the rows follows, then a search for lines that
    are missing, judged by the likelihood, and EM on all rows. There is nothing to restart.

    Parameters
    ----------
    n_components : int or "auto"
        The number k of lines. ``"auto"`` starts at the number of clear peaks and goes up or down
        while BIC falls.
    noise : {"shared", "separate"}
        One standard deviation for all lines, or one for each.
    fit_intercept : bool
        Whether lines have intercepts.
    max_components : int
        Lines that ``"auto"`` tries at most.
    max_iter : int
        Passes of EM over all rows.
    tol : float
        EM ends when what is still to be gained in mean log-likelihood is estimated below it.
    random_state : int, RandomState or None
        Of the points from which peaks are climbed.

    Attributes
    ----------
    coef_ : array of shape (n_components_, n_features)
        The heaviest line first.
    intercept_ : array of shape (n_components_,)
    weights_ : array of shape (n_components_,)
    noise_ : array of shape (n_components_,)
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
        What was measured; ``"warnings"`` in words.
    n_features_in_ : int

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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RegressionMixture:
        """Fit the lines.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), optional
            How often each row counts.
        """
        k, model = self._check_parameters()
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64, ensure_min_samples=2)
        counts = None
        if sample_weight is not None:
            counts = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
            keep = counts > 0
            X, y, counts = X[keep], y[keep], counts[keep]
            if len(y) < 2:
                raise ValueError(f"sample_weight leaves {len(y)} rows, expected two or more")
        y = np.asarray(y, dtype=np.float64)
        standard = standardise(X, y, counts, intercept=model.intercept)
        most = self._check_rows(len(y), standard.n_features, k)
        how: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol}
        how["seed"] = as_seed(self.random_state)
        scores: dict[int, float] = {}
        # Products of a block are small: threads of BLAS would only wait for one another.
        with threadpool_limits(1, user_api="blas"):
            space = Workspace.of(standard.rows(X, y, counts), k or min(most, ABOUT))
            if k is None:
                fitted, scores = choose_lines(space, model, most=most, **how)
            else:
                fitted = fit_lines(space, k, model, **how)
            found = covariances(space.rows, fitted.lines, model)
        self._store(fitted, standard, found, space)
        units = 2 * space.rows.mass * float(np.log(standard.scale))
        self.stats_["bic_by_n_components"] = {k: v + units for k, v in scores.items()}
        self._warn(X, counts, standard, space)
        return self

    def predict(self, X: Any) -> Floats:
        """Return the mean of y given x: that of all lines, by their weights."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        mean: Floats = X @ (self.weights_ @ self.coef_) + self.weights_ @ self.intercept_
        return mean

    def predict_proba(self, X: Any, y: Any = None) -> Floats:
        """Return the chance of each line given (x, y), of shape (n_samples, n_components_).

        Without y it is the weight of the line, whatever x is.
        """
        if y is None:
            check_is_fitted(self)
            X = validate_data(self, X, reset=False, dtype=np.float64)
            return np.tile(self.weights_, (len(X), 1))
        parts = [shares.T for shares, _ in self._responsibilities(X, y)]
        return np.concatenate(parts)

    def predict_component(self, X: Any, y: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the most probable line of each row."""
        return np.asarray(np.argmax(self.predict_proba(X, y), axis=1))

    def score_samples(self, X: Any, y: Any) -> Floats:
        """Return the logarithm of the density of y given x at each row."""
        return np.concatenate([logs for _, logs in self._responsibilities(X, y)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the mean logarithm of the density of y given x, as mixtures do."""
        return float(np.average(self.score_samples(X, y), weights=sample_weight))

    def bic(self, X: Any, y: Any) -> float:
        """Return the Bayesian information criterion of y given x; the less the better."""
        scores = self.score_samples(X, y)
        return bic(float(np.mean(scores)), len(scores), self._n_parameters())

    def aic(self, X: Any, y: Any) -> float:
        """Return the information criterion of Akaike of y given x; the less the better."""
        return float(-2 * np.sum(self.score_samples(X, y)) + 2 * self._n_parameters())

    def sample(
        self, n_samples: int = 1, X: Any = None, random_state: RandomState = None
    ) -> tuple[Floats, Floats, np.ndarray[Any, np.dtype[np.int64]]]:
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
            X = whitening.mean + rng.normal(size=(n, len(whitening.mean))) @ whitening.root
        else:
            X = validate_data(self, X, reset=False, dtype=np.float64)
        labels = rng.choice(self.n_components_, size=len(X), p=self.weights_)
        mean = np.einsum("nd,nd->n", X, self.coef_[labels]) + self.intercept_[labels]
        return X, mean + self.noise_[labels] * rng.normal(size=len(X)), labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _responsibilities(self, X: Any, y: Any) -> Iterator[tuple[Floats, Floats]]:
        check_is_fitted(self)
        X, y = validate_data(self, X, y, reset=False, y_numeric=True, dtype=np.float64)
        lines = Lines(
            self.weights_, np.column_stack([self.intercept_, self.coef_]), self.noise_**2
        )
        for rows in blocks(range(len(X)), PREDICTED_ROWS):
            part = slice(rows.start, rows.stop)
            u = np.vstack([np.ones(len(rows)), X[part].T, np.asarray(y[part], dtype=np.float64)])
            yield responsibilities(lines, FeatureBlock(u, np.ones(len(rows))))

    def _n_parameters(self) -> int:
        q = self._standard.n_features + 1
        return n_parameters(self.n_components_, q, self._model)

    def _check_parameters(self) -> tuple[int | None, Model]:
        """Check what was typed; None for as many lines as BIC says."""
        if self.noise not in ("shared", "separate"):
            raise ValueError(f"noise is 'shared' or 'separate', got {self.noise!r}")
        check_whole("max_iter", self.max_iter, 1)
        check_whole("max_components", self.max_components, 1)
        check_number("tol", self.tol, 0.0)
        self._model = Model(shared=self.noise == "shared", intercept=bool(self.fit_intercept))
        if isinstance(self.n_components, str):
            if self.n_components != "auto":
                raise ValueError(
                    f"n_components is a whole number or 'auto', got {self.n_components!r}"
                )
            return None, self._model
        return check_whole("n_components", self.n_components, 1), self._model

    def _check_rows(self, n_rows: int, n_features: int, k: int | None) -> int:
        """Return the most lines that are fitted."""
        if k is None:
            return max(1, min(self.max_components, n_rows // (ROWS_TO_COUNT * (n_features + 2))))
        if k > n_rows:
            raise ValueError(
                f"n_components={k} is more than the {n_rows} rows; "
                "use more rows or fewer components"
            )
        return k

    def _store(
        self, fitted: FittedLines, standard: Standard, found: Floats, space: Workspace
    ) -> None:
        lines = fitted.lines
        self._standard = standard
        self.weights_, self.n_components_ = lines.weights, lines.k
        self.coef_, self.intercept_, self.noise_ = standard.original(lines)
        self.coef_errors_, self.intercept_errors_ = standard.errors(found)
        if not self._model.intercept:
            self.intercept_ = np.zeros(lines.k)
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

    def _warn(
        self, X: Floats, counts: Floats | None, standard: Standard, space: Workspace
    ) -> None:
        """Say what the user can act on."""
        said: list[str] = []
        k, q = self.n_components_, standard.n_features + int(self._model.intercept)
        if space.rows.n_rows < k * q:
            said.append(
                f"{k} lines with {q} coefficients each are fitted to {space.rows.n_rows} rows, "
                "which do not determine them; use fewer components or features, or more rows"
            )
        if standard.constant:
            said.append("y is the same in every row, so that all lines are; look at y")
        whitening = Whitening.of(ArraySource(X), counts, reduce=True)
        words = measure_gaussianity(ArraySource(X), whitening, counts).words(
            getattr(self, "feature_names_in_", None)
        )
        if words is not None and k > 1:
            said.append(
                f"the inputs are clearly not Gaussian: {words}. The likelihood does not ask for "
                "Gaussian inputs, but the start does: compare log_likelihood_ for a few values of "
                "random_state"
            )
        if not self.converged_:
            said.append(
                f"EM did not converge in max_iter={self.max_iter} passes; raise max_iter or tol"
            )
        self.stats_["warnings"] = said
        for sentence in said:
            warnings.warn(sentence, AssumptionWarning, stacklevel=3)
