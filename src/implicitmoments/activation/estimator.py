"""Sums of activations (section 4.2) as a regressor."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from implicitmoments.activation.network import (
    FittedNetwork,
    Network,
    fit_network,
    sample_for,
    standard_errors,
)
from implicitmoments.activation.polynomial import (
    Polynomial,
    count_components,
    fit_polynomial,
)
from implicitmoments.activation.search import find_network, in_memory
from implicitmoments.arrays import Array, Floats, move_like, to_numpy
from implicitmoments.estimator import (
    FEATURES,
    Check,
    FittedEstimator,
    as_floats,
    column_names,
    counted,
)
from implicitmoments.evaluation import Predictions, RowFunction
from implicitmoments.moments.activations import (
    HIGHEST_DEGREE,
    Activation,
    ActivationSumProblem,
    as_activation,
    largest_degree,
    parity_note,
)
from implicitmoments.notes import Note, Notes
from implicitmoments.picture_data import Directions, FitView, NoPictureError, RowSample
from implicitmoments.picture_data import Predictions as PredictionView
from implicitmoments.rows import (
    Rows,
    Whitening,
    count_extreme_rows,
    find_deviations,
    looks_standard,
)
from implicitmoments.validation import (
    RandomState,
    check_enough_rows,
    check_flag,
    check_number,
    check_parameter,
    check_whole,
    check_whole_or,
)


@dataclass(eq=False, repr=False)  # scikit-learn compares and prints estimators
class ActivationSumRegressor(FittedEstimator, Predictions, RegressorMixin, BaseEstimator):
    r"""Learn :math:`y = \sum_i w_i \sigma(v_i \cdot x)` from Gaussian inputs (Theorem 4.7).

    Weights :math:`w_i` are positive, directions :math:`v_i` of length 1, the activation
    :math:`\sigma` is known, and labels may have noise of mean zero. Beyond the theorem, weights
    may have both signs (``positive=False``), components may have biases,
    :math:`\sigma(v_i \cdot x + b_i)` (``fit_bias=True``), and :math:`\sigma` may be odd. The
    moments :math:`\sum_i w_i v_i^{\otimes t}` give a polynomial hypothesis with no random starts
    and no local optima; ``refine`` then fits the model itself by least squares.

    Every step is a pass over the rows in blocks, or uses a sample of them, so rows may be a
    :class:`~implicitmoments.rows.Table` beyond memory. Arrays of other libraries are processed
    where they are; fitted arrays and predictions are in the library of the rows.

    Parameters
    ----------
    activation : str, Activation or callable, default "relu"
        ``"relu"``, ``"leaky_relu"``, ``"softplus"``, ``"gelu"``, ``"tanh"``, ``"sigmoid"``,
        ``"abs"``, ``"square"``, ``"cos"``, :func:`~implicitmoments.moments.cosine` with a
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
    degree : int or "auto", default "auto"
        Degree of the polynomial. ``"auto"``: the even degree with the highest held-out score, up
        to 10, or up to 6 with ``refine``.
    refine : bool, default True
        Decode directions and weights from the moments and fit them by Gauss-Newton steps on the
        model itself. Predictions are then those of the network, unless the polynomial is expected
        to have a smaller error on new rows.
    whiten : bool or "auto", default "auto"
        Estimate mean and covariance of the inputs and learn
        :math:`\sum_i w_i \sigma(v_i \cdot \Sigma^{-1/2} (x - m))`. ``"auto"`` does so unless the
        inputs are consistent with mean 0 and covariance I.
    n_starts : int, default 4
        Random starts of the refinement within the span that the moments determine, three times as
        many for components with biases. Twice as many more are tried while a further component
        would explain a part of the residuals.
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
        Degree of the polynomial.
    polynomial_ : Polynomial
        A function of standardised inputs; ``basis`` is the span of the directions.
    activation_ : Activation
    whitening_ : Whitening or None
    notes_ : Notes
        Findings about the fit, which print as sentences.
    stats_ : dict
        ``hypothesis``, what ``predict`` uses, ``"network"`` or ``"polynomial"``, with
        ``network_error`` and ``polynomial_error``, the expected mean squared errors on new
        rows; ``held_out_error``, ``error_by_degree`` and ``ridge`` of the polynomial;
        ``loss_history`` and ``unexplained`` of the network, the share of its squared error that a
        further component would explain;
        ``whitened``, ``rows_used``; ``outliers_kept``, rows very far from all others, which are
        kept; ``spectra``, ``noise_floor``, ``ranks`` and ``moment_orders`` of the moments.
    n_features_in_, feature_names_in_ : number of columns; their names, where they have any

    See Also
    --------
    RegressionMixture : The lines, and the line of each row.
    implicitmoments.moments.Activation : A function and its Hermite coefficients.

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

    fewest_rows = 4
    labelled = True
    answers: ClassVar[Mapping[str, str]] = {"predictions": "predict"}
    component = "direction"
    vectors = "directions_"
    density_of_labels = True
    tables: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "Directions": {
            "weight": "weights_",
            "weight error": "weight_errors_",
            "angle error (rad)": "direction_errors_",
            "bias": "biases_",
            "bias error": "bias_errors_",
            FEATURES: "directions_",
        }
    }
    saved: ClassVar[Mapping[str, Any]] = {
        "activation_": Activation,
        "n_components_": int,
        "degree_": int,
        "polynomial_": Polynomial,
        "whitening_": Whitening | None,
        "network_": Network | None,
        "weight_errors_": np.ndarray | None,
        "directions_": np.ndarray | None,
        "direction_errors_": np.ndarray | None,
        "biases_": np.ndarray | None,
        "bias_errors_": np.ndarray | None,
    }
    captions: ClassVar[Mapping[str, str]] = {
        "spectra": "Eigenvalues of the moments, order by order. Filled: the directions used by "
        "the polynomial.",
        "components": "Rows on the two leading directions of the network, coloured by {target}.",
        "fit": "Actual against predicted values of {target}. If the model is right, rows lie "
        "around the dashed line.",
    }

    activation: str | Activation | Callable[[Array], Array] = "relu"
    n_components: int | str = "auto"
    _: KW_ONLY
    positive: bool = True
    fit_bias: bool = False
    degree: int | str = "auto"
    refine: bool = True
    whiten: bool | str = "auto"
    n_starts: int = 4
    max_iter: int = 100
    tol: float = 1e-3
    random_state: RandomState = None
    rows_per_block: int | None = None

    def _fit(self, given: Rows, seed: int) -> None:
        activation, degrees = self._options()
        rows = in_memory(given)
        activation(rows.table.first["x"])  # raises for a function of NumPy arrays only
        # 0. Inputs of mean 0 and covariance I, and folds that do not depend on their units.
        spread = Whitening.of(rows, reduce=True)
        rows = rows.keyed_on(spread)
        whitening, notes, standard = self._standardise(rows, spread)
        parity = parity_note(activation)
        if parity is not None and self.positive and not self.fit_bias:
            notes.append(parity)
        n_extreme = count_extreme_rows(rows)
        if n_extreme:
            notes.append(Note("outliers", {"n": n_extreme, "done": "kept in"}))
        problem = ActivationSumProblem(
            rows, None, activation, biased=self.fit_bias, whitening=whitening
        )
        k, n = self._count(problem), problem.rows.total
        # 1. Moments, and the polynomial on the subspaces that they determine. Beside a network
        # the polynomial is a start and a check, for which a sample is enough.
        p, d = min(k, problem.n_features), problem.n_features
        some = problem.of(sample_for(problem.rows, p * (d - p))) if self.refine else problem
        fitted, found = fit_polynomial(some, k, degrees, positive=self.positive), None
        # 2. The network itself by least squares, from the span that the moments determine.
        if self.refine:
            found = find_network(
                problem,
                to_numpy(fitted.polynomial.basis),
                k,
                most=math.inf if self.n_components == "auto" else k,
                positive=self.positive,
                n_starts=self.n_starts,
                fit=partial(fit_network, max_iter=self.max_iter, tol=self.tol * k * d / n),
                rng=np.random.default_rng(seed),
            )
        # 3. The hypothesis with the smaller expected error predicts.
        if standard:  # moments of other inputs have eigenvalues of both signs too
            notes += fitted.moments.notes[:1]
        for name in {*self.saved, "weights_", "n_iter_", "converged_"}:  # of an earlier fit
            self.__dict__.pop(name, None)
        self.activation_, self.whitening_ = activation, whitening
        self.n_components_, self.degree_ = k, fitted.degree
        self.polynomial_, self.notes_ = fitted.polynomial, notes
        self.stats_: dict[str, Any] = {
            "rows_used": rows.kept,
            "outliers_kept": n_extreme,
            "whitened": whitening is not None,
            "hypothesis": "polynomial",
            **fitted.measurements(n),
        }
        if found is not None:
            self._store_network(found, problem)
        if not standard and self.stats_["hypothesis"] == "polynomial":
            self.notes_.append(Note("inputs_not_standard"))

    def _prediction(self) -> RowFunction:
        found = self.network_ if self._predicts_by() == "network" else self.polynomial_
        whitening = self.whitening_
        return RowFunction(lambda x: found(x if whitening is None else whitening.apply(x)))

    def score(self, X: Array, y: Array | None = None, sample_weight: Array | None = None) -> float:
        r"""Return :math:`R^2` of the predictions, in three passes over the rows.

        Parameters
        ----------
        X : array, data frame or Table of shape (n_samples, n_features)
        y : array of shape (n_samples,)
            Not for a Table, which has it as a column.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        float
        """
        check_is_fitted(self)

        def mean(function: Callable[[Array, Array], Array]) -> float:
            found = RowFunction(function, labelled=True)
            return found.total(self, X, y, sample_weight).mean

        predict, middle = self._prediction().function, mean(lambda _, y: y)
        left = mean(lambda x, y: (y - predict(x)) ** 2)
        variance = mean(lambda _, y: (y - middle) ** 2)
        return float(1 - left / variance if variance > 0 else left == 0)

    def _options(self) -> tuple[Activation, list[int]]:
        """Check the parameters; return the activation, and the degrees to be tried."""
        for name in ("refine", "positive", "fit_bias"):
            check_flag(name, getattr(self, name))
        check_parameter("whiten", self.whiten, "boolean", StrOptions({"auto"}))
        check_number("tol", self.tol, 0.0)
        check_whole_or("n_components", self.n_components, ("auto",), 1)
        check_whole("n_starts", self.n_starts, 1)
        check_whole("max_iter", self.max_iter, 1)
        degree = check_whole_or("degree", self.degree, ("auto",), 1, HIGHEST_DEGREE)
        activation = as_activation(self.activation)
        most = 6 if self.refine else 10  # beside a network the polynomial serves to find the span
        if isinstance(degree, int):
            largest_degree(activation, degree, degree, biased=self.fit_bias)
            return activation, [degree]
        largest = largest_degree(activation, most, biased=self.fit_bias)
        return activation, list(range(2, largest + 2, 2))

    def _standardise(self, rows: Rows, spread: Whitening) -> tuple[Whitening | None, Notes, bool]:
        """Return whitening if it is needed, and note inputs that are not Gaussian.

        Also returned: whether the inputs, after whitening if any, have mean 0 and covariance I.
        """
        names = column_names(self)
        notes = Notes(spread.column_notes(names))
        standard = looks_standard(spread, rows.total)
        deviations = find_deviations(rows, spread, names)
        if deviations:
            notes.append(Note("inputs_not_gaussian", deviations))
        if not self.whiten or (standard and self.whiten == "auto"):
            return None, notes, standard
        return spread, notes, True

    def _count(self, problem: ActivationSumProblem) -> int:
        rows = problem.rows
        if self.n_components == "auto":
            most = min(2 * problem.n_features, 30, int(rows.total))
            return count_components(problem, max(1, most), positive=self.positive)
        check_enough_rows(rows.n, int(self.n_components))
        return int(self.n_components)

    def _store_network(self, best: FittedNetwork, problem: ActivationSumProblem) -> None:
        """Store weights and directions, and choose the predictor."""
        order = np.argsort(-np.abs(best.network.weights), kind="stable")
        network = choose_signs(best.network.take(order), problem.parity)
        errors = standard_errors(problem.rows, replace(best, network=network))
        given: Callable[..., Any] = partial(move_like, other=problem.rows.like)
        self.weights_, self.weight_errors_ = given(network.weights), given(errors[0])
        self.directions_ = given(problem.original_vectors(network.directions))
        self.direction_errors_, biases = given(errors[1]), network.biases
        self.biases_ = None if biases is None else given(biases)
        self.bias_errors_ = None if biases is None else given(errors[2])
        arrays = {"weights": self.weights_, "biases": self.biases_}
        self.network_ = replace(network, directions=given(network.directions), **arrays)
        self.n_iter_, self.converged_ = max(1, len(best.history) - 1), best.converged
        self.n_components_ = network.k
        self.stats_ |= {
            "network_error": best.expected_error(problem.rows.total),
            "loss_history": best.history,
            "unexplained": best.unexplained,
        }
        if not self.stats_["network_error"] > self.stats_["polynomial_error"]:
            self.stats_["hypothesis"] = "network"
        self.notes_ = Notes([*self.notes_, *self._network_notes(errors[1])])

    def _network_notes(self, errors: Floats) -> Iterator[Note]:
        """Yield what may be wrong with the network, and what is not identified."""
        if self.stats_["unexplained"]:
            yield Note("residuals_explained", {"share": self.stats_["unexplained"]})
        if free := np.flatnonzero(np.isnan(errors)).tolist():
            yield Note("directions_not_identified", {"which": free, "what": "directions"})
        if self.stats_["hypothesis"] == "polynomial":
            yield Note("polynomial_predicts")
        if self.n_components != "auto" and self.n_components_ < int(self.n_components):
            yield Note("fewer_components", {"asked": self.n_components, "k": self.n_components_})
        if not self.converged_:
            yield Note("not_converged", {"max_iter": self.max_iter})

    def _title(self) -> str:
        if self._predicts_by() == "polynomial":
            return f"a polynomial of degree {self.degree_}"
        kind = "positive" if self.positive else "signed"
        return f"a {kind} sum of {counted(self._k(), 'activation')}"

    def _predicts_by(self) -> str:
        return str(self.stats_.get("hypothesis", "model"))

    def _checks(self) -> list[Check]:
        used = self._predicts_by()
        if used == "polynomial" and hasattr(self, "network_"):  # which a note mentions
            return []
        error = self.stats_[f"{used}_error"]
        words = f"expected squared error of the {used} on new rows: {error:.3g}"
        return [Check("prediction_error", True, words)]

    def _component_view(self, rows: RowSample) -> Directions:
        if not hasattr(self, "directions_"):
            why = "{name} has no directions with `refine=False`; use `refine=True`, or plot.fit"
            raise NoPictureError("no_picture", why, name=type(self).__name__)
        center = np.zeros(rows.x.shape[1]) if self.whitening_ is None else self.whitening_.mean
        return Directions(*map(as_floats, (self.weights_, self.directions_, center)))

    def _fit_view(self, rows: RowSample) -> FitView:
        return PredictionView(as_floats(self.predict(rows.given)), by=self._predicts_by())


def choose_signs(network: Network, parity: int) -> Network:
    """Choose one of two equal networks: a positive largest entry if even, or weight if odd."""
    V, weights = network.directions, network.weights
    largest = V[np.arange(len(V)), np.argmax(np.abs(V), axis=1)]
    signs = np.where((largest if parity > 0 else parity * -weights) < 0, -1.0, 1.0)
    if parity < 0:
        weights = weights * signs
    return network.with_units(weights, network.units * signs[:, None])
