"""The demonstration: four models on generated data, compared with the truth and usual tools."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
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
from implicitmoments.cli.console import as_table, print_text
from implicitmoments.density import SphericalMixtureDensity
from implicitmoments.mixture import RegressionMixture, SphericalMixture
from implicitmoments.report import write_report
from implicitmoments.saving import save


def run_demo(folder: Path, seed: int) -> None:
    """Fit the four models, print a table, and write a model file and a report."""
    folder.mkdir(parents=True, exist_ok=True)
    mixture, X, *first = fit_mixture(seed)
    rows = [first, fit_density(seed), fit_regressions(seed), fit_activations(seed)]
    names = "problem", "error", "seconds", "usual tool", "its error", "its seconds"
    print_text(as_table("", dict(zip(names, zip(*rows, strict=True), strict=True))))
    print_text("The error is the distance from the truth behind the data; 0 is exact.")
    model, page = folder / "mixture.im", folder / "report.html"
    save(mixture, model)
    write_report(mixture, X, path=page)
    print_text(f"Wrote {model} and {page}")


def compare(
    problem: str,
    ours: Any,
    tool: str,
    usual: Any,
    data: tuple[Floats, ...],
    error: Callable[[Any], float],
) -> list[Any]:
    """Fit both estimators, and measure errors and seconds."""
    row: list[Any] = [problem]
    for model in (ours, usual):
        began = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(*data)
        row += [error(model), perf_counter() - began]
    return [*row[:3], tool, *row[3:]]


def largest_distance(truth: Floats, found: Floats) -> float:
    """Return the largest distance of a true vector from the nearest one found."""
    return float(np.linalg.norm(truth[:, None] - found[None], axis=2).min(axis=1).max())


def fit_mixture(seed: int) -> list[Any]:
    """Fit 60 groups in 30 columns; return the model and the data before the comparison."""
    k = 60
    X, truth = datasets.make_spherical_mixture(
        60_000, k, 30, radius=6.0, separation=5.0, random_state=seed
    )
    ours = SphericalMixture(k, random_state=seed)
    usual = GaussianMixture(k, covariance_type="spherical", random_state=seed)

    def error(model: Any) -> float:
        return largest_distance(truth.vectors, model.means_)

    return [ours, X, *compare("60 groups", ours, "EM", usual, (X,), error)]


def fit_density(seed: int) -> list[Any]:
    """Fit a density in 8 columns; the error is the total variation distance."""
    X, truth = datasets.make_spherical_mixture(20_500, 3, 8, radius=1.2, random_state=seed)
    X, new = X[:20_000], X[20_000:]
    distances = np.sum((new[:, None] - truth.vectors[None]) ** 2, axis=2)
    logs = np.log(truth.weights) - distances / 2 - 0.5 * new.shape[1] * np.log(2 * np.pi)
    exact = np.logaddexp.reduce(logs, axis=1)

    def error(model: Any) -> float:
        # half the mean of |p̂ / p − 1| over rows drawn from p
        return float(np.mean(np.abs(np.expm1(model.score_samples(new) - exact))) / 2)

    ours = SphericalMixtureDensity(3, degree=4, random_state=seed)
    usual = KernelDensity(bandwidth="scott")
    return compare("density", ours, "kernel density", usual, (X,), error)


class JointGaussians:
    """Regression lines from the covariances of a Gaussian mixture of (x, y)."""

    def __init__(self, k: int, seed: int) -> None:
        self.mixture = GaussianMixture(k, random_state=seed)

    def fit(self, X: Floats, y: Floats) -> None:
        """Fit the mixture, and solve for the slopes of each component."""
        covariances = self.mixture.fit(np.column_stack([X, y])).covariances_
        self.coef_ = np.linalg.solve(covariances[:, :-1, :-1], covariances[:, :-1, -1:])[..., 0]


def fit_regressions(seed: int) -> list[Any]:
    """Fit 8 lines of unequal weights in 10 columns."""
    k, weights = 8, list(np.geomspace(10, 1, 8))
    X, y, truth = datasets.make_regression_mixture(
        10_000, k, 10, noise=0.3, weights=weights, random_state=seed
    )

    def error(model: Any) -> float:
        return largest_distance(truth.vectors, model.coef_)

    ours, usual = RegressionMixture(k, random_state=seed), JointGaussians(k, seed)
    return compare("8 lines", ours, "joint mixture", usual, (X, y), error)


def fit_activations(seed: int) -> list[Any]:
    """Fit 4 ReLUs in 10 columns; the error is 1 − R² without noise."""
    k = 4
    X, y, truth = datasets.make_activation_sum(16_000, k, 10, noise=0.1, random_state=seed)
    X, y, new = X[:12_000], y[:12_000], X[12_000:]
    exact = np.maximum(new @ truth.vectors.T, 0.0) @ truth.weights

    def error(model: Any) -> float:
        return 1 - float(model.score(new, exact))

    ours, usual = (
        ActivationSumRegressor("relu", k, random_state=seed),
        MLPRegressor(random_state=seed),
    )
    return compare("4 ReLUs", ours, "neural network", usual, (X, y), error)
