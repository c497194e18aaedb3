"""Density of a spherical mixture with means of small norm, compared with EM and k-means.

Run: python benchmarks/mixture_density.py distance   total variation distance from the truth
     python benchmarks/mixture_density.py degrees    the same against the degree and the rows
     python benchmarks/mixture_density.py sampler    two-sample tests of the sampler
     python benchmarks/mixture_density.py bound      bounds on both errors against the truth
     python benchmarks/mixture_density.py choice     degrees chosen, against the best degree

The first three have four means of one norm in ten features, the last two random instances: 2 to 6
components, weights from a Dirichlet distribution, norms up to 3. The total variation distance is
E_F[(1 − H/F)_+] over new samples of the truth F, with its standard error; ranges are over seeds.
"""

from __future__ import annotations

import argparse
import warnings
from time import perf_counter

import numpy as np
from scipy import stats

from implicitmoments import AssumptionWarning, SphericalMixtureDensity
from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.density.spherical_mixture_density import Truncation
from implicitmoments.moments.mean_span import find_span
from implicitmoments.rows import Rows
from silence.rates import Run
from spherical_peers import Floats, Spherical, peers, versions

K, D, N = 4, 10, 100_000
RADII = (1.2, 1.5, 2.0)
FRESH = 100_000
DRAWS = 10_000
DEGREES = (2, 4, 6, 8, 10, 12)


def data(n: int, radius: float, seed: int) -> tuple[Floats, Spherical]:
    """Return rows and the truth."""
    X, truth = make_spherical_mixture(n, K, D, radius=radius, random_state=seed)
    return X, Spherical(truth.weights, truth.vectors, np.ones(K))


def fitted(X: Floats, degree: int | str, k: int = K) -> tuple[SphericalMixtureDensity, float]:
    """Return a model and the seconds it took."""
    clock = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        model = SphericalMixtureDensity(k, degree=degree, random_state=0).fit(X)
    return model, perf_counter() - clock


def distance(log_hypothesis: Floats, log_truth: Floats) -> tuple[float, float]:
    """Return the total variation distance at rows of the truth, and its standard error."""
    short = np.maximum(0.0, 1.0 - np.exp(log_hypothesis - log_truth))
    return float(short.mean()), float(short.std() / np.sqrt(len(short)))


def spread(values: list[float]) -> str:
    """Write the mean and the range over seeds."""
    return f"{np.mean(values):.4f} ({min(values):.4f}–{max(values):.4f})"


def distance_table(n_seeds: int, n: int, without: list[str]) -> None:
    """Print distances and seconds of all methods."""
    print(f"d = {D}, k = {K}, N = {n:,}, {n_seeds} seeds; {versions()}")
    print("| norm of the means | method | total variation | standard error | seconds |")
    print("|---" * 5 + "|")
    for radius in RADII:
        found: dict[str, list[tuple[float, float, float]]] = {}
        degrees = []
        for seed in range(n_seeds):
            X, truth = data(n, radius, seed)
            Y, _ = truth.draw(FRESH, np.random.default_rng(seed))
            log_truth = truth.log_density(Y)
            for degree in (6, "auto", "cv"):
                model, seconds = fitted(X, degree)
                name = f"SphericalMixtureDensity, degree {degree}"
                tv = distance(model.score_samples(Y), log_truth)
                found.setdefault(name, []).append((*tv, seconds))
                if degree == "cv":
                    degrees.append(model.degree_)
            for name, fit in peers(without).items():
                other = fit(X, K, seed)
                tv = distance(other.log_density(Y), log_truth)
                found.setdefault(name, []).append((*tv, other.seconds))
        for name, rows in found.items():
            distances, errors, taken = (list(c) for c in zip(*rows, strict=True))
            print(
                f"| {radius} | {name} | {spread(distances)} | {max(errors):.4f} "
                f"| {np.median(taken):.2f} |",
                flush=True,
            )
        print(f"| {radius} | degrees chosen by cv: {degrees} | | | |", flush=True)


