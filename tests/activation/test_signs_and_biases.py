"""Weights of both signs, biases, and odd activations."""

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments import ActivationSumRegressor
from implicitmoments.moments import as_activation
from support import refuses

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


@pytest.mark.parametrize(
    "how",
    [{"whiten": False}, {"whiten": True}],
    ids=["as given", "whitened"],
)
def test_negative_weights_are_noted_by_every_way_to_fit(how, tmp_path):
    X = np.random.default_rng(0).standard_normal((4_000, D))
    model = ActivationSumRegressor("relu", 2, refine=False, random_state=0, **how)
    with pytest.warns(im.AssumptionWarning, match="positive=False"):
        model.fit(X, np.maximum(X[:, 0], 0) - np.maximum(X[:, 1], 0))
    assert "negative_eigenvalue" in model.notes_.codes
    im.save(model, tmp_path / "model")
    again = im.load(tmp_path / "model")
    assert again.notes_ == model.notes_
    # the control: positive weights
    model.fit(X, np.maximum(X[:, 0], 0) + np.maximum(X[:, 1], 0))
    assert "negative_eigenvalue" not in model.notes_.codes


def test_negative_eigenvalues_of_other_inputs_are_not_noted():
    """A positive sum of inputs that are not standard has eigenvalues of both signs."""
    X = np.random.default_rng(0).standard_normal((4_000, D)) + 1
    y = np.maximum(X[:, 0], 0) + np.maximum(X[:, 1], 0)
    model = ActivationSumRegressor("relu", 2, refine=False, whiten=False)
    with pytest.warns(im.AssumptionWarning):
        model.fit(X, y)
    assert "negative_eigenvalue" not in model.notes_.codes


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
def test_the_number_of_components_is_found(name):
    right = 0
    for seed in range(4):
        X, y, fresh, _, model = _draw(name, 4_000, seed, noise=0.05, k=2, d=4)
        model.set_params(n_components="auto").fit(X, y)
        assert model.score(*fresh) > 0.995
        right += model.n_components_ == 2
    assert right >= 3


@pytest.mark.parametrize("fit_bias", [False, True])
def test_a_linear_activation_is_refused(fit_bias):
    X, y, _, _, _ = _draw("signed", 500)
    model = ActivationSumRegressor(lambda u: 2 + u, 2, positive=False, fit_bias=fit_bias)
    with refuses("activation_linear"):
        model.fit(X, y)


NOTED = {
    # what the labels have, what is fitted, and the note that names the option
    "one negative weight": ({"negative": True}, {}, "residuals_explained"),
    "biases": ({"bias": 0.3}, {}, "residuals_explained"),
    "two directions 0.3 rad apart": ({"near": True}, {"n_components": 2}, "residuals_explained"),
    "right": ({}, {}, None),
    "right, whitened": ({"shift": 2.0}, {"whiten": True}, None),
}


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("name", NOTED)
def test_what_the_model_cannot_express_is_noted(name, noise):
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
    assert ("residuals_explained" in model.notes_.codes) == (code is not None)


def test_a_polynomial_of_shifted_inputs_is_noted():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3_000, 4)) + 0.5
    y = np.maximum(X[:, :2], 0).sum(axis=1)
    how = {"n_components": 2, "whiten": False, "random_state": 0}
    model = ActivationSumRegressor("relu", refine=False, **how)
    with pytest.warns(im.AssumptionWarning):
        model.fit(X, y)
    assert "inputs_not_standard" in model.notes_.codes
    assert 1 - model.score(X, y) > 1e-3
    model.set_params(refine=True).fit(X, y)
    assert model.notes_ == []
    assert 1 - model.score(X, y) < 1e-9


def test_components_that_are_merged_are_counted():
    X = np.random.default_rng(0).standard_normal((2_000, 4))
    y = np.maximum(X[:, :2], 0).sum(axis=1)
    model = ActivationSumRegressor("relu", 3, random_state=0).fit(X, y)
    (note,) = model.notes_
    assert (note.code, dict(note.values)) == ("fewer_components", {"asked": 3, "k": 2})
