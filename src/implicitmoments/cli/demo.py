"""The demonstration: four problems on generated data, each compared with its truth."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity
from sklearn.neural_network import MLPRegressor

from implicitmoments import datasets
from implicitmoments.activation import ActivationSumRegressor
from implicitmoments.arrays import Array, Floats
from implicitmoments.circuits import power, vector
from implicitmoments.cli.console import bad_input, print_tables
from implicitmoments.cli.description import print_document
from implicitmoments.datasets import Truth
from implicitmoments.density import SphericalMixtureDensity
from implicitmoments.mixture import SphericalMixture
from implicitmoments.moments import HermiteProblem, implicit_moments
from implicitmoments.problems import (
    ActivationSumProblem,
    PairwiseDifferenceProblem,
    PopulationProblem,
    RegressionMixtureProblem,
    SphericalMixtureProblem,
    relu,
)
from implicitmoments.regression import RegressionMixture
from implicitmoments.report import write_report
from implicitmoments.saving import save
from implicitmoments.saving.files import write_whole

N_QUERIES = 400  # points at which moments are compared: their error is then known to 5 %
FITS = "problem", "measure", "error", "s", "standard tool", "error", "s"
MOMENTS = "problem", "d", "k", "m", "rows", "size of M_m", "closed form", "paper", "seconds"
Row = dict[str, Any]


def run_demo(folder: Path, seed: int, *, as_json: bool, quiet: bool) -> None:
    """Learn the four problems, estimate their moments, print tables and write files."""
    _check_folder(folder)
    shown = not (as_json or quiet)
    with nullcontext() if quiet else Console(stderr=True).status("fitting …"):
        mixture, X, means = _fit_mixture(seed)
        fits = [_fit_density(seed), means, _fit_regressions(seed), _fit_activations(seed)]
    if shown:
        print_tables(_fit_table(fits))
    with nullcontext() if quiet else Console(stderr=True).status("estimating moments …"):
        moments = _estimate_moments(seed)
    if shown:
        print_tables(_moment_table(moments))
    documents = {"table.json": moments, "learned.json": fits}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, document in documents.items():
            write_whole(folder / name, json.dumps(document, indent=2).encode())
        save(mixture, folder / "mixture.im")
        write_report(mixture, X, path=folder / "report.html")
    except OSError as reason:
        raise RuntimeError(f"cannot write to {folder}: {reason.strerror}") from reason
    paths = [str(folder / name) for name in (*documents, "mixture.im", "report.html")]
    if as_json:
        print_document({"learned": fits, "moments": moments, "output": paths})
    elif not quiet:
        print_tables(f"wrote {', '.join(paths)}")


def _check_folder(folder: Path) -> None:
    """Raise before any work if the path cannot be written to."""
    if folder.exists() and not folder.is_dir():
        raise bad_input("output_not_a_folder", path=folder)
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise bad_input("output_not_permitted", path=folder)


def _fit_mixture(seed: int) -> tuple[SphericalMixture, Floats, Row]:
    k, d = 60, 30
    X, truth = datasets.make_spherical_mixture(
        60_000, k, d, radius=6.0, separation=5.0, random_state=seed
    )
    ours = SphericalMixture(k, random_state=seed)
    usual = GaussianMixture(k, covariance_type="spherical", random_state=seed)

    def error(model: Any) -> float:
        return _largest_distance(truth.vectors, model.means_)

    return ours, X, _compare(f"{k} means, d = {d}", "mean", ours, usual, (X,), error)


def _fit_density(seed: int) -> Row:
    X, truth = datasets.make_spherical_mixture(20_500, 3, 8, radius=1.2, random_state=seed)
    X, new = X[:20_000], X[20_000:]
    distances = np.sum((new[:, None] - truth.vectors[None]) ** 2, axis=2)
    logs = np.log(truth.weights) - distances / 2 - 0.5 * new.shape[1] * np.log(2 * np.pi)
    exact = np.logaddexp.reduce(logs, axis=1)

    def error(model: Any) -> float:
        # the total variation: half the mean of |p̂ / p − 1| over rows drawn from p
        return float(np.mean(np.abs(np.expm1(model.score_samples(new) - exact))) / 2)

    ours = SphericalMixtureDensity(3, degree=4, random_state=seed)
    usual = KernelDensity(bandwidth="scott")
    return _compare("density, d = 8", "distance", ours, usual, (X,), error)


def _fit_regressions(seed: int) -> Row:
    k, d = 8, 10
    X, y, truth = datasets.make_regression_mixture(
        30_000, k, d, noise=0.3, weights=list(np.geomspace(10, 1, k)), random_state=seed
    )

    def error(model: Any) -> float:
        return _largest_distance(truth.vectors, model.coef_)

    ours, usual = RegressionMixture(k, random_state=seed), RandomEM(k, seed)
    return _compare(f"{k} lines, d = {d}", "line", ours, usual, (X, y), error)


def _fit_activations(seed: int) -> Row:
    k, d = 4, 10
    X, y, truth = datasets.make_activation_sum(16_000, k, d, noise=0.1, random_state=seed)
    X, y, new = X[:12_000], y[:12_000], X[12_000:]
    exact = np.maximum(new @ truth.vectors.T, 0.0) @ truth.weights

    def error(model: Any) -> float:
        return 1 - float(model.score(new, exact))

    ours = ActivationSumRegressor("relu", k, random_state=seed)
    usual = MLPRegressor(random_state=seed)
    return _compare(f"{k} ReLUs, d = {d}", "1 − R²", ours, usual, (X, y), error)


class RandomEM:
    """EM for a mixture of linear regressions, from random directions and without intercepts."""

    def __init__(self, n_components: int, seed: int) -> None:
        self._k, self._seed = n_components, seed

    def fit(self, X: Floats, y: Floats, max_iter: int = 500, tol: float = 1e-6) -> None:
        """Fit by EM until the mean log-likelihood per row grows by less than ``tol``."""
        k, before = self._k, -np.inf
        coef = np.random.default_rng(self._seed).normal(size=(k, X.shape[1]))
        coef /= np.linalg.norm(coef, axis=1, keepdims=True)
        weights, variance = np.full(k, 1 / k), 1.0
        for _ in range(max_iter):
            squares = (y[:, None] - X @ coef.T) ** 2
            joint = np.log(weights) - squares / (2 * variance) - np.log(2 * np.pi * variance) / 2
            most = joint.max(axis=1, keepdims=True)
            r = np.exp(joint - most)
            mass = r.sum(axis=1, keepdims=True)
            level = float(np.mean(most + np.log(mass)))
            if level - before < tol:
                break
            before, r = level, r / mass
            weights, variance = r.mean(axis=0), float(np.sum(r * squares) / len(y))
            for i in range(k):
                weighted = r[:, i, None] * X
                coef[i] = np.linalg.solve(weighted.T @ X, weighted.T @ y)
        self.coef_ = coef


def _compare(
    problem: str,
    measure: str,
    ours: Any,
    usual: Any,
    data: tuple[Floats, ...],
    error: Callable[[Any], float],
) -> Row:
    """Fit both estimators, and measure errors and seconds."""
    row: Row = {"problem": problem, "measure": measure}
    named = {("estimator", "error", "seconds"): ours}
    named[("usual", "usual_error", "usual_seconds")] = usual
    for names, model in named.items():
        clock = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(*data)
        found = (type(model).__name__, error(model), perf_counter() - clock)
        row |= dict(zip(names, found, strict=True))
    return row


def _largest_distance(truth: Floats, found: Floats) -> float:
    """Return the largest distance of a true vector from the nearest one found."""
    return float(np.linalg.norm(truth[:, None] - found[None], axis=2).min(axis=1).max())


def _estimate_moments(seed: int) -> list[Row]:
    """Estimate a moment of each problem from data, and one too large for any memory.

    The error is the root mean square error of ⟨H_m(x), M_m⟩ over x from N(0, I), by the closed
    form and by the paper's algorithm on the same rows, relative to its own root mean square: an
    estimator that always answers 0 scores 1.
    """
    n = 60_000
    X, mixture = datasets.make_spherical_mixture(n, 3, 8, random_state=seed)
    Xr, yr, regression = datasets.make_regression_mixture(n, 3, 6, random_state=seed)
    Xa, ya, activations = datasets.make_activation_sum(n, 3, 8, random_state=seed)
    differences = PairwiseDifferenceProblem(X), mixture.differences()
    return [
        _moment_row("mixture", SphericalMixtureProblem(X), mixture, 4, seed),
        _moment_row("differences", *differences, 4, seed),
        _moment_row("regressions", RegressionMixtureProblem(Xr, yr), regression, 2, seed),
        _moment_row("ReLU sum", ActivationSumProblem(Xa, ya, relu()), activations, 4, seed),
        _exact_row("exact moments", seed),
    ]


def _moment_row(name: str, problem: HermiteProblem, truth: Truth, order: int, seed: int) -> Row:
    how: dict[str, Any] = {"n_components": min(len(truth.weights), 6), "order": order}
    queries = np.random.default_rng(seed).normal(size=(N_QUERIES, problem.n_features))
    exact = truth.hermite(queries, order)
    clock = perf_counter()
    closed = implicit_moments(problem, **how, random_state=seed)
    error = _error(closed.hermite(queries), exact)
    seconds = perf_counter() - clock
    paper = implicit_moments(problem, **how, method="paper", random_state=seed)
    return _as_row(name, closed, error, _error(paper.hermite(queries), exact), seconds)


def _exact_row(name: str, seed: int, order: int = 12) -> Row:
    """Run the paper's recursion on exact moments, of an order at which no tensor can be stored."""
    _, truth = datasets.make_spherical_mixture(1, 6, 20, radius=1.0, random_state=seed)
    clock = perf_counter()
    k, d = truth.vectors.shape
    estimated = implicit_moments(
        PopulationProblem(truth), n_components=k, order=order, n_samples=k, random_state=seed
    )
    queries = np.random.default_rng(seed).normal(size=(N_QUERIES, d))
    answers = estimated.inner(power(vector("x"), order), {"x": queries})
    error = _error(answers, truth.power(queries, order))
    return _as_row(name, estimated, None, error, perf_counter() - clock)


