"""The two directions that a picture of rows and components looks along.

Shapes: n rows of d columns, k components, m axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.description.units import ALONG_A_COLUMN
from implicitmoments.picture_data import RowSample
from implicitmoments.plot import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RANK_TOL = 1e-9  # of the largest singular value
ALIKE = 4.0  # ratio of the spread along two axes, up to which one unit serves both
ORDINALS = ("first", "second")


@dataclass(frozen=True, eq=False)
class Plane:
    """Orthonormal directions, and the unit and the name of each axis.

    An axis along one column has its name and the units of the file.
    """

    directions: Floats  # (m, d), m ≤ 2
    factors: Floats  # (m,)
    names: list[str]
    columns: list[int | None]  # the column that each axis is

    def at(self, x: Floats) -> Floats:
        """Return rows or means, (n, d), on the axes, (n, m)."""
        placed: Floats = (x @ self.directions.T) * self.factors
        return placed

    def shapes(self, covariances: Floats) -> Floats:
        """Return covariances, (k, d, d), on the axes, (k, m, m)."""
        linear = self.factors[:, None] * self.directions
        found: Floats = linear @ covariances @ linear.T
        return found

    def set_aspect(self, ax: Axes, at: Floats) -> None:
        """Use one unit for both axes where they are directions, or columns of like spread."""
        spread = np.ptp(at, axis=0)
        named = any(column is not None for column in self.columns)
        if not named or spread.max() <= ALIKE * spread.min():
            ax.set_aspect("equal", adjustable="datalim")


def plane_of(vectors: Floats, centred: Floats, rows: RowSample, words: str) -> Plane:
    """Return the leading directions of vectors, (m, d).

    Two columns are shown as they are. Of columns that were scaled the two along which vectors
    are longest are shown, since a direction of several columns has no unit of the file. Where
    vectors span less than a plane, centred rows give the missing directions: those of their
    largest variance.
    """
    d = rows.x.shape[1]
    if d <= len(ORDINALS):
        directions = np.eye(d)
    elif rows.units.scale is not None:
        lengths = (vectors**2).sum(axis=0)
        directions = np.eye(d)[np.sort(np.argsort(-lengths, kind="stable")[: len(ORDINALS)])]
    else:
        directions = _along_columns(_leading_plane(vectors, centred))
    axes = [rows.units.axis(direction) for direction in directions]
    otherwise = [f"{nth} {words}" for nth in ORDINALS]
    names = [
        axis_name(rows, column, other)
        for (column, _), other in zip(axes, otherwise[: len(axes)], strict=True)
    ]
    factors = np.array([factor for _, factor in axes])
    return Plane(directions, factors, names, [column for column, _ in axes])


def axis_name(rows: RowSample, column: int | None, otherwise: str) -> str:
    """Return the name of a column, or other words for a direction of several."""
    return otherwise if column is None else canvas.plain_text(rows.column_names[column])


def leading_direction(vectors: Floats, centred: Floats, rows: RowSample) -> Floats:
    """Return the direction, (d,), along which vectors are longest; of scaled columns, one."""
    if rows.units.scale is not None:
        column: Floats = np.eye(rows.x.shape[1])[int((vectors**2).sum(axis=0).argmax())]
        return column
    leading: Floats = _along_columns(_leading_plane(vectors, centred, 1))[0]
    return leading


def _along_columns(directions: Floats) -> Floats:
    """Return directions, (m, d), of which those that are nearly a column are that column.

    An axis with the name of a column then has its values. Others stay orthogonal to it.
    """
    largest = np.abs(directions).argmax(axis=1)
    columns = np.eye(directions.shape[1])[largest]
    near = np.sum(directions * columns, axis=1) >= ALONG_A_COLUMN
    others = directions - (directions @ columns[near].T) @ columns[near]
    others /= np.maximum(np.linalg.norm(others, axis=1, keepdims=True), RANK_TOL)
    return np.asarray(np.where(near[:, None], columns, others))


def _leading_plane(vectors: Floats, centred: Floats, most: int = 2) -> Floats:
    """Return orthonormal directions, (most, d) or (d, d)."""
    d = centred.shape[1]
    plane = _leading(vectors, min(most, d))
    for further in (centred, np.eye(d)):  # rows may have no spread at all
        if len(plane) < min(most, d):
            residual = further - (further @ plane.T) @ plane
            plane = np.vstack([plane, _leading(residual, min(most, d) - len(plane))])
    # signs are arbitrary: the largest entry is positive, so that pictures do not flip
    largest = np.abs(plane).argmax(axis=1)
    signed: Floats = plane * np.sign(plane[np.arange(len(plane)), largest])[:, None]
    return signed


def _leading(vectors: Floats, most: int) -> Floats:
    if not len(vectors):
        return np.zeros((0, vectors.shape[1]))
    _, sizes, directions = np.linalg.svd(vectors, full_matrices=False)
    kept = sizes[:most] > RANK_TOL * max(float(sizes[0]), np.finfo(np.float64).tiny)
    leading: Floats = directions[:most][kept]
    return leading
