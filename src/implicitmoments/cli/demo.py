"""The demonstration: four problems on generated data, each compared with its truth."""

from __future__ import annotations

import csv
import io
import json
import os
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
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
from implicitmoments.cli.summary import print_document
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
from implicitmoments.rows import Truth
from implicitmoments.saving import save
from implicitmoments.saving.files import write_whole


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
    X, truth = datasets.make_spherical_mixture(20_500, 3, 8, radius=1.2, random_state=seed)
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


N_QUERIES = 400  # starting value
DECODED = (
    "{resolved} of {n_components} means in {n_features} features resolved from {rows:,} rows in "
    "{seconds:.1f} s; largest error {largest_error:.2f} (largest reported error "
    "{largest_reported_error:.2f})"
)

Row = dict[str, Any]


def run_demo(folder: Path, seed: int, *, as_json: bool, quiet: bool) -> None:
    """Learn the four problems, estimate their moments, print tables and write files."""
    _check_folder(folder)
    shown = not (as_json or quiet)
    with nullcontext() if quiet else Console(stderr=True).status("fitting …"):
        fits, mixture, X = fit_problems(seed)
    fitted = [asdict(row) for row in fits]
    if shown:
        print_tables(_fit_table(fitted))
    with nullcontext() if quiet else Console(stderr=True).status("estimating moments …"):
        moments, decoded = _estimate_moments(seed), _decode_means(seed)
    if shown:
        print_tables(_moment_table(moments), DECODED.format(**decoded))
    documents: dict[str, Any] = {
        "table.json": [{k: v for k, v in row.items() if k != "spectra"} for row in moments],
        "components.json": decoded,
        "learned.json": fitted,
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, document in documents.items():
            write_whole(folder / name, json.dumps(document, indent=2).encode())
        write_whole(folder / "spectra.csv", _spectra(moments).encode())
        save(mixture, folder / "mixture.im")
        write_report(mixture, X, path=folder / "report.html")
    except OSError as reason:
        raise RuntimeError(f"cannot write to {folder}: {reason.strerror}") from reason
    names = [*documents, "spectra.csv", "mixture.im", "report.html"]
    paths = [str(folder / name) for name in names]
    if as_json:
        found = {"learned": fitted, "moments": moments, "components": decoded}
        print_document({**found, "output": paths})
    elif not quiet:
        print_tables(f"wrote {', '.join(paths)}")


def _check_folder(folder: Path) -> None:
    """Raise before any work if the path cannot be written to."""
    if folder.exists() and not folder.is_dir():
        raise bad_input("output_not_a_folder", path=folder)
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise bad_input("output_not_permitted", path=folder)


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


def _decode_means(seed: int) -> Row:
    """Decode thirty means in twenty features, without initialisation or search."""
    n, k, d = 60_000, 30, 20
    X, truth = datasets.make_spherical_mixture(
        n, k, d, radius=4.0, separation=4.0, random_state=seed
    )
    clock = perf_counter()
    found = implicit_moments(SphericalMixtureProblem(X), n_components=k, order=1).components()
    distances = np.linalg.norm(found.guesses[:, None] - truth.vectors[None], axis=2)
    return {
        "n_components": k,
        "n_features": d,
        "rows": n,
        "resolved": int(found.resolved.sum()),
        "largest_error": float(distances.min(axis=0).max()),
        "largest_reported_error": float(found.errors.max()),
        "seconds": perf_counter() - clock,
    }


def _fit_table(rows: list[Row]) -> Table:
    table = Table(box=SIMPLE_HEAD, title="The four problems, compared with a standard tool")
    for head in ("problem", "measure", "error", "s", "standard tool", "error", "s"):
        numeric = head in ("error", "s")
        table.add_column(head, justify="right" if numeric else "left", no_wrap=True)
    for row in rows:
        cells = [value for name, value in row.items() if name != "estimator"]
        table.add_row(*(cell if isinstance(cell, str) else f"{cell:.2g}" for cell in cells))
    return table


def _moment_table(rows: list[Row]) -> Table:
    table = Table(
        box=SIMPLE_HEAD, title="Error of ⟨H_m(x), M_m⟩ for unseen x, without writing M_m down"
    )
    table.add_column("problem", no_wrap=True)
    for head in ("d", "k", "m", "rows", "size of M_m", "closed form", "paper", "seconds"):
        table.add_column(head, justify="right")
    for row in rows:
        error = "" if row["error"] is None else f"{row['error']:.2g}"
        sizes = (str(row[name]) for name in ("n_features", "n_components", "order"))
        numbers = (f"{row['rows']:,}", f"{row['dense_numbers']:.1e}", error)
        times = (f"{row['paper_error']:.2g}", f"{row['seconds']:.1f}")
        table.add_row(row["problem"], *sizes, *numbers, *times)
    table.caption = "0 is exact; always answering 0 scores 1"
    return table


def _spectra(rows: list[Row]) -> str:
    """Return the eigenvalues of every moment as CSV."""
    text = io.StringIO(newline="")
    out = csv.writer(text)
    out.writerow(["problem", "moment_order", "place", "eigenvalue"])
    for row in rows:
        for r, spectrum in enumerate(row["spectra"], start=1):
            out.writerows([row["problem"], 2 * r, i, v] for i, v in enumerate(spectrum, start=1))
    return text.getvalue()
