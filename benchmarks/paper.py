"""The paper's algorithms as printed: variances, and the error of each theorem against the rows.

Run: python benchmarks/paper.py --seeds 5

The first table compares estimators of the same moment. The others print, for each theorem, the
error of the estimated part (of the truncated expansion, in L2 under the standard Gaussian), the
whole error that the theorem is about, and the exponent of the rows in either. Proposition 3.2
proves an exponent of -1/4.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.paper import (
    Problem,
    answer,
    cluster_spherical,
    cosine,
    hermite,
    hermite_problem,
    implicit_moment_estimation,
    learn_activation_sum,
    learn_regression_density,
    learn_spherical_density,
    li_liu_problem,
    naive_average,
    relu,
    rows_in_turn,
    vector,
)
from implicitmoments.paper.activation_sums import Activation
from implicitmoments.paper.evaluate import evaluate_dense, hermite_dense
from implicitmoments.paper.li_liu import hermite_second_moment

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Pair: TypeAlias = tuple[float, float]
Measure: TypeAlias = Callable[[int, int], Pair]

FEATURES = 8  # of the first table
QUERIES, DRAWS = 300, 2_000  # points at which hypotheses are evaluated, and draws in step 7
SIZES = (4_000, 20_000, 100_000, 500_000)
MEANS = np.array([[1.2, 0.0, 0.0], [-0.6, 1.0, 0.0], [-0.6, -1.0, 0.0]])
SLOPES = np.array([[1.0, 0.0], [0.0, -0.8]])


def he(order: int, u: Floats) -> Floats:
    """Return the Hermite polynomial He_n."""
    values: Floats = np.polynomial.hermite_e.hermeval(u, np.eye(order + 1)[order])
    return values


def root_mean_square(values: Floats) -> float:
    """Return the L2 norm of a sample."""
    return math.sqrt(float(np.mean(values**2)))


def distance(found: Floats, truth: Floats) -> float:
    """Return the total variation distance of two densities by their ratios at points from G."""
    return float(np.abs(found / found.mean() - truth / truth.mean()).mean() / 2)


def mixture_problems(n: int, rng: np.random.Generator) -> tuple[Floats, Problem, Problem]:
    """Return two means, and the paper's and Li and Liu's estimators of their moments."""
    means = np.zeros((2, FEATURES))
    means[0, 0], means[1, 1] = 1.5, 1.2
    rows = {"x": means[rng.integers(2, size=n)] + rng.normal(size=(n, FEATURES))}
    paper = hermite_problem(rows_in_turn(rows, rng), FEATURES, root_of_factorial)
    return means, paper, li_liu_problem(rows_in_turn(rows, rng), FEATURES)


def root_of_factorial(order: int, block: Any) -> Floats:
    """Return the weight of rows of a mixture, the same for all."""
    return np.full(len(block["x"]), math.sqrt(math.factorial(order)))


def relative_errors(order: int, n: int, seed: int) -> list[float]:
    """Return errors of naive and implicit averages of both circuits, from n rows each."""
    errors = []
    for implicit in (False, True):
        for which in (0, 1):
            rng = np.random.default_rng(seed)
            means, *problems = mixture_problems(n, rng)
            points = rng.normal(size=(QUERIES, means.shape[1]))
            norms = np.linalg.norm(means, axis=1)
            exact = (norms**order * he(order, points @ (means / norms[:, None]).T)).mean(axis=1)
            exact /= math.sqrt(math.factorial(order))
            if implicit:
                moment = implicit_moment_estimation(
                    problems[which], 2, order, n // (order + 1), rng
                )
                query = hermite(vector("x"), vector("y"), order)
                drawn = {"y": rng.normal(size=(DRAWS, means.shape[1]))}
                found = answer(moment, query, {"x": points}, drawn)
            else:
                tensor = naive_average(problems[which], order, n, rng)
                found = hermite_dense(points, order).reshape(QUERIES, -1) @ tensor.ravel()
            errors.append(root_mean_square(found - exact) / root_mean_square(exact))
    return errors


def second_moment(problem: Problem, order: int, n: int, rng: np.random.Generator) -> float:
    """Return the second moment of a circuit along the first axis, without the factor t!."""
    values = evaluate_dense(problem.circuit(order), problem.draw(order, n, rng)).ravel()
    return root_mean_square(values) ** 2 / math.factorial(order)


def compare_estimators(n: int, seeds: int) -> None:
    """Print variances and errors of naive averages and of the implicit estimate."""
    print(f"\nTwo means in {FEATURES} features, {n:,} rows: relative L2 errors of <M_t, H_t>")
    print("and second moments of H_t along a direction, for a mean of zero")
    print(
        "| order | exact | H(x, y) | Li-Liu | naive | naive Li-Liu | implicit | implicit Li-Liu |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for order in (2, 3, 4):
        rng = np.random.default_rng(0)
        take = rows_in_turn({"x": rng.normal(size=(800_000, 1))}, rng)
        problems = (hermite_problem(take, 1, root_of_factorial), li_liu_problem(take, 1))
        variances = [second_moment(problem, order, 400_000, rng) for problem in problems]
        errors = np.median([relative_errors(order, n, seed) for seed in range(seeds)], axis=0)
        cells = [f"{hermite_second_moment(order):.0f}", *(f"{v:.1f}" for v in variances)]
        print(f"| {order} | {' | '.join([*cells, *(f'{error:.3f}' for error in errors)])} |")


def activation_error(
    activation: Activation, function: Callable[[Floats], Floats], epsilon: float
) -> Measure:
    """Return the measurement of Theorem 4.7, three units in four features."""

    def measure(n: int, seed: int) -> Pair:
        rng = np.random.default_rng(seed)
        v = rng.normal(size=(3, 4))
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        x, points = rng.normal(size=(n, 4)), rng.normal(size=(QUERIES, 4))
        labels = function(x @ v.T).mean(axis=1)
        series = learn_activation_sum(x, labels, 3, epsilon, activation, rng)
        found = replace(series, draws=series.draws[:DRAWS])(points)
        orders = range(series.degree + 1)
        factors = {m: activation.coefficient(m) / math.sqrt(math.factorial(m)) for m in orders}
        kept = sum(a * he(m, points @ v.T).mean(axis=1) for m, a in factors.items())
        whole = function(points @ v.T).mean(axis=1)
        return root_mean_square(found - kept), root_mean_square(found - whole)

    return measure


def spherical_error(n: int, seed: int) -> Pair:
    """Measure Theorem 4.16, three means in three features; the whole error is a distance."""
    rng = np.random.default_rng(seed)
    rows = MEANS[rng.integers(3, size=n)] + rng.normal(size=(n, 3))
    density = learn_spherical_density(rows, 3, 1.0, rng, radius=1.2)
    series: Any = density.ratio
    points = rng.normal(size=(QUERIES, 3))
    found = replace(series, draws=series.draws[:DRAWS])(points)
    norms = np.linalg.norm(MEANS, axis=1)
    along = points @ (MEANS / norms[:, None]).T
    kept = sum(
        (norms**m * he(m, along)).mean(axis=1) / math.factorial(m)
        for m in range(density.degree + 1)
    )
    whole = np.exp(norms * along - norms**2 / 2).mean(axis=1)
    return root_mean_square(found - kept), distance(np.clip(found, 0, density.clip), whole)


def regression_error(n: int, seed: int) -> Pair:
    """Measure Theorem 4.22, two regressions in two features, noise of variance 1."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    y = np.sum(x * SLOPES[rng.integers(2, size=n)], axis=1) + rng.normal(size=n)
    density = learn_regression_density(x, y, 2, 1.0, 1.0, 1.0, rng)
    ratio: Any = density.ratio
    points = rng.normal(size=(QUERIES, 3))
    found = replace(ratio, draws=ratio.draws[:DRAWS])(points)
    kept, whole = np.zeros(QUERIES), np.zeros(QUERIES)
    for beta in SLOPES / 2:
        norm, z = float(np.linalg.norm(beta)), points[:, 2]
        along = points[:, :2] @ beta / norm
        excess = norm**2 + ratio.sigma**2 - 1
        for a in range(density.degree // 2 + 1):
            for j in range(density.degree // 2 - a + 1):
                factor = norm**a * excess**j / (math.factorial(a) * math.factorial(j) * 2**j)
                kept += factor * he(a, along) * he(a + 2 * j, z) / 2
        residual = z - norm * along
        whole += np.exp(z**2 / 2 - residual**2 / (2 * ratio.sigma**2)) / ratio.sigma / 2
    return root_mean_square(found - kept), distance(np.clip(found, 0, density.clip), whole)


def clustering_error(n: int, seed: int) -> Pair:
    """Measure Theorem 4.19: errors of weights and means, with the alpha that n rows allow."""
    rng = np.random.default_rng(seed)
    means = 12 / math.sqrt(2) * np.eye(4)[:3]
    rows = means[rng.integers(3, size=n)] + rng.normal(size=(n, 4))
    alpha = math.sqrt(4 * 3 / (0.3 * n / 10))  # a tenth of the rows is clustered
    found = cluster_spherical(rows, 3, 0.3, alpha, 12.0, rng)
    errors = np.linalg.norm(found.means[:, None] - means, axis=2).min(axis=1)
    return float(np.abs(found.weights - 1 / 3).max()), float(errors.max())


def print_theorem(
    title: str, names: str, measure: Measure, sizes: tuple[int, ...], seeds: int
) -> None:
    """Print medians over seeds by number of rows, and the exponents."""
    print(f"\n{title}\n| rows | {names} |\n|---|---|---|")
    medians = []
    for n in sizes:
        medians.append(np.median([measure(n, seed) for seed in range(seeds)], axis=0))
        print(f"| {n:,} | {medians[-1][0]:.3f} | {medians[-1][1]:.3f} |", flush=True)
    slopes = np.polyfit(np.log(sizes), np.log(medians), 1)[0]
    print(f"| exponent | {slopes[0]:.2f} | {slopes[1]:.2f} |")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="small sizes and one seed")
    options = parser.parse_args()
    seeds, sizes = (1, SIZES[:2]) if options.quick else (options.seeds, SIZES)
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    print(f"python {' '.join(sys.argv)}; {date.today()}; {machine}")
    compare_estimators(20_000, seeds)
    names = "L2 error of the expansion | L2 error"
    relu_error = activation_error(relu(), lambda u: np.maximum(u, 0), 0.2)
    print_theorem("Theorem 4.7, ReLU, epsilon 0.2", names, relu_error, sizes, seeds)
    cosine_error = activation_error(cosine(1.0), np.cos, 0.2)
    print_theorem("Theorem 4.7, cosine, epsilon 0.2", names, cosine_error, sizes, seeds)
    names = "L2 error of the expansion | total variation"
    print_theorem("Theorem 4.16, epsilon 1, radius 1.2", names, spherical_error, sizes, seeds)
    print_theorem("Theorem 4.22, epsilon 1, B 1, sigma 1", names, regression_error, sizes, seeds)
    names = "error of weights | error of means"
    clustered = tuple(n // 4 for n in sizes[:3])  # tests times draws grow with the square
    print_theorem("Theorem 4.19, k 3, separation 12", names, clustering_error, clustered, seeds)


if __name__ == "__main__":
    main()
