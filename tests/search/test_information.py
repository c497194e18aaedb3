"""The information is minus the second derivative of the log-likelihood, whatever the model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from implicitmoments.mixture import CovarianceType, Gaussians, ScoredGaussians, log_densities
from implicitmoments.mixture.gaussians import COVARIANCE_TYPES, symmetric
from implicitmoments.regression import Lines, Model, ScoredLines, design_rows, responsibilities
from implicitmoments.rows import Rows
from implicitmoments.search import measure_information, parameter_covariance

STEP = 3e-3


def curvature(function, direction):
    """Minus the second derivative of a function at 0 along a direction, to fourth order."""
    weights = {-2: -1, -1: 16, 0: -30, 1: 16, 2: -1}
    values = (w * function(s * STEP * direction) for s, w in weights.items())
    return -sum(values) / (12 * STEP**2)


def softmax(logs):
    return np.exp(logs) / np.exp(logs).sum()


def moved_weights(weights, theta):
    return softmax(np.log(weights) + np.append(theta[len(theta) - len(weights) + 1 :], 0.0))


class LineModel:
    """Lines at random, and their twin: the log-likelihood at other parameters."""

    def __init__(self, rng, shared, intercept, freedom=np.inf):
        k, q = 3, 3
        self.model = Model(shared, intercept, np.isfinite(freedom))
        coef = rng.normal(size=(k, q)) * (np.arange(q) >= self.model.first)
        variances = np.full(k, 0.5) if shared else rng.uniform(0.3, 1.5, size=k)
        self.lines = Lines(softmax(rng.normal(size=k)), coef, variances, np.full(k, freedom))
        self.scored = ScoredLines(self.lines, self.model)
        self.X, self.y = rng.normal(size=(40, q - 1)), rng.normal(size=40)
        self.rows = design_rows(Rows.of(self.X, y=self.y, counts=rng.uniform(0, 2, size=40)))
        self.n_parameters = self.model.n_parameters(k, q)

    def log_likelihood(self, theta):
        lines, first = self.lines, self.model.first
        k, q = lines.coef.shape
        own, p = self.scored.n_own, q - first
        places = k * own if self.model.shared else p + own * np.arange(k)
        precision = 1 + np.broadcast_to(theta[places], k)
        coef = lines.coef.copy()
        g = theta[: k * own].reshape(k, own)[:, :p]
        coef[:, first:] += np.sqrt(lines.variances)[:, None] * g / precision[:, None]
        weights = moved_weights(lines.weights, theta)
        tail = theta[k * own + self.model.shared] if self.model.student else 0.0
        moved = Lines(weights, coef, lines.variances / precision, lines.freedom * np.exp(tail))
        block = self.rows.block
        return float(block["counts"] @ responsibilities(moved, block["x"].T)[1])


class GaussianModel:
    """Gaussians at random, and their twin."""

    def __init__(self, rng, name, known, freedom=np.inf):
        k, d = 2, 2
        self.kind, self.known = CovarianceType(name), known
        A = rng.normal(size=(k, d, d))
        C = self.kind.constrained(A @ A.transpose(0, 2, 1) + 0.3 * np.eye(d))
        C = np.repeat(C[:1], k, axis=0) if self.kind.tied else C
        self.mixture = Gaussians(
            softmax(rng.normal(size=k)), rng.normal(size=(k, d)), C, np.full(k, freedom)
        )
        self.scored = ScoredGaussians(self.mixture, self.kind, known)
        self.X, self.counts = rng.normal(size=(40, d)), rng.uniform(0, 2, size=40)
        self.rows = Rows.of(self.X, counts=self.counts)
        self.n_parameters = k * self.scored.n_own + self.scored.n_common + k - 1

    def log_likelihood(self, theta):
        mixture, own = self.mixture.expanded(), self.scored.n_own
        k, d = mixture.means.shape
        roots = np.linalg.cholesky(mixture.covariances)
        means, covariances = [], []
        for i in range(k):
            start = k * own if self.kind.tied else i * own + d
            inverse = np.linalg.inv(self.precision(theta[start : start + self.scored.n_shape], d))
            h = theta[i * own : i * own + d]
            means.append(mixture.means[i] + roots[i] @ inverse @ h)
            covariances.append(roots[i] @ inverse @ roots[i].T)
        weights = moved_weights(mixture.weights, theta)
        tail = theta[len(theta) - k] if np.isfinite(self.scored.freedom) else 0.0
        freedom = mixture.freedom * np.exp(tail)
        moved = Gaussians(weights, np.array(means), np.array(covariances), freedom)
        return float(self.counts @ log_densities(self.X, moved))

    def precision(self, shape, d):
        if self.known:
            return np.eye(d)
        if self.kind.shape == "full":
            return np.eye(d) + shape[symmetric(d)]
        return np.eye(d) + np.diag(np.broadcast_to(shape, d))


MODELS = {
    **{f"lines {s} {i}": (LineModel, (s, i)) for s in (True, False) for i in (True, False)},
    **{f"student {s}": (LineModel, (s, True, 3.0)) for s in (True, False)},
    **{name: (GaussianModel, (name, False)) for name in COVARIANCE_TYPES},
    **{f"t {name}": (GaussianModel, (name, False, 4.0)) for name in ("full", "tied_diag")},
    "known": (GaussianModel, ("tied_spherical", True)),
}


@pytest.mark.parametrize("name", MODELS)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=5, deadline=None)
def test_it_is_minus_the_second_derivative(name, seed):
    make, how = MODELS[name]
    model = make(np.random.default_rng(seed), *how)
    found = measure_information(model.rows, model.scored)
    m = model.n_parameters
    assert found.shape == (m, m)
    directions = np.random.default_rng(seed + 1).normal(size=(2 * m, m)) / np.sqrt(m)
    exact = [curvature(model.log_likelihood, each) for each in directions]
    forms = np.einsum("na,ab,nb->n", directions, found, directions)
    np.testing.assert_allclose(forms, exact, atol=1e-6 * np.abs(found).max())


@pytest.mark.parametrize("name", ["lines True True", "full", "tied_diag"])
def test_leverages_are_traces_of_the_information_of_a_row(name, rng):
    """The curvature of a single row, for shares that do not count, is what leverages trace."""
    make, how = MODELS[name]
    model = make(rng, *how)
    k, q = len(model.scored.weights), model.scored.n_own + model.scored.n_common
    roots = rng.normal(size=(k, q, q))
    V = roots @ roots.transpose(0, 2, 1)
    block = next(iter(model.rows.blocks()))
    leverages = np.broadcast_to(model.scored.leverages(block, V), (40, k))
    found = model.scored(block)
    counted = found.shares * block["counts"][:, None]
    np.testing.assert_allclose(
        np.sum(counted * leverages, axis=0), np.einsum("iab,iab->i", V, found.curvatures)
    )


@pytest.mark.parametrize("robust", [False, True])
def test_weights_are_repetitions_and_samples_are_scaled(robust, rng):
    X, times = rng.normal(size=(300, 2)), rng.integers(1, 4, size=300)
    X[:150] += 3
    mixture = Gaussians(np.full(2, 0.5), np.array([[3.0, 3], [0, 0]]), np.ones((2, 2)))
    scored = ScoredGaussians(mixture, CovarianceType("diag"))
    weighted = Rows.of(X, counts=times.astype(float))
    repeated = Rows.of(np.repeat(X, times, axis=0))
    found = parameter_covariance(weighted, scored, robust=robust)
    np.testing.assert_allclose(found, parameter_covariance(repeated, scored, robust=robust))
    some = parameter_covariance(weighted, scored, robust=robust, n=120)
    ratio = np.diag(some) / np.diag(found)
    assert not np.allclose(some, found)
    assert np.all((ratio > 0.4) & (ratio < 2.5))
