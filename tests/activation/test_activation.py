"""ActivationSumRegressor: what it learns, its errors and its notes."""

import math
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from implicitmoments import ActivationSumRegressor, AssumptionWarning
from implicitmoments.datasets import make_activation_sum
from implicitmoments.moments import as_activation, cosine, leaky_relu
from support import refuses

D, K = 6, 3


def _data(n, activation=None, noise=0.0, seed=0, d=D, k=K, weights=None):
    activation = as_activation(activation or "relu")
    X, y, truth = make_activation_sum(
        n + 5_000, k, d, activation=activation.function, weights=weights, random_state=seed
    )
    rng = np.random.default_rng(seed)
    fresh = X[n:], y[n:]
    return X[:n], y[:n] + noise * y.std() * rng.standard_normal(n), fresh, truth


def _match(found, truth, signed=True):
    """Distance of each true direction from the nearest that was found."""
    unit = found / np.linalg.norm(found, axis=1, keepdims=True)
    cosines = truth.vectors @ unit.T
    cosines = cosines if signed else np.abs(cosines)
    return np.sqrt(np.maximum(0, 2 - 2 * cosines.max(axis=1)))


@pytest.mark.parametrize(
    "activation",
    [
        cosine(1.0),
        cosine(1.0, 0.7),
        leaky_relu(0.2),
        *map(as_activation, ("relu", "gelu", "softplus")),
    ],
)
def test_noiseless_labels_are_fitted_to_rounding(activation):
    X, y, fresh, truth = _data(4_000, activation)
    model = ActivationSumRegressor(activation, K, random_state=0).fit(X, y)
    assert 1 - model.score(*fresh) < 1e-12
    assert model.stats_["hypothesis"] == "network"
    even = activation.coefficient(1) == 0
    assert _match(model.directions_, truth, signed=not even).max() < 1e-5
    np.testing.assert_allclose(model.weights_, 1 / K, atol=1e-5)


def test_the_polynomial_is_close_without_refinement():
    X, y, fresh, _ = _data(20_000)
    model = ActivationSumRegressor("relu", K, refine=False).fit(X, y)
    assert model.score(*fresh) > 0.985
    assert not hasattr(model, "directions_")
    # the control: a hypothesis of degree 1 leaves the kinks out
    slope = ActivationSumRegressor("relu", K, refine=False, degree=1).fit(X, y)
    assert slope.score(*fresh) < 0.95


def test_error_falls_with_the_rows():
    """Truncation apart, the squared error of a polynomial falls at least like 1/N."""
    errors = []
    for n in (1_000, 16_000):
        runs = [
            1
            - ActivationSumRegressor(cosine(), K, refine=False, degree=6)
            .fit(*_data(n, cosine(), 0.3, seed)[:2])
            .score(*_data(n, cosine(), 0.3, seed)[2])
            for seed in range(3)
        ]
        errors.append(np.mean(runs))
    assert errors[1] < errors[0] / 6


@pytest.mark.parametrize("asked", [5, "auto"])
def test_more_components_than_the_truth_are_left_out(asked):
    X, y, fresh, truth = _data(8_000, noise=0.3)
    model = ActivationSumRegressor("relu", asked, random_state=0).fit(X, y)
    assert model.n_components_ == K
    assert _match(model.directions_, truth).max() < 0.15
    assert model.score(*fresh) > 0.99


def test_more_directions_than_features():
    X, y, fresh, _ = _data(20_000, cosine(1.5), d=3, k=5)
    model = ActivationSumRegressor(cosine(1.5), 5, random_state=0).fit(X, y)
    assert 1 - model.score(*fresh) < 1e-9


def test_inputs_of_unknown_mean_and_covariance():
    X, y, fresh, truth = _data(8_000, noise=0.1)
    rng = np.random.default_rng(1)
    mix, shift = rng.standard_normal((D, D)) + 2 * np.eye(D), 3 + rng.standard_normal(D)
    model = ActivationSumRegressor("relu", K, random_state=0).fit(X @ mix + shift, y)
    assert model.stats_["whitened"]
    assert model.score(fresh[0] @ mix + shift, fresh[1]) > 0.99
    # directions act on x less its mean: (x mix) · u = x · v for u = mix⁻¹ v
    mapped = model.directions_ @ mix.T
    assert _match(mapped, truth).max() < 0.15
    # the control: without whitening the moments are those of something else
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        raw = ActivationSumRegressor("relu", K, whiten=False, refine=False).fit(X @ mix + shift, y)
    assert raw.score(fresh[0] @ mix + shift, fresh[1]) < 0.96


