"""Decode hidden vectors and weights from the moments, with their standard errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.arrays import Floats, to_numpy
from implicitmoments.moments.closed_form import noise_floor
from implicitmoments.moments.decode.hidden_vectors import (
    DecodingFrame,
    Decomposition,
    Eigenspace,
    VectorRecovery,
    decompose,
    find_signs,
)
from implicitmoments.moments.decode.moment_pairs import moment_pair
from implicitmoments.moments.framed_rows import FramedRows, SplitMean
from implicitmoments.notes import InputError

CLEARLY_MORE = 1.5  # noise floors above which a (k+1)-st eigenvalue is a component
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
