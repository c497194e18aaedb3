"""Search of spherical mixtures in the span of their means."""

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.mixture import (
    CovarianceType,
    GaussianFamily,
    Gaussians,
    make_view,
)
from implicitmoments.mixture.span import Span, principal_span
from implicitmoments.rows import Rows, mean_and_covariance


@pytest.fixture
def mixture(rng):
    """Return rows (4,000, 30) of four components, and the mixture."""
    means = rng.normal(size=(4, 30))
    state = Gaussians(np.array([0.1, 0.2, 0.3, 0.4]), means, np.full(4, 0.25))
    labels = rng.choice(4, 4_000, p=state.weights)
    return means[labels] + 0.5 * rng.normal(size=(4_000, 30)), state


def test_responsibilities_need_the_span_alone(mixture):
    X, state = mixture
    family = GaussianFamily(CovarianceType("tied_spherical"))
    span = Span(np.eye(30), np.cov(X.T)).of_means(state, len(X))
    assert span.basis.shape == (30, 3)
    whole = family.log_joint(Rows.of(X), state)
    inside = family.log_joint(span.rows(Rows.of(X)), span.inside(state))
    np.testing.assert_allclose(
        inside - inside[:, :1], whole - whole[:, :1], atol=1e-9, err_msg="log odds"
    )


def test_levels_in_the_span_are_those_of_all_columns(mixture):
    X, state = mixture
    X = X - X.mean(axis=0)
    span = principal_span(mean_and_covariance(Rows.of(X)).covariance, 4)
    part = span.rows(Rows.of(X)).hold()
    view = make_view(part, CovarianceType("tied_spherical"), 1e-6)
    off = np.sum(X**2) - np.sum(part.points**2)
    state = Gaussians(np.ones(1), np.zeros((1, 30)), np.array([off / len(X) / 27]))
    inner = view.inside(span.inside(state))
    level = view.family.e_step(view.hold(part), inner).level
    expected = GaussianFamily(CovarianceType("tied_spherical")).e_step(Rows.of(X), state).level
    assert span.restored({"start": level}, view)["start"] == pytest.approx(expected, abs=1e-5)


def test_the_span_has_the_direction_of_a_missing_component(mixture):
    X, state = mixture
    covariance = np.cov(X.T, bias=True)
    # the third component has the rows of the fourth, too
    means = np.vstack([state.means[:2], (3 * state.means[2] + 4 * state.means[3])[None] / 7])
    wrong = Gaussians(np.array([0.1, 0.2, 0.7]), means, np.full(3, 0.25))
    basis = Span(np.eye(30), covariance).of_means(wrong, len(X)).basis
    apart = state.means[3] - state.means[2]
    assert np.linalg.norm(basis.T @ apart) > 0.95 * np.linalg.norm(apart)
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-9)


@pytest.mark.parametrize("variance", [None, 4.0])
def test_a_search_in_the_span_ends_at_the_maximum_of_all_columns(rng, variance):
    k, d, n = 6, 40, 3_000
    means = 3 * rng.normal(size=(k, d)) * np.sqrt(12.5 / d)
    X = 5.0 + means[rng.integers(0, k, n)] + 2 * rng.normal(size=(n, d))
    model = im.SphericalMixture(k, variance=variance, random_state=0).fit(X)
    known = im.GaussianMixture(
        k, covariance_type="tied_spherical", means_init=5.0 + means, n_moves=0, random_state=0
    ).fit(X)
    assert model.lower_bound_ == pytest.approx(known.lower_bound_, abs=2e-4)
    start = model.stats_["start_log_likelihood"][model.stats_["start"]]
    assert start == pytest.approx(model.lower_bound_, abs=0.5)
