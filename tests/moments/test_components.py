"""Hidden vectors decoded from moments: exactly from exact ones, and honestly from noisy ones."""

import itertools
import math

import numpy as np
import pytest

from implicitmoments import datasets, implicit_moments
from implicitmoments.datasets import Truth
from implicitmoments.moments import (
    ActivationSumProblem,
    HermiteProblem,
    PairwiseDifferenceProblem,
    RegressionMixtureProblem,
    SphericalMixtureProblem,
    cosine,
)
from implicitmoments.moments.chain import Frame, SymmetricChain, SymmetricMatrices
from implicitmoments.moments.components import (
    decompose,
    refine,
    symmetrise,
    whitened_sixth,
)
from implicitmoments.moments.implicit import FramedRows
from implicitmoments.rows import Rows, Whitening
from support import dense_hermite, match_rows


def components_of(X, k):
    return implicit_moments(HermiteProblem(X), n_components=k, order=1).components()


def rows_about(truth, degree):
    """Gauss-Hermite nodes around each vector: a Gaussian mixture, exactly, up to a degree."""
    d = truth.vectors.shape[1]
    nodes, weights = np.polynomial.hermite_e.hermegauss(degree // 2 + 1)
    grid = np.array(list(itertools.product(nodes, repeat=d)))
    w = np.array([math.prod(c) for c in itertools.product(weights, repeat=d)])
    points = np.concatenate([v + grid for v in truth.vectors])
    return points, np.concatenate([w / w.sum() * share for share in truth.weights])


PLANE = Truth(
    [0.1, 0.3, 0.2, 0.25, 0.15], [[2.0, 0.5], [-1.0, 1.5], [0.3, -2.0], [0.0, 0.4], [-2.0, -1.2]]
)
CROSS = Truth([0.2] * 5, 2 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1], [0.0, 0.0]]))
LINE = Truth([0.02, 0.4, 0.58], [[3.0], [-1.0], [0.5]])
PAIR = Truth([0.3, 0.7], [[1.0, 0.4], [-0.5, 2.0]])


@pytest.mark.parametrize(
    "truth", [PLANE, CROSS, LINE, PAIR], ids=["k > d", "one at the origin", "one feature", "k = d"]
)
@pytest.mark.parametrize("uniform", [True, False], ids=["with a height", "plain"])
def test_exact_moments_give_exact_components(truth, uniform):
    k = len(truth.weights)
    if not uniform:  # squares in the plane, and no vector of length 0
        truth = Truth(PLANE.weights[:3] / 0.6, PLANE.vectors[:3])
        k = 3
    points, w = rows_about(truth, 12)
    problem = HermiteProblem(points, sample_weight=w)
    problem.uniform = uniform
    found = implicit_moments(problem, n_components=k, order=1).components()
    # the halves of these few rows are unlike, so that signs may be called unknown: turn those
    signs = itertools.product([1.0, -1.0], repeat=0 if uniform else k)
    turned = (found.guesses * np.array(chosen or [1.0])[:, None] for chosen in signs)
    assert min(match_rows(v, truth.vectors)[1].max() for v in turned) < 1e-6


SETTINGS = {
    "k < d": {"n_components": 5, "n_features": 20, "radius": 4.0},
    "k > d": {"n_components": 10, "n_features": 6, "radius": 4.0, "separation": 3.0},
    "20:1": {"n_components": 3, "n_features": 8, "radius": 4.0, "weights": [20, 20, 1]},
    "short and long": {
        "n_components": 5,
        "n_features": 8,
        "radius": (1.5, 5.0),
        "separation": 2.5,
    },
}


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
def test_mixtures_are_decoded_within_their_reported_errors(options):
    X, truth = datasets.make_spherical_mixture(60_000, random_state=0, **options)
    k = len(truth.weights)
    found = implicit_moments(SphericalMixtureProblem(X), n_components=k, order=1).components()
    assert found.identified, found
    rows, apart = match_rows(found.vectors, truth.vectors)
    assert apart.max() < 0.5
    assert 0.3 < np.median(apart / found.errors[rows]) < 2.5
    assert np.abs(found.weights[rows] - truth.weights).max() < 0.02


def test_one_component_is_the_mean(xp):
    X = np.random.default_rng(0).normal(size=(20_000, 8)) + 1.0
    problem = SphericalMixtureProblem(xp.asarray(X), center=[3.0] * 8)
    found = implicit_moments(problem, n_components=1, order=1).components()
    assert found.identified
    np.testing.assert_allclose(found.vectors[0], X.mean(0), rtol=1e-9)
    np.testing.assert_allclose(found.weights, 1.0)
    assert 0 < found.errors[0] < 5 * np.sqrt(8 / 20_000)


