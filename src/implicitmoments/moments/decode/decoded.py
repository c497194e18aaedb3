"""Decode hidden vectors and weights from the moments, with their standard errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.arrays import Array, Floats, move_like, namespace_of, to_numpy
from implicitmoments.moments.closed_form import noise_floor
from implicitmoments.moments.decode.hidden_vectors import (
    Decomposition,
    Eigenspace,
    VectorRecovery,
    decompose,
    find_signs,
)
from implicitmoments.moments.decode.moment_pairs import moment_pair
from implicitmoments.moments.framed_rows import Frame, FramedRows, SplitMean, Weights, average
from implicitmoments.notes import InputError
from implicitmoments.rows import Sums

SMALLEST_LENGTH = 1e-3  # of the unit of the frame
SHRUNK = 0.2  # a variance below 1 − 0.2 is not explained by sampling noise
HEIGHT = 0.8  # times the length of the hidden vectors; from 0.6 to 1 it matters little


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

    def second(means: Sums) -> Array:
        return to_numpy(means["square"]) - float(means["second_mass"]) * np.eye(d)

    builders = {
        "mass": lambda means: np.asarray(float(means["mass"])),
        "mean": lambda means: to_numpy(means["mean"]),
        "second": second,
    }
    return average(view, orders, measure, builders, "order 2", d)


def _centre(mean: SplitMean, second: SplitMean, mass: SplitMean) -> SplitMean:
    """Centre M_2 at the common mean, for each half."""
    c = mean.value / float(mass.value)

    def moved(i: int) -> Floats:
        cross = np.outer(mean.halves[i], c)
        square = float(mass.halves[i]) * np.outer(c, c)
        return np.asarray(second.halves[i] - cross - cross.T + square)

    return SplitMean((moved(0), moved(1)), second.counts)


CLEARLY_MORE = 1.5  # a (k+1)-st eigenvalue above so many floors is a component
NOTHING = 1e-90  # eigenvalues below it are treated as zero
SMALLEST_EIGENVALUE = 1e-9  # relative; below it eigenspace would only amplify rounding


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
    """Decode k components of order r; None if the moment has no positive eigenvalue.

    Parameters
    ----------
    view : FramedRows
        The rows, in an identity frame.
    standard : DecodingFrame
        The frame used for decoding.
    seed : int
        Seed of the random starts of the decomposition.

    Raises
    ------
    ValueError
        If order r has fewer than k dimensions.
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
    e = np.maximum(values[:k], SMALLEST_EIGENVALUE * values[0])
    eigenspace = Eigenspace(basis[:, :k], e, high)
    third = pair.third(eigenspace.whitener)
    found = decompose(to_numpy(third.value), seed=seed)
    first, second = to_numpy(low.value), to_numpy(high.value)
    # Back to vectors, once for all rows and once for each half.
    recovery = VectorRecovery(pair, standard)
    coordinates, ratios = recovery.recover(eigenspace.unwhiten(found), first, second)
    signs = find_signs(view.in_frame(standard.frame), pair, eigenspace, found, coordinates)
    coordinates = coordinates * np.where(signs == 0, 1.0, signs)[:, None]
    halves = []
    for i, side in ((0, 1.0), (1, -1.0)):
        moments = (to_numpy(moment.halves[i]) for moment in (low, high))
        half = recovery.recover(eigenspace.unwhiten_half(found, third, i), *moments)[0]
        halves.append(recovery.vectors(_aligned(half, coordinates), side))
    unit = standard.frame.scale ** (2 * r)
    weights = recovery.weights(coordinates, second)
    strengths = weights * np.sum(coordinates**2, axis=1) ** r * unit
    order = np.argsort(-strengths, kind="stable")  # independent of the random start
    return Decoded(
        r=r,
        weights=weights[order],
        vectors=recovery.vectors(coordinates, 0.0)[order],
        deviations=(halves[0] - halves[1])[order] / 2,
        ratios=ratios[order],
        strengths=strengths[order],
        signs_known=signs[order] != 0,
        spectrum=values * unit,
        floor=floor * unit,
        residual=_residual(third, found),
        spread=found.spread,
    )


def _residual(third: SplitMean, found: Decomposition) -> float:
    """Return the norm of a three-way moment minus its components, over its noise."""
    U = found.vectors
    left = third.value - np.einsum("i,ai,bi,ci->abc", found.values, U, U, U, optimize=True)
    noise = float(np.linalg.norm(third.half_difference))
    return float(np.linalg.norm(left)) / noise if noise > 0 else 0.0


def _aligned(vectors: Floats, others: Floats) -> Floats:
    """Return the vectors with the signs of the others."""
    flip = np.sum(vectors * others, axis=1) < 0
    return np.where(flip[:, None], -vectors, vectors)
