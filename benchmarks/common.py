"""What all benchmarks share: the command line, two editions side by side, tables and results.

    python benchmarks/NAME.py [TABLE ...] [--seeds N] [--first SEED] [--quick] [--old SRC]

A benchmark has tables, a table has cases, and a case is one data set, drawn from its seed. Every
method fits every case in a process of one thread, which fits a small data set of the same kind
first, so that imports are not timed; seconds are of the processor. ``--old`` is the folder ``src``
of another version of the library, whose fits stand beside those of this one. ``--quick`` takes
fewer cases and shows in a minute that the command works. ``--results FOLDER`` keeps one line per
case and method in ``FOLDER/NAME_TABLE.csv``, below a line with command, date and machine.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from time import process_time
from typing import Any, TypeAlias

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import numpy as np  # after the number of threads is known

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Figures: TypeAlias = dict[str, Any]  # numbers and words about one fit
Row: TypeAlias = dict[str, Any]  # setting, seed, method, and figures

THIS, OLD = "this edition", "first edition"
RIGHT = 2.0  # nats below EM from the truth up to which a fit is as good
LOST = 5.0  # nats below EM from the truth from which a fit is lost


@dataclass(frozen=True)
class Case:
    """One data set: a setting, by name, and a seed."""

    setting: str
    seed: int


@dataclass(frozen=True)
class Method:
    """A function of a case, and the edition of the library that its process imports."""

    name: str
    fit: Callable[[Case], Figures]
    edition: str = THIS


@dataclass(frozen=True)
class Table:
    """Settings by name, methods, and a function that prints the rows."""

    settings: Sequence[str]
    methods: Sequence[Method]
    show: Callable[[list[Row]], None]
    warm_up: Callable[[], Any]  # what a process does before anything is timed
    seeds: int
    quick: Sequence[str] = ()  # settings of --quick


def both_editions(fit: Callable[[Case], Figures]) -> list[Method]:
    """Return a fit by both editions."""
    return [Method(OLD, fit, OLD), Method(THIS, fit)]


def main(name: str, doc: str | None, tables: dict[str, Table]) -> None:
    """Read the command line, run the tables that were asked for, and print them."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", choices=[*tables, []], help="all by default")
    parser.add_argument("--seeds", type=int, help="data sets per setting")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed")
    parser.add_argument("--quick", action="store_true", help="one seed of few settings")
    parser.add_argument("--jobs", type=int, default=1, help="processes of each edition")
    parser.add_argument("--old", type=Path, metavar="SRC", help="src of another edition")
    parser.add_argument("--settings", nargs="+", help="by name; all by default")
    parser.add_argument("--methods", nargs="+", help="by name; all by default")
    parser.add_argument("--results", type=Path, metavar="FOLDER", help="folder of CSV files")
    options = parser.parse_args()
    if options.old and not (options.old / "implicitmoments").is_dir():
        parser.error(f"--old: there is no package implicitmoments in {options.old}")
    for chosen in options.tables or tables:
        print(f"{name} {chosen}: {provenance()}\n", flush=True)
        rows = run(tables[chosen], options)
        if options.results:
            write_results(options.results / f"{name}_{chosen}.csv", rows)
        tables[chosen].show(rows)
        print(flush=True)


def provenance() -> str:
    """Return command, without folders of this machine, date and machine."""
    words, folders = sys.argv[1:], {"--results": "FOLDER", "--old": "SRC"}
    for option in folders.keys() & set(words):
        words[words.index(option) + 1] = folders[option]
    command = " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words])
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    return f"{command}; {date.today()}; {machine}, NumPy {np.__version__}"


def run(table: Table, options: argparse.Namespace) -> list[Row]:
    """Fit every case by every method; the rows are in the order of the cases."""
    settings = options.settings or (table.quick if options.quick else None) or table.settings
    n_seeds = 1 if options.quick else options.seeds or table.seeds
    seeds = range(options.first, options.first + n_seeds)
    cases = [Case(setting, seed) for setting in settings for seed in seeds]
    methods = [
        method
        for method in table.methods
        if (method.edition == THIS or options.old)
        and method.name in (options.methods or [method.name])
    ]
    pools = {
        edition: ProcessPoolExecutor(
            options.jobs, get_context("spawn"), initializer=begin, initargs=(source, table.warm_up)
        )
        for edition, source in ((THIS, None), (OLD, options.old))
    }
    futures: list[tuple[Case, Method, Future[Figures]]] = [
        (case, method, pools[method.edition].submit(measure, method.fit, case))
        for case in cases
        for method in methods
    ]
    rows = []
    for case, method, future in futures:
        rows.append({"setting": case.setting, "seed": case.seed, "method": method.name})
        rows[-1] |= future.result()
    for pool in pools.values():
        pool.shutdown()
    return rows