def test_arrays_of_other_libraries(xp):
    X, truth = datasets.make_spherical_mixture(
        20_000, 4, 3, radius=4.0, separation=3, random_state=0
    )
    found = components_of(xp.asarray(X), 4)
    assert match_rows(found.vectors, truth.vectors)[1].max() < 0.3
    np.testing.assert_allclose(found.guesses, components_of(X, 4).guesses, atol=1e-6)
    X, y, truth = datasets.make_regression_mixture(50_000, 2, 3, random_state=0)
    problem = RegressionMixtureProblem(xp.asarray(X), xp.asarray(y))
    found = implicit_moments(problem, n_components=2, order=1).components()
    assert match_rows(found.guesses, truth.vectors)[1].max() < 0.4


def test_components_do_not_depend_on_the_order_of_rows():
    X, _ = datasets.make_spherical_mixture(6_000, 4, 5, radius=4.0, separation=3, random_state=0)
    plain, turned = components_of(X, 4), components_of(X[::-1], 4)
    np.testing.assert_allclose(turned.vectors, plain.vectors, atol=1e-7)
    np.testing.assert_allclose(turned.errors, plain.errors, atol=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_as_many_components_as_features_less_one(seed):
    """The last direction of the covariance is noise then, and must not pass for an error."""
    X, truth = datasets.make_spherical_mixture(
        30_000, 9, 10, radius=5.0, separation=4.0, random_state=seed
    )
    found = components_of(X, 9)
    assert found.identified, found
    assert match_rows(found.vectors, truth.vectors)[1].max() < 0.5
    assert found.errors.max() < 0.5


def test_errors_fall_with_the_square_root_of_the_rows():
    errors = []
    for n in (10_000, 160_000):
        X, truth = datasets.make_spherical_mixture(
            n, 8, 6, radius=4.0, separation=3.0, random_state=0
        )
        errors.append(np.mean(match_rows(components_of(X, 8).guesses, truth.vectors)[1]))
    assert 2.5 < errors[0] / errors[1] < 6.5


class TestWhatIsNotResolved:
    def test_equal_vectors(self):
        X, truth = datasets.make_spherical_mixture(
            60_000, 6, 10, radius=4.0, separation=4.0, random_state=0
        )
        twice = truth.vectors.copy()
        twice[1] = twice[0]
        found = components_of(X + (twice - truth.vectors)[truth.labels], 6)
        assert not found.identified
        assert "components_unresolved" in found.notes.codes
        lost = ~found.resolved
        assert 1 <= lost.sum() <= 2
        assert np.all(np.isnan(found.vectors[lost]))
        assert np.all(np.isnan(found.weights[lost]))
        nearest = np.linalg.norm(found.vectors[~lost][:, None] - twice[None], axis=2).min(axis=1)
        assert nearest.max() < 0.5

    def test_too_few_rows(self):
        X, _ = datasets.make_spherical_mixture(
            300, 12, 20, radius=3.0, separation=2.0, random_state=0
        )
        found = components_of(X, 12)
        assert found.resolved.sum() < 6
        assert "components_unresolved" in found.notes.codes

    def test_nothing_but_noise(self):
        """Noise is a mixture of one component at its centre, and no more can be told."""
        found = components_of(np.random.default_rng(0).normal(size=(20_000, 8)), 3)
        assert found.resolved.sum() <= 1
        assert np.all(np.abs(found.vectors[found.resolved]) < 0.1)

    def test_more_components_than_were_asked_for(self):
        X, _ = datasets.make_spherical_mixture(
            60_000, 12, 10, radius=4.0, separation=4.0, random_state=0
        )
        assert "more_components_likely" in components_of(X, 10).notes.codes
        assert "more_components_likely" not in components_of(X, 12).notes.codes

    def test_weights_that_sum_to_more_than_there_is(self):
        X, y, _ = datasets.make_regression_mixture(4_000, 3, 5, random_state=2)
        problem = RegressionMixtureProblem(X, y)
        found = implicit_moments(problem, n_components=3, order=1).components()
        assert np.nansum(found.weights) < 1.3

    def test_more_components_than_dimensions(self):
        found = components_of(np.random.default_rng(0).normal(size=(500, 1)), 9)
        assert not found.resolved.any()
        assert found.gap == 0.0
        assert found.notes.codes == ["components_unresolved"]
        assert found.notes[0].values["room"] < len(found.weights)

    def test_more_vectors_on_a_line_than_their_squares_can_hold(self):
        rng = np.random.default_rng(0)
        for k in (3, 5):
            means = np.outer(4.0 * np.arange(k), [0.6, 0.0, 0.8])
            X = means[rng.integers(k, size=40_000)] + rng.normal(size=(40_000, 3))
            found = components_of(X, k)
            assert found.identified == (k == 3)
            assert ("components_unresolved" in found.notes.codes) == (k == 5)


def test_regressors_come_back_in_the_users_coordinates():
    X, y, truth = datasets.make_regression_mixture(200_000, 3, 6, noise=0.2, random_state=0)
    mixing = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0] * [0.5, 1, 1, 1.5, 2, 3]
    moved = X @ mixing + 5.0
    whitening = Whitening.of(Rows.of(moved))
    for problem, vectors in (
        (RegressionMixtureProblem(X, y), truth.vectors),
        (
            RegressionMixtureProblem(moved, y, whitening=whitening),
            truth.vectors @ np.linalg.inv(mixing).T,
        ),
    ):
        found = implicit_moments(problem, n_components=3, order=1).components()
        assert found.identified, found
        assert match_rows(found.vectors, vectors)[1].max() < 0.35
    # not whitened the same data give something else: the negative control
    wrong = RegressionMixtureProblem(moved, y)
    found = implicit_moments(wrong, n_components=3, order=1).components()
    assert not found.identified or match_rows(found.vectors, vectors)[1].max() > 0.35


