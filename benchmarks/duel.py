"""Two versions of the library on the same data, beside EM from the true parameters.

    python benchmarks/duel.py mixtures --python OLD_PYTHON [--n 420] [--first SEED]
        [--results FILE.csv] [--only old|new]
    python benchmarks/duel.py regressions --python OLD_PYTHON ...

The interpreter that runs the script has the new version, ``--python`` is an interpreter with the
old one. Configuration i is drawn from seed ``--first`` + i. Each version runs in one worker
process with one thread, which fits a small data set first, so that imports are not timed. The time
of a fit is processor time. The log-likelihoods of both fits, over all rows, are computed here from
the fitted attributes; no rows are left out as outliers. EM from the truth is plain EM of the same
model: one variance for all components, or one noise variance for all lines.

``--results`` holds one line per configuration. Values in the file are not computed again, so that
a run that was stopped continues, and ``--only old`` followed by ``--only new`` completes the file.
To compare several new versions, copy the file that ``--only old`` wrote.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Result: TypeAlias = dict[str, str]  # one line of the results, by column

LOST = 5.0  # nats below EM from the truth
BELOW = 2.0  # nats below the other version
MAX_STEPS = 2_000
TOLERANCE = 1e-9  # projected gain of EM per row
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
SIDES = ("old", "new")
COLUMNS = (
    *("seed", "description", "truth"),
    *("old", "old_seconds", "old_outliers", "new", "new_seconds", "new_outliers"),
)

WEIGHTS = ("equal", "1/i", "Dirichlet", "one light")
GEOMETRIES = ("cloud", "grid", "line", "clusters", "shell", "pairs")
INPUTS = ("normal", "discrete", "uniform", "t3", "correlated")
SLOPES = ("equal lengths", "different lengths", "one flat")
NOISES = ("equal", "unequal", "t3")


# ---- parameters and likelihoods


class Spheres(NamedTuple):
    """Weights (k,), means (k, d) and one variance, or variances (k,)."""

    weights: Floats
    means: Floats
    variance: Floats | float

    def log_joint(self, rows: Rows) -> Floats:
        """Return the log densities (n, k) of rows and components."""
        d = rows.X.shape[1]
        cross = rows.X @ self.means.T
        squares = np.sum(rows.X**2, axis=1)[:, None] - 2 * cross + np.sum(self.means**2, axis=1)
        normaliser = d / 2 * np.log(2 * np.pi * np.asarray(self.variance))
        return np.asarray(np.log(self.weights) - normaliser - squares / (2 * self.variance))

    @staticmethod
    def m_step(rows: Rows, responsibilities: Floats) -> Spheres:
        """Return the most likely parameters with one variance."""
        counts = np.maximum(responsibilities.sum(axis=0), 1e-12)
        means = responsibilities.T @ rows.X / counts[:, None]
        within = np.sum(rows.X**2) - np.sum(counts * np.sum(means**2, axis=1))
        return Spheres(counts / counts.sum(), means, float(within) / rows.X.size)


class Lines(NamedTuple):
    """Weights (k,), intercepts and slopes (k, 1 + d), and noise variances (k,)."""

    weights: Floats
    coefficients: Floats
    variances: Floats

    def log_joint(self, rows: Rows) -> Floats:
        """Return the log densities (n, k) of labels given inputs, and components."""
        residuals = rows.y[:, None] - design(rows.X) @ self.coefficients.T
        normaliser = np.log(2 * np.pi * self.variances) / 2
        return np.asarray(np.log(self.weights) - normaliser - residuals**2 / (2 * self.variances))

    @staticmethod
    def m_step(rows: Rows, responsibilities: Floats) -> Lines:
        """Return the most likely parameters with one noise variance."""
        Z = design(rows.X)
        counts = np.maximum(responsibilities.sum(axis=0), 1e-12)
        coefficients = np.stack([least_squares(Z, rows.y, r) for r in responsibilities.T])
        residuals = rows.y[:, None] - Z @ coefficients.T
        variance = np.sum(responsibilities * residuals**2) / len(rows.y)
        return Lines(counts / counts.sum(), coefficients, np.full(len(counts), variance))


Parameters: TypeAlias = Spheres | Lines


class Rows(NamedTuple):
    """Inputs (n, d) and labels (n,); mixtures have no labels."""

    X: Floats
    y: Floats


class Configuration(NamedTuple):
    """Rows, the parameters that they were drawn from, and what they are in words."""

    description: str
    rows: Rows
    truth: Parameters


def design(X: Floats) -> Floats:
    """Return the inputs with a first column of ones."""
    return np.column_stack([np.ones(len(X)), X])


def least_squares(Z: Floats, y: Floats, weights: Floats) -> Floats:
    """Return the coefficients of weighted least squares; a tiny ridge keeps them finite."""
    weighted = Z * weights[:, None]
    return np.asarray(np.linalg.solve(weighted.T @ Z + 1e-9 * np.eye(Z.shape[1]), weighted.T @ y))


def log_likelihood(rows: Rows, parameters: Parameters) -> float:
    """Return the log-likelihood of all rows; minus infinity if it is not a number."""
    level = float(np.sum(normalise(parameters.log_joint(rows))[0]))
    return level if np.isfinite(level) else -np.inf


def normalise(log_joint: Floats) -> tuple[Floats, Floats]:
    """Return log densities (n,) and responsibilities (n, k)."""
    top = log_joint.max(axis=1, keepdims=True)
    joint = np.exp(log_joint - top)
    total = joint.sum(axis=1, keepdims=True)
    return np.asarray((top + np.log(total))[:, 0]), np.asarray(joint / total)


def em(rows: Rows, parameters: Parameters) -> float:
    """Return the log-likelihood to which plain EM converges."""
    level, last_gain = -np.inf, np.inf
    for _ in range(MAX_STEPS):
        log_densities, responsibilities = normalise(parameters.log_joint(rows))
        new_level = float(np.sum(log_densities))
        gain, level = new_level - level, new_level
        # gains fall about geometrically, so that this one and all to come sum to gain/(1 - ratio)
        ratio = min(max(gain / last_gain, 0.0), 0.999) if np.isfinite(last_gain) else 0.0
        if gain / (1 - ratio) < TOLERANCE * len(rows.X):
            break
        last_gain = gain
        parameters = parameters.m_step(rows, responsibilities)
    return level


# ---- data


def draw_mixture(seed: int) -> Configuration:
    """Draw a mixture of spheres of variance 1, and rows from it."""
    rng = np.random.default_rng([seed, 1])
    k, d = int(rng.integers(5, 41)), log_integer(rng, 2, 25)
    n = k * log_integer(rng, 50, 400)
    law, geometry = str(rng.choice(WEIGHTS)), str(rng.choice(GEOMETRIES))
    separation = rng.uniform(1.5, 6.0)
    weights, means = draw_weights(rng, law, k), draw_means(rng, geometry, k, d)
    means *= separation / np.median(nearest_distances(means))
    labels = rng.choice(k, n, p=weights)
    X = means[labels] + rng.normal(size=(n, d))
    words = f"k {k}, d {d}, n {n}, weights {law}, means {geometry}, separation {separation:.1f}"
    return Configuration(words, Rows(X, np.zeros(n)), Spheres(weights, means, 1.0))


def draw_regression(seed: int) -> Configuration:
    """Draw a mixture of lines, and rows from it."""
    rng = np.random.default_rng([seed, 2])
    k, d = int(rng.integers(2, 11)), log_integer(rng, 1, 20)
    n = log_integer(rng, max(100, 10 * k * (d + 2)), 8_000)  # ten rows per parameter and more
    law, inputs = str(rng.choice(WEIGHTS)), str(rng.choice(INPUTS))
    slopes, noise = str(rng.choice(SLOPES)), str(rng.choice(NOISES))
    scale = np.exp(rng.uniform(np.log(0.05), np.log(0.5)))
    weights, coefficients = draw_weights(rng, law, k), draw_lines(rng, slopes, k, d)
    scales = scale * (rng.uniform(0.3, 2.0, k) if noise == "unequal" else np.ones(k))
    X, labels = draw_inputs(rng, inputs, n, d), rng.choice(k, n, p=weights)
    errors = rng.standard_t(3, n) / np.sqrt(3) if noise == "t3" else rng.normal(size=n)
    y = np.sum(design(X) * coefficients[labels], axis=1) + scales[labels] * errors
    variances = np.full(k, weights @ scales**2)  # the model has one noise variance
    words = (
        f"k {k}, d {d}, n {n}, weights {law}, inputs {inputs}, slopes {slopes}, "
        f"noise {noise} {scale:.2f}"
    )
    return Configuration(words, Rows(X, y), Lines(weights, coefficients, variances))


def log_integer(rng: np.random.Generator, low: int, high: int) -> int:
    """Draw an integer whose logarithm is about uniform, bounds included."""
    return int(np.rint(np.exp(rng.uniform(np.log(low), np.log(high)))))


def draw_weights(rng: np.random.Generator, law: str, k: int) -> Floats:
    """Draw the weights (k,) of components."""
    weights = np.ones(k)
    if law == "1/i":
        weights = 1 / np.arange(1, k + 1)
    elif law == "Dirichlet":
        weights = rng.dirichlet(np.ones(k)) + 0.1 / k  # no component without rows
    elif law == "one light":
        weights[0] = 0.15
    return np.asarray(weights / weights.sum())


def draw_means(rng: np.random.Generator, geometry: str, k: int, d: int) -> Floats:
    """Draw means (k, d), in any unit."""
    means = rng.normal(size=(k, d))
    if geometry == "grid":
        m = min(d, 3)
        side = int(np.ceil(k ** (1 / m) - 1e-9))
        places = rng.choice(side**m, k, replace=False)
        means = np.zeros((k, d))
        means[:, :m] = np.column_stack(np.unravel_index(places, (side,) * m))
    elif geometry == "line":
        means = np.outer(np.arange(k), rng.normal(size=d)) + 0.1 * means
    elif geometry == "clusters":
        means += 6 * rng.normal(size=(-(-k // 5), d))[np.arange(k) // 5]
    elif geometry == "shell":
        means /= np.linalg.norm(means, axis=1, keepdims=True)
    elif geometry == "pairs":
        means = 0.3 * means + 2 * rng.normal(size=(-(-k // 2), d))[np.arange(k) // 2]
    return np.asarray(means)


def nearest_distances(means: Floats) -> Floats:
    """Return the distance (k,) of each mean to the nearest other one."""
    distances = np.linalg.norm(means[:, None] - means[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    return np.asarray(distances.min(axis=1))


def draw_lines(rng: np.random.Generator, slopes: str, k: int, d: int) -> Floats:
    """Draw intercepts and slopes (k, 1 + d)."""
    coefficients = rng.normal(size=(k, 1 + d))
    coefficients[:, 1:] /= np.linalg.norm(coefficients[:, 1:], axis=1, keepdims=True)
    if slopes == "different lengths":
        coefficients[:, 1:] *= np.exp(rng.uniform(np.log(0.3), np.log(3.0), (k, 1)))
    elif slopes == "one flat":
        coefficients[0, 1:] = 0.0
    return np.asarray(coefficients)


def draw_inputs(rng: np.random.Generator, inputs: str, n: int, d: int) -> Floats:
    """Draw inputs (n, d) of about unit variance."""
    X = rng.normal(size=(n, d))
    if inputs == "discrete":
        X = rng.integers(-1, 3, (n, d)).astype(float)
    elif inputs == "uniform":
        X = rng.uniform(-np.sqrt(3), np.sqrt(3), (n, d))
    elif inputs == "t3":
        X = rng.standard_t(3, (n, d)) / np.sqrt(3)
    elif inputs == "correlated":
        X = 0.6 * X + 0.8 * rng.normal(size=(n, 1))
    return np.asarray(X)


DRAW = {"mixtures": draw_mixture, "regressions": draw_regression}


# ---- workers


class Fit(NamedTuple):
    """Fitted parameters, and the number of rows that were left out as outliers."""

    parameters: Parameters
    n_outliers: int


FitFunction: TypeAlias = Callable[[Rows, int], Fit]


def fit_mixture(rows: Rows, k: int) -> Fit:
    """Fit a mixture by the library of this interpreter."""
    import implicitmoments as im  # noqa: PLC0415  # EM from the truth needs no library

    model: Any = im.SphericalMixture(k, drop_outliers=False, random_state=0).fit(rows.X)
    parameters = Spheres(model.weights_, model.means_, model.variance_)
    return Fit(parameters, model.stats_.get("outliers", 0))


def fit_regression(rows: Rows, k: int) -> Fit:
    """Fit a mixture of regressions by the library of this interpreter."""
    import implicitmoments as im  # noqa: PLC0415

    model: Any = im.RegressionMixture(k, drop_outliers=False, random_state=0).fit(rows.X, rows.y)
    coefficients = np.column_stack([model.intercept_, model.coef_])
    variances = np.broadcast_to(np.square(model.noise_), len(coefficients))
    parameters = Lines(model.weights_, coefficients, variances)
    return Fit(parameters, model.stats_.get("outliers", 0))


FIT: dict[str, FitFunction] = {"mixtures": fit_mixture, "regressions": fit_regression}


def serve_fits(model: str, fit: FitFunction) -> None:
    """Read seeds, one per line, and write the likelihood and the time of each fit as JSON."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    fit(Rows(rng.normal(size=(200, 2)), rng.normal(size=200)), 2)  # imports what is needed
    for line in sys.stdin:
        _, rows, truth = DRAW[model](int(line))
        level, n_outliers = -np.inf, 0
        clock = process_time()
        try:
            fitted = fit(rows, len(truth.weights))
        except Exception as error:  # a fit that fails is lost
            seconds = process_time() - clock
            print(f"seed {line.strip()}: {error!r}", file=sys.stderr)
        else:
            seconds = process_time() - clock
            level, n_outliers = log_likelihood(rows, fitted.parameters), fitted.n_outliers
        answer = {"level": level, "seconds": seconds, "outliers": int(n_outliers)}
        print(json.dumps(answer), flush=True)


