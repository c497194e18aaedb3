"""Moments of all orders: exact where nothing is cut off, and at ease with awkward data."""

import math

import numpy as np
import pytest

from implicitmoments import AssumptionWarning, datasets, implicit_moments, paper
from implicitmoments.datasets import Truth
from implicitmoments.moments import (
    ActivationSumProblem,
    HermiteProblem,
    RegressionMixtureProblem,
    SphericalMixtureProblem,
    cosine,
)
from implicitmoments.moments.chain import (
    SplitMean,
    largest_noise,
    leading_subspace,
)
from implicitmoments.paper.projections import hermite_dense
from implicitmoments.rows import Rows, Whitening
from support import refuses

x, y = paper.vector("x"), paper.vector("y")


def relative_error(moments, truth, order, d):
    queries = np.random.default_rng(0).normal(size=(300, d))
    exact = truth.hermite(queries, order)
    return np.sqrt(np.mean((moments.hermite(queries, order) - exact) ** 2) / np.mean(exact**2))


def signed(order, rows):
    """Weights of both signs, other ones at every order."""
    return np.sin((3 + order) * rows["x"] @ np.ones(2))


@pytest.mark.parametrize("weight", [signed, None], ids=["signed", "ones"])
def test_nothing_cut_off_nothing_lost(weight, rng):
    """With room for every direction the answers are those of the explicit tensors."""
    X, queries = rng.normal(size=(200, 2)), rng.normal(size=(7, 2))
    m = implicit_moments(
        HermiteProblem(X, weight), n_components=40, order=8, drop_noise=False, subspace="singular"
    )
    for n in range(9):
        c = np.ones(200) if weight is None else weight(n, {"x": X})
        moment = np.tensordot(c, hermite_dense(X, n), 1) * math.sqrt(math.factorial(n)) / 200
        expected = hermite_dense(queries, n).reshape(7, -1) @ moment.ravel()
        np.testing.assert_allclose(m.hermite(queries, n), expected, rtol=1e-10, atol=1e-10)


def test_circuits_are_answered_like_hermite_tensors(rng):
    X, _ = datasets.make_spherical_mixture(2_000, 3, 4, random_state=0)
    m = implicit_moments(HermiteProblem(X), n_components=3, order=5)
    queries = rng.normal(size=(5, 4))
    # order 1 has no auxiliary input; others are averaged over the nodes of an exact rule
    answer = m.inner(paper.hermite(x, y, 1), {"x": queries})
    np.testing.assert_allclose(answer, m.hermite(queries, 1))
    nodes, node_weights = np.polynomial.hermite_e.hermegauss(4)
    grid = np.stack(np.meshgrid(*[nodes] * 4, indexing="ij"), -1).reshape(-1, 4)
    w = math.prod(np.meshgrid(*[node_weights] * 4, indexing="ij")).ravel() / (2 * math.pi) ** 2
    for order in (2, 3, 4, 5):
        drawn = m.inner(paper.hermite(x, y, order), {"x": queries[:, None], "y": grid})
        np.testing.assert_allclose(drawn @ w, m.hermite(queries, order), rtol=1e-8, atol=1e-10)


