"""A row of weight 2 is a row that is there twice; a row of weight 0 is not there."""

import numpy as np
import pytest

from implicitmoments import HermiteProblem, implicit_moments
from implicitmoments.datasets import (
    make_activation_sum,
    make_regression_mixture,
    make_spherical_mixture,
)
from implicitmoments.problems import (
    ActivationSumProblem,
    RegressionMixtureProblem,
    SphericalMixtureProblem,
    relu,
)
from support import refuses

N = 6_000


def _counts():
    return np.random.default_rng(3).integers(0, 4, N)


def _mixture(repeat):
    X, _ = make_spherical_mixture(N, 3, 4, radius=4.0, random_state=0)
    if repeat is None:
        return SphericalMixtureProblem(X, sample_weight=_counts())
    return SphericalMixtureProblem(np.repeat(X, repeat, axis=0))


def _regression(repeat):
    X, y, _ = make_regression_mixture(N, 3, 4, random_state=0)
    if repeat is None:
        return RegressionMixtureProblem(X, y, whiten=True, sample_weight=_counts())
    return RegressionMixtureProblem(
        np.repeat(X, repeat, axis=0), np.repeat(y, repeat), whiten=True
    )


def _activation(repeat):
    X, y, _ = make_activation_sum(N, 3, 4, random_state=0)
    if repeat is None:
        return ActivationSumProblem(X, y, relu(), sample_weight=_counts())
    return ActivationSumProblem(np.repeat(X, repeat, axis=0), np.repeat(y, repeat), relu())


@pytest.mark.parametrize("build", [_mixture, _regression, _activation])
def test_weights_are_repetitions(build):
    weighted = implicit_moments(build(None), n_components=3, order=4)
    repeated = implicit_moments(build(_counts()), n_components=3, order=4)
    for a, b in zip(weighted.spectra, repeated.spectra, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(weighted.noise_floor, repeated.noise_floor, rtol=1e-7)
    X = np.random.default_rng(1).standard_normal((5, 4))
    for order in (2, 4):
        np.testing.assert_allclose(
            weighted.hermite(X, order), repeated.hermite(X, order), rtol=1e-8
        )
    a, b = weighted.components(), repeated.components()
    np.testing.assert_allclose(a.guesses, b.guesses, rtol=1e-6)
    np.testing.assert_allclose(a.errors, b.errors, rtol=1e-5)


def test_weights_change_the_answer():
    """The control: weights are not ignored."""
    X, _ = make_spherical_mixture(N, 3, 4, radius=4.0, random_state=0)
    plain = implicit_moments(HermiteProblem(X), n_components=3, order=2)
    weighted = implicit_moments(
        HermiteProblem(X, sample_weight=_counts()), n_components=3, order=2
    )
    assert not np.allclose(plain.spectra[0], weighted.spectra[0], rtol=1e-4)


def test_only_ratios_matter_and_the_paper_takes_weights_too():
    X, _ = make_spherical_mixture(N, 2, 3, radius=2.0, random_state=0)
    counts = np.where(X[:, 0] > 0, 3.0, 1.0)
    for method in ("closed_form", "paper"):
        answers = [
            implicit_moments(
                HermiteProblem(X, sample_weight=scale * counts),
                n_components=2,
                order=2,
                method=method,
                random_state=0,
            ).spectra[0]
            for scale in (1.0, 7.0)
        ]
        np.testing.assert_allclose(*answers, rtol=1e-10)


@pytest.mark.parametrize(
    ("weights", "code"),
    [
        (-np.ones(50), "negative_weight"),
        (np.zeros(50), "weights_all_zero"),
        (np.ones(49), "lengths_differ"),
        (np.full(50, np.nan), "not_finite"),
    ],
)
def test_weights_are_checked(weights, code):
    with refuses(code):
        HermiteProblem(np.zeros((50, 2)), sample_weight=weights)


def test_made_rows_have_no_weights():
    with refuses("weights_of_drawn_rows"):
        HermiteProblem(lambda rows, rng: rng.normal(2), sample_weight=np.ones(3))
