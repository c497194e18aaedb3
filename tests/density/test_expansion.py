"""Expansions against their dense twins, exact moments and, by grade, the closed form."""

import math
from dataclasses import replace
from functools import reduce
from itertools import product

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss, hermeval

from implicitmoments.datasets import (
    make_regression_mixture,
    make_spherical_mixture,
)
from implicitmoments.density import (
    GradedMoments,
    JointExpansion,
    expand_labels,
    expand_means,
    graded_answers,
    graded_images,
)
from implicitmoments.moments.chain import SymmetricChain, split_order
from implicitmoments.moments.problems import find_span
from implicitmoments.paper.projections import hermite_dense
from implicitmoments.rows import Rows
from support import chain_of_powers

NOISE = np.diag([0.0, 1, 1])  # of (h, x): none in the constant


def he_dense(x, order):
    """Return He_t of rows as a matrix (n, p^t)."""
    return hermite_dense(x, order).reshape(len(x), -1) * math.sqrt(math.factorial(order))


def expand_dense(x, degree):
    """The dense twin: mean tensors of He_t(x) / t!, for t up to a degree (Lemma 4.17)."""
    return [he_dense(x, t).mean(axis=0) / math.factorial(t) for t in range(degree + 1)]


def expand_labels_dense(x, z, degree):
    """The same for regressions: entries with fewer slots of z than of x are 0."""
    tensors, width = expand_dense(np.column_stack([x, z]), degree), x.shape[1] + 1
    for n, tensor in enumerate(tensors):
        for i, slots in enumerate(product(range(width), repeat=n)):
            if 2 * slots.count(width - 1) < n:
                tensor[i] = 0.0
    return tensors


def evaluate_dense(tensors, x):
    return sum(he_dense(x, t) @ tensor for t, tensor in enumerate(tensors))


def on_span(rows, k, variance=1.0):
    span = find_span(rows, k, variance)
    return span, rows.mapped(span.center, span.basis.T / span.sigma)


def expand(rows, k, degree, variance=1.0):
    span, inside = on_span(rows, k, variance)
    return expand_means(inside, k, degree, span.squared_radius)


