r"""Moments of rows that come in pieces: sums in a frame fixed by the first of them.

The moments of orders 4 and 6 are linear in sums that do not depend on the variance, so the
variance may change each time they are decoded. The frame is fixed: the centre, the span of the
features and, for order 6, twice as many directions of symmetric matrices as there are components.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from implicitmoments.arrays import Array, Floats, move_like, namespace_of, to_numpy
from implicitmoments.mixture.fourth_moment import (
    coordinates,
    fourth_moment,
    matrices,
    raw_moments,
    squares,
)
from implicitmoments.mixture.likelihood import Mixture
from implicitmoments.mixture.sample import AnyRows, Sample
from implicitmoments.moments.decode.orthogonal_decomposition import decompose
from implicitmoments.moments.decode.three_way_moments import cube_sum, fill_cube, symmetrise
from implicitmoments.rows import Block, Sums

BLOCK = 2_048  # rows
MOST_FEATURES = 50  # that moments of order 4 are taken over
OVERSAMPLING = 2
FAR_OUT = 30.0  # lengths: products of four coordinates are then up to 1e6
HEIGHT = 0.8  # of the constant coordinate, in lengths of the means
SMALLEST = 1e-9  # eigenvalue of M_4 relative to the largest


@dataclass(frozen=True, eq=False)
class MomentSums:
    """Sums over the rows seen, in units of ``length``."""

    basis: Floats  # (p − 1, d), directions that are looked along
    center: Floats  # (d,)
    length: float
    directions: Floats  # (p(p+1)/2, m), symmetric matrices whose products are summed to order 6
    total: float  # rows, with their weight
    S: Floats  # (p, p), sums of y yᵀ and of products of its coordinates, for y = (height, points)
    Q: Floats  # (dim, dim)
    cube: Floats  # (m, m, m), sums of products of three of the directions

    def add(self, rows: AnyRows) -> MomentSums:
        """Return the sums with further rows."""
        step = _MomentStep(self.basis, self.center, self.length, self.directions)
        found = replace(rows, rows_per_block=rows.rows_per_block or BLOCK).fold(
            step, width=len(self.Q), what="moments of orders 4 and 6"
        )
        return replace(
            self,
            total=self.total + float(found["total"]),
            S=self.S + found["S"],
            Q=self.Q + found["Q"],
            cube=self.cube + fill_cube(found["cube"]),
        )

    def read(self, k: int, variance: float, seed: int) -> Mixture | None:
        """Decode k components; None where the moments do not have as many."""
        v, n = variance / self.length**2, self.total
        S, Q, p = self.S / n, self.Q / n, len(self.S)
        moment = self.directions.T @ fourth_moment(S, Q).at(v) @ self.directions
        values, vectors = np.linalg.eigh(moment)
        e, V = values[::-1][:k], vectors[:, ::-1][:, :k]
        if len(e) < k or e[-1] <= SMALLEST * e[0]:
            return None
        T = self._sixth(V / np.sqrt(e), v)
        found = decompose(T, seed=seed)
        powers = self.directions @ (V * np.sqrt(e)) @ (found.vectors * found.values)
        _, axes = np.linalg.eigh(matrices(powers.T, p))
        top = axes[:, :, -1]
        first = np.where(np.abs(top[:, :1]) < 1e-3, 1e-3, top[:, :1])
        means = (HEIGHT * self.length) * top[:, 1:] / first @ self.basis + self.center
        weights = 1 / np.maximum(found.values**2, 1.0)
        return Mixture(weights / weights.sum(), means, np.full(k, variance))

    def _sixth(self, G: Floats, v: float) -> Floats:
        """Return M_6 with a whitener G (m, k) on every leg; see ``QuadraticRoute``."""
        n, p = self.total, len(self.S)
        S, Q = self.S / n, self.Q / n
        W = self.directions @ G
        A, J = matrices(W.T, p), np.diag(np.append(0.0, np.full(p - 1, v)))
        t, mean, second = np.trace(A @ J, axis1=1, axis2=2), coordinates(S) @ W, W.T @ Q @ W
        raw = np.einsum("abc,ax,by,cz->xyz", self.cube / n, G, G, G, optimize=True)
        # E[ppp] for p = f − t, from moments of f
        pairs = t[:, None, None] * second[None]
        singles = t[:, None, None] * t[None, :, None] * mean[None, None, :]
        ppp = raw - 3 * symmetrise(pairs) + 3 * symmetrise(singles)
        ppp -= t[:, None, None] * t[None, :, None] * t[None, None, :]
        pyy = matrices((Q @ W).T, p) - t[:, None, None] * S
        H = -12 * pyy + 24 * (J @ A) @ S - 8 * (J @ A) @ J
        AJ = A @ J
        AJA = np.einsum("aij,bjk->abik", AJ, A, optimize=True)
        corrections = np.einsum("abij,cji->abc", AJA, H, optimize=True)
        traces = np.einsum("aij,bji->ab", AJ, AJ, optimize=True)
        corrections += 6 * traces[:, :, None] * (mean - t)
        return np.asarray(ppp + symmetrise(corrections))


def begin_sums(rows: Sample, k: int, variance: float) -> MomentSums:
    """Fix the frame by some rows, and begin the sums with them."""
    x = rows.points.astype(np.float64)
    times = rows.weights / rows.total
    center = times @ x
    covariance = ((x - center) * times[:, None]).T @ (x - center)
    values, vectors = np.linalg.eigh(covariance)
    kept = min(rows.n_features, k, MOST_FEATURES)
    basis = np.ascontiguousarray(vectors[:, ::-1][:, :kept].T)
    spread = float(np.sum(np.maximum(values[::-1][:kept] - variance, 0.0)))
    length = math.sqrt(max(spread, variance))
    lifted = _lift(x, basis, center, length)
    moment = fourth_moment(*raw_moments(lifted, times.astype(lifted.dtype)))
    _, axes = np.linalg.eigh(moment.at(variance / length**2))
    m = min(axes.shape[1], OVERSAMPLING * k)
    directions = np.ascontiguousarray(axes[:, ::-1][:, :m])
    p, dim = kept + 1, len(axes)
    empty = (0.0, np.zeros((p, p)), np.zeros((dim, dim)), np.zeros((m, m, m)))
    return MomentSums(basis, center, length, directions, *empty).add(rows)


@dataclass(frozen=True, eq=False)
class _MomentStep:
    """Sums of a block of rows: NumPy arrays, the cube in its entries a ≤ b ≤ c."""

    basis: Floats
    center: Floats
    length: float
    directions: Floats

    def __call__(self, block: Block) -> Sums:
        p, (dim, m) = len(self.basis) + 1, self.directions.shape
        x, times = block["x"], block.get("counts")
        n = float(x.shape[0]) if times is None else float(namespace_of(x).sum(times))
        if n == 0:
            zeros = (np.zeros((p, p)), np.zeros((dim, dim)), np.zeros((m, m, m)))
            return {"total": 0.0, **dict(zip(("S", "Q", "cube"), zeros, strict=True))}
        y = _lift(x, self.basis, self.center, self.length)
        xp = namespace_of(y)
        counts = xp.ones_like(y[:, 0]) if times is None else xp.astype(times, y.dtype)
        S, Q = raw_moments(y, counts / n)
        along = squares(y) @ move_like(self.directions, y)
        cube = to_numpy(cube_sum(along, counts)).astype(np.float64)
        return {"total": n, "S": n * S, "Q": n * Q, "cube": cube}


def _lift(x: Array, basis: Floats, center: Floats, length: float) -> Array:
    """Return (height, basis (x − centre) / length), in float32 unless rows lie far out."""
    xp = namespace_of(x)
    moved = (x - move_like(center, x)) @ move_like(basis.T / length, x)
    single = float(xp.max(xp.abs(moved))) < FAR_OUT
    y = xp.concat([xp.full_like(moved[:, :1], HEIGHT), moved], axis=1)
    return xp.astype(y, xp.float32 if single else xp.float64, copy=False)
