"""Sums of activations (section 4.2) as a regressor."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils.validation import check_is_fitted

from implicitmoments.activation.hypothesis import (
    FittedPolynomial,
    count_components,
    evaluate_hypothesis,
    fit_paper_polynomial,
    fit_polynomial,
    sample_problem,
    sum_squared_errors,
)
from implicitmoments.activation.network import Network
from implicitmoments.activation.refine import Refined, refine
from implicitmoments.activation.summary import ActivationSumSummary
from implicitmoments.arrays import Array, move_like
from implicitmoments.description import column_names
from implicitmoments.evaluation import Predictions, RowFunction
from implicitmoments.notes import Note, Notes
from implicitmoments.problems import Activation, ActivationSumProblem, as_activation
from implicitmoments.problems.activation_sum import (
    HIGHEST_DEGREE,
    check_conditions,
    degrees_to_try,
    parity_note,
)
from implicitmoments.rows import ArraySource, RandomState, Rows, Whitening
from implicitmoments.rows.inputs import open_rows
from implicitmoments.rows.normality import find_deviations, looks_standard
from implicitmoments.rows.outliers import count_extreme_rows
from implicitmoments.rows.sentinels import sentinel_notes
from implicitmoments.validation import (
    check_enough_rows,
    check_flag,
    check_method,
    check_number,
    check_option,
    check_positive_number,
    check_whole,
    check_whole_or,
)

MOST_COMPONENTS = 30  # counted by n_components="auto"
# Highest degrees for cross-validation; beside a network the polynomial serves to find the span.
HIGHEST_TRIED, HIGHEST_BESIDE_NETWORK = 10, 6
# Fitted attributes of refinement.
OF_NETWORK = (
    *("network_", "directions_", "weights_", "direction_errors_", "weight_errors_"),
    *("biases_", "bias_errors_", "n_iter_", "converged_"),
)


@dataclass(eq=False, repr=False)  # scikit-learn compares and prints estimators
class ActivationSumRegressor(ActivationSumSummary, Predictions, RegressorMixin, BaseEstimator):
    r"""Learn :math:`y = \sum_i w_i \sigma(v_i \cdot x)` from Gaussian inputs (Theorem 4.7).

    Weights :math:`w_i` are positive, directions :math:`v_i` of length 1, the activation
    :math:`\sigma` is known, and labels may have noise of mean zero. Beyond the theorem, weights
    may have both signs (``positive=False``), components may have biases,
    :math:`\sigma(v_i \cdot x + b_i)` (``fit_bias=True``), and :math:`\sigma` may be odd. The
    moments :math:`\sum_i w_i v_i^{\otimes t}` give a polynomial hypothesis with no random starts
    and no local optima; ``refine`` then fits the model itself by least squares.

    Every step is a pass over the rows in blocks, or uses a sample of them, so rows may be a
    :class:`~implicitmoments.rows.Source` beyond memory. Arrays of other libraries are processed
    where they are; fitted arrays and predictions are in the library of the rows.

    Parameters
    ----------
    activation : str, Activation or callable, default "relu"
        ``"relu"``, ``"leaky_relu"``, ``"softplus"``, ``"gelu"``, ``"tanh"``, ``"sigmoid"``,
        ``"abs"``, ``"square"``, ``"cos"``, :func:`~implicitmoments.problems.cosine` with a
        frequency and a phase, or any function of an array, whose Hermite coefficients are
        computed by quadrature. A function is called with arrays of the library of the rows.
    n_components : int or "auto", default "auto"
        The number k of components. An upper bound is enough. ``"auto"`` counts the directions
        above the noise floor of the moments, at most 30 and twice the number of features; with
        ``refine`` directions are then added one by one while the Bayesian information criterion
        of the network decreases.
    positive : bool, default True
        Whether weights are positive. False: weights of both signs.
    fit_bias : bool, default False
        Whether components have biases :math:`b_i`.
    degree : int, "cv" or "auto", default "cv"
        Of the polynomial. ``"cv"`` chooses by held-out error, up to 10, or up to 6 with
        ``refine``. ``"auto"``: what the tail bound of the theorem requires for ``epsilon``,
        for the activation without biases.
    epsilon : float, default 0.1
        The theorem's :math:`\varepsilon`, relative to the sum of the weights: with
        ``degree="auto"`` and without biases, the error that truncation may leave is half of it.
    refine : bool, default True
        Decode directions and weights from the moments and fit them by Gauss-Newton steps on the
        model itself. Predictions are then those of the network, unless the polynomial is expected
        to have a smaller error on new rows.
    method : {"closed_form", "paper"}, default "closed_form"
        How moments are estimated. ``"paper"`` is the paper's algorithm, with fresh rows and
        auxiliary noise in every step.
    whiten : bool or "auto", default "auto"
        Estimate mean and covariance of the inputs and learn
        :math:`\sum_i w_i \sigma(v_i \cdot \Sigma^{-1/2} (x - m))`. ``"auto"`` does so unless the
        inputs are consistent with mean 0 and covariance I.
    n_starts : int, default 3
        Random starts of the refinement, beside that of the moments.
    max_iter : int, default 100
        The largest number of steps of the refinement.
    tol : float, default 1e-3
        Refinement ends when a step lowers the mean squared error by less than this fraction of
        what fitting k d numbers removes by chance: a step of ``tol * k * d / n_samples`` of it.
        Labels without noise are fitted to rounding nevertheless, since every step then removes
        most of the error.
    random_state : int, generator, np.random or None, default None
        Seed of all random numbers.
    rows_per_block : int, optional
        Rows that are processed at a time; chosen by the memory they take by default. Rows
        that fit in memory are then held there.

    Attributes
    ----------
    weights_ : array of shape (k,)
        In decreasing order. Only after refinement, as are the next eight. Weights of both signs
        are ordered by magnitude.
    directions_ : array of shape (k, n_features)
        Directions that act on x, or on x minus its mean where inputs were whitened.
    direction_errors_, weight_errors_ : array of shape (k,)
        Standard errors: of directions as angles in radians, in standardised coordinates. NaN
        for a direction that is not identified.
    biases_, bias_errors_ : array of shape (k,), or None
        Biases and their standard errors, with ``fit_bias=True``. They are added to the product of
        a direction with x, or with x minus its mean where inputs were whitened.
    network_ : Network
        Weights, directions and biases in standardised coordinates.
    n_iter_ : int
        Iterations over all rows.
    converged_ : bool
        Whether iterations stopped by ``tol``.
    n_components_ : int
        The number k of components.
    degree_ : int
        Of the polynomial.
    polynomial_ : FittedPolynomial
    activation_ : Activation
    whitening_ : Whitening or None
    conditions_ : Conditions
        The numbers of Theorem 4.7 for this activation, without a bias, and degree.
    notes_ : Notes
        Findings about the fit, which print as sentences.
    stats_ : dict
        ``hypothesis``, what ``predict`` uses, ``"network"`` or ``"polynomial"``, with
        ``network_error`` and ``polynomial_error``, the expected mean squared errors on new
        rows; ``held_out_error``, ``error_by_degree``, ``plain_error``, ``width``, ``ridge`` and
        ``turns`` of the polynomial; ``loss_history``, ``n_starts`` and ``decoded`` of the
        network; ``whitened``, ``method``, ``rows_used``; ``outliers_kept``, rows very far from all
        others, which are kept; ``spectra``, ``noise_floor``, ``ranks`` and ``moment_orders``
        of the moments.
    n_features_in_, feature_names_in_ : number of columns; their names, where they have any

    See Also
    --------
    RegressionMixture : The lines, and the line of each row.
    implicitmoments.problems.Activation : A function and its Hermite coefficients.

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

    activation: str | Activation | Callable[[Array], Array] = "relu"
    n_components: int | str = "auto"
    _: KW_ONLY
    positive: bool = True
    fit_bias: bool = False
    degree: int | str = "cv"
    epsilon: float = 0.1
    refine: bool = True
    method: str = "closed_form"
    whiten: bool | str = "auto"
    n_starts: int = 3
    max_iter: int = 100
    tol: float = 1e-3
    random_state: RandomState = None
    rows_per_block: int | None = None

    def _fit(self, given: Rows, seed: int) -> None:
        activation, degrees = self._options()
        rows = self._hold(given)
        activation(rows.first["x"])  # raises for a function of NumPy arrays only
        # 0. Inputs of mean 0 and covariance I, and folds that do not depend on their units.
        spread = Whitening.of(rows, reduce=True)
        rows = rows.keyed_on(spread.grid)
        whitening, notes, standard = self._standardise(rows, spread)
        n_extreme = count_extreme_rows(rows, 1, seed)
        if n_extreme:
            notes.append(Note("outliers_kept", {"n": n_extreme}))
        problem = ActivationSumProblem(
            rows, None, activation, biased=self.fit_bias, whitening=whitening
        )
        k = self._count(problem)
        # 1, 2. Moments, and the polynomial on the subspaces that they determine. Beside a
        # network the polynomial is a start and a check, for which a sample is enough.
        closed = self.method == "closed_form"
        some = sample_problem(problem, k, seed) if self.refine and closed else problem
        fitted = (
            fit_polynomial(some, k, degrees, positive=self.positive, seed=seed)
            if closed
            else fit_paper_polynomial(problem, k, degrees[-1], seed, positive=self.positive)
        )
        # 3. Refinement: the network itself by least squares.
        refined = None
        if self.refine:
            refined = refine(
                problem,
                fitted.basis,
                k,
                target=np.inf if np.isnan(fitted.error) else fitted.error,
                n_starts=self.n_starts,
                more=self.n_components == "auto",
                positive=self.positive,
                seed=seed,
                max_iter=self.max_iter,
                tol=self.tol,
            )
            expected = fitted.expected_error(some.rows.total)
            if some is not problem and refined.expected_error > expected:
                # the polynomial will predict: fit it to all rows
                fitted = fit_polynomial(problem, k, degrees, positive=self.positive, seed=seed)
        if standard:  # moments of other inputs have eigenvalues of both signs too
            notes += fitted.notes
        # 4. The hypothesis with the smaller expected error predicts.
        self._store_polynomial(fitted, k, problem)
        self.stats_["outliers_kept"], self.notes_ = n_extreme, notes
        if refined is not None:
            self._store_network(refined, problem)
        if not standard and self.stats_["hypothesis"] == "polynomial":
            self.notes_.append(Note("polynomial_of_other_inputs"))

    def _prediction(self) -> RowFunction:
        return RowFunction(partial(evaluate_hypothesis, self._hypothesis, self.whitening_))

    def score(self, X: Array, y: Array | None = None, sample_weight: Array | None = None) -> float:
        r"""Return :math:`R^2` of the predictions, in one pass over the rows.

        Parameters
        ----------
        X : array, data frame or Source of shape (n_samples, n_features)
        y : array of shape (n_samples,)
            Not for a Source, which has it as a column.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        float
        """
        check_is_fitted(self)
        with open_rows(self, X, y, sample_weight, labelled=True, reset=False) as (rows, _):
            # squares about one of the labels, since their mean is not known in the first pass
            about = float(rows.first["y"][0])
            measure = partial(sum_squared_errors, self._prediction().function, about)
            sums = rows.fold(measure, width=rows.n_features, what="score")
        if rows.n < 2:
            warnings.warn("R² is not defined for one row", UndefinedMetricWarning, stacklevel=2)
            return math.nan
        spread = float(sums["second"] - sums["first"] ** 2 / sums["total"])
        left = float(sums["left"])
        return 1 - left / spread if spread > 0 else float(left == 0)

    def _options(self) -> tuple[Activation, list[int]]:
        """Check the parameters; return the activation, and the degrees to be tried."""
        check_method(self.method)
        for name in ("refine", "positive", "fit_bias"):
            check_flag(name, getattr(self, name))
        if isinstance(self.whiten, str):
            check_option("whiten", self.whiten, ("auto",), besides="True, False or ")
        else:
            check_flag("whiten", self.whiten)
        check_positive_number("epsilon", self.epsilon)
        check_number("tol", self.tol, 0.0)
        check_whole_or("n_components", self.n_components, ("auto",), 1)
        check_whole("n_starts", self.n_starts, 1)
        check_whole("max_iter", self.max_iter, 1)
        degree = check_whole_or("degree", self.degree, ("cv", "auto"), 1, HIGHEST_DEGREE)
        activation = as_activation(self.activation)
        most = HIGHEST_BESIDE_NETWORK if self.refine else HIGHEST_TRIED
        degrees = degrees_to_try(
            activation, degree, self.epsilon, self.method, most, biased=self.fit_bias
        )
        return activation, degrees

    def _hold(self, rows: Rows) -> Rows:
        """Hold rows that fit in memory: they are passed over many times."""
        if isinstance(rows.source, ArraySource) or rows.rows_per_block or not rows.small:
            return rows
        return replace(rows.hold(), progress=rows.progress)

    def _standardise(
        self, rows: Rows, whitening: Whitening
    ) -> tuple[Whitening | None, Notes, bool]:
        """Return whitening if it is needed, and note inputs that are not Gaussian.

        Also returned: whether the inputs, after whitening if any, have mean 0 and covariance I.
        """
        names = column_names(self)
        notes = Notes(whitening.column_notes(names))
        standard = looks_standard(whitening, rows.total)
        deviations = find_deviations(rows, whitening, names)
        if deviations is not None:
            notes.append(Note("moments_of_inputs_not_gaussian", deviations))
            notes += sentinel_notes(rows, names)
        parity = parity_note(as_activation(self.activation))
        if parity is not None and self.positive and not self.fit_bias:
            notes.append(parity)
        if not self.whiten or (standard and self.whiten == "auto"):
            return None, notes, standard
        if self.whiten == "auto":
            notes.append(Note("inputs_standardised"))
        return whitening, notes, True

    def _count(self, problem: ActivationSumProblem) -> int:
        rows = problem.rows
        if self.n_components == "auto":
            most = min(2 * problem.n_features, MOST_COMPONENTS, int(rows.total))
            return count_components(problem, max(1, most), positive=self.positive)
        check_enough_rows(rows.n, int(self.n_components))
        return int(self.n_components)

    def _store_polynomial(
        self, fitted: FittedPolynomial, k: int, problem: ActivationSumProblem
    ) -> None:
        for name in OF_NETWORK:  # of an earlier fit, with refinement
            self.__dict__.pop(name, None)
        self.activation_, self.whitening_ = problem.activation, problem.whitening
        self.polynomial_, self.n_components_ = fitted, k
        self.degree_ = max(1, fitted.polynomial.degree)
        self.conditions_ = check_conditions(
            self.activation_, self.degree_, self.method, biased=self.fit_bias
        )
        self._hypothesis: FittedPolynomial | Network = fitted
        self.stats_: dict[str, Any] = {
            "method": self.method,
            "rows_used": problem.rows.n,
            "whitened": self.whitening_ is not None,
            "hypothesis": "polynomial",
            **fitted.measurements(problem.rows.total),
        }

    def _store_network(self, refined: Refined, problem: ActivationSumProblem) -> None:
        """Store weights and directions, and choose the predictor."""
        best = refined.fitted
        given: Callable[..., Any] = partial(move_like, other=problem.rows.like)
        self.directions_ = given(problem.original_vectors(best.network.directions))
        self.weights_ = given(best.network.weights)
        arrays = {"weights": self.weights_, "directions": given(best.network.directions)}
        self.biases_ = self.bias_errors_ = None
        if best.network.biases is not None:
            arrays["biases"] = self.biases_ = given(best.network.biases)
            self.bias_errors_ = given(refined.errors.biases)
        self.network_ = replace(best.network, **arrays)
        self.direction_errors_ = given(refined.errors.directions)
        self.weight_errors_ = given(refined.errors.weights)
        self.n_iter_, self.converged_ = max(1, len(best.history) - 1), best.converged
        self.n_components_ = best.network.k
        self.stats_ |= {
            "network_error": float(refined.expected_error),
            "loss_history": best.history,
            "n_starts": refined.n_starts,
            "decoded": refined.decoded,
        }
        self.notes_ = Notes([*self.notes_, *refined.notes])
        if not self.stats_["network_error"] > self.stats_["polynomial_error"]:
            self._hypothesis = self.network_
            self.stats_["hypothesis"] = "network"
        else:
            self.notes_.append(Note("polynomial_predicts"))
        if self.n_components != "auto" and best.network.k < int(self.n_components):
            values = {"asked": self.n_components, "k": best.network.k}
            self.notes_.append(Note("components_merged", values))
        if not best.converged:
            self.notes_.append(Note("not_converged", {"max_iter": self.max_iter}))
