"""Lines in 100 to 2,000 rows: 2 to 10 of them, in 1 to 20 features.

Own slopes and intercepts, parallel lines, unequal noise, outliers or heavy tails, weights up to
20:1, and at least four rows per parameter. The reference is EM from 20 random starts.
"""

from __future__ import annotations

import numpy as np

from silence.lines import Data, Floats, Outcome, PlainEM, compare, print_outcomes
from silence.rates import Run

KINDS = ("own lines", "parallel", "unequal noise", "separate noise", "2 % outliers", "t3 noise")
ROWS, MOST_LINES, MOST_FEATURES, ROWS_PER_PARAMETER = (100, 2_000), 10, 20, 4


def sizes(rng: np.random.Generator) -> tuple[int, int, int]:
    """Return rows, lines and features; few rows have few parameters."""
    while True:
        n = int(np.exp(rng.uniform(*np.log(ROWS))))
        k, d = int(rng.integers(2, MOST_LINES + 1)), int(rng.integers(1, MOST_FEATURES + 1))
        if n >= ROWS_PER_PARAMETER * k * (d + 2):
            return n, k, d


def draw(name: str, seed: int) -> Data:
    """Return lines of one kind."""
    rng = np.random.default_rng([17, 2, KINDS.index(name), seed])
    n, k, d = sizes(rng)
    weights = np.geomspace(np.exp(rng.uniform(0, np.log(20))), 1, k)
    weights = rng.permutation(weights / weights.sum())
    coef, noise = rng.normal(size=(k, d + 1)), np.full(k, rng.uniform(0.1, 0.5))
    if name == "parallel":
        coef[:, 1:] = coef[0, 1:]
        coef[:, 0] = noise[0] * np.cumsum(rng.uniform(2.5, 6.0, size=k))
    if name in ("unequal noise", "separate noise"):
        noise = rng.permutation(noise * np.geomspace(1, 5, k))
    labels = rng.choice(k, size=n, p=weights)
    X = rng.normal(size=(n, d))
    y = np.einsum("nq,nq->n", coef[labels], np.column_stack([np.ones(n), X]))
    y = y + noise[labels] * errors(name, n, rng)
    return Data(name, X, y, weights, coef, noise, name != "separate noise")


def errors(name: str, n: int, rng: np.random.Generator) -> Floats:
    """Return errors of unit scale."""
    if name == "t3 noise":
        return np.asarray(rng.standard_t(3, size=n))
    found = rng.normal(size=n)
    if name == "2 % outliers":
        found = np.where(rng.uniform(size=n) < 0.02, rng.uniform(-30, 30, size=n), found)
    return np.asarray(found)


def fit(case: tuple[str, int]) -> Outcome:
    """Fit one data set."""
    data = draw(*case)
    reference = PlainEM(data).from_random(np.random.default_rng(case[1]))
    return compare(data, reference, case[1])


def small(run: Run) -> None:
    """Print how often fits of few rows are below EM from 20 random starts."""
    print_outcomes(run.map(fit, [(name, seed) for name in KINDS for seed in run.seeds]))
