"""Gaussian mixtures of all covariance types against scikit-learn and EM from the truth.

For each setting and seed: log-likelihood of all rows less that of EM from the truth, in nats, of
``im.GaussianMixture``, of its best start without moves, of moves from a k-means++ start alone, and
of scikit-learn from one start and, with ``--ten``, from ten; and seconds of each. Run as

    OMP_NUM_THREADS=1 python benchmarks/gaussian_mixtures.py --seeds 10 --ten

With ``--auto`` the type and the number of components are chosen: whether both are right, and where
they are not, whether their BIC is below that of EM from the truth.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as Peer

import implicitmoments as im

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
AS_GOOD = 2.0  # nats below EM from the truth


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
    for each in (200,)
    for separation in (2.0, 3.0, 5.0)
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


Fit: TypeAlias = Callable[[Floats, Setting, int], Any]


def ours(**how: Any) -> Fit:
    """Return a fit of this library."""
    return lambda X, setting, seed: im.GaussianMixture(
        setting.k, covariance_type=setting.kind, random_state=seed, **how
    ).fit(X)


def peer(n_init: int) -> Fit:
    """Return scikit-learn's fit; it has no tied_spherical, which is fitted as spherical."""
    return lambda X, setting, seed: Peer(
        setting.k,
        covariance_type=setting.kind.replace("tied_", ""),
        n_init=n_init,
        random_state=seed,
    ).fit(X)


def from_truth(X: Floats, setting: Setting, truth: Truth) -> im.GaussianMixture:
    """Return EM from the truth."""
    return im.GaussianMixture(
        setting.k,
        covariance_type=setting.kind,
        weights_init=truth.weights,
        means_init=truth.means,
        precisions_init=truth.precisions(setting.kind),
        n_moves=0,
        tol=1e-9,
        drop_outliers=False,
    ).fit(X)


def measure(setting: Setting, seeds: range, fits: dict[str, Fit]) -> None:
    """Print nats and seconds of all fits, seed by seed, and a summary."""
    nats: dict[str, list[float]] = {name: [] for name in fits}
    clocks: dict[str, list[float]] = {name: [] for name in fits}
    for seed in seeds:
        X, truth = draw(setting, seed)
        level = from_truth(X, setting, truth).score(X) * len(X)
        for name, fit in fits.items():
            clock = perf_counter()
            model = fit(X, setting, seed)
            clocks[name].append(perf_counter() - clock)
            nats[name].append(model.score(X) * len(X) - level)
    print(setting)
    for name in fits:
        found = np.array(nats[name])
        good = f"{np.sum(found > -AS_GOOD)} of {len(found)} as good"
        worst = f"least {found.min():,.1f}, median {np.median(found):,.1f}"
        print(f"  {name:24s} {good}, {worst}, {np.median(clocks[name]):.2f} s", flush=True)


def choose(settings: list[Setting], seeds: range) -> None:
    """Print type and number of components that the fit chooses, and how often they are right."""
    verdicts = []
    for setting in settings:
        for seed in seeds:
            X, truth = draw(setting, seed)
            least = from_truth(X, setting, truth).bic(X)
            clock = perf_counter()
            model = im.GaussianMixture("auto", covariance_type="auto", random_state=seed).fit(X)
            seconds, above = perf_counter() - clock, model.bic(X) - least
            right = (model.covariance_type_, model.n_components_) == (setting.kind, setting.k)
            verdicts.append("right" if right else "BIC prefers it" if above < 0 else "wrong")
            chosen = f"{model.covariance_type_} k={model.n_components_}"
            print(
                f"{setting}, seed {seed}: {chosen}, {verdicts[-1]}, BIC less that of the truth's ",
                f"{above:.1f}, {seconds:.2f} s",
                flush=True,
            )
    counts = {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))}
    print(f"of {len(verdicts)} data sets: {counts}")


def main() -> None:
    """Measure the settings that were asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="data sets per setting")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--ten", action="store_true", help="scikit-learn from ten starts, too")
    parser.add_argument("--ablations", action="store_true", help="parts of the fit by themselves")
    parser.add_argument("--auto", action="store_true", help="choose type and number")
    parser.add_argument("--only", choices=sorted(SETTINGS), action="append")
    parser.add_argument("--kind", help="settings of one covariance type")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", im.AssumptionWarning)
    seeds = range(options.first, options.first + options.seeds)
    if options.auto:
        choose([each for each in AUTO if options.kind in (None, each.kind)], seeds)
        return
    fits = {"GaussianMixture": ours()}
    if options.ablations:
        fits |= {
            "starts only": ours(n_moves=0),
            "moves from k-means++": ours(init_params="k-means++"),
        }
    fits["scikit-learn, 1 start"] = peer(1)
    if options.ten:
        fits["scikit-learn, 10 starts"] = peer(10)
    for name in options.only or SETTINGS:
        for setting in SETTINGS[name]:
            if options.kind in (None, setting.kind):
                measure(setting, seeds, fits)


if __name__ == "__main__":
    main()
