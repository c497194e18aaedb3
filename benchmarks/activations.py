"""Sums of activations: R², seconds, local optima and peers.

Run: python benchmarks/activations.py polynomial [--seeds 10]   the polynomial alone
     python benchmarks/activations.py refined [--seeds 10]      ReLUs and cosines, refined
     python benchmarks/activations.py signs [--seeds 10]        weights of both signs, biases, tanh
     python benchmarks/activations.py optima [--seeds 40]       fits beside a fit from the truth
     python benchmarks/activations.py peers [--seeds 3]         networks, kernels and trees

R² is on 20,000 new rows without noise. Weights are equal; signed ones, and those beside biases,
have magnitudes from U(0.5, 1.5), and biases are from U(-1, 1). Seconds are processor time of one
thread with OMP_NUM_THREADS=1. The settings of peers are chosen on a held-out tenth of the rows.
"""

from __future__ import annotations

import argparse
import platform
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from time import process_time
from typing import Any, TypeAlias

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPRegressor

from implicitmoments import ActivationSumRegressor
from implicitmoments.activation import Network, fit_network
from implicitmoments.datasets import make_activation_sum
from implicitmoments.moments import Activation, as_activation, cosine
from implicitmoments.rows import Rows

RELU = as_activation("relu")

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Fit: TypeAlias = Callable[[Floats, Floats], Callable[[Floats], Floats]]

FRESH = 20_000
KERNEL_ROWS = 4_000  # solving for more takes longer than all others together
FIRST_SEED = 8_000
# A fit in a local optimum: mean squared error above that of a fit from the truth by this share.
WORSE = 1.05


@dataclass(frozen=True)
class Setting:
    """One problem: k directions in d features, n rows, noise as a share of the label variance."""

    activation: Activation
    d: int
    k: int
    n: int
    noise: float = 0.0
    signed: bool = False
    biased: bool = False

    def __str__(self) -> str:
        kind = self.activation.name + " signed" * self.signed + " biased" * self.biased
        return f"{kind}, d={self.d}, k={self.k}, noise {self.noise:.0%} | {self.n:,}"

    @property
    def options(self) -> dict[str, Any]:
        """What the regressor is told of the setting."""
        known = {"positive": not self.signed, "fit_bias": self.biased}
        return {"activation": self.activation, "n_components": self.k, "random_state": 0, **known}

    def draw(self, seed: int) -> tuple[Floats, Floats, Floats, Floats, Network]:
        """Return rows, labels, new rows, their labels without noise, and the truth."""
        sigma, k = self.activation, self.k
        X, _, truth = make_activation_sum(
            self.n + FRESH, k, self.d, activation=sigma, random_state=seed
        )
        rng, weights, biases = np.random.default_rng(seed), truth.weights, None
        if self.signed or self.biased:
            weights = rng.uniform(0.5, 1.5, k)
            biases = rng.uniform(-1, 1, k) if self.biased else None
            weights = weights * (rng.choice([-1.0, 1.0], k) if self.signed else 1.0)
        network = Network(weights, truth.vectors, sigma, biases, not self.signed)
        y = np.asarray(network(X))
        noise = rng.standard_normal(self.n) * np.sqrt(self.noise) * y.std()
        return X[: self.n], y[: self.n] + noise, X[self.n :], y[self.n :], network


def settings(table: str) -> list[Setting]:
    """Return the settings of a table."""
    tanh, sigmoid = as_activation("tanh"), as_activation("sigmoid")
    noisy = [(RELU, 50, 10), (cosine(1.0), 50, 10)]
    return {
        "polynomial": [
            Setting(RELU, 10, 4, 3_000),
            Setting(cosine(1.0), 10, 4, 10_000),
            Setting(RELU, 50, 10, 3_000),
            Setting(RELU, 50, 10, 100_000),
            Setting(cosine(2.0), 50, 10, 100_000),
            Setting(RELU, 10, 6, 10_000, signed=True, biased=True),
            Setting(tanh, 50, 10, 10_000, 0.1, signed=True),
        ],
        "refined": [
            Setting(RELU, 10, 4, 10_000),
            Setting(RELU, 50, 10, 10_000),
            *(Setting(*known, n, 0.1) for known, n in product(noisy, (3_000, 10_000, 30_000))),
        ],
        "signs": [
            Setting(RELU, 10, 6, 10_000, signed=True),
            Setting(RELU, 10, 6, 10_000, biased=True),
            Setting(RELU, 10, 6, 10_000, signed=True, biased=True),
            Setting(tanh, 10, 6, 10_000, signed=True),
            Setting(sigmoid, 10, 6, 10_000, signed=True, biased=True),
            Setting(RELU, 50, 10, 10_000, 0.1, signed=True, biased=True),
            Setting(tanh, 50, 10, 10_000, 0.1, signed=True),
        ],
        "optima": [
            Setting(RELU, 10, 6, 3_000, 0.1),
            Setting(RELU, 20, 8, 5_000, 0.1),
            Setting(RELU, 10, 6, 5_000, 0.1, signed=True),
        ],
    }[table]


def r2(y: Floats, predicted: Floats) -> float:
    """Return the coefficient of determination."""
    return float(1 - np.mean((y - predicted) ** 2) / np.var(y))


