"""Gaussian mixtures of all covariance types against scikit-learn, mclust and EM from the truth.

For each setting and seed: log-likelihood of all rows less that of EM from the truth, in nats, and
seconds, of ``im.GaussianMixture``; of scikit-learn from one start and, with ``--ten``, from ten;
with ``--mclust`` of mclust (R) with the matching model. scikit-learn is timed with its default
tolerance, and its EM then goes on until it converges, so that its nats are those of its optimum.
``--jobs`` data sets are fitted at a time, all fits of one by one process. Run as

    OMP_NUM_THREADS=1 python benchmarks/gaussian_mixtures.py --seeds 10 --first 100 --ten

With ``--auto`` the type and the number of components are chosen: whether both are right, and where
they are not, whether their BIC is below that of EM from the truth.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from time import process_time
from typing import Any, TypeAlias

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as Peer

import implicitmoments as im
from real_fits import MODELS

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
AS_GOOD = 2.0  # nats below EM from the truth
LOST = 5.0  # nats below it, from which a fit of light components counts as lost


@dataclass(frozen=True)
class Setting:
    """A family of data sets."""

    name: str  # separated, overlapping or light
    kind: str  # covariance type
    k: int
    d: int
    n: int
    separation: float  # least Mahalanobis distance of two means
    weights: str = "equal"  # equal, zipf (exponent 0.8), zipf1.2, dirichlet or tiny

    def __str__(self) -> str:
        of = f"{self.kind} k={self.k} d={self.d} n={self.n:,} separation {self.separation}"
        return f"{self.name}: {of} {self.weights}"


SEPARATED = [
    Setting("separated", "full", 10, 5, 10_000, 3.5),
    Setting("separated", "full", 30, 10, 30_000, 3.5),
    Setting("separated", "full", 15, 30, 30_000, 3.5),
    Setting("separated", "diag", 30, 10, 30_000, 3.5),
    Setting("separated", "tied", 20, 10, 30_000, 3.5),
    Setting("separated", "tied", 40, 20, 60_000, 3.5),
    Setting("separated", "spherical", 45, 25, 50_000, 3.5),
]
OVERLAPPING = [
    Setting("overlapping", "full", 20, 3, 20_000, 2.5, "zipf"),
    Setting("overlapping", "full", 12, 2, 10_000, 2.0),
    Setting("overlapping", "full", 10, 5, 1_500, 2.5),
]
LIGHT = [
    Setting("light", kind, k, d, each * k, separation, weights)
    for kind in ("tied_spherical", "full")
    for d in (2, 3, 8)
    for k in (5, 15, 40)
    for each in (50, 200, 1_000)
    for separation in (1.5, 2.0, 3.0, 5.0)
    for weights in ("equal", "zipf1.2", "dirichlet", "tiny")
]
AUTO = [
    Setting("auto", kind, k, d, n, 3.5)
    for kind in im.mixture.gaussians.COVARIANCE_TYPES
    for k, d, n in ((3, 2, 1_500), (6, 4, 4_000), (10, 5, 10_000), (15, 8, 15_000))
]
SETTINGS = {"separated": SEPARATED, "overlapping": OVERLAPPING, "light": LIGHT}


@dataclass(frozen=True, eq=False)
class Truth:
    """Parameters of a data set: weights (k,), means (k, d) and covariances (k, d, d)."""

    weights: Floats
    means: Floats
    covariances: Floats

    def precisions(self, kind: str) -> Floats:
        """Return the precisions in the shape of ``precisions_init``."""
        whole: Any = np.linalg.inv(self.covariances)
        whole = whole[0] if kind.startswith("tied") else whole
        if kind.endswith("diag"):
            whole = np.diagonal(whole, axis1=-2, axis2=-1)
        return np.asarray(whole[..., 0, 0] if kind.endswith("spherical") else whole)


def draw(setting: Setting, seed: int) -> tuple[Floats, Truth]:
    """Draw rows, and the truth."""
    rng, k, d = np.random.default_rng([seed, 15]), setting.k, setting.d
    weights = {
        "equal": np.ones(k),
        "zipf": np.arange(1, k + 1) ** -0.8,
        "zipf1.2": np.arange(1, k + 1) ** -1.2,
        "dirichlet": rng.dirichlet(np.full(k, 0.5)) + 1e-4,
        "tiny": np.append(np.ones(k - 1), 0.002 * k),
    }[setting.weights]
    weights = weights / weights.sum()
    axes = np.linalg.qr(rng.normal(size=(k, d, d)))[0]
    values = np.exp(rng.uniform(-1, 1, size=(k, d)))
    if setting.kind.endswith("diag"):
        axes = np.repeat(np.eye(d)[None], k, axis=0)
    if setting.kind.endswith("spherical"):
        values = np.repeat(values[:, :1], d, axis=1)
    if setting.kind.startswith("tied"):
        axes, values = np.repeat(axes[:1], k, axis=0), np.repeat(values[:1], k, axis=0)
    covariances = (axes * values[:, None, :]) @ axes.transpose(0, 2, 1)
    means: list[Floats] = []
    radius = 0.6 * setting.separation * k ** (1 / d)
    while len(means) < k:
        radius *= 1.0005
        at = radius * rng.normal(size=d)
        apart = (
            (at - m) @ np.linalg.solve((covariances[len(means)] + C) / 2, at - m)
            for m, C in zip(means, covariances, strict=False)
        )
        if all(distance > setting.separation**2 for distance in apart):
            means.append(at)
    labels = rng.choice(k, setting.n, p=weights)
    X, roots = rng.normal(size=(setting.n, d)), np.linalg.cholesky(covariances)
    for i in range(k):
        X[labels == i] = means[i] + X[labels == i] @ roots[i].T
    return X, Truth(weights, np.array(means), covariances)


# rows, setting, seed -> log-likelihood of all rows, seconds, and codes of notes
Fit: TypeAlias = Callable[[Floats, Setting, int], tuple[float, float, list[str]]]


def ours(X: Floats, setting: Setting, seed: int) -> tuple[float, float, list[str]]:
    """Fit with this library."""
    clock = process_time()
    model = im.GaussianMixture(setting.k, covariance_type=setting.kind, random_state=seed)
    model.fit(X)
    seconds = process_time() - clock
    return model.score(X) * len(X), seconds, model.notes_.codes


def peer(X: Floats, setting: Setting, seed: int, n_init: int) -> tuple[float, float, list[str]]:
    """Fit with scikit-learn; it has no tied_spherical, which is fitted as spherical."""
    kind = setting.kind.replace("tied_", "")
    clock = process_time()
    model = Peer(setting.k, covariance_type=kind, n_init=n_init, random_state=seed).fit(X)
    seconds = process_time() - clock
    ended = em_from(X, kind, model.weights_, model.means_, model.precisions_)
    return ended.score(X) * len(X), seconds, []


def mclust(X: Floats, setting: Setting, seed: int) -> tuple[float, float, list[str]]:
    """Fit with mclust, whose hierarchical start takes a random subset of the rows."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        np.savetxt(path, X, delimiter=",", fmt="%.17g")
        program = (
            f"suppressMessages(library(mclust)); X <- as.matrix(read.csv('{path}', header=FALSE));"
            f"set.seed({seed}); t <- system.time(m <- Mclust(X, G={setting.k}, "
            f"modelNames='{MODELS[setting.kind]}', verbose=FALSE)); cat(m$loglik, sum(t[1:2]))"
        )
        done = subprocess.run(
            ["Rscript", "-e", program], capture_output=True, text=True, check=True
        )
    level, seconds = (float(word) for word in done.stdout.split())
    return level, seconds, []


