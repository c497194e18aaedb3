"""Real data sets, and fits of them by this library, scikit-learn and mclust; for real_data.py."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
from scipy.special import logsumexp
from sklearn import datasets
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as Peer

import implicitmoments as im

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
SCRIPT = Path(__file__).with_name("real_data.R")
# covariance types of this library and the matching models of mclust
MODELS = {
    "tied_spherical": "EII",
    "spherical": "VII",
    "tied_diag": "EEI",
    "diag": "VVI",
    "tied": "EEE",
    "full": "VVV",
}
ONE_COLUMN = {"tied": "E", "full": "V"}  # in one column the six types are two
SHIPPED = ("iris", "wine", "breast_cancer", "digits")  # with scikit-learn
IN_R = (
    *("faithful", "acidity", "galaxies", "thyroid", "diabetes", "banknote", "crabs", "glass"),
    *("vehicle", "vowel", "satellite", "letter", "shuttle"),
)
WITHOUT_CLASSES = {"faithful": 2, "acidity": 2, "galaxies": 4}  # components that are fitted
STARTS = 20  # of scikit-learn
# In units of the column variances, ten times the default reg_covar of scikit-learn: a variance
# below is that of values that are equal.
SINGULAR = 1e-5


@dataclass(frozen=True, eq=False)
class Data:
    """Standardised rows (n, d), and their classes, if there are any."""

    name: str
    X: Floats
    labels: list[str] | None
    k: int
    rows_in_all: int
    constant: int  # columns left out

    @property
    def types(self) -> dict[str, str]:
        """Types that differ, and mclust's names of them."""
        return MODELS if self.X.shape[1] > 1 else ONE_COLUMN


@dataclass(frozen=True)
class Fit:
    """Figures of one fit."""

    kind: str
    k: int
    log_likelihood: float
    bic: float
    rand: float | None  # adjusted Rand index
    smallest: float  # rows of the smallest component: the least sum of responsibilities
    eigenvalue: float  # the least of all covariances
    fewest: float  # rows that determine a component of this type
    seconds: float

    @property
    def collapsed(self) -> bool:
        """Whether the likelihood is that of a component on a few rows, or of equal values."""
        return self.smallest < self.fewest or self.eigenvalue < SINGULAR


def load(name: str, folder: Path, most: int, seed: int) -> Data:
    """Load a set: at most ``most`` random rows, columns divided by their deviations."""
    if name in SHIPPED:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        labels = [str(label) for label in y]
        if name == "digits":
            X = PCA(10, random_state=0).fit_transform(X)
    else:
        with (folder / f"{name}.csv").open() as lines:
            table = list(csv.reader(lines))
        X = np.array([[float(value) for value in line[:-1]] for line in table])
        labels = [line[-1] for line in table]
    n = len(X)
    if n > most:
        chosen = np.sort(np.random.default_rng(seed).choice(n, most, replace=False))
        X, labels = X[chosen], [labels[i] for i in chosen]
    deviations = X.std(axis=0)
    varies = deviations > 0
    X = (X - X.mean(axis=0))[:, varies] / deviations[varies]
    classes = len(set(labels))
    k = WITHOUT_CLASSES.get(name, classes)
    return Data(name, X, labels if classes > 1 else None, k, n, int(np.sum(~varies)))


def n_numbers(kind: str, d: int) -> int:
    """Count the parameters of one covariance."""
    return 1 if kind.endswith("spherical") else d if kind.endswith("diag") else d * (d + 1) // 2


def n_parameters(kind: str, k: int, d: int) -> int:
    """Count the free parameters of a mixture."""
    return k * (d + 1) - 1 + n_numbers(kind, d) * (1 if kind.startswith("tied") else k)


def fewest_rows(kind: str, d: int) -> float:
    """Return the rows with twice as many numbers as a component has parameters."""
    return 0.0 if kind.startswith("tied") else 2 * (d + n_numbers(kind, d)) / d


def judge(
    data: Data, kind: str, weights: Floats, means: Floats, covariances: Floats, seconds: float
) -> Fit:
    """Return the figures of a mixture with covariances (k, d, d): one judge for all tools."""
    X, (k, d) = data.X, means.shape
    lower = np.linalg.cholesky(covariances)
    logs = np.empty((len(X), k))
    for i in range(k):
        z = np.linalg.solve(lower[i], (X - means[i]).T)
        logs[:, i] = -0.5 * np.sum(z**2, axis=0) - np.log(np.diagonal(lower[i])).sum()
    logs += np.log(np.maximum(weights, 1e-300)) - 0.5 * d * np.log(2 * np.pi)
    return figures(
        logs,
        data.labels,
        kind=kind,
        n_free=n_parameters(kind, k, d),
        eigenvalue=float(np.linalg.eigvalsh(covariances).min()),
        fewest=fewest_rows(kind, d),
        seconds=seconds,
    )


