"""The four problems learned: error against the truth, beside the tool that one would take."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity
from sklearn.neural_network import MLPRegressor

from implicitmoments import datasets
from implicitmoments.activation import ActivationSumRegressor
from implicitmoments.arrays import Floats
from implicitmoments.cli.demo import write_text
from implicitmoments.density import SphericalMixtureDensity
from implicitmoments.mixture import SphericalMixture
from implicitmoments.regression import RegressionMixture
from implicitmoments.regression.design_rows import FeatureRows
from implicitmoments.regression.em import Model, climb
from implicitmoments.regression.likelihood import Lines
from implicitmoments.report import write_report
from implicitmoments.rows import ArraySource
from implicitmoments.saving import save

__all__ = ["Learned", "LearnedRow", "run_learned", "table_of_learned", "write_learned"]

TITLE = "The four problems learned, beside the usual tool"


@dataclass(frozen=True)
class LearnedRow:
    """One problem: what is measured, and what came of it.

    Attributes
    ----------
    problem, measure, estimator, usual : str
    error, usual_error : float
    seconds, usual_seconds : float
    """

    problem: str
    measure: str
    estimator: str
    error: float
    seconds: float
    usual: str
    usual_error: float
    usual_seconds: float


@dataclass(frozen=True, eq=False)
class Learned:
    """The rows of the table, and the mixture with the rows it was fitted to."""

    rows: list[LearnedRow]
    mixture: SphericalMixture
    X: Floats


def run_learned(seed: int) -> Learned:
    """Learn the four problems from built-in data."""
    mixture, fitted, X = _means(seed)
    rows = [_density(seed), mixture, _regressions(seed), _activations(seed)]
    return Learned(rows, fitted, X)


def write_learned(learned: Learned, folder: Path) -> list[Path]:
    """Write the table, the mixture as a model file, and its report."""
    table, model, page = (folder / n for n in ("learned.json", "mixture.im", "report.html"))
    lines = [asdict(row) for row in learned.rows]
    write_text(table, lambda file: json.dump(lines, file, indent=2))
    save(learned.mixture, model)
    write_report(learned.mixture, learned.X, path=page)
    return [table, model, page]


def _means(seed: int) -> tuple[LearnedRow, SphericalMixture, Floats]:
    k, d = 60, 30
    X, truth = datasets.make_spherical_mixture(
        60_000, k, d, radius=6.0, separation=5.0, random_state=seed
    )
    ours, seconds = _timed(lambda: SphericalMixture(k, random_state=seed).fit(X))
    usual = GaussianMixture(k, covariance_type="spherical", random_state=seed)
    usual, usual_seconds = _timed(lambda: usual.fit(X))
    row = LearnedRow(
        f"{k} means, d = {d}",
        "mean",
        "SphericalMixture",
        _farthest(truth.vectors, ours.means_),
        seconds,
        "GaussianMixture",
        _farthest(truth.vectors, usual.means_),
        usual_seconds,
    )
    return row, ours, X


def _density(seed: int) -> LearnedRow:
    X, truth = datasets.make_spherical_mixture(22_000, 3, 8, radius=1.2, random_state=seed)
    X, new = X[:20_000], X[20_000:]
    exact = _log_density(new, truth.weights, truth.vectors)
    ours, seconds = _timed(lambda: SphericalMixtureDensity(3, degree=4, random_state=seed).fit(X))
    usual, usual_seconds = _timed(lambda: KernelDensity(bandwidth="scott").fit(X))
    return LearnedRow(
        "density, d = 8",
        "distance",
        "SphericalMixtureDensity",
        _total_variation(exact, ours.score_samples(new)),
        seconds,
        "KernelDensity",
        _total_variation(exact, usual.score_samples(new)),
        usual_seconds,
    )


def _regressions(seed: int) -> LearnedRow:
    k, d = 8, 10
    X, y, truth = datasets.make_regression_mixture(
        30_000, k, d, noise=0.3, weights=list(np.geomspace(10, 1, k)), random_state=seed
    )
    ours, seconds = _timed(lambda: RegressionMixture(k, random_state=seed).fit(X, y))
    coef, usual_seconds = _timed(lambda: _random_em(X, y, k, seed))
    return LearnedRow(
        f"{k} lines, d = {d}",
        "line",
        "RegressionMixture",
        _farthest(truth.vectors, ours.coef_),
        seconds,
        "random EM",
        _farthest(truth.vectors, coef),
        usual_seconds,
    )


def _activations(seed: int) -> LearnedRow:
    k, d = 4, 10
    X, y, truth = datasets.make_activation_sum(16_000, k, d, noise=0.1, random_state=seed)
    X, y, new = X[:12_000], y[:12_000], X[12_000:]
    exact = np.maximum(new @ truth.vectors.T, 0.0) @ truth.weights
    ours, seconds = _timed(lambda: ActivationSumRegressor("relu", k, random_state=seed).fit(X, y))
    network = MLPRegressor(random_state=seed)
    usual, usual_seconds = _timed(lambda: network.fit(X, y))
    return LearnedRow(
        f"{k} ReLUs, d = {d}",
        "1 − R²",
        "ActivationSumRegressor",
        1 - float(ours.score(new, exact)),
        seconds,
        "MLPRegressor",
        1 - float(usual.score(new, exact)),
        usual_seconds,
    )


def _random_em(X: Floats, y: Floats, k: int, seed: int) -> Floats:
    """Fit lines by EM from random directions."""
    coef = np.random.default_rng(seed).normal(size=(k, X.shape[1]))
    coef /= np.linalg.norm(coef, axis=1, keepdims=True)
    start = Lines(np.full(k, 1 / k), np.column_stack([np.zeros(k), coef]), np.ones(k))
    found = climb(FeatureRows.of(ArraySource(X, y=y)), start, Model(), max_iter=500, tol=1e-6)
    return np.asarray(found.lines.coef[:, 1:])


def _timed(run: Callable[[], Any]) -> tuple[Any, float]:
    clock = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        made = run()
    return made, perf_counter() - clock


def _total_variation(exact: Floats, found: Floats) -> float:
    """Return half the mean of |p̂ / p − 1| over rows drawn from p, given logarithms."""
    return float(np.mean(np.abs(np.expm1(found - exact))) / 2)


def _farthest(truth: Floats, found: Floats) -> float:
    """Return the largest distance of a true vector from the one found next to it."""
    return float(np.linalg.norm(truth[:, None] - found[None], axis=2).min(axis=1).max())


def _log_density(x: Floats, weights: Floats, means: Floats) -> Floats:
    apart = np.sum((x[:, None] - means[None]) ** 2, axis=2)
    logs = np.log(weights) - apart / 2 - 0.5 * x.shape[1] * np.log(2 * np.pi)
    return np.asarray(np.logaddexp.reduce(logs, axis=1))


def table_of_learned(rows: list[LearnedRow]) -> Table:
    """Lay the rows out for a terminal."""
    table = Table(box=SIMPLE_HEAD, title=TITLE)
    table.add_column("problem", no_wrap=True)
    table.add_column("error", no_wrap=True)
    for head in ("ours", "s", "usual tool", "its", "s"):
        justify = "left" if head == "usual tool" else "right"
        table.add_column(head, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(
            row.problem,
            row.measure,
            f"{row.error:.2g}",
            f"{row.seconds:.1f}",
            row.usual,
            f"{row.usual_error:.2g}",
            f"{row.usual_seconds:.1f}",
        )
    return table
