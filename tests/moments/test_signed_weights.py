"""Weights of both signs: the singular subspace of the text, and the note where it is needed."""

import math

import numpy as np
import pytest

from implicitmoments import AssumptionWarning, MomentProblem, implicit_moments
from implicitmoments.circuits import power, scalar, vector
from implicitmoments.moments import implicit, top_subspace
from implicitmoments.moments.split_mean import SplitMean
from implicitmoments.moments.subspace import largest_noise
from implicitmoments.problems import ActivationSumProblem, relu
from support import refuses

V = np.array([[1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.6, 0.8, 0.0, 0.0]])


def difference(n, seed, signs=(1.0, -1.0)):
    """ReLU(v_1 · x) − ReLU(v_2 · x) on rows from N(0, I)."""
    X = np.random.default_rng(seed).normal(size=(n, 5))
    return ActivationSumProblem(X, np.maximum(X @ V.T, 0) @ signs, relu())


def exact(points, order, signs=(1.0, -1.0)):
    series = [0.0] * order + [1.0]
    return (
        np.polynomial.hermite_e.hermeval(points @ V.T, series)
        @ signs
        / math.sqrt(math.factorial(order))
    )


def relative_error(moments, order, signs=(1.0, -1.0)):
    points = np.random.default_rng(99).normal(size=(400, 5))
    wanted = exact(points, order, signs)
    return np.sqrt(np.mean((moments.hermite(points, order) - wanted) ** 2) / np.mean(wanted**2))


def test_a_difference_of_two_relus_needs_the_singular_subspace():
    problem = difference(60_000, 11)
    with pytest.warns(AssumptionWarning):
        lost = implicit_moments(problem, n_components=2, order=4)
    assert "negative_eigenvalue" in lost.notes.codes
    values = lost.notes[0].values
    assert values["order"] == 2
    assert values["below"] == pytest.approx(-1, abs=0.1)
    assert values["top"] == pytest.approx(1, abs=0.1)
    assert relative_error(lost, 2) == 1.0  # nothing is above the negative eigenvalue
    found = implicit_moments(problem, n_components=2, order=4, subspace="singular")
    assert found.notes.codes == []
    assert [step.rank for step in found.steps] == [2, 2]
    assert relative_error(found, 2) < 0.05
    assert relative_error(found, 4) < 0.15


def test_the_paper_s_method_likewise():
    problem = difference(150_000, 12)
    options = {"n_components": 2, "order": 2, "method": "paper", "random_state": 0}
    with pytest.warns(AssumptionWarning):
        lost = implicit_moments(problem, **options)
    assert lost.notes.codes == ["negative_eigenvalue"]
    found = implicit_moments(problem, **options, subspace="singular")
    points = np.random.default_rng(99).normal(size=(400, 5))
    wanted = (points @ V.T) ** 2 @ [1.0, -1.0]
    errors = [
        np.sqrt(np.mean((m.inner(power(vector("x"), 2), {"x": points}) - wanted) ** 2))
        / np.sqrt(np.mean(wanted**2))
        for m in (lost, found)
    ]
    assert errors[0] > 0.5
    assert errors[1] < 0.3


@pytest.mark.parametrize("subspace", ["positive", "singular"])
def test_positive_weights_are_learned_by_both_without_a_note(subspace):
    signs = (1.0, 1.0)
    m = implicit_moments(difference(40_000, 13, signs), n_components=2, order=4, subspace=subspace)
    assert m.notes.codes == []
    assert relative_error(m, 4, signs) < 0.15


