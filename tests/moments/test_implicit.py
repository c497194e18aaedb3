"""Algorithm Implicit-Moment-Estimation: exact on exact moments, and what its analysis measures."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicitmoments import HermiteProblem, implicit_moments
from implicitmoments.circuits import hermite, power, vector
from implicitmoments.datasets import Truth, make_spherical_mixture
from implicitmoments.moments import distances_to_truth, projected_moment, top_subspace
from implicitmoments.problems import PopulationProblem, SphericalMixtureProblem
from implicitmoments.projections import RecursiveProjection, evaluate_dense
from implicitmoments.testing import random_circuit, random_inputs, random_projection

paper_moments = partial(implicit_moments, method="paper")

x, y = vector("x"), vector("y")


def exact(truth, order, k=None):
    k = k or len(truth.weights)
    return paper_moments(
        PopulationProblem(truth), n_components=k, order=order, n_samples=k, truth=truth
    )


AWKWARD = {
    "k < d": Truth([0.3, 0.7], [[1.0, 0.2, 0.0, 0.0], [0.0, -1.0, 0.5, 0.3]]),
    "k > d": Truth([0.1, 0.2, 0.3, 0.4, 0.5], np.random.default_rng(0).normal(size=(5, 2))),
    "repeated": Truth([0.5, 0.25, 0.25], [[1.0, 1.0, 0.0], [0.2, 0.1, 1.0], [0.2, 0.1, 1.0]]),
    "zero": Truth([0.5, 0.2, 0.3], [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.2, 0.1, 1.0]]),
    "opposite": Truth([0.4, 0.6], [[1.0, -2.0, 0.5], [-1.0, 2.0, -0.5]]),
    "unequal": Truth([1e-4, 1.0, 3.0], np.random.default_rng(1).normal(size=(3, 3))),
    "one feature": Truth([0.5, 0.5], [[2.0], [-1.0]]),
    "all zero": Truth([0.5, 0.5], np.zeros((2, 3))),
}


@pytest.mark.parametrize("truth", AWKWARD.values(), ids=AWKWARD)
@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_exact_moments_give_exact_answers(truth, order, rng):
    points = rng.normal(size=(20, truth.vectors.shape[1]))
    result = exact(truth, order)
    expected = truth.power(points, order)
    answers = result.inner(power(x, order), {"x": points})
    np.testing.assert_allclose(answers, expected, atol=1e-10 * (1 + np.abs(expected).max()))
    given_y = rng.normal(size=points.shape)
    answers = result.inner(hermite(x, y, order), {"x": points, "y": given_y})
    z = points + 1j * given_y
    root = np.sqrt(float(np.prod(range(1, order + 1))))
    expected = ((z @ truth.vectors.T) ** order).real @ truth.weights / root
    np.testing.assert_allclose(answers, expected, atol=1e-10 * (1 + np.abs(expected).max()))


@given(
    seed=st.integers(0, 2**32 - 1),
    order=st.integers(1, 4),
    k=st.integers(1, 5),
    d=st.integers(1, 4),
)
def test_any_circuit_is_answered_exactly(seed, order, k, d):
    rng = np.random.default_rng(seed)
    truth = Truth(rng.uniform(0.1, 1, size=k), rng.normal(size=(k, d)))
    circuit = random_circuit(rng, order)
    inputs = random_inputs(rng, circuit, 3, d)
    tensor = evaluate_dense(circuit, inputs)
    expected = 0
    for w, v in zip(truth.weights, truth.vectors, strict=True):
        along = tensor
        for _ in range(order):
            along = along @ v
        expected = expected + w * along
    scale = 1 + np.abs(tensor).max() * np.abs(truth.vectors).max() ** order * d**order
    np.testing.assert_allclose(
        exact(truth, order).inner(circuit, inputs), expected, atol=1e-10 * scale
    )


@pytest.mark.parametrize("truth", AWKWARD.values(), ids=AWKWARD)
def test_in_the_population_every_measure_of_error_is_rounding(truth):
    result = exact(truth, 4)
    run = result.runs[0]
    scale = (1 + np.linalg.norm(truth.vectors, axis=1).max()) ** 8
    # an eigenvector is known up to √(rounding): eta = O(√delta), Lemma 3.9
    assert run.etas.max() < 1e-7 * scale
    assert result.noise_floor.max() < 1e-13 * scale
    assert max(step.delta for step in run.steps) < 1e-13 * scale


def test_eta_is_the_distance_from_the_dense_subspace(rng):
    truth = AWKWARD["k > d"]
    projection = random_projection(rng, 2, 3, width=4)
    for r in (1, 2, 3):
        matrix = projection.first(r).as_matrix()
        powers = evaluate_dense(power(x, r), {"x": truth.vectors}).reshape(5, -1)
        left = powers - powers @ matrix.T @ matrix
        expected = np.max(np.sqrt(truth.weights) * np.linalg.norm(left, axis=1))
        assert distances_to_truth(projection, truth)[r - 1] == pytest.approx(expected, rel=1e-10)


def test_projected_moment_is_the_dense_one(rng):
    truth = AWKWARD["k < d"]
    projection = random_projection(rng, 4, 2, width=3)
    window = np.kron(projection.as_matrix(), np.eye(4))
    cubes = evaluate_dense(power(x, 3), {"x": truth.vectors}).reshape(2, -1)
    dense = (cubes * truth.weights[:, None]).T @ cubes
    np.testing.assert_allclose(
        projected_moment(projection, truth), window @ dense @ window.T, atol=1e-12
    )


def test_eta_grows_no_faster_than_lemma_3_9():
    """eta_{r+1} ≤ eta_r · max‖v‖ + c·√delta, with the constant of the proof (a root of 2)."""
    X, truth = make_spherical_mixture(60_000, 3, 5, radius=1.5, random_state=0)
    run = paper_moments(
        HermiteProblem(X), n_components=3, order=4, truth=truth, random_state=0
    ).runs[0]
    longest = np.linalg.norm(truth.vectors, axis=1).max()
    deltas = [step.delta for step in run.steps]
    assert run.etas[0] <= np.sqrt(2 * deltas[0])
    for r in range(1, 4):
        assert run.etas[r] <= run.etas[r - 1] * longest + np.sqrt(2 * deltas[r])
        assert run.steps[r].next_value <= deltas[r]


def test_every_average_has_rows_of_its_own():
    X, _ = make_spherical_mixture(1_000, 2, 3, random_state=0)
    result = paper_moments(HermiteProblem(X), n_components=2, order=3, n_repeats=2, random_state=0)
    used = [step.rows for run in result.runs for step in run.steps]
    assert [len(rows) for rows in used] == [125] * 6
    seen = [row for rows in used for row in rows]
    assert len(set(seen)) == len(seen)
    assert result.stats["rows_used"] == 1_000
    # the last average of each run has the rows between its steps and the next run's
    assert used[2].stop + 125 == used[3].start


def test_results_do_not_depend_on_the_block_size_beyond_rounding():
    X, _ = make_spherical_mixture(3_000, 2, 3, random_state=0)
    queries = X[:50]
    answers = [
        paper_moments(
            HermiteProblem(X), n_components=2, order=3, random_state=5, rows_per_block=size
        ).hermite(queries, n_draws=3)
        for size in (None, 7, 100)
    ]
    np.testing.assert_allclose(answers[1], answers[0], rtol=1e-9)
    np.testing.assert_allclose(answers[2], answers[0], rtol=1e-9)


def test_the_same_seed_gives_the_same_result_and_another_does_not():
    X, _ = make_spherical_mixture(3_000, 2, 3, random_state=0)

    def answer(seed):
        m = paper_moments(HermiteProblem(X), n_components=2, order=2, random_state=seed)
        return m.hermite(X[:9], n_draws=2)

    np.testing.assert_array_equal(answer(1), answer(1))
    assert np.any(answer(1) != answer(2))


def test_arrays_stay_in_their_library(xp):
    X, _ = make_spherical_mixture(900, 2, 3, random_state=0)
    m = paper_moments(HermiteProblem(xp.asarray(X)), n_components=2, order=2, random_state=0)
    plain = paper_moments(HermiteProblem(X), n_components=2, order=2, random_state=0)
    answer = m.hermite(xp.asarray(X[:9]), n_draws=2)
    assert type(answer) is type(xp.ones(1))
    np.testing.assert_allclose(np.asarray(answer), plain.hermite(X[:9], n_draws=2), rtol=1e-9)


def test_progress_is_told_on_request():
    X, _ = make_spherical_mixture(300, 2, 3, random_state=0)
    told = []
    paper_moments(
        HermiteProblem(X),
        n_components=2,
        order=2,
        random_state=0,
        rows_per_block=40,
        progress=lambda what, done, total: told.append((what, done, total)),
    )
    assert told[:2] == [("order 2", 40, 300), ("order 2", 80, 300)]
    assert told[7] == told[-1] == ("order 2", 300, 300)
    assert {what for what, _, _ in told} == {"order 2", "order 4"}


def numbers(found):
    """Return the numbers in the one line that represents a result."""
    assert re.fullmatch("<.*>", repr(found))
    return re.findall(r"\d(?:[\d,.e+-]*\d)?", repr(found))


def test_a_result_is_shown_by_its_numbers():
    X, _ = make_spherical_mixture(2_000, 3, 6, radius=3.0, random_state=0)
    problem = SphericalMixtureProblem(X)
    for method in ("closed_form", "paper"):
        found = implicit_moments(problem, n_components=3, order=4, method=method)
        order, n_features, kept, of, _, rows = numbers(found)
        assert (order, n_features, kept, of) == ("4", "6", "3", "3")
        assert rows == f"{found.stats['rows_used']:,}"
    one = exact(Truth([1.0], [[2.0]]), 2)
    assert numbers(one)[:4] == ["2", "1", "1", "1"]
    assert numbers(replace(one, stats={})) == ["2", "1", "1", "1", "0"]  # no noise, no rows


def test_the_largest_eigenvalues_not_the_largest_sizes():
    """Erratum 8: a moment of even order has no negative eigenvalues, so those are noise."""
    basis, spectrum = top_subspace(np.diag([1.0, -5.0, 0.5]), 1)
    np.testing.assert_allclose(np.abs(basis), [[1.0, 0.0, 0.0]])
    np.testing.assert_allclose(spectrum, [1.0, 0.5, -5.0])


def test_what_is_not_symmetric_is_made_so(xp):
    skewed = np.array([[2.0, 1.0], [0.0, 1.0]])
    basis, spectrum = top_subspace(xp.asarray(skewed), 5)
    assert basis.shape == (2, 2)
    np.testing.assert_allclose(spectrum, np.linalg.eigvalsh((skewed + skewed.T) / 2)[::-1])


def test_identity_steps_lose_nothing():
    truth = Truth([1.0], [[1.0, 2.0]])
    keep = RecursiveProjection.identity(2, 2).tensor(RecursiveProjection.identity(2, 1))
    np.testing.assert_array_equal(distances_to_truth(keep, truth), [0.0, 0.0, 0.0])


def test_what_a_subspace_misses_of_the_moment_is_bounded_by_eta():
    """Claim 3.10: ‖M_m − P_m M_m‖ ≤ eta_m √k (Σ w)^(1/2)."""
    X, truth = make_spherical_mixture(9_000, 3, 4, random_state=0)
    run = implicit_moments(
        HermiteProblem(X), n_components=3, order=3, method="paper", truth=truth, random_state=0
    ).runs[0]
    matrix = run.projection.as_matrix()
    powers = evaluate_dense(power(vector("v"), 3), {"v": truth.vectors}).reshape(3, -1)
    moment = truth.weights @ powers
    missed = np.linalg.norm(moment - moment @ matrix.T @ matrix)
    bound = run.etas[-1] * np.sqrt(3) * np.sqrt(truth.weights.sum())
    assert 0 < missed <= bound
    assert missed > 0.02 * bound  # the bound is not so loose that anything passes
