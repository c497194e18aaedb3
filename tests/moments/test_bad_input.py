from functools import partial

import numpy as np
import pytest

from implicitmoments import HermiteProblem, MomentProblem, implicit_moments
from implicitmoments.circuits import power, vector
from implicitmoments.datasets import Truth
from implicitmoments.problems import (
    ActivationSumProblem,
    PopulationProblem,
    SphericalMixtureProblem,
)
from support import refuses

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
    ("options", "code"),
    [
        ({"n_components": 0}, "out_of_range"),
        ({"n_components": 2.0}, "not_an_integer"),
        (
            {"n_components": 60},
            "too_few_rows",
        ),
        ({"order": 0}, "out_of_range"),
        ({"order": 60, "n_repeats": 2}, "too_few_rows"),
        ({"n_repeats": 40}, "too_few_rows"),
        ({"n_samples": 50}, "too_few_rows"),
        ({"n_samples": 0}, "out_of_range"),
        ({"method": "magic"}, "unknown_option"),
        ({"sampling": "reuse"}, "option_of_other_method"),
        ({"rows_per_block": 0}, "out_of_range"),
        ({"truth": X}, "not_a_truth"),
        ({"random_state": "x"}, "not_a_random_state"),
        (
            {"truth": Truth([1.0], [[1.0, 2.0]])},
            "n_features_differ",
        ),
    ],
)
def test_what_was_given_what_was_expected_what_to_try(options, code):
    settings = {"n_components": 2, "order": 2, "random_state": 0, **options}
    with refuses(code):
        paper_moments(HermiteProblem(X), **settings)


@pytest.mark.parametrize(
    ("points", "code"),
    [
        (np.where(X > 2, np.nan, X), "not_finite"),
        (np.where(X > 2, -np.inf, X), "not_finite"),
        (X.astype(str), "not_numeric"),
        (X[:0], "no_rows"),
        (X[0], "wrong_axes"),
        (None, "not_numeric"),
    ],
)
def test_points_that_do_not_fit(points, code):
    with refuses(code):
        HermiteProblem(points)


@pytest.mark.parametrize(
    ("weight", "code"),
    [
        (lambda order: np.ones(7), "lengths_differ"),
        (lambda order: np.full(100, np.nan), "not_finite"),
        (lambda order: ["a"] * 100, "not_numeric"),
    ],
)
def test_weights_that_do_not_fit(weight, code):
    with refuses(code):
        paper_moments(HermiteProblem(X, weight), n_components=2, order=2)


def test_a_problem_that_makes_rows_needs_their_number():
    endless = HermiteProblem(lambda rows, rng: rng.normal(3))
    with refuses("n_samples_missing"):
        paper_moments(endless, n_components=2, order=2)
    with refuses("n_samples_missing"):
        paper_moments(PopulationProblem(Truth([1.0], [[1.0]])), n_components=1, order=1)


@pytest.mark.parametrize(
    ("circuit", "code"),
    [
        (power(vector("x"), 3), "orders_differ"),
        ("x", "not_a_circuit"),
        (power(vector("x"), 2), "n_features_differ"),
        (power(vector("u"), 2), "input_missing"),
    ],
)
def test_a_users_own_problem_is_checked(circuit, code):
    with refuses(code):
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

    with refuses("lengths_differ"):
        paper_moments(Short(power(vector("x"), 2)), n_components=2, order=2, n_samples=10)


def test_something_else_than_a_problem():
    with refuses("not_a_problem"):
        paper_moments(X, n_components=2, order=2)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"variance": 0.0}, "not_positive"),
        ({"center": [0.0, 1.0]}, "wrong_shape"),
    ],
)
def test_mixture_options(options, code):
    with refuses(code):
        SphericalMixtureProblem(X, **options)


def test_bad_rows_are_named_by_their_number_in_the_whole():
    class Holed(Wrong):
        def draw(self, order, rows, rng):
            made = rng.normal(3)
            made[np.array(rows) == 45] = np.nan
            return {"x": made}

    problem = Holed(power(vector("x"), 2))
    with refuses("not_finite"):
        paper_moments(problem, n_components=2, order=2, n_samples=100, rows_per_block=10)


def test_weights_are_asked_for_once_an_order():
    asked = []

    def weight(order):
        asked.append(order)
        return np.ones(100)

    paper_moments(HermiteProblem(X, weight), n_components=2, order=2, rows_per_block=10)
    assert asked == [2, 4]


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda: HermiteProblem(X, np.ones(100)), "weight_not_callable"),
        (lambda: SphericalMixtureProblem(X, variance="1"), "not_a_number"),
        (lambda: ActivationSumProblem(X, X[:, 0], 3), "not_an_activation"),
    ],
)
def test_arguments_of_another_kind(build, code):
    with refuses(code):
        build()
