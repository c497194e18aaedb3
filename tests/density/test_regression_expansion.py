"""Compressed expansions of regressions against their dense twins and against the truth."""

import math
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest

from implicitmoments.datasets import make_regression_mixture
from implicitmoments.density import (
    LabelConstant,
    average_graded,
    contract_dense,
    contract_moments,
    contract_run,
    expand_contracted,
    expand_labels,
    expand_labels_dense,
    expand_paper,
    regression_tail,
)
from implicitmoments.moments import (
    BalancedMoments,
    Frame,
    Run,
    SymmetricChain,
    implicit_moments,
    split_order,
)
from implicitmoments.problems import RegressionMixtureProblem
from implicitmoments.projections import RecursiveProjection
from implicitmoments.rows import Rows
from implicitmoments.testing import chain_of_powers

WEIGHTS = np.array([0.5, 0.3, 0.2])


def labelled(x, z, counts=None):
    return Rows.of(x, y=z, **({} if counts is None else {"counts": counts}))


def power(v, n):
    return reduce(np.multiply.outer, [v] * n, np.ones(()))


def dense_moments(vectors, highest):
    return [
        sum(w * power(v, t) for w, v in zip(WEIGHTS, vectors, strict=True))
        for t in range(highest + 1)
    ]


def exact_moments(vectors, highest, scale):
    """Population moments of the regressors in compressed form."""
    frame = Frame(np.eye(vectors.shape[1]), np.zeros(vectors.shape[1]), scale=scale)
    splits = [split_order(t) for t in range(highest + 1)]
    chain = chain_of_powers(vectors / scale, splits[-1][1], frame.noise)
    powers = SymmetricChain(chain.steps, 0 * frame.noise).images(vectors / scale)
    forms = {(a, b): (powers[a] * WEIGHTS[:, None]).T @ powers[b] for a, b in splits}
    return BalancedMoments(frame, chain, forms)


@pytest.mark.parametrize("odd", [True, False])
@pytest.mark.parametrize("degree", [2, 3, 4, 5, 6])
def test_where_nothing_is_left_out_it_is_the_dense_twin(degree, odd, rng):
    x, z, _ = make_regression_mixture(300, 3, 2, radius=0.6, noise=0.8, random_state=0)
    k = math.comb(2 + 2, 2)  # room for all symmetric tensors over (h, x)
    points = rng.normal(size=(50, 3))
    compressed = expand_labels(labelled(x, z), np.eye(2), k, degree, odd=odd)
    dense = expand_labels_dense(np.column_stack([x, z]), degree, odd=odd)
    np.testing.assert_allclose(compressed(points), dense(points), rtol=1e-8, atol=1e-9)
    if degree == 6:  # then there are subspaces to be found
        fewer = expand_labels(labelled(x, z), np.eye(2), 2, degree, odd=odd)
        assert not np.allclose(fewer(points), dense(points), rtol=1e-3)


@pytest.mark.parametrize("degree", [2, 4, 6])
def test_contracted_moments_are_the_dense_double_sum(degree, rng):
    vectors, noise = 0.6 * rng.normal(size=(3, 2)), 0.7
    expansion = contract_moments(exact_moments(vectors, degree, 0.8), noise - 1, degree)
    dense = contract_dense(dense_moments(vectors, degree), noise, degree)
    points = rng.normal(size=(40, 3))
    np.testing.assert_allclose(expansion(points), dense(points), rtol=1e-8, atol=1e-9)
    # Erratum 7: a Gaussian in 2b slots gives (2b − 1)!! times the contraction
    wrong = dense_moments(vectors, degree)
    if degree == 4:
        wrong[4] = 3 * wrong[4]
        assert not np.allclose(contract_dense(wrong, noise, degree)(points), dense(points))


def test_the_double_sum_converges_to_the_ratio_of_densities(rng):
    """Erratum 5: with (2n − 1)!! for (n − 1)!! it would not."""
    vectors, noise = 0.5 * np.array([[1.0, 0], [0, 1], [-0.7, -0.7]]), 0.75
    points = rng.normal(size=(2_000, 3))
    x, z = points[:, :2], points[:, 2]
    apart = (z[:, None] - x @ vectors.T) ** 2 / noise
    exact = np.exp(z[:, None] ** 2 / 2 - apart / 2) @ WEIGHTS / math.sqrt(noise)
    errors = []
    for degree in (2, 4, 8, 12):
        moments = exact_moments(vectors, degree, 1.0)
        found = contract_moments(moments, noise - 1, degree)(points)
        errors.append(np.mean(np.abs(found - exact)) / 2)
        assert errors[-1] < regression_tail(0.25, noise, degree)
    assert errors[-1] < 0.005 < 0.03 < errors[0]


