"""Spreads about the means tell components that hold two groups from those that hold one."""

import numpy as np
import pytest

from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.mixture import ROWS_FOR_WIDTH, Gaussians, measure_within
from implicitmoments.rows import Rows


def mixture_of(means, weights=None):
    k = len(means)
    weights = np.full(k, 1 / k) if weights is None else weights
    means = np.asarray(means, dtype=float)
    return Gaussians(np.asarray(weights), means, np.ones(means.shape))


def test_one_component_is_the_covariance(rng):
    X = rng.normal(size=(500, 3)) * [1.0, 2.0, 5.0] @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    found = measure_within(Rows.of(X), mixture_of([X.mean(axis=0)]))
    np.testing.assert_allclose(found.spreads, X.std(axis=0), rtol=1e-12)
    top = np.linalg.eigvalsh(np.corrcoef(X.T))[-1]  # scaled to their spreads
    assert found.widths[0] == pytest.approx(top / (1 + np.sqrt(3 / 500)) ** 2, rel=1e-12)
    assert found.misclassification_rate == 0.0


def test_weights_are_repetitions(rng):
    X, counts = rng.normal(size=(200, 4)), rng.integers(0, 4, size=200)
    model = mixture_of([X[:100].mean(axis=0), X[100:].mean(axis=0) + 1.0])
    weighted = measure_within(Rows.of(X, counts=counts.astype(float)), model)
    repeated = measure_within(Rows.of(np.repeat(X, counts, axis=0)), model)
    np.testing.assert_allclose(weighted.spreads, repeated.spreads, rtol=1e-12)
    assert weighted.misclassification_rate == pytest.approx(repeated.misclassification_rate)


@pytest.mark.parametrize(("n", "k", "d"), [(2_000, 4, 5), (3_000, 30, 10), (1_000, 4, 50)])
def test_round_components_are_not_wide_and_two_in_one_are(n, k, d):
    X, truth = make_spherical_mixture(n, k, d, radius=6.0, separation=5.0, random_state=0)
    right = measure_within(Rows.of(X), mixture_of(truth.vectors))
    assert np.nanmax(right.widths) < 1.2
    assert right.spreads.max() / right.spreads.min() < 1.5
    joined = np.vstack([truth.vectors[:2].mean(axis=0), truth.vectors[2:]])
    wrong = measure_within(Rows.of(X), mixture_of(joined))
    assert np.nanargmax(wrong.widths) == 0
    assert wrong.widths[0] > 2.0


def test_columns_of_other_units_are_told_from_groups(rng):
    X, truth = make_spherical_mixture(4_000, 3, 4, radius=8.0, separation=8.0, random_state=0)
    units = np.array([1.0, 1.0, 1.0, 0.1])
    moved = truth.vectors[truth.labels] + rng.normal(size=X.shape) * units
    found = measure_within(Rows.of(moved), mixture_of(truth.vectors))
    np.testing.assert_allclose(found.spreads, units, rtol=0.1)
    assert np.nanmax(found.widths) < 1.2


def test_components_of_few_rows_are_not_judged(rng):
    X = np.vstack([rng.normal(size=(100, 2)), 50 + rng.normal(size=(ROWS_FOR_WIDTH - 1, 2))])
    found = measure_within(Rows.of(X), mixture_of([[0.0, 0.0], [50.0, 50.0]]))
    assert np.isnan(found.widths).tolist() == [False, True]
    nobody = measure_within(Rows.of(X[:3]), mixture_of([[0.0, 0.0]]))
    assert np.isnan(nobody.spreads).all()


def test_a_constant_column_has_no_spread(rng):
    X = np.column_stack([rng.normal(size=300), np.full(300, 7.0)])
    found = measure_within(Rows.of(X), mixture_of([X.mean(axis=0)]))
    assert found.spreads[1] == 0
    assert found.widths[0] == pytest.approx(1.0, abs=0.2)