def test_noise_alone_gives_no_note():
    """Eigenvalues of pure noise have both signs, and no half of the rows confirms them."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(2_000, 5)), rng.normal(size=2_000)
        m = implicit_moments(ActivationSumProblem(X, y, relu()), n_components=2, order=4)
        assert m.notes.codes == []


def symmetric_noise(rng, n, p):
    """Gaussian noise, equally large in all directions of the symmetric matrices."""
    raw = rng.normal(size=(n, p, p))
    return raw + raw.transpose(0, 2, 1)


@pytest.mark.parametrize("p", [2, 3, 5])
def test_the_largest_noise_is_rarely_exceeded_by_noise(p, rng):
    n = 4_000
    first, second = symmetric_noise(rng, n, p), symmetric_noise(rng, n, p)
    pairs = zip(first, second, strict=True)
    bounds = [largest_noise(SplitMean(pair, (1, 1))) for pair in pairs]
    sizes = np.abs(np.linalg.eigvalsh((first + second) / 2)).max(axis=1)
    assert np.sum(sizes > bounds) <= 4  # 0.4 expected at most


@pytest.mark.parametrize("method", ["paper", "closed_form"])
def test_signed_spectra_are_compared_by_magnitude(method):
    """Steps say how clear the signal is, also where the k-th value or the next is negative."""
    for signs in ((1.0, -0.5), (-1.0, 0.5), (-1.0, -0.5)):
        options = {"n_components": 2, "order": 2, "method": method, "subspace": "singular"}
        m = implicit_moments(difference(60_000, 14, signs), **options, random_state=0)
        for k in (0, 1):
            assert m.steps[0].spectrum[k] == pytest.approx(signs[k], abs=0.15)
        step = m.steps[0]
        assert step.gap == abs(step.spectrum[1]) / step.floor
        assert step.gap > 3
        assert step.next_value == abs(step.spectrum[2])


def test_the_halves_of_an_odd_number_of_rows(monkeypatch):
    """Rows +, −, + have the mean of the first and of the other two."""
    seen = []
    monkeypatch.setattr(implicit, "largest_noise", lambda mean: seen.append(mean) or 0.0)
    with pytest.warns(AssumptionWarning):
        implicit_moments(
            SignedProblem(), n_components=2, order=1, n_samples=3, method="paper", random_state=0
        )
    plus, minus = (2 * sign * np.outer(v, v) for sign, v in zip((1, -1), V, strict=True))
    first, rest = seen[0].halves
    np.testing.assert_allclose(first, plus, atol=1e-12)
    np.testing.assert_allclose(rest, (plus + minus) / 2, atol=1e-12)
    np.testing.assert_allclose(seen[0].value, (2 * plus + minus) / 3, atol=1e-12)


class SignedProblem(MomentProblem):
    """Exact moments, as a sum over components: row i is component i, times their number."""

    n_features, n_rows = 5, None

    def circuit(self, order):
        return scalar("c") * power(vector("v"), order)

    def draw(self, order, rows, rng):
        at = np.array(rows) % 2
        return {"v": V[at], "c": 2 * np.array([1.0, -1.0])[at]}


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_exact_signed_moments_are_answered_exactly(order, rng):
    points = rng.normal(size=(20, 5))
    m = implicit_moments(
        SignedProblem(), n_components=2, order=order, n_samples=2, subspace="singular"
    )
    answers = m.inner(power(vector("x"), order), {"x": points})
    np.testing.assert_allclose(answers, (points @ V.T) ** order @ [1.0, -1.0], atol=1e-10)


def test_singular_vectors_are_those_of_the_matrix_itself(xp):
    skewed = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 3.0], [0.0, -2.0, 0.0]])
    basis, spectrum = top_subspace(xp.asarray(skewed), 1, "singular")
    np.testing.assert_allclose(np.abs(np.asarray(basis)), [[0.0, 1.0, 0.0]], atol=1e-12)
    np.testing.assert_allclose(np.abs(spectrum), [3.0, 2.0, 1.0])
    symmetric = np.diag([1.0, -5.0, 0.5])
    basis, spectrum = top_subspace(xp.asarray(symmetric), 1, "singular")
    np.testing.assert_allclose(np.abs(np.asarray(basis)), [[0.0, 1.0, 0.0]], atol=1e-12)
    np.testing.assert_allclose(spectrum, [-5.0, 1.0, 0.5])


def test_other_subspaces_are_refused():
    with refuses("unknown_option", name="subspace"):
        implicit_moments(difference(100, 0), n_components=2, order=2, subspace="largest")
