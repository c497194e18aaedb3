"""ActivationSumRegressor on rows of any library, in any precision, and beyond memory."""

import array_api_strict as strict
import numpy as np
import pytest
from sklearn.metrics import r2_score

from implicitmoments import ActivationSumRegressor
from implicitmoments.arrays import to_numpy
from implicitmoments.datasets import make_activation_sum
from implicitmoments.rows import ArrayTable, Rows
from support import Watched, refuses

D, K = 4, 2
DEVICES = [strict.Device("CPU_DEVICE"), strict.Device("device1")]


def _data(n, seed=0, noise=0.2):
    X, y, _ = make_activation_sum(n, K, D, random_state=seed)
    return X, y + noise * y.std() * np.random.default_rng(seed).standard_normal(n)


@pytest.mark.parametrize("how", [{}, {"refine": False, "degree": 4}])
def test_a_source_is_passed_over_in_blocks(how):
    """No step reads all rows, and what travels to the rows is small and holds none of them."""
    X, y = _data(120_000)
    source = Watched(x=X, y=y)
    how = {"random_state": 0, "rows_per_block": 65_536, **how}
    model = ActivationSumRegressor("relu", K, **how).fit(source)
    plain = ActivationSumRegressor("relu", K, **how).fit(X, y)
    np.testing.assert_allclose(model.predict(X[:500]), plain.predict(X[:500]), rtol=1e-9)
    assert model.stats_["rows_used"] == len(X)
    assert max(source.sizes) < 1_000_000 < X.nbytes
    assert model.score(source) == pytest.approx(plain.score(X, y), rel=1e-9)
    np.testing.assert_allclose(model.predict(source), plain.predict(X), rtol=1e-9)
    # the control: the same rows in larger blocks
    with pytest.raises(MemoryError):
        model.set_params(rows_per_block=100_000).fit(source)


@pytest.mark.parametrize("refine", [True, False])
@pytest.mark.parametrize("outlier", [False, True])
def test_rows_that_do_not_count_do_not_matter(refine, outlier):
    """Counts of 0 stay in a source; its labels are no part of the range of the labels."""
    X, y = _data(3_000)
    counts = np.random.default_rng(1).integers(0, 3, len(X)).astype(float)
    kept = counts > 0
    y = np.where(~kept & outlier, 1e6, y)
    how = {"n_components": K, "refine": refine, "whiten": True, "random_state": 0}
    source = ArrayTable(X, y=y, counts=counts)
    model = ActivationSumRegressor("relu", **how).fit(source)
    fewer = ActivationSumRegressor("relu", **how).fit(X[kept], y[kept], sample_weight=counts[kept])
    np.testing.assert_allclose(model.predict(X), fewer.predict(X), rtol=1e-6, atol=1e-8)
    assert model.polynomial_.low == fewer.polynomial_.low
    assert model.polynomial_.high == fewer.polynomial_.high == y[kept].max() < 1e6


CASES = [
    {},
    {"whiten": True, "n_components": "auto"},
    {"refine": False, "degree": 6},
    {"activation": "gelu"},
    {"activation": "softplus"},
    {"activation": "cos"},
    {"positive": False, "fit_bias": True},
    {"refine": False},
]


# On a device of its own an array that was made elsewhere is an error.
@pytest.mark.parametrize(
    ("how", "device"), [({}, DEVICES[0]), *((how, DEVICES[1]) for how in CASES)], ids=str
)
@pytest.mark.filterwarnings("ignore:the moment of order 2")  # cosines of labels that are none
def test_array_api_rows_give_the_same_model(how, device):
    X, y = _data(1_000)
    how = {"n_components": K, "random_state": 0, "n_starts": 1, **how}
    plain = ActivationSumRegressor(**how).fit(X, y)
    A, b = (strict.asarray(a, device=device) for a in (X, y))
    model = ActivationSumRegressor(**how).fit(A, b)
    _assert_alike(model, plain, A, X, b, y)
    for name in ("directions_", "weights_", "direction_errors_", "weight_errors_"):
        if hasattr(plain, name):
            found = getattr(model, name)
            assert isinstance(found, type(A))
            assert found.device == device
            np.testing.assert_allclose(to_numpy(found), getattr(plain, name), 1e-4, 1e-5)
            assert isinstance(getattr(plain, name), np.ndarray)


