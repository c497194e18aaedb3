"""Gaussian mixtures of all covariance types: densities, EM steps and parameters, exactly."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

from implicitmoments.mixture.expansion import log_densities
from implicitmoments.mixture.family import GaussianFamily
from implicitmoments.mixture.gaussians import (
    COVARIANCE_TYPES,
    CovarianceType,
    Gaussians,
    indefinite,
)
from implicitmoments.rows import Rows
from implicitmoments.search import SEARCH, run_em, search_moves
from implicitmoments.search.em import concatenate
from implicitmoments.search.splits import fit_pairs

K, D, N = 4, 3, 500
SKLEARN = {"full": "full", "tied": "tied", "diag": "diag", "spherical": "spherical"}


def random_state(kind, rng, k=K, d=D):
    """Return a mixture of a covariance type."""
    A = rng.normal(size=(k, d, 2 * d))
    matrices = A @ A.transpose(0, 2, 1) / (2 * d)
    if kind.tied:
        matrices = np.repeat(matrices[:1], k, axis=0)
    weights = rng.dirichlet(np.ones(k))
    return Gaussians(weights, rng.normal(size=(k, d)), kind.constrained(matrices))


@pytest.fixture(params=COVARIANCE_TYPES)
def kind(request):
    return CovarianceType(request.param)


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(N, D))
    return Rows.of((X - X.mean(axis=0)) / X.std(axis=0)).hold()


def test_log_densities_are_those_of_scipy(kind, rng, rows):
    state = random_state(kind, rng)
    whole = state.expanded()
    expected = np.column_stack(
        [
            np.log(w) + multivariate_normal(m, C).logpdf(rows.points)
            for w, m, C in zip(whole.weights, whole.means, whole.covariances, strict=True)
        ]
    )
    family = GaussianFamily(kind)
    np.testing.assert_allclose(family.log_joint(rows, state), expected, rtol=1e-10, atol=1e-10)
    found = log_densities(rows.points, state)
    np.testing.assert_allclose(found, logsumexp(expected, axis=1), rtol=1e-10, atol=1e-10)
    level = family.e_step(rows, state).level
    assert level == pytest.approx(found.mean(), rel=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", SKLEARN)
def test_one_step_of_em_is_that_of_scikit_learn(name, rng, rows):
    kind = CovarianceType(name)
    state = random_state(kind, rng)
    precisions = np.linalg.inv(state.expanded().covariances)
    given = {
        "full": precisions,
        "tied": precisions[0],
        "diag": np.diagonal(precisions, axis1=1, axis2=2),
        "spherical": precisions[:, 0, 0],
    }[name]
    theirs = GaussianMixture(
        K,
        covariance_type=name,
        max_iter=1,
        reg_covar=0.0,
        weights_init=state.weights,
        means_init=state.means,
        precisions_init=given,
    ).fit(rows.points)
    family = GaussianFamily(kind)
    ours = family.m_step(family.e_step(rows, state), state)
    np.testing.assert_allclose(ours.weights, theirs.weights_, rtol=1e-10)
    np.testing.assert_allclose(ours.means, theirs.means_, rtol=1e-9, atol=1e-12)
    covariances = ours.covariances
    covariances = covariances[:, 0] if name == "spherical" else covariances
    covariances = covariances[0] if name == "tied" else covariances
    np.testing.assert_allclose(covariances, theirs.covariances_, rtol=1e-9, atol=1e-12)


def test_packed_parameters_are_restored(kind, rng):
    family, state = GaussianFamily(kind), random_state(kind, rng)
    packed = family.pack(state)
    assert packed.shape == family.scale(state).shape
    again = family.unpack(packed, state)
    for name in ("weights", "means", "covariances"):
        np.testing.assert_allclose(getattr(again, name), getattr(state, name), rtol=1e-12)


def test_known_covariances_stay(kind, rng, rows):
    """No step changes them, they are no parameters, and trials have them."""
    state = random_state(kind, rng)
    covariances = np.repeat(state.covariances[:1], K, axis=0)
    state = replace(state, covariances=covariances)
    family = GaussianFamily(kind, known=covariances[0])
    assert family.n_parameters(state) == len(family.pack(state)) - 1 == K * (D + 1) - 1
    assert family.scale(state).shape == family.pack(state).shape
    found = search_moves(family, rows, family.unpack(family.pack(state), state), 4, rng)
    np.testing.assert_array_equal(found.state.covariances, covariances)
    estimated = run_em(GaussianFamily(kind), rows, found.state, SEARCH)
    assert found.log_likelihood < estimated.level * rows.total


@pytest.mark.parametrize("d", [1, 3])
def test_splits_start_from_parts_with_the_moments_of_the_component(kind, rng, d):
    """Means of all pairs but the light ones balance; covariances are those of the type."""
    X = rng.normal(size=(3_000, d)) @ rng.normal(size=(d, d)) + 1
    rows = Rows.of(X).hold()
    family = GaussianFamily(kind)
    alone = family.from_shares(rows, np.ones((len(X), 1)))
    starts = family.split_starts(rows, alone, 0, rng)
    pairs = starts.weights.reshape(-1, 2), starts.means.reshape(-1, 2, d)
    balanced = np.sum(pairs[0][:, :, None] * pairs[1], axis=1)[pairs[0][:, 1] > 0.1]
    np.testing.assert_allclose(balanced, np.repeat(alone.means, len(balanced), axis=0), atol=1e-8)
    halves = starts.take(np.arange(2))
    apart = halves.means[0] - alone.means[0]
    between = kind.constrained(np.outer(apart, apart)[None])[0]
    whole = halves.pooled + between if family.free else halves.pooled
    np.testing.assert_allclose(whole, alone.covariances[0], rtol=0.05, atol=0.05)
    assert np.all(np.linalg.eigvalsh(starts.expanded().covariances) > 0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("full", 4 * 3 + 3 + 4 * 6),
        ("tied", 4 * 3 + 3 + 6),
        ("diag", 4 * 3 + 3 + 4 * 3),
        ("tied_diag", 4 * 3 + 3 + 3),
        ("spherical", 4 * 3 + 3 + 4),
        ("tied_spherical", 4 * 3 + 3 + 1),
    ],
)
def test_parameters_are_counted(name, expected, rng):
    kind = CovarianceType(name)
    assert GaussianFamily(kind).n_parameters(random_state(kind, rng)) == expected


def test_em_steps_raise_the_likelihood(kind, rng, rows):
    family, state = GaussianFamily(kind), random_state(kind, rng)
    levels = []
    for _ in range(20):
        sums = family.e_step(rows, state)
        levels.append(sums.level)
        state = family.m_step(sums, state)
    assert np.all(np.diff(levels) > -1e-7)


def test_sums_of_blocks_are_sums_of_the_whole(kind, rng, rows):
    family, state = GaussianFamily(kind), random_state(kind, rng)
    whole = family.e_step(rows, state)
    blocks = family.e_step(Rows(rows.source, rows_per_block=67), state)
    halves = [family.e_step(rows.take(part), state) for part in np.split(np.arange(N), 2)]
    for other in (blocks, halves[0] + halves[1]):
        assert_same_sums(other, whole, each=family.free)


def assert_same_sums(found, expected, rtol=1e-10, *, each=False):
    """Compare sums; products of each component, or those of all components together."""
    for name in ("log_likelihood", "total", "counts", "points"):
        one, other = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * N)
    axis = () if each else 0
    one, other = found.products.sum(axis=axis), expected.products.sum(axis=axis)
    np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * N)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("far", [1.0, 1e5])
@pytest.mark.parametrize("name", ["full", "diag", "spherical"])
def test_a_shared_covariance_needs_no_products_of_each_component(name, far, weighted, dtype, rng):
    """Sums over rows as they are, in blocks, without outliers, equal those of lifted rows."""
    shared = {"full": "tied"}.get(name, f"tied_{name}")
    X = rng.normal(size=(N, D)) * [1, 2, 3] + far
    counts = rng.uniform(size=N).astype(dtype) if weighted else None
    rows = Rows.of(X.astype(dtype), counts=counts).kept_by(
        lambda block: block["x"][:, 0] < far + 2
    )
    rows = replace(rows.mapped(X.mean(axis=0), 1 / X.std(axis=0)), rows_per_block=101)
    families = [GaussianFamily(CovarianceType(kind)) for kind in (shared, name)]
    state = random_state(families[0].kind, rng)
    one, other = (family.e_step(rows, state) for family in families)
    assert_same_sums(one, other, 1e-9 if dtype == np.float64 else 1e-5)
    known = GaussianFamily(CovarianceType(name), known=state.covariances[0])
    assert_same_sums(known.e_step(rows, state), one, 1e-14)


def test_components_without_enough_rows_do_not_collapse(kind, rows):
    """Start a component on a single row: its covariance comes from the others."""
    family = GaussianFamily(kind)
    state = family.single(2, D)
    means = np.array([np.zeros(D), rows.points[0]])
    small = np.where(np.arange(2) == 0, 1.0, 1e-6).reshape(-1, *[1] * (state.covariances.ndim - 1))
    state = Gaussians(state.weights, means, state.covariances * small)
    for _ in range(5):
        state = family.m_step(family.e_step(rows, state), state)
    assert state.variances.min() > 0.05


def test_moved_mixtures_have_densities_of_moved_rows(kind, rng, rows):
    state = random_state(kind, rng)
    scale = 2.5 if kind.shape == "spherical" else np.array([2.0, 0.1, 30.0])
    center = rng.normal(size=D)
    moved = state.moved(center, scale)
    jacobian = np.log(np.broadcast_to(scale, D)).sum()
    np.testing.assert_allclose(
        log_densities(center + scale * rows.points, moved) + jacobian,
        log_densities(rows.points, state),
        rtol=1e-8,
    )


def test_other_array_libraries_have_the_same_sums(kind, rng, rows, xp):
    family, state = GaussianFamily(kind), random_state(kind, rng)
    there = Rows.of(xp.asarray(rows.points)).hold()
    whole, found = family.e_step(rows, state), family.e_step(there, state)
    np.testing.assert_allclose(found.products, whole.products, rtol=1e-10, atol=1e-10)
    assert type(family.log_joint(there, state)) is type(xp.asarray(rows.points))


@pytest.mark.parametrize("known", [False, True])
def test_pairs_of_all_components_at_once_are_those_of_one_after_the_other(kind, known, rng):
    """EM of many trials in one product, about the means, against the plain twin."""
    X = np.vstack([rng.normal(size=(n, D)) @ rng.normal(size=(D, D)) + 9 for n in (300, 200, 90)])
    shares = np.repeat(np.eye(3), (300, 200, 90), axis=0)
    rows, family = Rows.of(X, counts=rng.uniform(1, 2, len(X))).hold(), GaussianFamily(kind)
    state = family.from_shares(rows, shares)
    if known:
        covariances = np.repeat(state.pooled[None], 3, axis=0)
        family, state = (
            replace(family, known=covariances[0]),
            replace(state, covariances=covariances),
        )
    pool = family.pool(family.expect(rows, shares * rows.counts[:, None], state), state)
    parts = [rows.take(np.flatnonzero(own), rows.counts[own > 0]) for own in shares.T]
    starts = [family.split_starts(part, state, i, rng) for i, part in enumerate(parts)]
    given = parts, replace(state, weights=np.ones(3)), concatenate(starts), pool.sum(0) - pool
    (found, gains), (plain, expected) = family.fit_pairs(*given, 4), fit_pairs(family, *given, 4)
    assert gains.shape == (3, starts[0].k // 2)
    np.testing.assert_allclose(gains, expected, atol=1e-6)
    for one, other in zip(vars(found).values(), vars(plain).values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)


def test_only_covariances_below_the_least_are_raised(rng):
    A = rng.normal(size=(9, 4, 6))
    covariances = A @ A.transpose(0, 2, 1) / 6
    covariances[3] = np.diag([1, 1e-9, 1, 1])  # a short column
    covariances[5] = np.ones((4, 4))  # a short direction
    least = np.array([1e-3, 1e-3, 1e-3, 2e-3])
    np.testing.assert_array_equal(np.flatnonzero(indefinite(covariances - np.diag(least))), [3, 5])
    family = GaussianFamily(CovarianceType("full"), least=least)
    raised = family.raised(covariances, np.zeros((9, 4)))
    same = np.all(raised == covariances, axis=(1, 2))
    np.testing.assert_array_equal(np.flatnonzero(~same), [3, 5])
    assert np.linalg.eigvalsh(raised - np.diag(least)).min() > -1e-12
