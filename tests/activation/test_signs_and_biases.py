"""Weights of both signs, biases, and odd activations."""

import math

import numpy as np
import pytest
from sklearn.base import clone

import implicitmoments as im
from implicitmoments import ActivationSumRegressor
from implicitmoments.activation import Network, fit_network
from implicitmoments.activation.moves import exchanged, fit_relaxed, smaller
from implicitmoments.activation.residual_moments import Slices, find_direction_span, moment_slices
from implicitmoments.activation.standard_errors import standard_errors
from implicitmoments.activation.starts import (
    choose_biases,
    component_strengths,
    diagonalise,
    shifted_coefficients,
)
from implicitmoments.problems import ActivationSumProblem, as_activation, hermite_coefficients
from implicitmoments.problems.activations import relu
from implicitmoments.rows import Rows
from implicitmoments.testing import refuses

D, K = 6, 4
# activation, signs of the weights, whether there are biases
MODELS = {
    "signed": ("relu", True, False),
    "biased": ("relu", False, True),
    "signed and biased": ("relu", True, True),
    "tanh": ("tanh", False, False),
    "signed tanh": ("tanh", True, False),
    "biased sigmoid": ("sigmoid", True, True),
}


def _truth(k=K, d=D, seed=0, signed=True, biased=True):
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((k, d))
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    weights = rng.uniform(0.5, 1.5, k)
    if signed:
        weights *= np.where(np.arange(k) % 2, -1.0, 1.0)
    return weights, V, rng.uniform(-1, 1, k) * biased


def _draw(name, n, seed=0, noise=0.0, k=K, d=D):
    activation, signed, biased = MODELS[name]
    rng = np.random.default_rng(100 + seed)
    weights, V, biases = truth = _truth(k, d, seed, signed, biased)
    X = rng.standard_normal((n + 4_000, d))
    y = as_activation(activation)(X @ V.T + biases) @ weights
    noisy = y[:n] + noise * y.std() * rng.standard_normal(n)
    how = {"positive": not signed, "fit_bias": biased, "random_state": 0}
    return X[:n], noisy, (X[n:], y[n:]), truth, ActivationSumRegressor(activation, k, **how)


@pytest.mark.parametrize("name", MODELS)
def test_labels_without_noise_are_fitted_to_rounding(name):
    X, y, fresh, (weights, V, biases), model = _draw(name, 3_000)
    model.fit(X, y)
    assert 1 - model.score(*fresh) < 1e-9
    assert model.stats_["hypothesis"] == "network"
    # a component and its opposite are one if the activation is odd
    signs = np.sign(model.directions_ @ V.T)
    nearest = np.argmax(np.abs(model.directions_ @ V.T), axis=0)
    sign = signs[nearest, np.arange(K)] if "tanh" in name else np.ones(K)
    np.testing.assert_allclose(model.directions_[nearest], sign[:, None] * V, atol=1e-4)
    np.testing.assert_allclose(model.weights_[nearest], sign * weights, atol=1e-4)
    assert (model.biases_ is None) == (model.bias_errors_ is None) == (not MODELS[name][2])
    if MODELS[name][2]:
        np.testing.assert_allclose(model.biases_[nearest], biases, atol=1e-4)


def test_without_biases_such_labels_are_not_fitted():
    X, y, fresh, _, model = _draw("biased", 3_000)
    assert model.set_params(fit_bias=False, refine=False).fit(X, y).score(*fresh) < 0.998
    network = model.set_params(refine=True).fit(X, y).network_
    assert np.mean((network(fresh[0]) - fresh[1]) ** 2) > 0.05 * np.var(fresh[1])


def test_negative_weights_are_noted():
    X = np.random.default_rng(0).standard_normal((2_000, D))
    y = np.maximum(X[:, 0], 0) - np.maximum(X[:, 1], 0)
    model = ActivationSumRegressor("relu", 2, refine=False)
    with pytest.warns(im.AssumptionWarning):
        model.fit(X, y)
    assert "negative_weights_likely" in model.notes_.codes
    model.set_params(positive=False, refine=True, random_state=0).fit(X, y)
    assert 1 - model.score(X, y) < 1e-9
    assert "negative_weights_likely" not in model.notes_.codes


@pytest.mark.parametrize(
    "how",
    [{"method": "paper", "degree": 2}, {"whiten": False}, {"whiten": True}],
    ids=["paper", "as given", "whitened"],
)
def test_negative_weights_are_noted_by_every_way_to_fit(how, tmp_path):
    X = np.random.default_rng(0).standard_normal((4_000, D))
    model = ActivationSumRegressor("relu", 2, refine=False, random_state=0, **how)
    with pytest.warns(im.AssumptionWarning, match="positive=False"):
        model.fit(X, np.maximum(X[:, 0], 0) - np.maximum(X[:, 1], 0))
    assert "negative_weights_likely" in model.notes_.codes
    im.save(model, tmp_path / "model")
    again = im.load(tmp_path / "model")
    assert again.notes_ == model.notes_
    assert again.polynomial_.notes == model.polynomial_.notes
    # the control: positive weights
    model.fit(X, np.maximum(X[:, 0], 0) + np.maximum(X[:, 1], 0))
    assert "negative_weights_likely" not in model.notes_.codes


