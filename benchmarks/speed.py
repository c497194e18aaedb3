"""Time of a fit beside one start of scikit-learn's EM and KMeans, on one thread.

Run: python benchmarks/speed.py mixtures [--seeds 3] [--first 7000] [--jobs 2] [--sizes 25x10 ...]
     python benchmarks/speed.py growth   [--seeds 1] [--sizes d]
     python benchmarks/speed.py few      [--seeds 2]
     python benchmarks/speed.py large    [--seeds 1] [--jobs 4] [--limit 480] [--methods ours EM]
     python benchmarks/speed.py full     [--seeds 3]
     python benchmarks/speed.py readme   [--seeds 10]
     python benchmarks/speed.py codebooks [--sizes digits]
     python benchmarks/speed.py startup

mixtures: SphericalMixture, GaussianMixture (spherical) and KMeans of scikit-learn with one start,
all on the same rows in one process. growth: the same for sizes that grow in k, in d and in N, with
the exponents of the times. few: about as many rows per component as features. large: 650 and 1,000
components, each method in a process of its own, which ends after some seconds of processor time
(``--limit``); the table says what a fit was at then.
full: GaussianMixture with full covariances.
readme: the data of the README, with 24,000 and with 60,000 rows.
codebooks: 200 components for the digits and for patches of the images of scikit-learn. startup:
processor time of the import of an estimator and of each command, beside that of sklearn.mixture.

Means are Gaussian, at least 4 deviations of the noise apart (5 from three features on), weights
between 1 and 3 times the least. A mean is found if the fit has one within 0.5 deviations of it, or
within 1.5 times the error of the mean of the rows of the lightest component, matched one to one.
A process first fits 100 rows, which is not timed: to find BLAS and plugins takes 0.05 s, once.
A cell has the median seconds of processor time; the number of data sets in which every mean was
found; and the mean log-likelihood per row less that of EM from the true means, in nats: where it
is 0 the fit is as likely as EM from the truth. Rows are printed as they are known.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from time import process_time
from typing import Any, TypeAlias

import numpy as np

import startup
from speed_sizes import FEW, FULL, GROWTH, LARGE, MIXTURES, README, Size

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


BOOKS = ("digits", "patches")

TIMED = ("ours", "EM", "KMeans")
HEADS = {"ours": "ours", "EM": "one EM start", "KMeans": "KMeans"}


@dataclass(frozen=True)
class Outcome:
    """One fit: seconds, means found, mean log-likelihood per row, and the largest memory in GB.

    Seconds are infinite where the time was over before; ``at`` says what the fit was at.
    """

    seconds: float
    found: int = 0
    level: float = np.nan
    peak: float = np.nan
    at: str = ""


def n_found(found: Floats, size: Size, means: Floats) -> int:
    """Count the means that have one of the fit within the distance, matched one to one."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415
    from scipy.spatial.distance import cdist  # noqa: PLC0415

    distances = cdist(means, found)
    i, j = linear_sum_assignment(np.minimum(distances, 10.0))
    return int(np.sum(distances[i, j] <= size.close))


def methods(size: Size, seed: int, means: Floats | None = None) -> dict[str, Any]:
    """Return the fits that are timed, and EM from the true means where these are known."""
    from sklearn.cluster import KMeans  # noqa: PLC0415
    from sklearn.mixture import GaussianMixture as Peer  # noqa: PLC0415

    import implicitmoments as im  # noqa: PLC0415

    full = size.shape == "full"
    shape = "full" if full else "spherical"
    kind = "full" if full else "tied_spherical"
    ours = partial(im.GaussianMixture, size.k, covariance_type=kind, random_state=seed)
    found = {
        "ours": ours() if full else im.SphericalMixture(size.k, random_state=seed),
        "EM": Peer(size.k, covariance_type=shape, random_state=seed),
        "KMeans": KMeans(size.k, n_init=1, random_state=seed),
    }
    return found if means is None else found | {"truth": ours(means_init=means)}


class OutOfTimeError(Exception):
    """Ends a fit that has had its processor time."""


def end_fit(*_: Any) -> None:
    """Handle the signal of a timer."""
    raise OutOfTimeError


def timed_fit(model: Any, X: Floats, limit: float = 0.0) -> Outcome:
    """Fit a model; the peak is that of the whole process with its rows and libraries.

    Parameters
    ----------
    limit : float
        Seconds of processor time after which the fit ends; 0 for none.
    """
    passes: Counter[str] = Counter()

    def count(what: str, done: int, total: int) -> None:
        passes[what] += done == total

    ours = type(model).__module__.startswith("implicitmoments")
    forget_peak()
    signal.signal(signal.SIGPROF, end_fit)
    signal.setitimer(signal.ITIMER_PROF, limit)
    clock = process_time()
    try:
        model.fit(X, **({"progress": count} if ours else {}))
        seconds, at = process_time() - clock, ""
    except OutOfTimeError:
        # the search has a sample, which is held: EM is the first pass of that name
        stage = f"EM, after {passes['EM']} passes" if passes["EM"] else "the search"
        seconds, at = np.inf, f"over {limit:.0f} s" + (f", in {stage}" if ours else "")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    return Outcome(seconds, peak=peak_memory(), at=at)


