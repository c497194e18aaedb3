"""The closed form as a whole: exact where nothing is cut off, and at ease with awkward data."""

import math

import numpy as np
import pytest

from implicitmoments import AssumptionWarning, HermiteProblem, datasets, implicit_moments
from implicitmoments.circuits import hermite, vector
from implicitmoments.datasets import Truth
from implicitmoments.moments import SplitMean, noise_floor
from implicitmoments.problems import (
    ActivationSumProblem,
    PopulationProblem,
    RegressionMixtureProblem,
    SphericalMixtureProblem,
    cosine,
    relu,
)
from implicitmoments.projections import hermite_dense
from support import refuses

x, y = vector("x"), vector("y")


def explicit(X, weight, queries, order):
    """⟨H_n(x), mean of c_n He_n⟩ with every tensor written down."""
    root = math.sqrt(math.factorial(order))
    moment = np.tensordot(weight(order), hermite_dense(X, order) * root, 1) / len(X)
    return hermite_dense(queries, order).reshape(len(queries), -1) @ moment.ravel()


def weights(order):
    """Weights of both signs, other ones at every order."""
    return np.random.default_rng(order).normal(size=200)


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("weight", [weights, None], ids=["signed", "ones"])
def test_nothing_cut_off_nothing_lost(balanced, weight, rng):
    """With room for every direction the answers are those of the explicit tensors."""
    X, queries = rng.normal(size=(200, 2)), rng.normal(size=(7, 2))
    order = 8 if balanced else 4
    m = implicit_moments(
        HermiteProblem(X, weight),
        n_components=40,
        order=order,
        drop_noise=False,
        balanced=balanced,
    )
    for n in range(order + 1):
        expected = explicit(X, weight or (lambda _: np.ones(200)), queries, n)
        np.testing.assert_allclose(m.hermite(queries, n), expected, rtol=1e-10, atol=1e-10)


def test_circuits_are_answered_like_hermite_tensors(rng):
    X, _ = datasets.make_spherical_mixture(2_000, 3, 4, random_state=0)
    m = implicit_moments(HermiteProblem(X), n_components=3, order=5)
    queries = rng.normal(size=(5, 4))
    # order 1 has no auxiliary input, and a power of a vector has none at any order
    np.testing.assert_allclose(m.inner(hermite(x, y, 1), {"x": queries}), m.hermite(queries, 1))
    nodes, node_weights = np.polynomial.hermite_e.hermegauss(4)
    grid = np.stack(np.meshgrid(*[nodes] * 4, indexing="ij"), -1).reshape(-1, 4)
    w = math.prod(np.meshgrid(*[node_weights] * 4, indexing="ij")).ravel() / (2 * math.pi) ** 2
    for order in (2, 3, 4, 5):
        point = np.repeat(queries[:1], len(grid), axis=0)
        drawn = m.inner(hermite(x, y, order), {"x": point, "y": grid})
        np.testing.assert_allclose(w @ drawn, m.hermite(queries[:1], order)[0], rtol=1e-9)


def test_no_randomness_and_no_block_size_and_no_order_of_rows():
    X, labels, _ = datasets.make_regression_mixture(3_001, 3, 4, random_state=0)
    shuffled = np.random.default_rng(0).permutation(3_001)
    queries = X[:20]

    def answers(order_of_rows, **options):
        problem = RegressionMixtureProblem(X[order_of_rows], labels[order_of_rows])
        m = implicit_moments(problem, n_components=3, order=4, **options)
        return np.append(m.hermite(queries), m.noise_floor)

    plain = answers(np.arange(3_001))
    np.testing.assert_array_equal(plain, answers(np.arange(3_001), random_state=7))
    scale = np.abs(plain).max()
    for rows, options in ((np.arange(3_001), {"rows_per_block": 17}), (shuffled, {})):
        np.testing.assert_allclose(answers(rows, **options), plain, atol=1e-9 * scale)


