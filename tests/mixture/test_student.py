"""Mixtures of multivariate t distributions: density, EM, fits, samples and notes."""

import numpy as np
import pytest
from scipy.stats import chi2, kstest, multivariate_t
from scipy.stats import f as fisher
from sklearn.datasets import load_digits

import implicitmoments as im
from implicitmoments.description.base import FREEDOM, findings_of
from implicitmoments.mixture.expansion import log_joint
from implicitmoments.mixture.family import GaussianFamily
from implicitmoments.mixture.gaussians import COVARIANCE_TYPES, CovarianceType, Gaussians
from implicitmoments.rows import Rows
from implicitmoments.search import Budget, run_em
from implicitmoments.search.tails import tail_misfit

D, NU = 2, 3.0


def t_rows(n, seed, means, roots, nu=NU):
    """Rows of equally many components, in random order."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(len(means), size=n)
    z = rng.normal(size=(n, D)) * np.sqrt(nu / rng.chisquare(nu, n))[:, None]
    return means[labels] + np.einsum("nij,nj->ni", roots[labels], z)


MEANS = np.array([[0.0, 0.0], [7.0, 3.0]])
ROOTS = np.array([[[1.0, 0.0], [0.6, 0.8]], [[0.7, 0.0], [-0.3, 1.2]]])
X = t_rows(1_200, 0, MEANS, ROOTS)


def state_of(name):
    matrices = ROOTS @ ROOTS.transpose(0, 2, 1)
    kind = CovarianceType(name)
    if kind.tied:
        matrices = np.repeat(matrices.mean(axis=0)[None], 2, axis=0)
    weights, covariances = np.array([0.4, 0.6]), kind.constrained(matrices)
    return kind, Gaussians(weights, MEANS, covariances, np.full(2, NU))


def reference(state, x):
    """Log weight plus log density by SciPy, (n, k)."""
    parts = zip(state.weights, state.means, state.expanded().covariances, strict=True)
    logs = [np.log(w) + multivariate_t.logpdf(x, m, C, state.freedom[0]) for w, m, C in parts]
    return np.column_stack(logs)


@pytest.mark.parametrize("name", COVARIANCE_TYPES)
def test_density_is_that_of_scipy_and_em_is_monotone(name):
    kind, state = state_of(name)
    family, rows = GaussianFamily(kind, student=True), Rows.of(X)
    np.testing.assert_allclose(log_joint(X, state), reference(state, X), rtol=1e-9)
    np.testing.assert_allclose(family.log_joint(rows, state), reference(state, X), rtol=1e-6)
    levels = []
    for _ in range(8):  # without extrapolation
        sums = family.e_step(rows, state)
        levels.append(sums.level)
        state = family.m_step(sums, state)
    assert np.all(np.diff(levels) > -1e-9)
    level = np.logaddexp.reduce(reference(state, X), axis=1).mean()
    np.testing.assert_allclose(family.e_step(rows, state).level, level, rtol=1e-6)
    assert len(family.pack(state)) - 1 == family.n_parameters(state)
    again = family.unpack(family.pack(state), state)
    np.testing.assert_allclose(log_joint(X, again), log_joint(X, state), rtol=1e-6)


@pytest.mark.parametrize("name", ["full", "tied_spherical"])
def test_auto_finds_components_with_tails(name):
    roots = ROOTS if name == "full" else np.repeat(np.eye(D)[None], 2, axis=0)
    rows = t_rows(1_000, 1, MEANS, roots)
    how = {"covariance_type": name, "random_state": 0}
    model = im.GaussianMixture("auto", noise="student", **how).fit(rows)
    assert model.n_components_ == 2
    assert 2.3 < model.degrees_of_freedom_ < 4
    assert model.stats_["outliers"] == 0
    assert model.notes_ == []
    order = np.argsort(model.means_[:, 0])
    np.testing.assert_allclose(model.means_[order], MEANS, atol=0.3)
    family = GaussianFamily(CovarianceType(name), student=True)
    truth = Gaussians(np.full(2, 0.5), MEANS, model._covariances()[order], np.full(2, NU))
    best = run_em(family, Rows.of(rows), truth, Budget(1_000, 500, 1e-9))
    assert model.lower_bound_ > best.level - 1e-4
    # what follows from the density
    logs = model.score_samples(rows)
    np.testing.assert_allclose(logs.mean(), model.lower_bound_, rtol=1e-6)
    gaussian = im.GaussianMixture(2, drop_outliers=False, **how).fit(rows)
    n = {"full": 12, "tied_spherical": 7}[name]
    np.testing.assert_allclose(model.bic(rows), -2 * logs.sum() + n * np.log(1_000))
    assert model.bic(rows) < gaussian.bic(rows) - 100
    drawn, labels = model.sample(20_000, random_state=1)
    own = drawn[labels == 0] - model.means_[0]
    squares = np.einsum(
        "ni,ij,nj->n", own, np.linalg.inv(model._mixture().expanded().covariances[0]), own
    )
    assert kstest(squares / D, fisher(D, model.degrees_of_freedom_).cdf).pvalue > 1e-3


@pytest.mark.parametrize("k", [2, "auto"])
def test_heavy_tails_are_noted(k):
    model = im.GaussianMixture(k, drop_outliers=False, random_state=0).fit(X)
    (note,) = (note for note in model.notes_ if note.code == "heavy_tails")
    assert (note.values["k"], note.values["found"]) == (model.n_components_, 2)
    gaussian = t_rows(1_200, 3, MEANS, ROOTS, nu=1e6)
    assert im.GaussianMixture(k, random_state=0).fit(gaussian).notes_ == []


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
def test_a_sharp_peak_is_no_heavy_tail():
    """Pixels that are mostly 0: Student's law gains by its peak, and its tails are wrong."""
    pixels = load_digits().data[:600]
    gaussian = im.GaussianMixture(5, covariance_type="diag", random_state=0).fit(pixels)
    assert "heavy_tails" not in gaussian.notes_.codes


