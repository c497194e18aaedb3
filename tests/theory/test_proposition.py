"""Bounds of Proposition 3.2 and Lemma 4.3: identities, inverses, and that they are bounds."""

import math

import numpy as np
import pytest
from scipy.special import roots_hermitenorm

from implicitmoments import implicit_moments
from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.problems import SphericalMixtureProblem
from implicitmoments.testing import refuses
from implicitmoments.theory import error_bound, log10_hermite_second_moment, moment_bound
from implicitmoments.theory.applications import mixture_second_moment
from implicitmoments.theory.hermite_variance import log_hermite_second_moment
from implicitmoments.theory.proposition import Box


def nodes(n):
    x, w = roots_hermitenorm(n)
    return x, w / w.sum()


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("mu", [0.0, 0.7, 2.5])
def test_the_second_moment_of_lemma_4_3_is_exact(n, mu):
    # on a line, along which the largest second moment is attained
    x, w = nodes(n + 1)
    z = (mu + x[:, None] + 1j * x) ** n
    exact = w @ (z.real**2 / math.factorial(n)) @ w
    assert 10 ** log10_hermite_second_moment(n, mu) == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("mu", [0.0, 1.3])
def test_no_direction_has_a_larger_second_moment(mu):
    n, d = 3, 2
    x, w = nodes(n + 1)
    grids = np.meshgrid(x, x, x, x, indexing="ij")
    weights = np.einsum("a,b,c,d->abcd", w, w, w, w).ravel()
    points = np.stack([grid.ravel() for grid in grids], axis=1)
    z = points[:, :d] + np.array([mu, 0.0]) + 1j * points[:, d:]
    tensors = np.einsum("na,nb,nc->nabc", z, z, z).real.reshape(-1, d**n) / math.sqrt(6)
    second = (tensors * weights[:, None]).T @ tensors
    largest = np.linalg.eigvalsh(second)[-1]
    assert largest == pytest.approx(math.exp(log_hermite_second_moment(n, mu)), rel=1e-10)


def test_the_constant_of_lemma_4_3():
    # O(r²/n + 1)^n with the constant 2e: (2e (1 + r²/2n))^n
    for n in (1, 3, 10, 40, 200):
        for radius in (0.1, 1.0, 5.0, 30.0):
            bound = n * math.log(2 * math.e * (1 + radius**2 / (2 * n)))
            assert log_hermite_second_moment(n, radius) <= bound


def test_rows_and_error_are_inverse_and_monotone():
    options = {"k": 3, "d": 5, "m": 4, "second_moment": 100.0, "tau": 0.1}
    rows = [moment_bound(epsilon=e, **options).log10_rows for e in (10.0, 1.0, 0.1)]
    assert rows[0] < rows[1] < rows[2]
    error = error_bound(moment_bound, 10 ** rows[1], **options)
    assert error == pytest.approx(1.0, rel=1e-3)
    # the leading term falls with the fourth root of N, as in the proposition
    far = [moment_bound(epsilon=e, **options).log10_rows_per_average for e in (1e-8, 1e-9)]
    assert far[1] - far[0] == pytest.approx(4.0, abs=1e-3)


def test_large_numbers_do_not_overflow():
    bound = moment_bound(10, 50, 300, 1e-3, second_moment=1e300, largest_norm=5.0)
    assert math.isfinite(bound.log10_rows)
    assert bound.rows == math.inf
    assert bound.operations == math.inf
    assert "Proposition 3.2" in str(bound)


@pytest.mark.parametrize("seed", range(2))
def test_the_paper_s_algorithm_is_within_its_bound(seed):
    k, d, m, tau, radius, N = 2, 3, 2, 0.2, 2.0, 2_000
    X, truth = make_spherical_mixture(N * (m + 1), k, d, radius=radius, random_state=seed)
    moments = implicit_moments(
        SphericalMixtureProblem(X),
        n_components=k,
        order=m,
        method="paper",
        truth=truth,
        random_state=seed,
    )
    queries = np.random.default_rng(seed).normal(size=(50, d))
    errors = np.asarray(moments.hermite(queries, n_draws=N)) - truth.hermite(queries, m)
    estimator = mixture_second_moment(radius, 1.0)
    query = log_hermite_second_moment(m, 0.0)
    box = Box.of_moment((k, d, m), tau, estimator, query, length=math.log(radius))
    bound = math.exp(box.log_error(math.log(N)))
    error = math.sqrt(np.mean(errors**2))
    assert error <= bound
    assert error > 1e-3 * bound  # a bound, and not an arbitrary large number
    # delta of the proof, 2 d k √(m V/(N tau)), and eta from it by Lemma 3.9
    delta = 2 * d * k * math.sqrt(m * math.exp(box.subspaces) / (N * tau))
    assert max(step.delta for step in moments.steps) <= delta
    assert moments.runs[0].etas[-1] <= math.sqrt(2 * delta) * (1 + radius)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"k": 0}, "k"),
        ({"m": 1.5}, "m"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"tau": 1.0}, "tau"),
        ({"second_moment": -1.0}, "second_moment"),
        ({"size": 0}, "size"),
    ],
)
def test_parameters_are_checked(options, name):
    given = {"k": 2, "d": 3, "m": 2, "epsilon": 0.1, "second_moment": 1.0} | options
    code = "not_an_integer" if name == "m" else None
    codes = [code] if code else ["out_of_range", "not_positive"]
    with pytest.raises((ValueError, TypeError)) as caught:
        moment_bound(**given)
    assert caught.value.code in codes
    assert caught.value.values["name"] == name


def test_no_rows_are_refused():
    with refuses("not_positive", name="n_rows"):
        error_bound(moment_bound, 0, k=2, d=3, m=2, second_moment=1.0)