def test_moments_of_low_rank_are_answered_exactly(rng):
    """Powers of the vectors, from nodes of an exact rule about each of them."""
    truth = Truth([0.5, 0.3, 0.2], [[1.0, 0.5], [-0.5, 1.0], [0.2, -1.2]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(6)
    grid = np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2)
    w = np.outer(weights, weights).ravel()
    points = np.concatenate([v + grid for v in truth.vectors])
    problem = HermiteProblem(points, sample_weight=np.outer(truth.weights, w).ravel())
    m = implicit_moments(problem, n_components=3, order=4, drop_noise=False)
    queries = rng.normal(size=(6, 2))
    for order in (1, 2, 3, 4):
        answers = m.inner(paper.power(x, order), {"x": queries})
        np.testing.assert_allclose(answers, truth.power(queries, order), atol=1e-10)


def test_no_randomness_and_no_block_size_and_no_order_of_rows():
    X, labels, _ = datasets.make_regression_mixture(3_001, 3, 4, random_state=0)
    shuffled = np.random.default_rng(0).permutation(3_001)

    def answers(order, **options):
        rows = Rows.of(X[order], y=labels[order])
        rows = Rows(rows.table, **options)
        m = implicit_moments(RegressionMixtureProblem(rows, None), n_components=3, order=4)
        return np.append(m.hermite(X[:20]), [step.floor for step in m.steps])

    plain = answers(np.arange(3_001))
    np.testing.assert_array_equal(plain, answers(np.arange(3_001)))
    scale = np.abs(plain).max()
    for rows, options in ((np.arange(3_001), {"rows_per_block": 17}), (shuffled, {})):
        np.testing.assert_allclose(answers(rows, **options), plain, atol=1e-9 * scale)


def test_arrays_stay_in_their_library_and_precision(xp):
    X, labels, _ = datasets.make_activation_sum(2_000, 2, 3, random_state=0)
    plain = implicit_moments(ActivationSumProblem(X, labels, "relu"), n_components=2, order=4)
    problem = ActivationSumProblem(xp.asarray(X), xp.asarray(labels), "relu")
    there = implicit_moments(problem, n_components=2, order=4)
    answer = there.hermite(xp.asarray(X[:9]))
    assert type(answer) is type(xp.ones(1))
    np.testing.assert_allclose(np.asarray(answer), plain.hermite(X[:9]), rtol=1e-8)
    single = ActivationSumProblem(X.astype(np.float32), labels.astype(np.float32), "relu")
    short = implicit_moments(single, n_components=2, order=4).hermite(X[:9].astype(np.float32))
    assert short.dtype == np.float32
    np.testing.assert_allclose(short, plain.hermite(X[:9]), rtol=2e-3, atol=1e-4)


def test_whitened_regressors_are_those_of_standard_points():
    X, labels, _ = datasets.make_regression_mixture(60_000, 2, 4, random_state=0)
    mixed = X @ np.random.default_rng(0).normal(size=(4, 4)) + 3.0
    whitening = Whitening.of(Rows.of(mixed))
    moments = [
        implicit_moments(RegressionMixtureProblem(rows, labels, **kw), n_components=2, order=2)
        for rows, kw in ((X, {}), (mixed, {"whitening": whitening}))
    ]
    np.testing.assert_allclose(
        moments[0].steps[0].spectrum[:2], moments[1].steps[0].spectrum[:2], rtol=0.05
    )


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


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (lambda t, rows: np.where(rows["x"][:, 0] > 2, np.nan, 1.0), "not_finite"),
        (lambda t, rows: np.ones(1), "wrong_shape"),
    ],
)
def test_weights_of_a_users_own_model_are_checked(made, code):
    X = np.random.default_rng(0).normal(size=(100, 3))
    with refuses(code):
        implicit_moments(HermiteProblem(X, made), n_components=2, order=2)


def test_the_floor_tells_signal_from_noise():
    X, _ = datasets.make_spherical_mixture(40_000, 3, 10, radius=3.0, random_state=0)
    first, second = implicit_moments(HermiteProblem(X), n_components=8, order=4).steps
    assert first.rank == 3
    assert second.rank <= 4
    noise = np.random.default_rng(0).normal(size=(40_000, 10))
    silent = implicit_moments(HermiteProblem(noise), n_components=3, order=4)
    assert sum(step.rank for step in silent.steps) <= 2
    gaps = [step.spectrum[2] / step.floor for step in (silent.steps[0], first)]
    assert gaps[0] < 1.5 < gaps[1]


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
        errors.append(relative_error(m, truth, 4, d))
    assert errors[1] < 0.1
    assert errors[1] < errors[0] / 2


def test_a_component_at_the_origin():
    truth = Truth([0.5, 0.3, 0.2], [[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, -2.0, 1.0]])
    rng = np.random.default_rng(0)
    X = truth.vectors[rng.choice(3, p=truth.weights, size=100_000)] + rng.normal(size=(100_000, 3))
    m = implicit_moments(HermiteProblem(X), n_components=3, order=6)
    for order, bound in ((2, 0.03), (4, 0.06), (6, 0.25)):
        assert relative_error(m, truth, order, 3) < bound


def test_fewer_rows_than_coordinates():
    """A step of 78 coordinates from 40 rows: finite, and what it cannot know it drops."""
    X, truth = datasets.make_spherical_mixture(40, 4, 12, radius=4.0, random_state=0)
    m = implicit_moments(HermiteProblem(X), n_components=12, order=4)
    assert m.steps[1].spectrum.shape[0] == 78
    assert m.steps[1].rank < 12
    assert np.all(np.isfinite(m.hermite(X)))
    along = truth.hermite(truth.vectors, 2)
    assert np.corrcoef(m.hermite(truth.vectors, 2), along)[0, 1] > 0.5