def test_direct_and_contracted_estimate_the_same():
    x, z, truth = make_regression_mixture(200_000, 2, 2, radius=0.5, noise=0.8, random_state=1)
    points = np.random.default_rng(0).normal(size=(500, 3))
    apart = (points[:, 2:] - points[:, :2] @ truth.vectors.T) ** 2 / 0.64
    exact = np.exp(points[:, 2:] ** 2 / 2 - apart / 2) @ truth.weights / 0.8
    rows = labelled(x, z)
    direct = expand_labels(rows, np.eye(2), 2, 8, odd=False)(points)
    contracted = expand_contracted(rows, np.eye(2), 2, 8, excess=-0.36)(points)
    for found in (direct, contracted):
        assert np.mean(np.abs(found - exact)) < 0.06
    wrong = expand_contracted(rows, np.eye(2), 2, 8, excess=0.0)(points)  # another noise
    assert np.mean(np.abs(wrong - exact)) > 0.15


def test_contraction_of_the_paper_s_moments_is_exact(rng):
    vectors = rng.normal(size=(3, 2))
    moments = dense_moments(vectors, 5)
    projection = RecursiveProjection.identity(2, 5)
    run = Run(projection, moments[5].ravel(), (), None)
    for times in (0, 1, 2):
        contracted = contract_run(run, times)
        expected = moments[5]
        for _ in range(times):
            expected = np.trace(expected, axis1=-2, axis2=-1)
        dense = contracted.projection.as_matrix().T @ contracted.coordinates
        np.testing.assert_allclose(dense, expected.ravel(), atol=1e-12)


def test_the_paper_estimates_the_same():
    x, z, truth = make_regression_mixture(60_000, 2, 2, radius=0.6, noise=0.8, random_state=0)
    z = z - x @ (truth.weights @ truth.vectors)  # regressors of mean zero
    vectors = truth.vectors - truth.weights @ truth.vectors
    points = np.random.default_rng(0).normal(size=(200, 3))
    moments = [
        sum(w * power(v, t) for w, v in zip(truth.weights, vectors, strict=True)) for t in range(5)
    ]
    expected = contract_dense(moments, 0.64, 4)(points)
    rows = labelled(x, z)
    found = expand_paper(rows, np.eye(2), 2, 4, excess=-0.36, n_draws=400, seed=0)(points)
    assert np.mean(np.abs(found - expected)) < 0.07
    assert np.mean(np.abs(1.0 - expected)) > 0.14


def test_coefficients_in_the_label_are_those_of_the_polynomial(rng):
    x, z, _ = make_regression_mixture(300, 3, 2, noise=1.0, random_state=0)
    expansion = expand_labels(labelled(x, z), np.eye(2), 3, 5, odd=True)
    assert expansion.in_label(x[:7]).shape == (7, 6)
    many = expansion(np.column_stack([x, z]))
    np.testing.assert_allclose(many[:5], expansion(np.column_stack([x, z])[:5]), rtol=1e-10)
    nothing = LabelConstant(4)
    np.testing.assert_array_equal(nothing.in_label(x[:3]), np.eye(5)[[0, 0, 0]])
    np.testing.assert_array_equal(nothing(rng.normal(size=(3, 1))), np.ones(3))


def test_rows_that_count_twice_are_there_twice():
    x, z, _ = make_regression_mixture(400, 3, 2, noise=1.0, random_state=0)
    counts = np.random.default_rng(0).integers(0, 3, len(x))
    points = np.column_stack([x, z])[:20]
    weighted = expand_labels(labelled(x, z, counts.astype(float)), np.eye(2), 3, 6, odd=True)
    again = labelled(np.repeat(x, counts, axis=0), np.repeat(z, counts))
    repeated = expand_labels(again, np.eye(2), 3, 6, odd=True)
    np.testing.assert_allclose(weighted(points), repeated(points), rtol=1e-8)