def _error(answers: Array, exact: Array) -> float:
    return float(np.sqrt(np.mean((answers - exact) ** 2) / np.mean(exact**2)))


def _as_row(name: str, estimated: Any, error: float | None, paper: float, seconds: float) -> Row:
    d, m = estimated.problem.n_features, estimated.order
    return {
        "problem": name,
        "n_features": d,
        "n_components": estimated.n_components,
        "order": m,
        "rows": estimated.stats["rows_used"],
        "dense_numbers": float(d) ** m,
        "error": error,
        "paper_error": paper,
        "seconds": seconds,
        "spectra": [[float(v) for v in spectrum] for spectrum in estimated.spectra],
    }


def _table(title: str, heads: Iterable[str], rows: Iterable[Iterable[Any]], words: int) -> Table:
    """Return a printed table whose first ``words`` columns, and standard tools, are text."""
    table = Table(box=SIMPLE_HEAD, title=title)
    for i, head in enumerate(heads):
        text = i < words or head == "standard tool"
        table.add_column(head, justify="left" if text else "right", no_wrap=text)
    for row in rows:
        table.add_row(*(f"{cell:.2g}" if isinstance(cell, float) else str(cell) for cell in row))
    return table


def _fit_table(rows: list[Row]) -> Table:
    cells = ([value for name, value in row.items() if name != "estimator"] for row in rows)
    return _table("The four problems, compared with a standard tool", FITS, cells, 2)


def _moment_table(rows: list[Row]) -> Table:
    cells = []
    for row in rows:
        sizes = [row[name] for name in ("problem", "n_features", "n_components", "order")]
        error = "" if row["error"] is None else row["error"]
        numbers = [f"{row['rows']:,}", f"{row['dense_numbers']:.1e}", error, row["paper_error"]]
        cells.append([*sizes, *numbers, f"{row['seconds']:.1f}"])
    title = "Error of ⟨H_m(x), M_m⟩ for unseen x, without writing M_m down"
    table = _table(title, MOMENTS, cells, 1)
    table.caption = "0 is exact; always answering 0 scores 1"
    return table
