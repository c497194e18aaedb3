"""Components of a user's own moment problem, by its circuits."""

import math

import numpy as np
import pytest

from implicitmoments import implicit_moments
from implicitmoments.circuits import vector
from implicitmoments.datasets import Truth
from implicitmoments.moments import MomentProblem, SymmetricChain
from implicitmoments.moments.chain import open_window
from implicitmoments.moments.circuit_rows import CircuitMomentPair
from implicitmoments.problems import PopulationProblem
from implicitmoments.projections import evaluate_dense
from support import match_rows

TRUTH = Truth([0.5, 0.3, 0.2], [[2.0, 0.5, 0.0], [-1.0, 1.5, 0.3], [0.3, -2.0, 1.0]])


class Repeated(MomentProblem):
    """Every row is an item of a hidden kind, measured six times with noise of mean 0."""

    def __init__(self, measured, independent=True):
        self.measured, self.independent = measured, independent
        self.n_rows, _, self.n_features = measured.shape

    def circuit(self, order):
        built = vector("x0")
        for i in range(1, order):
            built = built.append(vector(f"x{i}"))
        return built

    def has_order(self, order):
        return 1 <= order <= 6

    def draw(self, order, rows, rng):
        chosen = self.measured[rows.start : rows.stop]
        return {f"x{i}": chosen[:, i if self.independent else 0] for i in range(order)}


def measured(n, seed, truth=TRUTH):
    rng = np.random.default_rng(seed)
    kinds = rng.choice(len(truth.weights), p=truth.weights, size=n)
    shape = (n, 6, truth.vectors.shape[1])
    return truth.vectors[kinds][:, None] + rng.laplace(size=shape)


@pytest.mark.parametrize("r", [1, 2, 3])
def test_exact_circuits_give_exact_components(r):
    m = implicit_moments(PopulationProblem(TRUTH), n_components=3, order=1, n_samples=4)
    found = m.components(r=r)
    assert found.identified
    assert found.r == r
    rows, apart = match_rows(found.vectors, TRUTH.vectors)
    assert apart.max() < 1e-8
    np.testing.assert_allclose(found.weights[rows], TRUTH.weights, atol=1e-8)


def test_averages_are_those_of_dense_tensors():
    """M_4 and M_6 on symmetric matrices, M_3 and M_1: the twin forms all tensors."""
    problem = Repeated(measured(40, 0))
    view = implicit_moments(problem, n_components=3, order=1, n_samples=20).view
    chain = SymmetricChain((np.eye(3),), np.eye(3))
    window = open_window(chain, 3)
    pair = CircuitMomentPair(view, chain, window)
    basis = window.step(np.eye(window.dim))  # (dim, 9)
    W = np.linalg.qr(np.random.default_rng(0).normal(size=(window.dim, 3)))[0] * [1.0, 2.0, 0.5]
    dense = {}
    for order in (1, 3, 4, 6):
        inputs = problem.draw(order, range(40), None)
        dense[order] = evaluate_dense(problem.circuit(order), inputs).mean(axis=0)
    M4 = basis @ dense[4].reshape(9, 9) @ basis.T
    np.testing.assert_allclose(pair.second().value, (M4 + M4.T) / 2, atol=1e-12)
    through = W.T @ basis
    T = np.einsum("abc,xa,yb,zc->xyz", dense[6].reshape(9, 9, 9), *[through] * 3)
    axes = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    T = sum(np.transpose(T, one) for one in axes) / 6
    np.testing.assert_allclose(pair.third(W).value, T, atol=1e-10)
    np.testing.assert_allclose(pair.mixed(W).value, dense[3].reshape(3, 9) @ through.T, atol=1e-12)
    np.testing.assert_allclose(pair.first().value, dense[1], atol=1e-12)


def test_hidden_kinds_from_repeated_measurements():
    """The noise is that of Laplace; no Hermite tensor is involved."""
    ratios = []
    for seed in range(6):
        problem = Repeated(measured(8_000, seed))
        found = implicit_moments(problem, n_components=3, order=1).components()
        assert found.identified
        rows, apart = match_rows(found.vectors, TRUTH.vectors)
        assert apart.max() < 0.3
        assert np.abs(found.weights[rows] - TRUTH.weights).max() < 0.15
        ratios += list(apart / found.errors[rows])
    assert 0.6 < math.sqrt(np.mean(np.square(ratios))) < 1.5
    # one measurement in all slots has the moments of the noise too: the negative control
    wrong = implicit_moments(
        Repeated(measured(8_000, 0), independent=False), n_components=3, order=1
    ).components()
    assert match_rows(wrong.guesses, TRUTH.vectors)[1].max() > 0.3


def test_more_kinds_than_features_and_sorted_rows():
    truth = Truth([1 / 3] * 3, [[2.5, 0.0], [0.0, 2.5], [-1.8, 1.8]])
    rows = measured(30_000, 0, truth)
    order = np.argsort(rows[:, 0, 0])
    found = [
        implicit_moments(Repeated(some), n_components=3, order=1).components()
        for some in (rows, rows[order])
    ]
    for one in found:
        assert match_rows(one.vectors, truth.vectors)[1].max() < 0.3
    assert 0.3 < np.median(found[1].errors / found[0].errors) < 3


def test_rows_without_limit_and_the_users_coordinates():
    class Moved(PopulationProblem):
        def original_vectors(self, vectors):
            return 2 * vectors + 1.0

        def has_order(self, order):
            return order != 3

    m = implicit_moments(Moved(TRUTH), n_components=3, order=2, n_samples=4)
    found = m.components()
    assert match_rows(found.vectors, 2 * TRUTH.vectors + 1.0)[1].max() < 1e-8
    assert list(m.components(r=1).notes.codes) == ["orders_missing"]


def test_a_generator_of_rows():
    class Drawn(Repeated):
        def __init__(self):
            self.n_rows, self.n_features, self.independent = None, 3, True

        def draw(self, order, rows, rng):
            kinds = rng.categorical(TRUTH.weights)
            return {f"x{i}": TRUTH.vectors[kinds] + 0.5 * rng.normal(3) for i in range(order)}

    m = implicit_moments(Drawn(), n_components=3, order=1, n_samples=4_000, random_state=0)
    found = m.components()
    assert match_rows(found.vectors, TRUTH.vectors)[1].max() < 0.3
