"""Spherical mixtures: means found and likelihood, beside scikit-learn and EM from the truth.

    python benchmarks/mixtures.py [recovery] [awkward] [random] [--seeds N] [--old SRC] ...

``recovery`` has settings in which one start of EM rarely finds every mean, and larger, closer and
smaller ones; ``awkward`` has unequal weights, outliers, a wrong number of components and noise
that is not Gaussian; ``random`` draws everything from the seed: 5 to 40 components in 2 to 25
features, six geometries, four laws of weights. A mean is found if the fit has one within half a
deviation, matched one to one. Nats are of all rows, outliers included.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from common import (
    OLD,
    RIGHT,
    THIS,
    Case,
    Figures,
    Floats,
    Method,
    Row,
    Table,
    above,
    both_editions,
    compare_levels,
    draw_weights,
    em_of_spheres,
    log_integer,
    log_likelihood,
    main,
    matched_distances,
    names,
    nearest_distances,
    print_table,
    select,
    sphere_logs,
    spread,
    timed,
    values,
)

TRUTH = "EM from the truth"
GEOMETRIES = ("cloud", "grid", "line", "clusters", "shell", "pairs")
LAWS = ("equal", "1/i", "Dirichlet", "one light")


@dataclass(frozen=True)
class Setting:
    """One mixture with means on a sphere or in a shell, and changes to its rows."""

    k: int
    d: int
    separation: float
    radius: float
    n: int = 60_000
    low: float = 1.0  # smallest norm, as a fraction of the radius
    centre: bool = False  # one mean at the centre
    close: float = 0.5
    ratio: float = 1.0  # of the largest weight to the smallest
    outliers: float = 0.0
    more: int = 0  # components fitted, minus k
    spread: float = 1.0  # of the largest variance to the smallest
    laplace: bool = False  # Laplace noise instead of Gaussian


RECOVERY = {
    "a: k 30, d 20": Setting(30, 20, 4, 4),
    "b: wider": Setting(30, 20, 6, 5),
    "c: k 60, d 30": Setting(60, 30, 6, 5),
    "d: k 50, d 100": Setting(50, 100, 0, 6 / np.sqrt(2), 50_000, close=0.6),
    "e: one mean inside": Setting(30, 20, 2.5, 6, low=0.3, centre=True),
    "f: closer": Setting(30, 20, 2.5, 2.5),
    "g: k 100": Setting(100, 30, 5, 5),
    "h: k 200, 200,000 rows": Setting(200, 30, 4.5, 5, 200_000),
    "i: separation 2": Setting(30, 20, 2, 2),
    "j: k 60, separation 2.5": Setting(60, 30, 2.5, 2.5),
    "k: 10,000 rows": Setting(30, 20, 4, 4, 10_000),
    "l: 5,000 rows": Setting(30, 20, 4, 4, 5_000),
}
PLAIN = Setting(30, 20, 4, 4)
AWKWARD = {
    "weights 20:1": replace(PLAIN, ratio=20),
    "5 % outliers": replace(PLAIN, outliers=0.05),
    "k − 2 fitted": replace(PLAIN, more=-2),
    "k + 2 fitted": replace(PLAIN, more=2),
    "variances 4:1": replace(PLAIN, spread=4),
    "Laplace noise": replace(PLAIN, laplace=True),
    "Laplace noise, separation 2.5": replace(PLAIN, laplace=True, separation=2.5, radius=2.5),
    "2,000 rows": replace(PLAIN, n=2_000),
    "k 10, d 5, 2,000 rows": Setting(10, 5, 4, 5, 2_000),
}
SETTINGS = RECOVERY | AWKWARD


@dataclass(frozen=True, eq=False)
class Data:
    """Rows, the spheres they were drawn from, and how many are fitted."""

    X: Floats
    weights: Floats
    means: Floats
    variances: Floats
    k: int
    close: float
    words: str = ""


@cache
def draw(case: Case) -> Data:
    """Draw the rows of a case."""
    if case.setting == "random":
        return draw_anything(case.seed)
    setting, rng = SETTINGS[case.setting], np.random.default_rng(case.seed)
    means = draw_directions(setting, rng)
    weights = np.geomspace(1, setting.ratio, setting.k)
    weights = rng.permutation(weights / weights.sum())
    variances = rng.permutation(np.geomspace(1, setting.spread, setting.k))
    variances /= variances.mean()
    labels = rng.choice(setting.k, setting.n, p=weights)
    shape = (setting.n, setting.d)
    noise = (
        rng.laplace(scale=np.sqrt(0.5), size=shape) if setting.laplace else rng.normal(size=shape)
    )
    X = means[labels] + np.sqrt(variances[labels])[:, None] * noise
    outliers = int(setting.outliers * setting.n)
    X[:outliers] = rng.uniform(-3, 3, (outliers, setting.d)) * setting.radius
    return Data(X, weights, means, variances, setting.k + setting.more, setting.close)


def draw_directions(setting: Setting, rng: np.random.Generator) -> Floats:
    """Draw means of random direction and norm, none closer to another than the separation."""
    means = np.zeros((int(setting.centre), setting.d))
    while len(means) < setting.k:
        new = rng.normal(size=setting.d)
        new *= setting.radius * rng.uniform(setting.low, 1.0) / np.linalg.norm(new)
        if len(means) == 0 or np.linalg.norm(means - new, axis=1).min() >= setting.separation:
            means = np.vstack([means, new])
    return means


def draw_anything(seed: int) -> Data:
    """Draw a mixture of spheres of variance 1, and rows from it."""
    rng = np.random.default_rng([seed, 1])
    k, d = int(rng.integers(5, 41)), log_integer(rng, 2, 25)
    n = k * log_integer(rng, 50, 400)
    law, geometry = str(rng.choice(LAWS)), str(rng.choice(GEOMETRIES))
    separation = rng.uniform(1.5, 6.0)
    weights, means = draw_weights(rng, law, k), draw_means(rng, geometry, k, d)
    means *= separation / np.median(nearest_distances(means))
    labels = rng.choice(k, n, p=weights)
    X = means[labels] + rng.normal(size=(n, d))
    words = f"k {k}, d {d}, n {n}, weights {law}, means {geometry}, separation {separation:.1f}"
    return Data(X, weights, means, np.ones(k), k, 0.5, words)


def draw_means(rng: np.random.Generator, geometry: str, k: int, d: int) -> Floats:
    """Draw means (k, d), in any unit."""
    means = rng.normal(size=(k, d))
    if geometry == "grid":
        m = min(d, 3)
        side = int(np.ceil(k ** (1 / m) - 1e-9))
        places = rng.choice(side**m, k, replace=False)
        means = np.zeros((k, d))
        means[:, :m] = np.column_stack(np.unravel_index(places, (side,) * m))
    elif geometry == "line":
        means = np.outer(np.arange(k), rng.normal(size=d)) + 0.1 * means
    elif geometry == "clusters":
        means += 6 * rng.normal(size=(-(-k // 5), d))[np.arange(k) // 5]
    elif geometry == "shell":
        means /= np.linalg.norm(means, axis=1, keepdims=True)
    elif geometry == "pairs":
        means = 0.3 * means + 2 * rng.normal(size=(-(-k // 2), d))[np.arange(k) // 2]
    return np.asarray(means)


# ---- methods


def fit_ours(case: Case, **options: Any) -> Figures:
    """Fit SphericalMixture with its defaults; no rows are left out of random mixtures."""
    import implicitmoments as im  # noqa: PLC0415  # the edition of this process

    data = draw(case)
    drop = case.setting != "random"
    model: Any = im.SphericalMixture(data.k, drop_outliers=drop, random_state=case.seed, **options)
    model, seconds = timed(lambda: model.fit(data.X))
    return judge(data, model.weights_, model.means_, model.variance_) | {"seconds": seconds}


def fit_scikit_learn(case: Case, n_init: int) -> Figures:
    """Fit scikit-learn's mixture of spheres, which have a variance each."""
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415

    data = draw(case)
    model = GaussianMixture(
        data.k, covariance_type="spherical", n_init=n_init, random_state=1_000 + case.seed
    )
    model, seconds = timed(lambda: model.fit(data.X))
    return judge(data, model.weights_, model.means_, model.covariances_) | {"seconds": seconds}


