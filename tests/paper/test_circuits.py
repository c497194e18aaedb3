"""Definition 3.1, Definition 4.1 and Remark 4.2."""

import itertools

import numpy as np
import pytest

from implicitmoments.paper.circuits import (
    complex_power,
    hermite,
    scalar,
    size,
    vector,
)
from implicitmoments.paper.projections import evaluate_dense

x, y, c = vector("x"), vector("y"), scalar("c")


def test_size_counts_operations_and_shared_wires_once():
    shared = x.append(y)
    assert [size(x), size(shared), size(shared + shared)] == [0, 1, 2]
    assert size(shared + x.append(y)) == 3
    assert size(2.0 * (c * shared)) == 3


def test_hermite_has_six_operations_a_slot():
    """Remark 4.2: O(n) operations, where the expanded product has 2^n terms."""
    sizes = [size(hermite(x, y, n)) for n in range(2, 40)]
    assert {after - before for before, after in itertools.pairwise(sizes)} == {6}


def test_extended_hermite_is_the_real_part_of_a_complex_power(rng):
    """Definition 4.1."""
    X, Y = rng.normal(size=(2, 4, 3))
    z = X + 1j * Y
    expected = np.einsum("na,nb,nc,nd->nabcd", z, z, z, z) / np.sqrt(24)
    inputs = {"x": X, "y": Y}
    np.testing.assert_allclose(evaluate_dense(hermite(x, y, 4), inputs), expected.real)
    imaginary = evaluate_dense(complex_power(x, y, 4)[1], inputs) / np.sqrt(24)
    np.testing.assert_allclose(imaginary, expected.imag, atol=1e-12)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: x + x.append(y), "orders 1 and 2"),
        (lambda: x.append(y) * x, "order 2"),
        (lambda: x.append(c), "order 0"),
        (lambda: x.append(x.append(y)), "order 2"),
    ],
)
def test_what_does_not_fit_is_said_when_it_is_built(build, message):
    with pytest.raises(ValueError, match=message):
        build()
