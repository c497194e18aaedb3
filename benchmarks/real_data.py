"""Gaussian mixtures of real data, beside many starts of scikit-learn and beside mclust.

    python benchmarks/real_data.py [types] [auto] [--seeds N] [--old SRC] [--quick] ...

Of each set, 70 % of the rows are fitted, drawn by the seed, and the others are held out; at most
5,000 rows of a set are used, with columns of variance 1. ``types`` fits as many components as
there are classes, with each covariance type. Nats are those of all rows that were fitted. The
best of scikit-learn's starts goes on until EM converges. A fit has collapsed if a component
has fewer than twice as many numbers in its rows as parameters, or a variance that only equal
values have: its likelihood says nothing, and it is counted apart. ``auto`` chooses type and
number. Without R, which has mclust and most of the sets, the sets of scikit-learn are fitted.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from common import (
    OLD,
    THIS,
    Case,
    Figures,
    Floats,
    Method,
    Row,
    Table,
    above,
    both_editions,
    main,
    names,
    print_table,
    select,
    spread,
    three_ways,
    timed,
    values,
)

KINDS = ("tied_spherical", "spherical", "tied_diag", "diag", "tied", "full")
MODELS = dict(zip(KINDS, ("EII", "VII", "EEI", "VVI", "EEE", "VVV"), strict=True))
SHIPPED = ("iris", "wine", "breast_cancer", "digits")  # with scikit-learn
IN_R = (
    *("faithful", "acidity", "galaxies", "thyroid", "diabetes", "banknote", "crabs", "glass"),
    *("vehicle", "vowel", "satellite", "letterrecognition", "shuttle"),
    *("gvhd_positive", "gvhd_control"),
)
WITHOUT_CLASSES = {  # and how many components are fitted to them
    **{"faithful": 2, "acidity": 2, "galaxies": 4},
    **{"gvhd_positive": 10, "gvhd_control": 10},
}
MOST_ROWS, HELD_OUT = 5_000, 0.3
# Ten times scikit-learn's reg_covar, for columns of variance 1: the variance of equal values.
SINGULAR = 1e-5
FIVE, MCLUST = "this edition, n_init=5", "mclust"
ONE, TWENTY = "scikit-learn, 1 start", "scikit-learn, 20 starts"


@dataclass(frozen=True, eq=False)
class Data:
    """Rows to fit and rows held out, classes of the former, and how many components are fitted."""

    X: Floats
    others: Floats
    classes: list[str]
    k: int


@dataclass(frozen=True, eq=False)
class Mixture:
    """Weights (k,), means (k, d) and covariances (k, d, d)."""

    kind: str
    weights: Floats
    means: Floats
    covariances: Floats


@cache
def sets_of_r() -> dict[str, list[list[str]]]:
    """Return the data sets of R as lines of cells; none where R is missing."""
    if shutil.which("Rscript") is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        script = Path(__file__).with_suffix(".R")
        done = subprocess.run(["Rscript", script, folder], capture_output=True, check=False)
        if done.returncode:
            return {}
        texts = {name: Path(folder, f"{name}.csv").read_text() for name in IN_R}
    return {
        name: [line.replace('"', "").split(",") for line in text.splitlines()]
        for name, text in texts.items()
    }


@cache
def draw(case: Case) -> Data:
    """Return the rows of a set, standardised and divided at random."""
    X, classes = load(case.setting.split()[0])
    rng = np.random.default_rng([case.seed, 20])
    order = rng.permutation(len(X))[:MOST_ROWS]
    X = X[order]
    varies = X.std(axis=0) > 0
    X = ((X - X.mean(axis=0)) / np.where(varies, X.std(axis=0), 1))[:, varies]
    n_held = round(HELD_OUT * len(X))
    k = WITHOUT_CLASSES.get(case.setting.split()[0], len(set(classes)))
    return Data(X[n_held:], X[:n_held], [classes[i] for i in order[n_held:]], k)


def load(name: str) -> tuple[Floats, list[str]]:
    """Return the rows and classes of a set."""
    if name in IN_R:
        table = sets_of_r()[name]
        cells = [[float(cell) for cell in line[:-1]] for line in table]
        return np.array(cells), [line[-1] for line in table]
    from sklearn import datasets  # noqa: PLC0415
    from sklearn.decomposition import PCA  # noqa: PLC0415

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    X = PCA(10, random_state=0).fit_transform(X) if name == "digits" else X
    return X, [str(label) for label in y]


def settings() -> list[str]:
    """Return all sets with all types that differ."""
    sets = [*SHIPPED, *(IN_R if sets_of_r() else ())]
    return [
        f"{name} {kind}"
        for name in sets
        for kind in (KINDS if name not in ("acidity", "galaxies") else ("tied", "full"))
    ]


# ---- one judge for all methods


def judge(data: Data, found: Mixture, seconds: float) -> Figures:
    """Return log-likelihoods, BIC, adjusted Rand index, and whether the fit has collapsed."""
    from sklearn.metrics import adjusted_rand_score  # noqa: PLC0415

    logs = log_joint(found, data.X)
    densities = np.logaddexp.reduce(logs, axis=1)
    k, d = found.means.shape
    smallest = float(np.exp(logs - densities[:, None]).sum(axis=0).min())
    eigenvalue = float(np.linalg.eigvalsh(found.covariances).min())
    level = float(densities.sum())
    few = not found.kind.startswith("tied") and smallest < 2 * (d + n_shape(found.kind, d)) / d
    return {
        "level": level,
        "held_out": float(np.logaddexp.reduce(log_joint(found, data.others), axis=1).sum()),
        "negative_bic": 2 * level - n_parameters(found.kind, k, d) * np.log(len(data.X)),
        "rand": float(adjusted_rand_score(data.classes, logs.argmax(axis=1))),
        "collapsed": bool(few or eigenvalue < SINGULAR),
        "chosen": f"{found.kind} {k}",
        "seconds": seconds,
    }


def log_joint(found: Mixture, X: Floats) -> Floats:
    """Return log weights plus log densities (n, k)."""
    k, d = found.means.shape
    lower = np.linalg.cholesky(found.covariances)
    logs = np.empty((len(X), k))
    for i in range(k):
        z = np.linalg.solve(lower[i], (X - found.means[i]).T)
        logs[:, i] = -0.5 * np.sum(z**2, axis=0) - np.log(np.diagonal(lower[i])).sum()
    weights = np.log(np.maximum(found.weights, 1e-300))
    return np.asarray(logs + weights - 0.5 * d * np.log(2 * np.pi))


def n_shape(kind: str, d: int) -> int:
    """Return the parameters of one covariance."""
    return 1 if kind.endswith("spherical") else d if kind.endswith("diag") else d * (d + 1) // 2


def n_parameters(kind: str, k: int, d: int) -> int:
    """Return the free parameters of a mixture."""
    return k * (d + 1) - 1 + n_shape(kind, d) * (1 if kind.startswith("tied") else k)


def mixture_of(model: Any, kind: str) -> Mixture:
    """Return a fitted estimator with covariances as matrices."""
    k, d = model.means_.shape
    covariances = np.asarray(model.covariances_, dtype=float)
    if kind.startswith("tied"):
        covariances = np.repeat(covariances[None], k, axis=0)
    if kind.endswith("spherical"):
        covariances = np.repeat(covariances[:, None], d, axis=1)
    if covariances.ndim == 2:
        covariances = covariances[:, :, None] * np.eye(d)
    return Mixture(kind, model.weights_, model.means_, covariances)


# ---- methods


def fit_ours(case: Case, n_init: int = 1) -> Figures:
    """Fit this library's mixture of the type of the setting, or choose type and number."""
    import implicitmoments as im  # noqa: PLC0415  # the edition of this process

    data, kind = draw(case), case.setting.split()[1]
    k = "auto" if kind == "auto" else data.k
    model: Any = im.GaussianMixture(
        k, covariance_type=kind, n_init=n_init, drop_outliers=False, random_state=case.seed
    )
    model, seconds = timed(lambda: model.fit(data.X))
    return judge(data, mixture_of(model, model.covariance_type_), seconds)


