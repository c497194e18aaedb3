"""Each problem's weighted Hermite moment has the hidden vectors it claims."""

import math

import numpy as np
import pytest

from implicitmoments import datasets, implicit_moments
from implicitmoments.moments import (
    ActivationSumProblem,
    HermiteProblem,
    PairwiseDifferenceProblem,
    RegressionMixtureProblem,
    SphericalMixtureProblem,
)
from implicitmoments.moments.problems import orthogonal_polynomial
from implicitmoments.paper.projections import hermite_dense
from implicitmoments.rows import ArrayTable, Whitening
from support import refuses

N = 50_000


def second_moment(problem):
    """E[c_2 He_2(x)] and its standard error, by the problem's own points and weights."""
    block = problem.rows.hold().block
    problem.prepare([2])
    weights = problem.weigh(2, block)
    weights = np.ones(problem.rows.n) if weights is None else weights
    terms = weights[:, None, None] * hermite_dense(block["x"], 2) * math.sqrt(2)
    return terms.mean(0), terms.std(0) / math.sqrt(problem.rows.n)


def cases():
    X, mixture = datasets.make_spherical_mixture(N, 3, 4, weights=[1, 2, 3], random_state=0)
    yield "mixture", SphericalMixtureProblem(X), mixture
    yield "pairs", PairwiseDifferenceProblem(X), mixture.differences()
    X, y, truth = datasets.make_regression_mixture(N, 3, 4, weights=[1, 2, 3], random_state=0)
    yield "regressions", RegressionMixtureProblem(X, y), truth
    powers = HermiteProblem(X, lambda t, rows: rows["y"] ** t / math.factorial(t), y=y)
    yield "powers of labels", powers, truth
    X, y, truth = datasets.make_activation_sum(N, 3, 4, noise=0.1, random_state=0)
    yield "activations", ActivationSumProblem(X, y, "relu"), truth


CASES = list(cases())


@pytest.mark.parametrize(("name", "problem", "truth"), CASES, ids=[c[0] for c in CASES])
def test_second_moment_is_that_of_the_truth(name, problem, truth):
    mean, standard_error = second_moment(problem)
    expected = (truth.vectors * truth.weights[:, None]).T @ truth.vectors
    assert np.all(np.abs(mean - expected) < 5 * standard_error)
    # negative control: a moment twice as large fails the same test
    assert np.any(np.abs(mean - 2 * expected) > 5 * standard_error)


def test_mixtures_are_measured_from_their_centre_in_units_of_their_noise():
    X, truth = datasets.make_spherical_mixture(1_000, 2, 3, random_state=0)
    plain, mix = SphericalMixtureProblem(X), np.random.default_rng(0).normal(size=(3, 3))
    moved = SphericalMixtureProblem(5 + 3 * X, variance=9.0, center=[5.0, 5.0, 5.0])
    turned = SphericalMixtureProblem(X @ mix, variance=mix.T @ mix)
    np.testing.assert_allclose(second_moment(moved)[0], second_moment(plain)[0])
    np.testing.assert_allclose(
        np.linalg.eigvalsh(second_moment(turned)[0]), np.linalg.eigvalsh(second_moment(plain)[0])
    )
    np.testing.assert_allclose(moved.original_vectors(truth.vectors), 5 + 3 * truth.vectors)


def test_differences_count_as_often_as_both_of_their_rows(rng):
    X = rng.normal(size=(41, 3))
    counts = 1.0 + (X[:, 0] > 0) + 2 * (X[:, 0] > 1)
    ones = PairwiseDifferenceProblem(X)
    problem = PairwiseDifferenceProblem(X, sample_weight=counts)
    found = problem.rows.hold().block
    np.testing.assert_array_equal(found["x"], ones.rows.points)
    assert set(found["counts"]) <= {a * b for a in (1, 2, 4) for b in (1, 2, 4)}
    pairs = (X[:, None] - X[None]) / math.sqrt(2)
    for difference, count in zip(found["x"], found["counts"], strict=True):
        apart = np.abs(pairs - difference).max(axis=2)
        i, j = np.unravel_index(np.argmin(apart), apart.shape)
        assert apart[i, j] < 1e-12
        assert count == counts[i] * counts[j]


def test_gaussian_moments_give_hermite_polynomials():
    powers = np.array([math.prod(range(n - 1, 0, -2)) if n % 2 == 0 else 0.0 for n in range(18)])
    for degree in range(9):
        expected = np.polynomial.hermite_e.herme2poly(np.eye(degree + 1)[degree])
        found = orthogonal_polynomial(powers, degree)
        np.testing.assert_allclose(found, expected[:-1], atol=1e-6 * np.abs(expected).max())


def test_polynomials_are_orthogonal_under_the_law_of_the_sample(rng):
    y = rng.gamma(3.0, size=4_000) - 2.0
    powers = np.array([np.mean(y**n) for n in range(12)])
    P = np.array([np.polyval([1, *orthogonal_polynomial(powers, n)[::-1]], y) for n in range(6)])
    P /= np.sqrt(np.mean(P**2, axis=1, keepdims=True))
    np.testing.assert_allclose(P @ P.T / len(y), np.eye(6), atol=1e-5)


def test_a_law_of_few_points_has_polynomials_too():
    found = orthogonal_polynomial(np.tile([1.0, 0.0], 6), 5)
    values = np.polyval([1, *found[::-1]], np.array([1.0, -1.0]))
    np.testing.assert_allclose(values, 0, atol=1e-9)


