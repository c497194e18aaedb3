"""Queries of implicit moments, and components decoded from them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import implicitmoments as im
from freezing.kinds import EXACT, Floats, Items, Numbers, flat

ROWS = 8


def named(name: str) -> Any:
    """Return a problem, from whichever public module has it."""
    for home in ("problems", "models", "moments"):
        module = getattr(im, home, None)
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"no public module has {name}")


def spread(values: Floats) -> Floats:
    """Return eight numbers of many, from the first to the last."""
    kept: Floats = values[np.linspace(0, len(values) - 1, min(ROWS, len(values))).astype(int)]
    return kept


def problem(name: str) -> tuple[Any, Floats]:
    """Return a problem, and rows for queries."""
    if name in {"RegressionMixtureProblem", "ActivationSumProblem"}:
        make: Any = im.datasets.make_regression_mixture
        more: tuple[Any, ...] = ()
        if name == "ActivationSumProblem":
            make, more = im.datasets.make_activation_sum, (named("relu")(),)
        X, y, _ = make(5_000, 3, 5, random_state=0)
        return named(name)(X, y, *more), X
    X, _ = im.datasets.make_spherical_mixture(
        5_000, 3, 5, radius=3.0, separation=2.0, weights=(0.5, 0.3, 0.2), random_state=0
    )
    return named(name)(X), X


def moments(name: str, order: int, **how: Any) -> Numbers:
    """Return results of Hermite queries, the noise floors and eigenvalues."""
    posed, X = problem(name)
    m = im.implicit_moments(posed, n_components=3, order=order, random_state=0, **how)
    spectra = np.concatenate([np.ravel(s) for s in m.spectra])
    return Numbers(flat(m.hermite(X[:ROWS]), m.noise_floor, spread(spectra)), EXACT)


def components(name: str, order: int, **how: Any) -> Numbers:
    """Return weights, norms and errors of the decoded vectors.

    Weights of unresolved components are written as −1.
    """
    posed, _ = problem(name)
    m = im.implicit_moments(posed, n_components=3, order=order, random_state=0, **how)
    found = m.components()
    weights = np.nan_to_num(np.asarray(found.weights), nan=-1.0)
    by_weight = np.argsort(-weights, kind="stable")
    norms = np.linalg.norm(found.guesses, axis=1)[by_weight]
    told = (found.resolved[by_weight], found.errors[by_weight], found.gap)
    return Numbers(flat(weights[by_weight], norms, *told), EXACT)


def circuit() -> Numbers:
    """Return the inner products of a circuit with a moment, at some rows."""
    x, y = im.circuits.vector("x"), im.circuits.vector("y")
    posed, X = problem("HermiteProblem")
    m = im.implicit_moments(posed, n_components=3, order=4)
    asked = im.circuits.hermite(x, y, 3)
    return Numbers(flat(m.inner(asked, {"x": X[:ROWS], "y": X[ROWS : 2 * ROWS]})), EXACT)


def moment_items() -> Items:
    """Return every item by name."""
    items: Items = {}
    for name in ("Hermite", "SphericalMixture", "RegressionMixture", "ActivationSum"):
        label = f"implicit_moments, {name}Problem"
        items[f"{label}, closed form"] = partial(moments, f"{name}Problem", 4)
        items[f"{label}, paper"] = partial(moments, f"{name}Problem", 2, method="paper")
    for sampling in ("cross_fit", "fresh"):
        items[f"implicit_moments, {sampling}"] = partial(
            moments, "HermiteProblem", 4, sampling=sampling
        )
    for name, order in (("LiLiuMixture", 2), ("PairwiseDifference", 4)):
        items[f"implicit_moments, {name}Problem"] = partial(moments, f"{name}Problem", order)
    for name in ("SphericalMixture", "RegressionMixture", "ActivationSum"):
        items[f"components, {name}Problem"] = partial(components, f"{name}Problem", 4)
    items["components, SphericalMixtureProblem, order 1"] = partial(
        components, "SphericalMixtureProblem", 1
    )
    items["components, paper"] = partial(components, "SphericalMixtureProblem", 1, method="paper")
    items["inner product with a circuit"] = circuit
    return items
