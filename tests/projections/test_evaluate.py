"""Evaluation through a projection equals projecting the dense tensor (Lemma 3.7)."""

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicitmoments.circuits import hermite, power, scalar, unit, vector
from implicitmoments.projections import (
    RecursiveProjection,
    evaluate,
    evaluate_dense,
    evaluate_split,
    hermite_dense,
    project_dense,
)
from implicitmoments.testing import random_circuit, random_inputs, random_projection
from support import refuses

x, y, c = vector("x"), vector("y"), scalar("c")
seeds = st.integers(0, 2**32 - 1)
namespaces = st.sampled_from([np, array_api_strict])


def in_namespace(xp, inputs):
    return {name: xp.asarray(array) for name, array in inputs.items()}


@given(
    seed=seeds,
    order=st.integers(0, 5),
    d=st.integers(1, 3),
    width=st.integers(1, 6),
    xp=namespaces,
)
def test_projected_evaluation_equals_dense_evaluation(seed, order, d, width, xp):
    rng = np.random.default_rng(seed)
    circuit = random_circuit(rng, order)
    projection = random_projection(rng, d, order, width=width)
    inputs = in_namespace(xp, random_inputs(rng, circuit, 4, d))
    implicit = evaluate(circuit, inputs, projection)
    dense = project_dense(projection, evaluate_dense(circuit, inputs))
    # a circuit of constants has no inputs, and no library but NumPy
    assert type(implicit) is type(dense) is type((xp if inputs else np).ones(1))
    scale = 1 + np.abs(np.asarray(dense)).max()
    np.testing.assert_allclose(np.asarray(implicit), np.asarray(dense), atol=1e-12 * scale)


@given(
    seed=seeds, left=st.integers(1, 3), right=st.integers(1, 3), d=st.integers(1, 3), xp=namespaces
)
def test_the_split_evaluation_is_the_tensor_product(seed, left, right, d, xp):
    rng = np.random.default_rng(seed)
    circuit = random_circuit(rng, left + right)
    P, Q = random_projection(rng, d, left, width=4), random_projection(rng, d, right, width=4)
    inputs = in_namespace(xp, random_inputs(rng, circuit, 3, d))
    whole = np.asarray(evaluate(circuit, inputs, P.tensor(Q)))
    pairs = evaluate_split(circuit, inputs, P, Q)
    joined = sum(
        np.einsum("na,nb->nab", np.asarray(head), np.asarray(tail)).reshape(3, -1)
        for head, tail in pairs
    )
    np.testing.assert_allclose(joined, whole, atol=1e-12 * (1 + np.abs(whole).max()))


def test_hermite_crosses_a_cut_on_two_wires(rng):
    inputs = {"x": rng.normal(size=(5, 3)), "y": rng.normal(size=(5, 3))}
    half = RecursiveProjection.identity(3, 3)
    assert len(evaluate_split(hermite(x, y, 6), inputs, half, half)) == 2


def test_extended_hermite_is_the_real_part_of_a_complex_power(rng):
    """Definition 4.1."""
    X, Y = rng.normal(size=(2, 4, 3))
    z = X + 1j * Y
    expected = np.einsum("na,nb,nc,nd->nabcd", z, z, z, z).real / np.sqrt(24)
    np.testing.assert_allclose(evaluate_dense(hermite(x, y, 4), {"x": X, "y": Y}), expected)


def test_the_mean_of_extended_hermite_is_the_hermite_tensor():
    """Section 4.1, exactly: Gauss-Hermite nodes in place of y integrate the polynomial."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    Y = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2)
    w = np.outer(weights, weights).ravel() / (2 * np.pi)
    point = np.array([[0.7, -1.2]])
    for order in range(1, 7):
        X = np.repeat(point, len(Y), axis=0)
        mean = np.tensordot(w, evaluate_dense(hermite(x, y, order), {"x": X, "y": Y}), 1)
        np.testing.assert_allclose(mean, hermite_dense(point, order)[0], atol=1e-12)


def test_hermite_tensor_along_a_unit_vector_is_the_polynomial(rng, xp):
    """Definition 2.1 and the remark after Definition 2.2: ⟨H_k(x), v^k⟩ = h_k(v·x)."""
    points, v = rng.normal(size=(6, 3)), np.array([2.0, -1.0, 2.0]) / 3
    for order in range(6):
        tensor = np.asarray(hermite_dense(xp.asarray(points), order))
        along = tensor
        for _ in range(order):
            along = along @ v
        series = np.zeros(order + 1)
        series[order] = 1 / np.sqrt(float(np.prod(range(1, order + 1))))
        expected = np.polynomial.hermite_e.hermeval(points @ v, series)
        np.testing.assert_allclose(along, expected, atol=1e-12)


def test_order_zero_and_one(rng):
    X = rng.normal(size=(4, 3))
    none = RecursiveProjection.identity(3, 0)
    np.testing.assert_array_equal(evaluate(2 * unit(), {}, none), [[2.0]])
    np.testing.assert_array_equal(evaluate(c, {"c": np.arange(3)}, none), [[0.0], [1.0], [2.0]])
    P = random_projection(rng, 3, 1, width=2)
    np.testing.assert_allclose(evaluate(x, {"x": X}, P), X @ P.as_matrix().T)


def test_precision_of_the_inputs_is_kept(rng):
    X = rng.normal(size=(4, 3)).astype(np.float32)
    out = evaluate(power(x, 3), {"x": X}, random_projection(rng, 3, 3, width=2))
    assert out.dtype == np.float32


def test_names_that_are_not_read_are_left_alone(rng):
    X = rng.normal(size=(4, 3))
    evaluate(hermite(x, y, 1), {"x": X, "y": X}, RecursiveProjection.identity(3, 1))


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ({}, "input_missing"),
        ({"x": np.ones((2, 3)), "z": 1}, "input_missing"),
        ({"x": np.ones((2, 4)), "c": np.ones(2)}, "n_features_differ"),
        ({"x": np.ones((2, 3)), "c": np.ones(5)}, "lengths_differ"),
        ({"x": np.ones(3), "c": np.ones(2)}, "wrong_axes"),
        (
            {"x": [[1, np.nan, 2]], "c": [1]},
            "not_finite",
        ),
        ({"x": [[1, 2, np.inf]], "c": [1]}, "not_finite"),
        ({"x": [["a", "b", "c"]], "c": [1]}, "not_numeric"),
        ({"x": np.ones((0, 3)), "c": np.ones(0)}, "no_rows"),
        ({"x": [[1j, 0, 0]], "c": [1]}, "not_numeric"),
        ({"x": [[1, 2, 3], [4]], "c": [1]}, "not_rectangular"),
    ],
)
def test_inputs_that_do_not_fit(inputs, code):
    with refuses(code):
        evaluate(c * power(x, 2), inputs, RecursiveProjection.identity(3, 2))


def test_libraries_are_not_mixed():
    inputs = {"x": np.ones((2, 3)), "c": array_api_strict.ones(2)}
    with refuses("libraries_mixed"):
        evaluate(c * power(x, 2), inputs, RecursiveProjection.identity(3, 2))


def test_orders_must_agree():
    with refuses("orders_differ"):
        evaluate(power(x, 2), {"x": np.ones((1, 2))}, RecursiveProjection.identity(2, 3))
    with refuses("order_zero"):
        evaluate_split(
            power(x, 2),
            {"x": np.ones((1, 2))},
            RecursiveProjection.identity(2, 2),
            RecursiveProjection.identity(2, 0),
        )
    with refuses("wrong_shape"):
        project_dense(RecursiveProjection.identity(2, 2), np.ones((1, 2, 3)))
