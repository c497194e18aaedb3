"""Run the paper's algorithm on a spherical mixture, look at its report, and ask it questions.

Run: python examples/first_moments.py
"""

from __future__ import annotations

import numpy as np

from implicitmoments import implicit_moments
from implicitmoments.circuits import power, vector
from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.models import SphericalMixtureProblem

ORDER = 3


def main() -> None:
    X, truth = make_spherical_mixture(
        200_000, n_components=3, n_features=8, radius=1.5, random_state=0
    )
    problem = SphericalMixtureProblem(X)
    # The truth is given only so that the distances eta and delta can be measured.
    m = implicit_moments(
        problem, n_components=3, order=ORDER, method="paper", truth=truth, random_state=0
    )
    run = m.runs[0]
    print(run.projection)
    print(f"{m.stats['rows_used']:,} rows, {m.stats['rows_per_step']:,} in each average")

    # Of every step: the third eigenvalue is signal, the fourth is noise.
    for step, eta in zip(run.steps, np.asarray(run.etas), strict=True):
        third, fourth = step.spectrum[2], step.next_value
        print(
            f"order {step.order}: eigenvalues 3 and 4 are {third:.3f} and {fourth:.3f}, "
            f"delta {step.delta:.3f}, eta {eta:.3f}"
        )

    # <x ⊗ x ⊗ x, M_3> needs no auxiliary draws; <H_3(x), M_3> averages over some.
    points = np.random.default_rng(1).normal(size=(500, 8))
    cubes = m.inner(power(vector("x"), ORDER), {"x": points})
    hermites = m.hermite(points, n_draws=500)
    for name, answers, exact in (
        ("<x ⊗ x ⊗ x, M_3>", cubes, truth.power(points, ORDER)),
        ("<H_3(x), M_3>", hermites, truth.hermite(points, ORDER)),
    ):
        error = np.sqrt(np.mean((answers - exact) ** 2) / np.mean(exact**2))
        print(f"{name}: relative error {error:.2f} over {len(points)} points")

    # The closed form answers the same question from the same rows, with no auxiliary noise.
    closed = implicit_moments(problem, n_components=3, order=ORDER)
    exact = truth.hermite(points, ORDER)
    error = np.sqrt(np.mean((closed.hermite(points) - exact) ** 2) / np.mean(exact**2))
    print(f"<H_3(x), M_3> by the closed form: relative error {error:.2f}")


if __name__ == "__main__":
    main()
