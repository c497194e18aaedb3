"""Joint density of a mixture of regressions, compared with EM.

Run: python benchmarks/regression_density.py distance   total variation distance from the truth
     python benchmarks/regression_density.py degrees    the same against the degree and the noise
     python benchmarks/regression_density.py sampler    two-sample tests of the samplers
     python benchmarks/regression_density.py intercepts lines that do not meet at the mean of x
     python benchmarks/regression_density.py unequal    unequal weights, slopes and intercepts
     python benchmarks/regression_density.py bounds     the bounds on both errors

Three regressors of one norm in five features and noise of standard deviation 1: "signal" is the
norm. The total variation distance is E_F[(1 − H/F)_+] over new samples of the truth F, with its
standard error; ranges are over seeds. EM is the mixture of regressions with a common
noise, implemented below; started at the truth it is the best possible fit of the model.
"""

from __future__ import annotations

import argparse
import math
import platform
import warnings
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import scipy
import sklearn
from scipy import stats
from scipy.special import logsumexp

import implicitmoments
from implicitmoments import AssumptionWarning, RegressionMixtureDensity
from implicitmoments.arrays import Floats
from implicitmoments.datasets import make_regression_mixture
from implicitmoments.density.regression_density import RegressionFrame
from implicitmoments.density.regression_expansion import hermite_values

K, D, N = 3, 5, 100_000
SETTINGS = ((1.0, 8), (0.3, 6))  # signal, degree
FRESH = 100_000
DRAWS = 10_000


