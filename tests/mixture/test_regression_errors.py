"""Standard errors of lines: least squares, singular information, and errors that are robust."""

import numpy as np
import pytest

from implicitmoments import RegressionMixture
from implicitmoments.regression import Lines, Model, ScoredLines, design_rows, line_errors
from implicitmoments.rows import Rows
from implicitmoments.search import information_sums, measure_information


def test_one_line_has_the_covariance_of_least_squares(rng):
    """Also the sandwich: HC3, but for a factor exp(2h) (1 - h)² of each row."""
    X, n = rng.normal(size=(500, 3)), 500
    y = X @ [1.0, 0, 0] + rng.normal(size=n) * (1 + np.abs(X[:, 0]))
    rows, Z = design_rows(Rows.of(X, y=y)), np.column_stack([np.ones(n), X])
    b = np.linalg.lstsq(Z, y, rcond=None)[0]
    squares, inverse = (y - Z @ b) ** 2, np.linalg.inv(Z.T @ Z)
    scored = ScoredLines(Lines(np.ones(1), b[None], np.full(1, squares.mean())), Model())
    found = line_errors(rows, scored)
    np.testing.assert_allclose(found.coef[0], squares.sum() / (n - 5) * inverse, rtol=1e-6)
    np.testing.assert_allclose(found.noise, np.sqrt(squares.mean() / (2 * (n - 5))), rtol=1e-6)
    assert found.weights.tolist() == [0.0]
    h = np.einsum("na,ab,nb->n", Z, inverse, Z)
    hc3 = inverse @ ((Z.T * squares / (1 - h) ** 2) @ Z) @ inverse
    robust = line_errors(rows, scored, robust=True).coef[0]
    np.testing.assert_allclose(np.diag(robust), np.diag(hc3), rtol=0.02)
    assert np.diag(robust)[1] > 1.5 * np.diag(found.coef[0])[1]


def test_lines_that_coincide_have_no_errors(rng):
    X = rng.normal(size=(200, 2))
    rows = design_rows(Rows.of(X, y=X[:, 0]))
    same = Lines(np.full(2, 0.5), np.zeros((2, 3)), np.full(2, 1e-12))
    assert np.all(np.isnan(line_errors(rows, ScoredLines(same, Model())).coef))


def test_more_rows_are_used_where_few_leave_the_information_indefinite(rng):
    X, labels = rng.normal(size=(4_000, 3)), rng.integers(2, size=4_000)
    coef = np.array([[0.0, 1.0, 0.5, 0.0], [0.0, -1.0, 0.0, 0.5]])
    y = np.sum(X * coef[labels, 1:], axis=1) + 0.5 * rng.normal(size=4_000)
    rows = design_rows(Rows.of(X, y=y))
    scored = ScoredLines(Lines(np.full(2, 0.5), coef, np.full(2, 0.25)), Model())
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(measure_information(rows.sample(2), scored))
    assert np.all(np.isfinite(line_errors(rows, scored, n=2).coef))


def test_errors_are_none_if_not_asked_for_and_noted_if_unknown(rng):
    X = rng.normal(size=(60, 2))
    model = RegressionMixture(2, errors=None, random_state=0).fit(X, X[:, 0])
    names = ("weight_errors_", "coef_errors_", "intercept_errors_", "noise_errors_")
    assert [getattr(model, name) for name in names] == [None] * 4
    assert [table.name for table in model._parameter_tables()] == ["Lines"]
    few = RegressionMixture(1, random_state=0).fit(rng.normal(size=(7, 5)), rng.normal(size=7))
    assert "errors_unknown" in few.notes_.codes
    assert np.isnan(few.coef_errors_).all()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("freedom", [np.inf, 5.0])
@pytest.mark.parametrize("intercept", [True, False])
def test_sums_of_the_information_are_those_of_all_scores(rng, shared, freedom, intercept):
    """Products of numbers with z zᵀ, and the same sums of the scores of each row."""
    X, k = rng.normal(size=(300, 4)), 3
    rows = design_rows(Rows.of(X, y=rng.normal(size=300), counts=rng.uniform(1, 3, size=300)))
    coef = rng.normal(size=(k, 5))
    coef[:, 0] *= intercept
    variances = np.full(k, 0.5) if shared else np.array([0.3, 0.5, 1.0])
    lines = Lines(np.array([0.5, 0.3, 0.2]), coef, variances, np.full(k, freedom))
    scored = ScoredLines(lines, Model(shared, intercept, not np.isinf(freedom)))
    fast, plain = scored.information(rows.block), information_sums(scored, rows.block)
    assert fast.keys() == plain.keys()
    for name, value in plain.items():
        np.testing.assert_allclose(fast[name], value, rtol=1e-9, atol=1e-9, err_msg=name)
