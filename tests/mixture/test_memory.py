"""Memory of a fit: a few arrays of the size of the budget, whatever the number of components."""

import tracemalloc
from contextlib import contextmanager

import numpy as np

import implicitmoments as im
from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.mixture import CovarianceType, GaussianFamily, Gaussians, make_view
from implicitmoments.mixture.agglomeration import GroupSums, TiedAgglomeration
from implicitmoments.mixture.alternatives import other_shape
from implicitmoments.rows import DEFAULT_BUDGET, ArraySource, MemoryBudget, Rows
from implicitmoments.search import SEARCH, Budget, insertion_gains, run_em
from implicitmoments.search.trials import responsibilities


@contextmanager
def traced():
    """Yield a list that gets the largest number of bytes allocated at a time."""
    peak = []
    tracemalloc.start()
    try:
        yield peak
        peak.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


def test_a_fit_holds_four_arrays_of_the_budget():
    """The formula of docs/benchmarks.md, section Speed; candidates of moves add blocks to it."""
    k, held = 50, 2**19  # numbers; the sample has held / k rows
    X, _ = make_spherical_mixture(20_000, k, 4, radius=15.0, separation=5.0, random_state=0)
    rows = Rows(ArraySource(X), budget=MemoryBudget(held=held))
    with traced() as peak:
        model = im.SphericalMixture(k, random_state=0).fit(rows)
    assert model.stats_["sample_rows"] == held // k
    assert peak[0] <= 4 * 8 * held


def test_candidates_are_tried_in_parts_that_bound_the_memory():
    """Twice as many candidates of an insertion need no more memory."""
    X = np.random.default_rng(0).normal(size=(20_000, 3))
    rows, most = Rows.of(X), DEFAULT_BUDGET.block // len(X)
    family = GaussianFamily(CovarianceType("tied_spherical"), np.full(3, 1e-6))
    found = responsibilities(family, rows, Gaussians(np.ones(1), np.zeros((1, 3)), np.ones(1)))
    peaks = []
    for m in (most, 2 * most):
        candidates = Gaussians(np.full(m, 0.01), X[:m], np.ones(m))
        with traced() as peak:
            insertion_gains(family, rows, found, candidates, Budget(0, 1, 0.0))
        peaks.append(peak[0])
    assert peaks[1] < 1.2 * peaks[0]


def test_merges_form_no_array_of_all_pairs():
    rng, m, d = np.random.default_rng(0), 2_000, 3
    groups = GroupSums(rng.integers(3, 20, m) + 0.0, rng.normal(size=(m, d)), rng.random((m, 1)))
    family = GaussianFamily(CovarianceType("tied_spherical"), np.full(d, 1e-6))
    joined = TiedAgglomeration(groups, family)
    with traced() as peak:
        joined.merge(100)
    assert joined.k == m - 100
    assert peak[0] < 8 * m**2 / 2


def test_shapes_are_compared_on_a_part_of_the_rows_first():
    """Columns whose spreads differ by 3 % are found; where none differ, all rows are not held."""
    rng, k, d, peaks = np.random.default_rng(0), 10, 8, []
    means = 6 * rng.normal(size=(k, d))
    mixture = Gaussians(np.full(k, 1 / k), means, np.ones(k))
    spherical = rng.normal(size=(20_000, d))
    for spread, code in ((0.0, None), (0.03, "columns_differ_in_spread")):
        X = means[rng.integers(k, size=len(spherical))]
        rows = Rows.of(X + spherical * (1 + spread * np.linspace(-1, 1, d)))
        view = make_view(rows, CovarianceType("tied_spherical"), 1e-6)
        fitted = run_em(view.family, view.rows(rows).hold(), view.inside(mixture), SEARCH).state
        with traced() as peak:
            found = list(other_shape(view, rows, fitted))
        assert [note.code for _, note in found] == [code] * (code is not None)
        peaks.append(peak[0])
    assert peaks[0] < 0.7 * peaks[1]


def test_moves_that_a_small_sample_leaves_open_are_tried_on_more_rows():
    """Components overlap: with 107 rows each chance pays for merges, with 400 it does not."""
    X, _ = make_spherical_mixture(12_000, 30, 8, radius=3.0, separation=2.5, random_state=0)
    rows = Rows(ArraySource(X), budget=MemoryBudget(held=X.size))
    model = im.SphericalMixture(30, random_state=0).fit(rows)
    assert model.stats_["sample_rows"] == len(X) > rows.budget.held // 30
    whole = im.SphericalMixture(30, random_state=0).fit(X)
    assert model.lower_bound_ >= whole.lower_bound_ - 2 / len(X)
