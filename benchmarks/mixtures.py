"""SphericalMixture compared with its alternatives.

Run: python benchmarks/mixtures.py parameters [--seeds 10] [--settings a,b] [--peers ...]
     python benchmarks/mixtures.py push       [--seeds 3]  [--settings ...]
     python benchmarks/mixtures.py awkward    [--seeds 5]

parameters: settings in which one start of EM rarely finds every mean. push: more components,
less separation, fewer rows. awkward: unequal weights, outliers, a wrong number of components,
different variances, noise that is not Gaussian, few rows.

Success is every mean within 0.5 of the one matched to it (0.6 at k = 50, d = 100). "nats" is the
log-likelihood of all rows, outliers included, minus that of the true parameters, median over
seeds, which start at --first. Seconds are medians, of the processor and
with those of R. Peers: scikit-learn's GaussianMixture (spherical) and KMeans with 1 and 10 starts,
pomegranate if it can be imported, mclust (model EII, hierarchical start on 2,000 rows) if Rscript
has it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from implicitmoments import SphericalMixture
from implicitmoments.datasets import random_directions

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
# weights, means and variances of k components
Found: TypeAlias = tuple[Floats, Floats, Floats]
Peer: TypeAlias = Callable[[Floats, int, int], Found]


@dataclass(frozen=True)
class Setting:
    """One mixture: k means in d features, and changes to its rows."""

    k: int
    d: int
    separation: float
    radius: float
    n: int = 60_000
    low: float = 1.0  # smallest norm, as a fraction of the radius
    centre: bool = False  # one mean at the centre
    apart: bool = True  # the others keep the separation from it as well
    close: float = 0.5
    ratio: float = 1.0  # of the largest weight to the smallest
    outliers: float = 0.0
    asked: int = 0  # components fitted, minus k
    spread: float = 1.0  # of the largest variance to the smallest
    laplace: bool = False  # Laplace noise instead of Gaussian

    def draw(self, seed: int) -> tuple[Floats, Found]:
        """Return rows, and the mixture they are from."""
        rng = np.random.default_rng(seed)
        low = self.low * self.radius
        if self.centre and self.apart:
            low = max(low, self.separation)
        means = random_directions(
            self.k - self.centre,
            self.d,
            radius=(low, self.radius),
            separation=self.separation,
            random_state=seed,
        )
        if self.centre:
            means = np.vstack([means, np.zeros((1, self.d))])
        weights = np.geomspace(1, self.ratio, self.k)
        weights = rng.permutation(weights / weights.sum())
        variances = rng.permutation(np.geomspace(1, self.spread, self.k))
        variances /= variances.mean()
        labels = rng.choice(self.k, self.n, p=weights)
        shape = (self.n, self.d)
        noise = (
            rng.laplace(scale=np.sqrt(0.5), size=shape) if self.laplace else rng.normal(size=shape)
        )
        X = means[labels] + np.sqrt(variances[labels])[:, None] * noise
        n_out = int(self.outliers * self.n)
        X[:n_out] = rng.uniform(-3, 3, (n_out, self.d)) * self.radius
        return rng.permutation(X), (weights, means, variances)


PARAMETERS = {
    "a": Setting(30, 20, 4, 4),
    "b": Setting(30, 20, 6, 5),
    "c": Setting(60, 30, 6, 5),
    "d": Setting(50, 100, 0, 6 / np.sqrt(2), 50_000, close=0.6),
    "e": Setting(30, 20, 2.5, 6, low=0.3, centre=True),
    "f": Setting(30, 20, 2.5, 6, low=0.3, centre=True, apart=False),
    "g": Setting(30, 20, 2.5, 5, low=0.3, centre=True, apart=False),
    "h": Setting(30, 20, 2.5, 2.5),
}
PUSH = {
    "a": Setting(100, 30, 5, 5),
    "b": Setting(100, 30, 5, 5, 200_000),
    "c": Setting(200, 30, 4.5, 5, 200_000),
    "d": Setting(200, 30, 4.5, 5),
    "e": Setting(30, 20, 2, 2),
    "f": Setting(30, 20, 2, 2, 200_000),
    "g": Setting(60, 30, 2.5, 2.5),
    "h": Setting(30, 20, 4, 4, 10_000),
    "i": Setting(30, 20, 4, 4, 5_000),
}
PLAIN = Setting(30, 20, 4, 4)
AWKWARD = {
    "plain": PLAIN,
    "weights 20:1": replace(PLAIN, ratio=20),
    "5 % outliers": replace(PLAIN, outliers=0.05),
    "k − 2 fitted": replace(PLAIN, asked=-2),
    "k + 2 fitted": replace(PLAIN, asked=2),
    "variances 4:1": replace(PLAIN, spread=4),
    "Laplace noise": replace(PLAIN, laplace=True),
    "Laplace noise, separation 2.5": replace(PLAIN, laplace=True, separation=2.5, radius=2.5),
    "N = 2,000": replace(PLAIN, n=2_000),
    "N = 2,000, k = 10, d = 5": Setting(10, 5, 4, 5, 2_000),
}


def ours(X: Floats, k: int, seed: int, **options: Any) -> Found:
    """SphericalMixture with its defaults: the variance is unknown."""
    model = SphericalMixture(k, random_state=seed, **options).fit(X)
    return model.weights_, model.means_, np.broadcast_to(model.variance_, (k,))


def separate(X: Floats, k: int, seed: int) -> Found:
    """SphericalMixture with one variance per component."""
    return ours(X, k, seed, covariance_type="spherical")


def gaussian_mixture(n_init: int) -> Peer:
    """GaussianMixture of scikit-learn with some starts."""

    def fit(X: Floats, k: int, seed: int) -> Found:
        model = GaussianMixture(
            k, covariance_type="spherical", n_init=n_init, random_state=1_000 + seed
        ).fit(X)
        return model.weights_, model.means_, model.covariances_

    return fit


def k_means(n_init: int) -> Peer:
    """KMeans of scikit-learn; weights and one variance by its labels."""

    def fit(X: Floats, k: int, seed: int) -> Found:
        model = KMeans(k, n_init=n_init, random_state=1_000 + seed).fit(X)
        weights = np.bincount(model.labels_, minlength=k) / len(X)
        return weights, model.cluster_centers_, np.full(k, model.inertia_ / X.size)

    return fit


def pomegranate(X: Floats, k: int, seed: int) -> Found:
    """GeneralMixtureModel of pomegranate, started by its k-means."""
    import torch  # noqa: PLC0415 (a peer that need not be there)
    from pomegranate.distributions import Normal  # noqa: PLC0415
    from pomegranate.gmm import GeneralMixtureModel  # noqa: PLC0415

    parts = [Normal(covariance_type="sphere") for _ in range(k)]
    model = GeneralMixtureModel(parts, random_state=seed)
    model.fit(torch.tensor(X, dtype=torch.float32))
    means = np.array([part.means.numpy() for part in model.distributions], dtype=float)
    variances = np.array([float(np.ravel(p.covs.numpy())[0]) for p in model.distributions])
    return np.asarray(model.priors.numpy(), dtype=float), means, variances


MCLUST = """
library(mclust)
X <- as.matrix(read.csv("{rows}", header = FALSE))
set.seed({seed})
start <- list(subset = sample(nrow(X), min(nrow(X), 2000)))
fit <- Mclust(X, G = {k}, modelNames = "EII", initialization = start, verbose = FALSE)
write.csv(cbind(fit$parameters$pro, t(fit$parameters$mean)), "{out}", row.names = FALSE)
cat(fit$parameters$variance$sigmasq)
"""


def mclust(X: Floats, k: int, seed: int) -> Found:
    """Mclust of R, one spherical variance."""
    with tempfile.TemporaryDirectory() as folder:
        rows, out = Path(folder, "rows.csv"), Path(folder, "out.csv")
        np.savetxt(rows, X, delimiter=",")
        script = MCLUST.format(rows=rows, out=out, k=k, seed=seed)
        done = subprocess.run(
            ["Rscript", "-e", script], capture_output=True, text=True, check=True
        )
        table = np.loadtxt(out, delimiter=",", skiprows=1)
        return table[:, 0], table[:, 1:], np.full(k, float(done.stdout.split()[-1]))


def peers() -> dict[str, Peer]:
    """Return the methods to compare with."""
    found: dict[str, Peer] = {
        "SphericalMixture": ours,
        "GaussianMixture, 1 start": gaussian_mixture(1),
        "GaussianMixture, 10 starts": gaussian_mixture(10),
        "KMeans, 1 start": k_means(1),
        "KMeans, 10 starts": k_means(10),
    }
    if importlib.util.find_spec("pomegranate"):
        found["pomegranate"] = pomegranate
    r = shutil.which("Rscript")
    check = [r or "Rscript", "-e", "library(mclust)"]
    if r and subprocess.run(check, check=False, capture_output=True).returncode == 0:
        found["mclust"] = mclust
    return found


def log_likelihood(X: Floats, found: Found) -> float:
    """Return the log-likelihood of all rows."""
    w, m, v = found
    total, constant = 0.0, np.log(w) - 0.5 * X.shape[1] * np.log(2 * np.pi * v)
    for x in np.array_split(X, max(1, len(X) // 4_000)):
        squares = np.sum(x**2, axis=1)[:, None] - 2 * x @ m.T + np.sum(m**2, axis=1)
        total += float(logsumexp(constant - 0.5 * squares / v, axis=1).sum())
    return total


def errors(found: Floats, means: Floats) -> Floats:
    """Return the distance of every mean from the found one matched to it; inf without one."""
    apart = np.linalg.norm(found[:, None] - means[None], axis=2)
    rows, columns = linear_sum_assignment(apart)
    distances = np.full(len(means), np.inf)
    distances[columns] = apart[rows, columns]
    return distances


def measure(setting: Setting, method: Peer, seeds: range) -> str:
    """Fit every seed and write one line of the table."""
    largest, lost, nats, seconds, spread = [], [], [], [], []
    for seed in seeds:
        X, truth = setting.draw(seed)
        clock = sum(os.times()[:4])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = method(X, setting.k + setting.asked, seed)
        seconds.append(sum(os.times()[:4]) - clock)
        away = errors(found[1], truth[1])
        lost.append(int(np.sum(away >= setting.close)))
        largest.append(float(away.max()))
        nats.append(log_likelihood(X, found) - log_likelihood(X, truth))
        spread.append(float(found[0] @ found[2]))
    good = sum(n == 0 for n in lost)
    return (
        f"{good}/{len(lost)} | {np.mean(lost):.1f} ({min(lost)}–{max(lost)}) | {max(largest):.2f} "
        f"| {np.median(nats):,.0f} | {np.median(spread):.3f} "
        f"| {np.median(seconds):.2f} ({min(seconds):.2f}–{max(seconds):.2f})"
    )


def table(settings: dict[str, Setting], methods: dict[str, Peer], seeds: range) -> None:
    """Print a Markdown table, one line for each setting and method."""
    head = "success | means missed (range) | largest error | nats | variance | seconds (range)"
    print(f"| setting | k | d | separation | radius | N | method | {head} |\n" + "|---" * 13 + "|")
    for name, setting in settings.items():
        radius = f"{setting.radius:.3g}"
        if setting.centre:
            radius = f"{setting.low:g}–1 × {radius}, one at 0"
            radius += "" if setting.apart else ", closer to others than the separation"
        what = f"{name} | {setting.k} | {setting.d} | {setting.separation:g} | {radius}"
        for method, fit in methods.items():
            line = measure(setting, fit, seeds)
            print(f"| {what} | {setting.n:,} | {method} | {line} |", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("table", choices=["parameters", "push", "awkward"])
    parser.add_argument("--seeds", type=int, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--settings", help="names of settings, with commas between them")
    parser.add_argument("--peers", help="parts of names of methods, with commas between them")
    arguments = parser.parse_args()
    all_settings = {"parameters": PARAMETERS, "push": PUSH, "awkward": AWKWARD}
    settings, methods = all_settings[arguments.table], peers()
    if arguments.table == "awkward":
        methods = {
            "SphericalMixture": ours,
            "SphericalMixture, one variance per component": separate,
            **methods,
        }
    if arguments.table != "parameters":
        methods = {n: m for n, m in methods.items() if "KMeans" not in n}
    if arguments.settings:
        settings = {n: settings[n] for n in arguments.settings.split(",")}
    if arguments.peers:
        parts = arguments.peers.split(",")
        methods = {n: m for n, m in methods.items() if any(part in n for part in parts)}
    n_seeds = arguments.seeds or {"parameters": 10, "push": 3, "awkward": 5}[arguments.table]
    names = ("implicitmoments", "numpy", "scikit-learn")
    print(
        ", ".join(f"{name} {version(name)}" for name in names)
        + f", seeds {arguments.first}–{arguments.first + n_seeds - 1}\n"
    )
    table(settings, methods, range(arguments.first, arguments.first + n_seeds))


if __name__ == "__main__":
    main()