def forget_peak() -> None:
    """Let the largest memory of the process count from now on, where the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:  # the peak is then that of all fits so far
        return


def peak_memory() -> float:
    """Return the largest memory of the process, in GB."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e6


Job: TypeAlias = tuple[Size, int, tuple[str, ...], float]


def run_one(job: Job) -> dict[str, Outcome]:
    """Return the outcome of each method on one data set, each within a limit of seconds."""
    warnings.simplefilter("ignore")
    size, seed, which, limit = job
    warm_up(which)
    X, means = size.draw(seed)
    outcomes = {}
    for name, model in methods(size, seed, means).items():
        if name in which:
            outcomes[name] = outcome = timed_fit(model, X, limit)
            if outcome.at:
                continue
            centres = model.cluster_centers_ if name == "KMeans" else model.means_
            level = np.nan if name == "KMeans" else float(model.score(X))
            outcomes[name] = replace(outcome, found=n_found(centres, size, means), level=level)
    if "spectrum" in which:
        outcomes["spectrum"] = Outcome(time_of_spectrum(X))
    return outcomes


def warm_up(which: Iterable[str]) -> None:
    """Fit a few rows: what a process does once, such as finding its BLAS, is no part of a fit."""
    X = np.random.default_rng(0).normal(size=(100, 2))
    for name, model in methods(Size(2, *X.shape[::-1]), 0).items():
        if name in which:
            model.fit(X)


def time_of_spectrum(X: Floats) -> float:
    """Return the seconds of one pass for the covariance, and of its eigendecomposition."""
    clock = process_time()
    apart = X - X.mean(axis=0)
    np.linalg.eigh(apart.T @ apart)
    return process_time() - clock


def measure(sizes: list[Size], options: argparse.Namespace) -> dict[Size, dict[str, float]]:
    """Print a row for each size when it is known; return the median seconds of each method."""
    seeds = range(options.first, options.first + options.seeds)
    which = tuple(options.methods)
    groups = [(name,) for name in which] if options.limit else [which]
    cases = [(size, seed) for size in sizes for seed in seeds]
    jobs: list[Job] = [(*case, group, options.limit) for case in cases for group in groups]
    # several at once: the longest first; one at a time: the shortest
    jobs.sort(key=lambda job: job[0].k * job[0].d * job[0].n, reverse=options.jobs > 1)
    columns = [name for name in TIMED if name in which]
    heads = ["k", "d", "rows", *(HEADS.get(name, name) for name in columns)]
    heads += ["ratio to EM (least, most)", "peak, GB"]
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|", flush=True)
    done: dict[tuple[Size, int], dict[str, Outcome]] = {case: {} for case in cases}
    context = get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context, max_tasks_per_child=1) as pool:
        futures = {pool.submit(run_one, job): job[:2] for job in jobs}
        for future in as_completed(futures):
            size, seed = futures[future]
            done[size, seed] |= future.result()
            of_size = [done[size, each] for each in seeds]
            if all(len(each) == len(which) for each in of_size):
                print(row_of(size, of_size, columns), flush=True)
    by_size = {size: [done[size, seed] for seed in seeds] for size in sizes}
    return {
        size: {name: seconds_of(each, name) for name in (*columns, "spectrum") if name in each[0]}
        for size, each in by_size.items()
    }


def seconds_of(done: list[dict[str, Outcome]], name: str) -> float:
    """Return the median seconds of a method."""
    return float(np.median([each[name].seconds for each in done]))


def row_of(size: Size, done: list[dict[str, Outcome]], columns: Iterable[str]) -> str:
    """Return one row of the table."""
    cells = [f"{size.k}", f"{size.d}", f"{size.n:,}"]
    for name in columns:
        over = [each[name].at for each in done if each[name].at]
        if over:
            cells.append(over[0])
            continue
        found = sum(each[name].found == size.k for each in done)
        cell = f"{seconds_of(done, name):.2f} s, {found} of {len(done)}"
        if found < len(done):  # the fewest
            cell += f" ({min(each[name].found for each in done)} means)"
        apart = [each[name].level - each["truth"].level for each in done if "truth" in each]
        cells.append(f"{cell}, {np.median(apart):+.4f}" if np.isfinite(apart).any() else cell)
    both = [each for each in done if "ours" in each and "EM" in each]
    ratios = [each["ours"].seconds / each["EM"].seconds for each in both]
    ratios = [ratio for ratio in ratios if 0 < ratio < np.inf]
    peak = max((each["ours"].peak for each in done if "ours" in each), default=np.nan)
    ratio = f"{np.median(ratios):.2f} ({min(ratios):.2f}, {max(ratios):.2f})" if ratios else ""
    return f"| {' | '.join([*cells, ratio, f'{peak:.2f}'])} |"


