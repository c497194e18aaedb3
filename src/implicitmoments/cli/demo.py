"""The demonstration: four problems on built-in data, each beside its truth."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import IO

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from implicitmoments import datasets
from implicitmoments.arrays import Array
from implicitmoments.circuits import power, vector
from implicitmoments.moments import HermiteProblem, ImplicitMoments, implicit_moments
from implicitmoments.problems import (
    ActivationSumProblem,
    PairwiseDifferenceProblem,
    PopulationProblem,
    RegressionMixtureProblem,
    SphericalMixtureProblem,
    relu,
)
from implicitmoments.rows import Truth
from implicitmoments.saving.atomic_file import write_whole

__all__ = [
    "DemoComponents",
    "DemoRow",
    "run_components",
    "run_demo",
    "table_of",
    "write_files",
    "write_text",
]

N_QUERIES = 400
TITLE = "Error of ⟨H_m(x), M_m⟩ for unseen x, without writing M_m down"


@dataclass(frozen=True)
class DemoRow:
    """One line of the table.

    Attributes
    ----------
    error : float or None
        Root mean square error of ⟨H_m(x), M_m⟩ over x from N(0, I), relative to its own root
        mean square: an estimator that always says 0 scores 1. By the closed form.
    paper_error : float
        The same by the paper's algorithm, on the same rows.
    """

    problem: str
    n_features: int
    n_components: int
    order: int
    rows: int
    dense_numbers: float
    error: float | None
    paper_error: float
    seconds: float
    spectra: tuple[tuple[float, ...], ...]


def run_demo(seed: int) -> list[DemoRow]:
    """Estimate a moment of each problem from data, and one that no memory could hold."""
    n = 60_000
    X, mixture = datasets.make_spherical_mixture(n, 3, 8, random_state=seed)
    Xr, yr, regression = datasets.make_regression_mixture(n, 3, 6, random_state=seed)
    Xa, ya, activations = datasets.make_activation_sum(n, 3, 8, random_state=seed)
    _, known = datasets.make_spherical_mixture(1, 6, 20, radius=1.0, random_state=seed)
    differences = PairwiseDifferenceProblem(X), mixture.differences()
    return [
        _row("mixture", SphericalMixtureProblem(X), mixture, 4, seed),
        _row("differences", *differences, 4, seed),
        _row("regressions", RegressionMixtureProblem(Xr, yr), regression, 2, seed),
        _row("ReLU sum", ActivationSumProblem(Xa, ya, relu()), activations, 4, seed),
        _exact_row("exact moments", known, 12, seed),
    ]


def _row(name: str, problem: HermiteProblem, truth: Truth, order: int, seed: int) -> DemoRow:
    clock = perf_counter()
    k = min(len(truth.weights), 6)
    queries = np.random.default_rng(seed).normal(size=(N_QUERIES, problem.n_features))
    exact = truth.hermite(queries, order)
    closed = implicit_moments(problem, n_components=k, order=order, random_state=seed)
    error = _error(closed.hermite(queries), exact)
    seconds = perf_counter() - clock
    paper = implicit_moments(
        problem, n_components=k, order=order, method="paper", random_state=seed
    )
    return _report(name, closed, error, _error(paper.hermite(queries), exact), seconds)


def _exact_row(name: str, truth: Truth, order: int, seed: int) -> DemoRow:
    """Run the paper's recursion on exact moments, of an order at which no tensor can be stored."""
    clock = perf_counter()
    k, d = truth.vectors.shape
    estimated = implicit_moments(
        PopulationProblem(truth), n_components=k, order=order, n_samples=k, random_state=seed
    )
    queries = np.random.default_rng(seed).normal(size=(N_QUERIES, d))
    answers = estimated.inner(power(vector("x"), order), {"x": queries})
    error = _error(answers, truth.power(queries, order))
    return _report(name, estimated, None, error, perf_counter() - clock)


