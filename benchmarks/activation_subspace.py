"""Accuracy of the estimated span of the directions, and the gain from each ingredient of a fit.

Run: python benchmarks/activation_subspace.py [--seeds 5]

Medians over seeds, label noise of 10 % of the variance, R² on 20,000 new rows without noise.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from activations import Floats, Setting, ours, r2
from implicitmoments import ActivationSumRegressor
from implicitmoments.activation.hypothesis import fit_polynomial
from implicitmoments.circuits import power, vector
from implicitmoments.datasets import Truth
from implicitmoments.moments import implicit_moments
from implicitmoments.problems import ActivationSumProblem, relu
from implicitmoments.projections import evaluate


def eta(basis: Floats, truth: Truth) -> float:
    r"""Return the paper's η at order 2: the norm of M_2 outside the span, over that of M_2."""
    inside = truth.vectors @ basis.T @ basis
    whole = truth.vectors.T @ (truth.weights[:, None] * truth.vectors)
    kept = inside.T @ (truth.weights[:, None] * inside)
    return float(np.linalg.norm(whole - kept) / np.linalg.norm(whole))


def eta_at(moments: Any, order: int, truth: Truth) -> float:
    r"""Return η at an even order: the relative norm of M_{2r} outside :math:`U_r \otimes U_r`."""
    r = order // 2
    projection = moments.projection.first(r)
    q = np.asarray(evaluate(power(vector("v"), r), {"v": truth.vectors}, projection))
    w = truth.weights
    whole = w @ (truth.vectors @ truth.vectors.T) ** order @ w
    kept = q.T @ (w[:, None] * q)
    return float(np.sqrt(max(0.0, whole - np.sum(kept**2)) / whole))


def subspace(seeds: int) -> None:
    """Print the errors of the subspaces, and the gain from each ingredient."""
    print("| setting | rows | η of M_2 | after improvement | η of M_4 | η of M_6 | 1 − R² |")
    print("|---|---|---|---|---|---|---|")
    settings = [Setting(relu(), 10, 4, 0.1), Setting(relu(), 50, 10, 0.1)]
    for setting in settings:
        for n in (3_000, 10_000, 30_000):
            found = []
            for seed in range(seeds):
                X, y, fresh, labels, truth = setting.draw(n, seed)
                m = implicit_moments(
                    ActivationSumProblem(X, y, setting.activation),
                    n_components=setting.k,
                    order=2,
                )
                model = ActivationSumRegressor(
                    setting.activation, setting.k, refine=False, random_state=0
                ).fit(X, y)
                last = model.polynomial_.fold.moments  # type: ignore[union-attr]
                found.append(
                    (
                        eta(np.asarray(m.folds[0].moments.frame.basis), truth),
                        eta(model.polynomial_.basis, truth),
                        eta_at(last, 4, truth),
                        eta_at(last, 6, truth),
                        1 - r2(labels, model.predict(fresh)),
                    )
                )
            cells = " | ".join(f"{value:.4f}" for value in np.median(found, axis=0))
            print(f"| {setting} | {n:,} | {cells} |", flush=True)
    ingredients(settings, seeds)


def ingredients(settings: list[Setting], seeds: int) -> None:
    """Print R² as the ingredients are added one by one."""

    def plain(setting: Setting, X: Floats, y: Floats, reduce: bool) -> Callable[[Floats], Any]:
        activation = setting.activation
        m = implicit_moments(
            ActivationSumProblem(X, y, activation),
            n_components=setting.k,
            order=4,
            reduce_weights=reduce,
        )
        orders = [t for t in range(5) if activation.coefficient(t)]
        return lambda x: sum(activation.coefficient(t) * m.hermite(x, t) for t in orders)

    def fitted(
        setting: Setting, X: Floats, y: Floats, rounds: int, degrees: list[int]
    ) -> Callable[[Floats], Any]:
        rows = ActivationSumProblem(X, y, setting.activation)
        return fit_polynomial(rows, setting.k, degrees, rounds=rounds)

    steps: dict[str, Callable[[Setting, Floats, Floats], Callable[[Floats], Any]]] = {
        "moments, degree 4": partial(plain, reduce=False),
        "+ lower orders removed": partial(plain, reduce=True),
        "+ least squares": partial(fitted, rounds=0, degrees=[4]),
        "+ span improved": partial(fitted, rounds=3, degrees=[4]),
        "+ degree by cross-validation": partial(fitted, rounds=3, degrees=[1, 2, 4, 6, 8, 10]),
        "+ refined": lambda s, X, y: next(ours(s, True))(X, y),
    }
    print("\n| setting | rows | " + " | ".join(steps) + " |")
    print("|---|---|" + "---|" * len(steps))
    for setting in settings:
        for n in (3_000, 30_000):
            cells = []
            for make in steps.values():
                scores = []
                for seed in range(seeds):
                    X, y, fresh, labels, _ = setting.draw(n, seed)
                    scores.append(r2(labels, make(setting, X, y)(fresh)))
                cells.append(f"{np.median(scores):.4f}")
            print(f"| {setting} | {n:,} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    subspace(parser.parse_args().seeds)


if __name__ == "__main__":
    main()
