"""Rows in pieces end near one fit of all rows."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import implicitmoments as im
from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.rows import ArraySource
from implicitmoments.testing import match_rows, refuses

pytestmark = pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")

K, D, N = 8, 5, 60_000


@pytest.fixture(scope="module")
def data():
    return make_spherical_mixture(N, K, D, radius=4.0, separation=3.0, random_state=0)


def in_pieces(X, size, sample_weight=None, **options):
    model = im.SphericalMixture(K, random_state=0, **options)
    for first in range(0, len(X), size):
        counts = None if sample_weight is None else sample_weight[first : first + size]
        model.partial_fit(X[first : first + size], sample_weight=counts)
    return model


@pytest.mark.parametrize("size", [4_000, 15_000])
def test_pieces_end_near_one_fit(data, size):
    X, truth = data
    whole = im.SphericalMixture(K, random_state=0).fit(X)
    pieces = in_pieces(X, size)
    # a mean has a standard error of about √(d k / N) = 0.026 as a length
    assert match_rows(pieces.means_, whole.means_)[1].max() < 0.03
    assert (
        match_rows(pieces.means_, truth.vectors)[1].max()
        < match_rows(whole.means_, truth.vectors)[1].max() + 0.03
    )
    assert pieces.variance_ == pytest.approx(whole.variance_, abs=0.005)
    assert pieces.score(X) > whole.score(X) - 1e-3
    assert pieces.stats_["rows_seen"] == N
    # and not where the first 20,000 rows alone would have left it
    early = im.SphericalMixture(K, random_state=0).fit(X[:20_000])
    assert pieces.score(X) > early.score(X)


def test_order_of_pieces_matters_little(data):
    X, _ = data
    forth, back = in_pieces(X, 10_000), in_pieces(X[::-1], 10_000)
    assert match_rows(forth.means_, back.means_)[1].max() < 0.04


def test_weighted_pieces(data):
    X, truth = data
    counts = (truth.labels != 0).astype(float)
    model = im.SphericalMixture(K - 1, random_state=0)
    for first in range(0, N, 20_000):
        rows = slice(first, first + 20_000)
        model.partial_fit(X[rows], sample_weight=counts[rows])
    assert match_rows(model.means_, truth.vectors[1:])[1].max() < 0.12
    assert model.stats_["rows_seen"] == counts.sum()


def test_weights_below_one_are_in_one_unit_in_all_pieces(data):
    X, _ = data
    model = im.SphericalMixture(K, random_state=0)
    for i in range(3):
        rows = slice(i * 10_000, (i + 1) * 10_000)
        model.partial_fit(X[rows], sample_weight=np.full(10_000, 0.25 * (i + 1)))
    assert model.stats_["rows_seen"] == pytest.approx(0.25 * 6 * 10_000)


def test_weights_of_files_and_sources_have_one_unit(data, tmp_path):
    X, counts = data[0][:400, :2], np.tile([0.25, 0.5, 2.0, 0.5], 100)
    table = np.column_stack([X, counts])
    np.savetxt(tmp_path / "rows.csv", table, delimiter=",", header="a,b,n", comments="")
    columns = {"x": X, "counts": counts}
    source = ArraySource(**{name: column[:200] for name, column in columns.items()})
    later = ArraySource(**{name: column[200:] for name, column in columns.items()})
    models = [im.SphericalMixture(2, random_state=0) for _ in range(3)]
    models[0].partial_fit(X, sample_weight=counts)
    models[1].partial_fit(str(tmp_path / "rows.csv"), sample_weight="n")
    models[2].partial_fit(source).partial_fit(later)
    for model in models:
        assert model.stats_["rows_seen"] == pytest.approx(counts.sum())
        np.testing.assert_allclose(model.means_, models[0].means_, atol=1e-3)


def test_a_component_that_comes_later_is_found():
    X, truth = make_spherical_mixture(N, K, D, radius=7.0, separation=5.0, random_state=1)
    late = truth.labels == 0
    X = np.vstack([X[~late][:20_000], X[late], X[~late][20_000:]])
    rng = np.random.default_rng(0)
    X[20_000:] = X[20_000:][rng.permutation(len(X) - 20_000)]
    model = in_pieces(X, 20_000)
    assert match_rows(model.means_, truth.vectors)[1].max() < 0.3
    # the first rows had one component less, and a note said so
    assert set(model.notes_.codes) <= {"moments_unresolved"}


def test_small_first_pieces_are_held(data):
    X, truth = data
    model = in_pieces(X[:3_000], 500)
    assert model.stats_["rows_seen"] == 3_000
    assert match_rows(model.means_, truth.vectors)[1].max() < 0.4
    whole = im.SphericalMixture(K, random_state=0).fit(X[:3_000])
    assert model.score(X[:3_000]) > whole.score(X[:3_000]) - 0.01


def test_fit_forgets_and_bad_pieces_are_refused(data):
    X, _ = data
    model = in_pieces(X[:2_000], 1_000)
    with refuses("sample_weight_in_some_calls"):
        model.partial_fit(X[:10], sample_weight=np.ones(10))
    with pytest.raises(ValueError):  # noqa: PT011 (scikit-learn's check)
        model.partial_fit(X[:10, :2])
    model.fit(X[:5_000])
    again = im.SphericalMixture(K, random_state=0).fit(X[:5_000])
    np.testing.assert_array_equal(model.means_, again.means_)
    with refuses("too_few_rows", n=3):
        im.SphericalMixture(K).partial_fit(X[:3])


def test_a_note_of_an_unfinished_polish_goes_with_it(data):
    X, _ = data
    model = im.SphericalMixture(K, max_iter=1, tol=0.0, random_state=0)
    with pytest.warns(ConvergenceWarning):
        model.partial_fit(X[:2_000])
    assert model.notes_.codes == ["not_converged"]
    # held rows grow by less than half, so that EM alone goes on
    with pytest.warns(ConvergenceWarning):
        model.partial_fit(X[2_000:2_500])
    assert model.notes_.codes == ["not_converged"]
    model.set_params(max_iter=500, tol=1e-7).partial_fit(X[2_500:2_600])
    assert model.converged_
    assert model.notes_ == []
