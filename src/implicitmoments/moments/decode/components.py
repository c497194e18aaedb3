"""Read hidden vectors and weights off the moments, with an error for each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

from implicitmoments.backends import Floats, move_like, to_numpy
from implicitmoments.moments.balanced import measure_moments
from implicitmoments.moments.closed_form import noise_floor
from implicitmoments.moments.decode.orthogonal import Decomposition, decompose, refine
from implicitmoments.moments.decode.placing import Placing, place
from implicitmoments.moments.decode.routes import Route, route_of
from implicitmoments.moments.passes import Estimate, View

__all__ = ["Decoded", "decode"]


SMALLEST_EIGENVALUE = 1e-9  # relative; below it whitening would only amplify rounding
SMALLEST_HALF = 0.05  # of a whitened half: keeps its square root away from zero


@dataclass(frozen=True, eq=False)
class Decoded:
    r"""Components of order r as they were read, good or bad, and how they stand to the noise.

    Attributes
    ----------
    r : int
        Slots of a component: :math:`v^{\otimes r}` are what was told apart.
    weights : array of shape (k,)
    vectors : array of shape (k, d)
    deviations : array of shape (k, d)
        Half the difference of what two halves of the rows would have given.
    ratios : array of shape (k,)
        Second over first singular value of each component as a matrix: 0 for a pure power.
    strengths : array of shape (k,)
        What each component adds to :math:`M_{2r}`, as an eigenvalue, in the user's units.
    signs_known : array of bool of shape (k,)
    spectrum : array
        Eigenvalues of :math:`M_{2r}` on the window, in the user's units.
    floor : float
        Its noise, in the same units.
    residual : float
        What the components leave of :math:`M_{3r}`, over its noise: above about 1.5 there are
        more components than were asked for, or the model is wrong.
    spread : float
        Disagreement of random starts of the decomposition.
    """

    r: int
    weights: Floats
    vectors: Floats
    deviations: Floats
    ratios: Floats
    strengths: Floats
    signs_known: np.ndarray[Any, np.dtype[np.bool_]]
    spectrum: Floats
    floor: float
    residual: float
    spread: float

    @property
    def errors(self) -> Floats:
        """Standard error of each vector, as a length."""
        return np.asarray(np.linalg.norm(self.deviations, axis=1))

    @property
    def gap(self) -> float:
        """The k-th eigenvalue over the noise floor."""
        last = float(self.spectrum[len(self.weights) - 1])
        return last / self.floor if self.floor > 0 else math.inf


def decode(view: View, k: int, r: int, seed: int = 0, placing: Placing | None = None) -> Decoded:
    """Decode k components of order r.

    Parameters
    ----------
    view : View
        The rows, in an identity frame.
    k, r : int
    seed : int
        Of the random starts of the decomposition.
    placing : Placing, optional
        The frame to decode in, when it is known already.

    Raises
    ------
    ValueError
        If order r has fewer than k dimensions.
    """
    placing = placing or place(view, k)
    route = route_of(view.seen(placing.frame), r, k)
    if route.window.dim < k:
        raise ValueError(f"order {r} has {route.window.dim} dimensions, fewer than {k} components")
    # M_2r = Σ w q qᵀ, whitened; M_3r = Σ w q⊗q⊗q is then orthogonal.
    second = route.second()
    values, basis = (a[..., ::-1] for a in np.linalg.eigh(second.value))
    floor = noise_floor(second, values, basis, k, exact=route.window.exact)
    e = np.maximum(values[:k], SMALLEST_EIGENVALUE * max(values[0], np.finfo(float).tiny))
    V = basis[:, :k]
    whitening = _Whitening(V, e, second)
    third = route.third(whitening.whitener)
    found = decompose(third.value, seed=seed)
    reader = _Reader(route, placing)
    coordinates, ratios = reader.read(whitening.colour(found))
    signs = _signs(view.seen(placing.frame), route, whitening, found, coordinates)
    coordinates = coordinates * np.where(signs == 0, 1.0, signs)[:, None]
    vectors = reader.vectors(coordinates, 0.0)
    halves = [
        reader.vectors(_aligned(reader.read(q)[0], coordinates), side)
        for q, side in (
            (whitening.half(found, third, 0), 1.0),
            (whitening.half(found, third, 1), -1.0),
        )
    ]
    unit = placing.frame.scale ** (2 * r)
    left = third.value - np.einsum(
        "i,ai,bi,ci->abc", found.values, *[found.vectors] * 3, optimize=True
    )
    noise = float(np.linalg.norm(third.half_difference))
    weights = _weights(route, second.value, coordinates)
    return Decoded(
        r=r,
        weights=weights,
        vectors=vectors,
        deviations=(halves[0] - halves[1]) / 2,
        ratios=ratios,
        strengths=weights * np.sum(coordinates**2, axis=1) ** r * unit,
        signs_known=signs != 0,
        spectrum=values * unit,
        floor=floor * unit,
        residual=float(np.linalg.norm(left)) / noise if noise > 0 else 0.0,
        spread=found.spread,
    )


@dataclass(frozen=True, eq=False)
class _Whitening:
    """The top eigenspace V of M_2r with eigenvalues e, and its two halves."""

    V: Floats
    e: Floats
    second: Estimate

    @property
    def whitener(self) -> Floats:
        """W with Wᵀ M_2r W = I, of shape (dim, k)."""
        return self.V / np.sqrt(self.e)

    def colour(self, found: Decomposition) -> Floats:
        """Return the components q_i = V √e u_i λ_i as columns (dim, k)."""
        coloured: Floats = (self.V * np.sqrt(self.e)) @ (found.vectors * found.values)
        return coloured

    def half(self, found: Decomposition, third: Estimate, i: int) -> Floats:
        """Return the components that half i of the rows would have given, to first order.

        The half is whitened by itself, decomposed from where the whole came to rest, and moved
        by its share of the error of the eigenspace.
        """
        W = self.whitener
        g, R = np.linalg.eigh(W.T @ self.second.halves[i] @ W)
        g = np.maximum(g, SMALLEST_HALF)
        down, up = (R / np.sqrt(g)) @ R.T, (R * np.sqrt(g)) @ R.T
        array = np.einsum("abc,ax,by,cz->xyz", third.halves[i], down, down, down, optimize=True)
        mine = refine(array, found.vectors, tolerance=1e-6)
        scaled = mine.vectors * mine.values
        drift = self.second.half_difference @ W
        drift = (1 - 2 * i) * (drift - self.V @ (self.V.T @ drift))
        moved: Floats = (self.V * np.sqrt(self.e)) @ (up @ scaled) + drift @ scaled
        return moved


@dataclass(frozen=True, eq=False)
class _Reader:
    """From window coordinates of v^r to v."""

    route: Route
    placing: Placing

    def read(self, components: Floats) -> tuple[Floats, Floats]:
        """Return vectors in the frame (k, p), and how far each component is from a power.

        The right singular vector of a component as a matrix of its last slot against the
        others. With a height its first coordinate sets length and sign; without one the
        singular value sets the length, and the sign is fixed by the other slots when r is odd.
        """
        frame = self.placing.frame
        k = components.shape[1]
        rows = move_like(np.ascontiguousarray(components.T), frame.basis)
        step = to_numpy(self.route.window.step(rows)).reshape(k, -1, frame.p)
        _, sizes, right = np.linalg.svd(step, full_matrices=False)
        directions = right[:, 0, :]
        ratios = (
            sizes[:, 1] / np.maximum(sizes[:, 0], np.finfo(float).tiny)
            if sizes.shape[1] > 1
            else np.zeros(k)
        )
        if frame.height is not None:
            first = directions[:, :1]
            safe = np.where(np.abs(first) < 1e-12, 1e-12, first)
            return directions * (frame.height / frame.scale) / safe, ratios
        lengths = sizes[:, :1] ** (1 / self.route.r)
        return directions * lengths * self._odd_sign(step, directions), ratios

    def vectors(self, coordinates: Floats, side: float) -> Floats:
        """Map to the user's coordinates; ``side`` = ±1 adds a half's error of the frame."""
        frame = self.placing.frame
        v = to_numpy(frame.vectors(move_like(coordinates, frame.basis)))
        inside = (v - to_numpy(frame.center)) @ to_numpy(frame.basis).T
        return np.asarray(v + side * (inside @ self.placing.leak + self.placing.shift))

    def _odd_sign(self, step: Floats, directions: Floats) -> Floats:
        """Sign of v from v^r, r odd: contract every slot with the direction."""
        if self.route.r % 2 == 0:
            return np.ones((len(step), 1))
        carried = np.ones((len(directions), 1))
        for phi in self.route.chain.steps:
            carried = (carried[:, :, None] * directions[:, None, :]).reshape(len(directions), -1)
            carried = carried @ to_numpy(phi).T
        along = np.einsum("kap,ka,kp->k", step, carried, directions)
        return np.where(along < 0, -1.0, 1.0)[:, None]


def _signs(
    view: View, route: Route, whitening: _Whitening, found: Decomposition, vectors: Floats
) -> Floats:
    r"""Return +1, −1, or 0 where unknown, for vectors read off even powers without a height.

    :math:`M_{r+1}` on (whitened U_r) × R^p is :math:`\sum_i \sqrt{w_i}\, u_i v_i^\top`: its rows
    along :math:`u_i` are the vectors with their signs. Where that order says nothing,
    :math:`M_1 = \sum_i w_i v_i` does as long as the vectors are independent.
    """
    k, r = len(vectors), route.r
    if view.frame.height is not None or r % 2 == 1:
        return np.ones(k)
    problem = view.problem
    lengths = np.sum(vectors**2, axis=1)
    if problem.has_order(r + 1):
        last = route.window.step(
            move_like(np.ascontiguousarray(whitening.whitener.T), view.frame.noise)
        )
        chain = route.chain.extend(last)
        rows = measure_moments(view, chain, [(1, r)])[1, r].map(to_numpy)
        along = rows.map(
            lambda m: (
                np.sum((m @ found.vectors).T * vectors, axis=1) * np.abs(found.values) / lengths
            )
        )
    elif problem.has_order(1) and k <= view.frame.p:
        chain = route.chain
        first = measure_moments(view, chain, [(0, 1)])[0, 1].map(to_numpy)
        along = first.map(
            lambda m: np.linalg.lstsq(vectors.T, m[0], rcond=None)[0] * found.values**2
        )
    else:
        return np.zeros(k)
    noise = math.sqrt(float(np.mean(along.half_difference**2)))
    return np.where(np.abs(along.value) > 3 * noise, np.sign(along.value), 0.0)


def _aligned(vectors: Floats, others: Floats) -> Floats:
    """Turn vectors to the side on which the others are."""
    flip = np.sum(vectors * others, axis=1) < 0
    return np.where(flip[:, None], -vectors, vectors)


def _weights(route: Route, second: Floats, vectors: Floats) -> Floats:
    r"""Fit :math:`M_{2r} \approx \sum_i w_i\, v_i^{\otimes 2r}` by least squares with weights ≥ 0.

    The Gram matrix of the powers is :math:`(v_i \cdot v_j)^{2r}`; the right side is the moment
    along each power.
    """
    k = len(vectors)
    powers = np.ones((k, 1))
    noise = route.chain.noise
    for phi in route.chain.steps:
        powers = (powers[:, :, None] * vectors[:, None, :]).reshape(k, -1) @ to_numpy(phi).T
    joined = (powers[:, :, None] * vectors[:, None, :]).reshape(k, -1)
    window = to_numpy(route.window.step(move_like(np.eye(route.window.dim), noise)))
    images = joined @ window.T
    gram = images @ images.T
    target = np.einsum("ka,ab,kb->k", images, second, images)
    scale = np.sqrt(np.maximum(np.diag(gram**2), np.finfo(float).tiny))
    squared = gram**2 / scale[:, None] / scale[None, :]
    factor = cholesky(squared + 1e-10 * np.eye(k), lower=True)
    solved, _ = nnls(factor.T, solve_triangular(factor, target / scale, lower=True))
    return np.asarray(solved / scale)