def test_means_come_back_in_the_users_coordinates():
    X, truth = datasets.make_spherical_mixture(40_000, 3, 5, radius=4.0, random_state=0)
    problem = SphericalMixtureProblem(7 + 0.5 * X, variance=0.25, center=[6.0] * 5)
    found = implicit_moments(problem, n_components=3, order=1).components()
    assert match_rows(found.vectors, 7 + 0.5 * truth.vectors)[1].max() < 0.15
    assert match_rows(found.vectors, truth.vectors)[1].max() > 1


def test_pairwise_differences_have_a_zero_and_opposite_pairs():
    X, truth = datasets.make_spherical_mixture(200_000, 2, 3, radius=4.0, random_state=0)
    found = implicit_moments(PairwiseDifferenceProblem(X), n_components=3, order=1).components()
    apart = (truth.vectors[0] - truth.vectors[1]) / math.sqrt(2)
    assert match_rows(found.vectors, np.array([0 * apart, apart, -apart]))[1].max() < 0.1


@pytest.mark.parametrize(
    ("activation", "unsigned"),
    [("relu", []), (cosine(1.0, 0.7), []), ("cos", [0, 1, 2, 3])],
    ids=["first order", "third order", "even"],
)
def test_odd_orders_tell_the_side_of_directions(activation, unsigned):
    X, y, truth = datasets.make_activation_sum(
        100_000, 4, 8, activation=activation, random_state=0
    )
    problem = ActivationSumProblem(X, y, activation)
    found = implicit_moments(problem, n_components=4, order=2).components()
    assert found.identified, found
    assert ("directions_not_identified" in found.notes.codes) == bool(unsigned)
    assert all(note.values["which"] == unsigned for note in found.notes)
    apart = [match_rows(side * found.vectors, truth.vectors)[1].max() for side in (1, -1)]
    if not unsigned:
        assert min(apart) == apart[0] < 0.3
    else:
        cosines = np.abs(found.vectors @ truth.vectors.T).max(axis=1)
        assert cosines.min() > 0.9


def weights(order):
    return np.random.default_rng(order).normal(size=9)


@pytest.mark.parametrize("height", [None, 1.5], ids=["plain", "with a constant"])
@pytest.mark.parametrize("weighted", [False, True], ids=["ones", "signed"])
def test_the_whitened_sixth_moment_equals_explicit_tensors(weighted, height, rng):
    X = rng.normal(size=(9, 2))
    own = (lambda order, rows: weights(order)[rows["y"].astype(int)]) if weighted else None
    problem = HermiteProblem(X, own, y=np.arange(9.0))
    basis = np.eye(2) if height is None else np.eye(3)[:, 1:]
    frame = Frame(basis, np.zeros(2), 1.3, height)
    window = SymmetricMatrices.over(SymmetricChain.whole_of(frame))
    points, p = frame.points(X), frame.p
    W, c = rng.normal(size=(window.dim(2), 3)), weights(6) if weighted else np.ones(9)
    A = W.T @ window.steps[1]
    dense = np.tensordot(c, dense_hermite(points, 6, frame.noise), 1) / 9
    expected = np.einsum("abc,xa,yb,zc->xyz", dense.reshape([p**2] * 3), A, A, A)
    rows = FramedRows(problem, frame)
    fourth = rows.positive_moment(window)
    found = whitened_sixth(rows, window, window.keep(W.T), fourth).value
    np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("k", [1, 2, 7, 40])
def test_orthogonal_components_are_found_from_any_start(k):
    rng = np.random.default_rng(k)
    U = np.linalg.qr(rng.normal(size=(k, k)))[0]
    values = rng.uniform(1, 8, size=k)
    T = np.einsum("i,ai,bi,ci->abc", values, U, U, U)
    vectors, found = decompose(T, seed=1)
    order = np.argmax(np.abs(vectors.T @ U), axis=1)
    assert sorted(order) == list(range(k))
    np.testing.assert_allclose(np.abs(found), values[order], rtol=1e-8)
    noisy = symmetrise(T + 0.01 * rng.normal(size=T.shape))
    assert np.abs(np.abs(refine(noisy, vectors)[1]) - np.abs(found)).max() < 0.2