@pytest.mark.parametrize("degree", [2, 3, 4, 5, 6])
def test_where_nothing_is_left_out_means_are_the_dense_twin(degree, rng):
    X, _ = make_spherical_mixture(400, 3, 2, radius=1.0, random_state=0)
    k = math.comb(2 + (degree + 1) // 2, 2)  # room for all symmetric tensors over (h, x)
    span, inside = on_span(Rows.of(X), k)
    points = rng.normal(size=(50, 2))
    dense = evaluate_dense(expand_dense(span.coordinates(X), degree), points)
    found, fewer = (expand_means(inside, n, degree, 1.0)(points) for n in (k, 2))
    np.testing.assert_allclose(found, dense, rtol=1e-9, atol=1e-10)
    if degree > 2:  # order 2 has no room for more than the span
        assert not np.allclose(fewer, dense, rtol=1e-3)


@pytest.mark.parametrize("degree", [2, 3, 4, 5, 6])
def test_where_nothing_is_left_out_labels_are_the_dense_twin(degree, rng):
    x, z, _ = make_regression_mixture(300, 3, 2, radius=0.6, noise=0.8, random_state=0)
    points = rng.normal(size=(50, 3))
    dense = evaluate_dense(expand_labels_dense(x, z, degree), points)
    found = expand_labels(Rows.of(x, y=z), math.comb(4, 2), degree)
    np.testing.assert_allclose(found(points), dense, rtol=1e-9, atol=1e-10)
    if degree == 6:  # then there are subspaces to be found
        fewer = expand_labels(Rows.of(x, y=z), 2, degree)
        assert not np.allclose(fewer(points), dense, rtol=1e-3)


@pytest.mark.parametrize("degree", [2, 3, 6, 9])
def test_exact_moments_give_the_exact_expansion(degree, rng):
    weights, means = np.array([0.5, 0.3, 0.2]), rng.normal(size=(3, 2))
    start = GradedMoments.of_points(2, math.sqrt(degree), 1.7)
    hidden = np.column_stack([np.full(3, start.height), means]) / start.unit
    a, b = split_order(degree)
    chain = chain_of_powers(hidden, b, start.chain.noise)
    powers = SymmetricChain(chain.steps, 0 * chain.noise).images(hidden)
    form = (powers[a] * weights[:, None]).T @ powers[b]
    moments = replace(start, chain=chain, forms={(a, b, 0): form})
    points = rng.normal(size=(40, 2))
    terms = []
    for t in range(degree + 1):
        each = [reduce(np.multiply.outer, [v] * t, np.ones(())).ravel() for v in means]
        terms.append(he_dense(points, t) @ (weights @ np.stack(each)) / math.factorial(t))
    expansion = JointExpansion(degree, moments)
    np.testing.assert_allclose(expansion.orders(points), terms, rtol=1e-9, atol=1e-9)
    # a lower degree keeps the first orders of the same moments
    lower = replace(expansion, degree=degree - 1)
    np.testing.assert_allclose(lower(points), sum(terms[:-1]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("degree", [6, 13, 24, 40, 80])
def test_means_of_exact_moments_give_the_expansion_up_to_high_degrees(degree):
    # rows and weights of a Gauss rule have the moments of the mixture up to the degree
    weights, means = np.array([0.95, 0.05]), np.array([-0.15, 2.85])
    nodes, parts = hermegauss(degree + 2)
    X = np.concatenate([nodes + mean for mean in means])[:, None]
    counts = np.outer(weights, parts / parts.sum()).ravel()
    rows = Rows.of(X).weighted(counts / counts.max())
    span, _ = on_span(rows, 2)
    x = np.linspace(-4, 4, 81)[:, None]
    exact = np.zeros(81)
    for weight, mean in zip(weights, means, strict=True):
        before, term = np.zeros(81), np.ones(81)  # mean^t He_t(x)/t!
        for t in range(1, degree + 2):
            exact += weight * term
            before, term = term, (mean * x[:, 0] * term - mean**2 * before) / t
    found = expand(rows, 2, degree)(x * span.basis[0, 0])
    np.testing.assert_allclose(found, exact, atol=1e-9 * np.abs(exact).max())


def lines_at_nodes(n_nodes=70):
    """Nodes of quadrature of two lines with their weights, and F/G of G with a scale."""
    weights, slopes, shifts, noise = (0.7, 0.3), (-0.18, 0.42), (0.1, -0.7 / 3), 0.55
    nodes, mass = hermegauss(n_nodes)
    x, nu = (g.ravel() for g in np.meshgrid(nodes, nodes, indexing="ij"))
    z = [c + b * x + math.sqrt(noise) * nu for b, c in zip(slopes, shifts, strict=True)]
    counts = np.outer(weights, np.outer(mass, mass) / np.sum(mass) ** 2).ravel()
    rows = Rows.of(np.tile(x, 2)[:, None], y=np.concatenate(z), counts=counts)

    def exact(points, degree, scale):
        """Sum the terms of both lines up to a degree, in units of the scale."""
        found = np.zeros(len(points))
        he = [hermeval(points, np.eye(degree + 1)[n]) for n in range(degree + 1)]
        for w, *line in zip(weights, slopes, shifts, strict=True):
            b, c = (value / scale for value in line)
            eta = [1.0, c]  # E[He_r(z)]
            for r in range(2, degree + 1):
                eta.append(c * eta[-1] + (r - 1) * (b**2 + noise / scale**2 - 1) * eta[-2])
            for a in range(degree // 2 + 1):
                for r in range(degree - 2 * a + 1):
                    factor = w * b**a * eta[r] / (math.factorial(a) * math.factorial(r))
                    found += factor * he[a][:, 0] * he[a + r][:, 1]
        return found

    return rows, exact


@pytest.mark.parametrize("degree", [20, 30])
def test_labels_of_exact_moments_give_the_expansion_up_to_high_degrees(degree, rng):
    rows, exact = lines_at_nodes()
    points = rng.normal(size=(50, 2))
    found = expand_labels(rows, 2, degree)(points)
    np.testing.assert_allclose(found, exact(points, degree, 1.0), atol=1e-10)


@pytest.mark.parametrize("scale", [0.7, 1.25, 2.0])
def test_one_set_of_moments_gives_the_expansion_at_every_scale(scale, rng):
    rows, exact = lines_at_nodes()
    points = rng.normal(size=(50, 2))
    expansion = expand_labels(rows, 2, 12)
    found = replace(expansion, scale=scale)
    np.testing.assert_allclose(found(points), exact(points, 12, scale), atol=1e-10)
    lower = replace(found, degree=7)
    np.testing.assert_allclose(lower(points), exact(points, 7, scale), atol=1e-10)
    assert not np.allclose(expansion(points), exact(points, 12, scale), atol=1e-3)


def test_a_grid_of_labels_is_evaluated_as_points_are(rng):
    x, z, _ = make_regression_mixture(300, 3, 2, noise=1.0, random_state=0)
    expansion = replace(expand_labels(Rows.of(x, y=z), 3, 5), scale=1.3)
    grid = np.linspace(-2, 2, 7)
    found = expansion.on_grid(x[:5], grid)
    for i, row in enumerate(found):
        points = np.column_stack([np.tile(x[i], (7, 1)), grid])
        np.testing.assert_allclose(row, expansion(points), rtol=1e-9)


def test_one_component_is_the_gaussian():
    nothing = Rows.of(np.ones((5, 2)), y=np.arange(5.0)).mapped(linear=np.empty((2, 0)))
    means, labels = expand_means(nothing, 1, 6, 0.0), expand_labels(nothing, 1, 6)
    assert means.degree == labels.degree == 0
    np.testing.assert_array_equal(means(np.empty((4, 0))), np.ones(4))
    np.testing.assert_array_equal(labels(np.ones((4, 1))), np.ones(4))
    np.testing.assert_array_equal(labels.on_grid(np.empty((4, 0)), np.arange(3.0)), 1.0)


@pytest.fixture
def hidden(rng):
    return np.column_stack([np.full(3, 0.7), rng.normal(size=(3, 2))])


def test_grades_add_up_to_the_closed_form(hidden, rng):
    chain = chain_of_powers(hidden, 3, NOISE)
    x = rng.normal(size=(20, 2))
    whole = chain.images(np.column_stack([np.full(20, 0.7), x]))
    every, low = (graded_images(chain, x, 0.7, most) for most in (3, 1))
    for image, graded, first in zip(whole, every, low, strict=True):
        np.testing.assert_allclose(graded.sum(axis=0), image, atol=1e-12)
        np.testing.assert_allclose(first, graded[:2], atol=1e-12)


@pytest.mark.parametrize("most", [1, 5])
@pytest.mark.parametrize(("a", "b"), [(0, 1), (1, 1), (1, 2), (2, 2), (2, 3)])
def test_answers_are_those_of_dense_tensors_by_grade(a, b, most, hidden, rng):
    weights = np.array([0.5, 0.3, -0.2])
    chain, most = chain_of_powers(hidden, b, NOISE), min(most, a + b)
    powers = SymmetricChain(chain.steps, 0 * chain.noise).images(hidden)
    form = (powers[a] * weights[:, None]).T @ powers[b]
    x = rng.normal(size=(30, 2))
    images = graded_images(chain, x, 1 / 0.7, most)
    answers = graded_answers(chain, images, a, b, form, most)
    assert len(answers) == most + 1
    for grade, answer in enumerate(answers):
        parts = [reduce(np.multiply.outer, [v[1:]] * grade, np.ones(())) for v in hidden]
        tensor = sum(w * part for w, part in zip(weights, parts, strict=True))
        expected = he_dense(x, grade) @ tensor.ravel() / math.factorial(grade)
        np.testing.assert_allclose(answer, expected, atol=1e-9)
