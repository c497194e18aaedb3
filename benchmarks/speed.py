"""Time of a fit beside one start of scikit-learn's EM and KMeans, on one thread.

Run: python benchmarks/speed.py mixtures [--seeds 3] [--first 7000] [--jobs 2] [--sizes 25x10 ...]
     python benchmarks/speed.py growth   [--seeds 1]
     python benchmarks/speed.py large    [--seeds 1]
     python benchmarks/speed.py full     [--seeds 3]
     python benchmarks/speed.py codebooks
     python benchmarks/speed.py startup

mixtures: SphericalMixture, GaussianMixture (spherical) and KMeans of scikit-learn with one start,
all on the same rows in one process. growth: the same for sizes that grow in k, in d and in N, with
the exponent of the time. large: 1,000 components. full: GaussianMixture with full covariances.
codebooks: 200 components for the digits of scikit-learn. startup: processor time of the import of
an estimator and of each command, beside the import of sklearn.mixture.

Means are Gaussian, at least 4 deviations of the noise apart (5 from three features on), weights
between 1 and 3 times the least. A mean is found if the fit has one within 0.5 deviations of it, or
within 1.5 times the error of the mean of the rows of the lightest component, matched one to one.
Seconds are medians over seeds of the wall clock on one thread; "found" is the number of data sets
in which every mean was found.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

import startup

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Size:
    """Components, features, rows, and the shape of the covariances."""

    k: int
    d: int
    n: int
    shape: str = "spherical"

    @property
    def name(self) -> str:
        """Components and features."""
        return f"{self.k}x{self.d}"

    @property
    def close(self) -> float:
        """Distance within which a mean is found."""
        return max(0.5, 1.5 * float(np.sqrt(2 * self.d * self.k / self.n)))

    def draw(self, seed: int) -> tuple[Floats, Floats]:
        """Return rows and means."""
        rng = np.random.default_rng([seed, self.k, self.d, self.n])
        means = separated(self.k, self.d, 4.0 if self.d < 3 else 5.0, rng)
        weights = rng.uniform(1, 3, self.k)
        labels = rng.choice(self.k, self.n, p=weights / weights.sum())
        noise = rng.normal(size=(self.n, self.d))
        if self.shape == "full":  # deviations between 1/2 and 1, so that means stay apart
            for i in range(self.k):
                axes = np.linalg.qr(rng.normal(size=(self.d, self.d)))[0]
                own = labels == i
                noise[own] = noise[own] * rng.uniform(0.5, 1.0, self.d) @ axes
        return means[labels] + noise, means


def separated(k: int, d: int, apart: float, rng: np.random.Generator) -> Floats:
    """Draw Gaussian means that are at least ``apart`` from one another."""
    scale, means = apart / np.sqrt(2 * d), np.empty((0, d))
    while len(means) < k:
        for _ in range(100):
            new = scale * rng.normal(size=d)
            if len(means) == 0 or np.min(np.sum((means - new) ** 2, axis=1)) >= apart**2:
                means = np.vstack([means, new])
                break
        else:
            scale, means = 1.05 * scale, 1.05 * means
    return means


MIXTURES = [
    Size(25, 10, 30_000),
    Size(45, 25, 50_000),
    Size(80, 40, 80_000),
    Size(150, 30, 100_000),
    Size(200, 64, 200_000),
    Size(400, 50, 200_000),
    Size(100, 256, 40_000),
    Size(20, 768, 20_000),
    Size(64, 3, 40_000),
    Size(30, 2, 20_000),
]
FULL = [Size(30, 10, 60_000, "full"), Size(15, 30, 60_000, "full"), Size(50, 20, 100_000, "full")]
LARGE = [Size(1_000, 64, 400_000)]
BASE = Size(60, 30, 60_000)
GROWTH = {
    "N": [Size(60, 30, n) for n in (60_000, 120_000, 240_000, 480_000)],
    "d": [Size(60, d, 60_000) for d in (64, 128, 256, 512)],
    "k": [Size(k, 30, 100_000) for k in (60, 120, 240, 480)],
}


def n_found(found: Floats, size: Size, means: Floats) -> int:
    """Count the means that have one of the fit within the distance, matched one to one."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415
    from scipy.spatial.distance import cdist  # noqa: PLC0415

    distances = cdist(means, found)
    i, j = linear_sum_assignment(np.minimum(distances, 10.0))
    return int(np.sum(distances[i, j] <= size.close))


def methods(size: Size, seed: int) -> dict[str, Any]:
    """Return the fits that are timed."""
    from sklearn.cluster import KMeans  # noqa: PLC0415
    from sklearn.mixture import GaussianMixture as Peer  # noqa: PLC0415

    import implicitmoments as im  # noqa: PLC0415

    peer = Peer(size.k, covariance_type=size.shape, random_state=seed)
    if size.shape == "full":
        return {"ours": im.GaussianMixture(size.k, random_state=seed), "EM": peer}
    means = KMeans(size.k, n_init=1, random_state=seed)
    return {"ours": im.SphericalMixture(size.k, random_state=seed), "EM": peer, "KMeans": means}