def _error(answers: Array, exact: Array) -> float:
    return float(np.sqrt(np.mean((answers - exact) ** 2) / np.mean(exact**2)))


def _report(
    name: str, estimated: ImplicitMoments, error: float | None, paper: float, seconds: float
) -> DemoRow:
    d, m = estimated.problem.n_features, estimated.order
    return DemoRow(
        problem=name,
        n_features=d,
        n_components=estimated.n_components,
        order=m,
        rows=estimated.stats["rows_used"],
        dense_numbers=float(d) ** m,
        error=error,
        paper_error=paper,
        seconds=seconds,
        spectra=tuple(tuple(float(v) for v in spectrum) for spectrum in estimated.spectra),
    )


@dataclass(frozen=True)
class DemoComponents:
    """Means of a mixture with more components than features, read off its moments."""

    n_components: int
    n_features: int
    rows: int
    resolved: int
    largest_error: float
    largest_reported_error: float
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.resolved} of {self.n_components} means in {self.n_features} features told "
            f"apart from {self.rows:,} rows in {self.seconds:.1f} s, the farthest "
            f"{self.largest_error:.2f} from the truth "
            f"(largest reported error: {self.largest_reported_error:.2f})"
        )


def run_components(seed: int) -> DemoComponents:
    """Decode thirty means in twenty features, with no start and no search."""
    n, k, d = 60_000, 30, 20
    X, truth = datasets.make_spherical_mixture(
        n, k, d, radius=4.0, separation=4.0, random_state=seed
    )
    clock = perf_counter()
    moments = implicit_moments(SphericalMixtureProblem(X), n_components=k, order=1)
    found = moments.components()
    apart = np.linalg.norm(found.guesses[:, None] - truth.vectors[None], axis=2)
    return DemoComponents(
        n_components=k,
        n_features=d,
        rows=n,
        resolved=int(found.resolved.sum()),
        largest_error=float(apart.min(axis=0).max()),
        largest_reported_error=float(found.errors.max()),
        seconds=perf_counter() - clock,
    )


def table_of(rows: list[DemoRow]) -> Table:
    """Lay the rows out for a terminal."""
    table = Table(box=SIMPLE_HEAD, title=TITLE)
    table.add_column("problem", no_wrap=True)
    for head in ("d", "k", "m", "rows", "size of M_m", "closed form", "paper", "seconds"):
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(
            row.problem,
            str(row.n_features),
            str(row.n_components),
            str(row.order),
            f"{row.rows:,}",
            f"{row.dense_numbers:.1e}",
            "" if row.error is None else f"{row.error:.2g}",
            f"{row.paper_error:.2g}",
            f"{row.seconds:.1f}",
        )
    table.caption = "0 would be exact, 1 is what always answering 0 scores"
    return table


def write_files(rows: list[DemoRow], found: DemoComponents, folder: Path) -> list[Path]:
    """Write tables as JSON and spectra as CSV; each file appears whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    table, spectra = folder / "table.json", folder / "spectra.csv"
    components = folder / "components.json"

    def write_table(file: IO[str]) -> None:
        lines = [{k: v for k, v in asdict(row).items() if k != "spectra"} for row in rows]
        json.dump(lines, file, indent=2)

    def write_spectra(file: IO[str]) -> None:
        out = csv.writer(file)
        out.writerow(["problem", "moment_order", "place", "eigenvalue"])
        for row in rows:
            for r, spectrum in enumerate(row.spectra, start=1):
                out.writerows([row.problem, 2 * r, i, v] for i, v in enumerate(spectrum, start=1))

    write_text(table, write_table)
    write_text(spectra, write_spectra)
    write_text(components, lambda file: json.dump(asdict(found), file, indent=2))
    return [table, spectra, components]


def write_text(path: Path, write: Callable[[IO[str]], None]) -> None:
    """Write a file that appears whole or not at all."""
    text = io.StringIO(newline="")
    write(text)
    write_whole(path, text.getvalue().encode())
