"""Hidden Markov models of hmmlearn from three starts, on held-out rows.

``python benchmarks/hmm_start.py`` prints the table of docs/start.md. Needs hmmlearn (extra
``bench``).
"""

from __future__ import annotations

import argparse
import logging
import warnings
from collections.abc import Callable
from time import process_time
from typing import Any, TypeAlias

import numpy as np
from hmmlearn import hmm
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

import implicitmoments as im

K, D = 20, 8
ROWS = 4_000  # to fit, and as many to hold out
STAY = 0.6  # probability of the most probable transition of a state
FOUND = 0.5  # a state is found if a mean is within this distance, for unit variances
# of the states: standard deviation of their means, and of the logarithms of their variances
CASES = {
    "apart, unit variances": (1.5, 0.0),
    "apart, variances differ": (1.5, 1.0),
    "overlapping, unit variances": (1.0, 0.0),
}
ITERATIONS, TOL = 40, 1e-5  # of EM; the tolerance is per row

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Labels: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


def make_chain(seed: int, spread: float, differ: float) -> tuple[hmm.GaussianHMM, Floats]:
    """Return a random model, and the rows of one long sequence."""
    rng = np.random.default_rng(seed)
    truth = hmm.GaussianHMM(K, "diag")
    truth.startprob_ = np.full(K, 1 / K)
    truth.transmat_ = STAY * np.eye(K)[rng.permutation(K)] + (1 - STAY) * rng.dirichlet(
        np.full(K, 0.3), size=K
    )
    truth.means_ = spread * rng.normal(size=(K, D))
    truth.covars_ = np.exp(differ * rng.normal(size=(K, D)))
    X, _ = truth.sample(2 * ROWS, random_state=seed)
    return truth, X


def count_pairs(labels: Labels) -> Floats:
    """Return a transition matrix from the states of consecutive rows."""
    counts = np.ones((K, K))
    np.add.at(counts, (labels[:-1], labels[1:]), 1.0)
    shares: Floats = counts / counts.sum(axis=1, keepdims=True)
    return shares


def begin_default(X: Floats, seed: int) -> hmm.GaussianHMM:  # noqa: ARG001
    """Return hmmlearn's own start: means by k-means, one covariance, random transitions."""
    return hmm.GaussianHMM(K, "diag", random_state=seed, n_iter=ITERATIONS, tol=TOL * ROWS)


def begin(means: Floats, variances: Floats, weights: Floats) -> hmm.GaussianHMM:
    """Return a model with given states, whose transitions do not depend on the state yet."""
    model = hmm.GaussianHMM(K, "diag", init_params="", n_iter=ITERATIONS, tol=TOL * ROWS)
    model.startprob_ = weights
    model.transmat_ = np.tile(weights, (K, 1))
    model.means_, model.covars_ = means, variances
    return model


def begin_k_means(X: Floats, seed: int) -> hmm.GaussianHMM:
    """Return the clusters of k-means, with transitions from pairs of labels."""
    found = KMeans(K, n_init=10, random_state=seed).fit(X)
    groups = [X[found.labels_ == i] for i in range(K)]
    variances = np.array([group.var(axis=0) + 1e-3 for group in groups])
    weights = np.array([len(group) / len(X) for group in groups])
    model = begin(found.cluster_centers_, variances, weights)
    model.transmat_ = count_pairs(found.labels_)
    return model


def begin_ours(X: Floats, seed: int) -> hmm.GaussianHMM:
    """Return the components of a mixture, with transitions from pairs of predicted states."""
    found = im.start(X, K, covariance_type="diag", random_state=seed)
    means, weights, precisions = map(np.asarray, found)
    model = begin(means, 1 / precisions, weights)
    model.transmat_ = count_pairs(model.predict(X))
    return model


STARTS: dict[str, Callable[[Floats, int], hmm.GaussianHMM]] = {
    "hmmlearn, default": begin_default,
    "k-means, 10 starts, and pair counts": begin_k_means,
    "`im.start` and pair counts": begin_ours,
}


def states_found(model: hmm.GaussianHMM, truth: hmm.GaussianHMM) -> int:
    """Return how many true means have an estimated mean of their own nearby."""
    scales = np.sqrt(np.array([np.diag(each) for each in truth.covars_]).mean(axis=0))
    distances = cdist(truth.means_ / scales, model.means_ / scales)
    own = linear_sum_assignment(distances)
    return int(np.sum(distances[own] < FOUND))


def measure(seed: int, case: str) -> dict[str, tuple[float, float, float]]:
    """Return, by start: held-out likelihood less that of the truth, states found, seconds."""
    truth, X = make_chain(seed, *CASES[case])
    rows, held_out = X[:ROWS], X[ROWS:]
    best = truth.score(held_out)
    found: dict[str, tuple[float, float, float]] = {}
    for name, start in STARTS.items():
        clock = process_time()
        model = start(rows, seed).fit(rows)
        seconds = process_time() - clock
        lost = (model.score(held_out) - best) / ROWS
        found[name] = (lost, states_found(model, truth), seconds)
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    logging.getLogger("hmmlearn").setLevel(logging.ERROR)  # EM may stop by its last iteration
    warnings.simplefilter("ignore", im.AssumptionWarning)
    print(
        "| states | start | held-out log-likelihood per row, less the truth's "
        "| states found of 20 | seconds |\n|---|---|---|---|---|"
    )
    for case in CASES:
        runs = [measure(seed, case) for seed in range(options.seeds)]
        for name in STARTS:
            lost, found, seconds = np.array([run[name] for run in runs]).T
            print(
                f"| {case} | {name} | {lost.mean():.3f} ({lost.min():.3f} to {lost.max():.3f})"
                f" | {found.min():.0f} to {found.max():.0f} | {seconds.mean():.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