def from_truth(X: Floats, setting: Setting, truth: Truth) -> im.GaussianMixture:
    """Return EM from the truth."""
    precisions = truth.precisions(setting.kind)
    return em_from(X, setting.kind, truth.weights, truth.means, precisions)


def em_from(
    X: Floats, kind: str, weights: Floats, means: Floats, precisions: Floats
) -> im.GaussianMixture:
    """Return EM until it converges, from given parameters."""
    return im.GaussianMixture(
        len(weights),
        covariance_type=kind,
        weights_init=weights,
        means_init=means,
        precisions_init=precisions,
        n_moves=0,
        tol=1e-9,
        drop_outliers=False,
    ).fit(X)


Measured: TypeAlias = dict[str, tuple[float, float, list[str]]]  # by fit


def measure(fits: dict[str, Fit], case: tuple[Setting, int]) -> Measured:
    """Return nats above EM from the truth, seconds and notes of all fits of one data set."""
    setting, seed = case
    quiet()
    X, truth = draw(setting, seed)
    level = from_truth(X, setting, truth).score(X) * len(X)
    found = {}
    for name, fit in fits.items():
        total, seconds, codes = fit(X, setting, seed)
        found[name] = (total - level, seconds, codes)
    return found


def summarise(setting: Setting, found: list[Measured]) -> None:
    """Print how good the fits of one setting are, and their median time."""
    print(setting)
    for name in found[0]:
        nats = np.array([each[name][0] for each in found])
        good = f"{np.sum(nats > -AS_GOOD)} of {len(nats)} as good"
        worst = f"least {nats.min():,.1f}, median {np.median(nats):,.1f}"
        seconds = np.median([each[name][1] for each in found])
        print(f"  {name:24s} {good}, {worst}, {seconds:.2f} s", flush=True)


