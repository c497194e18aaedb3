"""Decode hidden vectors and weights from the moments, with their standard errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

from implicitmoments.arrays import (
    TINY,
    Floats,
    move_like,
    outer_rows,
    to_numpy,
)
from implicitmoments.moments.chain import Frame
from implicitmoments.moments.circuit_rows import CircuitRows
from implicitmoments.moments.closed_form import noise_floor
from implicitmoments.moments.decoding_frame import CERTAIN, DecodingFrame
from implicitmoments.moments.hermite_problem import FramedRows
from implicitmoments.moments.moment_pairs import (
    Decomposition,
    MomentPair,
    decompose,
    moment_pair,
    refine,
)
from implicitmoments.moments.split_mean import SplitMean
from implicitmoments.notes import InputError

CLEARLY_MORE = 1.5  # noise floors above which a (k+1)-st eigenvalue is a component
NOTHING = 1e-90  # eigenvalues below it are treated as zero
SMALLEST_EIGENVALUE = 1e-9  # relative; below it whitening would only amplify rounding
SMALLEST_HALF = 0.05  # of a whitened half: keeps its square root away from zero
SMALLEST_FIRST = 1e-12  # first coordinate of a unit vector: avoids division by zero
SMALLEST_SHARE = 1e-9  # of the largest weight in M_2, for a length to be estimated


@dataclass(frozen=True, eq=False)
class Decoded:
    r"""Components of order r before any are rejected, and their noise; the strongest first."""

    r: int  # slots of a component: the powers :math:`v^{\otimes r}` were separated
    weights: Floats  # (k,)
    vectors: Floats  # (k, d)
    # (groups + 1, k, d): deviations of the vectors estimated without a group of the rows, scaled
    # so that their sum of squares is the variance; and last, along each vector, what its
    # component deviates from a power of one vector beyond the noise
    deviations: Floats
    # (k,), second over first singular value of each component as a matrix: 0 for a pure power
    ratios: Floats
    # (k,), distance of each component from a power of one vector, over its noise
    impurities: Floats
    # (k,), contribution of each component to :math:`M_{2r}`, as an eigenvalue, in the user's units
    strengths: Floats
    signs_known: np.ndarray[Any, np.dtype[np.bool_]]  # (k,)
    spectrum: Floats  # eigenvalues of :math:`M_{2r}` on the window, in the user's units
    floor: float  # its noise floor, in the same units
    # norm of :math:`M_{3r}` minus the fitted components, over its noise: above about 1.5 there are
    # more components than requested, or the model is wrong
    residual: float
    spread: float  # relative disagreement of the random starts of the decomposition

    @property
    def crowded(self) -> bool:
        """Whether the moments contain more than k components."""
        k = len(self.weights)
        if k >= len(self.spectrum) or self.floor <= 0:
            return False
        return bool(min(self.spectrum[k] / self.floor, self.residual) >= CLEARLY_MORE)

    @property
    def separated(self) -> bool:
        """Whether the k-th eigenvalue clearly exceeds the next."""
        k = len(self.weights)
        return k >= len(self.spectrum) or self.spectrum[k - 1] > CLEARLY_MORE * self.spectrum[k]

    @property
    def gap(self) -> float:
        """The k-th eigenvalue over the noise floor."""
        last = float(self.spectrum[len(self.weights) - 1])
        return last / self.floor if self.floor > 0 else math.inf


def decode(
    view: FramedRows | CircuitRows, k: int, r: int, standard: DecodingFrame, seed: int = 0
) -> Decoded | None:
    """Decode k components of order r from rows in an identity frame.

    None if the moment has no positive eigenvalue. The seed is that of the random starts.
    """
    pair = moment_pair(view.in_frame(standard.frame), r, k)
    if pair.window.dim < k:
        raise InputError(
            "too_many_components",
            "order {r} has {dim} dimensions, fewer than {k} components",
            **{"r": r, "dim": pair.window.dim, "k": k},
        )
    # M_2r = Σ w q qᵀ, whitened; M_3r = Σ w q⊗q⊗q is then orthogonal.
    low, high = standard.second, pair.second()
    values, basis = (a[..., ::-1] for a in np.linalg.eigh(high.value))
    if values[0] <= NOTHING:
        return None
    floor = noise_floor(high, values, basis, k, exact=pair.window.exact)
    V, e = basis[:, :k], np.maximum(values[:k], SMALLEST_EIGENVALUE * values[0])
    third = pair.third(V / np.sqrt(e))
    found = decompose(to_numpy(third.value), seed=seed)
    # Back to vectors, once for all rows and once without each group: q_i = V √e u_i λ_i.
    powers = _as_matrices(pair, (V * np.sqrt(e)) @ (found.vectors * found.values))
    first, second = to_numpy(low.value), to_numpy(high.value)
    coordinates, ratios = _recover(pair, standard.frame, powers, first, second)
    signs = _find_signs(pair, V / np.sqrt(e), found, coordinates)
    coordinates = coordinates * np.where(signs == 0, 1.0, signs)[:, None]
    left_out, others = [], []
    for g in range(len(high.groups)):
        others.append(_as_matrices(pair, _components_without(g, V, e, high, third, found)))
        moments = (to_numpy(moment.without(g)) for moment in (low, high))
        part, _ = _recover(pair, standard.frame, others[-1], *moments)
        flipped = np.sum(part * coordinates, axis=1) < 0
        left_out.append(_vectors(standard, np.where(flipped[:, None], -part, part), g))
    vectors = _vectors(standard, coordinates)
    impure, noise = _distances_from_powers(powers, others, high)
    beyond = np.sqrt(np.maximum(impure**2 - (CERTAIN * noise) ** 2, 0.0))
    lengths = np.linalg.norm(coordinates, axis=1) * standard.frame.scale
    along = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), TINY)
    deviations = [*high.deviate(np.stack(left_out)), (beyond * lengths)[:, None] * along]
    unit = standard.frame.scale ** (2 * r)
    weights = _fit(_powers(pair, coordinates), second)
    strengths = weights * np.sum(coordinates**2, axis=1) ** r * unit
    order = np.argsort(-strengths, kind="stable")  # independent of the random start
    U = found.vectors
    left = third.value - np.einsum("i,ai,bi,ci->abc", found.values, U, U, U, optimize=True)
    third_noise = float(np.linalg.norm(third.half_difference))
    return Decoded(
        r=r,
        weights=weights[order],
        vectors=vectors[order],
        deviations=np.stack(deviations)[:, order],
        ratios=ratios[order],
        impurities=(impure / np.maximum(noise, TINY))[order],
        strengths=strengths[order],
        signs_known=signs[order] != 0,
        spectrum=values * unit,
        floor=floor * unit,
        residual=float(np.linalg.norm(left)) / third_noise if third_noise > 0 else 0.0,
        spread=found.spread,
    )


def _components_without(
    group: int, V: Floats, e: Floats, second: SplitMean, third: SplitMean, found: Decomposition
) -> Floats:
    """Return the components (dim, k) estimated without a group of the rows, to first order.

    The other rows are whitened by themselves, decomposed starting from the solution of all rows,
    and shifted by their error of the eigenspace.
    """
    W, rest = V / np.sqrt(e), second.without(group)
    g, R = np.linalg.eigh(W.T @ rest @ W)
    g = np.maximum(g, SMALLEST_HALF)
    down, up = (R / np.sqrt(g)) @ R.T, (R * np.sqrt(g)) @ R.T
    array = np.einsum("abc,ax,by,cz->xyz", third.without(group), down, down, down, optimize=True)
    mine = refine(array, found.vectors, tolerance=1e-6)
    scaled = mine.vectors * mine.values
    drift = (rest - second.value) @ W
    drift = drift - V @ (V.T @ drift)
    moved: Floats = (V * np.sqrt(e)) @ (up @ scaled) + drift @ scaled
    return moved


def _as_matrices(pair: MomentPair, components: Floats) -> Floats:
    """Return components (dim, k) as matrices (k, a, p) of the other slots against the last."""
    k, p = components.shape[1], pair.view.frame.p
    rows = move_like(np.ascontiguousarray(components.T), pair.chain.noise)
    return np.asarray(to_numpy(pair.window.step(rows)).reshape(k, -1, p))


def _distances_from_powers(
    powers: Floats, others: list[Floats], moment: SplitMean
) -> tuple[Floats, Floats]:
    """Return how far components are from powers, relative to their size, and the noise of it.

    Of a component as a matrix (a, p), what the outer product of its first singular vectors leaves
    in the other directions: of ``powers`` (k, a, p), and of ``others``, without each group.
    """
    u, sizes, v = np.linalg.svd(powers, full_matrices=False)
    u, v = u[:, :, :1], v[:, :1, :]

    def remainder(matrices: Floats) -> Floats:
        across = matrices - u @ (u.mT @ matrices)
        return np.asarray(across - (across @ v.mT) @ v)

    sides = [np.sign(u.mT @ one @ v.mT) for one in others]
    apart = np.stack([remainder(side * one) for side, one in zip(sides, others, strict=True)])
    noise = np.sqrt(np.sum(moment.deviate(apart) ** 2, axis=(0, 2, 3)))
    size = np.maximum(sizes[:, 0], TINY)
    return np.linalg.norm(remainder(powers), axis=(1, 2)) / size, noise / size


def _recover(
    pair: MomentPair, frame: Frame, powers: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    r"""Return vectors (k, p) of components (k, a, p), and second over first singular values.

    The direction is the right singular vector of a component as a matrix of its last slot
    against the others. With a height, its first coordinate determines length and sign. Otherwise
    :math:`M_2` gives :math:`w_i \|v_i\|^2` and :math:`M_{2r}` gives :math:`w_i \|v_i\|^{2r}`
    along known directions, ``low`` (p, p) and ``high`` (dim, dim); both are far less noisy than
    :math:`M_{3r}`.
    """
    k, r = len(powers), pair.chain.order + 1
    _, sizes, right = np.linalg.svd(powers, full_matrices=False)
    directions = right[:, 0, :]
    second = sizes[:, 1] if sizes.shape[1] > 1 else np.zeros(k)
    ratios = second / np.maximum(sizes[:, 0], TINY)
    if frame.height is not None:
        first = directions[:, :1]
        safe = np.where(np.abs(first) < SMALLEST_FIRST, SMALLEST_FIRST, first)
        return directions * (frame.height / frame.scale) / safe, ratios
    if r % 2:  # the sign of v from v^r: contract every slot with the direction
        carried = _lower_powers(pair, directions)
        along = np.einsum("kap,ka,kp->k", powers, carried, directions)
        directions = directions * np.where(along < 0, -1.0, 1.0)[:, None]
    if r == 1 or k > frame.p * (frame.p + 1) // 2:
        return directions * (sizes[:, 0] ** (1 / r))[:, None], ratios
    near, far = _fit(directions, low), _fit(_powers(pair, directions), high)
    known = (near > SMALLEST_SHARE * np.max(near)) & (far > 0)
    squared = np.where(known, far, 1.0) / np.where(known, near, 1.0)
    return directions * (squared ** (0.5 / (r - 1)))[:, None], ratios


def _vectors(standard: DecodingFrame, coordinates: Floats, group: int | None = None) -> Floats:
    """Map to the problem's coordinates; with a group, by the frame of the other rows."""
    frame = standard.frame
    v = to_numpy(frame.vectors(move_like(coordinates, frame.basis)))
    if group is None:
        return np.asarray(v)
    inside = (v - to_numpy(frame.center)) @ to_numpy(frame.basis).T
    return np.asarray(v + inside @ standard.leaks[group] + standard.shifts[group])