def serve_truth(model: str) -> None:
    """Read seeds, one per line, and write the likelihood of EM from the truth as JSON."""
    for line in sys.stdin:
        _, rows, truth = DRAW[model](int(line))
        print(json.dumps({"level": em(rows, truth)}), flush=True)


class Worker:
    """A process with one thread that answers seeds; it is started by the first question."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.process: subprocess.Popen[str] | None = None

    def ask(self, seed: int) -> dict[str, float]:
        """Return the answer for one configuration."""
        if self.process is None:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | ONE_THREAD,
            )
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("the worker has no pipes")
        self.process.stdin.write(f"{seed}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker stopped at seed {seed}: {' '.join(self.command)}")
        answer: dict[str, float] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.communicate()


# ---- results


def read_results(file: Path | None) -> dict[int, Result]:
    """Return the lines of the results by seed; values that are missing are empty."""
    if file is None or not file.exists():
        return {}
    with file.open(encoding="utf-8", newline="") as lines:
        return {int(line["seed"]): dict(line) for line in csv.DictReader(lines)}


def write_results(file: Path, results: dict[int, Result]) -> None:
    """Replace the file, so that it is whole at any time."""
    new = file.with_name(f"{file.name}.new")
    with new.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, COLUMNS)
        writer.writeheader()
        writer.writerows(results[seed] for seed in sorted(results))
    new.replace(file)


def empty_result(model: str, seed: int) -> Result:
    """Return the line of a configuration without likelihoods and times."""
    configuration = DRAW[model](seed)
    known = {"seed": str(seed), "description": configuration.description}
    return dict.fromkeys(COLUMNS, "") | known


def complete(result: Result, workers: dict[str, Worker]) -> bool:
    """Ask workers for what a line lacks; return whether there was anything."""
    missing = [name for name in workers if not result[name]]
    for name in missing:
        answer = workers[name].ask(int(result["seed"]))
        result[name] = f"{answer['level']:.4f}"
        if name in SIDES:
            result[f"{name}_seconds"] = f"{answer['seconds']:.4f}"
            result[f"{name}_outliers"] = str(answer["outliers"])
    return bool(missing)


def run(model: str, seeds: range, file: Path | None, commands: dict[str, list[str]]) -> None:
    """Fit all configurations and print the tables.

    Parameters
    ----------
    commands : dict of str to list of str
        Commands of the workers ``truth``, ``old`` and ``new``, or of some of them.
    """
    results = read_results(file)
    workers = {name: Worker(command) for name, command in commands.items()}
    with ExitStack() as stack:
        for worker in workers.values():
            stack.callback(worker.close)
        for seed in seeds:
            empty = empty_result(model, seed)
            result = results.setdefault(seed, empty)
            if result["description"] != empty["description"]:
                raise SystemExit(f"{file} has another configuration of seed {seed}")
            if complete(result, workers) and file is not None:
                write_results(file, results)
    print_tables([results[seed] for seed in seeds])


def differences(results: list[Result], one: str, other: str) -> Floats:
    """Return by how many nats one is above the other, where both are known."""
    known = [result for result in results if result[one] and result[other]]
    return np.array([float(result[one]) - float(result[other]) for result in known])


def figures(results: list[Result], side: str, other: str) -> dict[str, str]:
    """Return the figures of one version, by their names; dashes where nothing was fitted."""
    from_truth = differences(results, side, "truth")
    from_other = differences(results, side, other)
    fitted = [result for result in results if result[side]]
    seconds = np.array([float(result[f"{side}_seconds"]) for result in fitted])
    n_dropped = np.array([int(result[f"{side}_outliers"]) for result in fitted])

    def words(values: Floats, measure: Callable[[Floats], float], form: str) -> str:
        return format(measure(values), form) if len(values) else "–"

    return {
        f"lost: more than {LOST:g} nats below EM from the truth": words(
            from_truth, lambda x: int(np.sum(x < -LOST)), "d"
        ),
        "worst difference from EM from the truth": words(from_truth, np.min, "+.1f"),
        f"more than {BELOW:g} nats below the other": words(
            from_other, lambda x: int(np.sum(x < -BELOW)), "d"
        ),
        "worst difference from the other": words(from_other, np.min, "+.1f"),
        "median time, s": words(seconds, np.median, ".2f"),
        "90 % time, s": words(seconds, lambda x: np.quantile(x, 0.9), ".2f"),
        "summed time, s": words(seconds, np.sum, ".1f"),
        "fits that left out outliers": words(n_dropped, np.count_nonzero, "d"),
    }


def print_tables(results: list[Result]) -> None:
    """Print a comparison of both versions, and the configurations that either lost."""
    old, new = figures(results, "old", "new"), figures(results, "new", "old")
    print(f"| {len(results)} configurations | old | new |\n|---|---|---|")
    for name in old:
        print(f"| {name} | {old[name]} | {new[name]} |")
    print("\nLost, with nats above EM from the truth and outliers that were left out:\n")
    print("| seed | configuration | old | new | outliers |\n|---|---|---|---|---|")
    for result in results:
        levels = [differences([result], side, "truth") for side in SIDES]
        if any(np.any(level < -LOST) for level in levels):
            nats = " | ".join(f"{level[0]:+.1f}" if len(level) else "–" for level in levels)
            dropped = ", ".join(result[f"{side}_outliers"] or "–" for side in SIDES)
            print(f"| {result['seed']} | {result['description']} | {nats} | {dropped} |")


# ---- command line


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("model", choices=list(DRAW))
    found.add_argument("--python", metavar="OLD_PYTHON", help="interpreter with the old version")
    found.add_argument("--n", type=int, default=420, help="number of configurations")
    found.add_argument("--first", type=int, default=0, metavar="SEED", help="first seed")
    found.add_argument("--results", type=Path, metavar="FILE.csv", help="file of the results")
    found.add_argument("--only", choices=SIDES, help="fit by one version only")
    found.add_argument("--worker", choices=("fit", "truth"), help=argparse.SUPPRESS)
    return found


def commands(options: argparse.Namespace) -> dict[str, list[str]]:
    """Return the commands of the workers that the options ask for."""
    start = [options.model, "--worker"]
    workers = {"truth": [sys.executable, __file__, *start, "truth"]}
    if options.only != "new":
        if options.python is None:
            raise SystemExit("--python, an interpreter with the old version, is needed")
        workers["old"] = [options.python, __file__, *start, "fit"]
    if options.only != "old":
        workers["new"] = [sys.executable, __file__, *start, "fit"]
    return workers


def main() -> None:
    """Read the command line."""
    options = parser().parse_args()
    if options.worker == "truth":
        serve_truth(options.model)
    elif options.worker == "fit":
        serve_fits(options.model, FIT[options.model])
    else:
        seeds = range(options.first, options.first + options.n)
        run(options.model, seeds, options.results, commands(options))


if __name__ == "__main__":
    main()