def test_arrays_stay_in_their_library_and_precision(xp):
    X, labels, _ = datasets.make_activation_sum(2_000, 2, 3, random_state=0)
    plain = implicit_moments(ActivationSumProblem(X, labels, relu()), n_components=2, order=4)
    problem = ActivationSumProblem(xp.asarray(X), xp.asarray(labels), relu())
    there = implicit_moments(problem, n_components=2, order=4)
    answer = there.hermite(xp.asarray(X[:9]))
    assert type(answer) is type(xp.ones(1))
    np.testing.assert_allclose(np.asarray(answer), plain.hermite(X[:9]), rtol=1e-8)
    single = ActivationSumProblem(X.astype(np.float32), labels.astype(np.float32), relu())
    short = implicit_moments(single, n_components=2, order=4).hermite(X[:9].astype(np.float32))
    assert short.dtype == np.float32
    np.testing.assert_allclose(short, plain.hermite(X[:9]), rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("sampling", ["reuse", "cross_fit", "fresh"])
def test_ways_to_share_the_rows(sampling):
    X, truth = datasets.make_spherical_mixture(60_000, 3, 5, random_state=0)
    m = implicit_moments(HermiteProblem(X), n_components=3, order=4, sampling=sampling)
    queries = np.random.default_rng(0).normal(size=(300, 5))
    exact = truth.hermite(queries, 4)
    error = np.sqrt(np.mean((m.hermite(queries) - exact) ** 2) / np.mean(exact**2))
    assert error < 0.15
    parts = [[step.rows for step in fold.steps] for fold in m.folds]
    expected = {
        "reuse": [[(0, 1), (0, 1)]],
        "cross_fit": [[(0, 2), (0, 2)], [(1, 2), (1, 2)]],
        "fresh": [[(0, 3), (1, 3)]],
    }
    assert parts == expected[sampling]
    assert m.stats["sampling"] == sampling


@pytest.mark.parametrize("sampling", ["reuse", "cross_fit", "fresh"])
def test_rows_in_the_order_of_their_components(sampling):
    """Halves and parts depend on the values in rows: sorted and interleaved rows are no worse."""
    X, truth = datasets.make_spherical_mixture(20_000, 2, 6, radius=3.0, random_state=0)
    queries = np.random.default_rng(0).normal(size=(200, 6))
    sort = np.argsort(truth.labels, kind="stable")
    half = min(np.bincount(truth.labels))
    interleaved = np.stack([sort[:half], sort[-half:]], axis=1).ravel()

    def run(rows):
        m = implicit_moments(HermiteProblem(X[rows]), n_components=2, order=4, sampling=sampling)
        return m.hermite(queries), m.stats["relative_errors"][4]

    plain, error = run(np.arange(20_000))
    answers, same = run(sort)
    np.testing.assert_allclose(answers, plain, atol=1e-9 * np.abs(plain).max())
    assert same == pytest.approx(error, rel=1e-6)
    answers, mixed = run(interleaved)
    assert np.abs(answers - plain).max() < 0.2 * np.abs(plain).max()
    assert mixed < 0.3


def test_whitened_rows_keep_their_halves_on_any_block_size():
    X, y, _ = datasets.make_regression_mixture(3_000, 2, 20, random_state=0)
    mixed = X @ np.random.default_rng(0).normal(size=(20, 20)) + 3.0
    floors = [
        implicit_moments(
            RegressionMixtureProblem(rows, y, whiten=True),
            n_components=2,
            order=2,
            rows_per_block=size,
        ).noise_floor
        for rows, size in ((mixed, None), (mixed, 1), (mixed, 77), (np.asfortranarray(mixed), 500))
    ]
    for floor in floors[1:]:
        np.testing.assert_allclose(floor, floors[0], rtol=1e-6)


def test_a_negative_eigenvalue_is_a_witness_of_noise():
    """Erratum 8, in the closed form."""
    vectors = np.eye(3)
    quiet = SplitMean((np.zeros((3, 3)), np.zeros((3, 3))), (1, 1))
    spectrum = np.array([5.0, 1.0, -2.0])
    assert noise_floor(quiet, spectrum, vectors, 1, exact=True) == 2.0
    assert noise_floor(quiet, spectrum, vectors, 1, exact=False) == 0.0
    assert noise_floor(quiet, spectrum, vectors, 3, exact=True) == 2.0
    loud = SplitMean((np.diag([9.0, 4.0, 6.0]), np.diag([1.0, 0.0, 0.0])), (1, 1))
    assert noise_floor(loud, spectrum, vectors, 1, exact=True) == 3.0


@pytest.mark.parametrize(
    "labels",
    [np.zeros(400), np.ones(400), np.tile([1.0, -1.0], 200)],
    ids=["zero", "constant", "two values"],
)
def test_labels_that_say_nothing(labels):
    X = np.random.default_rng(0).normal(size=(400, 3))
    m = implicit_moments(RegressionMixtureProblem(X, labels), n_components=2, order=4)
    assert np.all(np.isfinite(m.hermite(X)))
    assert not m.components().identified


def test_weights_of_one_sign():
    X, _ = datasets.make_spherical_mixture(40_000, 2, 4, random_state=0)
    queries = np.random.default_rng(0).normal(size=(200, 4))
    plain = implicit_moments(HermiteProblem(X), n_components=2, order=4)
    ones = implicit_moments(HermiteProblem(X, lambda _: np.ones(40_000)), n_components=2, order=4)
    np.testing.assert_allclose(ones.hermite(queries), plain.hermite(queries), rtol=1e-9)
    minus = HermiteProblem(X, lambda _: -np.ones(40_000))
    with pytest.warns(AssumptionWarning):
        none = implicit_moments(minus, n_components=2, order=4)
    assert "negative_eigenvalue" in none.notes.codes
    assert np.all(none.hermite(queries) == 0)
    same = implicit_moments(minus, n_components=2, order=4, subspace="singular")
    difference = np.sqrt(np.mean((same.hermite(queries) + plain.hermite(queries)) ** 2))
    assert difference < 0.05 * np.sqrt(np.mean(plain.hermite(queries) ** 2))


class Holed(HermiteProblem):
    def __init__(self, X, made):
        super().__init__(X)
        self.made = made

    def weigh(self, order, block, rows):
        return self.made(rows)


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (
            lambda rows: np.where(np.array(rows) == 70, np.nan, 1.0),
            "not_finite",
        ),
        (lambda rows: np.ones(1), "wrong_shape"),
    ],
)
def test_weights_of_a_users_own_model_are_checked(made, code):
    X = np.random.default_rng(0).normal(size=(100, 3))
    with refuses(code):
        implicit_moments(Holed(X, made), n_components=2, order=2, rows_per_block=40)


