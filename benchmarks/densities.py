"""Densities beside the truth, and clusters beside the Bayes rule.

    python benchmarks/densities.py [spherical] [regression] [clusters] [--seeds N] [--old SRC] ...

``spherical`` and ``regression`` measure the distance of the fitted density H from the truth F at
50,000 new rows: total variation, the mean of (1 − H/F)_+, and Hellinger's, the root of the mean of
1 − √(H/F). ``clusters`` has the adjusted Rand index against the true components, over that of the
Bayes rule with the true means.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np

from common import (
    Case,
    Figures,
    Floats,
    Method,
    Row,
    Table,
    both_editions,
    main,
    names,
    normalise,
    print_table,
    select,
    sphere_logs,
    spread,
    timed,
    values,
)

FRESH = 50_000  # the standard error of a distance is below 0.001


# ---- densities


@dataclass(frozen=True, eq=False)
class Means:
    """A mixture of spherical Gaussians of variance 1: weights (k,) and means (k, d)."""

    weights: Floats
    means: Floats

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, ...]:
        """Return rows."""
        labels = rng.choice(len(self.weights), n, p=self.weights)
        return (self.means[labels] + rng.normal(size=(n, self.means.shape[1])),)

    def log_density(self, X: Floats) -> Floats:
        """Return the log density of rows."""
        return normalise(sphere_logs(X, self.weights, self.means, 1.0))[0]


@dataclass(frozen=True, eq=False)
class Lines:
    """A mixture of regressions: weights (k,), slopes (k, d), noise, intercepts (k,), mean of x."""

    weights: Any
    slopes: Any
    noise: float
    intercepts: Any = 0.0
    mean: float = 0.0

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, ...]:
        """Return rows and labels."""
        slopes, k = np.asarray(self.slopes, dtype=float), len(self.weights)
        labels = rng.choice(k, n, p=self.weights)
        X = rng.normal(size=(n, slopes.shape[1])) + self.mean
        y = np.sum(X * slopes[labels], axis=1) + np.broadcast_to(self.intercepts, k)[labels]
        return X, y + self.noise * rng.normal(size=n)

    def log_density(self, X: Floats, y: Floats) -> Floats:
        """Return the log density of (x, y)."""
        z = (y[:, None] - X @ np.asarray(self.slopes).T - np.asarray(self.intercepts)) / self.noise
        labels = normalise(np.log(self.weights) - z**2 / 2)[0] - math.log(self.noise)
        constant = (X.shape[1] + 1) / 2 * math.log(2 * math.pi)
        return np.asarray(labels - np.sum((X - self.mean) ** 2, axis=1) / 2 - constant)


Truth: TypeAlias = Means | Lines
Setting: TypeAlias = tuple[Callable[[np.random.Generator], Truth], int]  # and number of rows


def directions(k: int, d: int, rng: np.random.Generator) -> Floats:
    """Return k random vectors (k, d) of length 1."""
    vectors = rng.normal(size=(k, d))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def equal_means(norm: float, rng: np.random.Generator) -> Means:
    """Return four means of one norm in ten features."""
    return Means(np.full(4, 0.25), norm * directions(4, 10, rng))


def random_means(rng: np.random.Generator) -> Means:
    """Return two to six means: weights from a Dirichlet distribution, norms up to 3."""
    k = int(rng.integers(2, 7))
    weights = rng.dirichlet(np.full(k, rng.choice([1.0, 5.0])))
    norms = rng.uniform(0.5, 3.0) * rng.uniform(0.3, 1.0, size=(k, 1))
    return Means(weights, norms * directions(k, k + int(rng.integers(6)), rng))


def equal_lines(signal: float, noise: float, rng: np.random.Generator, mean: float = 0) -> Lines:
    """Return three slopes of one norm in five features."""
    return Lines(np.full(3, 1 / 3), signal * directions(3, 5, rng), noise, mean=mean)


def given(truth: Truth, _: np.random.Generator) -> Truth:
    """Return the same truth for every seed."""
    return truth


LIGHT = Lines([0.95, 0.05], [[0, 0, 0], [1, 0, 0]], 0.5)
THREE = Lines([0.5, 0.3, 0.2], [[0.2, 0, 0], [0, -0.6, 0], [0, 0, 1.2]], 0.7)
SHIFTED = Lines([0.7, 0.3], [[0.3, 0, 0], [0, 1, 0]], 0.7, [0.0, 1.0])
CROSSING = Lines([0.5, 0.5], [[0.5, 0], [-0.5, 0]], 1.0, [2.5, -2.5])
SPHERICAL: dict[str, Setting] = {
    "norm 1.2, 1,000 rows": (partial(equal_means, 1.2), 1_000),
    "norm 1.2, 100,000 rows": (partial(equal_means, 1.2), 100_000),
    "norm 2, 10,000 rows": (partial(equal_means, 2.0), 10_000),
    "norm 2, 100,000 rows": (partial(equal_means, 2.0), 100_000),
    "norm 2√log 4, 200,000 rows": (partial(equal_means, 2 * math.sqrt(math.log(4))), 200_000),
    "random, 4,000 rows": (random_means, 4_000),
    "random, 50,000 rows": (random_means, 50_000),
}
REGRESSION: dict[str, Setting] = {
    "slopes 1, noise 1, 5,000 rows": (partial(equal_lines, 1.0, 1.0), 5_000),
    "slopes 1, noise 1, 100,000 rows": (partial(equal_lines, 1.0, 1.0), 100_000),
    "slopes 0.3, noise 1, 100,000 rows": (partial(equal_lines, 0.3, 1.0), 100_000),
    "slopes 1, noise 0.5, 100,000 rows": (partial(equal_lines, 1.0, 0.5), 100_000),
    "x of mean 2, 100,000 rows": (partial(equal_lines, 1.0, 1.0, mean=2.0), 100_000),
    "lines ±(2.5 + x/2), 100,000 rows": (partial(given, CROSSING), 100_000),
    "weights .95, .05, 100,000 rows": (partial(given, LIGHT), 100_000),
    "slopes .2, .6, 1.2, 10,000 rows": (partial(given, THREE), 10_000),
    "slopes .2, .6, 1.2, 100,000 rows": (partial(given, THREE), 100_000),
    "intercepts 0, 1, 100,000 rows": (partial(given, SHIFTED), 100_000),
}


@cache
def draw(case: Case) -> tuple[Truth, tuple[Floats, ...]]:
    """Draw the truth and the rows of a case."""
    make, n = (SPHERICAL | REGRESSION)[case.setting]
    rng = np.random.default_rng([case.seed, 0])
    truth = make(rng)
    return truth, truth.draw(n, rng)


def fit_density(case: Case) -> Figures:
    """Fit a density with its defaults."""
    import implicitmoments as im  # noqa: PLC0415  # the edition of this process

    truth, data = draw(case)
    estimator: Any = im.SphericalMixtureDensity if len(data) == 1 else im.RegressionMixtureDensity
    model = estimator(len(truth.weights), random_state=case.seed)
    model, seconds = timed(lambda: model.fit(*data))
    return judge(model, truth, case.seed) | {"degree": model.degree_, "seconds": seconds}


def judge(model: Any, truth: Truth, seed: int) -> Figures:
    """Return the distances of a density from the truth."""
    fresh: Any = truth.draw(FRESH, np.random.default_rng([seed, 1]))
    ratio = np.exp(model.score_samples(*fresh) - truth.log_density(*fresh))
    squared = max(0.0, float(np.mean(1 - np.sqrt(ratio))))
    return {"distance": np.mean(np.maximum(0.0, 1.0 - ratio)), "hellinger": math.sqrt(squared)}


# ---- clusters

CLUSTERS = {  # k, separation, d
    "k 6, separation 10, d 20": (6, 10.0, 20),
    "k 6, separation 6, d 20": (6, 6.0, 20),
    "k 10, separation 6, d 20": (10, 6.0, 20),
    "k 30, separation 8, d 20": (30, 8.0, 20),
    "k 40, separation 8, d 50": (40, 8.0, 50),
}


@cache
def draw_clusters(case: Case) -> tuple[Floats, Any, Floats]:
    """Draw 50,000 rows, their labels, and means at the smallest radius that has room for them."""
    k, separation, d = CLUSTERS[case.setting]
    rng, means, radius = np.random.default_rng(case.seed), np.zeros((0, d)), 0.72 * separation
    while len(means) < k:
        new = radius * directions(1, d, rng)
        if len(means) == 0 or np.linalg.norm(means - new, axis=1).min() >= separation:
            means = np.vstack([means, new])
        radius *= 1.0002  # of each attempt
    labels = rng.integers(k, size=50_000)
    return means[labels] + rng.normal(size=(len(labels), d)), labels, means


def fit_clusters(case: Case, method: str) -> Figures:
    """Return the index of a method over that of the Bayes rule."""
    from sklearn.cluster import KMeans  # noqa: PLC0415
    from sklearn.metrics import adjusted_rand_score  # noqa: PLC0415
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415

    import implicitmoments as im  # noqa: PLC0415  # the edition of this process

    X, labels, means = draw_clusters(case)
    k, d = means.shape
    variance = None if k <= d else 1.0
    model: Any = {
        "ours": im.SphericalMixtureClusterer(k, variance=variance, random_state=case.seed),
        "k-means": KMeans(k, n_init=10, random_state=case.seed),
        "EM": GaussianMixture(k, covariance_type="spherical", random_state=case.seed),
    }[method]
    found, seconds = timed(lambda: model.fit(X).predict(X))
    bayes = np.argmax(sphere_logs(X, np.full(k, 1 / k), means, 1.0), axis=1)
    index = adjusted_rand_score(labels, found) / adjusted_rand_score(labels, bayes)
    return {"index": index, "seconds": seconds}


# ---- tables


def warm_up() -> None:
    """Fit a few rows."""
    import implicitmoments as im  # noqa: PLC0415

    X, y = LIGHT.draw(500, np.random.default_rng(0))
    im.SphericalMixtureDensity(2, degree=2, random_state=0).fit(X)
    im.RegressionMixtureDensity(2, degree=2, random_state=0).fit(X, y)
    im.SphericalMixtureClusterer(2, random_state=0).fit(X)


def show(rows: list[Row], *, figures: dict[str, int]) -> None:
    """Print figures by setting and method, each with a number of digits."""
    lines = []
    for setting in names(rows, "setting"):
        for method in names(rows, "method"):
            own = select(rows, setting=setting, method=method)
            cells = [spread(values(own, key), digits) for key, digits in figures.items()]
            lines.append([setting, method, *cells])
    print_table(("setting", "method", *figures), lines)


show_densities = partial(show, figures={"distance": 4, "hellinger": 4, "degree": 0, "seconds": 2})
show_clusters = partial(show, figures={"index": 4, "seconds": 2})
DENSITIES = both_editions(fit_density)
METHODS = [
    *both_editions(partial(fit_clusters, method="ours")),
    Method("k-means, 10 starts", partial(fit_clusters, method="k-means")),
    Method("EM, 1 start", partial(fit_clusters, method="EM")),
]
QUICK = ["norm 1.2, 1,000 rows", "random, 4,000 rows"], ["slopes 1, noise 1, 5,000 rows"]
TABLES = {
    "spherical": Table(list(SPHERICAL), DENSITIES, show_densities, warm_up, 10, QUICK[0]),
    "regression": Table(list(REGRESSION), DENSITIES, show_densities, warm_up, 10, QUICK[1]),
    "clusters": Table(list(CLUSTERS), METHODS, show_clusters, warm_up, 5, list(CLUSTERS)[:1]),
}

if __name__ == "__main__":
    main("densities", __doc__, TABLES)
