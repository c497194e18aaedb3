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
    Array,
    Floats,
    move_like,
    namespace_of,
    outer_rows,
    to_numpy,
)
from implicitmoments.moments.chain import Frame
from implicitmoments.moments.closed_form import noise_floor
from implicitmoments.moments.form_means import mean_moments
from implicitmoments.moments.hermite_problem import FramedRows, SplitMean, Weights, average
from implicitmoments.moments.moment_pairs import (
    Decomposition,
    MomentPair,
    decompose,
    moment_pair,
    refine,
)
from implicitmoments.notes import InputError
from implicitmoments.rows import Sums

SMALLEST_LENGTH = 1e-3  # of the unit of the frame
SHRUNK = 0.2  # a variance below 1 − 0.2 is not explained by sampling noise
HEIGHT = 0.8  # times the length of the hidden vectors; from 0.6 to 1 it matters little
CLEARLY_MORE = 1.5  # noise floors above which a (k+1)-st eigenvalue is a component
NOTHING = 1e-90  # eigenvalues below it are treated as zero
SMALLEST_EIGENVALUE = 1e-9  # relative; below it whitening would only amplify rounding
SMALLEST_HALF = 0.05  # of a whitened half: keeps its square root away from zero
SMALLEST_FIRST = 1e-12  # first coordinate of a unit vector: avoids division by zero
SMALLEST_SHARE = 1e-9  # of the largest weight in M_2, for a length to be estimated
CERTAIN = 3.0  # standard errors beyond which a sign is known: one-sided error 0.1 %


@dataclass(frozen=True, eq=False)
class DecodingFrame:
    """A frame, its first-order error, and low moments in it."""

    frame: Frame
    # (p, d), half the difference of the frame's basis between halves of the rows, projected off
    # its span: a vector with coordinates z in the basis has the error ``z @ leak``
    leak: Floats
    shift: Floats  # (d,), the same for the centre, off the span
    second: SplitMean  # M_2 in the frame, (p, p), without the height
    mean: SplitMean | None  # the mean of the points, if all orders have the same weights
    mass: float | None  # the sum of the weights of all components, if the problem has order 0


def choose_frame(view: FramedRows, k: int) -> DecodingFrame:
    r"""Choose the frame for decoding k components.

    Reduce to the span of the top k directions of :math:`M_2` if there are more features. If all
    orders have the same weights, centre first and give every point a constant height, near
    :math:`\sqrt{tr\, M_2}`: hidden vectors become (height, v), so that even moments determine
    signs and short vectors too.
    """
    uniform, d = view.problem.uniform, view.problem.n_features
    found = _first_moments(view)
    mean, second = found["mean"], found["second"]
    mass = float(found["mass"].value) if view.problem.has_order(0) else None
    centred = _centre(mean, second, found["mass"]) if uniform else second
    values, vectors = (a[..., ::-1] for a in np.linalg.eigh(centred.value))
    floor = noise_floor(centred, values, vectors, k, exact=True)
    if uniform:
        _check_variance(float(values[-1]), centred, mass or 1.0)
    kept = min(k, d)
    V, e = vectors[:, :kept], values[:kept]
    length = math.sqrt(max(float(np.sum(e)) / abs(mass or 1.0), SMALLEST_LENGTH**2))
    model = view.frame.basis
    center = np.asarray(mean.value) / (mass or 1.0) if uniform else np.zeros(d)
    frame = Frame(
        move_like(np.ascontiguousarray(V.T if d > k else np.eye(d)), model),
        move_like(center, model),
        scale=length,
        height=HEIGHT * length if uniform else None,
    )
    leak, shift = np.zeros((kept if d > k else d, d)), np.zeros(d)
    if d > k:
        off = np.eye(d) - V @ V.T
        # a direction below the noise floor contains no vector whose error matters
        inverse = np.where(e > floor, 1 / np.maximum(e, np.finfo(float).tiny), 0.0)
        leak = inverse[:, None] * (V.T @ centred.half_difference @ off)
        shift = np.asarray(mean.half_difference) @ off if uniform else shift
    inside = to_numpy(frame.basis)
    low = centred.map(lambda m: inside @ m @ inside.T / length**2)
    return DecodingFrame(frame, leak, shift, low, mean if uniform else None, mass)