@pytest.mark.parametrize(("squared", "noise"), [(0.3, 0.7), (0.2, 0.5), (0.4, 0.9)])
def test_the_tail_bound_is_the_norm_of_the_tail(squared, noise):
    """Of one component on the line: orders summed to convergence from the dense double sum."""
    norms = []
    for n in range(0, 13, 2):
        total = 0.0
        for a in range(n // 2 + 1):
            # β^a (…)^j / (a! j! 2^j) on He_a(x) He_{a+2j}(z), whose norm² is a! (a + 2j)!
            j = n // 2 - a
            value = squared ** (a / 2) * (squared + noise - 1) ** j
            value /= math.factorial(a) * math.factorial(j) * 2**j
            total += value**2 * math.factorial(a) * math.factorial(a + 2 * j)
        norms.append(total)
    bounds = [regression_tail(squared, noise, n) for n in range(0, 13, 2)]
    for i, (before, after) in enumerate(pairwise(bounds), start=1):
        assert 4 * (before**2 - after**2) == pytest.approx(norms[i], rel=1e-6)
    assert regression_tail(1.0, 1.2, 8) == math.inf


def test_moments_of_all_orders_are_asked_for():
    x, z, _ = make_regression_mixture(500, 2, 2, noise=1.0, random_state=0)
    moments = implicit_moments(RegressionMixtureProblem(x, z), n_components=2, order=4)
    expansion = contract_moments(moments.folds[0].moments, -0.5, 4)
    assert set(expansion.forms) == {(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)}


def test_moments_carry_the_weight_of_their_grade(rng):
    """With all symmetric tensors kept: an entry of grade a is the mean of He_a(x) He_a(z) / a!."""
    x, z = rng.normal(size=(50, 1)), rng.normal(size=50)
    chain = chain_of_powers(rng.normal(size=(3, 2)), 2, np.diag([0.0, 1]))
    form = average_graded(Rows.of(x, y=z), chain, [(2, 2, 0)])[2, 2, 0]
    dense = np.zeros((4, 4))
    for i, j in np.ndindex(4, 4):
        grade = i.bit_count() + j.bit_count()  # bits are slots that hold x
        he = np.polynomial.hermite_e.hermeval(np.array([x[:, 0], z]), np.eye(5)[grade])
        dense[i, j] = np.mean(he[0] * he[1]) / math.factorial(grade)
    basis = chain.steps[-1]
    assert basis.shape == (3, 4)
    np.testing.assert_allclose(form, basis @ dense @ basis.T, atol=1e-10)


@pytest.mark.parametrize("degree", [20, 30])
def test_high_degrees_are_exact_with_exact_moments(degree):
    """Rows are nodes of quadrature of two lines, with its weights."""
    weights, slopes, shifts, noise = (0.7, 0.3), (-0.18, 0.42), (0.1, -0.7 / 3), 0.55
    nodes, mass = np.polynomial.hermite_e.hermegauss(70)
    x, nu = (g.ravel() for g in np.meshgrid(nodes, nodes, indexing="ij"))
    z = [c + b * x + math.sqrt(noise) * nu for b, c in zip(slopes, shifts, strict=True)]
    counts = np.outer(weights, np.outer(mass, mass) / np.sum(mass) ** 2).ravel()
    rows = labelled(np.tile(x, 2)[:, None], np.concatenate(z), counts)
    points = np.random.default_rng(0).normal(size=(50, 2))
    expected = np.zeros(len(points))
    he = [
        np.polynomial.hermite_e.hermeval(points, np.eye(degree + 1)[n]) for n in range(degree + 1)
    ]
    for w, b, c in zip(weights, slopes, shifts, strict=True):
        eta = [1.0, c]
        for r in range(2, degree + 1):
            eta.append(c * eta[-1] + (r - 1) * (b**2 + noise - 1) * eta[-2])
        for a in range(degree // 2 + 1):
            for r in range(degree - 2 * a + 1):
                factor = w * b**a * eta[r] / (math.factorial(a) * math.factorial(r))
                expected += factor * he[a][:, 0] * he[a + r][:, 1]
    found = expand_labels(rows, np.eye(1), 2, degree, odd=True)(points)
    np.testing.assert_allclose(found, expected, atol=1e-10)
