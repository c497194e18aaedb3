"""Lines as good as those of EM from the truth, and errors that are what they are said to be."""

import numpy as np
from scipy.special import softmax

from implicitmoments import RegressionMixture
from implicitmoments.datasets import make_regression_mixture
from implicitmoments.mixture.em import Sample, run_em
from implicitmoments.mixture.lines import Lines
from implicitmoments.rows import Rows
from support import match_rows


def test_every_fit_is_as_good_as_em_from_the_truth_and_random_em_is_not():
    k, d, n_fits, random_good = 6, 8, 3, 0
    for seed in range(n_fits):
        X, y, truth = make_regression_mixture(
            8_000, k, d, noise=0.3, weights=np.geomspace(20, 1, k), random_state=seed
        )
        rows = Rows.of(X, y=y)
        family = Lines().prepare(rows)
        sample = Sample.of(family, rows)

        def error_from(coef, noise, X=X, y=y, family=family, sample=sample, truth=truth):
            squares = (y - coef @ X.T) ** 2 / noise**2
            start = softmax(-squares / 2, axis=0) @ sample.own
            (sums,) = run_em(sample, start[None], tol=1e-8).sums
            found = family.to_user(family.estimate(sums, family.pool(sums, sample.rest)))
            return match_rows(found["coef"], truth.vectors)[1].max()

        goal = error_from(truth.vectors, 0.3)
        ours = RegressionMixture(k, random_state=seed).fit(X, y)
        assert match_rows(ours.coef_, truth.vectors)[1].max() < 1.2 * goal
        random = np.random.default_rng(seed).normal(size=(k, d)) / np.sqrt(d)
        random_good += error_from(random, 1.0) < 1.2 * goal
    assert random_good < n_fits  # the control: one random start is not enough


def test_standard_errors_are_calibrated():
    """Errors over standard errors have variance 1; errors half as large would not pass."""
    z = []
    for seed in range(40):
        X, y, truth = make_regression_mixture(
            1_500, 2, 3, noise=0.5, separation=1.0, random_state=seed
        )
        model = RegressionMixture(2, random_state=0).fit(X, y)
        i, _ = match_rows(model.coef_, truth.vectors)
        z.append((model.coef_[i] - truth.vectors) / model.coef_errors_[i])
        z.append((model.intercept_ / model.intercept_errors_)[:, None].repeat(3, axis=1))
    square = np.mean(np.square(z))
    assert 0.75 < square < 1.3
    assert not 0.75 < 4 * square < 1.3
