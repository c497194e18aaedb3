"""Hidden vectors read off moments: exactly from exact ones, and honestly from noisy ones."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from implicitmoments import AssumptionWarning, HermiteProblem, datasets, implicit_moments
from implicitmoments.datasets import Truth
from implicitmoments.moments.components import resolve_components
from implicitmoments.moments.decode import decode
from implicitmoments.moments.decoding_frame import choose_frame
from implicitmoments.problems import (
    ActivationSumProblem,
    PairwiseDifferenceProblem,
    RegressionMixtureProblem,
    SphericalMixtureProblem,
    cosine,
    relu,
)
from support import match_rows, refuses


def exact_problem(truth, degree):
    """Gauss-Hermite nodes around each vector: a Gaussian mixture, exactly, up to a degree."""
    d = truth.vectors.shape[1]
    nodes, weights = np.polynomial.hermite_e.hermegauss(degree // 2 + 1)
    grid = np.array(list(itertools.product(nodes, repeat=d)))
    w = np.array([math.prod(c) for c in itertools.product(weights, repeat=d)])
    w = w / w.sum()
    points = np.concatenate([v + grid for v in truth.vectors])
    c = np.concatenate([w * share for share in truth.weights]) * len(points)
    problem = HermiteProblem(points, lambda _: c)
    problem.uniform = True
    return problem


PLANE = Truth(
    [0.1, 0.3, 0.2, 0.25, 0.15], [[2.0, 0.5], [-1.0, 1.5], [0.3, -2.0], [0.0, 0.4], [-2.0, -1.2]]
)


CROSS = Truth([0.2] * 5, 2 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1], [0.0, 0.0]]))
PAIR = Truth([0.3, 0.7], [[1.0, 0.4], [-0.5, 2.0]])
LINE = Truth([0.02, 0.4, 0.58], [[3.0], [-1.0], [0.5]])
FEW = Truth(PLANE.weights[:3], PLANE.vectors[:3])


@pytest.mark.parametrize(
    ("truth", "r", "homogeneous"),
    [
        (PAIR, 1, False),
        (FEW, 2, False),
        (Truth(PLANE.weights[:4], PLANE.vectors[:4]), 3, False),
        (PAIR, 1, True),
        (PLANE, 2, True),
        (PLANE, 3, True),
        (CROSS, 2, True),
        (LINE, 2, True),
    ],
    ids=[
        "order 1",
        "order 2, k > d",
        "order 3, k > d",
        "order 1 with a height",
        "k > d",
        "order 3",
        "one at the origin",
        "one feature, 29:1",
    ],
)
def test_exact_moments_give_exact_components(truth, r, homogeneous):
    problem = exact_problem(truth, 3 * r * 2)
    problem.uniform = homogeneous
    k = len(truth.weights)
    found = implicit_moments(problem, n_components=k, order=1).components(r=r)
    # the halves of these few rows are unlike, so that signs may be called unknown: turn those
    known = found.decoded.signs_known
    signs = itertools.product([1.0, -1.0], repeat=int(np.sum(~known)))
    turned = []
    for chosen in signs:
        side = np.ones(k)
        side[~known] = chosen
        turned.append(found.guesses * side[:, None])
    best = min(turned, key=lambda v: match_rows(v, truth.vectors)[1].max())
    rows, apart = match_rows(best, truth.vectors)
    assert apart.max() < 1e-6
    np.testing.assert_allclose(found.decoded.weights[rows], truth.weights, atol=1e-5)
    assert found.r == r


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
    ratio = apart / found.errors[rows]
    assert 0.3 < np.median(ratio) < 2.5
    assert np.abs(found.weights[rows] - truth.weights).max() < 0.02


def test_one_component_is_the_mean(xp):
    X = np.random.default_rng(0).normal(size=(20_000, 8)) + 1.0
    problem = SphericalMixtureProblem(xp.asarray(X), center=[3.0] * 8)
    found = implicit_moments(problem, n_components=1, order=1).components()
    assert found.identified
    np.testing.assert_allclose(found.vectors[0], X.mean(0), rtol=1e-9)
    np.testing.assert_allclose(found.weights, 1.0)
    assert found.errors[0] < 5 * np.sqrt(8 / 20_000)


def test_arrays_of_other_libraries(xp):
    X, truth = datasets.make_spherical_mixture(
        20_000, 4, 3, radius=4.0, separation=3, random_state=0
    )
    plain = implicit_moments(HermiteProblem(X), n_components=4, order=1)
    there = implicit_moments(HermiteProblem(xp.asarray(X)), n_components=4, order=1)
    for r in (2, 3):
        found = there.components(r=r)
        assert match_rows(found.vectors, truth.vectors)[1].max() < 0.3
        np.testing.assert_allclose(found.guesses, plain.components(r=r).guesses, atol=1e-6)
    X, y, truth = datasets.make_regression_mixture(50_000, 2, 3, random_state=0)
    problem = RegressionMixtureProblem(xp.asarray(X), xp.asarray(y))
    found = implicit_moments(problem, n_components=2, order=1).components()
    assert match_rows(found.guesses, truth.vectors)[1].max() < 0.4


def test_components_do_not_depend_on_the_order_of_rows_nor_on_the_method():
    X, _ = datasets.make_spherical_mixture(6_000, 4, 5, radius=4.0, separation=3, random_state=0)
    plain = implicit_moments(HermiteProblem(X), n_components=4, order=1).components()
    turned = implicit_moments(HermiteProblem(X[::-1]), n_components=4, order=1).components()
    np.testing.assert_allclose(turned.vectors, plain.vectors, atol=1e-7)
    np.testing.assert_allclose(turned.errors, plain.errors, atol=1e-7)
    paper = implicit_moments(HermiteProblem(X), n_components=4, order=1, method="paper")
    np.testing.assert_allclose(paper.components().vectors, plain.vectors, atol=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_as_many_components_as_features_less_one(seed):
    """The last direction of the covariance is noise then, and must not pass for an error."""
    X, truth = datasets.make_spherical_mixture(
        30_000, 9, 10, radius=5.0, separation=4.0, random_state=seed
    )
    found = implicit_moments(HermiteProblem(X), n_components=9, order=1).components()
    assert found.identified, found
    assert match_rows(found.vectors, truth.vectors)[1].max() < 0.5
    assert found.errors.max() < 0.5


def test_errors_fall_with_the_square_root_of_the_rows():
    errors = []
    for n in (10_000, 160_000):
        X, truth = datasets.make_spherical_mixture(
            n, 8, 6, radius=4.0, separation=3.0, random_state=0
        )
        found = implicit_moments(HermiteProblem(X), n_components=8, order=1).components()
        errors.append(np.mean(match_rows(found.guesses, truth.vectors)[1]))
    assert 2.5 < errors[0] / errors[1] < 6.5


def test_order_three_where_order_two_has_no_room():
    X, truth = datasets.make_spherical_mixture(
        200_000, 12, 3, radius=4.0, separation=1.5, random_state=0
    )
    found = implicit_moments(HermiteProblem(X), n_components=12, order=1).components()
    assert found.r == 3
    assert match_rows(found.vectors, truth.vectors)[1].max() < 0.3


def test_order_one_where_it_is_asked_for():
    X, truth = datasets.make_spherical_mixture(40_000, 3, 10, radius=3.0, random_state=0)
    found = implicit_moments(HermiteProblem(X), n_components=3, order=1).components(r=1)
    assert found.r == 1
    assert match_rows(found.vectors, truth.vectors)[1].max() < 0.3


AT_THE_FLOOR = {"directions_at_noise_floor", "directions_near_noise_floor"}


class TestWhatCannotBeToldApart:
    def found(self, X, k, **options):
        return implicit_moments(HermiteProblem(X), n_components=k, order=1).components(**options)

    def test_equal_vectors(self):
        X, truth = datasets.make_spherical_mixture(
            60_000, 6, 10, radius=4.0, separation=4.0, random_state=0
        )
        twice = truth.vectors.copy()
        twice[1] = twice[0]
        X = X + (twice - truth.vectors)[truth.labels]
        found = self.found(X, 6)
        assert not found.identified
        assert {"directions_at_noise_floor", "directions_near_noise_floor"} & set(
            found.notes.codes
        )
        lost = ~found.resolved
        assert 1 <= lost.sum() <= 2
        assert np.all(np.isnan(found.vectors[lost]))
        assert np.all(np.isnan(found.weights[lost]))
        kept = found.vectors[found.resolved]
        nearest = np.linalg.norm(kept[:, None] - twice[None], axis=2).min(axis=1)
        assert nearest.max() < 0.5

    def test_too_few_rows(self):
        X, _ = datasets.make_spherical_mixture(
            300, 12, 20, radius=3.0, separation=2.0, random_state=0
        )
        found = self.found(X, 12)
        assert found.resolved.sum() < 6
        assert {"directions_at_noise_floor", "directions_near_noise_floor"} & set(
            found.notes.codes
        )

    def test_nothing_but_noise(self):
        """Noise is a mixture of one component at its centre, and no more can be told."""
        found = self.found(np.random.default_rng(0).normal(size=(20_000, 8)), 3)
        assert found.resolved.sum() <= 1
        assert np.all(np.abs(found.vectors[found.resolved]) < 0.1)

    def test_more_components_than_were_asked_for(self):
        X, _ = datasets.make_spherical_mixture(
            60_000, 12, 10, radius=4.0, separation=4.0, random_state=0
        )
        assert "more_components_likely" in self.found(X, 10).notes.codes
        assert "more_components_likely" not in self.found(X, 12).notes.codes

    def test_a_noise_of_another_variance(self):
        X, _ = datasets.make_spherical_mixture(5_000, 3, 6, radius=4.0, random_state=0)
        with refuses("variance_too_small"), pytest.warns(AssumptionWarning):
            self.found(0.5 * X, 3)

    def test_weights_that_sum_to_more_than_there_is(self):
        X, y, _ = datasets.make_regression_mixture(4_000, 3, 5, random_state=2)
        problem = RegressionMixtureProblem(X, y)
        found = implicit_moments(problem, n_components=3, order=1).components(r=3)
        assert not found.identified
        assert np.all(np.isnan(found.weights[~found.resolved]))

    def test_a_component_below_the_floor(self):
        """Made by hand: its own part of the moment is below the noise."""
        X, _ = datasets.make_spherical_mixture(5_000, 3, 4, radius=4.0, random_state=0)
        view = implicit_moments(HermiteProblem(X), n_components=3, order=1).view
        standard = choose_frame(view, 3)
        decoded = decode(view, 3, 2, standard)
        low = replace(decoded, strengths=decoded.strengths * [1.0, 1e-9, 1.0])
        found = resolve_components(low, view, standard)
        assert list(found.resolved) == [True, False, True]
        assert next(n.values for n in found.notes if n.code == "components_faint") == {
            "which": [1]
        }
        heavy = resolve_components(replace(decoded, weights=decoded.weights * 3), view, standard)
        assert not heavy.resolved.any()
        assert "weights_exceed_total" in heavy.notes.codes
        torn = resolve_components(replace(low, spread=0.1), view, standard)
        assert "decompositions_differ" in torn.notes.codes

    def test_more_components_than_dimensions(self):
        X = np.random.default_rng(0).normal(size=(500, 1))
        found = self.found(X, 9)
        assert found.decoded is None
        assert found.gap == 0.0
        (note,) = found.notes
        assert note.code == "too_many_components_to_decode"
        assert dict(zip(note.values["r"], note.values["capacities"], strict=True))[3] == 4

    @pytest.mark.parametrize(
        ("options", "code"),
        [
            ({"r": 4}, "out_of_range"),
            ({"n_components": 0}, "out_of_range"),
            ({"n_components": 600}, "too_few_rows"),
        ],
    )
    def test_bad_requests(self, options, code):
        X = np.random.default_rng(0).normal(size=(500, 2))
        with refuses(code):
            implicit_moments(HermiteProblem(X), n_components=2, order=1).components(**options)

    def test_one_row_has_no_noise_to_compare_with(self):
        X = np.ones((1, 2))
        with refuses("too_few_rows"):
            implicit_moments(
                HermiteProblem(X), n_components=1, order=1, method="paper", n_samples=1
            )


def test_regressors_come_back_in_the_users_coordinates():
    X, y, truth = datasets.make_regression_mixture(200_000, 3, 6, noise=0.2, random_state=0)
    mixing = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0] * [0.5, 1, 1, 1.5, 2, 3]
    plain = RegressionMixtureProblem(X, y)
    moved = RegressionMixtureProblem(X @ mixing + 5.0, y, whiten=True)
    for problem, vectors in (
        (plain, truth.vectors),
        (moved, truth.vectors @ np.linalg.inv(mixing).T),
    ):
        found = implicit_moments(problem, n_components=3, order=1).components()
        assert found.identified, found
        assert match_rows(found.vectors, vectors)[1].max() < 0.35
    # not whitened the same data give something else: the negative control
    wrong = RegressionMixtureProblem(X @ mixing + 5.0, y)
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


class TestSigns:
    def found(self, activation, n=100_000, k=4):
        X, y, truth = datasets.make_activation_sum(n, k, 8, activation=activation, random_state=0)
        problem = ActivationSumProblem(X, y, activation)
        return implicit_moments(problem, n_components=k, order=2).components(), truth

    @pytest.mark.parametrize("activation", [relu(), cosine(1.0, 0.7)], ids=["relu", "cosine"])
    def test_odd_orders_tell_the_side(self, activation):
        found, truth = self.found(activation)
        assert found.identified, found
        assert found.decoded.signs_known.all()
        assert match_rows(found.vectors, truth.vectors)[1].max() < 0.35

    def test_even_orders_alone_do_not(self):
        found, truth = self.found(cosine(1.0))
        assert not found.decoded.signs_known.any()
        assert "components_unsigned" in found.notes.codes
        both = np.concatenate([truth.vectors, -truth.vectors])
        nearest = np.linalg.norm(found.vectors[:, None] - both[None], axis=2).min(axis=1)
        assert nearest.max() < 0.35