def run_one(job: tuple[Size, int, tuple[str, ...]]) -> dict[str, tuple[float, int]]:
    """Return seconds and means found of each method."""
    warnings.simplefilter("ignore")
    size, seed, which = job
    X, means = size.draw(seed)
    results = {}
    for name, model in methods(size, seed).items():
        if name not in which:
            continue
        clock = perf_counter()
        model.fit(X)
        seconds = perf_counter() - clock
        centres = model.cluster_centers_ if name == "KMeans" else model.means_
        results[name] = seconds, n_found(centres, size, means)
        if name == "ours":
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
            results["peak"] = peak, 0
    return results


def measure(sizes: list[Size], options: argparse.Namespace) -> dict[Size, Floats]:
    """Print a row for each size; return the seconds of our fits."""
    seeds = range(options.first, options.first + options.seeds)
    jobs = [(size, seed, tuple(options.methods)) for size in sizes for seed in seeds]
    # the longest first
    order = sorted(range(len(jobs)), key=lambda i: -jobs[i][0].k * jobs[i][0].n * jobs[i][0].d)
    context = get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context, max_tasks_per_child=1) as pool:
        futures = {i: pool.submit(run_one, jobs[i]) for i in order}
        print(
            "| k | d | rows | ours, s | one EM start, s | KMeans, s | ratio to EM (least, most)",
            end="",
        )
        print(" | found: ours, EM, KMeans | peak, GB |\n" + "|---" * 9 + "|")
        seconds = {}
        for at, size in enumerate(sizes):
            done = [futures[at * len(seeds) + j].result() for j in range(len(seeds))]
            seconds[size] = np.array([each["ours"][0] for each in done])
            print(row_of(size, done), flush=True)
    return seconds


def row_of(size: Size, done: list[dict[str, tuple[float, int]]]) -> str:
    """Return one row of the table."""

    def median(name: str) -> str:
        values = [each[name][0] for each in done if name in each]
        return f"{np.median(values):.2f}" if values else ""

    ratios = [each["ours"][0] / each["EM"][0] for each in done if "EM" in each]
    ratio = f"{np.median(ratios):.2f} ({min(ratios):.2f}, {max(ratios):.2f})" if ratios else ""
    found = ", ".join(
        f"{sum(each[name][1] == size.k for each in done)} of {len(done)}"
        for name in ("ours", "EM", "KMeans")
        if name in done[0]
    )
    times = " | ".join(median(name) for name in ("ours", "EM", "KMeans"))
    return f"| {size.k} | {size.d} | {size.n:,} | {times} | {ratio} | {found} | {median('peak')} |"


def grow(options: argparse.Namespace) -> None:
    """Print a table for each direction of growth, and its exponent."""
    for name, sizes in GROWTH.items():
        seconds = measure(sizes, options)
        grown = [getattr(size, name.lower()) for size in sizes]
        medians = [np.median(seconds[size]) for size in sizes]
        slope = np.polyfit(np.log(grown), np.log(medians), 1)[0]
        last = np.log(medians[-1] / medians[-2]) / np.log(grown[-1] / grown[-2])
        print(f"exponent in {name}: {slope:.2f}, between the last two {last:.2f}\n", flush=True)


def codebooks(options: argparse.Namespace) -> None:
    """Print distortion and seconds of 200 components on the digits of scikit-learn."""
    from sklearn.cluster import KMeans  # noqa: PLC0415
    from sklearn.datasets import load_digits  # noqa: PLC0415

    import implicitmoments as im  # noqa: PLC0415

    X = load_digits().data
    print("| seed | ours, s | KMeans, s | distortion of ours over KMeans |\n|---|---|---|---|")
    for seed in range(options.first, options.first + options.seeds):
        times, distortions = [], []
        for model in (
            im.SphericalMixture(200, random_state=seed),
            KMeans(200, n_init=1, random_state=seed),
        ):
            clock = perf_counter()
            model.fit(X)
            times.append(perf_counter() - clock)
            centres = model.means_ if hasattr(model, "means_") else model.cluster_centers_
            squared = ((X[:, None, :] - centres[None]) ** 2).sum(axis=2)
            distortions.append(float(squared.min(axis=1).mean()))
        ratio = distortions[0] / distortions[1]
        print(f"| {seed} | {times[0]:.2f} | {times[1]:.2f} | {ratio:.3f} |", flush=True)


def main() -> None:
    """Print the table of a kind."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "kind", choices=["mixtures", "growth", "large", "full", "codebooks", "startup"]
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=7_000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--sizes", nargs="*", default=[], help="such as 25x10: only these")
    parser.add_argument("--methods", nargs="*", default=["ours", "EM", "KMeans"])
    options = parser.parse_args()
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    print(f"{machine}, one thread per fit, {options.jobs} at once\n")
    sizes = {"mixtures": MIXTURES, "large": LARGE, "full": FULL}.get(options.kind, [])
    if options.kind == "growth":
        grow(options)
    elif options.kind == "codebooks":
        codebooks(options)
    elif options.kind == "startup":
        startup.measure()
    else:
        measure(
            [each for each in sizes if not options.sizes or each.name in options.sizes], options
        )


if __name__ == "__main__":
    if os.environ.get("OMP_NUM_THREADS") != "1":  # read when the libraries are loaded
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **one})
    main()