def test_weights_of_regressions_are_powers_plus_lower_powers():
    X, y, _ = datasets.make_regression_mixture(3_000, 2, 3, random_state=0)
    problem = RegressionMixtureProblem(X, 100 * y)
    block = problem.rows.hold().block
    for order in (1, 2, 3, 5):
        weight = problem.weigh(order, block) * math.factorial(order)
        fitted = np.polynomial.Polynomial.fit(block["y"], weight, order).convert()
        assert fitted.coef[-1] == pytest.approx(1.0, rel=1e-6)


class TestWhitening:
    def test_points_become_standard_and_vectors_come_back(self, rng):
        X = rng.normal(size=(5_000, 3)) @ rng.normal(size=(3, 3)) + [1.0, -5.0, 100.0]
        whitening = Whitening.of(ArrayTable(X))
        made = whitening.apply(X)
        np.testing.assert_allclose(made.mean(0), 0, atol=1e-9)
        np.testing.assert_allclose(made.T @ made / len(X), np.eye(3), atol=1e-8)
        v = rng.normal(size=(2, 3))
        back = whitening.original(v)
        np.testing.assert_allclose(made @ v.T, (X - X.mean(0)) @ back.T, atol=1e-8)

    def test_points_far_from_the_origin_lose_no_digits(self, rng):
        X = rng.normal(size=(1_000, 3))
        near, far = Whitening.of(ArrayTable(X)), Whitening.of(ArrayTable(X + 1e8))
        np.testing.assert_allclose(far.root, near.root, atol=1e-6)

    def test_collinear_columns_are_named(self, rng):
        X = rng.normal(size=(100, 3))
        X[:, 2] = 4.0
        with refuses("columns_collinear", column="x2"):
            Whitening.of(ArrayTable(X))
        with refuses("columns_collinear", column="x0"):
            Whitening.of(ArrayTable(X[:1]))


COUNTS = np.random.default_rng(3).integers(0, 4, 6_000)


def weighted(name, repeat):
    """A problem with rows repeated, or with weights for ``repeat=None``."""
    kw = {"sample_weight": COUNTS} if repeat is None else {}
    repeat = np.ones(6_000, dtype=int) if repeat is None else repeat
    if name == "mixture":
        X, _ = datasets.make_spherical_mixture(6_000, 3, 4, radius=4.0, random_state=0)
        return SphericalMixtureProblem(np.repeat(X, repeat, axis=0), **kw)
    make = {"activation": datasets.make_activation_sum}.get(name, datasets.make_regression_mixture)
    X, y, _ = make(6_000, 3, 4, random_state=0)
    X, y = np.repeat(X, repeat, axis=0), np.repeat(y, repeat)
    if name == "activation":
        return ActivationSumProblem(X, y, "relu", **kw)
    return RegressionMixtureProblem(X, y, **kw)


@pytest.mark.parametrize("name", ["mixture", "regression", "activation"])
def test_weights_are_repetitions(name):
    one = implicit_moments(weighted(name, None), n_components=3, order=4)
    two = implicit_moments(weighted(name, COUNTS), n_components=3, order=4)
    for a, b in zip(one.steps, two.steps, strict=True):
        np.testing.assert_allclose(a.spectrum, b.spectrum, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(a.floor, b.floor, rtol=1e-7)
    X = np.random.default_rng(1).standard_normal((5, 4))
    np.testing.assert_allclose(one.hermite(X), two.hermite(X), rtol=1e-8)
    a, b = one.components(), two.components()
    np.testing.assert_allclose(a.guesses, b.guesses, rtol=1e-6)
    np.testing.assert_allclose(a.errors, b.errors, rtol=1e-5)
    # the control: weights are not ignored, and only their ratios matter
    plain = implicit_moments(weighted(name, np.ones(6_000, int)), n_components=3, order=2)
    assert not np.allclose(plain.steps[0].spectrum, one.steps[0].spectrum, rtol=1e-4)


def test_only_ratios_of_weights_matter():
    X, _ = datasets.make_spherical_mixture(6_000, 2, 3, radius=2.0, random_state=0)
    counts = np.where(X[:, 0] > 0, 3.0, 1.0)
    problems = [HermiteProblem(X, sample_weight=scale * counts) for scale in (1.0, 7.0)]
    one, seven = (implicit_moments(p, n_components=2, order=2).steps[0] for p in problems)
    np.testing.assert_allclose(one.spectrum, seven.spectrum, rtol=1e-10)


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda X: HermiteProblem(X, sample_weight=-np.ones(50)), "weights_invalid"),
        (lambda X: HermiteProblem(X, sample_weight=np.ones(49)), "weights_invalid"),
        (lambda X: HermiteProblem([["a"]]), "not_numeric"),
        (lambda X: SphericalMixtureProblem(X, center=[1.0]), "wrong_shape"),
        (lambda X: SphericalMixtureProblem(X, variance=-1.0), "invalid_parameter"),
        (lambda X: RegressionMixtureProblem(X, np.ones(3)), "wrong_length"),
        (lambda X: ActivationSumProblem(X, np.ones(50), "swish"), "unknown_activation"),
    ],
)
def test_what_is_no_problem(build, code):
    with refuses(code):
        build(np.zeros((50, 2)))
