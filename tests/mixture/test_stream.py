"""Pieces of rows: sums, the sample, and corrections by a search."""

from dataclasses import replace

import numpy as np
import pytest

from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.mixture import (
    CovarianceType,
    Gaussians,
    Options,
    begin_stream,
    continue_stream,
    make_view,
    search_again,
)
from implicitmoments.rows import Rows
from implicitmoments.search import SEARCH, WHOLE, run_em

K, D, N = 6, 5, 8_000
KINDS = ["tied_spherical", "spherical", "tied", "full"]


@pytest.fixture(scope="module")
def data():
    X, truth = make_spherical_mixture(N, K, D, radius=30.0, separation=20.0, random_state=0)
    return X, truth.vectors


def nearest(found, means):
    return np.linalg.norm(found[:, None] - means, axis=2).min(axis=0).max()


def begun(X, means, n, name="tied_spherical"):
    kind, first = CovarianceType(name), Rows.of(X[:n])
    view = make_view(first, kind, 1e-6)
    matrices = np.repeat(np.eye(D)[None], K, axis=0)
    start = view.inside(Gaussians(np.full(K, 1 / K), means, kind.constrained(matrices)))
    mixture = run_em(view.family, view.rows(first), start, SEARCH).state
    return begin_stream(view, view.hold(first), mixture)


def go_on(stream, X, rng, n_moves=0, counts=None):
    options = Options(K, K, (stream.view.family.kind.name,), n_moves, WHOLE)
    search = search_again(stream.view, options, rng)
    return continue_stream(stream, stream.view.rows(Rows.of(X, counts=counts)), search, rng)


def means_of(stream):
    return stream.view.outside(stream.mixture).means


@pytest.mark.parametrize("name", KINDS)
def test_totals_are_rows(data, name):
    X, means = data
    stream = begun(X, means, 5_000, name)
    rng = np.random.default_rng(0)
    for first in (5_000, 6_000, 7_000):
        stream = go_on(stream, X[first : first + 1_000], rng)
    assert stream.sums.total == pytest.approx(N)
    assert stream.n_seen == N
    assert stream.sums.counts.sum() == pytest.approx(N)
    assert stream.sample.n == 5_000
    assert stream.corrections == 0
    assert nearest(means_of(stream), means) < 0.15


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("n_moves", [0, 5])
def test_a_wrong_beginning_is_corrected_when_rows_double(data, n_moves, name):
    """With moves, and by other starts alone."""
    X, means = data
    wrong = means.copy()
    wrong[0], wrong[1] = (means[0] + means[1]) / 2, means[2] + 0.3  # one for two, two for one
    stream = begun(X, wrong, 4_000, name)
    assert nearest(means_of(stream), means) > 3
    rng = np.random.default_rng(0)
    before = go_on(stream, X[4_000:7_000], rng, n_moves)
    assert before.corrections == 0
    after = go_on(before, X[7_000:], rng, n_moves)
    assert after.corrections == 1
    assert nearest(means_of(after), means) < 0.3


def test_every_row_has_the_same_chance_to_be_in_the_sample(data):
    X, means = data
    marked = X.copy()
    marked[:, 0] = np.arange(N)  # the number of the row
    seen = np.zeros(N)
    rng = np.random.default_rng(1)
    stream = begun(X, means, 1_000)
    for _ in range(30):
        held = stream.view.rows(Rows.of(marked[:1_000])).hold()
        taken = replace(stream, sample=held, searched_at=np.inf)
        for first in range(1_000, N, 1_000):
            taken = go_on(taken, marked[first : first + 1_000], rng)
        numbers = stream.view.back(taken.sample).hold().points[:, 0]
        np.add.at(seen, np.round(numbers).astype(int), 1)
    shares = seen.reshape(8, 1_000).mean(axis=1) / 30
    # binomial: standard error of a mean of 30,000 draws of 1/8
    np.testing.assert_allclose(shares, 1 / 8, atol=5 * np.sqrt(0.11 / 30_000))


def test_an_empty_piece_changes_nothing(data):
    X, means = data
    stream = begun(X, means, 2_000)
    rng = np.random.default_rng(0)
    assert go_on(stream, X[:10], rng, counts=np.zeros(10)) is stream
