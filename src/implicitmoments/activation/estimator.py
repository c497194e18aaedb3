"""Positive sums of activations (section 4.2) as a regressor."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils.validation import check_is_fitted

from implicitmoments.activation.conditions import check_conditions
from implicitmoments.activation.hypothesis import (
    FittedPolynomial,
    count_components,
    fit_paper_polynomial,
    fit_polynomial,
    thin,
)
from implicitmoments.activation.network import Network
from implicitmoments.activation.prediction import Predictor, explained
from implicitmoments.activation.refine import Refined, refine
from implicitmoments.activation.summary import ActivationSumSummary
from implicitmoments.activation.validation import check_parameters
from implicitmoments.arrays import Array, move_like
from implicitmoments.moments.spectra import account_of_steps
from implicitmoments.notes import AssumptionWarning, tell_unfinished
from implicitmoments.problems import Activation, ActivationSumProblem
from implicitmoments.problems.labelled_rows import LabelledRows
from implicitmoments.rows import ArraySource, Progress, ProgressSource, Source, Whitening
from implicitmoments.rows.answers import answer
from implicitmoments.rows.inputs import Checkpoint, open_rows, probe_of
from implicitmoments.rows.normality import looks_standard, measure_gaussianity

__all__ = ["ActivationSumRegressor"]

MOST_COMPONENTS = 30  # counted by n_components="auto"
HELD_NUMBERS = 2**20  # of points that are held in memory, wherever they come from: 8 MB


class ActivationSumRegressor(ActivationSumSummary, RegressorMixin, BaseEstimator):
    r"""Learn :math:`y = \sum_i w_i \sigma(v_i \cdot x)` from Gaussian inputs (Theorem 4.7).

    Weights :math:`w_i` are positive, directions :math:`v_i` of length 1, the activation
    :math:`\sigma` is known, and labels may carry noise of mean zero. The moments
    :math:`\sum_i w_i v_i^{\otimes t}` give a polynomial hypothesis with no random starts and no
    local optima; ``refine`` then polishes the model itself.

    Every step is a pass over the rows in blocks, or works on a sample of them, so that rows may
    be a :class:`~implicitmoments.rows.Source` beyond memory. Arrays of other libraries are
    passed over where they are; arrays that are attributes, and answers, come back there.

    Parameters
    ----------
    activation : str, Activation or callable, default "relu"
        ``"relu"``, ``"leaky_relu"``, ``"softplus"``, ``"gelu"``, ``"abs"``, ``"square"``,
        ``"cos"``, :func:`~implicitmoments.problems.cosine` with a frequency and a phase, or any
        function of an array; Hermite coefficients of the last by quadrature. Those with names
        run on arrays of every library; a function is called with arrays of that of the rows.
    n_components : int or "auto", default "auto"
        The number k of directions, or an upper bound of it. ``"auto"`` counts the directions
        that stand clear of the noise in the moments; with ``refine`` it then adds directions
        one by one while the Bayesian information criterion of the network falls.
    degree : int, "cv" or "epsilon", default "cv"
        Of the polynomial. ``"cv"`` chooses on rows held out, up to 10, or up to 6 with
        ``refine``; ``"epsilon"`` takes what the tail bound of the theorem asks for.
    epsilon : float, default 0.1
        The theorem's :math:`\varepsilon`, relative to the sum of the weights: with
        ``degree="epsilon"``, the error that truncation may leave is half of it.
    refine : bool, default True
        Read directions and weights off the moments and polish them by Gauss-Newton steps on the
        model itself. Predictions are then those of the network, unless the polynomial, fitted
        to a part of many rows, is expected to do better on new rows.
    method : {"closed_form", "paper"}, default "closed_form"
        How moments are estimated; ``"paper"`` is the paper's algorithm, with fresh rows and
        auxiliary noise in every step.
    whiten : bool or "auto", default "auto"
        Estimate mean and covariance of the inputs and learn
        :math:`\sum_i w_i \sigma(v_i \cdot \Sigma^{-1/2} (x - m))`. ``"auto"`` does so unless the
        inputs are consistent with mean 0 and covariance I.
    n_starts : int, default 3
        Random starts of the polish, beside that of the moments.
    max_iter : int, default 100
        Steps of the polish.
    tol : float, default 1e-3
        The polish ends when a step lowers the mean squared error by less than this part of what
        fitting k d numbers takes away by chance: a step of ``tol * k * d / n_samples`` of it.
        Labels without noise are fitted to rounding nevertheless, since every step then takes
        away most of what is left.
    random_state : int, RandomState or None, default None
        Of the starts, and of the auxiliary draws of ``method="paper"``.
    block_rows : int, optional
        Rows held at a time.

    Attributes
    ----------
    directions_ : array of shape (k, n_features)
        Directions that act on x, or on x less its mean where inputs were whitened; the heaviest
        first. Only after refinement.
    weights_ : array of shape (k,)
    direction_errors_, weight_errors_ : array of shape (k,)
        Standard errors: of directions as angles in radians, in standardised coordinates. NaN
        for a direction that is not identified.
    network_ : Network
        Weights and directions in standardised coordinates. Only after refinement.
    n_components_ : int
    n_iter_ : int
        Steps of the polish on all rows.
    degree_ : int
        Of the polynomial.
    polynomial_ : FittedPolynomial
    activation_ : Activation
    whitening_ : Whitening or None
    conditions_ : Conditions
        The numbers of Theorem 4.7 for this activation and degree.
    stats_ : dict
        ``hypothesis``, what ``predict`` uses, ``"network"`` or ``"polynomial"``, with
        ``network_error`` and ``polynomial_error``, mean squared errors to be expected on new
        rows; ``held_out_error``, ``error_by_degree``, ``plain_error``, ``width``, ``ridge`` and
        ``turns`` of the polynomial; ``loss_history``, ``converged``, ``n_starts`` and ``decoded``
        of the network; ``whitened``, ``method``, ``n_rows``; ``spectra``, ``noise_floor``,
        ``ranks`` and ``moment_orders`` of the moments; and ``notes``, words for the user.
    n_features_in_ : int
    feature_names_in_ : array of str of shape (n_features,)
        Where the columns of the rows have names.

    Examples
    --------
    >>> from implicitmoments import ActivationSumRegressor
    >>> from implicitmoments.datasets import make_activation_sum
    >>> X, y, truth = make_activation_sum(5_000, 3, 6, random_state=0)
    >>> model = ActivationSumRegressor("relu", n_components=3).fit(X, y)
    >>> round(model.score(X, y), 6)
    1.0
    >>> model.directions_.shape, model.weights_.round(2).tolist()
    ((3, 6), [0.33, 0.33, 0.33])
    """

    def __init__(  # noqa: PLR0913 (one keyword a choice, as scikit-learn has it)
        self,
        activation: str | Activation | Callable[[Array], Array] = "relu",
        n_components: int | str = "auto",
        *,
        degree: int | str = "cv",
        epsilon: float = 0.1,
        refine: bool = True,
        method: str = "closed_form",
        whiten: bool | str = "auto",
        n_starts: int = 3,
        max_iter: int = 100,
        tol: float = 1e-3,
        random_state: Any = None,
        block_rows: int | None = None,
    ) -> None:
        self.activation = activation
        self.n_components = n_components
        self.degree = degree
        self.epsilon = epsilon
        self.refine = refine
        self.method = method
        self.whiten = whiten
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.block_rows = block_rows

    def fit(
        self,
        X: Array,
        y: Array | None = None,
        sample_weight: Array | None = None,
        *,
        checkpoint: Checkpoint = None,
        progress: Progress | None = None,
    ) -> ActivationSumRegressor:
        """Learn from inputs and labels.

        Parameters
        ----------
        X : array (n_samples, n_features), data frame, path, iterator of blocks, Dask or Source
            Rows of a Source have a column ``y``.
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), optional
            How often each row counts; 0 leaves it out. Weights above 0 with a mean below 1 are
            scaled to a mean of 1.
        checkpoint : path, optional
            Where finished passes are kept: a fit that was interrupted goes on from there.
        progress : callable, optional
            Called as ``progress(what, rows_done, rows_total)``.
        """
        how: dict[str, Any] = {"checkpoint": checkpoint, "progress": progress}
        with open_rows(self, X, y, sample_weight, labelled=True, fewest=4, **how) as given:
            source, seed = given
            activation, degrees = check_parameters(self)
            activation(probe_of(source))  # a function of NumPy arrays alone is refused here
            held = _held(source, progress)
            refined = self._fit(held, activation, degrees, seed)
        if refined is not None and not refined.converged:
            tell_unfinished(self.stats_["notes"], self.max_iter)
        return self

    def _fit(
        self, source: Source, activation: Activation, degrees: list[int], seed: int
    ) -> Refined | None:
        """Fit the polynomial, and the network where it is asked for."""
        whitening = self._standardise(source)
        self.activation_, self.whitening_ = activation, whitening
        problem = ActivationSumProblem(source, None, activation, whitening=whitening)
        rows = LabelledRows(problem, self.block_rows)
        k = self._count(rows)
        # beside a network the polynomial is a start and a check, and some of the rows will do
        fewer = thin(rows, k) if self.refine and self.method == "closed_form" else rows
        if self.method == "paper":
            fitted = fit_paper_polynomial(rows, k, degrees[-1], seed)
        else:
            fitted = fit_polynomial(fewer, k, degrees)
        refined = None
        if self.refine:
            refined = refine(
                rows,
                fitted.basis,
                k,
                target=np.inf if np.isnan(fitted.error) else fitted.error,
                n_starts=self.n_starts,
                more=self.n_components == "auto",
                seed=seed,
                max_iter=self.max_iter,
                tol=self.tol,
            )
            if fewer is not rows and refined.expected_error > fitted.expected_error(fewer.mass):
                fitted = fit_polynomial(rows, k, degrees)  # it is to be used after all
        self._store(fitted, refined, k, problem)
        return refined

    def predict(self, X: Array) -> Array:
        """Predict labels; there is no randomness in it.

        Parameters
        ----------
        X : array, data frame or Source of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,)
            In the library, the precision and on the device of X.
        """
        check_is_fitted(self)
        return answer(self, X, self._predictor, rows_per_block=self.block_rows)

    def score(self, X: Array, y: Array | None = None, sample_weight: Array | None = None) -> float:
        r"""Return :math:`R^2` of the predictions, in one pass over the rows.

        Parameters
        ----------
        X : array, data frame or Source of shape (n_samples, n_features)
        y : array of shape (n_samples,)
            Not for a Source, which has it as a column.
        sample_weight : array of shape (n_samples,), optional
        """
        check_is_fitted(self)
        with open_rows(self, X, y, sample_weight, labelled=True, reset=False) as (source, _):
            score = explained(source, self._predictor, self.block_rows)
        if np.isnan(score):
            warnings.warn("R² takes two rows", UndefinedMetricWarning, stacklevel=2)
        return score

    @property
    def _predictor(self) -> Predictor:
        return Predictor(self._hypothesis, self.whitening_)

    def _standardise(self, source: Source) -> Whitening | None:
        """Estimate mean and covariance, and warn of inputs that are not Gaussian."""
        whitening = Whitening.of(source, reduce=True)
        tested = measure_gaussianity(source, whitening)
        words = tested.words(getattr(self, "feature_names_in_", None))
        self._doubts: list[str] = []
        if words is not None:
            self._doubts.append(
                f"the inputs are clearly not Gaussian: {words}. The moments are then biased; keep "
                "refine=True, which fits the model to the rows as they are, with whiten=False if "
                "the activation acts on the inputs as given"
            )
            warnings.warn(self._doubts[0], AssumptionWarning, stacklevel=4)
        if not self.whiten:
            return None
        if self.whiten == "auto" and looks_standard(whitening, source.mass):
            return None
        return whitening

    def _count(self, rows: LabelledRows) -> int:
        d = rows.problem.n_features
        if self.n_components == "auto":
            return count_components(rows, max(1, min(2 * d, MOST_COMPONENTS, int(rows.mass))))
        k = int(self.n_components)
        if k > rows.n_rows:
            raise ValueError(
                f"n_components={k} is more than the {rows.n_rows} rows; "
                "use more rows or fewer components"
            )
        return k

    def _store(
        self,
        fitted: FittedPolynomial,
        refined: Refined | None,
        k: int,
        problem: ActivationSumProblem,
    ) -> None:
        self.polynomial_, self.n_components_ = fitted, k
        self.degree_ = max(1, fitted.polynomial.degree)
        self.conditions_ = check_conditions(self.activation_, self.degree_, self.method)
        self._hypothesis: FittedPolynomial | Network = fitted
        for name in ("network_", "directions_", "weights_", "direction_errors_", "weight_errors_"):
            if hasattr(self, name):  # of an earlier fit, with refinement
                delattr(self, name)
        notes = list(self._doubts)
        if self.conditions_.warning is not None:
            notes.append(self.conditions_.warning)
        if self.whitening_ is not None and self.whiten == "auto":
            notes.append(
                "the inputs were standardised: the activation is taken to act on v · z, z of mean "
                "0 and covariance I; whiten=False takes it to act on the inputs as given"
            )
        self.stats_: dict[str, Any] = {
            "method": self.method,
            "n_rows": problem.n_rows,
            "held_out_error": float(fitted.error),
            "polynomial_error": float(fitted.expected_error(problem.mass)),
            "turns": fitted.turns,
            "whitened": self.whitening_ is not None,
            "hypothesis": "polynomial",
            "notes": notes,
        }
        if fitted.choice is not None:
            choice = fitted.choice
            self.stats_ |= {
                "error_by_degree": {n: float(error) for n, error in choice.by_degree.items()},
                "plain_error": None if choice.plain_error is None else float(choice.plain_error),
                "width": choice.width,
                "ridge": choice.ridge,
            }
        if fitted.fold is not None:
            self.stats_ |= account_of_steps(fitted.fold.steps)
        if refined is not None:
            self._store_network(refined, problem)

    def _store_network(self, refined: Refined, problem: ActivationSumProblem) -> None:
        """Store weights and directions, and choose what predicts."""
        network, notes = refined.network, self.stats_["notes"]
        given = partial(move_like, other=problem.rows.like)
        self.directions_ = given(problem.original_vectors(network.directions))
        self.weights_ = given(network.weights)
        self.network_ = replace(
            network, weights=self.weights_, directions=given(network.directions)
        )
        self.direction_errors_ = given(refined.errors)
        self.weight_errors_ = given(refined.weight_errors)
        self.n_iter_ = max(1, len(refined.history) - 1)
        self.n_components_ = len(network.weights)
        notes.extend(refined.reasons)
        self.stats_ |= {
            "network_error": float(refined.expected_error),
            "loss_history": refined.history,
            "converged": refined.converged,
            "n_starts": refined.n_starts,
            "decoded": refined.decoded,
        }
        if not self.stats_["network_error"] > self.stats_["polynomial_error"]:
            self._hypothesis = self.network_
            self.stats_["hypothesis"] = "network"
        else:
            notes.append(
                "the polynomial is expected to predict new rows better than the network: the "
                "labels may not be a positive sum of this activation (an intercept is none), or "
                "there are too few rows for its unknowns"
            )


def _held(source: Source, progress: Progress | None) -> Source:
    """Take rows into memory where they are few."""
    n = source.n_rows or 0
    if isinstance(source, ArraySource) or n * source.n_features > HELD_NUMBERS:
        return source
    block = dict(source.pick(np.arange(n), what="the rows"))
    held = ArraySource(block.pop("x"), **block)
    return held if progress is None else ProgressSource(held, progress)