def fit_truth(case: Case) -> Figures:
    """Run plain EM from the truth; every component has the same variance."""
    data = draw(case)
    level = em_of_spheres(data.X, data.weights, data.means, float(data.weights @ data.variances))
    return {"level": level, "words": data.words}


def judge(data: Data, weights: Floats, means: Floats, variances: Any) -> Figures:
    """Return the means missed and the log-likelihood of all rows."""
    missed = matched_distances(np.asarray(means), data.means) >= data.close
    level = log_likelihood(sphere_logs(data.X, weights, means, variances))
    return {"missed": int(missed.sum()), "level": level}


def warm_up() -> None:
    """Fit a few rows by the library and by scikit-learn."""
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415

    import implicitmoments as im  # noqa: PLC0415

    X = np.random.default_rng(0).normal(size=(200, 2))
    im.SphericalMixture(2, random_state=0).fit(X)
    GaussianMixture(2, random_state=0).fit(X)


# ---- tables


def show_recovery(rows: list[Row]) -> None:
    """Print how often every mean was found, and the nats beside EM from the truth."""
    lines = []
    for setting in names(rows, "setting"):
        own = select(rows, setting=setting)
        for method in names(own, "method"):
            if method == TRUTH:
                continue
            found = select(own, method=method)
            missed = values(found, "missed")
            cells = [setting, method, f"{np.sum(missed == 0)} of {len(found)}", spread(missed, 0)]
            gaps, seconds = above(own, method, TRUTH), values(found, "seconds")
            lines.append([*cells, spread(gaps, 1), spread(seconds)])
    heads = (
        "setting",
        "method",
        "every mean",
        "means missed",
        "nats above EM from the truth",
        "s",
    )
    print_table(heads, lines)


def show_random(rows: list[Row]) -> None:
    """Print how often each edition is lost, and where."""
    compare_levels(rows, TRUTH)
    print()
    truth = select(rows, method=TRUTH)
    gaps = {method: above(rows, method, TRUTH) for method in (OLD, THIS)}
    lost = [
        (row["seed"], row["words"], *(f"{own[i]:+.1f}" for own in gaps.values() if len(own)))
        for i, row in enumerate(truth)
        if any(len(own) and own[i] < -RIGHT for own in gaps.values())
    ]
    print_table(("seed", "configuration", *(name for name, own in gaps.items() if len(own))), lost)


PEERS = [
    Method("scikit-learn, 1 start", partial(fit_scikit_learn, n_init=1)),
    Method("scikit-learn, 10 starts", partial(fit_scikit_learn, n_init=10)),
]
METHODS = [Method(TRUTH, fit_truth), *both_editions(fit_ours), *PEERS]
QUICK = ["l: 5,000 rows", "k: 10,000 rows"]
TABLES = {
    "recovery": Table(list(RECOVERY), METHODS, show_recovery, warm_up, 10, QUICK),
    "awkward": Table(list(AWKWARD), METHODS, show_recovery, warm_up, 5, ["2,000 rows"]),
    "random": Table(["random"], METHODS[:3], show_random, warm_up, 420),
}

if __name__ == "__main__":
    main("mixtures", __doc__, TABLES)