def grow(options: argparse.Namespace) -> None:
    """Print a table for each direction of growth, and the exponents of the times.

    In d also without one pass for the covariance and its eigendecomposition, measured alone.
    """
    for name in options.sizes or GROWTH:
        sizes = GROWTH[name]
        if name == "d":
            options.methods = [*options.methods, "spectrum"]
        seconds = measure(sizes, options)
        grown = np.array([getattr(size, name.lower()) for size in sizes], dtype=float)
        timed = [each for each in TIMED if each in options.methods]
        by_method = {each: np.array([seconds[size][each] for size in sizes]) for each in timed}
        if name == "d":
            spectrum = np.array([seconds[size]["spectrum"] for size in sizes])
            by_method["ours without covariance and its spectrum"] = by_method["ours"] - spectrum
        print_exponents(name, grown, by_method)


def print_exponents(name: str, grown: Floats, by_method: Mapping[str, Floats]) -> None:
    """Print the slopes of logarithms of times: of a line through all, and of the last two."""
    for method, times in by_method.items():
        slope = np.polyfit(np.log(grown), np.log(times), 1)[0]
        last = np.log(times[-1] / times[-2]) / np.log(grown[-1] / grown[-2])
        print(f"exponent in {name}, {method}: {slope:.2f}, between the last two {last:.2f}")
    print(flush=True)


def digits() -> Floats:
    """Return the digits of scikit-learn, (1797, 64)."""
    from sklearn.datasets import load_digits  # noqa: PLC0415

    return np.asarray(load_digits().data, dtype=float)


def patches() -> Floats:
    """Return 20,000 grey patches of 8 x 8 pixels of the two images of scikit-learn."""
    from sklearn.datasets import load_sample_images  # noqa: PLC0415
    from sklearn.feature_extraction.image import extract_patches_2d  # noqa: PLC0415

    images = [image.mean(axis=2) for image in load_sample_images().images]
    cut = [
        extract_patches_2d(image, (8, 8), max_patches=10_000, random_state=0) for image in images
    ]
    return np.vstack(cut).reshape(20_000, 64)


def distortion(X: Floats, centres: Floats) -> float:
    """Return the mean squared distance of rows to the nearest centre."""
    squares = np.sum(centres**2, axis=1) - 2 * X @ centres.T
    return float(np.mean(squares.min(axis=1) + np.sum(X**2, axis=1)))


def codebooks(options: argparse.Namespace) -> None:
    """Print seconds and distortion of 200 components, over the distortion of KMeans."""
    warnings.simplefilter("ignore")
    books: dict[str, Callable[[], Floats]] = {"digits": digits, "patches": patches}
    columns = [name for name in TIMED if name in options.methods]
    heads = ["codebook, seed", *(HEADS.get(name, name) for name in columns), "peak, GB"]
    print("seconds, and distortion over that of KMeans from one start\n")
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|", flush=True)
    for name in options.sizes or BOOKS:
        X = books[name]()
        for seed in range(options.first, options.first + options.seeds):
            size = Size(200, X.shape[1], len(X))
            outcomes, distortions = {}, {}
            for each, model in methods(size, seed).items():
                if each in columns:
                    outcomes[each] = timed_fit(model, X)
                    centres = getattr(model, "cluster_centers_", None)
                    centres = model.means_ if centres is None else centres
                    distortions[each] = distortion(X, centres)
            unit = distortions.get("KMeans", 1.0)
            cells = [f"{outcomes[e].seconds:.2f} s, {distortions[e] / unit:.3f}" for e in columns]
            peak = f"{outcomes['ours'].peak:.2f}" if "ours" in outcomes else ""
            print(f"| {' | '.join([f'{name}, {seed}', *cells, peak])} |", flush=True)


def main() -> None:
    """Print the tables of a kind."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    kinds = {"mixtures": MIXTURES, "few": FEW, "large": LARGE, "full": FULL, "readme": README}
    parser.add_argument("kind", choices=[*kinds, "growth", "codebooks", "startup"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=7_000)
    parser.add_argument("--jobs", type=int, default=1, help="data sets at a time")
    limit = "seconds of processor time of a fit, each in a process of its own; 480 for large"
    parser.add_argument("--limit", type=float, default=None, help=limit)
    names = "only these: 25x10, in growth N, d or k, in codebooks digits or patches"
    parser.add_argument("--sizes", nargs="*", default=[], help=names)
    every = [*TIMED, "truth"]
    parser.add_argument("--methods", nargs="*", default=None, choices=every)
    options = parser.parse_args()
    if options.methods is None:  # parts alone cost more than the fits of a growth table
        options.methods = list(TIMED) if options.kind == "growth" else every
    if options.limit is None:
        options.limit = 480.0 if options.kind == "large" else 0.0
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    print(f"{machine}, one thread per fit, {options.jobs} at once\n")
    if options.kind == "growth":
        grow(options)
    elif options.kind == "codebooks":
        codebooks(options)
    elif options.kind == "startup":
        startup.measure()
    else:
        sizes = kinds[options.kind]
        chosen = [each for each in sizes if not options.sizes or each.name in options.sizes]
        measure(chosen, options)


if __name__ == "__main__":
    if os.environ.get("OMP_NUM_THREADS") != "1":  # read when the libraries are loaded
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **one})
    main()