def begin(source: Path | None, warm_up: Callable[[], Any]) -> None:
    """Prepare a process: import the library of an edition, and fit a few rows by it."""
    if source is not None:
        sys.path.insert(0, str(source.resolve()))
    warnings.simplefilter("ignore")
    warm_up()


def measure(fit: Callable[[Case], Figures], case: Case) -> Figures:
    """Fit one case; a fit that fails has an error and no other figures."""
    warnings.simplefilter("ignore")
    try:
        return fit(case)
    except Exception as error:  # a fit that fails is lost, and is told
        return {"error": f"{type(error).__name__}: {error}"}


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result, and seconds of the processor."""
    clock = process_time()
    found = call()
    return found, process_time() - clock


def write_results(file: Path, rows: list[Row]) -> None:
    """Write rows below a line that says how they were made."""
    file.parent.mkdir(parents=True, exist_ok=True)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    with file.open("w", encoding="utf-8", newline="") as lines:
        lines.write(f"# {provenance()}\n")
        writer = csv.DictWriter(lines, columns, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({key: rounded(value) for key, value in row.items()})


def rounded(value: Any) -> Any:
    """Return numbers with ten digits."""
    return f"{value:.10g}" if isinstance(value, float) else value


def select(rows: Iterable[Row], **where: Any) -> list[Row]:
    """Return the rows with given values."""
    return [row for row in rows if all(row.get(key) == value for key, value in where.items())]


def values(rows: Iterable[Row], key: str) -> Floats:
    """Return one figure of the rows that have it."""
    return np.array([row[key] for row in rows if key in row], dtype=float)


def names(rows: Iterable[Row], key: str) -> list[str]:
    """Return what stands in a column, each once, in order."""
    return list(dict.fromkeys(row[key] for row in rows))


def above(rows: list[Row], method: str, other: str, key: str = "level") -> Floats:
    """Return a figure of one method less that of another one on the same cases.

    A fit that failed is infinitely far below.
    """
    there = {(row["setting"], row["seed"]): row for row in select(rows, method=other)}
    pairs = [
        (row, there[row["setting"], row["seed"]])
        for row in select(rows, method=method)
        if (row["setting"], row["seed"]) in there
    ]
    return np.array([a.get(key, -np.inf) - b.get(key, -np.inf) for a, b in pairs])


def print_table(heads: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    """Print a table in Markdown."""
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for line in lines:
        print(f"| {' | '.join(str(cell) for cell in line)} |")


def spread(numbers: Floats, digits: int = 2) -> str:
    """Return the median and the range."""
    if not len(numbers):
        return "–"
    middle, least, most = (
        f"{number:,.{digits}f}" for number in (np.median(numbers), numbers.min(), numbers.max())
    )
    return middle if least == most else f"{middle} ({least} to {most})"


def three_ways(gaps: Floats) -> list[int]:
    """Count gaps that are above some nats, within them, and below."""
    higher, lower = int(np.sum(gaps > RIGHT)), int(np.sum(gaps < -RIGHT))
    return [higher, len(gaps) - higher - lower, lower]


def compare_levels(rows: list[Row], truth: str, rivals: Sequence[str] = (OLD, THIS)) -> None:
    """Print how often each method is lost, beside EM from the truth and beside its rival."""
    lines = []
    for method in names(rows, "method"):
        if method == truth:
            continue
        gaps = above(rows, method, truth)
        seconds = values(select(rows, method=method), "seconds")
        cells = [method, np.sum(gaps >= -RIGHT), np.sum(gaps < -LOST), f"{gaps.min():+.1f}"]
        other = next((each for each in rivals if each != method), None)
        both = above(rows, method, other) if method in rivals and other else np.zeros(0)
        cells.append(np.sum(both < -RIGHT) if len(both) else "–")
        cells += [f"{np.median(seconds):.2f}", f"{np.quantile(seconds, 0.9):.2f}"]
        lines.append([*cells, f"{seconds.sum():.0f}"])
    print_table(
        (
            *(
                f"{len(select(rows, method=truth))} data sets",
                f"within {RIGHT:g} nats of EM from the truth",
            ),
            *(
                f"lost by more than {LOST:g}",
                "worst",
                f"more than {RIGHT:g} below the other edition",
            ),
            *("median s", "90 % s", "sum s"),
        ),
        lines,
    )


# ---- data and references


def log_integer(rng: np.random.Generator, low: int, high: int) -> int:
    """Draw an integer whose logarithm is about uniform, bounds included."""
    return int(np.rint(np.exp(rng.uniform(np.log(low), np.log(high)))))


def draw_weights(rng: np.random.Generator, law: str, k: int) -> Floats:
    """Draw the weights (k,) of components."""
    weights = {
        "equal": np.ones(k),
        "1/i": 1 / np.arange(1, k + 1),
        "Dirichlet": rng.dirichlet(np.ones(k)) + 0.1 / k,  # no component without rows
        "one light": np.append(0.15, np.ones(k - 1)),
    }[law]
    return np.asarray(weights / weights.sum())


def nearest_distances(means: Floats) -> Floats:
    """Return the distance (k,) of each mean to the nearest other one."""
    distances = np.linalg.norm(means[:, None] - means[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    return np.asarray(distances.min(axis=1))


def matched_distances(found: Floats, true: Floats) -> Floats:
    """Return the distance of every true vector from the one matched to it; inf without one."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415
    from scipy.spatial.distance import cdist  # noqa: PLC0415

    apart = cdist(found, true)
    i, j = linear_sum_assignment(np.minimum(apart, 10.0 * np.median(apart)))
    distances = np.full(len(true), np.inf)
    distances[j] = apart[i, j]
    return distances