def _assert_alike(model, plain, A, X, b, y, tolerance=1e-6):
    """Compare answers of two models, each to rows of its own library and of the other's."""
    predicted = plain.predict(X)
    for answer in (model.predict(A), plain.predict(A)):
        assert isinstance(answer, type(A))
        assert (answer.dtype, answer.device) == (A.dtype, A.device)
        np.testing.assert_allclose(to_numpy(answer), predicted, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(model.predict(X), predicted, rtol=tolerance, atol=tolerance)
    assert model.score(A, b) == pytest.approx(plain.score(X, y), abs=tolerance)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_torch_rows(precision, activation):
    torch = pytest.importorskip("torch")
    X, y = _data(4_000)
    how = {"activation": activation, "n_components": K, "random_state": 0, "n_starts": 1}
    plain = ActivationSumRegressor(**how).fit(X.astype(precision), y.astype(precision))
    A, b = (torch.asarray(a, dtype=getattr(torch, precision)) for a in (X, y))
    model = ActivationSumRegressor(**how).fit(A, b)
    _assert_alike(
        model,
        plain,
        A,
        X.astype(precision),
        b,
        y.astype(precision),
        1e-7 if precision == "float64" else 1e-3,  # where the refinement stops
    )
    assert isinstance(model.directions_, torch.Tensor)
    assert model.directions_.dtype == A.dtype


def test_single_precision_keeps_most_digits():
    """Labels without noise are fitted to the rounding of float32, and noisy ones as well as ever.

    Halves and folds are told by what a point holds, so they are others in another precision.
    """
    X, y = _data(4_000, noise=0.0)
    single = ActivationSumRegressor("relu", K, random_state=0).fit(
        X.astype(np.float32), y.astype(np.float32)
    )
    assert single.predict(X.astype(np.float32)).dtype == np.float32
    assert single.directions_.dtype == np.float32
    assert single.n_components_ == K
    assert 1 - single.score(X, y) < 1e-10
    X, y = _data(20_000)
    scores = [
        ActivationSumRegressor("relu", K, random_state=0, refine=refine)
        .fit(X.astype(kind), y.astype(kind))
        .score(X, y)
        for refine in (True, False)
        for kind in (np.float64, np.float32)
    ]
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)
    assert scores[2] == pytest.approx(scores[3], abs=1e-3)


def _hinge(u):
    return np.maximum(0, u - 0.3)


def _portable_hinge(u):
    return (abs(u - 0.3) + u - 0.3) / 2


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_functions_of_numpy_alone_are_refused_with_a_way_out(device):
    X, y, _ = make_activation_sum(1_000, K, D, activation=_hinge, random_state=0)
    A, b = (strict.asarray(a, device=device) for a in (X, y))
    with refuses("activation_needs_numpy"):
        ActivationSumRegressor(_hinge, K).fit(A, b)
    model = ActivationSumRegressor(_hinge, K, random_state=0).fit(X, y)
    assert model.stats_["hypothesis"] == "network"
    with refuses("activation_needs_numpy"):
        model.predict(A)


def test_scores_are_those_of_scikit_learn():
    X, y = _data(1_000)
    counts = np.random.default_rng(1).random(len(X))
    model = ActivationSumRegressor("relu", K, refine=False).fit(X, y)
    predicted = model.predict(X)
    assert model.score(X, y) == pytest.approx(r2_score(y, predicted), rel=1e-12)
    weighted = r2_score(y, predicted, sample_weight=counts)
    assert model.score(X, y, counts) == pytest.approx(weighted, rel=1e-12)
    assert model.score(X, 1e6 + 0 * y) == r2_score(1e6 + 0 * y, predicted) == 0.0
    mapped = Rows.of(X, y=y).mapped(labels=lambda _, labels: 3 * labels)
    assert model.score(mapped) == pytest.approx(r2_score(3 * y, predicted), rel=1e-12)