def degree_table(n_seeds: int) -> None:
    """Print distances by degree, rows and norm."""
    columns: list[int | str] = [2, 4, 6, 8, 10, 12, "cv"]
    print("| norm | N | " + " | ".join(f"degree {c}" for c in columns) + " |")
    print("|---" * (len(columns) + 2) + "|")
    for radius in RADII:
        for n in (1_000, 10_000, 100_000):
            cells = []
            for degree in columns:
                values = []
                for seed in range(n_seeds):
                    X, truth = data(n, radius, seed)
                    Y, _ = truth.draw(20_000, np.random.default_rng(seed))
                    model, _ = fitted(X, degree)
                    values.append(distance(model.score_samples(Y), truth.log_density(Y))[0])
                cells.append(f"{np.median(values):.3f}")
            print(f"| {radius} | {n:,} | " + " | ".join(cells) + " |", flush=True)


def p_value(X: Floats, Y: Floats, truth: Spherical, wrong: Spherical) -> float:
    """Compare two samples by the log-likelihood ratio of the truth and the wrong mixture."""
    first, second = (truth.log_density(Z) - wrong.log_density(Z) for Z in (X, Y))
    return float(stats.ks_2samp(first, second).pvalue)


def sampler_table(n_seeds: int) -> None:
    """Print two-sample tests against the truth and against its mirror image."""
    print(f"{DRAWS:,} draws; the wrong mixture is the truth reflected at its centre")
    print("| norm | seed | p against truth | p against reflection | clip | accepted | seconds |")
    print("|---" * 7 + "|")
    for radius in RADII[:2]:
        for seed in range(n_seeds):
            X, truth = data(N, radius, seed)
            center = truth.weights @ truth.means
            wrong = Spherical(truth.weights, 2 * center - truth.means, truth.variances)
            model, _ = fitted(X, "cv")
            clock = perf_counter()
            drawn = model.sample(DRAWS)
            seconds = perf_counter() - clock
            rng = np.random.default_rng(1_000 + seed)
            p = [p_value(drawn, m.draw(DRAWS, rng)[0], truth, wrong) for m in (truth, wrong)]
            print(
                f"| {radius} | {seed} | {p[0]:.2g} | {p[1]:.2g} | {model.clip_:.1f} "
                f"| {model.stats_['acceptance_rate']:.4f} | {seconds:.2f} |",
                flush=True,
            )


def random_instance(rng: np.random.Generator) -> Spherical:
    """Return a mixture of random size, weights and norms."""
    k = int(rng.integers(2, 7))
    d = k + int(rng.integers(0, 6))
    weights = rng.dirichlet(np.full(k, rng.choice([1.0, 5.0])))
    means = rng.normal(size=(k, d))
    norms = rng.uniform(0.5, 3.0) * rng.uniform(0.3, 1.0, size=k)
    means *= (norms / np.linalg.norm(means, axis=1))[:, None]
    return Spherical(weights, means, np.ones(k))


def truncations(truth: Spherical, degrees: tuple[int, ...], n: int = 40_000) -> list[float]:
    """Return half the mean of |F/G − S_n| under G, by importance sampling, at each degree."""
    center = truth.weights @ truth.means
    _, _, basis = np.linalg.svd(truth.means - center, full_matrices=False)
    means = (truth.means - center) @ basis.T
    p, wide, rng = means.shape[1], 1.2, np.random.default_rng(0)
    # half of the points are from the mixture and half from G, all a little wider
    places = np.vstack([np.zeros(p), means])
    parts = np.append(0.5, 0.5 * truth.weights)
    x = places[rng.choice(len(parts), n, p=parts)] + wide * rng.normal(size=(n, p))
    squares = ((x[:, None, :] - places) ** 2).sum(axis=2)
    proposal = np.exp(-squares / (2 * wide**2)) @ parts / wide**p
    gauss, mixture = np.exp(-squares[:, 0] / 2), np.exp(-squares[:, 1:] / 2) @ truth.weights
    u = x @ means.T
    squared = (means**2).sum(axis=1)
    # t-th term of a component: <μ^t, He_t(x)>/t!, by the recursion of Hermite polynomials
    before, term = np.zeros_like(u), np.ones_like(u)
    kept, found = term @ truth.weights, []
    for t in range(1, max(degrees) + 1):
        before, term = term, (u * term - squared * before) / t
        kept = kept + term @ truth.weights
        if t in degrees:
            found.append(float(np.mean(np.abs(mixture - kept * gauss) / proposal) / 2))
    return found


