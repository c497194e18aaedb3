import numpy as np
import pytest

from implicitmoments import implicit_moments
from implicitmoments.circuits import hermite, power, scalar, vector
from implicitmoments.datasets import Truth
from implicitmoments.moments import PaperMoments, Run
from implicitmoments.problems import PopulationProblem
from implicitmoments.projections import RecursiveProjection
from support import refuses

x, y, c = vector("x"), vector("y"), scalar("c")
TRUTH = Truth([0.4, 0.6], [[1.0, 0.5, 0.0], [0.0, -0.5, 1.0]])


@pytest.fixture(scope="module")
def moments():
    return implicit_moments(PopulationProblem(TRUTH), n_components=2, order=3, n_samples=2)


def test_auxiliary_draws_are_averaged_over(moments, rng):
    points = rng.normal(size=(3, 3))
    exact = TRUTH.hermite(points, 3)
    errors = [np.abs(moments.hermite(points, n_draws=n) - exact).max() for n in (25, 2_500)]
    assert errors[1] < 0.25  # three standard errors
    assert errors[1] < errors[0]


def test_auxiliary_draws_from_another_law(moments, rng):
    points = rng.normal(size=(4, 3))
    drawn = moments.inner(
        c * power(x, 3),
        {"x": points},
        auxiliary={"c": lambda rng: 2 + 0 * rng.normal()},
        n_draws=2,
    )
    np.testing.assert_allclose(drawn, 2 * TRUTH.power(points, 3), rtol=1e-10)


def test_queries_do_not_depend_on_their_neighbours(moments, rng):
    points = rng.normal(size=(5, 3))
    together = moments.hermite(points, n_draws=4, random_state=3)
    np.testing.assert_allclose(
        moments.hermite(points[:2], n_draws=4, random_state=3), together[:2], rtol=1e-12
    )
    assert np.any(moments.hermite(points, n_draws=4, random_state=4) != together)


def test_a_query_without_inputs_is_one_row(moments):
    answer = moments.inner(hermite(x, y, 3), {}, auxiliary=("x", "y"), n_draws=3)
    assert answer.shape == (1,)


@pytest.mark.parametrize("n_runs", [1, 2, 3, 4])
def test_answers_are_medians_over_runs(n_runs):
    coordinates = np.array([3.0, 1.0, 100.0, 2.0])[:n_runs]
    runs = tuple(
        Run(RecursiveProjection([np.array([[1.0, 0.0]])]), np.array([a]), (), None)
        for a in coordinates
    )
    problem = PopulationProblem(Truth([1.0], [[1.0, 0.0]]))
    answers = PaperMoments(problem, 1, 1, {"rows_per_step": 1}, None, runs).inner(
        x, {"x": np.array([[2.0, 5.0], [-1.0, 0.0]])}
    )
    np.testing.assert_allclose(answers, np.median(coordinates) * np.array([2.0, -1.0]))


@pytest.mark.parametrize(
    ("circuit", "inputs", "options", "code"),
    [
        (hermite(x, y, 3), {"x": np.ones((1, 3))}, {}, "input_missing"),
        (power(x, 3), {"x": np.ones((1, 3))}, {"auxiliary": ("q",)}, "auxiliary_unknown"),
        (
            power(x, 3),
            {"x": np.ones((1, 3))},
            {"auxiliary": ("x",)},
            "auxiliary_twice",
        ),
        (c * power(x, 3), {"x": np.ones((1, 3))}, {"auxiliary": ("c",)}, "auxiliary_scalar"),
        (power(x, 3), {"x": np.ones((1, 3))}, {"n_draws": 0}, "out_of_range"),
        (
            power(x, 2),
            {"x": np.ones((1, 3))},
            {},
            "order_not_estimated",
        ),
        (power(x, 3), {"x": np.ones((1, 4))}, {}, "n_features_differ"),
        (power(x, 3), {"x": [[1, 2, np.nan]]}, {}, "not_finite"),
    ],
)
def test_queries_that_do_not_fit(moments, circuit, inputs, options, code):
    with refuses(code):
        moments.inner(circuit, inputs, **options)


@pytest.mark.parametrize(
    ("arguments", "options", "code"),
    [
        (("x", {}), {}, "not_a_circuit"),
        ((power(x, 3), np.ones((1, 3))), {}, "inputs_not_a_mapping"),
        (
            (hermite(x, y, 3), {"x": np.ones((1, 3))}),
            {"auxiliary": "y"},
            "auxiliary_not_a_tuple",
        ),
    ],
)
def test_queries_of_another_kind(moments, arguments, options, code):
    with refuses(code):
        moments.inner(*arguments, **options)


def test_inputs_of_different_lengths_are_not_cut(moments):
    inputs = {"c": np.ones(2), "x": np.ones((5, 3))}
    with refuses("lengths_differ"):
        moments.inner(c * power(x, 3), inputs)


def test_other_orders_are_refused_with_what_to_do(moments):
    with refuses("order_not_estimated"):
        moments.hermite(np.ones((1, 3)), order=2)
