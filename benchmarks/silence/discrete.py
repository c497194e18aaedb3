"""Lines of common slopes and different intercepts at discrete inputs.

With two-valued columns, a line that exchanges labels between the values is a line too, and a peak
of the characteristic function; only the weights tell it from a true one. The reference is EM from
the truth.
"""

from __future__ import annotations

import numpy as np

from silence.lines import Data, Floats, Outcome, PlainEM, compare, print_outcomes
from silence.rates import Run

ROWS = (1_000, 30_000)


def inputs(name: str, n: int, rng: np.random.Generator) -> Floats:
    """Return binary columns, dummies of a factor, or binary and Gaussian columns."""
    if name == "one binary":
        return rng.binomial(1, rng.uniform(0.2, 0.8), size=(n, 1)).astype(np.float64)
    if name == "dummies":
        levels = int(rng.integers(3, 6))
        level = rng.choice(levels, size=n, p=rng.dirichlet(np.full(levels, 4.0)))
        return np.asarray(level[:, None] == np.arange(1, levels), dtype=np.float64)
    binary = rng.binomial(1, rng.uniform(0.2, 0.8, size=2), size=(n, 2))
    return np.column_stack([binary, rng.normal(size=(n, 1))])


def draw(name: str, seed: int) -> Data:
    """Return lines 2.5 to 4 deviations of the noise apart, with weights up to 20:1."""
    rng = np.random.default_rng([17, 1, seed])
    n = int(np.exp(rng.uniform(*np.log(ROWS))))
    k = 2 if name == "one binary" else int(rng.integers(2, 5))
    X = inputs(name, n, rng)
    weights = np.geomspace(np.exp(rng.uniform(np.log(2), np.log(20))), 1, k)
    weights = rng.permutation(weights / weights.sum())
    slopes, offsets = rng.normal(size=X.shape[1]), np.cumsum(rng.uniform(2.5, 4.0, size=k))
    coef = np.column_stack([offsets, np.tile(slopes, (k, 1))])
    labels = rng.choice(k, size=n, p=weights)
    y = offsets[labels] + X @ slopes + rng.normal(size=n)
    return Data(name, X, y, weights, coef, np.ones(k))


def fit(case: tuple[str, int]) -> Outcome:
    """Fit one data set."""
    data = draw(*case)
    return compare(data, PlainEM(data).from_truth()[0], case[1])


def discrete(run: Run) -> None:
    """Print how often fits at discrete inputs are below EM from the truth."""
    names = ("one binary", "dummies", "binary and Gaussian")
    print_outcomes(run.map(fit, [(name, seed) for name in names for seed in run.seeds]))
