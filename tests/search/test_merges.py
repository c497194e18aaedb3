"""Merges: which may be made together, and how they are numbered."""

import numpy as np
import pytest

from implicitmoments.mixture import Gaussians
from implicitmoments.search import Merges


def merges(losses, pairs):
    n = len(losses)
    state = Gaussians(np.array(losses), np.zeros((n, 1)), np.ones((n, 1)))
    return Merges(np.array(losses), np.array(pairs), state)


@pytest.mark.parametrize("last", [4.0, np.inf, np.nan])
def test_merges_apart_have_no_component_in_common(last):
    found = merges([1.0, 2.0, 3.0, last], [[0, 1], [1, 2], [2, 2], [3, 4]])
    np.testing.assert_array_equal(found.apart(), [0, 2, 3])  # whatever they lose
    np.testing.assert_array_equal(found.cheap(3.5), [0, 2])
    np.testing.assert_array_equal(found.cheap(3.0), [0])


def test_merges_apart_leave_a_component():
    drops = merges([1.0, 2.0, 3.0], [[0, 0], [1, 1], [2, 2]])
    np.testing.assert_array_equal(drops.apart(), [0, 1])


def test_merges_beside_others_are_numbered_as_in_the_whole():
    known = merges([1.0, 2.0, 5.0, 6.0], [[0, 4], [1, 2], [4, 5], [2, 2]])
    inside = merges([3.0, 7.0], [[0, 1], [1, 2]])
    # 0 and 3 became three components
    found = inside.beside(known, np.array([1, 2, 4, 5]), weight=0.5)
    np.testing.assert_array_equal(found.losses, [2.0, 3.0, 5.0, 6.0, 7.0])
    np.testing.assert_array_equal(found.pairs, [[0, 1], [4, 5], [2, 3], [1, 1], [5, 6]])
    np.testing.assert_array_equal(found.state.weights, [2.0, 1.5, 5.0, 6.0, 3.5])


def test_components_around_one_are_those_within_two_merges():
    pairs = [[0, 1], [1, 2], [2, 3], [4, 5], [0, 0], [6, 6]]
    found = merges(np.arange(6.0), pairs)
    np.testing.assert_array_equal(found.around(0), [0, 1, 2])
    np.testing.assert_array_equal(found.around(2), [0, 1, 2, 3])
    np.testing.assert_array_equal(found.around(6), [6])
