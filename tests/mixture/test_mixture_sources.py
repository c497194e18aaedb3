"""Rows from anywhere: sources, other array libraries and devices, blocks of bounded size."""

from functools import partial

import array_api_strict
import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.datasets import make_spherical_mixture
from support import Watched

pytestmark = pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")

K, D, N = 4, 5, 12_000
READ_AT_ONCE = 70_000


@pytest.fixture(scope="module")
def data():
    return make_spherical_mixture(N, K, D, radius=5.0, separation=4.0, random_state=0)


KINDS = {
    "SphericalMixture": im.SphericalMixture,
    **{
        name: partial(im.GaussianMixture, covariance_type=name)
        for name in ("full", "tied", "diag", "spherical")
    },
}


@pytest.fixture(scope="module", params=KINDS)
def mixture(request):
    """An estimator of K components, whatever else it is given."""
    return partial(KINDS[request.param], random_state=0)


@pytest.fixture(scope="module")
def fitted(data, mixture):
    return mixture(K).fit(data[0])


def test_a_constant_column_of_arrays_of_the_standard(data, mixture):
    X = np.insert(data[0][:1_000], 1, 2.0, axis=1)
    model = mixture(K).fit(array_api_strict.asarray(X))
    found = model.score_samples(array_api_strict.asarray(X + np.eye(D + 1)[1] * (X[:, :1] > 0)))
    np.testing.assert_array_equal(np.isinf(np.asarray(found)), X[:, 0] > 0)


@pytest.mark.parametrize("device", ["CPU_DEVICE", "device1"])
def test_arrays_of_the_standard_on_any_device(data, mixture, device):
    X, _ = data
    fitted = mixture(K, tol=1e-10).fit(X)  # the searches before EM differ by rounding
    where = array_api_strict.Device(device)
    rows = array_api_strict.asarray(X, device=where)
    model = mixture(K, tol=1e-10).fit(rows)
    for value in (model.means_, model.weights_):
        assert isinstance(value, type(rows))
        assert value.device == where
    cpu = array_api_strict.Device("CPU_DEVICE")
    found = np.asarray(model.means_.to_device(cpu))
    np.testing.assert_allclose(found, fitted.means_, atol=1e-6)
    some = rows[:50, :]
    for name in ("predict", "predict_proba", "score_samples"):
        answer = getattr(model, name)(some)
        assert isinstance(answer, type(rows))
        assert answer.device == where
        expected = getattr(fitted, name)(X[:50])
        np.testing.assert_allclose(np.asarray(answer.to_device(cpu)), expected, atol=1e-6)
    assert model.score(rows) == pytest.approx(fitted.score(X))
    assert model.bic(rows) == pytest.approx(fitted.bic(X))
    drawn, labels = model.sample(7)
    assert drawn.device == labels.device == where
    np.testing.assert_allclose(model.predict(X[:50]), fitted.predict(X[:50]))
    np.testing.assert_allclose(
        np.asarray(fitted.predict(some).to_device(cpu)), fitted.predict(X[:50])
    )


@pytest.fixture(scope="module")
def pair(data):
    """Rows of two of the components."""
    X, truth = data
    return X[truth.labels < 2][:800]


# what a type of covariance computes is tested above; these are steps around it
ROUND_AND_FULL = pytest.mark.parametrize("mixture", ["SphericalMixture", "full"], indirect=True)


@ROUND_AND_FULL
@pytest.mark.parametrize("options", [{"n_components": "auto", "max_components": 4}, {}])
def test_every_way_to_fit_takes_arrays_of_the_standard(pair, mixture, options):
    X = pair.copy()
    X[:2] = [[1e5] * D, [-3e4] * D]
    counts = np.random.default_rng(1).integers(1, 3, len(X)).astype(float)
    where = array_api_strict.Device("device1")
    rows, times = (array_api_strict.asarray(a, device=where) for a in (X, counts))
    options = {"n_components": 2} | options
    model = mixture(**options).fit(rows, sample_weight=times)
    plain = mixture(**options).fit(X, sample_weight=counts)
    assert model.stats_["outliers"] == plain.stats_["outliers"] == 2
    assert model.lower_bound_ == pytest.approx(plain.lower_bound_, abs=1e-5)


@pytest.mark.parametrize(("dtype", "close"), [("float64", 1e-5), ("float32", 1e-3)])
def test_torch(data, fitted, mixture, dtype, close):
    torch = pytest.importorskip("torch")
    X, _ = data
    rows = torch.asarray(X, dtype=getattr(torch, dtype))
    model = mixture(K).fit(rows)
    assert isinstance(model.means_, torch.Tensor)
    assert model.means_.dtype == rows.dtype
    np.testing.assert_allclose(model.means_.numpy(), fitted.means_, atol=close)
    assert model.lower_bound_ == pytest.approx(fitted.lower_bound_, abs=close)
    shares = model.predict_proba(rows)
    assert shares.dtype == rows.dtype
    np.testing.assert_allclose(shares.numpy(), fitted.predict_proba(X), atol=5 * close)
    np.testing.assert_allclose(model.score_samples(X), fitted.score_samples(X), atol=20 * close)


def test_no_step_reads_all_rows_and_what_travels_is_small(mixture):
    """Outliers and weights too."""
    n = 400_000
    X, _ = make_spherical_mixture(n, 3, 4, radius=5.0, separation=4.0, random_state=0)
    X[5] = 1e8
    source = Watched(READ_AT_ONCE, x=X, counts=np.resize([1.0, 2.0], n))
    model = mixture(3, tol=1e-3, n_moves=2).fit(source)
    assert model.stats_["outliers"] == 1
    assert max(source.sizes) < 1e6
