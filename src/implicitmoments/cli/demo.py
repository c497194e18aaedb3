"""The demonstration: four problems on generated data, each compared with its truth."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from textwrap import fill
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

from implicitmoments import RegressionMixture, SphericalMixture, datasets
from implicitmoments.activation import ActivationSumRegressor
from implicitmoments.arrays import Floats
from implicitmoments.cli.console import bad_input, print_tables
from implicitmoments.cli.description import print_document
from implicitmoments.density import SphericalMixtureDensity
from implicitmoments.report import write_report
from implicitmoments.saving import replace_file, save

WIDTH = 80  # columns of a terminal
HEADS = "learned from rows", "error", "time", "usual tool", "its error", "its time"
Row = dict[str, Any]


def run_demo(folder: Path, seed: int, *, as_json: bool, quiet: bool) -> None:
    """Learn the four problems, print a table and write files."""
    _check_folder(folder)
    with nullcontext() if quiet else Console(stderr=True).status("fitting …"):
        mixture, X, means = _fit_mixture(seed)
        fits = [means, _fit_density(seed), _fit_regressions(seed), _fit_activations(seed)]
    if not (as_json or quiet):
        print_tables(_table(fits), _closing_sentence(fits))
    page, others = folder / "report.html", [folder / "mixture.im", folder / "learned.json"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save(mixture, others[0])
        with replace_file(others[1]) as file:
            file.write(json.dumps(fits, indent=2).encode())
        write_report(mixture, X, path=page)
    except OSError as reason:
        raise RuntimeError(f"cannot write to {folder}: {reason.strerror}") from reason
    if as_json:
        print_document({"learned": fits, "output": [str(path) for path in (page, *others)]})
    elif not quiet:
        print_tables(
            "wrote " + ", ".join(map(str, others)),
            f"wrote {page}: open it in a browser",
        )


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

    return (
        ours,
        X,
        _compare(f"{k} groups in {d} columns", "EM, one start", ours, usual, (X,), error),
    )


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
    return _compare("a density of 8 columns", "kernel density", ours, usual, (X,), error)


def _fit_regressions(seed: int) -> Row:
    k, d = 8, 10
    X, y, truth = datasets.make_regression_mixture(
        30_000, k, d, noise=0.3, weights=list(np.geomspace(10, 1, k)), random_state=seed
    )

    def error(model: Any) -> float:
        return _largest_distance(truth.vectors, model.coef_)

    ours, usual = RegressionMixture(k, random_state=seed), RandomEM(k, seed)
    return _compare(f"{k} lines in {d} columns", "EM, one start", ours, usual, (X, y), error)


def _fit_activations(seed: int) -> Row:
    k, d = 4, 10
    X, y, truth = datasets.make_activation_sum(16_000, k, d, noise=0.1, random_state=seed)
    X, y, new = X[:12_000], y[:12_000], X[12_000:]
    exact = np.maximum(new @ truth.vectors.T, 0.0) @ truth.weights

    def error(model: Any) -> float:
        return 1 - float(model.score(new, exact))

    ours = ActivationSumRegressor("relu", k, random_state=seed)
    usual = MLPRegressor(random_state=seed)
    return _compare(f"{k} ReLUs of {d} columns", "neural network", ours, usual, (X, y), error)


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
    usual_tool: str,
    ours: Any,
    usual: Any,
    data: tuple[Floats, ...],
    error: Callable[[Any], float],
) -> Row:
    """Fit both estimators, and measure errors and seconds."""
    row: Row = {"problem": problem, "usual_tool": usual_tool}
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


def _table(rows: list[Row]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for i, head in enumerate(HEADS):
        table.add_column(head, justify="left" if i in (0, 3) else "right", no_wrap=True)
    for row in rows:
        own, usual = (
            [f"{row[name + 'error']:.2g}", f"{row[name + 'seconds']:.1f} s"]
            for name in ("", "usual_")
        )
        table.add_row(row["problem"], *own, row["usual_tool"], *usual)
    return table


def _closing_sentence(rows: list[Row]) -> str:
    better = sum(row["error"] < row["usual_error"] for row in rows)
    sentence = (
        "Error is the distance from the truth behind the data, and 0 is exact: this library has "
        f"the smaller error in {better} of {len(rows)} problems."
    )
    return fill(sentence, WIDTH)
