"""The information is minus the second derivative of the log-likelihood."""

import numpy as np
import pytest

from implicitmoments.regression import (
    LineFamily,
    Lines,
    Model,
    covariances,
    design_rows,
    information,
)
from implicitmoments.rows import Rows


def lines_at(theta, k, q, model, shared):
    """Lines from coefficients, log-weights less that of the last, and log-variances."""
    first = 0 if model.intercept else 1
    p = q - first
    coef = np.zeros((k, q))
    coef[:, first:] = theta[: k * p].reshape(k, p)
    logs = np.append(theta[k * p : k * p + k - 1], 0.0)
    weights = np.exp(logs) / np.exp(logs).sum()
    noise = np.exp(theta[k * p + k - 1 :])
    return Lines(weights, coef, np.full(k, noise[0]) if shared else noise)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
def test_it_is_minus_the_second_derivative(rng, shared, intercept):
    model, k, q, n = Model(shared=shared, intercept=intercept), 3, 3, 200
    X, y, counts = rng.normal(size=(n, q - 1)), rng.normal(size=n), rng.uniform(0, 2, size=n)
    rows = design_rows(Rows.of(X, y=y, counts=counts))
    p = q - (0 if intercept else 1)
    theta = rng.normal(size=k * p + k - 1 + (1 if shared else k)) * 0.5

    def log_likelihood(at):
        lines = lines_at(at, k, q, model, shared)
        return LineFamily(model).e_step(rows, lines).log_likelihood

    step, m = 1e-3, len(theta)
    E = step * np.eye(m)
    second = np.zeros((m, m))
    for i in range(m):
        for j in range(i, m):
            second[i, j] = second[j, i] = (
                log_likelihood(theta + E[i] + E[j])
                - log_likelihood(theta + E[i] - E[j])
                - log_likelihood(theta - E[i] + E[j])
                + log_likelihood(theta - E[i] - E[j])
            ) / (4 * step**2)
    found = information(rows, lines_at(theta, k, q, model, shared), model)
    np.testing.assert_allclose(found, -second, atol=2e-3 * np.abs(second).max())


def test_one_line_has_the_covariance_of_least_squares(rng):
    X = rng.normal(size=(500, 3))
    y = X @ [1.0, 0, 0] + rng.normal(size=500)
    rows = design_rows(Rows.of(X, y=y))
    Z = np.column_stack([np.ones(500), X])
    b, left = np.linalg.lstsq(Z, y, rcond=None)[:2]
    variance = left[0] / 500
    found = covariances(rows, Lines(np.ones(1), b[None], np.full(1, variance)), Model())
    np.testing.assert_allclose(found[0], variance * np.linalg.inv(Z.T @ Z), rtol=1e-6)


def test_lines_that_coincide_have_no_errors(rng):
    X = rng.normal(size=(200, 2))
    rows = design_rows(Rows.of(X, y=X[:, 0]))
    same = Lines(np.full(2, 0.5), np.zeros((2, 3)), np.full(2, 1e-12))
    assert np.all(np.isnan(covariances(rows, same, Model())))


def test_more_rows_are_used_where_few_leave_the_information_indefinite(rng):
    X, labels = rng.normal(size=(4_000, 3)), rng.integers(2, size=4_000)
    coef = np.array([[0.0, 1.0, 0.5, 0.0], [0.0, -1.0, 0.0, 0.5]])
    y = np.sum(X * coef[labels, 1:], axis=1) + 0.5 * rng.normal(size=4_000)
    rows = design_rows(Rows.of(X, y=y))
    lines = Lines(np.full(2, 0.5), coef, np.full(2, 0.25))
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(information(rows.sample(2), lines, Model()))
    assert np.all(np.isfinite(covariances(rows, lines, Model(), n=2)))