def score_table(table: str, seeds: range) -> None:
    """Print R² and seconds of the regressor."""
    print("| setting | rows | median R² | least R² | s | fits with a note |")
    print("|---|---|---|---|---|---|")
    for setting in settings(table):
        scores, seconds, noted = [], [], 0
        for seed in seeds:
            X, y, fresh, labels, _ = setting.draw(seed)
            model = ActivationSumRegressor(refine=table != "polynomial", **setting.options)
            clock = process_time()
            model.fit(X, y)
            seconds.append(process_time() - clock)
            scores.append(r2(labels, model.predict(fresh)))
            noted += bool({"residuals_explained", "polynomial_predicts"} & {*model.notes_.codes})
        print(
            f"| {setting} | {np.median(scores):.5f} | {min(scores):.5f} "
            f"| {np.median(seconds):.2f} | {noted} of {len(seeds)} |",
            flush=True,
        )


def optima_table(seeds: range) -> None:
    """Print how many fits are worse than a fit from the truth, and whether a note says so."""
    print("| setting | rows | local optima | of these without a note | false alarms |")
    print("|---|---|---|---|---|")
    for setting in settings("optima"):
        stuck, silent, alarms = 0, 0, 0
        for seed in seeds:
            X, y, _, _, truth = setting.draw(seed)
            model = ActivationSumRegressor(**setting.options).fit(X, y)
            best = fit_network(Rows.of(X, y=y), truth)
            worse = float(np.mean((y - model.predict(X)) ** 2)) > WORSE * best.loss
            noted = bool({"residuals_explained", "polynomial_predicts"} & {*model.notes_.codes})
            stuck, silent = stuck + worse, silent + (worse and not noted)
            alarms += noted and not worse
        print(f"| {setting} | {stuck} of {len(seeds)} | {silent} | {alarms} |", flush=True)


def ours(setting: Setting) -> Iterator[Fit]:
    """Yield the regressor of this library."""
    yield lambda X, y: ActivationSumRegressor(**setting.options).fit(X, y).predict


def scaled(make: Callable[[], Any], X: Floats, y: Floats) -> Callable[[Floats], Floats]:
    """Fit a scikit-learn regressor to labels of mean 0 and variance 1."""
    mean, scale = float(y.mean()), float(y.std())
    model = make().fit(X, (y - mean) / scale)
    return lambda x: model.predict(x) * scale + mean


def mlp(setting: Setting) -> Iterator[Fit]:
    """Yield scikit-learn's network, four times as wide as the truth, at several penalties."""
    own = {"tanh": "tanh", "sigmoid": "logistic"}.get(setting.activation.name, "relu")
    for alpha in (1e-4, 0.03, 0.3):
        options: dict[str, Any] = {"hidden_layer_sizes": (4 * setting.k,), "activation": own}
        options |= {"alpha": alpha, "early_stopping": alpha < 1e-3, "max_iter": 300}
        yield partial(scaled, partial(MLPRegressor, random_state=0, **options))


def kernel(setting: Setting) -> Iterator[Fit]:
    """Yield kernel ridge regression, on at most 4,000 rows."""
    powers: dict[str, Any] = {"kernel": "poly", "gamma": 1 / setting.d}
    radial: dict[str, Any] = {"kernel": "rbf", "gamma": 0.2 / setting.d}
    ways = [radial | {"alpha": alpha} for alpha in (1e-2, 0.3)]
    ways += [powers | {"degree": n, "alpha": a} for n, a in product((2, 4), (0.3, 3.0))]
    for way in ways:
        yield partial(_fit_few, partial(KernelRidge, **way))


def _fit_few(make: Callable[[], Any], X: Floats, y: Floats) -> Callable[[Floats], Floats]:
    return scaled(make, X[:KERNEL_ROWS], y[:KERNEL_ROWS])


def boosting(_: Setting) -> Iterator[Fit]:
    """Yield gradient boosting with early stopping."""
    for rate in (0.05, 0.15):
        options: dict[str, Any] = {"learning_rate": rate, "max_iter": 500, "early_stopping": True}
        yield partial(scaled, partial(HistGradientBoostingRegressor, random_state=0, **options))


PEERS: dict[str, Callable[[Setting], Iterator[Fit]]] = {
    "ActivationSumRegressor": ours,
    "MLPRegressor": mlp,
    "kernel ridge": kernel,
    "gradient boosting": boosting,
}


def peer_table(seeds: range) -> None:
    """Print median R² and seconds of all peers, each with the best of its settings."""
    print("| setting | rows | " + " | ".join(PEERS) + " |")
    print("|---|---|" + "---|" * len(PEERS))
    for setting in settings("refined")[2:]:
        cells = []
        for peer in PEERS.values():
            found = [_score_peer(list(peer(setting)), setting, seed) for seed in seeds]
            score, seconds = np.median(found, axis=0)
            cells.append(f"{score:.4f} ({seconds:.1f} s)")
        print(f"| {setting} | " + " | ".join(cells) + " |", flush=True)


def _score_peer(fits: list[Fit], setting: Setting, seed: int) -> tuple[float, float]:
    """Choose settings on held-out rows; return R² of one fit with the best, and its seconds."""
    X, y, fresh, labels, _ = setting.draw(seed)
    chosen = fits[0]
    if len(fits) > 1:
        A, B, a, b = train_test_split(X, y, test_size=0.1, random_state=seed)
        chosen = max(fits, key=lambda fit: r2(b, fit(A, a)(B)))
    clock = process_time()
    predict = chosen(X, y)
    seconds = process_time() - clock
    return r2(labels, predict(fresh)), seconds


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=["polynomial", "refined", "signs", "optima", "peers"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="first seed")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds = range(given.first, given.first + given.seeds)
    print(f"{platform.machine()}, seeds {seeds.start} to {seeds.stop - 1}\n")
    if given.table == "optima":
        optima_table(seeds)
    elif given.table == "peers":
        peer_table(seeds)
    else:
        score_table(given.table, seeds)


if __name__ == "__main__":
    main()
