"""Graded images against the closed form, and moments against exact ones."""

import math

import numpy as np
import pytest

from implicitmoments.density import graded_chain
from implicitmoments.moments import SymmetricChain
from implicitmoments.projections import hermite_dense
from implicitmoments.testing import chain_of_powers


@pytest.fixture
def hidden(rng):
    return np.column_stack([np.full(3, 0.7), rng.normal(size=(3, 2))])


def test_grades_add_up_to_the_closed_form(hidden, rng):
    chain = chain_of_powers(hidden, 3, graded_chain.graded_noise(2))
    x = rng.normal(size=(20, 2))
    whole = chain.images(np.column_stack([np.full(20, 0.7), x]))
    for image, graded in zip(whole, graded_chain.graded_images(chain, x, 0.7), strict=True):
        np.testing.assert_allclose(graded.sum(axis=0), image, atol=1e-12)


@pytest.mark.parametrize(("a", "b"), [(0, 1), (1, 1), (1, 2), (2, 2), (2, 3)])
def test_answers_are_those_of_dense_tensors_by_grade(a, b, hidden, rng):
    weights = np.array([0.5, 0.3, -0.2])
    chain = chain_of_powers(hidden, b, graded_chain.graded_noise(2))
    powers = SymmetricChain(chain.steps, 0 * chain.noise).images(hidden)
    form = (powers[a] * weights[:, None]).T @ powers[b]
    x = rng.normal(size=(30, 2))
    answers = graded_chain.graded_answers(
        chain, graded_chain.graded_images(chain, x, 1 / 0.7), a, b, form
    )
    for grade, answer in enumerate(answers):
        he = hermite_dense(x, grade).reshape(30, -1) * math.sqrt(math.factorial(grade))
        expected = np.zeros(30)
        for w, v in zip(weights, hidden, strict=True):
            power = np.ones(1)
            for _ in range(grade):
                power = np.multiply.outer(power, v[1:]).ravel()
            expected += w * he @ power
        np.testing.assert_allclose(answer, math.comb(a + b, grade) * expected, atol=1e-9)


def test_moments_carry_the_weight_of_their_grade(rng):
    """With all symmetric tensors kept: an entry of grade a is the mean of c_a h^(m-a) He_a."""
    x, height = rng.normal(size=(50, 1)), 0.6
    table = rng.normal(size=(5, 50))
    chain = graded_chain.widen(SymmetricChain((np.eye(2),), graded_chain.graded_noise(1)), 9)
    splits = [(2, 2, 0)]
    sums = graded_chain.graded_sums(chain, height, splits, x, lambda a, _: table[a])
    form = graded_chain.assemble_graded(chain, splits, sums)[2, 2, 0]
    dense = np.zeros((4, 4))
    for i, j in np.ndindex(4, 4):
        grade = i.bit_count() + j.bit_count()  # bits are slots that hold x
        he = np.polynomial.hermite_e.hermeval(x[:, 0], np.eye(5)[grade])
        dense[i, j] = np.sum(table[grade] * he) * height ** (4 - grade)
    basis = chain.steps[-1]
    np.testing.assert_allclose(form, basis @ dense @ basis.T, atol=1e-10)
