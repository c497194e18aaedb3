"""The four problems fitted, with errors against the truth and those of a standard tool."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity
from sklearn.neural_network import MLPRegressor

from implicitmoments import datasets
from implicitmoments.activation import ActivationSumRegressor
from implicitmoments.arrays import Floats
from implicitmoments.density import SphericalMixtureDensity
from implicitmoments.mixture import SphericalMixture
from implicitmoments.regression import RegressionMixture


@dataclass(frozen=True)
class FitRow:
    """One problem: what is measured, and the errors and times of both estimators."""

    problem: str
    measure: str
    estimator: str
    error: float
    seconds: float
    usual: str
    usual_error: float
    usual_seconds: float


def fit_problems(seed: int) -> tuple[list[FitRow], SphericalMixture, Floats]:
    """Fit the four problems to generated data.

    Returns
    -------
    X : array of shape (n_samples, n_features)
        The rows of the mixture.
    """
    mixture, X, means = _fit_mixture(seed)
    return [_fit_density(seed), means, _fit_regressions(seed), _fit_activations(seed)], mixture, X


def _fit_mixture(seed: int) -> tuple[SphericalMixture, Floats, FitRow]:
    k, d = 60, 30
    X, truth = datasets.make_spherical_mixture(
        60_000, k, d, radius=6.0, separation=5.0, random_state=seed
    )
    ours = SphericalMixture(k, random_state=seed)
    row = _compare(
        (f"{k} means, d = {d}", "mean"),
        ours,
        GaussianMixture(k, covariance_type="spherical", random_state=seed),
        lambda model: model.fit(X),
        lambda model: _largest_distance(truth.vectors, model.means_),
    )
    return ours, X, row


def _fit_density(seed: int) -> FitRow:
    X, truth = datasets.make_spherical_mixture(22_000, 3, 8, radius=1.2, random_state=seed)
    X, new = X[:20_000], X[20_000:]
    distances = np.sum((new[:, None] - truth.vectors[None]) ** 2, axis=2)
    logs = np.log(truth.weights) - distances / 2 - 0.5 * new.shape[1] * np.log(2 * np.pi)
    exact = np.logaddexp.reduce(logs, axis=1)
    return _compare(
        ("density, d = 8", "distance"),
        SphericalMixtureDensity(3, degree=4, random_state=seed),
        KernelDensity(bandwidth="scott"),
        lambda model: model.fit(X),
        # the total variation: half the mean of |p̂ / p − 1| over rows drawn from p
        lambda model: float(np.mean(np.abs(np.expm1(model.score_samples(new) - exact))) / 2),
    )


def _fit_regressions(seed: int) -> FitRow:
    k, d = 8, 10
    X, y, truth = datasets.make_regression_mixture(
        30_000, k, d, noise=0.3, weights=list(np.geomspace(10, 1, k)), random_state=seed
    )
    return _compare(
        (f"{k} lines, d = {d}", "line"),
        RegressionMixture(k, random_state=seed),
        RandomEM(k, seed),
        lambda model: model.fit(X, y),
        lambda model: _largest_distance(truth.vectors, model.coef_),
    )


def _fit_activations(seed: int) -> FitRow:
    k, d = 4, 10
    X, y, truth = datasets.make_activation_sum(16_000, k, d, noise=0.1, random_state=seed)
    X, y, new = X[:12_000], y[:12_000], X[12_000:]
    exact = np.maximum(new @ truth.vectors.T, 0.0) @ truth.weights
    return _compare(
        (f"{k} ReLUs, d = {d}", "1 − R²"),
        ActivationSumRegressor("relu", k, random_state=seed),
        MLPRegressor(random_state=seed),
        lambda model: model.fit(X, y),
        lambda model: 1 - float(model.score(new, exact)),
    )


class RandomEM:
    """EM for a mixture of linear regressions, from random directions and without intercepts."""

    def __init__(self, n_components: int, seed: int) -> None:
        self._k, self._seed = n_components, seed

    def fit(self, X: Floats, y: Floats, max_iter: int = 500, tol: float = 1e-6) -> RandomEM:
        """Fit by EM until the mean log-likelihood per row grows by less than ``tol``."""
        k, before = self._k, -np.inf
        coef = np.random.default_rng(self._seed).normal(size=(k, X.shape[1]))
        coef /= np.linalg.norm(coef, axis=1, keepdims=True)
        weights, variance = np.full(k, 1 / k), 1.0
        for _ in range(max_iter):
            squares = (y[:, None] - X @ coef.T) ** 2
            joint = np.log(weights) - squares / (2 * variance) - np.log(2 * np.pi * variance) / 2
            total = np.logaddexp.reduce(joint, axis=1)
            if total.mean() - before < tol:
                break
            before = total.mean()
            r = np.exp(joint - total[:, None])
            weights, variance = r.mean(axis=0), float(np.sum(r * squares) / len(y))
            for i in range(k):
                weighted = r[:, i, None] * X
                coef[i] = np.linalg.solve(weighted.T @ X, weighted.T @ y)
        self.coef_ = coef
        return self


def _compare(
    names: tuple[str, str],
    ours: Any,
    usual: Any,
    fit: Callable[[Any], Any],
    error: Callable[[Any], float],
) -> FitRow:
    """Fit both estimators, and measure errors and seconds."""
    measured: list[Any] = []
    for model in (ours, usual):
        clock = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fit(model)
        measured += [type(model).__name__, error(model), perf_counter() - clock]
    return FitRow(*names, *measured)


def _largest_distance(truth: Floats, found: Floats) -> float:
    """Return the largest distance of a true vector from the nearest one found."""
    return float(np.linalg.norm(truth[:, None] - found[None], axis=2).min(axis=1).max())
