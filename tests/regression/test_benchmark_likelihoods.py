"""What the benchmark of real data compares: one likelihood for all tools, tables of a page."""

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.datasets import make_regression_mixture
from implicitmoments.regression import Lines, Model


@pytest.fixture(scope="module")
def sample(benchmark):
    X, y, truth = make_regression_mixture(400, 2, 3, noise=0.3, random_state=0)
    labels = [str(label) for label in truth.labels]
    return benchmark("real_lines").Sample(2 * X + 1, 3 * y - 5, labels, len(y))


@pytest.mark.parametrize("noise", ["shared", "separate"])
def test_the_judge_has_the_likelihoods_of_the_estimator(benchmark, sample, noise):
    lines = benchmark("real_lines")
    train, test = sample.split(1)
    model = im.RegressionMixture(2, noise_type=noise, drop_outliers=False, random_state=1)
    model.fit(train.X, train.y)
    found = lines.fit_part(train, 2, noise, 1, lines.OURS)
    fit = lines.judge(train, test, noise, found, 0.0)
    assert fit.log_likelihood / fit.n_fitted == pytest.approx(model.score(train.X, train.y))
    assert fit.held_out / fit.n_held == pytest.approx(model.score(test.X, test.y))
    assert fit.bic == pytest.approx(model.bic(train.X, train.y))
    assert not fit.collapsed


def test_a_split_has_every_row_once(sample):
    train, test = sample.split(3)
    assert (len(train.y), len(test.y)) == (280, 120)
    assert sorted(np.concatenate([train.y, test.y])) == sorted(sample.y)
    where = dict(zip(sample.y, sample.labels, strict=True))
    assert train.labels == [where[value] for value in train.y]


def test_lines_in_standard_units_and_back(benchmark, sample):
    parts = benchmark("regression_parts").Parts(sample.X, sample.y, Model(shared=False))
    rng = np.random.default_rng(0)
    given = Lines(np.array([0.3, 0.7]), rng.normal(size=(2, 4)), np.array([0.5, 2.0]))
    back = parts.from_standard(parts.to_standard(given))
    np.testing.assert_allclose(back.coef, given.coef)
    np.testing.assert_allclose(back.variances, given.variances)


@pytest.mark.parametrize("part", ["moments only", "moves only"])
def test_parts_find_lines_that_are_clear(benchmark, sample, part):
    lines = benchmark("real_lines")
    train, test = sample.split(1)
    found = [lines.fit_part(train, 2, "shared", 1, of) for of in (lines.OURS, part)]
    ours, other = (lines.judge(train, test, "shared", each, 0.0) for each in found)
    assert other.log_likelihood == pytest.approx(ours.log_likelihood, abs=0.1)


def test_tables_of_one_section_are_replaced(benchmark, tmp_path):
    page = tmp_path / "page.md"
    marks = "<!-- {0}: begin -->\nold {0}\n<!-- {0}: end -->\n"
    page.write_text(f"a\n{marks.format('tables')}b\n{marks.format('large')}c\n")
    benchmark("real_data").replace_tables(page, "new", "large")
    text = page.read_text()
    assert text.startswith(f"a\n{marks.format('tables')}b\n<!-- large: begin -->\n\nnew\n")
    assert text.endswith("<!-- large: end -->\nc\n")
    assert "old large" not in text


def test_a_page_without_the_marks_is_left_alone(benchmark, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("text")
    with pytest.raises(ValueError, match="<!-- large: begin -->"):
        benchmark("real_data").replace_tables(page, "new", "large")
    assert page.read_text() == "text"