def test_the_floor_tells_signal_from_noise():
    X, _ = datasets.make_spherical_mixture(40_000, 3, 10, radius=3.0, random_state=0)
    m = implicit_moments(HermiteProblem(X), n_components=8, order=4)
    first, second = m.steps
    assert (first.rank, first.dropped) == (3, 5)
    assert second.rank <= 4
    assert m.stats["dropped"] == [first.dropped, second.dropped]
    noise = np.random.default_rng(0).normal(size=(40_000, 10))
    silent = implicit_moments(HermiteProblem(noise), n_components=3, order=4)
    assert sum(step.rank for step in silent.steps) <= 2
    assert silent.steps[0].gap < 1.5 < first.spectrum[2] / first.floor


AWKWARD = {
    "k > d": {"n_components": 8, "n_features": 3, "separation": 1.0},
    "weights 20:1": {"n_components": 3, "n_features": 6, "weights": [20, 10, 1]},
    "short ones": {"n_components": 3, "n_features": 5, "radius": (0.0, 2.0)},
    "one feature": {"n_components": 3, "n_features": 1},
}


@pytest.mark.parametrize("options", AWKWARD.values(), ids=AWKWARD)
def test_awkward_mixtures(options):
    errors = []
    for n in (4_000, 256_000):
        X, truth = datasets.make_spherical_mixture(n, random_state=1, **options)
        k, d = truth.vectors.shape
        m = implicit_moments(HermiteProblem(X), n_components=k, order=4)
        queries = np.random.default_rng(0).normal(size=(300, d))
        exact = truth.hermite(queries, 4)
        errors.append(np.sqrt(np.mean((m.hermite(queries) - exact) ** 2) / np.mean(exact**2)))
    assert errors[1] < 0.1
    assert errors[1] < errors[0] / 2


def test_a_component_at_the_origin():
    truth = Truth([0.5, 0.3, 0.2], [[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, -2.0, 1.0]])
    rng = np.random.default_rng(0)
    X = truth.vectors[rng.choice(3, p=truth.weights, size=100_000)] + rng.normal(size=(100_000, 3))
    m = implicit_moments(HermiteProblem(X), n_components=3, order=6)
    queries = rng.normal(size=(300, 3))
    for order, bound in ((2, 0.03), (4, 0.06), (6, 0.25)):
        exact = truth.hermite(queries, order)
        error = np.sqrt(np.mean((m.hermite(queries, order) - exact) ** 2) / np.mean(exact**2))
        assert error < bound


def test_fewer_rows_than_coordinates():
    """A step of 78 coordinates from 40 rows: finite, and what it cannot know it drops."""
    X, truth = datasets.make_spherical_mixture(40, 4, 12, radius=4.0, random_state=0)
    m = implicit_moments(HermiteProblem(X), n_components=12, order=4)
    assert m.steps[1].spectrum.shape[0] == 78
    assert m.steps[1].dropped > 0
    assert np.all(np.isfinite(m.hermite(X)))
    along = truth.hermite(truth.vectors, 2)
    assert np.corrcoef(m.hermite(truth.vectors, 2), along)[0, 1] > 0.5


