"""Regressions from rows that lie anywhere: sources, other libraries, other devices."""

import array_api_strict
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from implicitmoments import RegressionMixture
from implicitmoments.arrays import to_numpy
from implicitmoments.datasets import make_regression_mixture
from implicitmoments.rows import ArrayTable, MemoryBudget, Rows
from support import Watched, match_rows

ELSEWHERE = array_api_strict.Device("device1")
ARRAYS = ("coef_", "intercept_", "weights_", "noise_", "coef_errors_", "intercept_errors_")


@pytest.fixture(scope="module")
def data():
    return make_regression_mixture(6_000, 3, 4, noise=0.3, random_state=0)


@pytest.fixture(scope="module")
def model(data):
    X, y, _ = data
    return RegressionMixture(3, random_state=0).fit(X, y)


def same(found, expected, **how):
    for name in ARRAYS:
        np.testing.assert_allclose(
            to_numpy(getattr(found, name)), getattr(expected, name), err_msg=name, **how
        )


def test_a_source_of_arrays_is_fitted_as_the_arrays_are(data, model):
    X, y, _ = data
    found = RegressionMixture(3, random_state=0).fit(ArrayTable(X, y=y))
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(found, name), getattr(model, name))
    source = Watched(x=X, y=y)
    np.testing.assert_array_equal(found.score_samples(source), model.score_samples(X, y))
    np.testing.assert_allclose(found.score(source), model.score(X, y))
    np.testing.assert_allclose(found.bic(source), model.bic(X, y))
    np.testing.assert_array_equal(found.predict_proba(source), model.predict_proba(X, y))


def test_rows_elsewhere_are_fitted_as_rows_in_memory_are(data, model):
    X, y, _ = data
    found = RegressionMixture(3, random_state=0).fit(Watched(x=X, y=y))
    same(found, model, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.lower_bound_, model.lower_bound_)


@pytest.mark.parametrize("how", [{"fit_intercept": False}, {"noise_type": "separate"}])
def test_other_models_from_elsewhere(data, how):
    X, y, _ = data
    expected = RegressionMixture(3, random_state=0, **how).fit(X, y)
    found = RegressionMixture(3, random_state=0, **how).fit(Watched(x=X, y=y))
    same(found, expected, rtol=1e-4, atol=1e-5)


def test_the_number_of_lines_is_found_elsewhere(data):
    X, y, _ = data
    assert RegressionMixture("auto", random_state=0).fit(Watched(x=X, y=y)).n_components_ == 3


def test_no_step_reads_all_rows():
    X, y, truth = make_regression_mixture(140_000, 2, 3, noise=0.5, random_state=0)
    source = Watched(x=X, y=y)
    found = RegressionMixture(2, random_state=0).fit(source)
    apart = np.linalg.norm(truth.vectors[:, None] - found.coef_, axis=2).min(axis=1)
    assert apart.max() < 0.02
    with pytest.raises(MemoryError):
        next(source.blocks(140_000))


def test_measures_are_small_and_hold_no_rows(data):
    X, y, _ = data
    source = Watched(x=X, y=y)
    RegressionMixture(3, random_state=0).fit(source)
    assert max(source.sizes) < 20_000 < y.nbytes  # of the labels alone


def test_samples_are_bounded(data):
    """With memory for the features of 700 rows no sample is larger, and EM still uses all rows."""
    X, y, truth = data
    rows = Rows(Watched(x=X, y=y), budget=MemoryBudget(held=700 * 21))
    found = RegressionMixture(3, random_state=0).fit(rows)
    assert found.stats_["sample_rows"] <= 700
    assert found.stats_["rows_used"] == len(y)
    assert match_rows(found.coef_, truth.vectors)[1].max() < 0.05


def test_rows_that_do_not_count_do_not_matter(data, model):
    X, y, _ = data
    twice, labels = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    twice[1::2], labels[1::2] = 50.0, -1e3
    counts = np.tile([1.0, 0.0], len(y))
    found = RegressionMixture(3, random_state=0).fit(Watched(x=twice, y=labels, counts=counts))
    same(found, model, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", [array_api_strict.Device("CPU_DEVICE"), ELSEWHERE])
def test_array_api_rows(device):
    X, y, _ = make_regression_mixture(1_500, 2, 3, noise=0.3, random_state=0)
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    there = [array_api_strict.asarray(a, device=device) for a in (X, y, weights)]
    expected = RegressionMixture(2, random_state=0).fit(X, y, sample_weight=weights)
    found = RegressionMixture(2, random_state=0).fit(there[0], there[1], sample_weight=there[2])
    same(found, expected, rtol=1e-6, atol=1e-8)
    some = there[0][:9, :], there[1][:9]
    answers = {
        "predict": (some[:1], (X[:9],)),
        "predict_proba": (some, (X[:9], y[:9])),
        "predict_component": (some, (X[:9], y[:9])),
        "score_samples": (some, (X[:9], y[:9])),
    }
    for name, (given, plain) in answers.items():
        answer = getattr(found, name)(*given)
        assert type(answer) is type(there[0])
        assert answer.device == device
        np.testing.assert_allclose(to_numpy(answer), getattr(expected, name)(*plain), rtol=1e-6)
        # a model answers rows of another library in theirs
        np.testing.assert_allclose(getattr(found, name)(*plain), to_numpy(answer), rtol=1e-9)
    assert all(part.device == device for part in found.sample(4))
    assert all(part.device == device for part in found.sample(X=some[0]))
    np.testing.assert_allclose(found.score(*there[:2]), expected.score(X, y), rtol=1e-9)
    assert all(getattr(found, name).device == device for name in ARRAYS)


@pytest.mark.parametrize(("precision", "rtol"), [("float64", 1e-6), ("float32", 2e-4)])
def test_torch_rows(data, model, precision, rtol):
    torch = pytest.importorskip("torch")
    X, y, _ = data
    there = [torch.asarray(a, dtype=getattr(torch, precision)) for a in (X, y)]
    found = RegressionMixture(3, random_state=0).fit(*there)
    assert found.coef_.dtype == there[0].dtype
    same(found, model, rtol=rtol, atol=rtol)
    scores = found.score_samples(*there)
    assert scores.dtype == there[0].dtype
    np.testing.assert_allclose(to_numpy(scores), model.score_samples(X, y), atol=20 * rtol)
    assert found.converged_


def test_any_number_of_threads_gives_the_same_bits(data):
    X, y, _ = make_regression_mixture(20_000, 3, 4, noise=0.3, random_state=0)
    fits = []
    for n in (1, 2):
        with threadpool_limits(n, user_api="blas"):
            fits.append(RegressionMixture(3, random_state=0).fit(X, y))
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
