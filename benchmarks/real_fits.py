"""Real data sets, and fits of them by this library, scikit-learn and mclust; for real_data.py."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import process_time
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
    *("vehicle", "vowel", "satellite", "letter", "shuttle", "gvhd_positive", "gvhd_control"),
)
# components that are fitted
WITHOUT_CLASSES = {
    **{"faithful": 2, "acidity": 2, "galaxies": 4},
    **{"gvhd_positive": 10, "gvhd_control": 10},
}
STARTS = (1, 10, 20)  # of scikit-learn
HELD_OUT = 0.3  # of the rows
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

    def split(self, seed: int) -> tuple[Data, Data]:
        """Return random rows to fit, and the others."""
        train, test = split_rows(len(self.X), seed)
        return self.part(train), self.part(test)

    def part(self, places: Sequence[int]) -> Data:
        """Return some rows."""
        labels = [self.labels[i] for i in places] if self.labels else None
        return replace(self, X=self.X[places], labels=labels)


def split_rows(n: int, seed: int) -> tuple[list[int], list[int]]:
    """Return the places of random rows to fit, and of the others."""
    order = np.random.default_rng(seed).permutation(n).tolist()
    held = round(HELD_OUT * n)
    return order[held:], order[:held]


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


@dataclass(frozen=True)
class SplitFit(Fit):
    """Figures of one fit, those of :class:`Fit` of the rows that were fitted."""

    held_out: float  # log-likelihood of the other rows
    n_held: int
    n_fitted: int

    @classmethod
    def of(cls, fit: Fit, n_fitted: int, logs: Floats) -> SplitFit:
        """Return a fit with log weights plus log densities (n, k) of the other rows."""
        held_out = float(logsumexp(logs, axis=1).sum())
        return cls(**asdict(fit), held_out=held_out, n_held=len(logs), n_fitted=n_fitted)


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


@dataclass(frozen=True, eq=False)
class Mixture:
    """Weights (k,), means (k, d) and covariances (k, d, d), their type, and seconds of the fit."""

    kind: str
    weights: Floats
    means: Floats
    covariances: Floats
    seconds: float

    def log_joint(self, X: Floats) -> Floats:
        """Return log weights plus log densities, (n, k)."""
        k, d = self.means.shape
        lower = np.linalg.cholesky(self.covariances)
        logs = np.empty((len(X), k))
        for i in range(k):
            z = np.linalg.solve(lower[i], (X - self.means[i]).T)
            logs[:, i] = -0.5 * np.sum(z**2, axis=0) - np.log(np.diagonal(lower[i])).sum()
        weights = np.log(np.maximum(self.weights, 1e-300))
        return np.asarray(logs + weights - 0.5 * d * np.log(2 * np.pi))


def judge(data: Data, found: Mixture) -> Fit:
    """Return the figures of a mixture: one judge for all tools."""
    k, d = found.means.shape
    return figures(
        found.log_joint(data.X),
        data.labels,
        kind=found.kind,
        n_free=n_parameters(found.kind, k, d),
        eigenvalue=float(np.linalg.eigvalsh(found.covariances).min()),
        fewest=fewest_rows(found.kind, d),
        seconds=found.seconds,
    )


def judge_split(train: Data, test: Data, found: Mixture | None) -> SplitFit | None:
    """Return the figures of rows that were fitted and of others; None of a fit that failed."""
    if found is None:
        return None
    return SplitFit.of(judge(train, found), len(train.X), found.log_joint(test.X))


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


def fit_ours(data: Data, kind: str, k: int | str, seed: int) -> Mixture:
    """Fit this library's mixture to all rows."""
    clock = process_time()
    model = im.GaussianMixture(k, covariance_type=kind, drop_outliers=False, random_state=seed)
    model.fit(data.X)
    seconds, chosen = process_time() - clock, model.covariance_type_
    if data.X.shape[1] == 1:
        chosen = "tied" if chosen.startswith("tied") else "full"
    covariances = matrices(model.covariance_type_, model.covariances_, *model.means_.shape)
    return Mixture(chosen, model.weights_, model.means_, covariances, seconds)


def fit_peer(data: Data, kind: str, seed: int) -> dict[int, Mixture | None]:
    """Fit scikit-learn's mixture from 1, 10 and 20 starts; from the best, EM until it converges.

    One fit with ``n_init=20`` has the starts of one with 10, and these that of one with 1, because
    they draw from one sequence of random numbers.
    """
    found: dict[int, Mixture | None] = dict.fromkeys(STARTS)
    if kind not in ("spherical", "diag", "tied", "full"):
        return found
    rng, best, seconds = np.random.RandomState(seed), None, 0.0
    for n in range(1, max(STARTS) + 1):
        clock = process_time()
        model = Peer(data.k, covariance_type=kind, random_state=rng)
        try:
            model.fit(data.X)
        except ValueError:  # a covariance that is not positive definite, which ends all starts
            break
        seconds += process_time() - clock
        if best is None or model.lower_bound_ > best.lower_bound_:
            best = model
        if n in STARTS:
            found[n] = continue_peer(data, kind, best, seconds)
    return found


def continue_peer(data: Data, kind: str, best: Peer, seconds: float) -> Mixture | None:
    """Run scikit-learn's EM on until it converges."""
    clock = process_time()
    try:
        ended = deepcopy(best).set_params(warm_start=True, tol=1e-7, max_iter=2000).fit(data.X)
    except ValueError:
        return None
    seconds += process_time() - clock
    covariances = matrices(kind, ended.covariances_, *ended.means_.shape)
    return Mixture(kind, ended.weights_, ended.means_, covariances, seconds)


def fit_mclust(data: Data, k: int | str, seed: int) -> dict[str, Mixture]:
    """Fit mclust's models with k components, by type, or its choice with 1 to 9, "auto"."""
    names = {model: kind for kind, model in data.types.items()}
    found: dict[str, Mixture] = {}
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder, "rows.csv")
        np.savetxt(rows, data.X, delimiter=",", fmt="%.17g")
        command = ["Rscript", SCRIPT, "fit", rows, folder, k, seed, ",".join(names)]
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
            found[names.get(name, name)] = Mixture(
                kind, table[:, 0], table[:, 1 : 1 + d], covariances, float(seconds)
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
