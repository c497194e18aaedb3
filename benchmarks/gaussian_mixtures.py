"""Gaussian mixtures of every covariance type, beside scikit-learn, mclust and EM from the truth.

    python benchmarks/gaussian_mixtures.py [separated] [overlapping] [light] [auto] [--old SRC] ...

Nats are of all rows, above those of EM from the truth. scikit-learn is timed with its default
tolerance, and its EM then goes on until it converges, so that its nats are those of its optimum.
``light`` has components of few rows: 3 to 1,000 rows on average, four laws of weights. ``auto``
chooses type and number: it is right, or BIC prefers its choice to the truth, or it is wrong.
mclust is fitted where R has it.
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
    LOST,
    RIGHT,
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
    timed,
    values,
)

TRUTH = "EM from the truth"
KINDS = ("tied_spherical", "spherical", "tied_diag", "diag", "tied", "full")
# covariance types and the models of mclust
MODELS = dict(zip(KINDS, ("EII", "VII", "EEI", "VVI", "EEE", "VVV"), strict=True))


@dataclass(frozen=True)
class Setting:
    """A family of data sets."""

    kind: str  # covariance type
    k: int
    d: int
    n: int
    separation: float  # least Mahalanobis distance of two means
    weights: str = "equal"

    def __str__(self) -> str:
        words = f"{self.kind} k {self.k} d {self.d}, {self.n:,} rows"
        return f"{words}, separation {self.separation:g}, {self.weights}"


def by_name(*settings: Setting) -> dict[str, Setting]:
    """Return settings by their names."""
    return {str(setting): setting for setting in settings}


SEPARATED = by_name(
    Setting("full", 10, 5, 10_000, 3.5),
    Setting("full", 30, 10, 30_000, 3.5),
    Setting("full", 15, 30, 30_000, 3.5),
    Setting("diag", 30, 10, 30_000, 3.5),
    Setting("tied", 20, 10, 30_000, 3.5),
    Setting("tied", 40, 20, 60_000, 3.5),
    Setting("spherical", 45, 25, 50_000, 3.5),
)
OVERLAPPING = by_name(
    Setting("full", 20, 3, 20_000, 2.5, "zipf"),
    Setting("full", 12, 2, 10_000, 2.0),
    Setting("full", 10, 5, 1_500, 2.5),
)
LIGHT = by_name(
    *(
        Setting(kind, k, d, each * k, separation, weights)
        for kind in ("tied_spherical", "full")
        for d in (2, 3, 8)
        for k in (5, 15, 40)
        for each in (50, 200, 1_000)
        for separation in (1.5, 2.0, 3.0, 5.0)
        for weights in ("equal", "zipf1.2", "dirichlet", "tiny")
    )
)
AUTO = by_name(
    *(
        Setting(kind, k, d, n, 3.5)
        for kind in KINDS
        for k, d, n in ((3, 2, 1_500), (6, 4, 4_000), (10, 5, 10_000), (15, 8, 15_000))
    )
)
SETTINGS = SEPARATED | OVERLAPPING | LIGHT | AUTO


@dataclass(frozen=True, eq=False)
class Data:
    """Rows, and the weights (k,), means (k, d) and covariances (k, d, d) they were drawn from."""

    setting: Setting
    X: Floats
    weights: Floats
    means: Floats
    covariances: Floats

    def precisions(self) -> Floats:
        """Return the precisions in the shape of ``precisions_init``."""
        kind = self.setting.kind
        whole: Any = np.linalg.inv(self.covariances)
        whole = whole[0] if kind.startswith("tied") else whole
        if kind.endswith("diag"):
            whole = np.diagonal(whole, axis1=-2, axis2=-1)
        return np.asarray(whole[..., 0, 0] if kind.endswith("spherical") else whole)


@cache
def draw(case: Case) -> Data:
    """Draw covariances of random axes, means that are apart, and rows."""
    setting, rng = SETTINGS[case.setting], np.random.default_rng([case.seed, 15])
    k, d = setting.k, setting.d
    weights = {
        "equal": np.ones(k),
        "zipf": np.arange(1, k + 1) ** -0.8,
        "zipf1.2": np.arange(1, k + 1) ** -1.2,
        "dirichlet": rng.dirichlet(np.full(k, 0.5)) + 1e-4,
        "tiny": np.append(np.ones(k - 1), 0.002 * k),
    }[setting.weights]
    weights = weights / weights.sum()
    axes = np.linalg.qr(rng.normal(size=(k, d, d)))[0]
    scales = np.exp(rng.uniform(-1, 1, size=(k, d)))
    if setting.kind.endswith("diag"):
        axes = np.repeat(np.eye(d)[None], k, axis=0)
    if setting.kind.endswith("spherical"):
        scales = np.repeat(scales[:, :1], d, axis=1)
    if setting.kind.startswith("tied"):
        axes, scales = np.repeat(axes[:1], k, axis=0), np.repeat(scales[:1], k, axis=0)
    covariances = (axes * scales[:, None, :]) @ axes.transpose(0, 2, 1)
    means = draw_means(setting, covariances, rng)
    labels = rng.choice(k, setting.n, p=weights)
    X, roots = rng.normal(size=(setting.n, d)), np.linalg.cholesky(covariances)
    for i in range(k):
        X[labels == i] = means[i] + X[labels == i] @ roots[i].T
    return Data(setting, X, weights, means, covariances)


def draw_means(setting: Setting, covariances: Floats, rng: np.random.Generator) -> Floats:
    """Draw means whose Mahalanobis distances, by the mean of two covariances, are large enough."""
    means = np.zeros((0, setting.d))
    radius = 0.6 * setting.separation * setting.k ** (1 / setting.d)
    while len(means) < setting.k:
        radius *= 1.0005
        new = radius * rng.normal(size=setting.d)
        pooled = (covariances[len(means)] + covariances[: len(means)]) / 2
        apart = new - means
        squares = np.sum(apart * np.linalg.solve(pooled, apart[..., None])[..., 0], axis=1)
        if np.all(squares > setting.separation**2):
            means = np.vstack([means, new])
    return means


# ---- methods


def fit_ours(case: Case) -> Figures:
    """Fit this library's mixture with its defaults."""
    import implicitmoments as im  # noqa: PLC0415  # the edition of this process

    data = draw(case)
    model: Any = im.GaussianMixture(
        data.setting.k, covariance_type=data.setting.kind, random_state=case.seed
    )
    model, seconds = timed(lambda: model.fit(data.X))
    level = model.score(data.X) * len(data.X)
    return {"level": level, "seconds": seconds, "notes": " ".join(model.notes_.codes)}


