"""Mixtures of regressions of invalid and unusual inputs; for regressions.py."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from implicitmoments import RegressionMixture


def awkward_inputs() -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    """Return invalid and unusual inputs, with parameters."""
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(500, 2)), rng.integers(2, size=500)
    slopes = np.array([[1.0, 2.0], [-1.0, 0.5]])
    exact = np.sum(X * slopes[labels], axis=1)
    y = exact + 0.1 * rng.normal(size=500)
    return {
        "two lines": (X, y, {}),
        "constant y": (X, np.ones(500), {}),
        "no noise": (X, exact, {}),
        "no noise, separate": (X, exact, {"noise_type": "separate"}),
        "one exact line": (X, X @ slopes[0], {}),
        "collinear columns": (np.column_stack([X, X.sum(axis=1)]), y, {}),
        "a constant column": (np.column_stack([X, np.ones(500)]), y, {}),
        "all columns constant": (np.ones((500, 2)), y, {}),
        "fewer rows than coefficients": (rng.normal(size=(8, 20)), rng.normal(size=8), {}),
        "NaN in X": (np.where(X > 2, np.nan, X), y, {}),
        "NaN in y": (X, np.where(y > 3, np.nan, y), {}),
        "k = 1": (X, y, {"n_components": 1}),
        "d = 1": (X[:, :1], X[:, 0] * np.where(labels, 2, -1), {}),
        "k above the rows": (X[:5], y[:5], {"n_components": 6}),
        "parallel lines": (X, X @ slopes[0] + 2.0 * labels + 0.2 * rng.normal(size=500), {}),
        "far from the origin": (X + 1e4, y + 1e6, {}),
        "one outlier": (X, np.append(y[:-1], 1e4), {}),
        "auto, one line": (X, X @ slopes[0] + y - exact, {"n_components": "auto"}),
        "auto, two lines": (X, y, {"n_components": "auto"}),
    }


def awkward() -> None:
    """Print the results for invalid and unusual inputs."""
    print("| input | result |")
    print("|---|---|")
    for name, (X, y, how) in awkward_inputs().items():
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                model = RegressionMixture(random_state=0, **{"n_components": 2, **how}).fit(X, y)
            except (ValueError, TypeError) as error:
                print(f"| {name} | {type(error).__name__}: {str(error).splitlines()[0]} |")
                continue
        coef = np.round(model.coef_[:, :3], 2).tolist()
        words = "; ".join(str(w.message).split(":")[0] for w in said)
        print(
            f"| {name} | k = {model.n_components_}, coef {coef}, intercept "
            f"{np.round(model.intercept_, 2).tolist()}, noise {model.noise_[0]:.2g}"
            f"{', warns: ' + words if words else ''} |"
        )
