"""One rule for outliers, for rows with and without labels."""

import tracemalloc
import warnings

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.rows import ArrayTable, Rows, leave_out_outliers


def mixture(rng, n, k, d, apart=6.0):
    means = apart * rng.standard_normal((k, d))
    return means[rng.integers(k, size=n)] + rng.standard_normal((n, d))


def lines(rng, n, k, d):
    x = rng.standard_normal((n, d))
    coef = rng.standard_normal((k, d))
    y = np.einsum("nd,nd->n", x, coef[rng.integers(k, size=n)]) + 0.3 * rng.standard_normal(n)
    return x, y


@pytest.mark.parametrize(("n", "k", "d"), [(500, 1, 2), (2_000, 5, 3), (20_000, 10, 20)])
@pytest.mark.parametrize("far", [100.0, 1e4, 1e200])
def test_five_planted_outliers_are_left_out_of_points(rng, n, k, d, far):
    X = mixture(rng, n, k, d)
    planted = rng.standard_normal((5, d))
    planted *= far * np.abs(X).max() / 10 / np.linalg.norm(planted, axis=1)[:, None]
    X[:5] = planted * (1 + np.arange(5.0))[:, None]
    found = leave_out_outliers(Rows.of(X), k)
    assert (found.n_outliers, found.rows.kept) == (5, n - 5)
    np.testing.assert_array_equal(found.rows.points, X[5:])


@pytest.mark.parametrize("column", ["x", "y"])
@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_five_planted_outliers_are_left_out_of_labelled_rows(rng, column, unit):
    x, y = lines(rng, 3_000, 3, 4)
    x[:, 1] *= unit
    if column == "x":
        x[:5, 1] = unit * np.array([60, -70, 80, -90, 100])
    else:
        y[:5] = [200, -220, 250, -270, 300]
    found = leave_out_outliers(Rows.of(x, y=y), 3, labelled=True)
    assert (found.n_outliers, found.rows.kept) == (5, 2_995)


@pytest.mark.parametrize("d", [1, 2, 10, 50])
@pytest.mark.parametrize("n", [200, 5_000, 100_000])
def test_gaussian_rows_have_no_outliers(d, n):
    rng = np.random.default_rng(d)
    assert leave_out_outliers(Rows.of(rng.standard_normal((n, d))), 3).n_outliers == 0


def test_lines_have_no_outliers(rng):
    for k, d in [(1, 1), (3, 2), (8, 10)]:
        x, y = lines(rng, 20_000, k, d)
        rows = Rows.of(x, y=y)
        assert leave_out_outliers(rows, k, labelled=True).n_outliers == 0


@pytest.mark.parametrize("n_far", [5, 20, 400])
def test_a_far_group_stays_if_it_is_large_enough_for_a_component(rng, n_far):
    X = rng.standard_normal((4_000, 3))
    X[:n_far] += [300.0, 0.0, 0.0]
    found = leave_out_outliers(Rows.of(X), 2)
    assert found.n_outliers == (n_far if n_far < 6 else 0)
    # for methods of moments: of an equal share, 2,000 rows, 2 in 100
    found = leave_out_outliers(Rows.of(X), 2, least_share=0.02)
    assert found.n_outliers == (n_far if n_far < 40 else 0)


def test_outliers_beside_a_far_group(rng):
    X = rng.standard_normal((4_000, 3))
    X[:400] += [300.0, 0.0, 0.0]
    X[-2:] = [[0.0, 500.0, 0.0], [0.0, 0.0, -500.0]]
    found = leave_out_outliers(Rows.of(X), 2)
    assert found.n_outliers == 2
    np.testing.assert_array_equal(found.rows.points, X[:-2])


def test_weights_count_in_groups_and_zero_is_no_row(rng):
    X = rng.standard_normal((1_000, 2))
    X[:3] = [[100.0, 0.0], [100.5, 0.0], [0.0, 90.0]]
    counts = np.ones(1_000)
    counts[0], counts[2] = 40.0, 0.0
    found = leave_out_outliers(Rows.of(X, counts=counts), 1)
    assert found.n_outliers == 0  # 41 rows in a group, of 1,038
    assert leave_out_outliers(Rows.of(X), 1).n_outliers == 3