def _lower_powers(pair: MomentPair, vectors: Floats) -> Floats:
    """Return v ⊗ … ⊗ v with r − 1 slots, in coordinates of the chain."""
    carried = np.ones((len(vectors), 1))
    for phi in pair.chain.steps:
        carried = to_numpy(outer_rows(carried, vectors) @ to_numpy(phi).T)
    return carried


def _powers(pair: MomentPair, vectors: Floats) -> Floats:
    """Return v ⊗ … ⊗ v with r slots, in coordinates of the window (k, dim)."""
    window = to_numpy(pair.window.step(move_like(np.eye(pair.window.dim), pair.chain.noise)))
    return np.asarray(outer_rows(_lower_powers(pair, vectors), vectors) @ window.T)


def _find_signs(
    pair: MomentPair, whitener: Floats, found: Decomposition, vectors: Floats
) -> Floats:
    r"""Return +1, −1, or 0 if unknown, for vectors recovered from even powers without a height.

    :math:`M_{r+1}` on (whitened U_r) × R^p is :math:`\sum_i \sqrt{w_i}\, u_i v_i^\top`: its rows
    along :math:`u_i` are the vectors with their signs. If the data carry no information about
    that order, :math:`M_1 = \sum_i w_i v_i` determines the signs of independent vectors.
    """
    view, k, r = pair.view, len(vectors), pair.chain.order + 1
    if view.frame.height is not None or r % 2 == 1:
        return np.ones(k)
    if view.problem.has_order(r + 1):
        along = pair.mixed(whitener).map(lambda m: np.sum((m @ found.vectors).T * vectors, axis=1))
    elif view.problem.has_order(1) and k <= view.frame.p:
        along = pair.first().map(lambda m: np.linalg.lstsq(vectors.T, m, rcond=None)[0])
    else:
        return np.zeros(k)
    noise = math.sqrt(float(np.mean(along.half_difference**2)))
    return np.where(np.abs(along.value) > CERTAIN * noise, np.sign(along.value), 0.0)


def _fit(images: Floats, moment: Floats) -> Floats:
    """Fit ``moment ≈ Σ w_i q_i q_iᵀ`` by least squares with w ≥ 0, for rows q_i of ``images``.

    The matrix of the normal equations holds the squares of inner products; columns are scaled
    to one, so that vectors of very different lengths fit equally well.
    """
    k = len(images)
    squares = (images @ images.T) ** 2
    target = np.einsum("ka,ab,kb->k", images, moment, images)
    scale = np.sqrt(np.maximum(np.diag(squares), TINY))
    factor = cholesky(squares / np.outer(scale, scale) + 1e-10 * np.eye(k), lower=True)
    solved, _ = nnls(factor.T, solve_triangular(factor, target / scale, lower=True))
    return np.asarray(solved / scale)