def test_one_row_and_equal_rows_are_all_noise():
    m = implicit_moments(HermiteProblem(np.ones((50, 2))), n_components=2, order=4)
    assert [step.rank for step in m.steps] == [0, 0]
    assert np.all(m.hermite(np.eye(2)) == 0)


def test_lower_orders_taken_out_of_the_weights_leave_less_noise():
    X, labels, truth = datasets.make_activation_sum(20_000, 3, 6, random_state=0)
    errors = []
    for reduces in (True, False):
        problem = ActivationSumProblem(X, labels, "relu")
        problem.reduces = reduces
        m = implicit_moments(problem, n_components=3, order=4)
        errors.append(relative_error(m, truth, 4, 6))
    assert errors[0] < 0.6 * errors[1]


def test_orthogonal_weights_leave_less_noise_than_powers():
    X, labels, truth = datasets.make_regression_mixture(50_000, 3, 5, random_state=0)
    powers = HermiteProblem(X, lambda t, rows: rows["y"] ** t / math.factorial(t), y=labels)
    errors = [
        relative_error(implicit_moments(problem, n_components=3, order=4), truth, 4, 5)
        for problem in (RegressionMixtureProblem(X, labels), powers)
    ]
    assert errors[0] < 0.7 * errors[1]


def test_odd_activations_have_odd_moments():
    sine = cosine(1.0, math.pi / 2)
    X, labels, truth = datasets.make_activation_sum(200_000, 3, 3, activation=sine, random_state=0)
    problem = ActivationSumProblem(X, labels, sine)
    m = implicit_moments(problem, n_components=3, order=3)
    assert m.orders == [1, 3]
    assert relative_error(m, truth, 3, 3) < 0.2
    with refuses("order_without_data"):
        m.components()
    with refuses("order_without_data"):
        implicit_moments(problem, n_components=3, order=2)


@pytest.fixture(scope="module")
def m():
    X, labels, _ = datasets.make_activation_sum(500, 2, 3, random_state=0)
    return implicit_moments(ActivationSumProblem(X, labels, "relu"), n_components=2, order=4)


class TestRequests:
    @pytest.mark.parametrize("order", [3, 6])
    def test_orders_that_were_not_estimated(self, m, order):
        with refuses("order_not_estimated", order=order):
            m.hermite(np.zeros((2, 3)), order)
        with refuses("order_not_estimated"):
            m.inner(paper.power(x, order), {"x": np.zeros((2, 3))})

    def test_points_of_other_features(self, m):
        with refuses("wrong_n_features"):
            m.hermite(np.zeros((2, 2)))
        with refuses("not_finite"):
            m.hermite(np.full((2, 3), np.nan))

    @pytest.mark.parametrize(
        ("options", "code"),
        [
            ({"n_components": 101}, "too_few_rows"),
            ({"n_components": 0}, "invalid_parameter"),
            ({"order": 81}, "invalid_parameter"),
            ({"order": 2.0}, "invalid_parameter"),
            ({"subspace": "largest"}, "invalid_parameter"),
        ],
    )
    def test_options_that_do_not_fit(self, options, code):
        X = np.random.default_rng(0).normal(size=(100, 3))
        with refuses(code):
            implicit_moments(HermiteProblem(X), **{"n_components": 2, "order": 2, **options})

    def test_other_problems_are_for_the_paper(self):
        problem = paper.Problem(2, lambda t: paper.power(x, t), lambda t, n, rng: {})
        with refuses("not_a_problem"):
            implicit_moments(problem, n_components=1, order=1)

    def test_lengths_beyond_what_numbers_hold(self):
        X = 1e60 * np.random.default_rng(0).normal(size=(100, 3))
        with refuses("lengths_out_of_range"):
            implicit_moments(HermiteProblem(X), n_components=2, order=4)


V = np.array([[1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.6, 0.8, 0.0, 0.0]])


def difference(n, seed, signs):
    """A signed sum of ReLUs on rows from N(0, I)."""
    X = np.random.default_rng(seed).normal(size=(n, 5))
    return ActivationSumProblem(X, np.maximum(X @ V.T, 0) @ signs, "relu")


