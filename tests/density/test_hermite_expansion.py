"""Expansions against their dense twins, exact moments and, by grade, the closed form."""

import math
from functools import reduce

import numpy as np
import pytest

from implicitmoments import density
from implicitmoments.datasets import Truth, make_spherical_mixture
from implicitmoments.density import Constant, JointExpansion, expand, expand_dense
from implicitmoments.moments import BalancedMoments, Frame, SymmetricChain, split_order
from implicitmoments.moments.mean_span import find_span
from implicitmoments.projections import hermite_dense
from implicitmoments.rows import Rows
from implicitmoments.testing import chain_of_powers

NOISE = np.diag([0.0, 1, 1])  # of (h, x): none in the constant


def exact_sum(truth, points, degree):
    terms = (truth.hermite(points, t) / math.sqrt(math.factorial(t)) for t in range(degree + 1))
    return sum(terms)


@pytest.mark.parametrize("degree", [2, 3, 4, 5, 6])
def test_where_nothing_is_left_out_it_is_the_dense_twin(degree, rng):
    X, _ = make_spherical_mixture(400, 3, 2, radius=1.0, random_state=0)
    k = math.comb(2 + (degree + 1) // 2, 2)  # room for all symmetric tensors over (h, x)
    rows = Rows.of(X)
    span = find_span(rows, k, 1.0)
    points = rng.normal(size=(50, 2))
    dense = expand_dense(span.coordinates(X), degree)
    compressed = expand(rows, span, k, degree)
    np.testing.assert_allclose(compressed(points), dense(points), rtol=1e-8, atol=1e-9)
    if degree > 2:  # order 2 has no room for more than the span
        fewer = expand(rows, span, 2, degree)
        assert not np.allclose(fewer(points), dense(points), rtol=1e-3)


@pytest.mark.parametrize("degree", [2, 3, 6, 9])
def test_exact_moments_give_the_exact_expansion(degree, rng):
    weights, means = np.array([0.5, 0.3, 0.2]), rng.normal(size=(3, 2))
    height, scale = math.sqrt(degree), 1.7
    frame = Frame(np.eye(2), np.zeros(2), scale=scale, height=height)
    hidden = np.column_stack([np.full(3, height), means]) / scale
    a, b = split_order(degree)
    chain = chain_of_powers(hidden, b, frame.noise)
    powers = SymmetricChain(chain.steps, 0 * frame.noise).images(hidden)
    form = (powers[a] * weights[:, None]).T @ powers[b]
    expansion = JointExpansion(degree, BalancedMoments(frame, chain, {(a, b): form}))
    points = rng.normal(size=(40, 2))
    expected = exact_sum(Truth(weights, means), points, degree)
    np.testing.assert_allclose(expansion(points), expected, rtol=1e-9, atol=1e-9)


def test_dense_tensors_are_those_of_the_lemma():
    """Lemma 4.17: T_t = M_t / √t!."""
    X, truth = make_spherical_mixture(200_000, 2, 2, radius=1.5, random_state=3)
    dense = expand_dense(X, 3)
    for t in (1, 2, 3):
        M = sum(
            w * reduce(np.multiply.outer, [v] * t)
            for w, v in zip(truth.weights, truth.vectors, strict=True)
        )
        # entries of He_t have a variance of a few t! at most: 6 standard errors
        margin = 6 * 4 * math.sqrt(math.factorial(t) / len(X))
        assert np.max(np.abs(dense.tensors[t] * math.sqrt(math.factorial(t)) - M)) < margin


def test_rows_that_count_twice_are_there_twice():
    X, _ = make_spherical_mixture(600, 3, 4, radius=1.0, random_state=0)
    counts = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    points = X[:20, :2]
    rows = Rows.of(X, counts=counts)
    span = find_span(rows, 3, 1.0)
    weighted = expand(rows, span, 3, 4)
    again = Rows.of(np.repeat(X, counts.astype(int), axis=0))
    other = find_span(again, 3, 1.0)
    repeated = expand(again, other, 3, 4)
    # coordinates are those of eigenvectors, whose sign is free
    signs = np.sign(np.sum(span.basis * other.basis, 1))
    np.testing.assert_allclose(weighted(points), repeated(points * signs), rtol=1e-8)


def test_the_paper_estimates_the_same():
    X, truth = make_spherical_mixture(60_000, 2, 3, radius=1.0, random_state=0)
    rows = Rows.of(X)
    span = find_span(rows, 2, 1.0)
    points = np.linspace(-2, 2, 9)[:, None]
    means = span.coordinates(truth.vectors)
    expected = exact_sum(Truth(truth.weights, means), points, 2)
    for method in ("closed_form", "paper"):
        found = expand(rows, span, 2, 2, method=method, n_draws=3_000)(points)
        assert np.max(np.abs(found - expected)) < 0.15
    assert np.max(np.abs(1.0 - expected)) > 0.3


def test_one_component_is_the_gaussian():
    X, _ = make_spherical_mixture(100, 1, 3, random_state=0)
    rows = Rows.of(X)
    expansion = expand(rows, find_span(rows, 1, None), 1, 6)
    assert expansion == Constant(6)
    np.testing.assert_array_equal(expansion(np.empty((4, 0))), np.ones(4))


@pytest.fixture
def hidden(rng):
    return np.column_stack([np.full(3, 0.7), rng.normal(size=(3, 2))])


def test_grades_add_up_to_the_closed_form(hidden, rng):
    chain = chain_of_powers(hidden, 3, NOISE)
    x = rng.normal(size=(20, 2))
    whole = chain.images(np.column_stack([np.full(20, 0.7), x]))
    for image, graded in zip(whole, density.graded_images(chain, x, 0.7), strict=True):
        np.testing.assert_allclose(graded.sum(axis=0), image, atol=1e-12)


@pytest.mark.parametrize(("a", "b"), [(0, 1), (1, 1), (1, 2), (2, 2), (2, 3)])
def test_answers_are_those_of_dense_tensors_by_grade(a, b, hidden, rng):
    weights = np.array([0.5, 0.3, -0.2])
    chain = chain_of_powers(hidden, b, NOISE)
    powers = SymmetricChain(chain.steps, 0 * chain.noise).images(hidden)
    form = (powers[a] * weights[:, None]).T @ powers[b]
    x = rng.normal(size=(30, 2))
    answers = density.graded_answers(chain, density.graded_images(chain, x, 1 / 0.7), a, b, form)
    for grade, answer in enumerate(answers):
        he = hermite_dense(x, grade).reshape(30, -1) * math.sqrt(math.factorial(grade))
        expected = np.zeros(30)
        for w, v in zip(weights, hidden, strict=True):
            power = np.ones(1)
            for _ in range(grade):
                power = np.multiply.outer(power, v[1:]).ravel()
            expected += w * he @ power
        np.testing.assert_allclose(answer, expected / math.factorial(grade), atol=1e-9)


@pytest.mark.parametrize("degree", [6, 13, 24, 40, 80])
def test_exact_moments_give_the_expansion_up_to_high_degrees(degree):
    # rows and weights of a Gauss rule have the moments of the mixture up to the degree
    weights, means = np.array([0.95, 0.05]), np.array([[-0.15], [2.85]])
    nodes, parts = np.polynomial.hermite_e.hermegauss(degree + 2)
    X = np.concatenate([nodes + mean for mean in means[:, 0]])[:, None]
    counts = np.concatenate([w * parts / parts.sum() for w in weights])
    rows = Rows.of(X).weighted(counts / counts.max())
    span = find_span(rows, 2, 1.0)
    expansion = expand(rows, span, 2, degree)
    x = np.linspace(-4, 4, 81)[:, None]
    exact = np.zeros(81)
    for weight, mean in zip(weights, means[:, 0], strict=True):
        before, term = np.zeros(81), np.ones(81)  # mean^t He_t(x)/t!
        for t in range(1, degree + 2):
            exact += weight * term
            before, term = term, (mean * x[:, 0] * term - mean**2 * before) / t
    found = expansion(x * span.basis[0, 0])
    np.testing.assert_allclose(found, exact, atol=1e-9 * np.abs(exact).max())
