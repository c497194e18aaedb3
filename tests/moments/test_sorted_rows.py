"""Rows in the order of their components: averages take them in a shuffled order."""

import numpy as np
import pytest

from implicitmoments import AssumptionWarning, HermiteProblem, MomentProblem, implicit_moments
from implicitmoments.circuits import power, vector
from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.problems import PairwiseDifferenceProblem
from implicitmoments.rows import GeneratedTable, KeyedPermutation


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 9, 10, 1_000])
def test_a_keyed_permutation_is_one_by_any_blocks(n):
    order = KeyedPermutation(n, 4)
    places = order.places(range(n))
    assert sorted(places.tolist()) == list(range(n))
    parts = [order.places(range(i, min(i + 7, n))) for i in range(0, n, 7)]
    np.testing.assert_array_equal(np.concatenate([[], *parts]), places)
    np.testing.assert_array_equal(order.chosen(range(n), range(2, 5)), (places > 1) & (places < 5))
    if n == 1_000:
        assert np.any(places != KeyedPermutation(n, 5).places(range(n)))


def test_every_place_is_as_likely():
    """Row 0 of six over 3,000 keys; and parts of a sorted file have equal shares."""
    counts = np.bincount([KeyedPermutation(6, s).places(range(1))[0] for s in range(3_000)])
    assert np.sum((counts - 500) ** 2 / 500) < 25  # χ² of 5 degrees of freedom
    places = KeyedPermutation(100_000).places(range(100_000))
    shares = np.bincount(places[:30_000] // 10_000) / 10_000
    assert np.all(np.abs(shares - 0.3) < 5 * np.sqrt(0.3 * 0.7 / 10_000))


@pytest.fixture(scope="module")
def mixture():
    X, truth = make_spherical_mixture(60_000, 2, 4, radius=2.0, random_state=3)
    return X[np.argsort(truth.labels, kind="stable")], truth


def error(moments, truth, order):
    points = np.random.default_rng(0).normal(size=(200, 4))
    exact = truth.power(points, order)
    answers = moments.inner(power(vector("x"), order), {"x": points})
    return np.sqrt(np.mean((answers - exact) ** 2) / np.mean(exact**2))


class OwnProblem(MomentProblem):
    """A user's problem with rows of its own, at order 2 without noise."""

    def __init__(self, X):
        self.X, (self.n_rows, self.n_features) = X, X.shape

    def circuit(self, order):
        return power(vector("v"), order)

    def draw(self, order, rows, rng):
        return {"v": self.X[rows.start : rows.stop]}


@pytest.mark.parametrize("kind", ["array", "source", "own"])
def test_the_paper_s_averages_of_sorted_rows(mixture, kind):
    X, truth = mixture
    if kind == "own":
        problem = OwnProblem(truth.vectors[np.sort(truth.labels)])
    elif kind == "source":
        problem = HermiteProblem(GeneratedTable(lambda rows, _: X[rows.start : rows.stop], 60_000))
    else:
        problem = HermiteProblem(X)
    m = implicit_moments(problem, n_components=2, order=2, method="paper", random_state=0)
    # the last third of the rows alone, of one component, would give an error of about 1
    assert error(m, truth, 2) < 0.15
    assert m.stats["rows_per_step"] == 20_000


def test_weights_stay_with_their_rows(mixture):
    """Weights that a user gives as an array are those of the rows in the user's order."""
    X, truth = mixture
    first = np.arange(60_000) < np.sum(truth.labels == 0)
    problem = HermiteProblem(X, lambda _: first / first.mean())
    m = implicit_moments(problem, n_components=1, order=2, method="paper", random_state=0)
    points = np.random.default_rng(0).normal(size=(200, 4))
    exact = (points @ truth.vectors[0]) ** 2
    answers = m.inner(power(vector("x"), 2), {"x": points})
    assert np.sqrt(np.mean((answers - exact) ** 2) / np.mean(exact**2)) < 0.15


@pytest.mark.parametrize("method", ["closed_form", "paper"])
def test_fewer_rows_than_there_are_are_taken_from_all(mixture, method):
    X, truth = mixture
    m = implicit_moments(
        HermiteProblem(X), n_components=2, order=2, method=method, n_samples=10_000, random_state=0
    )
    assert error(m, truth, 2) < (0.1 if method == "closed_form" else 0.3)


def test_pairs_of_sorted_rows(mixture):
    X, truth = mixture
    apart = truth.differences()
    m = implicit_moments(PairwiseDifferenceProblem(X), n_components=2, order=2)
    assert error(m, apart, 2) < 0.1
    source = GeneratedTable(lambda rows, _: X[rows.start : rows.stop], 60_000)
    with pytest.warns(AssumptionWarning):
        lost = implicit_moments(PairwiseDifferenceProblem(source), n_components=2, order=2)
    assert lost.notes.codes == ["neighbours_paired"]
    assert error(lost, apart, 2) > 0.9  # neighbours are of one component