def _check_variance(smallest: float, centred: SplitMean, mass: float) -> None:
    """Raise if the points vary less than the assumed noise."""
    noise = float(np.linalg.norm(centred.half_difference, 2))
    if smallest < -SHRUNK * mass and smallest < -4 * noise:
        raise InputError(
            "variance_too_small",
            "the points have variance {variance:.3g} in some direction, below the assumed noise "
            "variance of 1; divide them by the standard deviation of the noise, or use "
            "SphericalMixtureProblem(X, variance=...)",
            variance=1 + smallest / mass,
        )


def _first_moments(view: FramedRows) -> dict[str, SplitMean]:
    """Average the weights of order 0, the points, and M_2 about the origin."""
    d = view.problem.n_features
    orders = [0, 2] if view.problem.has_order(0) else [2]

    def measure(points: Array, weights: Weights) -> Sums:
        xp = namespace_of(points)
        c = weights[2]
        ones = xp.ones_like(points[:, 0])
        weighted = points if c is None else points * c[:, None]
        zeroth = weights.get(0)
        return {
            "mass": xp.sum(ones if zeroth is None else zeroth),
            "second_mass": xp.sum(ones if c is None else c),
            "mean": xp.sum(weighted, axis=0),
            "square": xp.matrix_transpose(weighted) @ points,
        }

    def assemble(means: Sums) -> Sums:
        second = to_numpy(means["square"]) - float(means["second_mass"]) * np.eye(d)
        mass = np.asarray(float(means["mass"]))
        return {"mass": mass, "mean": to_numpy(means["mean"]), "second": second}

    return average(view, orders, measure, assemble, "order 2", d)


def _centre(mean: SplitMean, second: SplitMean, mass: SplitMean) -> SplitMean:
    """Centre M_2 at the common mean, for each half."""
    c = mean.value / float(mass.value)

    def moved(i: int) -> Floats:
        cross = np.outer(mean.halves[i], c)
        square = float(mass.halves[i]) * np.outer(c, c)
        return np.asarray(second.halves[i] - cross - cross.T + square)

    return SplitMean((moved(0), moved(1)), second.counts)


@dataclass(frozen=True, eq=False)
class Decoded:
    r"""Components of order r before any are rejected, and their noise; the strongest first."""

    r: int  # slots of a component: the powers :math:`v^{\otimes r}` were separated
    weights: Floats  # (k,)
    vectors: Floats  # (k, d)
    # (k, d), half the difference between the vectors estimated from two halves of the rows
    deviations: Floats
    # (k,), second over first singular value of each component as a matrix: 0 for a pure power
    ratios: Floats
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
    view: FramedRows, k: int, r: int, standard: DecodingFrame, seed: int = 0
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
    # Back to vectors, once for all rows and once for each half: q_i = V √e u_i λ_i.
    components = (V * np.sqrt(e)) @ (found.vectors * found.values)
    first, second = to_numpy(low.value), to_numpy(high.value)
    coordinates, ratios = _recover(pair, standard.frame, components, first, second)
    signs = _find_signs(pair, V / np.sqrt(e), found, coordinates)
    coordinates = coordinates * np.where(signs == 0, 1.0, signs)[:, None]
    halves = []
    for i, side in ((0, 1.0), (1, -1.0)):
        components = _half_components(V, e, high, third, found, i)
        moments = (to_numpy(moment.halves[i]) for moment in (low, high))
        half, _ = _recover(pair, standard.frame, components, *moments)
        flipped = np.sum(half * coordinates, axis=1) < 0
        halves.append(_vectors(standard, np.where(flipped[:, None], -half, half), side))
    unit = standard.frame.scale ** (2 * r)
    weights = _fit(_powers(pair, coordinates), second)
    strengths = weights * np.sum(coordinates**2, axis=1) ** r * unit
    order = np.argsort(-strengths, kind="stable")  # independent of the random start
    U = found.vectors
    left = third.value - np.einsum("i,ai,bi,ci->abc", found.values, U, U, U, optimize=True)
    noise = float(np.linalg.norm(third.half_difference))
    return Decoded(
        r=r,
        weights=weights[order],
        vectors=_vectors(standard, coordinates, 0.0)[order],
        deviations=(halves[0] - halves[1])[order] / 2,
        ratios=ratios[order],
        strengths=strengths[order],
        signs_known=signs[order] != 0,
        spectrum=values * unit,
        floor=floor * unit,
        residual=float(np.linalg.norm(left)) / noise if noise > 0 else 0.0,
        spread=found.spread,
    )