def count_lost(cases: list[tuple[Setting, int]], found: list[Measured]) -> None:
    """Print how many fits of light components are lost, and how many of those without a note."""
    for name in found[0]:
        for words, least in (("separation 3 and 5", 3.0), ("all", 0.0)):
            some = [
                each[name]
                for (setting, _), each in zip(cases, found, strict=True)
                if setting.separation >= least
            ]
            lost = [codes for nats, _, codes in some if nats < -LOST]
            silent = sum(not codes for codes in lost)
            share = f"{len(lost)} of {len(some)} lost ({len(lost) / len(some):.1%})"
            print(f"  {name:24s} {words}: {share}, {silent} of them without a note", flush=True)


def quiet() -> None:
    """Leave out warnings: fits are compared by likelihood."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", im.AssumptionWarning)


def choose(case: tuple[Setting, int]) -> str:
    """Print type and number of components that the fit chooses; return whether they are right."""
    setting, seed = case
    quiet()
    X, truth = draw(setting, seed)
    least = from_truth(X, setting, truth).bic(X)
    clock = process_time()
    model = im.GaussianMixture("auto", covariance_type="auto", random_state=seed).fit(X)
    seconds, above = process_time() - clock, model.bic(X) - least
    right = (model.covariance_type_, model.n_components_) == (setting.kind, setting.k)
    verdict = "right" if right else "BIC prefers it" if above < 0 else "wrong"
    chosen = f"{model.covariance_type_} k={model.n_components_}"
    words = f"{chosen}, {verdict}, BIC less that of the truth's {above:.1f}, {seconds:.2f} s"
    print(f"{setting}, seed {seed}: {words}", flush=True)
    return verdict


def main() -> None:
    """Measure the settings that were asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="data sets per setting")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="data sets at a time")
    parser.add_argument("--ten", action="store_true", help="scikit-learn from ten starts, too")
    parser.add_argument("--mclust", action="store_true", help="mclust, too")
    parser.add_argument("--auto", action="store_true", help="choose type and number")
    parser.add_argument("--only", choices=sorted(SETTINGS), action="append")
    parser.add_argument("--kind", help="settings of one covariance type")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    fits: dict[str, Fit] = {"GaussianMixture": ours}
    fits["scikit-learn, 1 start"] = partial(peer, n_init=1)
    if options.ten:
        fits["scikit-learn, 10 starts"] = partial(peer, n_init=10)
    if options.mclust:
        fits["mclust"] = mclust
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        if options.auto:
            kinds = [each for each in AUTO if options.kind in (None, each.kind)]
            verdicts = list(pool.map(choose, [(each, seed) for each in kinds for seed in seeds]))
            counts = {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))}
            print(f"of {len(verdicts)} data sets: {counts}")
            return
        for name in options.only or SETTINGS:
            chosen = [each for each in SETTINGS[name] if options.kind in (None, each.kind)]
            cases = [(setting, seed) for setting in chosen for seed in seeds]
            found: list[Measured] = []
            for each in pool.map(partial(measure, fits), cases):
                found.append(each)
                nats, _, codes = each["GaussianMixture"]
                if name == "light" and nats < -LOST:
                    setting, seed = cases[len(found) - 1]
                    which = f"{setting}, seed {seed}, of {len(found)} so far"
                    print(f"    {which}: {nats:.1f}, {codes}", flush=True)
                if name != "light" and len(found) % len(seeds) == 0:
                    summarise(cases[len(found) - 1][0], found[-len(seeds) :])
            if name == "light":
                count_lost(cases, found)


if __name__ == "__main__":
    main()