def figures(
    logs: Floats,
    labels: list[str] | None,
    *,
    kind: str,
    n_free: int,
    eigenvalue: float,
    fewest: float,
    seconds: float,
) -> Fit:
    """Return the figures of a mixture from log weights plus log densities (n, k)."""
    densities = logsumexp(logs, axis=1)
    level = float(densities.sum())
    return Fit(
        kind=kind,
        k=logs.shape[1],
        log_likelihood=level,
        bic=n_free * float(np.log(len(logs))) - 2 * level,
        rand=adjusted_rand_score(labels, logs.argmax(axis=1)) if labels else None,
        smallest=float(np.exp(logs - densities[:, None]).sum(axis=0).min()),
        eigenvalue=eigenvalue,
        fewest=fewest,
        seconds=seconds,
    )


def matrices(kind: str, covariances: Any, k: int, d: int) -> Floats:
    """Return covariances in the shape of ``covariances_`` as matrices (k, d, d)."""
    found = np.asarray(covariances, dtype=float)
    if kind.startswith("tied"):
        found = np.repeat(found[None], k, axis=0)
    if kind.endswith("spherical"):
        found = np.repeat(found[:, None], d, axis=1)
    return found if found.ndim == 3 else found[:, :, None] * np.eye(d)


def fit_ours(data: Data, kind: str, k: int | str, seed: int) -> Fit:
    """Fit this library's mixture to all rows."""
    clock = perf_counter()
    model = im.GaussianMixture(k, covariance_type=kind, drop_outliers=False, random_state=seed)
    model.fit(data.X)
    seconds, chosen = perf_counter() - clock, model.covariance_type_
    if data.X.shape[1] == 1:
        chosen = "tied" if chosen.startswith("tied") else "full"
    covariances = matrices(model.covariance_type_, model.covariances_, *model.means_.shape)
    return judge(data, chosen, model.weights_, model.means_, covariances, seconds)


def fit_peer(data: Data, kind: str, seed: int) -> Fit | None:
    """Fit scikit-learn's mixture from many starts; from the best, run EM until it converges."""
    if kind not in ("spherical", "diag", "tied", "full"):
        return None
    clock = perf_counter()
    model = Peer(data.k, covariance_type=kind, n_init=STARTS, random_state=seed)
    try:
        model.fit(data.X)
        model.set_params(warm_start=True, tol=1e-7, max_iter=2000).fit(data.X)
    except ValueError:  # a covariance that is not positive definite
        return None
    seconds = perf_counter() - clock
    covariances = matrices(kind, model.covariances_, *model.means_.shape)
    return judge(data, kind, model.weights_, model.means_, covariances, seconds)


def fit_mclust(data: Data, seed: int) -> dict[str, Fit]:
    """Fit mclust's models with k components, by type, and its choice with 1 to 9, "auto"."""
    names = {model: kind for kind, model in data.types.items()}
    found: dict[str, Fit] = {}
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder, "rows.csv")
        np.savetxt(rows, data.X, delimiter=",", fmt="%.17g")
        command = ["Rscript", SCRIPT, "fit", rows, folder, data.k, seed, ",".join(names)]
        done = subprocess.run(
            [str(part) for part in command], capture_output=True, text=True, check=True
        )
        for line in done.stdout.splitlines():
            name, model, seconds, _ = line.split()
            with Path(folder, f"{name}.csv").open() as lines:
                table = np.array([[float(v) for v in each] for each in csv.reader(lines)])
            d = data.X.shape[1]
            covariances = table[:, 1 + d :].reshape(-1, d, d)
            # with one component, mclust calls a model by another name: XII, XXI or XXX
            kind = names.get(model) or names[model.replace("X", "E")]
            found[names.get(name, name)] = judge(
                data, kind, table[:, 0], table[:, 1 : 1 + d], covariances, float(seconds)
            )
    return found


def export_from_r(folder: Path, sets: str = "export") -> str | None:
    """Write the sets of R to a folder, one CSV file each; return the version of a package.

    It is that of mclust, flexmix or mixtools.

    None, and a sentence on the standard error, if that fails.

    Parameters
    ----------
    sets : {"export", "regressions", "more_regressions"}
        Points with classes, or features with labels.
    """
    if shutil.which("Rscript") is None:
        print("Rscript is not installed: no sets and no fits of R", file=sys.stderr)
        return None
    command = ["Rscript", str(SCRIPT), sets, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        print(f"no sets and no fits of R, because R says: {reason}", file=sys.stderr)
        return None
    return done.stdout
