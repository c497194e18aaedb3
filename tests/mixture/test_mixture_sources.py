"""Rows from anywhere: sources, other array libraries and devices, blocks of bounded size."""

from functools import partial

import array_api_strict
import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.rows import ArrayTable
from support import Watched, refuses

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


def same(one, other, atol=1e-6):
    np.testing.assert_allclose(np.asarray(one.means_), np.asarray(other.means_), atol=atol)
    np.testing.assert_allclose(np.asarray(one.weights_), np.asarray(other.weights_), atol=atol)
    covariances = (model._covariances() for model in (one, other))
    np.testing.assert_allclose(*covariances, atol=atol)
    assert one.lower_bound_ == pytest.approx(other.lower_bound_, abs=atol)


def test_a_source_is_fitted_as_its_arrays_are(data, fitted, mixture):
    X, _ = data
    model = mixture(K).fit(ArrayTable(X))
    np.testing.assert_allclose(model.means_, fitted.means_, rtol=1e-9)
    counts = np.random.default_rng(0).integers(0, 3, N).astype(float)
    weighted = mixture(K).fit(X, sample_weight=counts)
    # rows that count zero times are still there, so other rows are sampled
    same(mixture(K).fit(ArrayTable(X, counts=counts)), weighted, 1e-3)
    assert model.score(ArrayTable(X)) == pytest.approx(fitted.score(X))
    np.testing.assert_array_equal(model.predict(ArrayTable(X)), fitted.predict(X))


def test_small_sources_are_counted_as_arrays_are(data, mixture):
    X = np.vstack([data[0][:1_000]] * 2)
    once = mixture(K).fit(X)
    same(mixture(K).fit(ArrayTable(X)), once, 1e-12)


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


@ROUND_AND_FULL
def test_batches_take_arrays_of_the_standard(pair, mixture):
    batches, twin = (mixture(2) for _ in range(2))
    for piece in np.array_split(pair, 3):
        batches.partial_fit(array_api_strict.asarray(piece))
        twin.partial_fit(piece)
    assert isinstance(batches.means_, type(array_api_strict.asarray(pair)))
    np.testing.assert_allclose(np.asarray(batches.means_), twin.means_, atol=1e-4)


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


def test_what_is_left_out_is_told_by_what_a_row_holds(data, mixture):
    """A far row that no sample has seen is left out, too."""
    X = np.tile(data[0], (20, 1))
    X[1_234 + 1] = 1e7
    model = mixture(K).fit(X)
    assert model.stats_["outliers"] == 1
    kept = mixture(K).fit(np.delete(X, 1_235, axis=0))
    same(model, kept, 1e-4)


def test_sources_that_cannot_be(data, mixture):
    X, _ = data
    with refuses("too_few_rows", n=1):
        mixture(K).fit(ArrayTable(X, counts=(np.arange(N) == 0) * 1.0))
    wild = X.copy()
    wild[N // 2 + 1] = 1e200
    assert mixture(K).fit(wild).stats_["outliers"] == 1
    with refuses("entries_too_large"):
        mixture(K, drop_outliers=False).fit(wild)
