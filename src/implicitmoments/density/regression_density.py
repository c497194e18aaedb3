"""The hypothesis of Theorem 4.22: the joint density of (x, y), its marginal and conditionals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.arrays import Array, Floats, move_like, namespace_of, to_numpy
from implicitmoments.density.clipped_density import ClippedDensity
from implicitmoments.density.regression_expansion import LabelExpansion, hermite_values
from implicitmoments.density.regression_frame import RegressionFrame
from implicitmoments.rows import DrawPurpose, RowDraws, blocks, join_labels

REACH, NODES = 10.0, 2_001  # of the grid on which the density of z is tabulated
STEP = 2 * REACH / (NODES - 1)  # 0.01 standard deviations
POINTS_PER_BLOCK = 1_024  # times NODES: 16 MB of float64
LABELS = (DrawPurpose.ROWS, 3)  # random stream


@dataclass(frozen=True, eq=False)
class LabelDistribution:
    r"""The distribution of z at a point x, proportional to R'(x, z) times the standard normal.

    At a point the expansion is a polynomial in z, whose coefficients are found once. The density
    is interpolated linearly between nodes 0.01 apart.
    """

    expansion: LabelExpansion
    floor: float  # R' is the expansion, clipped to them
    clip: float

    def mass(self, x: Array) -> Array:
        """Return the mean of R'(x, z) over a standard normal z at points (n, p)."""
        xp, found = namespace_of(x), []
        for _, _, density in self._densities(x):
            ends = (density[:, 0] + density[:, -1]) / 2
            found.append((xp.sum(density, axis=1) - ends) * STEP)
        return xp.concat(found)

    def sample(self, x: Floats, n_samples: int, *, seed: int, first: int = 0) -> Floats:
        """Draw n_samples labels z at each of the points (n, p), as an array (n, n_samples).

        Random numbers are keyed by the number of the point, which is ``first`` for the first.
        """
        drawn = np.empty((len(x), n_samples))
        for part, grid, density in self._densities(x):
            # with a floor of 0 the polynomial may be negative everywhere: draw from G
            density[~np.any(density > 0, axis=1)] = np.exp(-(grid**2) / 2)
            cells = (density[:, 1:] + density[:, :-1]) / 2
            below = np.cumsum(cells, axis=1)
            rows = range(first + part.start, first + part.stop)
            uniform = RowDraws(seed, rows, LABELS).uniform(n_samples) * below[:, -1:]
            for i in range(len(below)):
                cell = np.minimum(np.searchsorted(below[i], uniform[i]), NODES - 2)
                rest = uniform[i] - below[i, cell] + cells[i, cell]
                drawn[part.start + i] = grid[cell] + STEP * _invert(
                    density[i, cell], density[i, cell + 1], rest
                )
        return drawn

    def _densities(self, x: Array) -> Iterator[tuple[slice, Floats, Any]]:
        """Yield blocks of points with the density at the nodes, not normalised."""
        grid = np.linspace(-REACH, REACH, NODES)
        values = move_like(hermite_values(grid, self.expansion.degree), x)
        normal = move_like(np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), x)
        xp = namespace_of(x)
        for rows in blocks(range(int(x.shape[0])), POINTS_PER_BLOCK):
            part = slice(rows.start, rows.stop)
            ratio = xp.clip(self.expansion.in_label(x[part, :]) @ values, self.floor, self.clip)
            yield part, grid, ratio * normal


def _invert(left: Floats, right: Floats, area: Floats) -> Floats:
    """Return where in [0, 1] the area under a line from ``left`` to ``right`` is reached."""
    slope = right - left
    root = np.sqrt(np.maximum(left**2 + 2 * slope * area, 0.0))
    found: Floats = np.clip(2 * area / np.maximum(left + root, np.finfo(np.float64).tiny), 0, 1)
    return found


@dataclass(frozen=True, eq=False)
class RegressionDensity:
    """The hypothesis, its marginal and its conditional distributions."""

    density: ClippedDensity[RegressionFrame]  # of rows (x, y), labels last
    expansion: LabelExpansion

    @property
    def frame(self) -> RegressionFrame:
        """The coordinates, and G."""
        return self.density.span

    @property
    def label(self) -> LabelDistribution:
        """The distribution of z at a point."""
        return LabelDistribution(self.expansion, self.density.floor, self.density.clip)

    def log_density(self, X: Array, y: Array) -> Array:
        """Return the logarithm of the density at rows (n, d) with labels (n,)."""
        return self.density.log_density(join_labels({"x": X, "y": y}))

    def log_marginal(self, X: Array) -> Array:
        """Return the logarithm of the density of x alone at rows (n, d)."""
        xp = namespace_of(X)
        x, _ = self.frame.standard(X, xp.zeros_like(X[:, 0]))
        mass = self.label.mass(self.frame.on_span(x)) / self.density.mass
        with np.errstate(divide="ignore"):
            return xp.log(mass) + self.frame.log_density_of_points(x)

    def sample_labels(self, X: Array, n_samples: int, *, seed: int, first: int = 0) -> Floats:
        """Draw labels at rows (n, d) in main memory: (n, n_samples).

        ``first`` is the number of the first row, by which random numbers are keyed.
        """
        rows = np.asarray(to_numpy(X), dtype=np.float64)
        x, _ = self.frame.standard(rows, np.zeros(len(rows)))
        z = self.label.sample(to_numpy(self.frame.on_span(x)), n_samples, seed=seed, first=first)
        labels: Floats = to_numpy(self.frame.labels(x, 0.0))[:, None] + self.frame.scale * z
        return labels
