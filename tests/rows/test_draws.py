import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from implicitmoments.rows import RowDraws, blocks
from implicitmoments.validation import as_seed
from support import refuses


@given(
    cuts=st.lists(st.integers(0, 40), max_size=6),
    width=st.one_of(st.none(), st.integers(1, 9)),
    kind=st.sampled_from(["uniform", "normal"]),
)
def test_any_chunking_gives_the_same_numbers(cuts, width, kind):
    whole = getattr(RowDraws(3, range(40), (1, 2)), kind)(width)
    edges = sorted({0, 40, *cuts})
    parts = [
        getattr(RowDraws(3, range(a, b), (1, 2)), kind)(width)
        for a, b in itertools.pairwise(edges)
    ]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_second_calls_are_chunk_free_too():
    def second(rows):
        rng = RowDraws(5, rows)
        rng.normal(3)
        return rng.normal(2)

    np.testing.assert_array_equal(second(range(7, 9)), second(range(20))[7:9])


def test_calls_streams_seeds_and_rows_are_different():
    rng = RowDraws(0, range(1000), (4,))
    drawn = [rng.normal(), rng.normal()]
    drawn += [RowDraws(0, range(1000), (5,)).normal(), RowDraws(1, range(1000), (4,)).normal()]
    drawn += [RowDraws(0, range(1000, 2000), (4,)).normal()]
    correlation = np.corrcoef(drawn) - np.eye(5)
    assert np.abs(correlation).max() < 5 / np.sqrt(1000)


def test_normals_are_normal_and_uniforms_are_not():
    rng = RowDraws(0, range(20_000))
    assert stats.kstest(rng.normal(), "norm").pvalue > 1e-3
    assert stats.kstest(rng.uniform(), "uniform").pvalue > 1e-3
    assert stats.kstest(rng.uniform(), "norm").pvalue < 1e-6


def test_categorical_follows_its_probabilities():
    p = np.array([0.5, 0.0, 0.2, 0.3])
    counts = np.bincount(RowDraws(0, range(10_000)).categorical(p), minlength=4)
    assert counts[1] == 0
    assert np.abs(counts / 10_000 - p).max() < 5 * 0.5 / 100


def test_seeds_from_what_scikit_learn_calls_a_random_state():
    assert as_seed(7) == as_seed(np.int64(7)) == 7
    assert as_seed(np.random.default_rng(1)) == as_seed(np.random.default_rng(1))
    assert as_seed(np.random.RandomState(1)) == as_seed(np.random.RandomState(1))
    assert as_seed(None) != as_seed(None)
    with refuses("invalid_parameter"):
        as_seed("seven")
    with refuses("invalid_parameter"):
        as_seed(-1)


def test_blocks_cover_the_rows_once():
    assert list(blocks(range(3, 10), 3)) == [range(3, 6), range(6, 9), range(9, 10)]
    with refuses("invalid_parameter"):
        list(blocks(range(3), 0))
