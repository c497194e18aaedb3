"""Lemma 3.7: evaluation through a projection equals projecting the dense tensor."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from implicitmoments.paper.circuits import scalar, vector
from implicitmoments.paper.projections import (
    evaluate,
    evaluate_dense,
    hermite_dense,
    project_dense,
)

x, y, c = vector("x"), vector("y"), scalar("c")


def evaluate_row(circuit, inputs):
    """Evaluate one row by the definition of each operation; shared wires are computed again."""
    values = [evaluate_row(operand, inputs) for operand in circuit.operands]
    if circuit.operation == "number":
        return np.array(circuit.value)
    if circuit.operation in ("scalar", "vector"):
        return inputs[circuit.value]
    if circuit.operation == "add":
        return values[0] + values[1]
    return np.multiply.outer(*values)  # by a scalar, or with a vector in the last slot


@given(
    seed=st.integers(0, 2**32 - 1),
    order=st.integers(0, 5),
    d=st.integers(1, 3),
    width=st.integers(1, 6),
)
def test_projected_evaluation_equals_dense_evaluation(
    random_circuit, random_inputs, random_projection, seed, order, d, width
):
    rng = np.random.default_rng(seed)
    circuit, inputs = random_circuit(rng, order), random_inputs(rng, 4, d)
    projection = random_projection(rng, d, order, width)
    dense = evaluate_dense(circuit, inputs)
    by_row = [evaluate_row(circuit, {name: a[i] for name, a in inputs.items()}) for i in range(4)]
    scale = 1 + np.abs(dense).max()
    np.testing.assert_allclose(dense, np.stack(by_row), atol=1e-12 * scale)
    projected = project_dense(projection, dense)
    implicit = evaluate(circuit, inputs, projection)
    np.testing.assert_allclose(implicit, projected, atol=1e-12 * scale)


def test_hermite_tensor_along_a_unit_vector_is_the_polynomial(rng):
    """Definition 2.1 and the remark after Definition 2.2: ⟨H_k(x), v^k⟩ = h_k(v·x)."""
    points, v = rng.normal(size=(6, 3)), np.array([2.0, -1.0, 2.0]) / 3
    for order in range(6):
        along = hermite_dense(points, order)
        for _ in range(order):
            along = along @ v
        series = np.zeros(order + 1)
        series[order] = 1 / np.sqrt(float(np.prod(range(1, order + 1))))
        expected = np.polynomial.hermite_e.hermeval(points @ v, series)
        np.testing.assert_allclose(along, expected, atol=1e-12)
