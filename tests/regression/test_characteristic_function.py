"""The characteristic function as a density of regressors."""

import numpy as np

from implicitmoments.datasets import make_regression_mixture
from implicitmoments.regression import (
    LineFamily,
    Lines,
    Model,
    design_rows,
    search_span,
    unalias,
)
from implicitmoments.regression import initialisation as cf
from implicitmoments.rows import Rows
from implicitmoments.search import Budget, run_em

N, K, D = 40_000, 4, 6


def data(seed=0, **how):
    how = {"noise": 0.3, **how}
    X, y, truth = make_regression_mixture(N, K, D, random_state=seed, **how)
    scale = y.std()
    rows = design_rows(Rows.of(X, y=y / scale))
    coef = np.column_stack([np.zeros(K), truth.vectors / scale])
    lines = Lines(truth.weights, coef, np.full(K, (truth.noise / scale) ** 2))
    return rows, lines


def test_it_is_a_sum_of_kernels_at_the_regressors(rng):
    rows, lines = data()
    omega = 2.0
    waves = cf.WaveRows.of(rows).waves(omega)
    b = np.vstack(
        [
            lines.coef,
            cf.random_points(rng, 20, cf.WaveRows.of(rows)),
        ]
    )
    squares = np.sum((b[:, None] - lines.coef) ** 2, axis=2)
    exact = np.exp(-0.5 * omega**2 * (squares + lines.variances)) @ lines.weights
    values, _ = waves.climb(b)
    assert np.all(np.abs(values - exact) < 5 * waves.noise)
    # negative control: another bandwidth does not pass
    wrong = np.exp(-0.5 * 1.5**2 * (squares + lines.variances)) @ lines.weights
    assert np.any(np.abs(values - wrong) > 5 * waves.noise)


def test_gradients_are_those_of_the_values(rng):
    rows, _ = data()
    waves = cf.WaveRows.of(rows).waves(1.7)
    b, step = (
        cf.random_points(rng, 3, cf.WaveRows.of(rows)),
        2e-2,
    )
    _, gradients = waves.climb(b)
    for j in range(D + 1):
        away = step * np.eye(D + 1)[j]
        slope = (waves.climb(b + away)[0] - waves.climb(b - away)[0]) / (2 * step)
        np.testing.assert_allclose(gradients[:, j], slope, atol=2e-3)


def test_peaks_are_the_regressors(rng):
    rows, lines = data()
    seen = cf.WaveRows.of(rows)
    waves = seen.waves(2.4)
    points = cf.climb_peaks(waves, cf.random_points(rng, 40, seen), 25, Model())
    peaks = cf.separate(waves, points, 0.35)
    clear = peaks.points[peaks.z > cf.noise_maximum(D + 1)]
    assert len(clear) == K
    apart = np.linalg.norm(clear[:, None] - lines.coef, axis=2)
    assert apart.min(axis=0).max() < 0.15


def test_what_right_lines_leave_is_noise_and_a_missing_line_is_not(rng):
    rows, lines = data()
    seen = cf.WaveRows.of(rows)
    points = np.vstack([lines.coef, cf.random_points(rng, 100, seen)])
    (waves,) = seen.waves_beside(lines, (2.0,), rng)
    z = waves.climb(points)[0] / waves.noise
    assert np.abs(z).max() < 5
    assert cf.peaks_left(seen, lines, Model(), rng).z[0] < cf.noise_maximum(D + 1)
    missing = run_em(LineFamily(Model()), rows, lines.drop(2), Budget(N, 30, 1e-6)).state
    (waves,) = seen.waves_beside(missing, (2.0,), rng)
    z = waves.climb(lines.coef[2:3])[0] / waves.noise
    assert z[0] > 20
    assert cf.peaks_left(seen, missing, Model(), rng).z[0] > 20


def test_what_lines_explain_is_taken_out_whatever_the_law_of_x(rng):
    """With inputs of two values, kernels of Gaussian shape would leave something over."""
    X = rng.choice([-1.0, 1.0], size=(N, D))
    coef = np.zeros((2, D + 1))
    coef[:, 1:] = rng.normal(size=(2, D)) / np.sqrt(D)
    labels = rng.integers(2, size=N)
    y = np.sum(X * coef[labels, 1:], axis=1) + 0.3 * rng.normal(size=N)
    rows = design_rows(Rows.of(X, y=y))
    lines = Lines(np.full(2, 0.5), coef, np.full(2, 0.09))
    seen = cf.WaveRows.of(rows)
    (waves,) = seen.waves_beside(lines, (2.0,), rng)
    z = waves.climb(np.vstack([coef, cf.random_points(rng, 50, seen)]))[0] / waves.noise
    assert np.abs(z).max() < 5


def test_intercepts_that_look_alike_at_one_frequency_differ_at_another(rng):
    X = rng.normal(size=(20_000, 2))
    y = 1.0 + X @ [0.5, 0.0] + 0.2 * rng.normal(size=20_000)
    rows = design_rows(Rows.of(X, y=y))
    seen = cf.WaveRows.of(rows)
    true = np.array([[1.0, 0.5, 0.0]])
    alias = true + np.array([2 * np.pi / 2.8, 0, 0])
    narrow = seen.waves(2.8)
    np.testing.assert_allclose(narrow.climb(alias)[0], narrow.climb(true)[0], atol=1e-3)
    np.testing.assert_allclose(unalias(seen.waves(2.4), alias, 2.8), true)


def test_with_many_features_the_span_of_the_regressors_is_searched():
    X, y, truth = make_regression_mixture(30_000, 3, 80, noise=0.3, random_state=0)
    rows = design_rows(Rows.of(X, y=y / y.std()))
    basis = search_span(rows, 3)
    assert basis.shape == (8, 81)
    np.testing.assert_allclose(basis @ basis.T, np.eye(8), atol=1e-12)
    inside = np.linalg.norm(truth.vectors @ basis[:, 1:].T, axis=1)
    assert inside.min() > 0.9
    random = np.linalg.qr(np.random.default_rng(0).normal(size=(80, 7)))[0]
    assert np.linalg.norm(truth.vectors @ random, axis=1).max() < 0.9
    assert search_span(data()[0], K) is None