def test_tails_at_the_bound_of_student_s_law_are_noted():
    far = t_rows(1_200, 3, MEANS, ROOTS, nu=0.8)
    with pytest.warns(im.AssumptionWarning):
        model = im.GaussianMixture(1, drop_outliers=False, random_state=0).fit(far)
    assert "heavy_tails" in model.notes_.codes


@pytest.mark.parametrize("nu", [np.inf, NU])
def test_distances_from_centres_are_compared_with_their_law(nu, rng):
    """As by SciPy where components are far apart; small of the right law, large of another."""
    rows = t_rows(1_000, 4, MEANS * 100, ROOTS, nu=min(nu, 1e6))
    covariances, found = ROOTS @ ROOTS.transpose(0, 2, 1), {}
    for law in (nu, 1.0):
        state = Gaussians(np.full(2, 0.5), MEANS * 100, covariances, np.full(2, law))
        family = GaussianFamily(CovarianceType("full"), student=bool(np.isfinite(law)))
        found[law] = tail_misfit(family, Rows.of(rows).hold(), state, D)
    own = (rows[:, 0] > 350).astype(int)
    z = np.linalg.solve(ROOTS[own], (rows - 100 * MEANS[own])[..., None])[..., 0]
    squares = np.sum(z**2, axis=1)
    cdf = chi2(D).cdf if np.isinf(nu) else lambda t: fisher(D, nu).cdf(t / D)
    assert found[nu] == pytest.approx(kstest(squares, cdf).statistic, abs=1e-6)
    assert found[nu] < 0.06 < 0.1 < found[1.0]


def test_the_tails_of_batches():
    rows = t_rows(21_000, 2, MEANS, ROOTS)
    model = im.GaussianMixture(2, noise="student", random_state=0)
    for part in np.array_split(rows, [20_000]):
        model.partial_fit(part)
    assert model.stats_["rows_seen"] == len(rows)
    np.testing.assert_allclose(model.degrees_of_freedom_, NU, rtol=0.05)
    np.testing.assert_allclose(model.means_[np.argsort(model.means_[:, 0])], MEANS, atol=0.1)


def test_the_model_is_saved(tmp_path):
    model = im.GaussianMixture(2, noise="student", random_state=0).fit(X)
    im.save(model, tmp_path / "model.im")
    again = im.load(tmp_path / "model.im")
    assert again.degrees_of_freedom_ == model.degrees_of_freedom_
    np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))


def test_degrees_of_freedom_at_their_bound_have_no_error(rng):
    model = im.GaussianMixture(1, noise="student", errors="observed", random_state=0)
    assert np.isnan(model.fit(rng.uniform(size=(300, 1))).degrees_of_freedom_errors_)


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
def test_degrees_of_freedom_are_findings_of_student_s_law_alone():
    for noise, expected in (("gaussian", False), ("student", True)):
        model = im.GaussianMixture(2, noise=noise, n_moves=0, random_state=0).fit(X)
        assert (FREEDOM in findings_of(model)) is expected


def test_a_warm_start_keeps_the_degrees_of_freedom():
    T = t_rows(600, 0, MEANS, np.array([np.eye(D)] * 2))
    model = im.GaussianMixture(2, noise="student", warm_start=True, random_state=0).fit(T)
    before = model.degrees_of_freedom_
    model.max_iter = 0
    assert model.fit(T).degrees_of_freedom_ == before
