"""Proposition 3.2: exact on exact moments, and what its analysis measures."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from implicitmoments.paper import (
    Problem,
    answer,
    hermite,
    hermite_problem,
    implicit_moment_estimation,
    measure_errors,
    power,
    rows_in_turn,
    vector,
)
from implicitmoments.paper.estimation import median_of_runs, runs_for, top_subspace
from implicitmoments.paper.projections import as_matrix, evaluate_dense

x, y = vector("x"), vector("y")
AWKWARD = {
    "k < d": ([0.3, 0.7], [[1.0, 0.2, 0.0, 0.0], [0.0, -1.0, 0.5, 0.3]]),
    "k > d": ([0.1, 0.2, 0.3, 0.4, 0.5], np.random.default_rng(0).normal(size=(5, 2))),
    "repeated": ([0.5, 0.25, 0.25], [[1.0, 1.0, 0.0], [0.2, 0.1, 1.0], [0.2, 0.1, 1.0]]),
    "zero": ([0.5, 0.2, 0.3], [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.2, 0.1, 1.0]]),
    "opposite": ([0.4, 0.6], [[1.0, -2.0, 0.5], [-1.0, 2.0, -0.5]]),
    "unequal": ([1e-4, 1.0, 3.0], np.random.default_rng(1).normal(size=(3, 3))),
    "one feature": ([0.5, 0.5], [[2.0], [-1.0]]),
}


@pytest.fixture(params=AWKWARD.values(), ids=AWKWARD)
def truth(request):
    return tuple(np.asarray(array) for array in request.param)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("eigenvalues", [False, True])
def test_exact_moments_give_exact_answers(truth, order, eigenvalues, population, rng):
    weights, vectors = truth
    k, d = vectors.shape
    problem = population(weights, vectors)
    moment = implicit_moment_estimation(problem, k, order, k, rng, eigenvalues=eigenvalues)
    points, draws = rng.normal(size=(20, d)), rng.normal(size=(3, d))
    answers = answer(moment, hermite(x, y, order), {"x": points}, {"y": draws})
    z = (points[:, None] + 1j * draws) @ vectors.T
    expected = np.mean((z**order).real @ weights, axis=1) / math.sqrt(math.factorial(order))
    np.testing.assert_allclose(answers, expected, atol=1e-10 * (1 + np.abs(expected).max()))


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    order=st.integers(1, 4),
    k=st.integers(1, 5),
    d=st.integers(1, 4),
)
def test_any_circuit_is_answered_exactly(
    population, random_circuit, random_inputs, seed, order, k, d
):
    rng = np.random.default_rng(seed)
    weights, vectors = rng.uniform(0.1, 1, size=k), rng.normal(size=(k, d))
    circuit, inputs = random_circuit(rng, order), random_inputs(rng, 3, d)
    tensor = evaluate_dense(circuit, inputs)
    expected = 0
    for w, v in zip(weights, vectors, strict=True):
        along = tensor
        for _ in range(order):
            along = along @ v
        expected = expected + w * along
    moment = implicit_moment_estimation(population(weights, vectors), k, order, k, rng)
    scale = 1 + np.abs(tensor).max() * np.abs(vectors).max() ** order * d**order
    # one query for each row of the inputs, and one draw that the circuit does not read
    answers = answer(moment, circuit, inputs, {"unread": np.zeros(1)})
    np.testing.assert_allclose(answers, expected, atol=1e-10 * scale)


def mixture(n, rng, variance=1.0):
    """Means of norm 1.5 and the problem of their moments; rows of other variances are wrong."""
    means = np.array([[1.5, 0.0, 0.0, 0.0], [0.0, 1.2, 0.9, 0.0]])
    labels = rng.integers(2, size=n)
    rows = means[labels] + math.sqrt(variance) * rng.normal(size=(n, 4))

    def weight(order, block):
        return np.full(len(block["x"]), math.sqrt(math.factorial(order)))

    problem = hermite_problem(rows_in_turn({"x": rows}, rng), 4, weight)
    return problem, np.array([0.5, 0.5]), means


@pytest.fixture(scope="module")
def measured():
    rng = np.random.default_rng(0)
    problem, weights, means = mixture(60_000, rng)
    moment = implicit_moment_estimation(problem, 2, 4, 12_000, rng)
    return moment, weights, means, measure_errors(moment, weights, means)


def test_eta_grows_no_faster_than_lemma_3_9(measured):
    """eta_{r+1} ≤ eta_r · max‖v‖ + √(2 delta), with the constant of the proof."""
    moment, _, means, errors = measured
    longest = np.linalg.norm(means, axis=1).max()
    before = np.append(0.0, errors.etas[:-1])
    assert np.all(errors.etas <= before * longest + np.sqrt(2 * errors.deltas))
    assert np.all([step.next_value for step in moment.steps] <= errors.deltas)
    assert all(step.gap > 0 for step in moment.steps[:2])


def test_what_a_subspace_misses_is_bounded_by_claim_3_10(measured):
    """‖M_m − P_m M_m‖ ≤ eta_m √k (Σ w)^(1/2), and both are those of dense tensors."""
    moment, weights, means, errors = measured
    matrix = as_matrix(moment.projection)
    powers = evaluate_dense(power(x, 4), {"x": means}).reshape(2, -1)
    outside = powers - powers @ matrix.T @ matrix
    distances = np.sqrt(weights) * np.linalg.norm(outside, axis=1)
    assert errors.etas[-1] == pytest.approx(distances.max(), rel=1e-10)
    assert errors.missed == pytest.approx(np.linalg.norm(weights @ outside), rel=1e-10)
    bound = errors.etas[-1] * math.sqrt(2)
    assert 0.02 * bound < errors.missed <= bound  # not so loose that anything passes


def test_averages_are_those_of_dense_tensors(rng):
    """Steps 2 and 4(c), on the same samples."""
    inputs = {"x": rng.normal(size=(50, 3)), "y": rng.normal(size=(50, 3))}
    problem = Problem(3, lambda order: hermite(x, y, order), lambda order, n, rng: inputs)
    moment = implicit_moment_estimation(problem, 2, 2, 50, rng)
    second = evaluate_dense(hermite(x, y, 2), inputs).mean(axis=0)
    np.testing.assert_allclose(moment.steps[0].A, second, atol=1e-12)
    half = np.kron(moment.steps[0].phi, np.eye(3))
    fourth = evaluate_dense(hermite(x, y, 4), inputs).mean(axis=0).reshape(9, 9)
    np.testing.assert_allclose(moment.steps[1].A, half @ fourth @ half.T, atol=1e-12)
    expected = as_matrix(moment.projection) @ second.reshape(-1)
    np.testing.assert_allclose(moment.coordinates, expected, atol=1e-12)


def test_every_step_has_new_rows(rng):
    """Step 1: N samples for each of the m + 1 averages, and none twice."""
    take, handed_out = rows_in_turn({"x": np.arange(40.0)[:, None]}, rng), []

    def recorded(n):
        rows = take(n)
        handed_out.append(rows["x"][:, 0])
        return rows

    problem = hermite_problem(recorded, 1, lambda order, rows: np.ones(len(rows["x"])))
    implicit_moment_estimation(problem, 1, 3, 10, rng)
    assert [len(rows) for rows in handed_out] == [10] * 4
    assert sorted(np.concatenate(handed_out)) == list(range(40))
    with pytest.raises(ValueError, match="1 new rows are needed and 0 of 40"):
        take(1)


def relative_error(n, seed, variance=1.0):
    rng = np.random.default_rng(seed)
    problem, weights, means = mixture(3 * n, rng, variance)
    moment = implicit_moment_estimation(problem, 2, 2, n, rng)
    points, draws = rng.normal(size=(200, 4)), rng.normal(size=(500, 4))
    answers = answer(moment, hermite(x, y, 2), {"x": points}, {"y": draws})
    exact = (((points @ means.T) ** 2 - np.sum(means**2, axis=1)) @ weights) / math.sqrt(2)
    return math.sqrt(np.mean((answers - exact) ** 2) / np.mean(exact**2))


def falls(**options):
    small, large = (
        np.median([relative_error(n, seed, **options) for seed in range(3)])
        for n in (1_000, 64_000)
    )
    # between N^(-1/4) of Proposition 3.2, a factor 2.8, and N^(-1/2), a factor 8
    return large < small / 2 and large < 0.2


def test_the_error_falls_with_the_rows():
    assert falls()


def test_rows_of_another_variance_do_not_pass():
    assert not falls(variance=2.0)


def test_singular_vectors_or_eigenvectors():
    """Erratum 8: for positive weights a large negative eigenvalue is noise."""
    A = np.diag([1.0, -5.0, 0.5])
    singular, positive = top_subspace(A, 1, False), top_subspace(A, 1, True)
    np.testing.assert_allclose(np.abs(singular.phi), [[0.0, 1.0, 0.0]])
    np.testing.assert_allclose(np.abs(positive.phi), [[1.0, 0.0, 0.0]])
    np.testing.assert_allclose(singular.spectrum, [5.0, 1.0, 0.5])
    np.testing.assert_allclose(positive.spectrum, [1.0, 0.5, -5.0])
    assert (singular.gap, singular.next_value) == (4.0, 1.0)


def test_signed_weights_need_the_singular_vectors(population):
    """With weights 1 and −2 the eigenvectors of the largest eigenvalues miss a direction."""
    weights, vectors = np.array([1.0, -2.0]), np.eye(3)[:2]
    problem, points = population(weights, vectors), np.random.default_rng(1).normal(size=(9, 3))
    errors = []
    for eigenvalues in (False, True):
        rng = np.random.default_rng(0)
        moment = implicit_moment_estimation(problem, 2, 2, 2, rng, eigenvalues=eigenvalues)
        answers = answer(moment, power(x, 2), {"x": points}, {"unread": np.zeros(1)})
        errors.append(np.abs(answers - points**2 @ np.array([1.0, -2.0, 0.0])).max())
    assert errors[0] < 1e-12
    assert errors[1] > 0.1


@pytest.mark.parametrize("tau", [0.5, 0.1, 0.01])
def test_the_number_of_runs_suffices(tau):
    """Exactly: more than half of the runs fail, each with probability 1/4."""
    n = runs_for(tau)
    fails = sum(
        math.comb(n, j) * 0.25**j * 0.75 ** (n - j) for j in range(math.ceil(n / 2), n + 1)
    )
    assert n % 2 == 1
    assert fails <= tau
    wrong = np.full((n // 2, 4), 1e6)  # less than half of the runs
    right = np.tile(np.arange(4.0), (n - len(wrong), 1))
    np.testing.assert_array_equal(median_of_runs([*wrong, *right]), np.arange(4.0))