@dataclass(frozen=True)
class Regressions:
    """A mixture of regressions on a standard Gaussian design.

    Attributes
    ----------
    weights : array of shape (k,)
    vectors : array of shape (k, d)
    noise : float
    intercepts : array of shape (k,), or 0
    """

    weights: Floats
    vectors: Floats
    noise: float
    intercepts: Floats | float = 0.0

    def log_joint(self, X: Floats, y: Floats) -> Floats:
        """Return the logarithm of weight times density of y for every component, (n, k)."""
        apart = (y[:, None] - X @ self.vectors.T - self.intercepts) / self.noise
        logs: Floats = np.log(self.weights) - apart**2 / 2 - np.log(self.noise)
        return logs

    def log_density(self, X: Floats, y: Floats) -> Floats:
        """Return the logarithm of the density of (x, y)."""
        constant = (X.shape[1] + 1) / 2 * np.log(2 * np.pi)
        joint = self.log_joint(X, y)
        logs: Floats = logsumexp(joint, axis=1) - np.sum(X**2, axis=1) / 2 - constant
        return logs

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return n rows and labels."""
        labels = rng.choice(len(self.weights), size=n, p=self.weights)
        X = rng.normal(size=(n, self.vectors.shape[1]))
        y = np.sum(X * self.vectors[labels], axis=1) + self.noise * rng.normal(size=n)
        return X, y + np.broadcast_to(self.intercepts, len(self.weights))[labels]

    def truncated(self, X: Floats, y: Floats, frame: RegressionFrame, degree: int) -> Floats:
        r"""Return F/G, exactly, less its orders above a degree, at rows with a standard design.

        A line :math:`c + \beta \cdot x` in the frame has the coefficient :math:`\|\beta\|^a
        \eta_r / (a! r!)` of :math:`He_a(u) He_{a+r}(z)`, u the coordinate of x along it.
        """
        z = frame.standard(X, y)[1]
        slopes = (self.vectors - frame.slope) / frame.scale
        intercepts = (self.intercepts - frame.intercept + 0 * self.weights) / frame.scale
        of_label, found = hermite_values(z, degree), np.zeros(len(X))
        for weight, slope, shift in zip(self.weights, slopes, intercepts, strict=True):
            norm = float(np.linalg.norm(slope))
            excess = norm**2 + (self.noise / frame.scale) ** 2 - 1
            eta = [1.0, float(shift)]  # E[He_r(z)]
            for r in range(2, degree + 1):
                eta.append(shift * eta[-1] + (r - 1) * excess * eta[-2])
            along = hermite_values(X @ slope / max(norm, 1e-300), degree // 2)
            for a in range(degree // 2 + 1):
                for r in range(degree - 2 * a + 1):
                    factor = norm**a * eta[r] / (math.factorial(a) * math.factorial(r))
                    found += weight * factor * along[a] * of_label[a + r]
        return found

    def wrong(self) -> tuple[Regressions, Regressions]:
        """Return two other mixtures.

        With regressors reflected at their mean all second moments agree; with one column of the
        wrong sign, the longest of the mean, they do not.
        """
        middle = self.weights @ self.vectors
        signs = np.ones(len(middle))
        signs[np.argmax(np.abs(middle))] = -1
        return (
            Regressions(self.weights, 2 * middle - self.vectors, self.noise),
            Regressions(self.weights, self.vectors * signs, self.noise),
        )


def em(X: Floats, y: Floats, start: Regressions, n_iter: int = 200) -> Regressions:
    """Run EM from a start."""
    model, before = start, -np.inf
    for _ in range(n_iter):
        joint = model.log_joint(X, y)
        norm = logsumexp(joint, axis=1)
        R = np.exp(joint - norm[:, None])
        vectors = np.stack([np.linalg.solve((X * r[:, None]).T @ X, X.T @ (r * y)) for r in R.T])
        square = float(np.sum(R * (y[:, None] - X @ vectors.T) ** 2)) / len(y)
        model = Regressions(R.mean(axis=0), vectors, float(np.sqrt(square)))
        now = float(norm.mean())
        if now - before < 1e-8:
            break
        before = now
    return model


def random_start(X: Floats, y: Floats, seed: int) -> Regressions:
    """Return random regressors about the line of least squares."""
    line = np.linalg.lstsq(X, y, rcond=None)[0]
    spread = float(np.std(y - X @ line))
    vectors = line + spread * np.random.default_rng(seed).normal(size=(K, X.shape[1])) / 2
    return Regressions(np.full(K, 1 / K), vectors, spread)


def data(n: int, signal: float, seed: int, noise: float = 1.0) -> tuple[Floats, Floats, Any]:
    """Return rows, labels and the truth."""
    X, y, truth = make_regression_mixture(n, K, D, radius=signal, noise=noise, random_state=seed)
    return X, y, Regressions(truth.weights, truth.vectors, noise)


def fitted(X: Floats, y: Floats, **options: Any) -> tuple[RegressionMixtureDensity, float]:
    """Return a model and the seconds it took."""
    clock = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        model = RegressionMixtureDensity(K, random_state=0, **options).fit(X, y)
    return model, perf_counter() - clock


def distance(log_hypothesis: Floats, log_truth: Floats) -> tuple[float, float]:
    """Return the total variation distance at rows of the truth, and its standard error."""
    short = np.maximum(0.0, 1.0 - np.exp(log_hypothesis - log_truth))
    return float(short.mean()), float(short.std() / np.sqrt(len(short)))


def versions() -> str:
    """Return the name of a method."""
    names = (implicitmoments, np, scipy, sklearn)
    return f"Python {platform.python_version()}, " + ", ".join(
        f"{module.__name__} {module.__version__}" for module in names
    )


def distance_table(n_seeds: int, n: int) -> None:
    """Print distances and seconds of every method, and of EM."""
    print(f"d = {D}, k = {K}, noise 1, N = {n:,}, {n_seeds} seeds; {versions()}")
    print("| signal | method | total variation (range) | standard error | seconds |")
    print("|---" * 5 + "|")
    paper = {"fit_intercept": False, "whiten": False}
    for signal, degree in SETTINGS:
        ways: dict[str, dict[str, Any]] = {
            f"degree {degree}": {"degree": degree},
            f"degree {degree}, known design, no intercepts": {"degree": degree, **paper},
            f"degree {degree}, contracted": {"degree": degree, "method": "contracted", **paper},
            "degree cv": {"degree": "cv"},
            "degree 4, paper": {"degree": 4, "method": "paper", "n_draws": 20, **paper},
        }
        found: dict[str, list[tuple[float, float, float]]] = {}
        for seed in range(n_seeds):
            X, y, truth = data(n, signal, seed)
            fresh = truth.draw(FRESH, np.random.default_rng(seed))
            log_truth = truth.log_density(*fresh)
            for name, options in ways.items():
                model, seconds = fitted(X, y, **options)
                tv = distance(model.score_samples(*fresh), log_truth)
                found.setdefault(name, []).append((*tv, seconds))
            for name, start in (("truth", truth), ("random", random_start(X, y, seed))):
                clock = perf_counter()
                other = em(X, y, start)
                seconds = perf_counter() - clock
                tv = distance(other.log_density(*fresh), log_truth)
                found.setdefault(f"EM from {name} start", []).append((*tv, seconds))
        for name, results in found.items():
            values, errors, taken = (list(c) for c in zip(*results, strict=True))
            spread = f"{min(values):.4f}–{max(values):.4f}"
            print(
                f"| {signal} | {name} | {np.mean(values):.4f} ({spread})"
                f" | {max(errors):.4f} | {np.median(taken):.2f} |",
                flush=True,
            )


def degree_table(n_seeds: int, n: int) -> None:
    """Print distances by degree and noise."""
    columns: list[int | str] = [2, 4, 6, 8, 10, 12, "cv"]
    print(f"d = {D}, k = {K}, norm 1, N = {n:,}, medians of {n_seeds} seeds; {versions()}")
    print("| noise | " + " | ".join(f"degree {c}" for c in columns) + " | said at cv |")
    print("|---" * (len(columns) + 2) + "|")
    for noise in (2.0, 1.0, 0.7, 0.5, 0.3, 0.1):
        cells, said = [], 0
        for degree in columns:
            values = []
            for seed in range(n_seeds):
                X, y, truth = data(n, 1.0, seed, noise)
                fresh = truth.draw(20_000, np.random.default_rng(seed))
                model, _ = fitted(X, y, degree=degree)
                values.append(distance(model.score_samples(*fresh), truth.log_density(*fresh))[0])
                said += degree == "cv" and bool(model.notes_)
            cells.append(f"{np.median(values):.3f}")
        print(f"| {noise} | " + " | ".join(cells) + f" | {said} of {n_seeds} |", flush=True)


def p_value(
    one: tuple[Floats, Floats],
    other: tuple[Floats, Floats],
    truth: Regressions,
    wrong: Regressions,
) -> float:
    """Compare two samples by the log-likelihood ratio of the truth and a wrong mixture."""
    first, second = (truth.log_density(*Z) - wrong.log_density(*Z) for Z in (one, other))
    return float(stats.ks_2samp(first, second).pvalue)


def sampler_table(n_seeds: int, n: int) -> None:
    """Print two-sample tests against the truth and against two wrong mixtures."""
    print(f"{DRAWS:,} draws after a fit to {n:,} rows. Wrong mixtures: regressors reflected at")
    print(f"their mean, or with one column of the wrong sign. {versions()}")
    print("| signal | seed | draws | p, truth | p, reflected | p, sign | accepted | seconds |")
    print("|---" * 8 + "|")
    for signal, degree in SETTINGS:
        for seed in range(n_seeds):
            X, y, truth = data(n, signal, seed)
            model, _ = fitted(X, y, degree=degree)
            rng = np.random.default_rng(1_000 + seed)
            points = truth.draw(DRAWS, rng)[0]
            for name in ("(x, y)", "y given x"):
                clock = perf_counter()
                joint = name == "(x, y)"
                drawn = model.sample(DRAWS) if joint else (points, model.sample_y(points)[:, 0])
                seconds = perf_counter() - clock
                fresh = truth.draw(DRAWS, rng)
                right = min(p_value(drawn, fresh, truth, wrong) for wrong in truth.wrong())
                others = [p_value(drawn, w.draw(DRAWS, rng), truth, w) for w in truth.wrong()]
                rate = f"{model.stats_['acceptance_rate']:.3f}" if joint else ""
                print(
                    f"| {signal} | {seed} | {name} | {min(1.0, 2 * right):.2g} "
                    f"| {others[0]:.2g} | {others[1]:.2g} | {rate} | {seconds:.2f} |",
                    flush=True,
                )


def intercept_rows(n: int, c: float, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Return rows, labels and log densities of the lines ±(c + x_0 / 2) with noise 1."""
    X = rng.normal(size=(n, 2))
    middle = c + X[:, 0] / 2
    y = np.where(rng.integers(0, 2, n), middle, -middle) + rng.normal(size=n)
    logs = np.logaddexp(-((y - middle) ** 2) / 2, -((y + middle) ** 2) / 2) - np.log(2)
    return X, y, logs - np.sum(X**2, axis=1) / 2 - 1.5 * np.log(2 * np.pi)


