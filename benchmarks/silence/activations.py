"""Sums of activations that the model does not allow, and those that it does.

Right: labels of the model that is fitted, also with biases and signs where it allows them, and
with inputs that are whitened. Wrong: negative weights without ``positive=False``, biases without
``fit_bias``, two directions 0.3 rad apart of which one is asked for, and a polynomial of shifted
inputs with ``whiten=False``. 5 to 15 features, 3 to 6 components.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from implicitmoments import ActivationSumRegressor
from implicitmoments.problems import as_activation
from silence.rates import Run, print_table

NOISES = (0.0, 0.05, 0.3)  # over the standard deviation of the labels
ROWS = (2_000, 10_000)
# What is noted that the option would repair.
CODES = {
    "biases_likely",
    "negative_component",
    "negative_weights_likely",
    "neuron_missing",
    "polynomial_of_other_inputs",
    "polynomial_predicts",
}


@dataclass(frozen=True)
class Case:
    """What is wrong with the labels, and how they are fitted."""

    name: str
    activation: str
    given: dict[str, Any]
    option: dict[str, Any]  # parameters with which the model is right
    expected: frozenset[str] = frozenset()  # notes, one of which should be there


RIGHT = [
    Case("right", "relu", {}, {}),
    Case("right, n_components auto", "relu", {"n_components": "auto"}, {}),
    Case("right, softplus", "softplus", {}, {}),
    Case("right, tanh", "tanh", {}, {}),
    Case("right, inputs whitened", "relu", {"whiten": True}, {}),
    Case("right, signs", "relu", {"positive": False}, {}),
    Case("right, biases", "relu", {"fit_bias": True}, {}),
    Case("right, shifted inputs", "relu", {"whiten": False}, {}),
]
SIGNS = frozenset({"negative_component", "negative_weights_likely"})
WRONG = [
    Case("one negative weight", "relu", {}, {"positive": False}, SIGNS),
    Case("alternating signs", "relu", {}, {"positive": False}, SIGNS),
    Case("small biases", "relu", {}, {"fit_bias": True}, frozenset({"biases_likely"})),
    Case("biases", "relu", {}, {"fit_bias": True}, frozenset({"biases_likely"})),
    Case("biases, softplus", "softplus", {}, {"fit_bias": True}, frozenset({"biases_likely"})),
    Case("0.3 rad apart", "relu", {}, {"n_components": 0}, frozenset({"neuron_missing"})),
    Case(
        "polynomial, shifted inputs",
        "relu",
        {"whiten": False, "refine": False},
        {"refine": True},
        frozenset({"polynomial_of_other_inputs"}),
    ),
]


def draw(case: Case, n: int, noise: float, seed: int) -> tuple[Any, Any, Any, Any, int]:
    """Return rows and labels, those of a test without noise, and the number of components."""
    name = case.name
    rng = np.random.default_rng([seed, n, *name.encode()])
    d, k = int(rng.integers(5, 16)), int(rng.integers(3, 7))
    directions = rng.standard_normal((k, d))
    weights = rng.uniform(0.5, 1.5, k)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    if name == "one negative weight":
        weights[0] *= -0.5
    if "signs" in name:
        weights[1::2] *= -1
    if "0.3 rad" in name:
        across = np.linalg.qr(np.stack([directions[0], rng.standard_normal(d)]).T)[0][:, 1]
        directions[1] = np.cos(0.3) * directions[0] + np.sin(0.3) * across
    biases = rng.uniform(-1, 1, k) * (0.3 if "small" in name else "biases" in name)
    mean = 0.3 * rng.standard_normal(d) * ("shifted" in name)
    half = rng.standard_normal((d, d)) * ("whitened" in name)
    root = np.eye(d) + half @ half.T / d  # of the covariance of the inputs

    def labelled(rows: int) -> tuple[Any, Any]:
        z = rng.standard_normal((rows, d)) + mean
        y = as_activation(case.activation)(z @ directions.T + biases) @ weights
        return z @ root, y

    X, y = labelled(n)
    fresh = labelled(4_000)
    return X, y + noise * y.std() * rng.standard_normal(n), *fresh, k


def fit(given: tuple[Case, int, float, int]) -> tuple[float, float, set[str], set[str]]:
    """Return 1 − R² on new labels without noise, as given and with the option, and both notes."""
    case, n, noise, seed = given
    X, y, fresh, truth, k = draw(case, n, noise, seed)
    how = {"n_components": k - ("0.3 rad" in case.name), "random_state": 0, **case.given}
    option = {**how, **case.option}
    option["n_components"] = option["n_components"] or k
    found = []
    for options in (how, option):
        model = ActivationSumRegressor(case.activation, **options).fit(X, y)
        left = np.mean((model.predict(fresh) - truth) ** 2) / np.var(truth)
        found.append((float(left), CODES.intersection(model.notes_.codes)))
        if not case.option:
            found *= 2
            break
    (left, codes), (better, others) = found
    return left, better, codes, others


def rates(run: Run) -> Iterator[list[object]]:
    """Yield how often fits of each kind are wrong and noted."""
    settings = list(product((*RIGHT, *WRONG), NOISES))
    asked = [
        run.map(fit, [(case, n, noise, seed) for n in ROWS for seed in run.seeds])
        for case, noise in settings
    ]
    for (case, noise), fits in zip(settings, asked, strict=True):
        found = list(fits)
        # a fit is wrong if the option makes the error of a prediction a tenth smaller
        wrong = [left > 1.1 * better + 1e-9 for left, better, _, _ in found]
        codes = [codes for _, _, codes, _ in found]
        pairs = list(zip(wrong, codes, strict=True))
        yield [
            *(case.name, f"{noise:g}", len(found), sum(wrong), sum(map(bool, codes))),
            sum(w and bool(noted & case.expected) for w, noted in pairs),
            sum(w and not noted for w, noted in pairs),
            sum(bool(others) for *_, others in found),
        ]


def activations(run: Run) -> None:
    """Print how often fits are noted, right ones and wrong ones."""
    heads = ["labels", "noise", "fits", "wrong", "noted", "option named", "missed", "alarms"]
    print_table(heads, rates(run))