def fit_auto(case: Case) -> Figures:
    """Choose type and number of components."""
    import implicitmoments as im  # noqa: PLC0415

    data, setting = draw(case), SETTINGS[case.setting]
    model: Any = im.GaussianMixture("auto", covariance_type="auto", random_state=case.seed)
    model, seconds = timed(lambda: model.fit(data.X))
    right = (model.covariance_type_, model.n_components_) == (setting.kind, setting.k)
    return {"level": -model.bic(data.X), "seconds": seconds, "right": right}


def fit_sweep(case: Case) -> Figures:
    """Sweep scikit-learn over k = 1…10 and four types, one start each."""
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415

    X = draw(case).X

    def sweep() -> float:
        fits = (
            GaussianMixture(k, covariance_type=kind, random_state=case.seed).fit(X)
            for k in range(1, 11)
            for kind in ("spherical", "diag", "tied", "full")
        )
        return min(float(fit.bic(X)) for fit in fits)

    least, seconds = timed(sweep)
    return {"level": -least, "seconds": seconds, "right": False}


def fit_scikit_learn(case: Case, n_init: int) -> Figures:
    """Fit scikit-learn's mixture; it has no tied_spherical, which is fitted as spherical."""
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415

    data, kind = draw(case), SETTINGS[case.setting].kind.removeprefix("tied_")
    model = GaussianMixture(
        data.setting.k, covariance_type=kind, n_init=n_init, random_state=case.seed
    )
    model, seconds = timed(lambda: model.fit(data.X))
    ended = em_from(data.X, kind, model.weights_, model.means_, model.precisions_)
    return {"level": ended.score(data.X) * len(data.X), "seconds": seconds}


def fit_mclust(case: Case) -> Figures:
    """Fit mclust's model of the same type, if R has it."""
    if shutil.which("Rscript") is None:
        return {}
    data = draw(case)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        np.savetxt(path, data.X, delimiter=",", fmt="%.17g")
        program = (
            f"suppressMessages(library(mclust)); X <- as.matrix(read.csv('{path}', header=FALSE));"
            f"set.seed({case.seed}); t <- system.time(m <- Mclust(X, G={data.setting.k}, "
            f"modelNames='{MODELS[data.setting.kind]}', verbose=FALSE));"
            "cat(m$loglik, sum(t[1:2]))"
        )
        done = subprocess.run(["Rscript", "-e", program], capture_output=True, check=False)
    words = done.stdout.split()
    return {"level": float(words[0]), "seconds": float(words[1])} if len(words) > 1 else {}


def fit_truth(case: Case) -> Figures:
    """Run EM from the truth."""
    data = draw(case)
    model = em_from(data.X, data.setting.kind, data.weights, data.means, data.precisions())
    return {"level": model.score(data.X) * len(data.X), "bic": model.bic(data.X)}