def test_weights_are_repetitions():
    X, y, fresh, _ = _data(1_500, noise=0.2)
    counts = np.random.default_rng(3).integers(0, 4, len(X))
    for refine, tolerance in ((False, 1e-6), (True, 3e-3)):
        how = {"n_components": K, "refine": refine, "random_state": 0, "whiten": True}
        weighted = ActivationSumRegressor("relu", **how).fit(X, y, sample_weight=counts)
        repeated = ActivationSumRegressor("relu", **how).fit(
            np.repeat(X, counts, axis=0), np.repeat(y, counts)
        )
        plain = ActivationSumRegressor("relu", **how).fit(X, y)
        a, b, c = (m.predict(fresh[0]) for m in (weighted, repeated, plain))
        assert np.abs(a - b).max() < tolerance * y.std()
        assert np.abs(a - c).max() > 10 * tolerance * y.std()  # the control


def test_squares_of_directions_are_not_identified():
    X, y, _ = make_activation_sum(4_000, K, D, activation="square", random_state=0)
    model = ActivationSumRegressor("square", K, random_state=0).fit(X, y)
    assert 1 - model.score(X, y) < 1e-9
    assert np.isnan(model.direction_errors_).all()
    assert "directions_not_identified" in model.notes_.codes
    # the control: directions of an absolute value are
    X, y, _ = make_activation_sum(4_000, K, D, activation="abs", random_state=0)
    model = ActivationSumRegressor("abs", K, random_state=0).fit(X, y)
    assert np.isfinite(model.direction_errors_).all()


def test_labels_of_another_activation_keep_the_polynomial():
    """A network of the wrong activation fits worse than a polynomial, which is noted."""
    X, y, _, _ = _data(8_000, cosine(2.5), k=2)
    model = ActivationSumRegressor("abs", 2, random_state=0).fit(X, -y)
    assert model.stats_["hypothesis"] == "polynomial"
    assert "polynomial_predicts" in model.notes_.codes


def test_a_sine_is_learned_and_a_phase_near_it_warned_about():
    sine = cosine(1.0, math.pi / 2)
    X, y, fresh, _ = _data(2_000, sine)
    assert ActivationSumRegressor(sine, K, random_state=0).fit(X, y).score(*fresh) > 0.999
    X, y, _, _ = _data(2_000, cosine(1.0, 0.7))
    for phase, parity in ((0.05, "even"), (math.pi / 2 - 0.05, "odd")):
        model = ActivationSumRegressor(cosine(1.0, phase), 2, degree=2, refine=False)
        with pytest.warns(AssumptionWarning):
            model.fit(X, y)
        (note,) = (note for note in model.notes_ if note.code == "nearly_symmetric")
        assert note.values["parity"] == parity
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ActivationSumRegressor(cosine(1.0, 0.7), 2, degree=2, refine=False).fit(X, y)


def test_vanishing_even_coefficients_are_refused_with_a_way_out():
    X, y, _, _ = _data(500)
    with refuses("coefficient_zero", order=3, largest=2):
        ActivationSumRegressor("square", degree=4).fit(X, y)


@pytest.mark.parametrize(
    "change",
    [
        lambda X: np.column_stack([X[:, :-1], np.exp(X[:, -1])]),
        lambda X: np.column_stack([np.sign(X[:, 0]), X[:, 1:]]),
        lambda X: X / np.sqrt(np.random.default_rng(0).uniform(0.4, 1.6, (len(X), 1))),
    ],
)
def test_inputs_that_are_not_gaussian(change):
    X, _, _, truth = _data(4_000)
    X = change(X)
    y = np.maximum(0, X @ truth.vectors.T).mean(axis=1)
    with pytest.warns(AssumptionWarning):
        model = ActivationSumRegressor("relu", K, random_state=0).fit(X, y)
    assert "inputs_not_gaussian" in model.notes_.codes
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"activation": "swish"}, "unknown_activation"),
        ({"positive": "no"}, "invalid_parameter"),
        ({"fit_bias": 1.5}, "invalid_parameter"),
        ({"activation": 3}, "unknown_activation"),
        ({"n_components": 0}, "invalid_parameter"),
        ({"n_components": "many"}, "invalid_parameter"),
        ({"n_components": 600}, "too_few_rows"),
        ({"degree": "high"}, "invalid_parameter"),
        ({"degree": -2}, "invalid_parameter"),
        ({"whiten": "yes"}, "invalid_parameter"),
        ({"whiten": 2}, "invalid_parameter"),
        ({"n_starts": 0}, "invalid_parameter"),
        ({"tol": -1.0}, "invalid_parameter"),
        ({"rows_per_block": 0}, "invalid_parameter"),
    ],
)
def test_parameters_are_checked(parameters, code):
    X, y, _, _ = _data(500)
    with refuses(code):
        ActivationSumRegressor(**parameters).fit(X, y)


