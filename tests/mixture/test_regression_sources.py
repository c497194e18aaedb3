"""Regressions from rows that lie anywhere: sources, other libraries, other devices."""

import array_api_strict
import numpy as np
import pytest

from implicitmoments import RegressionMixture
from implicitmoments.arrays import to_numpy
from implicitmoments.datasets import make_regression_mixture
from support import Watched

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


def test_no_step_reads_all_rows():
    X, y, truth = make_regression_mixture(140_000, 2, 3, noise=0.5, random_state=0)
    source = Watched(x=X, y=y)
    found = RegressionMixture(2, random_state=0).fit(source)
    apart = np.linalg.norm(truth.vectors[:, None] - found.coef_, axis=2).min(axis=1)
    assert apart.max() < 0.02
    with pytest.raises(MemoryError):
        next(source.blocks(140_000))


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