def test_the_rule_does_not_depend_on_map_or_blocks(rng):
    X = mixture(rng, 3_000, 3, 4)
    X[7] = 400.0
    plain = leave_out_outliers(Rows.of(X), 3)
    view = Rows(ArrayTable(X), rows_per_block=17).mapped(X[0], 0.1)
    mapped = leave_out_outliers(view, 3)
    assert plain.n_outliers == mapped.n_outliers == 1
    np.testing.assert_allclose(mapped.rows.points, (plain.rows.points - X[0]) * 0.1)


def test_no_array_of_the_size_of_the_rows_is_formed(rng):
    X = mixture(rng, 80_000, 3, 30)
    tracemalloc.start()
    leave_out_outliers(Rows.of(X), 3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < X.nbytes / 2


def test_a_sample_of_the_rows_is_enough():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((250_000, 2))
    X[::50_000] = [[100.0, 0], [0, 110], [-120, 0], [0, -130], [140, 0]]
    assert leave_out_outliers(Rows.of(X), 4).n_outliers == 5


def test_many_far_rows_are_structure(rng):
    X = rng.standard_normal((1_000, 2))
    X[:300] *= 1e3
    assert leave_out_outliers(Rows.of(X), 3).n_outliers == 0


def test_degenerate_rows(rng):
    assert leave_out_outliers(Rows.of(np.ones((10, 2))), 2).n_outliers == 0
    cube = rng.integers(0, 2, (500, 6)).astype(float)
    assert leave_out_outliers(Rows.of(cube), 4).n_outliers == 0


def test_every_library(xp, rng):
    X = mixture(rng, 2_000, 3, 4)
    X[:200] += 1e3
    X[-1] = -1e3
    found = leave_out_outliers(Rows.of(xp.asarray(X)), 3)
    assert found.n_outliers == 1
    assert found.rows.kept == 1_999


@pytest.mark.parametrize("far", [50.0, 1e4])
def test_all_estimators_leave_out_the_same_rows(rng, far):
    X, _ = im.datasets.make_spherical_mixture(
        1_500, 3, 4, radius=6.0, separation=6.0, random_state=0
    )
    direction = rng.standard_normal((5, 4))
    X[::300] = far * direction / np.linalg.norm(direction, axis=1)[:, None]
    models = [
        im.SphericalMixture(3, random_state=0),
        im.SphericalMixtureDensity(3, max_degree=2, random_state=0),
        im.SphericalMixtureClusterer(3, variance=1.0, random_state=0),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", im.AssumptionWarning)
        for model in models:
            assert model.fit(X).stats_["outliers"] == 5
            (note,) = [note for note in model.notes_ if note.code == "outliers"]
            assert note.values["n"] == 5


def test_all_rows_of_a_far_group_are_marked_however_many_they_are():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30_000, 2))
    X[:2_700] += [400.0, 0.0]  # more than are compared with one another
    X[-3:] = [[0.0, 500.0], [0.0, -600.0], [-700.0, 0.0]]
    found = leave_out_outliers(Rows.of(X), 2)
    assert found.n_outliers == 3
    np.testing.assert_array_equal(found.rows.points, X[:-3])


def test_a_background_of_far_rows_is_no_component(rng):
    """Far rows in two columns are near others by chance, but nowhere denser than elsewhere."""
    X = mixture(rng, 20_000, 5, 2)
    X[:100] = rng.uniform(-400, 400, (100, 2))
    n_far = np.count_nonzero(np.linalg.norm(X[:100], axis=1) > 100)
    assert leave_out_outliers(Rows.of(X), 5).n_outliers >= n_far
    X[100:112] = np.array([1_000.0, 0.0]) + rng.standard_normal((12, 2))
    rule = leave_out_outliers(Rows.of(X), 5).rule
    assert rule({"x": X})[100:112].all()