def test_pipelines_and_searches():
    X, y, _, _ = _data(1_000, noise=0.1)
    search = GridSearchCV(
        ActivationSumRegressor(n_components=K, refine=False), {"activation": ["relu", "abs"]}, cv=2
    )
    assert search.fit(X, y).best_params_ == {"activation": "relu"}
    pipeline = make_pipeline(StandardScaler(), ActivationSumRegressor("relu", K, random_state=0))
    assert cross_val_score(pipeline, X, y, cv=2).min() > 0.9


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_the_scale_of_labels_does_not_matter(scale):
    X, y, fresh, _ = _data(3_000)
    model = ActivationSumRegressor("relu", K, random_state=0).fit(X, scale * y)
    assert 1 - model.score(fresh[0], scale * fresh[1]) < 1e-12


def test_a_second_fit_leaves_nothing_of_the_first():
    X, y, _, _ = _data(1_000)
    model = ActivationSumRegressor("relu", K, random_state=0).fit(X, y)
    model.set_params(refine=False).fit(X, y)
    assert not hasattr(model, "directions_")
    assert not hasattr(model, "network_")


@pytest.mark.filterwarnings("ignore:the moment of order 2")
@pytest.mark.parametrize("labels", [lambda y: -y, lambda y: 0 * y, lambda y: y + 5])
def test_labels_that_no_positive_sum_makes(labels):
    X, y, fresh, _ = _data(3_000)
    model = ActivationSumRegressor("relu", K, random_state=0).fit(X, labels(y))
    assert np.isfinite(model.predict(fresh[0])).all()
    assert model.notes_


def test_a_fit_that_does_not_converge_is_noted():
    X, y, _, _ = _data(2_000, noise=0.3)
    with pytest.warns(ConvergenceWarning):
        model = ActivationSumRegressor("relu", K, max_iter=1, tol=0.0, random_state=0).fit(X, y)
    assert model.notes_.codes[-1] == "not_converged"
    assert model.notes_[-1].values == {"max_iter": 1}


def test_the_degree_is_the_even_one_of_least_held_out_error():
    X, y, _, _ = _data(300, noise=0.5)
    model = ActivationSumRegressor("relu", K, refine=False).fit(X, y)
    errors = model.stats_["error_by_degree"]
    assert set(errors) == {2, 4, 6, 8, 10}
    assert model.degree_ == min(errors, key=errors.get)


def _relus(k, d, seed, n=6_000, noise=0.3):
    """Return rows, labels with noise, and fresh ones without; weights from 0.5 to 2."""
    rng = np.random.default_rng(seed)
    V = rng.normal(size=(k, d))
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    w = rng.uniform(0.5, 2, k)
    X, T = rng.normal(size=(n, d)), rng.normal(size=(10_000, d))
    y, z = (np.maximum(x @ V.T, 0) @ w for x in (X, T))
    return X, y + noise * rng.normal(size=n), (T, z)


@pytest.mark.parametrize("seed", [0, 3])
def test_directions_that_the_moments_do_not_count_are_added(seed):
    X, y, fresh = _relus(8, 15, seed)
    model = ActivationSumRegressor(random_state=0).fit(X, y)
    assert model.n_components_ == 8
    assert model.score(*fresh) > 0.999
    # only those that the moments count
    fewer = ActivationSumRegressor(n_components=6, random_state=0).fit(X, y)
    assert fewer.score(*fresh) < 0.996
