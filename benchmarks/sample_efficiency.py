"""Rows that the paper's algorithm and the closed form need for the same error.

Run: python benchmarks/sample_efficiency.py [--largest 1000000]

For each problem and order m the relative root mean square error of ⟨H_m(x), M_m⟩ over
x ~ N(0, I) is measured for increasing N (median over seeds), and N for an error of 0.5 is
interpolated on logarithmic axes. Each ingredient of the closed form is switched off in turn:

  with auxiliary noise    moments by the paper's circuits H(x, y), on all rows, at half the order
  order 2m                moments as vectors of U_m, from moments up to order 2m
  plain weights           no lower orders removed (activations), y^t / t! (regressions)
  fresh rows              new rows in every pass
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from implicitmoments import datasets
from implicitmoments.circuits import hermite, vector
from implicitmoments.datasets import Truth
from implicitmoments.moments import HermiteProblem, implicit_moments, top_subspace
from implicitmoments.moments.problem import CircuitMeans
from implicitmoments.problems import (
    ActivationSumProblem,
    PairwiseDifferenceProblem,
    RegressionMixtureProblem,
    SphericalMixtureProblem,
    relu,
)
from implicitmoments.projections import RecursiveProjection, evaluate_split
from implicitmoments.rows import DrawPurpose, RowDraws

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Answer: TypeAlias = Callable[[Floats], Floats]

D, K = 6, 3
TARGET = 0.5
N_QUERIES, N_DRAWS = 100, 2_000
SEEDS = range(3)


def mixture(n: int, seed: int, _: bool) -> tuple[HermiteProblem, Truth]:
    """Return a spherical mixture with means of norm 2."""
    X, truth = datasets.make_spherical_mixture(n, K, D, random_state=seed)
    return SphericalMixtureProblem(X), truth


def differences(n: int, seed: int, _: bool) -> tuple[HermiteProblem, Truth]:
    """Return differences of the rows of a mixture of two; n counts the rows."""
    X, truth = datasets.make_spherical_mixture(n, 2, D, random_state=seed)
    return PairwiseDifferenceProblem(X), truth.differences()


def regressions(n: int, seed: int, plain: bool) -> tuple[HermiteProblem, Truth]:
    """Return unit regressors with noise 0.3."""
    X, y, truth = datasets.make_regression_mixture(n, K, D, random_state=seed)
    weights = "monomial" if plain else "orthogonal"
    return RegressionMixtureProblem(X, y, weights=weights), truth


def activations(n: int, seed: int, _: bool) -> tuple[HermiteProblem, Truth]:
    """Return a sum of ReLUs without noise."""
    X, y, truth = datasets.make_activation_sum(n, K, D, random_state=seed)
    return ActivationSumProblem(X, y, relu()), truth


PROBLEMS = {
    "mixture": mixture,
    "differences": differences,
    "regressions": regressions,
    "ReLU sum": activations,
}
VARIANTS = ["closed form", "auxiliary noise", "order 2m", "plain weights", "fresh rows", "paper"]


def answer_of(variant: str, problem: HermiteProblem, k: int, m: int, seed: int) -> Answer:
    """Estimate by one variant and return a function that answers queries."""
    options: dict[str, Any] = {"n_components": k, "order": m, "random_state": seed}
    if variant == "auxiliary noise":
        return with_auxiliary_noise(problem, k, m, seed)
    if variant == "paper":
        paper = implicit_moments(problem, method="paper", **options)
        return lambda X: np.asarray(paper.hermite(X, n_draws=N_DRAWS))
    if variant == "order 2m":
        options["balanced"] = False
    elif variant == "plain weights":
        options["reduce_weights"] = False
    elif variant == "fresh rows":
        options["sampling"] = "fresh"
    closed = implicit_moments(problem, **options)
    return lambda X: np.asarray(closed.hermite(X))


def with_auxiliary_noise(problem: HermiteProblem, k: int, m: int, seed: int) -> Answer:
    """Run the recursion on the paper's circuits, with all rows, up to U_{m/2} alone."""
    rows = range(problem.rows.n)
    average = CircuitMeans(problem, seed)
    identity = RecursiveProjection.identity(problem.n_features, 1)
    Phi = RecursiveProjection.identity(problem.n_features, 0)
    for r in range(m // 2):
        half = Phi.tensor(identity)
        phi, _ = top_subspace(average.matrix(2 * r + 2, half, half, rows), k)
        Phi = Phi.extend(phi)
    form = average.matrix(m, Phi, Phi, rows)
    query = hermite(vector("x"), vector("y"), m)

    def answer(X: Floats) -> Floats:
        total = np.zeros(len(X))
        for draw in range(N_DRAWS):
            y = RowDraws(seed, range(len(X)), (DrawPurpose.QUERY, draw)).normal(X.shape[1])
            for head, tail in evaluate_split(query, {"x": X, "y": y}, Phi, Phi):
                total += np.sum((head @ form) * tail, axis=1)
        return total / N_DRAWS

    return answer


def error(make: Any, variant: str, n: int, m: int, seed: int) -> float:
    """Return the relative error of one run; infinite when there are too few rows to run."""
    problem, truth = make(n, seed, variant in ("plain weights", "paper"))
    k = min(len(truth.weights), K)
    X = np.random.default_rng(seed).normal(size=(N_QUERIES, D))
    exact = truth.hermite(X, m)
    answers = answer_of(variant, problem, k, m, seed)(X)
    return float(np.sqrt(np.mean((answers - exact) ** 2) / np.mean(exact**2)))


def rows_needed(sizes: list[int], errors: list[float]) -> tuple[str, float]:
    """Interpolate N at the target; a bound if it is outside the measured range."""
    if errors[0] <= TARGET:
        return f"< {sizes[0]:,}", float(sizes[0])
    for i in range(1, len(sizes)):
        if errors[i] <= TARGET:
            slope = math.log(errors[i] / errors[i - 1]) / math.log(sizes[i] / sizes[i - 1])
            n = sizes[i - 1] * (TARGET / errors[i - 1]) ** (1 / slope)
            return f"{n:,.0f}", n
    return f"> {sizes[-1]:,}", float(sizes[-1])


def main() -> None:
    """Print the errors at every N, and the rows needed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=1_024_000)
    parser.add_argument("--orders", type=int, nargs="+", default=[2, 4, 6])
    largest = parser.parse_args().largest
    sizes = [250 * 4**i for i in range(12) if 250 * 4**i <= largest]
    print(f"rows for a relative error of {TARGET}, d = {D}, medians over {len(SEEDS)} seeds")
    print("| problem | m | " + " | ".join(VARIANTS) + " | paper / closed form |")
    print("|---" * (len(VARIANTS) + 3) + "|")
    for m in parser.parse_args().orders:
        for name, make in PROBLEMS.items():
            cells, numbers = [], []
            for variant in VARIANTS:
                if variant == "plain weights" and name in ("mixture", "differences"):
                    cells.append("same")
                    continue
                errors: list[float] = []
                for n in sizes:
                    errors.append(
                        float(np.median([error(make, variant, n, m, seed) for seed in SEEDS]))
                    )
                    if errors[-1] <= TARGET:
                        break
                cell, number = rows_needed(sizes[: len(errors)], errors)
                cells.append(cell)
                numbers.append(number)
            bound = ">" if cells[-1].startswith(">") or cells[0].startswith("<") else ""
            ratio = f"{bound} {numbers[-1] / numbers[0]:,.0f}"
            print(f"| {name} | {m} | " + " | ".join(cells) + f" | {ratio} |", flush=True)


if __name__ == "__main__":
    main()