def fit_scikit_learn(case: Case, n_init: int) -> Figures:
    """Fit scikit-learn's mixture; its best start goes on until EM converges."""
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415

    data, kind = draw(case), case.setting.split()[1]
    if kind not in ("spherical", "diag", "tied", "full"):
        return {}
    model = GaussianMixture(
        data.k, covariance_type=kind, n_init=n_init, random_state=case.seed, max_iter=300
    )
    model, seconds = timed(lambda: model.fit(data.X))
    model.set_params(warm_start=True, n_init=1, tol=1e-7, max_iter=2_000).fit(data.X)
    return judge(data, mixture_of(model, kind), seconds)


PROGRAM = """
suppressMessages(library(mclust)); X <- as.matrix(read.csv("{folder}/rows.csv", header = FALSE))
set.seed({seed})
clock <- system.time(m <- Mclust(X, G = {numbers}, modelNames = c({models}), verbose = FALSE))
p <- m$parameters; k <- m$G; pro <- if (is.null(p$pro)) 1 else p$pro
sigma <- if (m$d == 1) rep_len(p$variance$sigmasq, k) else p$variance$sigma
cat(m$modelName, k, sum(clock[1:2]), "\\n")
cat(pro, "\\n"); cat(p$mean, "\\n"); cat(sigma, "\\n")
"""


