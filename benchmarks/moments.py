"""Moments: errors of answers, and means decoded from them.

    python benchmarks/moments.py [answers] [decoded] [--seeds N] [--first SEED] [--old SRC] ...

``answers`` has the relative root mean square error of the inner products of the moment of order m
with the Hermite tensors of 200 points from N(0, I), in six features with three components (two
for differences). Beside the closed form of either edition stands the algorithm as printed, with
2,000 draws of its auxiliary input. ``decoded`` has the means of spherical mixtures by
``components()``, all passes included and before any EM: a mean is found within 0.5, and the mean
at the centre of a mixture does not count.
"""

from __future__ import annotations

import math
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from common import (
    Case,
    Figures,
    Method,
    Table,
    both_editions,
    main,
    matched_distances,
    timed,
)
from densities import show
from mixtures import SETTINGS, draw

PRINTED = "as printed"
FEATURES, QUERIES, DRAWS = 6, 200, 2_000
ROWS = {2: 4_000, 4: 16_000, 6: 64_000}  # by order
ANSWERS = {
    f"{problem}, order {order}, {n:,} rows": (problem, order, n)
    for order, n in ROWS.items()
    for problem in ("mixture", "differences", "regressions", "ReLU sum")
}
DECODED = [
    name for name in SETTINGS if name[:2] in ("a:", "b:", "c:", "e:", "f:", "g:", "k:", "l:")
]


def problems() -> Any:
    """Return the module with the problems of the edition of this process."""
    found = import_module("implicitmoments.moments")
    first = not hasattr(found, "SphericalMixtureProblem")
    return import_module("implicitmoments.problems") if first else found


def draw_problem(case: Case) -> tuple[Any, Any, Any]:
    """Return a problem, its truth, and weights c_t √t! of its rows for the printed algorithm."""
    from implicitmoments import datasets  # noqa: PLC0415

    kind, _, n = ANSWERS[case.setting]
    how: Any = {"n_features": FEATURES, "random_state": case.seed}
    if kind in ("mixture", "differences"):
        X, truth = datasets.make_spherical_mixture(n, 3 if kind == "mixture" else 2, **how)
        if kind == "mixture":
            return problems().SphericalMixtureProblem(X), truth, root_of_factorial
        return problems().PairwiseDifferenceProblem(X), truth.differences(), root_of_factorial
    if kind == "regressions":
        X, y, truth = datasets.make_regression_mixture(n, 3, **how)
        problem = problems().RegressionMixtureProblem(X, y)
        return problem, truth, lambda t, rows: rows["y"] ** t / math.sqrt(math.factorial(t))
    X, y, truth = datasets.make_activation_sum(n, 3, **how)
    problem = problems().ActivationSumProblem(X, y, "relu")
    return problem, truth, lambda t, rows: rows["y"] / problem.coefficient(t)


def root_of_factorial(t: int, rows: Any) -> Any:
    """Return √t! for every row."""
    return np.full(len(rows["x"]), math.sqrt(math.factorial(t)))


def answer(case: Case, *, printed: bool = False) -> Figures:
    """Return the relative error of the answers."""
    import implicitmoments as im  # noqa: PLC0415

    problem, truth, weight = draw_problem(case)
    order, k = ANSWERS[case.setting][1], min(len(truth.weights), 3)
    points = np.random.default_rng(case.seed).normal(size=(QUERIES, FEATURES))

    def closed() -> Any:
        return im.implicit_moments(problem, n_components=k, order=order).hermite(points)

    def as_printed() -> Any:
        paper, rng = im.paper, np.random.default_rng(case.seed)
        take = paper.rows_in_turn(dict(problem.rows.hold().block), rng)
        plain = paper.hermite_problem(take, FEATURES, weight)
        n = problem.rows.n // (order + 1)
        moment = paper.implicit_moment_estimation(plain, k, order, n, rng)
        query = paper.hermite(paper.vector("x"), paper.vector("y"), order)
        auxiliary = rng.normal(size=(DRAWS, FEATURES))
        return paper.answer(moment, query, {"x": points}, {"y": auxiliary})

    found, seconds = timed(as_printed if printed else closed)
    exact = truth.hermite(points, order)
    error = np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2))
    return {"error": float(error), "seconds": seconds}


def decode(case: Case) -> Figures:
    """Return the means missed, and the largest error."""
    import implicitmoments as im  # noqa: PLC0415

    data = draw(case)
    problem = problems().SphericalMixtureProblem(data.X)

    def components() -> Any:
        return im.implicit_moments(problem, n_components=data.k, order=1).components()

    found, seconds = timed(components)
    apart = matched_distances(found.guesses, data.means)[int(SETTINGS[case.setting].centre) :]
    unresolved = int(np.sum(~found.resolved))
    missed, largest = int(np.sum(apart >= 0.5)), float(apart.max())
    return {"missed": missed, "largest": largest, "unresolved": unresolved, "seconds": seconds}


def warm_up() -> None:
    """Decode a few rows."""
    import implicitmoments as im  # noqa: PLC0415

    X = np.random.default_rng(0).normal(size=(500, 3))
    problem = problems().SphericalMixtureProblem(X)
    im.implicit_moments(problem, n_components=2, order=4).components()


METHODS = [*both_editions(answer), Method(PRINTED, partial(answer, printed=True))]
SHOWN = {"missed": 0, "largest": 2, "unresolved": 0, "seconds": 2}
SHOW_ANSWERS, SHOW_DECODED = (
    partial(show, figures=figures) for figures in ({"error": 3, "seconds": 2}, SHOWN)
)
TABLES = {
    "answers": Table(list(ANSWERS), METHODS, SHOW_ANSWERS, warm_up, 10, list(ANSWERS)[:1]),
    "decoded": Table(DECODED, both_editions(decode), SHOW_DECODED, warm_up, 5, DECODED[-1:]),
}

if __name__ == "__main__":
    main("moments", __doc__, TABLES)
