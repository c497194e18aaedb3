"""Peers that fit a spherical mixture, for use in benchmarks."""

from __future__ import annotations

import csv
import importlib.util
import math
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
import sklearn
from scipy.special import logsumexp
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Labels: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
BLOCK = 20_000


@dataclass(frozen=True, eq=False)
class Spherical:
    """A spherical mixture: weights (k,), means (k, d), variances (k,), and seconds to fit it."""

    weights: Floats
    means: Floats
    variances: Floats
    seconds: float = 0.0

    def joint(self, X: Floats) -> Floats:
        """Return log w_i N(x; μ_i, σ_i² I), (n, k)."""
        d = X.shape[1]
        squared = (
            np.sum(X**2, axis=1)[:, None] - 2 * X @ self.means.T + np.sum(self.means**2, axis=1)
        )
        constant = np.log(self.weights) - d / 2 * np.log(2 * math.pi * self.variances)
        joint: Floats = constant - squared / (2 * self.variances)
        return joint

    def log_density(self, X: Floats) -> Floats:
        """Return the logarithm of the density."""
        parts = [logsumexp(self.joint(X[i : i + BLOCK]), axis=1) for i in range(0, len(X), BLOCK)]
        return np.concatenate(parts)

    def predict(self, X: Floats) -> Labels:
        """Return the component of the largest posterior probability."""
        parts = [self.joint(X[i : i + BLOCK]).argmax(axis=1) for i in range(0, len(X), BLOCK)]
        return np.concatenate(parts)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, Labels]:
        """Draw rows and their components."""
        labels = rng.choice(len(self.weights), size=n, p=self.weights)
        noise = (
            rng.normal(size=(n, self.means.shape[1])) * np.sqrt(self.variances[labels])[:, None]
        )
        return self.means[labels] + noise, labels


Fit: TypeAlias = Callable[[Floats, int, int], Spherical]


def expectation_maximisation(n_starts: int) -> Fit:
    """Return scikit-learn's GaussianMixture with spherical covariances."""

    def fit(X: Floats, k: int, seed: int) -> Spherical:
        clock = perf_counter()
        model = GaussianMixture(k, covariance_type="spherical", n_init=n_starts, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X)
        return Spherical(model.weights_, model.means_, model.covariances_, perf_counter() - clock)

    return fit


def k_means(n_starts: int) -> Fit:
    """Return scikit-learn's KMeans, with one variance from within the clusters."""

    def fit(X: Floats, k: int, seed: int) -> Spherical:
        clock = perf_counter()
        model = KMeans(k, n_init=n_starts, random_state=seed).fit(X)
        weights = np.bincount(model.labels_, minlength=k) / len(X)
        variance = float(model.inertia_) / (len(X) * X.shape[1])
        return Spherical(
            weights, model.cluster_centers_, np.full(k, variance), perf_counter() - clock
        )

    return fit


def pomegranate(n_starts: int) -> Fit:
    """Return pomegranate's mixture of normals with spherical covariances."""

    def fit(X: Floats, k: int, seed: int) -> Spherical:
        import torch  # noqa: PLC0415 (an extra)
        from pomegranate.distributions import Normal  # noqa: PLC0415
        from pomegranate.gmm import GeneralMixtureModel  # noqa: PLC0415

        clock = perf_counter()
        torch.manual_seed(seed)
        rows = torch.tensor(X, dtype=torch.float32)
        best, largest = None, -math.inf
        for start in range(n_starts):
            model = GeneralMixtureModel(
                [Normal(covariance_type="sphere") for _ in range(k)],
                random_state=1_000 * seed + start,
            ).fit(rows)
            likelihood = float(model.log_probability(rows).sum())
            if likelihood > largest or best is None:
                best, largest = model, likelihood
        parts = best.distributions if best is not None else []
        return Spherical(
            best.priors.numpy().astype(float) if best is not None else np.empty(0),
            np.stack([part.means.numpy() for part in parts]).astype(float),
            np.array([float(part.covs) for part in parts]),
            perf_counter() - clock,
        )

    return fit


MCLUST = """
suppressMessages(library(mclust))
files <- commandArgs(trailingOnly = TRUE)
X <- as.matrix(read.csv(files[1], header = FALSE))
set.seed(as.integer(files[4]))
some <- sample(nrow(X), min(nrow(X), 2000))
clock <- proc.time()[["elapsed"]]
fit <- Mclust(X, G = as.integer(files[3]), modelNames = "EII", verbose = FALSE,
              initialization = list(subset = some))
seconds <- proc.time()[["elapsed"]] - clock
p <- fit$parameters
write.table(cbind(p$pro, p$variance$sigmasq, seconds, t(p$mean)), files[2],
            sep = ",", row.names = FALSE, col.names = FALSE)
"""


def mclust(X: Floats, k: int, seed: int) -> Spherical:
    """Fit R's mclust with equal spherical covariances, started on 2,000 rows."""
    with tempfile.TemporaryDirectory() as folder:
        rows, found = Path(folder, "rows.csv"), Path(folder, "found.csv")
        np.savetxt(rows, X, delimiter=",")
        script = Path(folder, "fit.R")
        script.write_text(MCLUST)
        subprocess.run(
            ["Rscript", str(script), str(rows), str(found), str(k), str(seed)], check=True
        )
        with found.open() as lines:
            table = np.array([[float(v) for v in line] for line in csv.reader(lines)])
    return Spherical(table[:, 0], table[:, 3:], table[:, 1], float(table[0, 2]))


def peers(without: Sequence[str] = ()) -> dict[str, Fit]:
    """Return the installed peers by name, without names that begin with given texts."""
    found: dict[str, Fit] = {
        "EM (scikit-learn), 1 start": expectation_maximisation(1),
        "EM (scikit-learn), 10 starts": expectation_maximisation(10),
        "KMeans, 1 start": k_means(1),
        "KMeans, 10 starts": k_means(10),
    }
    if importlib.util.find_spec("pomegranate"):
        found["pomegranate, 1 start"] = pomegranate(1)
        found["pomegranate, 10 starts"] = pomegranate(10)
    if shutil.which("Rscript") and _r_has_mclust():
        found["mclust (R)"] = mclust
    return {name: fit for name, fit in found.items() if not name.startswith(tuple(without))}


def _r_has_mclust() -> bool:
    asked = ["Rscript", "-e", "quit(status = !requireNamespace('mclust', quietly = TRUE))"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def versions() -> str:
    """Return the versions of the libraries."""
    said = f"NumPy {np.__version__}, scikit-learn {sklearn.__version__}"
    if importlib.util.find_spec("pomegranate"):
        from importlib.metadata import version  # noqa: PLC0415

        said += f", pomegranate {version('pomegranate')}"
    return said