def test_negative_eigenvalues_of_other_inputs_are_not_noted():
    """A positive sum of inputs that are not standard has eigenvalues of both signs."""
    X = np.random.default_rng(0).standard_normal((4_000, D)) + 1
    y = np.maximum(X[:, 0], 0) + np.maximum(X[:, 1], 0)
    model = ActivationSumRegressor("relu", 2, refine=False, whiten=False)
    with pytest.warns(im.AssumptionWarning):
        model.fit(X, y)
    assert model.polynomial_.rival is not None
    assert "negative_weights_likely" not in model.notes_.codes


@pytest.mark.parametrize("name", ["signed and biased", "signed tanh"])
def test_standard_errors_foretell_the_errors(name):
    ratios = []
    for seed in range(3):
        X, y, _, (weights, V, biases), model = _draw(name, 3_000, seed, noise=0.2, k=2, d=4)
        model.fit(X, y)
        cosines = model.directions_ @ V.T
        nearest = np.argmax(np.abs(cosines), axis=0)
        sign = np.sign(cosines[nearest, np.arange(2)]) if "tanh" in name else np.ones(2)
        off = np.linalg.norm(model.directions_[nearest] - sign[:, None] * V, axis=1)
        ratios += list(off / model.direction_errors_[nearest])
        off = np.abs(model.weights_[nearest] - sign * weights)
        ratios += list(off / model.weight_errors_[nearest])
        if model.biases_ is not None:
            off = model.biases_[nearest] - biases
            ratios += list(np.abs(off) / model.bias_errors_[nearest])
    assert 0.4 < np.median(ratios) < 1.5


@pytest.mark.parametrize("name", ["signed and biased", "signed tanh"])
def test_polynomials_of_signed_sums(name):
    X, y, fresh, _, model = _draw(name, 8_000, noise=0.1)
    polynomial = model.set_params(refine=False).fit(X, y)
    A, b = np.column_stack([X, np.ones(len(X))]), np.column_stack([fresh[0], np.ones(4_000)])
    linear = b @ np.linalg.lstsq(A, y, rcond=None)[0]
    left = np.mean((fresh[1] - linear) ** 2)
    assert np.mean((fresh[1] - polynomial.predict(fresh[0])) ** 2) < 0.4 * left
    assert polynomial.stats_["moment_orders"][0] == (1 if "tanh" in name else 2)


@pytest.mark.parametrize("name", ["signed and biased", "signed tanh"])
def test_the_number_of_components_is_found(name):
    """Of 27 data sets drawn for a count, two had a local minimum of five biased components."""
    right = 0
    for seed in range(8):
        X, y, fresh, _, model = _draw(name, 4_000, seed, noise=0.05, k=2, d=4)
        model.set_params(n_components="auto").fit(X, y)
        assert model.score(*fresh) > 0.995
        right += model.n_components_ == 2
    assert right >= 6


def test_weights_of_rows_count_them():
    X, y, _, _, model = _draw("signed and biased", 1_500, noise=0.1, k=2, d=3)
    counts = np.random.default_rng(0).integers(0, 3, len(X))
    weighted = clone(model).fit(X, y, sample_weight=counts)
    repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(weighted.biases_, repeated.biases_, atol=1e-6)
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, atol=1e-6)


def test_unknown_mean_and_covariance():
    X, y, fresh, _, model = _draw("signed and biased", 6_000, k=2, d=3)
    mix = np.array([[2.0, 0.3, 0.0], [0.0, 1.0, -0.4], [0.2, 0.0, 0.5]])
    model.fit(X @ mix + 3.0, y)
    assert model.stats_["whitened"]
    assert model.score(fresh[0] @ mix + 3.0, fresh[1]) > 0.999
    u = (fresh[0] @ mix + 3.0 - model.whitening_.mean) @ model.directions_.T + model.biases_
    by_hand = np.maximum(u, 0) @ model.weights_
    np.testing.assert_allclose(model.predict(fresh[0] @ mix + 3.0), by_hand, rtol=1e-9)


