from functools import partial

import numpy as np
import pytest

from implicitmoments import HermiteProblem, MomentProblem, implicit_moments
from implicitmoments.circuits import power, vector
from implicitmoments.problems import (
    ActivationSumProblem,
    PopulationProblem,
    SphericalMixtureProblem,
)
from implicitmoments.rows import Truth

paper_moments = partial(implicit_moments, method="paper")

X = np.random.default_rng(0).normal(size=(100, 3))


class Wrong(MomentProblem):
    n_features, n_rows = 3, None

    def __init__(self, circuit):
        self.made = circuit

    def circuit(self, order):
        return self.made

    def draw(self, order, rows, rng):
        return {"x": rng.normal(4)}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_components": 0}, ValueError, "n_components is at least 1, got 0"),
        ({"n_components": 2.0}, TypeError, "n_components is a whole number, got 2.0"),
        (
            {"n_components": 60},
            ValueError,
            "n_components=60 is more than the 33 rows of each average",
        ),
        ({"order": 0}, ValueError, "order is at least 1, got 0"),
        ({"order": 60, "n_repeats": 2}, ValueError, "order 60 takes 61 averages.*100 are there"),
        ({"n_repeats": 40}, ValueError, "order 2 takes 3 averages over fresh rows, 40 times"),
        ({"n_samples": 50}, ValueError, "3 × 50 rows are needed and 100 are there"),
        ({"n_samples": 0}, ValueError, "n_samples is at least 1"),
        ({"method": "magic"}, ValueError, "'closed_form' or 'paper', got 'magic'"),
        ({"sampling": "reuse"}, ValueError, "takes fresh rows in every average"),
        ({"block_rows": 0}, ValueError, "block_rows is at least 1"),
        ({"truth": X}, TypeError, r"truth is a Truth\(weights, vectors\), got ndarray"),
        ({"random_state": "x"}, TypeError, "random_state is a whole number"),
        (
            {"truth": Truth([1.0], [[1.0, 2.0]])},
            ValueError,
            "vectors of 2 features, the problem has 3",
        ),
    ],
)
def test_what_was_given_what_was_expected_what_to_try(options, error, message):
    settings = {"n_components": 2, "order": 2, "random_state": 0, **options}
    with pytest.raises(error, match=message):
        paper_moments(HermiteProblem(X), **settings)


@pytest.mark.parametrize(
    ("points", "error", "message"),
    [
        (np.where(X > 2, np.nan, X), ValueError, "X contains NaN"),
        (np.where(X > 2, -np.inf, X), ValueError, "X contains infinity"),
        (X.astype(str), TypeError, "expected real numbers"),
        (X[:0], ValueError, "X is empty"),
        (X[0], ValueError, r"X has 1 axes"),
        (None, TypeError, "expected real numbers"),
    ],
)
def test_points_that_do_not_fit(points, error, message):
    with pytest.raises(error, match=message):
        HermiteProblem(points)


@pytest.mark.parametrize(
    ("weight", "error", "message"),
    [
        (lambda order: np.ones(7), ValueError, r"weight\(2\) has 7 rows, expected 100"),
        (lambda order: np.full(100, np.nan), ValueError, r"weight\(2\) contains NaN"),
        (lambda order: ["a"] * 100, TypeError, "expected real numbers"),
    ],
)
def test_weights_that_do_not_fit(weight, error, message):
    with pytest.raises(error, match=message):
        paper_moments(HermiteProblem(X, weight), n_components=2, order=2)


def test_a_problem_that_makes_rows_needs_their_number():
    endless = HermiteProblem(lambda rows, rng: rng.normal(3))
    with pytest.raises(ValueError, match="give n_samples"):
        paper_moments(endless, n_components=2, order=2)
    with pytest.raises(ValueError, match="give n_samples"):
        paper_moments(PopulationProblem(Truth([1.0], [[1.0]])), n_components=1, order=1)


@pytest.mark.parametrize(
    ("circuit", "error", "message"),
    [
        (power(vector("x"), 3), ValueError, r"Wrong.circuit\(2\) gave a circuit of order 3"),
        ("x", TypeError, "not a circuit"),
        (power(vector("x"), 2), ValueError, "'x' has 4 features, expected 3"),
        (power(vector("u"), 2), ValueError, "reads 'u', which the inputs do not hold"),
    ],
)
def test_a_users_own_problem_is_checked(circuit, error, message):
    with pytest.raises(error, match=message):
        paper_moments(Wrong(circuit), n_components=2, order=2, n_samples=10)


def test_a_draw_may_give_lists():
    class Listed(Wrong):
        def draw(self, order, rows, rng):
            return {"x": rng.normal(3).tolist()}

        def circuit(self, order):
            return power(vector("x"), order)

    m = paper_moments(Listed(None), n_components=2, order=2, n_samples=10)
    assert m.stats["rows_used"] == 30


def test_a_draw_of_the_wrong_length_is_noticed():
    class Short(Wrong):
        def draw(self, order, rows, rng):
            return {"x": rng.normal(3)[:1]}

    with pytest.raises(ValueError, match=r"Short\.draw gave 1 rows of 'x' and was asked for 10"):
        paper_moments(Short(power(vector("x"), 2)), n_components=2, order=2, n_samples=10)


def test_something_else_than_a_problem():
    with pytest.raises(TypeError, match=r"such as HermiteProblem\(X\), got ndarray"):
        paper_moments(X, n_components=2, order=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variance": 0.0}, "variance is a positive number, got 0.0"),
        ({"center": [0.0, 1.0]}, "center has 2 entries and the points 3 features"),
    ],
)
def test_mixture_options(options, message):
    with pytest.raises(ValueError, match=message):
        SphericalMixtureProblem(X, **options)


def test_bad_rows_are_named_by_their_number_in_the_whole():
    class Holed(Wrong):
        def draw(self, order, rows, rng):
            made = rng.normal(3)
            made[np.array(rows) == 45] = np.nan
            return {"x": made}

    problem = Holed(power(vector("x"), 2))
    with pytest.raises(ValueError, match="'x' contains NaN in 1 row, the first is row 45"):
        paper_moments(problem, n_components=2, order=2, n_samples=100, block_rows=10)


def test_weights_are_asked_for_once_an_order():
    asked = []

    def weight(order):
        asked.append(order)
        return np.ones(100)

    paper_moments(HermiteProblem(X, weight), n_components=2, order=2, block_rows=10)
    assert asked == [2, 4]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: HermiteProblem(X, np.ones(100)), "weight is a function of the order"),
        (lambda: SphericalMixtureProblem(X, variance="1"), "variance is a positive number"),
        (lambda: ActivationSumProblem(X, X[:, 0], np.tanh), "activation is one of relu"),
    ],
)
def test_arguments_of_another_kind(build, message):
    with pytest.raises(TypeError, match=message):
        build()
