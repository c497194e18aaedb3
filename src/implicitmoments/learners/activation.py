"""Positive sums of activations (section 4.2) as a regressor."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from implicitmoments.backends import Array, Floats, check_positive
from implicitmoments.fitting.activation.conditions import (
    HIGHEST_DEGREE,
    check_conditions,
    degree_for,
    largest_degree,
)
from implicitmoments.fitting.activation.hypothesis import (
    FittedPolynomial,
    count_components,
    fit_paper_polynomial,
    fit_polynomial,
    thin,
)
from implicitmoments.fitting.activation.network import Network
from implicitmoments.fitting.activation.refine import Refined, refine
from implicitmoments.fitting.gaussianity import looks_standard, measure_gaussianity
from implicitmoments.fitting.rows import LabelledRows
from implicitmoments.fitting.spectra import account_of_steps
from implicitmoments.learners.summary import FittedSummary
from implicitmoments.learners.warnings import AssumptionWarning
from implicitmoments.models import Activation, ActivationSumProblem, as_activation
from implicitmoments.samples import ArraySource, Whitening, as_seed, blocks

__all__ = ["ActivationSumRegressor"]

HIGHEST_TRIED = 10  # degree, by cross-validation
HIGHEST_BESIDE_NETWORK = 6  # where the polynomial finds the span and is a check, no more
MOST_COMPONENTS = 30  # counted by n_components="auto"
PREDICTED_ROWS = 8_192


class ActivationSumRegressor(FittedSummary, RegressorMixin, BaseEstimator):
    r"""Learn :math:`y = \sum_i w_i \sigma(v_i \cdot x)` from Gaussian inputs (Theorem 4.7).

    Weights :math:`w_i` are positive, directions :math:`v_i` of length 1, the activation
    :math:`\sigma` is known, and labels may carry noise of mean zero. The moments
    :math:`\sum_i w_i v_i^{\otimes t}` give a polynomial hypothesis with no random starts and no
    local optima; ``refine`` then polishes the model itself.

    Parameters
    ----------
    activation : str, Activation or callable
        ``"relu"``, ``"leaky_relu"``, ``"softplus"``, ``"gelu"``, ``"abs"``, ``"square"``,
        ``"cos"``, :func:`~implicitmoments.models.cosine` with a frequency and a phase, or any
        function of an array; Hermite coefficients of the last by quadrature.
    n_components : int or "auto"
        The number k of directions, or an upper bound of it. ``"auto"`` counts the directions
        that stand clear of the noise.
    degree : int, "cv" or "epsilon"
        Of the polynomial. ``"cv"`` chooses on rows held out, up to 10, or up to 6 with
        ``refine``; ``"epsilon"`` takes what the tail bound of the theorem asks for.
    epsilon : float
        The theorem's :math:`\varepsilon`, relative to the sum of the weights: with
        ``degree="epsilon"``, the error that truncation may leave is half of it.
    refine : bool
        Read directions and weights off the moments and polish them by Gauss-Newton steps on the
        model itself. Predictions are then those of the network, unless the polynomial, fitted
        to a part of many rows, is expected to do better on new rows.
    method : {"closed_form", "paper"}
        How moments are estimated; ``"paper"`` is the paper's algorithm, with fresh rows and
        auxiliary noise in every step.
    whiten : bool or "auto"
        Estimate mean and covariance of the inputs and learn
        :math:`\sum_i w_i \sigma(v_i \cdot \Sigma^{-1/2} (x - m))`. ``"auto"`` does so unless the
        inputs are consistent with mean 0 and covariance I.
    n_starts : int
        Random starts of the polish, beside that of the moments.
    max_iter : int
        Steps of the polish.
    tol : float
        The polish ends when a step lowers the mean squared error by less than this part of what
        fitting k d numbers takes away by chance: a step of ``tol * k * d / n_samples`` of it.
        Labels without noise are fitted to rounding nevertheless, since every step then takes
        away most of what is left.
    random_state : int, RandomState or None
        Of the starts, and of the auxiliary draws of ``method="paper"``.
    block_rows : int, optional
        Rows held at a time.

    Attributes
    ----------
    directions_ : array of shape (n_components_, n_features)
        Directions that act on x, or on x less its mean where inputs were whitened; the heaviest
        first. Only after refinement.
    weights_ : array of shape (n_components_,)
    direction_errors_, weight_errors_ : array of shape (n_components_,)
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
        What was measured, what was chosen, and ``"reasons"`` in words.
    n_features_in_ : int

    Examples
    --------
    >>> from implicitmoments import ActivationSumRegressor
    >>> from implicitmoments.datasets import make_activation_sum
    >>> X, y, truth = make_activation_sum(5_000, 3, 6, random_state=0)
    >>> model = ActivationSumRegressor("relu", n_components=3).fit(X, y)
    >>> round(model.score(X, y), 6)
    1.0
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
        self, X: Array, y: Array, sample_weight: Array | None = None
    ) -> ActivationSumRegressor:
        """Learn from inputs and labels.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), optional
            How often each row counts.
        """
        X, y = validate_data(self, X, y, y_numeric=True, ensure_min_samples=4, dtype=np.float64)
        activation, degrees = self._check_parameters()
        counts = None
        if sample_weight is not None:
            counts = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
            keep = counts > 0
            X, y, counts = X[keep], y[keep], counts[keep]
            # numbers of rows are compared with numbers of unknowns: weights that were scaled to
            # sum to 1 would seem to be no rows at all
            counts = counts * max(1.0, len(counts) / float(counts.sum()))
        whitening = self._standardise(X, counts)
        self.activation_, self.whitening_ = activation, whitening
        problem = ActivationSumProblem(X, y, activation, whitening=whitening, sample_weight=counts)
        rows = LabelledRows(problem, self.block_rows)
        seed = as_seed(self.random_state)
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
                seed=seed,
                max_iter=self.max_iter,
                tol=self.tol,
            )
            if fewer is not rows and refined.expected_error > fitted.expected_error(fewer.mass):
                fitted = fit_polynomial(rows, k, degrees)  # it is to be used after all
        self._store(fitted, refined, k, problem)
        if refined is not None and not refined.converged:
            warnings.warn(
                f"the polish did not converge in max_iter={self.max_iter} steps; raise max_iter "
                "or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def predict(self, X: Array) -> Floats:
        """Predict labels; there is no randomness in it.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        predicted = np.empty(len(X))
        for rows in blocks(range(len(X)), self.block_rows or PREDICTED_ROWS):
            x = X[rows.start : rows.stop]
            if self.whitening_ is not None:
                x = self.whitening_.apply({"x": x})["x"]
            predicted[rows.start : rows.stop] = self._hypothesis(x)
        return predicted

    def _check_parameters(self) -> tuple[Activation, list[int]]:
        """Check what was typed, and return the degrees to be tried."""
        if self.method not in ("closed_form", "paper"):
            raise ValueError(f"method is 'closed_form' or 'paper', got {self.method!r}")
        if self.whiten not in (True, False, "auto"):
            raise ValueError(f"whiten is True, False or 'auto', got {self.whiten!r}")
        if self.refine not in (True, False):
            raise ValueError(f"refine is True or False, got {self.refine!r}")
        for name, least in (("epsilon", np.finfo(float).tiny), ("tol", 0.0)):
            value = getattr(self, name)
            if not isinstance(value, Real) or not least <= float(value) < np.inf:
                kind = "a positive number" if least else "0 or more"
                raise ValueError(f"{name} is {kind}, got {value!r}")
        if self.n_components != "auto":
            if isinstance(self.n_components, str):
                raise ValueError(
                    f"n_components is a whole number or 'auto', got {self.n_components!r}"
                )
            check_positive("n_components", self.n_components)
        for name in ("n_starts", "max_iter", *(["block_rows"] if self.block_rows else [])):
            check_positive(name, getattr(self, name))
        activation = as_activation(self.activation)
        degrees = self._degrees(activation)
        conditions = check_conditions(activation, max(degrees), self.method)
        if conditions.warning is not None:
            warnings.warn(conditions.warning, AssumptionWarning, stacklevel=3)
        present = [n for n in degrees if activation.coefficient(n) != 0]
        return activation, present or [max(degrees)]

    def _degrees(self, activation: Activation) -> list[int]:
        if self.degree == "cv":
            if self.method == "paper":
                raise ValueError(
                    "degree='cv' goes with method='closed_form', which holds rows out; give "
                    "method='paper' a degree or degree='epsilon'"
                )
            most = HIGHEST_BESIDE_NETWORK if self.refine else HIGHEST_TRIED
            highest = largest_degree(activation, self.method, most)
            return list(range(1, max(highest, 1) + 1))
        if self.degree == "epsilon":
            return [degree_for(activation, self.epsilon)]
        if isinstance(self.degree, str):
            raise ValueError(f"degree is a whole number, 'cv' or 'epsilon', got {self.degree!r}")
        check_positive("degree", self.degree)
        if self.degree > HIGHEST_DEGREE:
            raise ValueError(f"degree is at most {HIGHEST_DEGREE}, got {self.degree}")
        return [int(self.degree)]

    def _standardise(self, X: Floats, counts: Floats | None) -> Whitening | None:
        """Estimate mean and covariance, and warn of inputs that are not Gaussian."""
        source = ArraySource(X)
        whitening = Whitening.of(source, counts, reduce=True)
        tested = measure_gaussianity(source, whitening, counts)
        words = tested.words(getattr(self, "feature_names_in_", None))
        self._doubts: list[str] = []
        if words is not None:
            self._doubts.append(
                f"the inputs are clearly not Gaussian: {words}. The moments are then biased; keep "
                "refine=True, which fits the model to the rows as they are, with whiten=False if "
                "the activation acts on the inputs as given"
            )
            warnings.warn(self._doubts[0], AssumptionWarning, stacklevel=3)
        if not self.whiten:
            return None
        mass = float(len(X)) if counts is None else float(counts.sum())
        if self.whiten == "auto" and looks_standard(whitening, mass):
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
        reasons = list(self._doubts)
        if self.whitening_ is not None and self.whiten == "auto":
            reasons.append(
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
            "reasons": reasons,
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
        network, reasons = refined.network, self.stats_["reasons"]
        self.directions_ = problem.original_vectors(network.directions)
        self.network_, self.weights_ = network, network.weights
        self.direction_errors_, self.weight_errors_ = refined.errors, refined.weight_errors
        self.n_iter_ = max(1, len(refined.history) - 1)
        self.n_components_ = len(network.weights)
        reasons.extend(refined.reasons)
        self.stats_ |= {
            "network_error": float(refined.expected_error),
            "loss_history": refined.history,
            "converged": refined.converged,
            "n_starts": refined.n_starts,
            "decoded": refined.decoded,
        }
        if not self.stats_["network_error"] > self.stats_["polynomial_error"]:
            self._hypothesis = network
            self.stats_["hypothesis"] = "network"
        else:
            reasons.append(
                "the polynomial is expected to predict new rows better than the network: the "
                "labels may not be a positive sum of this activation (an intercept is none), or "
                "there are too few rows for its unknowns"
            )