def test_the_papers_method_learns_signed_sums():
    X, y, fresh, _, model = _draw("signed", 60_000, k=2, d=3)
    model.set_params(method="paper", degree=2, refine=False).fit(X, y)
    assert model.score(*fresh) > 0.8
    with pytest.warns(im.AssumptionWarning, match="positive=False"):
        model.set_params(positive=True).fit(X, y)
    assert model.score(*fresh) < 0.8


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
def test_coefficients_of_shifted_functions(activation):
    function = as_activation(activation)
    biases = np.array([-0.7, 0.0, 1.3])
    found = shifted_coefficients(function, biases)
    for b, row in zip(biases, found, strict=True):
        exact = hermite_coefficients(lambda u, b=b: function(u + b), 4).coefficients[1:]
        np.testing.assert_allclose(row, exact, atol=2e-6)


def test_slices_are_diagonalised_and_give_signs_and_biases():
    weights, V, biases = _truth(k=D)
    function, rng = relu(), np.random.default_rng(0)
    strengths = weights[:, None] * shifted_coefficients(function, biases)  # (k, 4)
    against = rng.standard_normal((5, D))
    slices = _exact_slices(V, strengths, against)
    found, real = diagonalise(slices, rng)
    cosines = np.abs(found @ V.T)
    assert real == D
    np.testing.assert_allclose(cosines.max(axis=0), 1.0, atol=1e-9)
    place = np.argmax(cosines, axis=0)
    decoded = component_strengths(slices, found)
    signs, chosen = choose_biases(function, decoded, np.linspace(-2.0, 2.0, 401), positive=False)
    np.testing.assert_allclose((signs[:, None] * found)[place], V, atol=1e-6)
    np.testing.assert_allclose(chosen[place], biases, atol=0.02)


def _exact_slices(V, strengths, against):
    found = [(2, np.zeros(V.shape[1]), (V.T * strengths[:, 1]) @ V)]
    for g in against:
        for t in (3, 4):
            found.append((t, g, (V.T * (strengths[:, t - 1] * (V @ g) ** (t - 2))) @ V))
    orders, vectors, matrices = map(np.array, zip(*found, strict=True))
    return Slices(strengths[:, 0] @ V, orders, vectors, matrices)


def test_slices_of_rows_are_those_of_the_truth():
    weights, V, biases = _truth(k=3, d=3)
    X = np.random.default_rng(0).standard_normal((200_000, 3))
    y = relu()(X @ V.T + biases) @ weights
    against = np.eye(3)[:2]
    found = moment_slices(ActivationSumProblem(X, y, "relu", biased=True), against)
    exact = _exact_slices(V, weights[:, None] * shifted_coefficients(relu(), biases), against)
    np.testing.assert_allclose(found.slope, exact.slope, atol=0.02)
    np.testing.assert_allclose(found.matrices, exact.matrices, atol=0.05)
    # the control: order 4 of another component
    other = _exact_slices(V[:, ::-1], weights[:, None] * np.ones((3, 4)), against)
    assert np.abs(found.matrices - other.matrices).max() > 0.2


def test_the_span_of_odd_functions_is_found_from_order_3():
    weights, V, _ = _truth(k=3, d=20)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 20))
    y = np.tanh(X @ V.T) @ weights
    basis = find_direction_span(ActivationSumProblem(X, y, "tanh"), 3)
    assert np.linalg.norm(V - (V @ basis.T) @ basis, axis=1).max() < 0.3
    # the control: order 1 alone has one direction
    slope = X.T @ y / np.linalg.norm(X.T @ y)
    assert np.linalg.norm(V - np.outer(V @ slope, slope), axis=1).max() > 0.8


def test_an_exchange_finds_the_component_that_was_lost():
    weights, V, biases = _truth(k=3)
    X = np.random.default_rng(0).standard_normal((4_000, D))
    rows = Rows.of(X, y=relu()(X @ V.T + biases) @ weights)
    # two components at one place, and none at the third
    lost = Network(weights, V[[0, 1, 1]], relu(), biases[[0, 1, 1]] + [0, 0, 0.2], positive=False)
    stuck = fit_network(rows, lost, max_iter=0)
    rng = np.random.default_rng(0)
    found = exchanged(rows, stuck, rng=rng)
    assert found is not None
    assert fit_network(rows, found).loss < 1e-12
    # from the truth there is nothing to exchange
    whole = fit_network(rows, Network(weights, V, relu(), biases, positive=False))
    assert exchanged(rows, whole, rng=rng) is None


def test_orientations_are_found_with_a_free_affine_part():
    """Reversed components and one that is nearly linear are a local optimum without it."""
    weights, V, biases = _truth(k=3)
    X = np.random.default_rng(0).standard_normal((4_000, D))
    rows = Rows.of(X, y=relu()(X @ V.T + biases) @ weights)
    reverse = np.array([-1.0, -1.0, 1.0])
    start = Network(weights, reverse[:, None] * V, relu(), reverse * biases, positive=False)
    assert fit_network(rows, start, max_iter=30).loss > 1e-3
    found = fit_relaxed(rows, start)
    assert found.affine is None
    assert fit_network(rows, found, max_iter=30).loss < 1e-12


