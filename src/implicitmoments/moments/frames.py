"""The coordinates in which points are looked at, and the way back to the user's."""

from __future__ import annotations

from dataclasses import dataclass

from implicitmoments.arrays import Array, eye_like, move_like, namespace_of

__all__ = ["Frame"]


@dataclass(frozen=True, eq=False)
class Frame:
    r"""An affine map of points, :math:`x \mapsto (h, B (x - c)) / s`, and what it does to noise.

    Attributes
    ----------
    basis : array of shape (p, d)
        Orthonormal rows B that span what is kept.
    center : array of shape (d,)
        The point c that becomes the origin.
    scale : float
        The unit of length s. Moments of order t are divided by :math:`s^t`.
    height : float or None
        A constant first coordinate h. Hidden vectors become :math:`(h, v)`: signs are then
        free, and small vectors stop being invisible to high moments. None for no such
        coordinate.
    """

    basis: Array
    center: Array
    scale: float = 1.0
    height: float | None = None

    @property
    def p(self) -> int:
        """Number of coordinates."""
        return int(self.basis.shape[0]) + (self.height is not None)

    @property
    def noise(self) -> Array:
        """Covariance (p, p) of what was standard Gaussian noise; the constant has none."""
        xp = namespace_of(self.basis)
        covariance = eye_like(self.p, self.basis) / self.scale**2
        if self.height is None:
            return covariance
        return xp.concat([covariance[:1, :] * 0, covariance[1:, :]])

    def points(self, x: Array) -> Array:
        """Map points (n, d) to coordinates (n, p)."""
        xp = namespace_of(x)
        basis, center = move_like(self.basis, x), move_like(self.center, x)
        moved = (x - center[None, :]) @ xp.matrix_transpose(basis) / self.scale
        if self.height is None:
            return moved
        first = xp.ones_like(moved[:, :1]) * (self.height / self.scale)
        return xp.concat([first, moved], axis=1)

    def vectors(self, coordinates: Array) -> Array:
        """Map hidden vectors (k, p) back to (k, d).

        With a height the first coordinate says how long a vector is, and which way it points.
        """
        if self.height is None:
            moved = coordinates * self.scale
        else:
            moved = coordinates[:, 1:] * (self.height / coordinates[:, :1])
        return moved @ self.basis + self.center[None, :]