def bound_instance(given: tuple[int, int]) -> tuple[list[float], float, tuple[float, ...]]:
    """Return bounds over the truth: of truncation by degree, of the largest norm, and of a fit."""
    seed, n = given
    rng = np.random.default_rng(seed)
    truth = random_instance(rng)
    rows, k = Rows.of(truth.draw(n, rng)[0]), len(truth.weights)
    bound = Truncation(rows, find_span(rows, k, 1.0), k, seed)
    truths = truncations(truth, DEGREES)
    ratios = [bound(t) / min(v, 1.0) for t, v in zip(DEGREES, truths, strict=True)]
    lengths = np.linalg.norm(truth.means - truth.weights @ truth.means, axis=1)
    # the distance of a fitted density has sampling error too; degrees are taken in turn
    degree = DEGREES[seed % len(DEGREES)]
    Y, _ = truth.draw(20_000, rng)
    model, _ = fitted(rows.points, degree, k)
    tv, _ = distance(model.score_samples(Y), truth.log_density(Y))
    found = (model.stats_[name] / tv for name in ("truncation_error", "distance_bound"))
    return ratios, bound.largest_norm / float(lengths.max()), (degree, *found)


def bound_table(n_instances: int, n: int, jobs: int) -> None:
    """Print how often the bounds hold, and by how much they exceed the truth."""
    run = Run(range(n_instances), jobs)
    found = run.map(bound_instance, [(seed, n) for seed in run.seeds])
    ratios, norms, whole = zip(*found, strict=True)
    table, fits = np.array(ratios), np.array(whole)
    print(
        f"{n_instances} instances, N = {n:,}; the largest norm is bounded in "
        f"{int(np.sum(np.array(norms) >= 1))}, by {np.median(norms):.2f} times it in the median"
    )
    print("the truncation error against that of the truth:")
    print("| degree | bound holds | bound over truth: median | smallest | largest |")
    print("|---" * 5 + "|")
    for j, degree in enumerate(DEGREES):
        of = table[:, j]
        print(
            f"| {degree} | {int(np.sum(of >= 1))} of {n_instances} | {np.median(of):.1f} "
            f"| {of.min():.2f} | {of.max():.2g} |",
            flush=True,
        )
    print("fitted at these degrees in turn, against the distance of the fitted density:")
    print("| degree | fits | truncation_error holds | distance_bound holds | median | smallest |")
    print("|---" * 6 + "|")
    for degree in (*DEGREES, 0):
        of = fits[(fits[:, 0] == degree) | (degree == 0)]
        alone, both = (int(np.sum(of[:, j] >= 1)) for j in (1, 2))
        print(
            f"| {degree or 'all'} | {len(of)} | {alone} | {both} "
            f"| {np.median(of[:, 2]):.1f} | {of[:, 2].min():.2f} |",
            flush=True,
        )


def choice_table(n_instances: int, n: int) -> None:
    """Print the distance at the degrees chosen over that at the best degree up to 12."""
    print("| N | degree | instances | ratio: median | largest | within 1.5 |")
    print("|---" * 6 + "|")
    found: dict[str, list[float]] = {"auto": [], "cv": []}
    for seed in range(n_instances):
        rng = np.random.default_rng(1_000 + seed)
        truth = random_instance(rng)
        X = truth.draw(n, rng)[0]
        Y, _ = truth.draw(20_000, rng)
        log_truth, k = truth.log_density(Y), len(truth.weights)
        by_degree = {
            t: distance(fitted(X, t, k)[0].score_samples(Y), log_truth)[0] for t in range(2, 13, 2)
        }
        for name, ratios in found.items():
            model, _ = fitted(X, name, k)
            ratios.append(by_degree[model.degree_] / min(by_degree.values()))
    for name, ratios in found.items():
        print(
            f"| {n:,} | {name} | {n_instances} | {np.median(ratios):.2f} "
            f"| {max(ratios):.2f} | {sum(r <= 1.5 for r in ratios)} |",
            flush=True,
        )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=["distance", "degrees", "sampler", "bound", "choice"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=N)
    parser.add_argument("--jobs", type=int, default=1, help="instances of bound at a time")
    parser.add_argument("--without", nargs="*", default=[], help="peers left out, by name")
    arguments = parser.parse_args()
    if arguments.table == "distance":
        distance_table(arguments.seeds, arguments.rows, arguments.without)
    elif arguments.table == "bound":
        bound_table(arguments.seeds, arguments.rows, arguments.jobs)
    elif arguments.table == "choice":
        choice_table(arguments.seeds, arguments.rows)
    elif arguments.table == "degrees":
        degree_table(arguments.seeds)
    else:
        sampler_table(arguments.seeds)


if __name__ == "__main__":
    main()