def test_lower_orders_taken_out_of_the_weights_leave_less_noise():
    X, labels, truth = datasets.make_activation_sum(20_000, 3, 6, random_state=0)
    queries = np.random.default_rng(0).normal(size=(300, 6))
    exact = truth.hermite(queries, 4)

    def error(reduce_weights):
        problem = ActivationSumProblem(X, labels, relu())
        m = implicit_moments(problem, n_components=3, order=4, reduce_weights=reduce_weights)
        return np.sqrt(np.mean((m.hermite(queries) - exact) ** 2) / np.mean(exact**2))

    assert error(True) < 0.6 * error(False)


def test_orthogonal_weights_leave_less_noise_than_powers():
    X, labels, truth = datasets.make_regression_mixture(50_000, 3, 5, random_state=0)
    queries = np.random.default_rng(0).normal(size=(300, 5))
    exact = truth.hermite(queries, 4)

    def error(weights):
        problem = RegressionMixtureProblem(X, labels, weights=weights)
        m = implicit_moments(problem, n_components=3, order=4)
        return np.sqrt(np.mean((m.hermite(queries) - exact) ** 2) / np.mean(exact**2))

    assert error("orthogonal") < 0.7 * error("monomial")


def test_orders_without_data_are_said():
    X, labels, _ = datasets.make_activation_sum(2_000, 2, 3, random_state=0)
    m = implicit_moments(ActivationSumProblem(X, labels, relu()), n_components=2, order=4)
    with refuses("order_without_data"):
        m.hermite(X, 3)
    with refuses("order_not_estimated"):
        m.hermite(X, 6)
    with refuses("n_features_differ"):
        m.hermite(X[:, :2])


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"sampling": "some"}, "unknown_option"),
        ({"n_repeats": 3}, "option_of_other_method"),
        ({"n_samples": 101}, "too_few_rows"),
        ({"n_samples": 3, "sampling": "fresh"}, "too_few_rows"),
        ({"n_components": 101}, "too_few_rows"),
        ({"order": 81}, "out_of_range"),
        (
            {"method": "paper", "balanced": False},
            "option_of_other_method",
        ),
    ],
)
def test_options_that_do_not_fit(options, code):
    X = np.random.default_rng(0).normal(size=(100, 3))
    with refuses(code):
        implicit_moments(HermiteProblem(X), **{"n_components": 2, "order": 2, **options})


def test_lengths_beyond_what_numbers_hold():
    X = 1e120 * np.random.default_rng(0).normal(size=(100, 3))
    with refuses("lengths_out_of_range"):
        implicit_moments(HermiteProblem(X), n_components=2, order=4)


def test_orders_that_labels_say_nothing_about_are_refused():
    X, labels, _ = datasets.make_activation_sum(500, 2, 3, random_state=0)
    with refuses("order_without_data"):
        implicit_moments(ActivationSumProblem(X, labels, relu()), n_components=2, order=3)
    odd = ActivationSumProblem(X, labels, cosine(1.0, math.pi / 2))
    assert [odd.has_order(n) for n in range(4)] == [False, True, False, True]


def test_the_closed_form_is_for_hermite_problems():
    problem = PopulationProblem(Truth([1.0], [[1.0]]))
    with refuses("not_a_hermite_problem"):
        implicit_moments(problem, n_components=1, order=1, method="closed_form")
    assert (
        implicit_moments(problem, n_components=1, order=1, n_samples=1).stats["method"] == "paper"
    )


def test_rows_made_by_a_function_are_the_same_in_every_pass():
    truth = Truth([0.5, 0.5], [[2.0, 0.0, 0.0], [-1.0, 1.0, 0.0]])

    def rows_of_a_mixture(rows, rng):
        return truth.vectors[rng.categorical(truth.weights)] + rng.normal(3)

    problem = SphericalMixtureProblem(rows_of_a_mixture)
    with refuses("n_samples_missing"):
        implicit_moments(problem, n_components=2, order=4)
    options = {"n_components": 2, "order": 4, "n_samples": 20_000, "random_state": 3}
    m = implicit_moments(problem, **options)
    again = implicit_moments(problem, **options, rows_per_block=999)
    queries = np.random.default_rng(0).normal(size=(50, 3))
    np.testing.assert_allclose(m.hermite(queries), again.hermite(queries), rtol=1e-8)
    exact = truth.hermite(queries, 4)
    assert np.sqrt(np.mean((m.hermite(queries) - exact) ** 2) / np.mean(exact**2)) < 0.15
