"""Graded images against the closed form, and moments against exact ones."""

import math

import numpy as np
import pytest

from implicitmoments.density import average_graded, graded_answers, graded_images
from implicitmoments.moments import SymmetricChain
from implicitmoments.projections import hermite_dense
from implicitmoments.rows import Rows
from implicitmoments.testing import chain_of_powers

NOISE = np.diag([0.0, 1, 1])  # none in the constant


@pytest.fixture
def hidden(rng):
    return np.column_stack([np.full(3, 0.7), rng.normal(size=(3, 2))])


def test_grades_add_up_to_the_closed_form(hidden, rng):
    chain = chain_of_powers(hidden, 3, NOISE)
    x = rng.normal(size=(20, 2))
    whole = chain.images(np.column_stack([np.full(20, 0.7), x]))
    for image, graded in zip(whole, graded_images(chain, x, 0.7), strict=True):
        np.testing.assert_allclose(graded.sum(axis=0), image, atol=1e-12)


@pytest.mark.parametrize(("a", "b"), [(0, 1), (1, 1), (1, 2), (2, 2), (2, 3)])
def test_answers_are_those_of_dense_tensors_by_grade(a, b, hidden, rng):
    weights = np.array([0.5, 0.3, -0.2])
    chain = chain_of_powers(hidden, b, NOISE)
    powers = SymmetricChain(chain.steps, 0 * chain.noise).images(hidden)
    form = (powers[a] * weights[:, None]).T @ powers[b]
    x = rng.normal(size=(30, 2))
    answers = graded_answers(chain, graded_images(chain, x, 1 / 0.7), a, b, form)
    for grade, answer in enumerate(answers):
        he = hermite_dense(x, grade).reshape(30, -1) * math.sqrt(math.factorial(grade))
        expected = np.zeros(30)
        for w, v in zip(weights, hidden, strict=True):
            power = np.ones(1)
            for _ in range(grade):
                power = np.multiply.outer(power, v[1:]).ravel()
            expected += w * he @ power
        np.testing.assert_allclose(answer, expected / math.factorial(grade), atol=1e-9)


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
