"""Sums of activations: R², errors of directions, seconds and local optima.

    python benchmarks/activations.py [polynomial] [refined] [optima] [--seeds N] [--old SRC] ...

R² is on 20,000 new rows without noise, the error of the directions the mean angle in radians.
Weights are equal; signed ones, and those beside biases, have magnitudes from U(0.5, 1.5), and
biases are from U(-1, 1). Noise is a part of the variance of the labels. ``optima`` compares the
squared error on the rows of the fit with that of a fit from the truth: above 1.05 times it the fit
is a local optimum, and a silent one if no note says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

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
    matched_distances,
    names,
    print_table,
    select,
    spread,
    timed,
    values,
)

FRESH = 20_000
TRUTH = "from the truth"
WORSE = 1.05
DOUBTS = {"residuals_explained", "polynomial_predicts"}  # notes on a fit that may be wrong
FUNCTIONS: dict[str, Any] = {"relu": lambda u: np.maximum(u, 0), "cos": np.cos, "tanh": np.tanh}


@dataclass(frozen=True)
class Setting:
    """One problem: k directions in d features, and n rows."""

    activation: str
    d: int
    k: int
    n: int
    noise: float = 0.0
    signed: bool = False
    biased: bool = False


POLYNOMIAL = {
    "relu, d 10, k 4, 3,000 rows": Setting("relu", 10, 4, 3_000),
    "cos, d 10, k 4, 10,000 rows": Setting("cos", 10, 4, 10_000),
    "relu, d 50, k 10, 3,000 rows": Setting("relu", 50, 10, 3_000),
    "relu, d 50, k 10, 100,000 rows": Setting("relu", 50, 10, 100_000),
    "cos, d 50, k 10, 100,000 rows": Setting("cos", 50, 10, 100_000),
    "relu, signs, biases, 10,000 rows": Setting("relu", 10, 6, 10_000, 0.0, True, True),
    "tanh, signs, noise .1, 10,000 rows": Setting("tanh", 50, 10, 10_000, 0.1, True),
}
REFINED = {
    "relu, d 50, k 10, 3,000 rows": Setting("relu", 50, 10, 3_000, 0.1),
    "relu, d 50, k 10, 10,000 rows": Setting("relu", 50, 10, 10_000, 0.1),
    "cos, d 50, k 10, 10,000 rows": Setting("cos", 50, 10, 10_000, 0.1),
    "relu, signs, d 10, k 6": Setting("relu", 10, 6, 10_000, 0.0, True),
    "relu, biases, d 10, k 6": Setting("relu", 10, 6, 10_000, 0.0, False, True),
    "relu, signs, biases, d 10, k 6": Setting("relu", 10, 6, 10_000, 0.0, True, True),
    "tanh, signs, d 50, k 10": Setting("tanh", 50, 10, 10_000, 0.1, True),
}
OPTIMA = {
    "relu, noise, d 10, k 6, 3,000 rows": Setting("relu", 10, 6, 3_000, 0.1),
    "relu, noise, d 20, k 8, 5,000 rows": Setting("relu", 20, 8, 5_000, 0.1),
    "relu, noise, signs, d 10, k 6, 5,000 rows": Setting("relu", 10, 6, 5_000, 0.1, True),
}
SETTINGS = {"polynomial": POLYNOMIAL, "refined": REFINED, "optima": OPTIMA}


@dataclass(frozen=True, eq=False)
class Data:
    """Rows with labels, new rows with labels without noise, and the truth."""

    X: Floats
    y: Floats
    fresh: Floats
    labels: Floats
    directions: Floats
    weights: Floats


@cache
def draw(setting: Setting, seed: int) -> Data:
    """Draw the data of a setting."""
    rng, k, n = np.random.default_rng(seed), setting.k, setting.n
    vectors = rng.standard_normal((k, setting.d))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    plain = not (setting.signed or setting.biased)
    weights = np.full(k, 1 / k) if plain else rng.uniform(0.5, 1.5, k)
    weights *= rng.choice([-1.0, 1.0], k) if setting.signed else 1.0
    biases = rng.uniform(-1, 1, k) if setting.biased else np.zeros(k)
    X = rng.standard_normal((n + FRESH, setting.d))
    y = FUNCTIONS[setting.activation](X @ vectors.T + biases) @ weights
    noise = np.sqrt(setting.noise) * y.std() * rng.standard_normal(n)
    return Data(X[:n], y[:n] + noise, X[n:], y[n:], vectors, weights)


def fit(case: Case, table: str) -> Figures:
    """Fit the regressor, told of signs and biases."""
    import implicitmoments as im  # noqa: PLC0415  # the edition of this process

    setting = SETTINGS[table][case.setting]
    data = draw(setting, case.seed)
    model: Any = im.ActivationSumRegressor(
        setting.activation,
        setting.k,
        positive=not setting.signed,
        fit_bias=setting.biased,
        refine=table != "polynomial",
        random_state=0,
    )
    model, seconds = timed(lambda: model.fit(data.X, data.y))
    left = np.mean((data.labels - model.predict(data.fresh)) ** 2)
    error = np.mean((data.y - model.predict(data.X)) ** 2)
    found = {"R²": 1 - left / np.var(data.labels), "error": error, "seconds": seconds}
    found["doubted"] = int(bool(DOUBTS & set(model.notes_.codes)))
    if table == "refined":
        odd = setting.activation != "relu"  # a direction and its opposite are then alike
        found["angle"] = mean_angle(model.directions_, data.directions, odd=odd)
    return found


def mean_angle(found: Floats, true: Floats, *, odd: bool) -> float:
    """Return the mean angle between directions and those of the truth."""
    found = found / np.linalg.norm(found, axis=1, keepdims=True)
    both = np.vstack([found, -found]) if odd else found
    chords = np.minimum(matched_distances(both, true), 2.0)
    return float(np.mean(2 * np.arcsin(chords / 2)))


def fit_truth(case: Case) -> Figures:
    """Fit the network of this edition from the truth."""
    from implicitmoments.activation import Network, fit_network  # noqa: PLC0415
    from implicitmoments.moments import as_activation  # noqa: PLC0415
    from implicitmoments.rows import Rows  # noqa: PLC0415

    setting = OPTIMA[case.setting]
    data = draw(setting, case.seed)
    relu, positive = as_activation("relu"), not setting.signed
    truth = Network(data.weights, data.directions, relu, positive=positive)
    return {"error": fit_network(Rows.of(data.X, y=data.y), truth).loss}


def warm_up() -> None:
    """Fit a few rows."""
    import implicitmoments as im  # noqa: PLC0415

    X = np.random.default_rng(0).normal(size=(500, 3))
    im.ActivationSumRegressor("relu", 1, random_state=0).fit(X, np.maximum(X[:, 0], 0))


def show(rows: list[Row]) -> None:
    """Print R², errors of directions and seconds."""
    lines = []
    for setting in names(rows, "setting"):
        for method in names(rows, "method"):
            own = select(rows, setting=setting, method=method)
            cells = [spread(values(own, key), 5) for key in ("R²", "angle")]
            seconds, doubted = values(own, "seconds"), int(values(own, "doubted").sum())
            lines.append([setting, method, *cells, spread(seconds), f"{doubted} of {len(own)}"])
    print_table(("setting", "method", "R²", "angle", "s", "with a note"), lines)


def show_optima(rows: list[Row]) -> None:
    """Print how many fits are local optima, and how many of them a note tells of."""
    best = {(row["setting"], row["seed"]): row["error"] for row in select(rows, method=TRUTH)}
    lines = []
    for setting in names(rows, "setting"):
        for method in names(rows, "method"):
            own = select(rows, setting=setting, method=method)
            if method != TRUTH:
                worse = [row["error"] > WORSE * best[setting, row["seed"]] for row in own]
                noted = [bool(row["doubted"]) for row in own]
                pairs = list(zip(worse, noted, strict=True))
                counts = [sum(worse), pairs.count((True, False)), pairs.count((False, True))]
                lines.append([setting, method, len(own), *counts, spread(values(own, "seconds"))])
    heads = ("setting", "method", "fits", "local optima", "silent", "false alarms", "s")
    print_table(heads, lines)


def table_of(name: str, seeds: int, quick: int) -> Table:
    """Return one of the tables, of which the first settings are quick."""
    methods = both_editions(partial(fit, table=name))
    if name == "optima":
        methods.append(Method(TRUTH, fit_truth))
    settings, shown = list(SETTINGS[name]), show_optima if name == "optima" else show
    return Table(settings, methods, shown, warm_up, seeds, settings[:quick])


NAMES = {"polynomial": (10, 2), "refined": (10, 1), "optima": (40, 1)}
TABLES = {name: table_of(name, *numbers) for name, numbers in NAMES.items()}

if __name__ == "__main__":
    main("activations", __doc__, TABLES)
