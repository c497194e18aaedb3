"""What the paper's box, the closed form and the regression proof do with exact moments.

Run: python benchmarks/box.py step7 | exact | sampling | contraction

step7: error of ``hermite()`` of ``method="paper"`` with exact moments, by the draws of step 7.
exact: error of the closed form with exact moments, by order.
sampling: error of the closed form by the rows that its passes use.
contraction: second moment per row of two estimators of the same coefficient (Erratum 11).
"""

from __future__ import annotations

import argparse
import math
import time
from functools import partial
from typing import Any

import numpy as np
from scipy.special import eval_genlaguerre, eval_hermitenorm, roots_genlaguerre, roots_hermitenorm

from implicitmoments import HermiteProblem, implicit_moments
from implicitmoments.datasets import Truth, make_spherical_mixture
from implicitmoments.moments import PaperMoments
from implicitmoments.moments.cubature import Cubature
from implicitmoments.problems import PopulationProblem


def directions(k: int, d: int, length: float = 1.0) -> Truth:
    """Return k random vectors of one length, with equal weights."""
    vectors = np.random.default_rng(0).normal(size=(k, d))
    return Truth(
        np.full(k, 1 / k), length * vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    )


def _given(weights: Any, _: int) -> Any:
    """Return weights that are the same for every order."""
    return weights


def relative(answers: np.ndarray, exact: np.ndarray) -> float:
    """Return a root mean square error relative to that of always answering 0."""
    return float(np.sqrt(np.mean((answers - exact) ** 2) / np.mean(exact**2)))


def step7() -> None:
    """Print errors and seconds of 300 queries by draws and by the exact rule."""
    k, d = 3, 6
    truth = directions(k, d)
    queries = np.random.default_rng(1).normal(size=(300, d))
    print("| order | 100 draws | 10,000 draws | exact rule | nodes | seconds |")
    print("|---|---|---|---|---|---|")
    for order in (2, 4, 6, 8):
        problem = PopulationProblem(truth)
        m = implicit_moments(problem, n_components=k, order=order, n_samples=k)
        assert isinstance(m, PaperMoments)
        exact = truth.hermite(queries, order)
        few, many = (relative(m.hermite(queries, n_draws=n), exact) for n in (100, 10_000))
        clock = time.perf_counter()
        rule = relative(m.hermite(queries), exact)
        seconds = time.perf_counter() - clock
        nodes = Cubature(d, order).size
        print(f"| {order} | {few:.2f} | {many:.3f} | {rule:.0e} | {nodes} | {seconds:.2f} |")


def exact() -> None:
    """Print errors of the closed form with exact moments: means over nodes about each vector."""
    print("| k | d | order | relative error |")
    print("|---|---|---|---|")
    for k, d, orders in ((2, 2, (6, 10, 16, 24)), (3, 3, (6, 8, 10)), (4, 3, (6, 8, 10))):
        truth = directions(k, d, 1.5)
        queries = np.random.default_rng(1).normal(size=(200, d))
        for order in orders:
            nodes, weights = Cubature(d, order).rule
            points = (truth.vectors[:, None, :] + nodes).reshape(-1, d)
            counts = np.outer(truth.weights, weights).ravel() * len(points)
            problem = HermiteProblem(points, partial(_given, counts))
            m = implicit_moments(problem, n_components=k, order=order, drop_noise=False)
            error = relative(m.hermite(queries), truth.hermite(queries, order))
            print(f"| {k} | {d} | {order} | {error:.0e} |")


def sampling() -> None:
    """Print errors of the closed form on mixtures, k = 3 and d = 8, median of 10 seeds."""
    ways = ("reuse", "cross_fit", "fresh")
    print(f"| rows | order | {' | '.join(ways)} |")
    print("|---|---|---|---|---|")
    queries = np.random.default_rng(0).normal(size=(300, 8))
    for n, order in ((3_000, 4), (30_000, 4), (3_000, 6), (30_000, 6)):
        errors = np.empty((10, len(ways)))
        for seed in range(10):
            X, truth = make_spherical_mixture(n, 3, 8, radius=1.5, random_state=seed)
            for i, way in enumerate(ways):
                m = implicit_moments(
                    HermiteProblem(X), n_components=3, order=order, sampling=way, drop_noise=False
                )
                errors[seed, i] = relative(m.hermite(queries), truth.hermite(queries, order))
        shown = " | ".join(f"{error:.2f}" for error in np.median(errors, axis=0))
        print(f"| {n:,} | {order} | {shown} |")


def contraction() -> None:
    """Print second moments per row, by exact quadrature, for one regression of norm 1/2."""
    beta = sigma = 0.5
    print("| b | d | contracted: y^(2b)/(2b)! ⟨He_2b(x), I^⊗b⟩ | direct: h_2b(y) |")
    print("|---|---|---|---|")
    for b in (1, 2, 3, 4):
        for d in (2, 8, 32, 128):
            contracted = contracted_second_moment(b, d, beta, sigma)
            print(f"| {b} | {d} | {contracted:.3g} | {direct_second_moment(b, beta, sigma):.3g} |")


def contracted_second_moment(b: int, d: int, beta: float, sigma: float) -> float:
    r"""Return :math:`E[(y^{2b}/(2b)!\, \langle He_{2b}(x), I^{\otimes b} \rangle)^2]` exactly.

    The contraction is :math:`(-2)^b b!\, L_b^{(d/2-1)}(\|x\|^2/2)`; x is a coordinate u along the
    regressor and a chi-square of d − 1 degrees of freedom, and y given u is Gaussian.
    """
    u, along = roots_hermitenorm(4 * b + 4)
    half, across = roots_genlaguerre(2 * b + 4, (d - 3) / 2)  # half of the chi-square
    along, across = along / along.sum(), across / across.sum()
    square = u[:, None] ** 2 / 2 + half[None, :]
    hermite = math.factorial(b) * 2.0**b * eval_genlaguerre(b, d / 2 - 1, square)
    xi, noise = roots_hermitenorm(4 * b + 4)
    noise = noise / noise.sum()
    power = ((beta * u[:, None] + sigma * xi[None, :]) ** (4 * b)) @ noise
    return float((along * power) @ hermite**2 @ across) / math.factorial(2 * b) ** 2


def direct_second_moment(b: int, beta: float, sigma: float) -> float:
    """Return the second moment of h_2b(y)."""
    nodes, weights = roots_hermitenorm(4 * b + 4)
    values = eval_hermitenorm(2 * b, math.hypot(beta, sigma) * nodes) ** 2
    return float(values @ weights / weights.sum()) / math.factorial(2 * b)


def main() -> None:
    """Print one table."""
    tables = {"step7": step7, "exact": exact, "sampling": sampling, "contraction": contraction}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=tables)
    chosen = parser.parse_args().table
    print(f"{time.strftime('%Y-%m-%d')}, python benchmarks/box.py {chosen}")
    tables[chosen]()


if __name__ == "__main__":
    main()
