"""A model that is not the paper's Hermite circuit, through the same recursion."""

import itertools
import math

import numpy as np
import pytest

from implicitmoments import implicit_moments
from implicitmoments.circuits import hermite, vector
from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.problems import (
    LiLiuMixtureProblem,
    li_liu_hermite,
    li_liu_names,
    li_liu_variance,
)
from implicitmoments.projections import (
    RecursiveProjection,
    evaluate,
    evaluate_dense,
    hermite_dense,
)
from support import refuses

x, y = vector("x"), vector("y")


def partitions(slots):
    """All ways to cut slots into singletons and pairs."""
    if not slots:
        yield []
        return
    first, rest = slots[0], slots[1:]
    for tail in partitions(rest):
        yield [(first,), *tail]
    for other in rest:
        for tail in partitions([s for s in rest if s != other]):
            yield [(first, other), *tail]


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_the_circuit_is_the_sum_over_partitions(order, rng):
    points = rng.normal(size=(2, 2))
    z = {name: rng.normal(size=(2, 2)) for name in li_liu_names(order)}
    expected = np.zeros((2, *[2] * order))
    for partition in partitions(list(range(order))):
        slots = [None] * order
        pairs = sorted(part for part in partition if len(part) == 2)
        for j, (a, b) in enumerate(pairs, start=1):
            slots[a], slots[b] = z[f"z{j}"], -z[f"z{j}"]
        filled = [points if s is None else s for s in slots]
        letters = "abcde"[:order]
        expected += np.einsum(",".join("n" + s for s in letters) + "->n" + letters, *filled)
    actual = evaluate_dense(li_liu_hermite(x, order), {"x": points, **z})
    np.testing.assert_allclose(actual, expected / math.sqrt(math.factorial(order)), atol=1e-12)


@pytest.mark.parametrize("order", [2, 3, 4, 5, 6])
def test_its_mean_is_the_hermite_tensor(order):
    """Exactly, with Gauss-Hermite nodes in place of each z in one dimension."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(4)
    names = li_liu_names(order)
    grid = np.array(list(itertools.product(nodes, repeat=len(names))))
    w = np.array([math.prod(p) for p in itertools.product(weights, repeat=len(names))])
    w /= math.sqrt(2 * math.pi) ** len(names)
    inputs = {name: grid[:, [j]] for j, name in enumerate(names)}
    inputs["x"] = np.full((len(grid), 1), 0.8)
    mean = w @ evaluate_dense(li_liu_hermite(x, order), inputs).ravel()
    assert mean == pytest.approx(hermite_dense([[0.8]], order).ravel()[0], abs=1e-10)


def test_its_size_grows_with_the_root_of_the_number_of_subsets():
    sizes = [li_liu_hermite(x, n).size for n in range(1, 15)]
    assert all(size <= 12 * n * 2 ** (n / 2) for n, size in enumerate(sizes, start=1))
    assert hermite(x, y, 14).size < sizes[-1]
    with refuses("out_of_range"):
        li_liu_hermite(x, 0)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_variance_along_a_direction_is_as_computed(order):
    rng = np.random.default_rng(order)
    n = 400_000
    along = RecursiveProjection([np.array([[1.0]])] * order)
    drawn = {name: rng.normal(size=(n, 1)) for name in ("x", "y", *li_liu_names(order))}
    paper = evaluate(hermite(x, y, order), drawn, along).ravel()
    li_liu = evaluate(li_liu_hermite(x, order), drawn, along).ravel()
    for sample, exact in ((paper, 2.0 ** (order - 1)), (li_liu, li_liu_variance(order))):
        standard_error = np.std(sample**2) / math.sqrt(n)
        assert abs(np.mean(sample**2) - exact) < 5 * standard_error
    # the negative control: each variance fails the test of the next order
    assert abs(np.mean(paper**2) - 2.0**order) > 5 * np.std(paper**2) / math.sqrt(n)


def test_the_recursion_takes_it_as_it_is():
    errors = []
    for n in (3_000, 300_000):
        X, truth = make_spherical_mixture(n, 2, 4, radius=1.5, random_state=0)
        m = implicit_moments(LiLiuMixtureProblem(X), n_components=2, order=2, random_state=0)
        queries = np.random.default_rng(0).normal(size=(300, 4))
        errors.append(
            np.sqrt(np.mean((m.hermite(queries, n_draws=300) - truth.hermite(queries, 2)) ** 2))
        )
    assert errors[1] < 0.4 * errors[0]
