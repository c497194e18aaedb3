"""The law of the label at given points, under a clipped expansion times a Gaussian."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Array, Floats, move_like, namespace_of
from implicitmoments.density.regression_expansion import LabelExpansion, hermite_values
from implicitmoments.rows import RowDraws, Stream, blocks

__all__ = ["LabelLaw"]

REACH, NODES = 10.0, 2_001  # of the grid on which the law of z is written down
BLOCK_ROWS = 1_024
LABELS = (Stream.ROWS, 3)  # stream of the random numbers


@dataclass(frozen=True, eq=False)
class LabelLaw:
    r"""The density of z at a point x, proportional to R'(x, z) times the standard normal one.

    At a point the expansion is a polynomial in z, whose coefficients are found once. The density
    is taken to be linear between nodes 0.01 apart.

    Attributes
    ----------
    expansion : LabelExpansion
    floor, clip : float
        R' is the expansion, clipped to them.
    """

    expansion: LabelExpansion
    floor: float
    clip: float

    def mass(self, x: Array) -> Array:
        """Return the mean of R'(x, z) over a standard normal z at points (n, p)."""
        xp, found, step = namespace_of(x), [], 2 * REACH / (NODES - 1)
        for _, _, density in self._densities(x):
            ends = (density[:, 0] + density[:, -1]) / 2
            found.append((xp.sum(density, axis=1) - ends) * step)
        return xp.concat(found)

    def sample(self, x: Floats, n_samples: int, *, seed: int, first: int = 0) -> Floats:
        """Draw labels z, n_samples at each of the points (n, p): an array (n, n_samples).

        Draws are keyed by the number of the point, of which the first is ``first``.
        """
        drawn = np.empty((len(x), n_samples))
        step = 2 * REACH / (NODES - 1)
        for part, grid, density in self._densities(x):
            # a floor of 0 and a polynomial that is negative throughout: G is as good as any
            density[~np.any(density > 0, axis=1)] = np.exp(-(grid**2) / 2)
            cells = (density[:, 1:] + density[:, :-1]) / 2
            below = np.cumsum(cells, axis=1)
            rows = range(first + part.start, first + part.stop)
            uniform = RowDraws(seed, rows, LABELS).uniform(n_samples) * below[:, -1:]
            for i in range(len(below)):
                cell = np.minimum(np.searchsorted(below[i], uniform[i]), NODES - 2)
                rest = uniform[i] - below[i, cell] + cells[i, cell]
                drawn[part.start + i] = grid[cell] + step * _invert(
                    density[i, cell], density[i, cell + 1], rest
                )
        return drawn

    def _densities(self, x: Array) -> Iterator[tuple[slice, Floats, Array]]:
        """Yield blocks of rows with the density at the nodes, not normalised."""
        grid = np.linspace(-REACH, REACH, NODES)
        values = move_like(hermite_values(grid, self.expansion.degree), x)
        normal = move_like(np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), x)
        xp = namespace_of(x)
        for rows in blocks(range(int(x.shape[0])), BLOCK_ROWS):
            part = slice(rows.start, rows.stop)
            ratio = xp.clip(self.expansion.in_label(x[part, :]) @ values, self.floor, self.clip)
            yield part, grid, ratio * normal


def _invert(left: Floats, right: Floats, area: Floats) -> Floats:
    """Return where in [0, 1] the area under a line from ``left`` to ``right`` is reached."""
    slope = right - left
    root = np.sqrt(np.maximum(left**2 + 2 * slope * area, 0.0))
    found: Floats = np.clip(2 * area / np.maximum(left + root, np.finfo(np.float64).tiny), 0, 1)
    return found
