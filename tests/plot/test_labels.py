"""Labels of components: none covers another."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from implicitmoments.plot.component_plane import GroupMap, draw_groups
from implicitmoments.plot.labels import free_places

FRAME = np.array([[0.0, 0.0], [400.0, 300.0]])


def covered(places, sizes):
    """Pairs of labels that cover one another."""
    return [
        (i, j)
        for i, j in combinations(range(len(places)), 2)
        if np.all(np.abs(places[i] - places[j]) < (sizes[i] + sizes[j]) / 2 - 1e-9)
    ]


def test_labels_of_marks_at_one_place_stand_beside_one_another():
    marks, sizes = np.tile([200.0, 150.0], (12, 1)), np.tile([40.0, 12.0], (12, 1))
    places = free_places(marks, sizes, FRAME)
    assert covered(marks, sizes)
    assert not covered(places, sizes)
    np.testing.assert_array_equal(places[0], marks[0])


def test_labels_far_apart_stay(rng):
    marks = np.array([[50.0, 50.0], [350.0, 50.0], [200.0, 250.0]])
    np.testing.assert_array_equal(free_places(marks, np.tile([40.0, 12.0], (3, 1)), FRAME), marks)


def test_labels_are_moved_outwards_and_not_out_of_the_frame():
    sizes = np.tile([40.0, 12.0], (3, 1))
    marks = np.array([[200.0, 100.0], [200.0, 104.0], [200.0, 40.0]])
    assert free_places(marks, sizes, FRAME)[1][1] > 104.0
    corner = np.tile([399.0, 299.0], (3, 1))
    moved = free_places(corner, sizes, FRAME)[1:]
    assert np.all(moved + sizes[1:] / 2 <= FRAME[1])


@pytest.mark.parametrize("width", [4.6, 8.0])
def test_six_ellipses_have_labels_that_can_be_read(width, rng):
    means = np.array([[0, 0], [0.1, 0], [0, 0.1], [0.1, 0.1], [3, 3], [3.05, 3]], dtype=float)
    at, labels = rng.normal(size=(300, 2)) + 1.5, rng.integers(6, size=300)
    turn = np.linspace(0, 2 * np.pi, 20)
    rings = [(x + np.cos(turn), y + np.sin(turn)) for x, y in means]
    drawn = GroupMap(at, labels, np.full(6, 1 / 6), means, rings, None, ["a", "b"])
    figure = Figure(figsize=(width, 3.5), layout="constrained")
    ax = figure.add_subplot()
    draw_groups(drawn, ax, range(6))
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(each) for each in ax.texts]
    assert len(boxes) == 6
    assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]
    lines = [each.arrow_patch.get_visible() for each in ax.texts]
    assert not lines[0]
    assert any(lines)