def fit_auto_truth(case: Case) -> Figures:
    """Return the negative BIC of EM from the truth as the level of ``auto``."""
    return {"level": -fit_truth(case)["bic"]}


def em_from(X: Floats, kind: str, weights: Floats, means: Floats, precisions: Floats) -> Any:
    """Return EM until it converges, from given parameters."""
    import implicitmoments as im  # noqa: PLC0415

    start = {"weights_init": weights, "means_init": means, "precisions_init": precisions}
    how: dict[str, Any] = {"n_moves": 0, "tol": 1e-9, "drop_outliers": False, **start}
    return im.GaussianMixture(len(weights), covariance_type=kind, **how).fit(X)


def warm_up() -> None:
    """Fit a few rows by the library and by scikit-learn."""
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415

    import implicitmoments as im  # noqa: PLC0415

    X = np.random.default_rng(0).normal(size=(200, 2))
    im.GaussianMixture(2, random_state=0).fit(X)
    GaussianMixture(2, random_state=0).fit(X)


# ---- tables


def show_settings(rows: list[Row]) -> None:
    """Print how many fits of each setting are as good as EM from the truth."""
    lines = []
    for setting in names(rows, "setting"):
        own = select(rows, setting=setting)
        for method in names(own, "method"):
            seconds = values(select(own, method=method), "seconds")
            if len(seconds):
                gaps = above(own, method, TRUTH)
                cells = [f"{np.sum(gaps > -RIGHT)} of {len(gaps)}", spread(gaps, 1)]
                lines.append([setting, method, *cells, spread(seconds)])
    heads = ("setting", "method", "as good", "nats above EM from the truth", "s")
    print_table(heads, lines)


def show_light(rows: list[Row]) -> None:
    """Print how many fits of light components are lost, by separation, and how many silently."""
    lines = []
    for method in names(rows, "method"):
        if method == TRUTH:
            continue
        for words, least in (("3 and 5", 3.0), ("all", 0.0)):
            some = [row for row in rows if SETTINGS[row["setting"]].separation >= least]
            gaps, found = above(some, method, TRUTH), select(some, method=method)
            lost = [row for row, gap in zip(found, gaps, strict=True) if gap < -LOST]
            silent = sum(not row.get("notes") for row in lost)
            if not found:
                continue
            seconds = values(found, "seconds")
            share = f"{len(lost)} of {len(found)} ({len(lost) / len(found):.1%})"
            lines.append(
                [method, words, share, silent, f"{gaps.min():.0f}", f"{seconds.sum():.0f}"]
            )
    print_table(("method", "separation", "lost", "without a note", "worst", "sum s"), lines)


def show_auto(rows: list[Row]) -> None:
    """Print how often type and number are right, or preferred by BIC, and the times."""
    lines = []
    for method in names(rows, "method"):
        found = select(rows, method=method)
        if "seconds" not in found[0]:
            continue
        gaps = above(rows, method, TRUTH)
        right = np.array([row.get("right", False) for row in found])
        seconds = values(found, "seconds")
        counts = [right.sum(), np.sum(~right & (gaps > 0)), np.sum(~right & (gaps <= 0))]
        lines.append(
            [
                method,
                *counts,
                f"{-gaps.min():.1f}",
                spread(seconds),
                f"{seconds.sum():.0f}",
            ]
        )
    heads = (
        "method",
        "right",
        "BIC prefers it",
        "wrong",
        "most BIC above the truth's",
        "s",
        "sum s",
    )
    print_table(heads, lines)


PEERS = [
    Method("scikit-learn, 1 start", partial(fit_scikit_learn, n_init=1)),
    Method("scikit-learn, 10 starts", partial(fit_scikit_learn, n_init=10)),
    Method("mclust", fit_mclust),
]
OURS = [Method(TRUTH, fit_truth), *both_editions(fit_ours)]
CHOICES = [
    Method(TRUTH, fit_auto_truth),
    *both_editions(fit_auto),
    Method("scikit-learn, sweep", fit_sweep),
]
QUICK = [str(Setting("full", 10, 5, 1_500, 2.5))]
TABLES = {
    "separated": Table(list(SEPARATED), [*OURS, *PEERS], show_settings, warm_up, 10, QUICK),
    "overlapping": Table(list(OVERLAPPING), [*OURS, *PEERS], show_settings, warm_up, 10, QUICK),
    "light": Table(list(LIGHT), OURS, show_light, warm_up, 1, list(LIGHT)[:4]),
    "auto": Table(list(AUTO), CHOICES, show_auto, warm_up, 3, list(AUTO)[:1]),
}

if __name__ == "__main__":
    main("gaussian_mixtures", __doc__, TABLES)
