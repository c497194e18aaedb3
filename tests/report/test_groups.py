"""Groups on the page: sizes, profiles, rows, pairs, and the choice of their number."""

import copy

import numpy as np
import pytest
from matplotlib.figure import Figure

import implicitmoments as im
from implicitmoments.plot.canvas import sample_rows
from implicitmoments.plot.fit_statistics import draw_choice
from implicitmoments.plot.groups import group_rows
from implicitmoments.report import write_report
from implicitmoments.report.tables import (
    heat_table,
    pair_table,
    row_table,
    shade_of,
    size_table,
)
from support import refuses

MEANS = np.array([[0.0, 0.0], [10.0, 0.0], [10.0, 4.0]])
SHARES = [0.2, 0.5, 0.3]


@pytest.fixture(scope="module")
def three():
    """Three groups of unequal size, the last two of them near each other."""
    rng = np.random.default_rng(3)
    labels = rng.choice(3, 600, p=SHARES)
    X = MEANS[labels] + rng.normal(size=(600, 2))
    model = im.SphericalMixture(3, random_state=0).fit(X)
    return model, X, group_rows(model, sample_rows(model, X, None, 5_000))


def test_groups_are_sorted_by_size_and_described(three):
    model, X, groups = three
    rows = size_table(groups).rows
    assert [row[0] for row in rows] == list(np.argsort(-model.weights_))
    assert sum(row[2] for row in rows) == len(X)
    counts = np.bincount(model.predict(X))
    assert [row[2] for row in rows] == counts[[row[0] for row in rows]].tolist()
    expected = (model.means_ - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(groups.deviations, expected)
    heat = heat_table(groups)
    assert heat.rows[0][1].shade == shade_of(expected[groups.order[0], 0])
    assert [shade_of(v) for v in (-9.0, 0.0, 0.31, 9.0, np.nan)] == [-5, 0, 1, 5, 0]


def test_typical_rows_are_near_and_ambiguous_ones_between(three):
    model, X, groups = three
    rows = row_table(groups).rows
    proba = model.predict_proba(X)
    for group, what, number, _, second, *values in rows:
        np.testing.assert_allclose(values, X[number - 1])  # row 1 is the first
        own = proba[number - 1]
        assert own.argmax() == group
        assert np.argsort(own)[-2] == second
        near = np.linalg.norm(X[number - 1] - model.means_[group]) < 0.6
        assert near if what == "typical" else own[group] < 0.999
    # the least certain row of all is among them
    assert int(proba.max(axis=1).argmin()) + 1 in [row[2] for row in rows if row[1] == "ambiguous"]


def test_row_numbers_are_those_of_all_rows(three):
    model, X, _ = three
    few = sample_rows(model, X, None, 50)
    np.testing.assert_array_equal(X[few.numbers], few.x)
    fewer = sample_rows(model, few, None, 10)
    np.testing.assert_array_equal(X[fewer.numbers], fewer.x)


def test_the_nearest_pair_comes_first(three):
    model, _, groups = three
    (pair, distance, _), *_ = pair_table(groups).rows
    near = [int(np.linalg.norm(model.means_ - mean, axis=1).argmin()) for mean in MEANS[1:]]
    assert pair == "{} and {}".format(*sorted(near))
    expected = np.linalg.norm(np.subtract(*model.means_[near])) / np.sqrt(model.variance_)
    assert distance == pytest.approx(expected, rel=0.01)


def test_distances_and_residuals_of_lines():
    X, y, _ = im.datasets.make_regression_mixture(600, 2, 3, noise=0.3, random_state=0)
    model = im.RegressionMixture(2, random_state=0).fit(X, y)
    groups = group_rows(model, sample_rows(model, X, y, 5_000))
    heights = X @ model.coef_.T + model.intercept_
    gap = np.sqrt(np.mean((heights[:, 0] - heights[:, 1]) ** 2)) / model.noise_[0]
    assert groups.distance(0, 1) == pytest.approx(gap)
    labels = model.predict_component(X, y)
    residuals = (y - heights[np.arange(600), labels]) / model.noise_[labels]
    np.testing.assert_allclose(groups.residuals, residuals)


def test_a_page_of_many_groups_is_in_facets(tmp_path, three):
    model, X, _ = three
    many = copy.copy(model)
    rng = np.random.default_rng(0)
    many.means_, many.weights_ = rng.normal(scale=6, size=(60, 2)), np.full(60, 1 / 60)
    path = write_report(many, X, path=tmp_path / "r.html", date="")
    text = path.read_text("utf-8")
    assert text.count('<figure id="components') == 10  # six in each
    assert path.stat().st_size < 1_500_000


BIC = {1: 300.0, 2: 104.0, 3: 101.0, 4: 100.0, 5: 120.0}


def with_stats(model, **stats):
    model = copy.copy(model)
    model.stats_ = model.stats_ | stats
    return model


def test_the_smallest_number_within_noise_is_marked(three):
    model, _, _ = three
    ax = Figure().add_subplot()
    with refuses("no_picture"):
        draw_choice(model, ax)
    errors = {1: 20.0, 2: 1.5, 3: 0.8, 4: 0.0, 5: 9.0}
    noisy = with_stats(model, bic_by_n_components=BIC, bic_noise_by_n_components=errors)
    draw_choice(noisy, ax)  # 4 is the least; 2 is 4 higher, of which 3 is noise
    marked = {line.get_label(): line.get_xydata()[0].tolist() for line in ax.lines}
    assert [3.0, 1.0] in marked.values()
    assert [4.0, 0.0] in marked.values()
    (check,) = [check for check in noisy._checks() if check.code == "bic"]
    assert check.passed
    sure = with_stats(noisy, bic_noise_by_n_components=dict.fromkeys(BIC, 0.1))
    assert not next(check for check in sure._checks() if check.code == "bic").passed
