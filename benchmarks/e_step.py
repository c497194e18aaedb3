"""One EM pass over rows beside scikit-learn's and products alone, and the passes of a fit.

Run: OMP_NUM_THREADS=1 python benchmarks/e_step.py pass [--sizes 25x10 ...]
     OMP_NUM_THREADS=1 python benchmarks/e_step.py apart
     OMP_NUM_THREADS=1 python benchmarks/e_step.py file
     OMP_NUM_THREADS=1 python benchmarks/e_step.py fit [--sizes 25x10 ...]

pass: the data of benchmarks/speed.py, at most 40,000 rows. Nanoseconds per row and component of an
E-step with the sums of its M-step, in double and in single precision; of its two matrix products;
of scikit-learn's E-step and M-step with spherical covariances; and the share of pairs whose
responsibility is above rounding / k. apart: the same for components whose means have deviations of
so many deviations of the noise. file: the same for rows of the file of benchmarks/scale.py.
fit: passes over all rows after the search, and their share of the time of a fit.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
from sklearn.mixture import GaussianMixture as Peer

import implicitmoments as im
from implicitmoments.arrays import Floats
from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.mixture.family import GaussianFamily
from implicitmoments.mixture.gaussians import CovarianceType, Gaussians
from implicitmoments.rows import Rows
from scale import SPREAD
from speed_sizes import LARGE, MIXTURES, Size

MOST_ROWS = 40_000
APART = [(50, 10, 10), (100, 30, 5), (200, 64, 5), (1_000, 64, 5), (200, 64, 2), (25, 10, 8)]


def seconds(run: Callable[[], Any], repeats: int = 5) -> float:
    """Return the least processor time of several runs."""
    taken = []
    for _ in range(repeats):
        clock = process_time()
        run()
        taken.append(process_time() - clock)
    return min(taken)


def matter(X: Floats, means: Floats) -> float:
    """Return the share of pairs whose responsibility is above rounding / k."""
    joint = X[:2_000] @ means.T - 0.5 * np.sum(means**2, axis=1)
    least = joint.max(axis=1, keepdims=True) - np.log(len(means) / np.finfo(float).eps)
    return float(np.mean(joint >= least))


def measure(X: Floats, means: Floats) -> str:
    """Return the cells of one row of the table."""
    (n, d), k = X.shape, len(means)
    family, state = (
        GaussianFamily(CovarianceType("tied_spherical")),
        Gaussians(np.full(k, 1 / k), means, np.ones(k)),
    )
    double, single = Rows.of(X), Rows.of(X.astype(np.float32))
    block = X[:2_048]
    ours = [seconds(lambda r=r: family.e_step(r, state)) for r in (double, single)]  # type: ignore[misc]
    products = seconds(lambda: (means @ block.T) @ block) * n / len(block)
    peer = Peer(k, covariance_type="spherical", max_iter=1, means_init=means, init_params="random")
    peer.fit(X[: 20 * k])
    theirs = seconds(lambda: peer._m_step(X, peer._e_step(X)[1]), 2)
    cells = (f"{1e9 * each / n / k:.1f}" for each in (*ours, products, theirs))
    return f"| {k} | {d} | {' | '.join(cells)} | {theirs / ours[0]:.1f} | {matter(X, means):.1%} |"


def passes(sizes: list[Size]) -> None:
    """Print the passes of EM on all rows and their time."""
    print("| k | d | rows | passes | s | of the fit, s |\n" + "|---" * 6 + "|")
    for size in sizes:
        X, _ = size.draw(9_000)
        clock = process_time()
        model = im.SphericalMixture(size.k, random_state=0).fit(X)
        whole, n_passes = process_time() - clock, model.n_iter_ + 1
        family, state = (
            GaussianFamily(CovarianceType("tied_spherical")),
            Gaussians(model.weights_, model.means_, np.full(size.k, model.variance_)),
        )
        one = seconds(lambda X=X, s=state, f=family: f.e_step(Rows.of(X), s), 3)  # type: ignore[misc]
        print(
            f"| {size.k} | {size.d} | {size.n:,} | {n_passes} | {n_passes * one:.2f} "
            f"| {whole:.2f} |",
            flush=True,
        )


def main() -> None:
    """Print the table of a kind."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kind", choices=["pass", "apart", "file", "fit"])
    parser.add_argument("--sizes", nargs="*", default=[], help="such as 25x10: only these")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS')}\n")
    every = [*MIXTURES, *LARGE] if options.kind == "pass" else MIXTURES
    sizes = [each for each in every if not options.sizes or each.name in options.sizes]
    if options.kind == "fit":
        passes(sizes)
        return
    print("| k | d | ours | in single | products | scikit-learn | ratio | pairs that matter |")
    print("|---" * 8 + "|")
    if options.kind == "pass":
        for size in sizes:
            X, means = Size(size.k, size.d, min(size.n, MOST_ROWS)).draw(9_000)
            print(measure(X, means), flush=True)
        return
    if options.kind == "file":
        for d in (30, 100):
            X, truth = make_spherical_mixture(MOST_ROWS, 20, d, random_state=9_000, **SPREAD)
            print(measure(X, truth.vectors), flush=True)
        return
    for k, d, apart in APART:
        rng = np.random.default_rng([k, d, apart])
        means = apart * rng.normal(size=(k, d))
        X = means[rng.integers(k, size=MOST_ROWS)] + rng.normal(size=(MOST_ROWS, d))
        print(measure(X, means), flush=True)


if __name__ == "__main__":
    main()
