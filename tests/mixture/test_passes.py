"""More rows than a search holds: blocks, iterators, Dask, files and checkpoints give one fit."""

import pickle
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

import implicitmoments as im
from implicitmoments.datasets import make_regression_mixture, make_spherical_mixture
from implicitmoments.mixture.estimator import SAMPLE_ROWS

N = SAMPLE_ROWS + 4_000
MODELS = {
    "full": partial(im.GaussianMixture, 3),
    "tied": partial(im.GaussianMixture, 3, covariance_type="tied"),
    "student": partial(im.GaussianMixture, 3, noise="student", covariance_type="diag"),
    "spherical": partial(im.SphericalMixture, 3),
    "lines": partial(im.RegressionMixture, 3),
    "student lines": partial(im.RegressionMixture, 3, noise="student", noise_type="separate"),
}


def data(name):
    """Rows of three components, with tails for Student's t; labels of lines."""
    rng = np.random.default_rng(0)
    scales = np.sqrt(5 / rng.chisquare(5, size=(N, 1))) if "student" in name else 1.0
    if "lines" in name:
        X, y, truth = make_regression_mixture(N, 3, 3, noise=0.3, random_state=0)
        exact = np.sum(X * truth.vectors[truth.labels], axis=1)
        return X, exact + np.ravel(scales) * (y - exact)
    X, truth = make_spherical_mixture(N, 3, 3, radius=6.0, separation=5.0, random_state=0)
    means = truth.vectors[truth.labels]
    return (means + scales * (X - means),)


def make(name):
    return MODELS[name](tol=1e-10, random_state=0)


def parameters(model):
    vectors = model.means_ if hasattr(model, "means_") else model.coef_
    return np.column_stack([model.weights_, vectors])


def same(one, other, **how):
    np.testing.assert_allclose(parameters(one), parameters(other), **how)
    assert one.lower_bound_ == pytest.approx(other.lower_bound_, abs=1e-9)


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    rows = data(request.param)
    return request.param, rows, make(request.param).fit(*rows)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_steps_are_counted_and_are_of_all_rows(fitted):
    """The search converges on a sample, so that a step of all rows has something to gain."""
    name, rows, model = fitted
    for n_steps in (1, 2):
        stopped = make(name).set_params(max_iter=n_steps).fit(*rows)
        levels = stopped.stats_["mean_log_likelihood_history"]
        assert (stopped.n_iter_, stopped.converged_, len(levels)) == (n_steps, False, n_steps + 1)
        assert levels[0] < levels[-1] <= model.lower_bound_ + 1e-9


def test_blocks_do_not_matter(fitted):
    name, rows, model = fitted
    small = make(name).set_params(rows_per_block=1_000).fit(*rows)
    same(small, model, rtol=1e-5, atol=1e-6)


def test_weights_are_repetitions(fitted):
    name, rows, _ = fitted
    some = [part[:6_000] for part in rows]
    counts = np.random.default_rng(1).integers(0, 3, size=6_000)
    weighted = make(name).fit(*some, sample_weight=counts)
    repeated = make(name).fit(*(np.repeat(part, counts, axis=0) for part in some))
    same(weighted, repeated, rtol=1e-4, atol=1e-5)


def test_one_seed_gives_one_fit_and_copies_answer_alike(fitted, tmp_path):
    name, rows, model = fitted
    np.testing.assert_array_equal(parameters(make(name).fit(*rows)), parameters(model))
    im.save(model, tmp_path / "model.im")
    some = [part[:50] for part in rows]
    expected = model.score_samples(*some)
    for copy in (pickle.loads(pickle.dumps(model)), im.load(tmp_path / "model.im")):
        np.testing.assert_allclose(copy.score_samples(*some), expected, rtol=1e-12)
        assert copy.notes_.codes == model.notes_.codes
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "weights_")


def test_single_precision_gives_the_same_fit(fitted):
    name, rows, model = fitted
    single = make(name).fit(*(part.astype(np.float32) for part in rows))
    np.testing.assert_allclose(parameters(single), parameters(model), atol=2e-4)
    assert single.score_samples(*(part[:9].astype(np.float32) for part in rows)).dtype == (
        np.float32
    )


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("given", [False, True])
def test_a_shared_covariance_of_more_rows_than_the_sample(seed, given):
    """Sums of a sample with the shared features of all rows would be no mixture."""
    rng = np.random.default_rng(seed)
    means = np.array([[0.0, 0.0], [5.0, 0.0], [10.0, 0.0], [3000.0, 0.0]])
    labels = rng.choice(4, size=3 * SAMPLE_ROWS, p=[0.333, 0.333, 0.333, 0.001])
    X = means[labels] + rng.normal(size=(len(labels), 2))
    start = means if given else None
    model = im.GaussianMixture(4, covariance_type="tied", means_init=start, random_state=0).fit(X)
    np.testing.assert_allclose(np.sort(model.means_[:, 0]), means[:, 0], atol=1.0)
    history = model.stats_["mean_log_likelihood_history"]
    assert history[0] > history[-1] - 0.1
    assert model.notes_ == []
    assert model.stats_["misclassification_rate"] < 0.02