def fit_mclust(case: Case) -> Figures:
    """Fit mclust's model of the type, or its choice of types and of 1 to 9 components."""
    if shutil.which("Rscript") is None:
        return {}
    data, kind = draw(case), case.setting.split()[1]
    d = data.X.shape[1]
    models = {"tied": "E", "full": "V"} if d == 1 else MODELS
    asked = [f'"{model}"' for name, model in models.items() if kind in ("auto", name)]
    numbers = "1:9" if kind == "auto" else str(data.k)
    with tempfile.TemporaryDirectory() as folder:
        np.savetxt(Path(folder, "rows.csv"), data.X, delimiter=",", fmt="%.17g")
        program = PROGRAM.format(
            folder=folder, seed=case.seed, numbers=numbers, models=", ".join(asked)
        )
        done = subprocess.run(
            ["Rscript", "-e", program], capture_output=True, check=False, text=True
        )
    lines = [line.split() for line in done.stdout.splitlines()]
    if len(lines) < 4:
        return {}
    weights, means, sigma = (np.array(line, dtype=float) for line in lines[1:4])
    model, k = lines[0][0], int(lines[0][1])
    # with one component, mclust calls a model by another name: X, XII, XXI or XXX
    chosen = next(name for name, each in models.items() if each == model.replace("X", "E"))
    found = Mixture(chosen, weights, means.reshape(k, d), sigma.reshape(k, d, d))
    return judge(data, found, float(lines[0][2]))


def warm_up() -> None:
    """Fit a few rows by the library and by scikit-learn."""
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415

    import implicitmoments as im  # noqa: PLC0415

    X = np.random.default_rng(0).normal(size=(200, 2))
    im.GaussianMixture(2, random_state=0).fit(X)
    GaussianMixture(2, random_state=0).fit(X)


# ---- tables


def show_types(rows: list[Row]) -> None:
    """Print how likelihoods compare with those of each rival, where neither has collapsed."""
    lines = []
    for method in (OLD, THIS, FIVE):
        for rival in (ONE, TWENTY, MCLUST, OLD):
            pairs = sound_pairs(rows, method, rival)
            if rival == method or not pairs:
                continue
            gaps = np.array([a["level"] - b["level"] for a, b in pairs])
            held = np.array([a["held_out"] - b["held_out"] for a, b in pairs])
            worst = f"{gaps.min():.1f}, {pairs[int(gaps.argmin())][0]['setting']}"
            lines.append([method, rival, len(pairs), *three_ways(gaps), worst, *three_ways(held)])
    fits = ("fits that neither lost", "higher", "equal", "lower", "worst")
    print_table(("method", "rival", *fits, "held out: higher", "equal", "lower"), lines)
    print()
    sums = [
        (method, len(own), sum(row["collapsed"] for row in own), spread(values(own, "seconds")))
        for method in names(rows, "method")
        if (own := [row for row in select(rows, method=method) if "level" in row])
    ]
    print_table(("method", "fits", "collapsed", "s"), sums)


def sound_pairs(rows: list[Row], method: str, rival: str) -> list[tuple[Row, Row]]:
    """Return the fits of two methods to the same rows of which neither has collapsed."""
    there = {(row["setting"], row["seed"]): row for row in select(rows, method=rival)}
    pairs = [
        (row, there.get((row["setting"], row["seed"]), {})) for row in select(rows, method=method)
    ]
    return [
        (a, b) for a, b in pairs if not a.get("collapsed", True) and not b.get("collapsed", True)
    ]


def show_auto(rows: list[Row]) -> None:
    """Print what was chosen, its BIC beside that of the others, and its Rand index."""
    lines = []
    for setting in names(rows, "setting"):
        for method in names(rows, "method"):
            own = select(rows, setting=setting, method=method)
            if not any("level" in row for row in own):
                continue
            gaps = above(select(rows, setting=setting), THIS, method, "negative_bic")
            chosen = ", ".join(dict.fromkeys(row["chosen"] for row in own if "chosen" in row))
            cells = [setting.split()[0], method, chosen, spread(gaps[np.isfinite(gaps)], 1)]
            lines.append([*cells, spread(values(own, "rand")), spread(values(own, "seconds"))])
    print_table(
        ("set", "method", "chosen", "BIC, less that of this edition", "Rand index", "s"), lines
    )


OURS = both_editions(fit_ours)
CHOICES = [f"{setting.split()[0]} auto" for setting in settings() if setting.endswith(" full")]
TABLES = {
    "types": Table(
        settings(),
        [
            *OURS,
            Method(FIVE, partial(fit_ours, n_init=5)),
            Method(ONE, partial(fit_scikit_learn, n_init=1)),
            Method(TWENTY, partial(fit_scikit_learn, n_init=20)),
            Method(MCLUST, fit_mclust),
        ],
        show_types,
        warm_up,
        1,
        ["iris full", "wine diag"],
    ),
    "auto": Table(
        CHOICES, [*OURS, Method(MCLUST, fit_mclust)], show_auto, warm_up, 3, ["iris auto"]
    ),
}

if __name__ == "__main__":
    main("real_data", __doc__, TABLES)