class TestSignedWeights:
    @pytest.mark.parametrize("signs", [(1.0, -1.0), (0.6, -0.28), (-1.0, -0.5)])
    def test_they_are_said_and_need_the_singular_subspace(self, signs):
        problem = difference(60_000, 11, signs)
        with pytest.warns(AssumptionWarning):
            lost = implicit_moments(problem, n_components=2, order=4)
        assert "negative_eigenvalue" in lost.notes.codes
        values = lost.notes[0].values
        assert values["order"] == 2
        assert values["below"] == pytest.approx(min(signs), abs=0.1)
        found = implicit_moments(problem, n_components=2, order=4, subspace="singular")
        assert found.notes.codes == []
        assert [step.rank for step in found.steps] == [2, 2]
        queries = np.random.default_rng(0).normal(size=(300, 5))
        for order, bound in ((2, 0.05), (4, 0.2)):
            series = np.eye(order + 1)[order] / math.sqrt(math.factorial(order))
            exact = np.polynomial.hermite_e.hermeval(queries @ V.T, series) @ signs
            apart = np.mean((found.hermite(queries, order) - exact) ** 2)
            assert np.sqrt(apart / np.mean(exact**2)) < bound
            assert np.mean((lost.hermite(queries, order) - exact) ** 2) > 2 * apart

    def test_a_light_negative_unit_is_said(self):
        """Weights .6, −.28 and .3: the eigenvalue −.28 is far beyond the noise."""
        rng = np.random.default_rng(0)
        X, basis = rng.normal(size=(200_000, 5)), np.linalg.qr(rng.normal(size=(5, 3)))[0]
        problem = ActivationSumProblem(X, np.maximum(X @ basis, 0) @ [0.6, -0.28, 0.3], "relu")
        with pytest.warns(AssumptionWarning):
            m = implicit_moments(problem, n_components=3, order=4)
        assert m.notes[0].values["below"] == pytest.approx(-0.28, abs=0.03)

    @pytest.mark.parametrize("subspace", ["positive", "singular"])
    def test_positive_weights_are_learned_by_both_without_a_note(self, subspace):
        problem = difference(40_000, 13, (1.0, 1.0))
        m = implicit_moments(problem, n_components=2, order=4, subspace=subspace)
        assert m.notes.codes == []
        assert relative_error(m, Truth([1.0, 1.0], V), 4, 5) < 0.15

    def test_noise_alone_gives_no_note(self):
        """Eigenvalues of pure noise have both signs, and no half of the rows confirms them."""
        for seed in range(10):
            rng = np.random.default_rng(seed)
            X, labels = rng.normal(size=(2_000, 5)), rng.normal(size=2_000)
            m = implicit_moments(ActivationSumProblem(X, labels, "relu"), n_components=2, order=4)
            assert m.notes.codes == []

    @pytest.mark.parametrize("p", [2, 3, 5])
    def test_the_largest_noise_is_rarely_exceeded_by_noise(self, p, rng):
        raw = rng.normal(size=(2, 4_000, p, p))
        first, second = raw + raw.transpose(0, 1, 3, 2)
        pairs = zip(first, second, strict=True)
        bounds = [largest_noise(SplitMean(pair, (1, 1))) for pair in pairs]
        sizes = np.abs(np.linalg.eigvalsh((first + second) / 2)).max(axis=1)
        assert np.sum(sizes > bounds) <= 4  # 0.4 expected at most

    def test_a_negative_eigenvalue_within_the_noise_is_its_floor(self):
        """Erratum 8: with positive weights it is a witness of noise."""
        noise = np.diag([3.0, 2.0, 4.0])
        halves = (np.diag([5.0, 1.0, -2.0]) + noise, np.diag([5.0, 1.0, -2.0]) - noise)
        top = leading_subspace(SplitMean(halves, (1, 1)), 2, 1)[1]
        np.testing.assert_allclose(top.spectrum, [5.0, 1.0, -2.0])
        assert (top.floor, top.negative) == (4.0, 0.0)
        quiet = SplitMean((halves[0] - noise, halves[1] + noise), (1, 1))
        found = leading_subspace(quiet, 2, 1)[1]
        assert (found.floor, found.negative) == (0.0, -2.0)
        magnitudes = leading_subspace(quiet, 2, 2, "singular")[1]
        np.testing.assert_allclose(magnitudes.spectrum, [5.0, -2.0, 1.0])


def test_rows_of_another_variance_are_said():
    """Points that vary less than the noise that is taken out have a negative second moment."""
    X, _ = datasets.make_spherical_mixture(5_000, 3, 6, radius=4.0, random_state=0)
    with pytest.warns(AssumptionWarning):
        m = implicit_moments(SphericalMixtureProblem(0.5 * X), n_components=3, order=2)
    assert m.notes.codes == ["negative_eigenvalue"]
