"""Pieces of rows: sums, the sample, and corrections by moments and moves."""

import numpy as np
import pytest

from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.mixture import (
    Mixture,
    SphericalFamily,
    begin_stream,
    continue_stream,
)
from implicitmoments.rows import Rows
from implicitmoments.search import SEARCH, run_em

K, D, N = 6, 5, 8_000
FAMILY = SphericalFamily()


@pytest.fixture(scope="module")
def data():
    X, truth = make_spherical_mixture(N, K, D, radius=30.0, separation=20.0, random_state=0)
    return X, truth.vectors


def piece(X):
    return Rows.of(X)


def nearest(found, means):
    return np.linalg.norm(found[:, None] - means, axis=2).min(axis=0).max()


def begun(X, means, n):
    start = Mixture(np.full(K, 1 / K), means, np.ones(K))
    mixture = run_em(FAMILY, piece(X[:n]), start, SEARCH).state
    return begin_stream(Rows.of(X[:n]), mixture, FAMILY)


def test_totals_are_rows(data):
    X, means = data
    stream = begun(X, means, 5_000)
    rng = np.random.default_rng(0)
    for first in (5_000, 6_000, 7_000):
        stream = continue_stream(stream, piece(X[first : first + 1_000]), FAMILY, 0, rng)
    assert stream.sums.total == pytest.approx(N)
    assert stream.n_seen == stream.moments.total == N
    assert stream.sums.counts.sum() == pytest.approx(N)
    assert stream.sample.n == 5_000
    assert stream.corrections == 0
    assert nearest(stream.mixture.means, means) < 0.15


@pytest.mark.parametrize("n_moves", [0, 5])
def test_a_wrong_beginning_is_corrected_when_rows_double(data, n_moves):
    """With moves, and by the moments alone."""
    X, means = data
    wrong = means.copy()
    wrong[0], wrong[1] = (means[0] + means[1]) / 2, means[2] + 0.3  # one for two, two for one
    stream = begun(X, wrong, 4_000)
    assert nearest(stream.mixture.means, means) > 3
    rng = np.random.default_rng(0)
    before = continue_stream(stream, piece(X[4_000:7_000]), FAMILY, n_moves, rng)
    assert before.corrections == 0
    after = continue_stream(before, piece(X[7_000:]), FAMILY, n_moves, rng)
    assert after.corrections == 1
    assert nearest(after.mixture.means, means) < 0.3


def test_every_row_has_the_same_chance_to_be_in_the_sample(data):
    X, means = data
    marked = X.copy()
    marked[:, 0] = np.arange(N)  # the number of the row
    seen = np.zeros(N)
    rng = np.random.default_rng(1)
    stream = begun(X, means, 1_000)
    for _ in range(30):
        taken = stream.__class__(
            stream.mixture, stream.sums, stream.moments, Rows.of(marked[:1_000]), 1_000, np.inf
        )
        for first in range(1_000, N, 1_000):
            taken = continue_stream(taken, piece(marked[first : first + 1_000]), FAMILY, 0, rng)
        np.add.at(seen, taken.sample.points[:, 0].astype(int), 1)
    shares = seen.reshape(8, 1_000).mean(axis=1) / 30
    # binomial: standard error of a mean of 30,000 draws of 1/8
    np.testing.assert_allclose(shares, 1 / 8, atol=5 * np.sqrt(0.11 / 30_000))


def test_an_empty_piece_changes_nothing(data):
    X, means = data
    stream = begun(X, means, 2_000)
    nothing = Rows.of(X[:10], counts=np.zeros(10))
    assert continue_stream(stream, nothing, FAMILY, 0, np.random.default_rng(0)) is stream