def _half_components(
    V: Floats, e: Floats, second: SplitMean, third: SplitMean, found: Decomposition, i: int
) -> Floats:
    """Return the components (dim, k) estimated from half i of the rows, to first order.

    The half is whitened by itself, decomposed starting from the solution of all rows, and
    shifted by its part of the error of the eigenspace.
    """
    W = V / np.sqrt(e)
    g, R = np.linalg.eigh(W.T @ second.halves[i] @ W)
    g = np.maximum(g, SMALLEST_HALF)
    down, up = (R / np.sqrt(g)) @ R.T, (R * np.sqrt(g)) @ R.T
    array = np.einsum("abc,ax,by,cz->xyz", third.halves[i], down, down, down, optimize=True)
    mine = refine(array, found.vectors, tolerance=1e-6)
    scaled = mine.vectors * mine.values
    drift = second.half_difference @ W
    drift = (1 - 2 * i) * (drift - V @ (V.T @ drift))
    moved: Floats = (V * np.sqrt(e)) @ (up @ scaled) + drift @ scaled
    return moved


def _recover(
    pair: MomentPair, frame: Frame, components: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    r"""Return vectors (k, p) of components (dim, k), and the distance of each from a power.

    The direction is the right singular vector of a component as a matrix of its last slot
    against the others. With a height, its first coordinate determines length and sign. Otherwise
    :math:`M_2` gives :math:`w_i \|v_i\|^2` and :math:`M_{2r}` gives :math:`w_i \|v_i\|^{2r}`
    along known directions, ``low`` (p, p) and ``high`` (dim, dim); both are far less noisy than
    :math:`M_{3r}`.
    """
    k, r = components.shape[1], pair.chain.order + 1
    rows = move_like(np.ascontiguousarray(components.T), frame.basis)
    step = to_numpy(pair.window.step(rows)).reshape(k, -1, frame.p)
    _, sizes, right = np.linalg.svd(step, full_matrices=False)
    directions = right[:, 0, :]
    second = sizes[:, 1] if sizes.shape[1] > 1 else np.zeros(k)
    ratios = second / np.maximum(sizes[:, 0], TINY)
    if frame.height is not None:
        first = directions[:, :1]
        safe = np.where(np.abs(first) < SMALLEST_FIRST, SMALLEST_FIRST, first)
        return directions * (frame.height / frame.scale) / safe, ratios
    if r % 2:  # the sign of v from v^r: contract every slot with the direction
        carried = _lower_powers(pair, directions)
        along = np.einsum("kap,ka,kp->k", step, carried, directions)
        directions = directions * np.where(along < 0, -1.0, 1.0)[:, None]
    if r == 1 or k > frame.p * (frame.p + 1) // 2:
        return directions * (sizes[:, 0] ** (1 / r))[:, None], ratios
    near, far = _fit(directions, low), _fit(_powers(pair, directions), high)
    known = (near > SMALLEST_SHARE * np.max(near)) & (far > 0)
    squared = np.where(known, far, 1.0) / np.where(known, near, 1.0)
    return directions * (squared ** (0.5 / (r - 1)))[:, None], ratios


def _vectors(standard: DecodingFrame, coordinates: Floats, side: float) -> Floats:
    """Map to the problem's coordinates; ``side`` = ±1 adds a half's error of the frame."""
    frame = standard.frame
    v = to_numpy(frame.vectors(move_like(coordinates, frame.basis)))
    inside = (v - to_numpy(frame.center)) @ to_numpy(frame.basis).T
    return np.asarray(v + side * (inside @ standard.leak + standard.shift))


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
        rows = move_like(np.ascontiguousarray(whitener.T), view.frame.noise)
        chain = pair.chain.extend(pair.window.step(rows))
        mixed = mean_moments(view, chain, [(1, r)])[1, r].map(to_numpy)
        along = mixed.map(lambda m: np.sum((m @ found.vectors).T * vectors, axis=1))
    elif view.problem.has_order(1) and k <= view.frame.p:
        first = mean_moments(view, pair.chain, [(0, 1)])[0, 1].map(to_numpy)
        along = first.map(lambda m: np.linalg.lstsq(vectors.T, m[0], rcond=None)[0])
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
