"""The directions that a picture looks along."""

import numpy as np
import pytest

from implicitmoments.picture_data import RowSample
from implicitmoments.plot.plane import leading_direction, plane_of


def sample(x):
    return RowSample(x, x, np.zeros(0), len(x), ["income", "spend", "age"])


@pytest.mark.parametrize("tilt", [0.05, 0.5])
def test_an_axis_with_the_name_of_a_column_has_its_values(tilt, rng):
    """Means of which the second direction is nearly a column, or is not."""
    means = np.array([[90.0, 0.0, 0.0], [0.0, 4.0, 0.0], [-90.0, -4.0, 0.0]])
    turn = np.array([[np.cos(tilt), -np.sin(tilt)], [np.sin(tilt), np.cos(tilt)]])
    means[:, :2] = means[:, :2] @ turn
    x = rng.normal(size=(50, 3)) + 1000.0
    plane = plane_of(means, x - x.mean(axis=0), sample(x), "direction")
    np.testing.assert_allclose(plane.directions @ plane.directions.T, np.eye(2), atol=1e-12)
    for axis, (name, column) in enumerate(zip(plane.names, plane.columns, strict=True)):
        assert (column is None) == (tilt > 0.1)
        if column is not None:
            assert name == ["income", "spend", "age"][column]
            np.testing.assert_array_equal(plane.at(x)[:, axis], x[:, column])
    u = leading_direction(means, x - x.mean(axis=0), sample(x))
    assert (np.count_nonzero(u) == 1) == (tilt < 0.1)
