"""Small versions of the settings of the benchmarks, on two or three seeds.

Those of ``mixtures.py``, ``regressions.py``, ``activations.py``, ``clustering.py``,
``overcomplete.py`` and of both density benchmarks, with fewer rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

import implicitmoments as im
from freezing.digests import variance_options
from freezing.kinds import EXACT, NATS, Floats, Items, Numbers, Quality, Search
from freezing.moments import named
from freezing.truth import (
    mixture_from_truth,
    mixture_logs,
    n_close,
    regression_from_truth,
    regression_logs,
    total_variation,
)

FRESH = 10_000
MORE_NATS = 10.0  # with a wrong number of components, many maxima are close together


def bic_penalty(n_parameters: int, n: int) -> float:
    """Return the penalty of −BIC/2 for a model of unknown size."""
    return 0.5 * n_parameters * float(np.log(n))


@dataclass(frozen=True)
class Mixture:
    """A spherical mixture, and changes to its rows."""

    k: int
    d: int
    separation: float
    radius: float | tuple[float, float]
    n: int = 12_000
    ratio: float = 1.0  # of the largest weight to the smallest
    outliers: float = 0.0
    asked: int | str = 0  # components fitted, minus k, or "auto"
    spread: float = 1.0  # of the largest variance to the smallest
    laplace: bool = False  # Laplace noise instead of Gaussian
    variance_type: str = "shared"

    def draw(self, seed: int) -> tuple[Floats, Floats, Any]:
        """Return outliers, rows of the mixture, and the mixture."""
        weights = tuple(np.geomspace(self.ratio, 1.0, self.k))
        X, truth = im.datasets.make_spherical_mixture(
            self.n,
            self.k,
            self.d,
            radius=self.radius,
            separation=self.separation,
            weights=weights,
            random_state=seed,
        )
        rng = np.random.default_rng(seed)
        middle = truth.vectors[truth.labels]
        noise = X - middle
        if self.laplace:
            noise = np.asarray(rng.laplace(scale=np.sqrt(0.5), size=X.shape))
        variances = rng.permutation(np.geomspace(1, self.spread, self.k))
        X = middle + noise * np.sqrt(variances / variances.mean())[truth.labels, None]
        far = rng.uniform(-15, 15, (int(self.outliers * self.n), self.d))
        return far, X, truth

    def fit(self, seed: int) -> Search:
        """Return the likelihood of rows that are not outliers, and means found."""
        far, X, truth = self.draw(seed)
        rows = np.random.default_rng(seed).permutation(np.vstack([far, X]))
        k = self.asked if isinstance(self.asked, str) else self.k + self.asked
        separate = self.variance_type == "separate"
        model = im.SphericalMixture(k, random_state=seed, **variance_options(separate=separate))
        model.fit(rows)
        goal = None
        if self.asked in (0, "auto"):
            goal = mixture_from_truth(X, truth.weights, truth.vectors, separate=separate)
        found = n_close(model.means_, truth.vectors)
        nats = NATS if goal is not None else MORE_NATS
        likelihood = float(model.score(X)) * len(X)
        if goal is not None and self.asked == "auto":
            likelihood = -float(model.bic(X)) / 2
            goal -= bic_penalty(self.k * (self.d + 1), self.n)
        return Search(likelihood, found, self.k, goal, nats)


PLAIN = Mixture(30, 20, 4, 4.0)
SMALL = Mixture(10, 5, 4, 5.0, 2_000)
MIXTURES = {
    "a": PLAIN,
    "b": Mixture(30, 20, 6, 5.0),
    "c": Mixture(60, 30, 6, 5.0, 20_000),
    "e": Mixture(30, 20, 2.5, (1.8, 6.0), 20_000),
    "g": Mixture(30, 20, 2.0, (1.5, 5.0), 20_000),
    "h": Mixture(30, 20, 2.5, 2.5, 20_000),
    "i": replace(PLAIN, n=5_000),
    "k = 100": Mixture(100, 30, 5, 5.0, 20_000),
    "2 apart": Mixture(30, 20, 2.0, 2.0, 20_000),
    "N = 100,000": replace(PLAIN, n=100_000),
    "k = 12, d = 2": Mixture(12, 2, 2.5, (0.0, 8.0), 6_000),
    "weights 20:1": replace(PLAIN, ratio=20),
    "5 % outliers": replace(PLAIN, outliers=0.05),
    "k − 2 asked": replace(PLAIN, asked=-2),
    "k + 2 asked": replace(PLAIN, asked=2),
    "variances 4:1, separate": replace(PLAIN, spread=4, variance_type="separate"),
    "Laplace noise": replace(PLAIN, laplace=True),
    "N = 2,000": replace(PLAIN, n=2_000),
    "N = 2,000, k = 10, d = 5": SMALL,
    "auto": replace(SMALL, asked="auto"),
    "auto, k = 30": replace(PLAIN, asked="auto"),
}


@dataclass(frozen=True)
class Regression:
    """A mixture of regressions."""

    k: int
    d: int
    n: int
    noise: float = 0.3
    radius: float | tuple[float, float] = 1.0
    ratio: float = 1.0  # of the largest weight to the smallest
    pairs: float = 0.0  # distance of two lines where they come in pairs
    law: str = ""  # of the rows, where not Gaussian
    asked: str = ""  # "auto"

    def draw(self, seed: int) -> tuple[Floats, Floats, Any, Floats]:
        """Return rows, labels, the truth and its regressors."""
        X, y, truth = im.datasets.make_regression_mixture(
            self.n,
            self.k,
            self.d,
            radius=self.radius,
            noise=self.noise,
            weights=tuple(np.geomspace(self.ratio, 1.0, self.k)),
            random_state=seed,
        )
        vectors, rng = np.array(truth.vectors), np.random.default_rng(seed)
        noise = y - np.sum(X * vectors[truth.labels], axis=1)
        if self.pairs:
            away = rng.normal(size=(self.k // 2, self.d))
            away *= self.pairs / np.linalg.norm(away, axis=1, keepdims=True)
            vectors[1::2] = vectors[::2] + away
        if self.law == "exponential":
            X = np.asarray(rng.exponential(size=X.shape)) - 1
        elif self.law == "signs":
            X = rng.choice([-1.0, 1.0], size=X.shape)
        return X, np.sum(X * vectors[truth.labels], axis=1) + noise, truth, vectors

    def fit(self, seed: int) -> Search:
        """Return likelihood and lines found."""
        X, y, truth, vectors = self.draw(seed)
        model = im.RegressionMixture(self.asked or self.k, random_state=seed).fit(X, y)
        goal = regression_from_truth(X, y, truth.weights, vectors, self.noise)
        found = n_close(model.coef_, vectors, min(0.5, (self.pairs or 1.0) / 2))
        likelihood = float(np.sum(model.score_samples(X, y)))
        if self.asked == "auto":
            likelihood = -float(model.bic(X, y)) / 2
            goal -= bic_penalty(self.k * (self.d + 2), self.n)
        return Search(likelihood, found, self.k, goal)


REGRESSIONS = {
    "k4": Regression(4, 20, 5_000),
    "k8": Regression(8, 20, 15_000),
    "k12": Regression(12, 20, 30_000),
    "k6-d4": Regression(6, 4, 20_000),
    "pairs": Regression(8, 10, 20_000, pairs=0.5),
    "10:1": Regression(8, 20, 20_000, ratio=10),
    "norms": Regression(8, 20, 15_000, radius=(0.5, 2.0)),
    "noise-1-k4": Regression(4, 20, 10_000, noise=1.0),
    "exponential": Regression(8, 20, 15_000, law="exponential"),
    "signs": Regression(8, 20, 15_000, law="signs"),
    "noise-1-k6": Regression(6, 10, 20_000, noise=1.0),
    "k12-15k": Regression(12, 20, 15_000),
    "k8-d2": Regression(8, 2, 10_000, radius=(0.5, 3.0)),
    "k4-100k": Regression(4, 20, 100_000),
    "d = 60": Regression(4, 60, 10_000),
    "auto": Regression(4, 20, 10_000, asked="auto"),
}


def activation(
    name: str, d: int, k: int, n: int, refine: bool, noise: float, seed: int
) -> Quality:
    """Return 1 − R² on new rows without noise."""
    function: Any = np.cos if name == "cos" else None
    X, y, _ = im.datasets.make_activation_sum(
        n + FRESH, k, d, activation=function, random_state=seed
    )
    rng = np.random.default_rng(seed)
    given = y[:n] + rng.standard_normal(n) * np.sqrt(noise) * y.std()
    model = im.ActivationSumRegressor(name, k, refine=refine, random_state=0).fit(X[:n], given)
    return Quality(1.0 - float(model.score(X[n:], y[n:])))


ACTIVATIONS = {
    "relu, d = 10": ("relu", 10, 4, 3_000, False, 0.0),
    "relu, d = 10, refined": ("relu", 10, 4, 5_000, True, 0.0),
    "relu, d = 10, noise 10 %, refined": ("relu", 10, 4, 5_000, True, 0.1),
    "cos, d = 10": ("cos", 10, 4, 10_000, False, 0.0),
    "cos, d = 10, noise 10 %, refined": ("cos", 10, 4, 5_000, True, 0.1),
    "relu, d = 30": ("relu", 30, 8, 3_000, False, 0.0),
    "relu, d = 30, refined": ("relu", 30, 8, 5_000, True, 0.0),
}


def clusters(k: int, separation: float, radius: float, seed: int) -> Quality:
    """Return 1 minus the ratio of the adjusted Rand index to that of the true means."""
    X, truth = im.datasets.make_spherical_mixture(
        10_000, k, 20, radius=radius, separation=separation, random_state=seed
    )
    labels: Any = truth.labels
    best = np.argmin(np.sum(truth.vectors**2, axis=1) - 2 * X @ truth.vectors.T, axis=1)
    model = im.SphericalMixtureClusterer(
        k, variance=1.0 if k > 20 else None, random_state=seed
    ).fit(X)
    ours = adjusted_rand_score(labels, model.labels_)
    return Quality(1.0 - float(ours / adjusted_rand_score(labels, best)), 0.1, 5e-4)


CLUSTERS = {
    "k = 6, 10 apart": (6, 10.0, 7.2),
    "k = 6, 6 apart": (6, 6.0, 4.8),
    "k = 10, 6 apart": (10, 6.0, 4.8),
    "k = 30, 8 apart": (30, 8.0, 7.2),
}


def overcomplete(k: int, d: int, separation: float, radius: Any, n: int, seed: int) -> Numbers:
    """Return decoded means within 0.5, resolved ones, and the gap to the noise."""
    X, truth = im.datasets.make_spherical_mixture(
        n, k, d, radius=radius, separation=separation, random_state=seed
    )
    posed = named("SphericalMixtureProblem")(X)
    found = im.implicit_moments(posed, n_components=k, order=1).components()
    near = n_close(found.guesses, truth.vectors)
    return Numbers([near, float(np.sum(found.resolved)), float(found.gap)], EXACT)


OVERCOMPLETE = {
    "30 in 20, 4 apart": (30, 20, 4.0, 4.0, 20_000),
    "60 in 30, 6 apart": (60, 30, 6.0, 5.0, 20_000),
    "30 in 20, spread": (30, 20, 2.5, (1.8, 6.0), 20_000),
    "30 in 20, 2.5 apart": (30, 20, 2.5, 2.5, 20_000),
}


def mixture_density(radius: float, degree: int | str, seed: int) -> Quality:
    """Return the total variation distance from the truth."""
    X, truth = im.datasets.make_spherical_mixture(
        10_000 + FRESH, 4, 10, radius=radius, random_state=seed
    )
    model = im.SphericalMixtureDensity(4, degree=degree, random_state=0).fit(X[FRESH:])
    logs = mixture_logs(X[:FRESH], truth.weights, truth.vectors)
    return Quality(total_variation(model.score_samples(X[:FRESH]), logs), 0.02)


def regression_density(signal: float, degree: int | str, seed: int) -> Quality:
    """Return the total variation distance from the truth."""
    X, y, truth = im.datasets.make_regression_mixture(
        10_000 + FRESH, 3, 5, radius=signal, noise=1.0, random_state=seed
    )
    model = im.RegressionMixtureDensity(3, degree=degree, random_state=0)
    model.fit(X[FRESH:], y[FRESH:])
    x, t = X[:FRESH], y[:FRESH]
    logs = regression_logs(x, t, truth.weights, truth.vectors, 1.0)
    return Quality(total_variation(model.score_samples(x, t), logs), 0.02)


def tables() -> Items:
    """Return every item by name."""
    settings: dict[str, Callable[..., Any]] = {}
    settings |= {f"mixtures, {name}": setting.fit for name, setting in MIXTURES.items()}
    settings |= {f"regressions, {name}": setting.fit for name, setting in REGRESSIONS.items()}
    for label, function, cases in (
        ("activations", activation, ACTIVATIONS),
        ("clustering", clusters, CLUSTERS),
        ("overcomplete", overcomplete, OVERCOMPLETE),
    ):
        for name, how in cases.items():
            settings[f"{label}, {name}"] = partial(function, *how)
    for radius, degree in ((1.2, 6), (1.5, "auto"), (2.0, 6)):
        name = f"mixture density, norm {radius}, degree {degree}"
        settings[name] = partial(mixture_density, radius, degree)
    for signal, degree in ((1.0, 8), (0.3, "auto")):
        name = f"regression density, signal {signal}, degree {degree}"
        settings[name] = partial(regression_density, signal, degree)
    seeds = {name: 3 if name.startswith("clustering") else 2 for name in settings}
    return {
        f"{name}, seed {seed}": partial(function, seed=seed)
        for name, function in settings.items()
        for seed in range(seeds[name])
    }