def off_centre_rows(
    n: int, mean: float, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Return the same of three lines through 0, of norm 1 in 4-d, where x has this mean."""
    vectors = np.random.default_rng(int(mean)).normal(size=(3, 4))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    truth = Regressions(np.full(3, 1 / 3), vectors, 1.0)
    X = rng.normal(size=(n, 4)) + mean
    y = np.sum(X * vectors[rng.integers(0, 3, n)], axis=1) + rng.normal(size=n)
    # the design is standard about its mean
    shifted = truth.log_density(X, y) + np.sum(X**2 - (X - mean) ** 2, axis=1) / 2
    return X, y, shifted


def intercept_table(n_seeds: int, n: int) -> None:
    """Print distances where intercepts differ, by their size or by the mean of x."""
    print(f"N = {n:,}, {n_seeds} seeds; {versions()}")
    print("| rows | degree | total variation (range) | chosen | bound given | said | seconds |")
    print("|---" * 7 + "|")
    cases: list[tuple[str, int, Any, float]]
    cases = [(f"intercepts ±{c:g}", 2, intercept_rows, c) for c in (0.0, 1.0, 1.5, 2.5)]
    cases += [(f"x of mean {m:g}", 3, off_centre_rows, m) for m in (0.0, 2.0)]
    for name, k, make, size in cases:
        for degree in (6, "cv"):
            bounds, said = 0, 0
            values: list[float] = []
            chosen: list[int] = []
            taken: list[float] = []
            for seed in range(n_seeds):
                rng = np.random.default_rng(seed)
                X, y, _ = make(n, size, rng)
                *fresh, log_truth = make(FRESH // 2, size, rng)
                clock = perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", AssumptionWarning)
                    model = RegressionMixtureDensity(k, degree=degree, random_state=0).fit(X, y)
                taken.append(perf_counter() - clock)
                values.append(distance(model.score_samples(*fresh), log_truth)[0])
                chosen.append(model.degree_)
                bounds += "truncation_error" in model.stats_
                said += bool(model.notes_)
            spread = f"{np.mean(values):.3f} ({min(values):.3f}–{max(values):.3f})"
            print(
                f"| {name} | {degree} | {spread} | {min(chosen)}–{max(chosen)} | {bounds} of "
                f"{n_seeds} | {said} of {n_seeds} | {np.median(taken):.1f} |",
                flush=True,
            )


def random_lines(rng: np.random.Generator, *, intercepts: bool) -> Regressions:
    """Return two to five lines: weights above 0.03, slopes up to 1.2, noise from 0.5 to 1.2."""
    k, d = int(rng.integers(2, 6)), int(rng.integers(1, 7))
    weights = rng.dirichlet(np.ones(k)) * (1 - 0.03 * k) + 0.03
    vectors = rng.normal(size=(k, d))
    vectors *= (rng.uniform(0, 1.2, size=k) / np.linalg.norm(vectors, axis=1))[:, None]
    shifts = rng.uniform(-1, 1, size=k) if intercepts else np.zeros(k)
    return Regressions(weights, vectors, float(rng.uniform(0.5, 1.2)), shifts)


def bound_table(n_seeds: int, n: int) -> None:
    """Print bounds over distances of the truncated truth and of the fit, in random mixtures."""
    print(f"N = {n:,}, {n_seeds} random mixtures a line, noise given; {versions()}")
    print("truncation_error over the distance of the truncated truth, and of the fitted density,")
    print("and distance_bound over the latter: how often it is above, and the median ratio.")
    print("| lines | degree | above the truncation | ratio | above the density | ratio ", end="")
    print("| sum above the density | ratio | seconds |")
    print("|---" * 9 + "|")
    for intercepts in (False, True):
        for degree in (4, 8):
            ratios: list[tuple[float, float, float, float]] = []
            for seed in range(n_seeds):
                rng = np.random.default_rng([seed, intercepts])
                truth = random_lines(rng, intercepts=intercepts)
                X, y = truth.draw(n, rng)
                fresh = truth.draw(20_000, rng)
                clock = perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", AssumptionWarning)
                    model = RegressionMixtureDensity(
                        len(truth.weights),
                        degree=degree,
                        noise=truth.noise,
                        fit_intercept=intercepts,
                        whiten=False,
                        random_state=0,
                    ).fit(X, y)
                seconds = perf_counter() - clock
                bound, exact = model.stats_["truncation_error"], truth.log_density(*fresh)
                frame = model.hypothesis_.frame
                log_g = frame.log_density(np.column_stack(fresh))
                cut = truth.truncated(*fresh, frame, model.degree_) * np.exp(log_g - exact)
                short = float(np.mean(np.maximum(0.0, 1.0 - cut)))
                whole = distance(model.score_samples(*fresh), exact)[0]
                both = model.stats_["distance_bound"] / whole
                ratios.append((bound / max(short, 1e-12), bound / whole, both, seconds))
            cells = []
            for column in list(zip(*ratios, strict=True))[:3]:
                above, values = sum(r >= 1 for r in column), np.sort(column)
                cells.append(
                    f"{above} of {n_seeds} | {np.median(values):.1f} (least {values[0]:.2f})"
                )
            name = "with intercepts" if intercepts else "through the mean of x"
            taken = float(np.median([seconds for *_, seconds in ratios]))
            print(f"| {name} | {degree} | {' | '.join(cells)} | {taken:.1f} |", flush=True)


def unequal_table(n_seeds: int, n: int) -> None:
    """Print distances by degree and number of rows where lines differ in weight and slope."""
    one = np.eye(3)
    cases = {
        "weights .95, .05; slopes 0, 1; noise .5": Regressions(
            np.array([0.95, 0.05]), np.stack([0 * one[0], one[0]]), 0.5
        ),
        "weights .5, .3, .2; slopes .2, .6, 1.2; noise .7": Regressions(
            np.array([0.5, 0.3, 0.2]), np.stack([0.2 * one[0], -0.6 * one[1], 1.2 * one[2]]), 0.7
        ),
        "weights .7, .3; slopes .3, 1; intercepts 0, 1; noise .7": Regressions(
            np.array([0.7, 0.3]), np.stack([0.3 * one[0], one[1]]), 0.7, np.array([0.0, 1.0])
        ),
    }
    degrees: list[int | str] = [2, 4, 8, 12, 16, "auto"]
    print(f"Medians of {n_seeds} seeds; {versions()}")
    print("| lines | N | " + " | ".join(f"degree {c}" for c in degrees) + " |")
    print("|---" * (len(degrees) + 2) + "|")
    for name, truth in cases.items():
        own = bool(np.any(truth.intercepts))
        for rows in (n // 10, n):
            cells = []
            for degree in degrees:
                found = []
                for seed in range(n_seeds):
                    rng = np.random.default_rng(seed)
                    X, y = truth.draw(rows, rng)
                    fresh = truth.draw(50_000, rng)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", AssumptionWarning)
                        model = RegressionMixtureDensity(
                            len(truth.weights),
                            degree=degree,
                            max_degree=16,
                            noise=truth.noise,
                            fit_intercept=own,
                            whiten=False,
                            random_state=0,
                        ).fit(X, y)
                    bound = model.stats_["truncation_error"]
                    tv = distance(model.score_samples(*fresh), truth.log_density(*fresh))[0]
                    found.append((tv, bound, model.degree_))
                tv, bound, chosen = np.median(found, axis=0)
                shown = f" at {chosen:.0f}" if degree == "auto" else ""
                cells.append(f"{tv:.3f} (≤ {bound:.3f}){shown}")
            print(f"| {name} | {rows:,} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    tables = {
        "distance": distance_table,
        "degrees": degree_table,
        "sampler": sampler_table,
        "intercepts": intercept_table,
        "unequal": unequal_table,
        "bounds": bound_table,
    }
    parser.add_argument("table", choices=list(tables))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=N)
    arguments = parser.parse_args()
    tables[arguments.table](arguments.seeds, arguments.rows)


if __name__ == "__main__":
    main()