def sphere_logs(X: Floats, weights: Floats, means: Floats, variances: Any) -> Floats:
    """Return the log joint densities (n, k) of rows and spherical components."""
    squares = np.sum(X**2, axis=1)[:, None] - 2 * X @ means.T + np.sum(means**2, axis=1)
    normaliser = X.shape[1] / 2 * np.log(2 * np.pi * np.asarray(variances))
    return np.asarray(np.log(weights) - normaliser - squares / (2 * np.asarray(variances)))


def log_likelihood(log_joint: Floats) -> float:
    """Return the log-likelihood of all rows."""
    return float(normalise(log_joint)[0].sum())


def normalise(log_joint: Floats) -> tuple[Floats, Floats]:
    """Return log densities (n,) and responsibilities (n, k)."""
    top = log_joint.max(axis=1, keepdims=True)
    joint = np.exp(log_joint - top)
    total = joint.sum(axis=1, keepdims=True)
    return np.asarray((top + np.log(total))[:, 0]), np.asarray(joint / total)


def plain_em(
    log_joint: Callable[[Any], Floats], m_step: Callable[[Floats], Any], parameters: Any
) -> tuple[float, Any]:
    """Return the log-likelihood to which plain EM converges, and its parameters."""
    level, last_gain = -np.inf, np.inf
    for _ in range(2_000):
        log_densities, responsibilities = normalise(log_joint(parameters))
        gain, level = float(log_densities.sum()) - level, float(log_densities.sum())
        # gains fall about geometrically, so that this one and all to come sum to gain/(1 - ratio)
        ratio = min(max(gain / last_gain, 0.0), 0.999) if np.isfinite(last_gain) else 0.0
        if gain / (1 - ratio) < 1e-9 * len(log_densities):
            break
        last_gain = gain
        parameters = m_step(responsibilities)
    return level, parameters


def em_of_spheres(X: Floats, weights: Floats, means: Floats, variance: float) -> float:
    """Return the log-likelihood of EM with one variance for all components."""
    squares = np.sum(X**2)

    def m_step(responsibilities: Floats) -> tuple[Floats, Floats, float]:
        counts = np.maximum(responsibilities.sum(axis=0), 1e-12)
        centres = responsibilities.T @ X / counts[:, None]
        within = squares - np.sum(counts * np.sum(centres**2, axis=1))
        return counts / counts.sum(), centres, float(within) / X.size

    return plain_em(lambda p: sphere_logs(X, *p), m_step, (weights, means, variance))[0]
