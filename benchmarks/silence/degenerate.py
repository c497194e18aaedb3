"""Degenerate data: whether the answer is right, refused, or wrong, and whether a note says so.

One row, as many components as rows, constant and repeated columns, columns of very different
units, rows far from the origin, rounded rows, and a value that stands for a missing one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

import implicitmoments as im
from silence.rates import Run, print_table

Floats = np.ndarray[Any, np.dtype[np.float64]]
N, D = 500, 3
UNITS = np.array([1e-8, 1.0, 1e8])


def _gaussians(kind: str, k: int, seed: int) -> Any:
    return im.GaussianMixture(k, covariance_type=kind, random_state=seed)


MODELS: dict[str, Callable[[int, int], Any]] = {
    "SphericalMixture": lambda k, s: im.SphericalMixture(k, random_state=s),
    **{
        f"GaussianMixture {kind}": partial(_gaussians, kind)
        for kind in ("full", "tied", "diag", "spherical")
    },
    "SphericalMixtureClusterer": lambda k, s: im.SphericalMixtureClusterer(k, random_state=s),
    "SphericalMixtureDensity": lambda k, s: im.SphericalMixtureDensity(k, random_state=s),
    "RegressionMixture": lambda k, s: im.RegressionMixture(k, random_state=s),
    "RegressionMixtureDensity": lambda k, s: im.RegressionMixtureDensity(k, random_state=s),
    "ActivationSumRegressor": lambda k, s: im.ActivationSumRegressor(
        "relu", n_components=k, random_state=s
    ),
}
CHANGES: dict[str, Callable[[Floats], Floats]] = {
    "as it is": lambda X: X,
    "one row": lambda X: X[:1],
    "k = N": lambda X: X[:6],
    "constant column": lambda X: np.insert(X, 1, 3.0, axis=1),
    "constant column of 1e12": lambda X: np.insert(X, 1, 1e12, axis=1),
    "repeated column": lambda X: np.column_stack([X, X[:, 1]]),
    "units 1e-8 and 1e8": lambda X: X * UNITS,
    "1e10 from the origin": lambda X: X + 1e10,
    "rounded to 0.5": lambda X: np.round(2 * X) / 2,
}


@dataclass(frozen=True)
class Case:
    """A data set and a model."""

    model: str
    change: str
    seed: int


def draw(case: Case) -> tuple[Floats, Floats | None, Floats]:
    """Return rows, labels if any, and the truth: components, or labels without noise."""
    rng = np.random.default_rng([case.seed, 17, 14])
    X, labels = rng.normal(size=(N, D)), rng.integers(2, size=N)
    if case.model == "ActivationSumRegressor":
        y = np.maximum(X @ [1.0, 0.0, 0.5], 0) + np.maximum(X @ [0.0, 1.0, -0.5], 0)
        return X, y, y
    if case.model.startswith("Regression"):
        means = np.where(labels, 2 + X @ [1.0, 0.0, 0.5], -2 - X @ [0.5, 1.0, 0.0])
        return X, means + 0.2 * rng.normal(size=N), means
    # the density is for means that are near; others for separated ones
    X[:, 0] += (2.0 if "Density" in case.model else 8.0) * labels
    return X, None, labels.astype(np.float64)


def judge(case: Case) -> tuple[str, str]:
    """Return whether the answer is right, and what was said."""
    plain, y, truth = draw(case)
    X = CHANGES[case.change](plain)
    k = len(X) if len(X) < N else 2
    rows = (X,) if y is None else (X, y[: len(X)])
    model = MODELS[case.model](k, case.seed)
    try:
        model.fit(*rows)
    except ValueError as refusal:
        return "refused", getattr(refusal, "code", "scikit-learn: too few rows")
    codes = [note.code for note in model.notes_ if note.code not in ("inputs_standardised",)]
    said = ", ".join(codes) or "nothing"
    if len(X) < N:
        return "fitted", said
    return "right" if is_right(model, case, X, y, truth, plain) else "wrong", said


def is_right(
    model: Any, case: Case, X: Floats, y: Floats | None, truth: Floats, plain: Floats
) -> bool:
    """Compare with the truth, or with the fit of the data as they are."""
    if case.model == "ActivationSumRegressor":
        return bool(model.score(X, y) > (0.75 if "rounded" in case.change else 0.97))
    if case.model == "RegressionMixture":
        apart = np.abs(X @ model.coef_.T + model.intercept_ - truth[:, None]).min(axis=1)
        return bool(np.median(apart) < (0.3 if "rounded" in case.change else 0.05))
    if case.model.endswith("Density"):
        same = MODELS[case.model](2, case.seed).fit(*((plain,) if y is None else (plain, y)))
        if "rounded" in case.change:  # rows that are rounded are far from any density
            rows = (plain,) if y is None else (plain, y)
            return bool(abs(model.score(*rows) - same.score(*rows)) < 0.05)
        return bool(abs(model.stats_["distance"] - same.stats_["distance"]) < 0.05)
    variance = getattr(model, "variance_", 1.0)
    near = 0.8 < variance < 1.3 or "units" in case.change
    return bool(adjusted_rand_score(truth, model.predict(X)) > 0.97 and near)


def outcomes(run: Run) -> Iterator[tuple[object, ...]]:
    """Yield outcomes and the most frequent words of each kind of data and model."""
    cases = [Case(m, c, s) for c in CHANGES for m in MODELS for s in run.seeds]
    pairs = zip(cases, run.map(judge, cases), strict=True)
    for name, some in groupby(pairs, key=lambda pair: (pair[0].change, pair[0].model)):
        found = [each for _, each in some]
        silent = [outcome == "wrong" and words == "nothing" for outcome, words in found]
        counts = Counter(
            "wrong in silence" if quiet else outcome
            for (outcome, _), quiet in zip(found, silent, strict=True)
        )
        said = Counter(words for _, words in found).most_common(1)[0][0]
        yield *name, ", ".join(f"{each} {n}" for each, n in counts.most_common()), said


def degenerate(run: Run) -> None:
    """Print outcomes by data and model."""
    print_table(("data", "model", "outcome", "said"), outcomes(run))