def test_a_component_and_its_opposite_are_merged_if_the_activation_is_odd():
    weights, V, _ = _truth(k=2)
    X = np.random.default_rng(0).standard_normal((4_000, D))
    noise = 0.1 * np.random.default_rng(1).standard_normal(4_000)
    rows = Rows.of(X, y=np.tanh(X @ V.T) @ weights + noise)
    twice = np.vstack([V, -V[0]])
    network = Network(np.append(weights, -0.3), twice, as_activation("tanh"), positive=False)
    fitted = fit_network(rows, network, max_iter=3)
    merged = smaller(rows, lambda fitted: standard_errors(rows, fitted), fitted, parity=-1)
    assert merged is not None
    assert merged.k == 2
    assert math.isclose(fit_network(rows, merged).loss, 0.01, rel_tol=0.1)


def test_many_unknowns_are_fitted_by_gradients():
    weights, V, biases = _truth(k=2, d=1_100)  # k (d + 2) unknowns are too many for a matrix
    X = np.random.default_rng(0).standard_normal((3_000, 1_100))
    y = relu()(X @ V.T + biases) @ weights
    start = Network(weights * 1.1, V, relu(), biases + 0.05, positive=False)
    fitted = fit_network(Rows.of(X, y=y), start, max_iter=5)
    assert fitted.loss < 0.1 * fitted.history[0]


@pytest.mark.parametrize("fit_bias", [False, True])
@pytest.mark.parametrize("how", [{}, {"method": "paper", "degree": 2}], ids=["closed", "paper"])
def test_a_linear_activation_is_refused(how, fit_bias):
    X, y, _, _, _ = _draw("signed", 500)
    model = ActivationSumRegressor(lambda u: 2 + u, 2, positive=False, fit_bias=fit_bias, **how)
    with refuses("activation_linear"):
        model.fit(X, y)


def test_reports_and_files_have_the_biases(tmp_path):
    X, y, fresh, _, model = _draw("signed and biased", 1_500, k=2, d=3)
    model.fit(X, y)
    im.save(model, tmp_path / "model")
    again = im.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(fresh[0]), model.predict(fresh[0]))
    np.testing.assert_array_equal(again.biases_, model.biases_)
    (table,) = model._parameter_tables()
    assert {"bias", "bias error"} < set(table.columns)


NOTED = {
    # what the labels have, what is fitted, and the note that names the option
    "one negative weight": ({"negative": True}, {}, "negative_component"),
    "biases": ({"bias": 0.3}, {}, "biases_likely"),
    "two directions 0.3 rad apart": ({"near": True}, {"n_components": 2}, "neuron_missing"),
    "right": ({}, {}, None),
    "right, whitened": ({"shift": 2.0}, {"whiten": True}, None),
}


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("name", NOTED)
def test_what_the_model_cannot_express_is_noted_with_the_option_that_can(name, noise):
    labels, how, code = NOTED[name]
    rng = np.random.default_rng(len(name))
    V = np.linalg.qr(rng.standard_normal((5, 5)))[0][:3]
    if labels.get("near"):
        V[1] = np.cos(0.3) * V[0] + np.sin(0.3) * V[1]
    weights = np.array([1.0, 0.8, -0.4 if labels.get("negative") else 0.6])
    X = rng.standard_normal((3_000, 5))
    y = np.maximum(X @ V.T + labels.get("bias", 0.0) * np.array([1.0, -1.0, 0.5]), 0) @ weights
    y += noise * y.std() * rng.standard_normal(len(y))
    model = ActivationSumRegressor("relu", **{"n_components": 3, "random_state": 0, **how})
    model.fit(X + labels.get("shift", 0.0), y)
    said = {"negative_component", "biases_likely", "neuron_missing"} & {*model.notes_.codes}
    assert said == ({code} if code else set())


def test_a_polynomial_of_shifted_inputs_is_noted():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3_000, 4)) + 0.5
    y = np.maximum(X[:, :2], 0).sum(axis=1)
    how = {"n_components": 2, "whiten": False, "random_state": 0}
    model = ActivationSumRegressor("relu", refine=False, **how)
    with pytest.warns(im.AssumptionWarning):
        model.fit(X, y)
    assert "polynomial_of_other_inputs" in model.notes_.codes
    assert 1 - model.score(X, y) > 1e-3
    model.set_params(refine=True).fit(X, y)
    assert model.notes_ == []
    assert 1 - model.score(X, y) < 1e-9


def test_components_that_are_merged_are_counted():
    X = np.random.default_rng(0).standard_normal((2_000, 4))
    y = np.maximum(X[:, :2], 0).sum(axis=1)
    model = ActivationSumRegressor("relu", 3, random_state=0).fit(X, y)
    (note,) = model.notes_
    assert (note.code, dict(note.values)) == ("components_merged", {"asked": 3, "k": 2})
