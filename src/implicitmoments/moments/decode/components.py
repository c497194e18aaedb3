"""Read hidden vectors and weights off the moments, with an error for each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.arrays import Floats, to_numpy
from implicitmoments.moments.closed_form import noise_floor
from implicitmoments.moments.decode.orthogonal_decomposition import Decomposition, decompose
from implicitmoments.moments.decode.read_components import Reader, Whitening, find_signs
from implicitmoments.moments.decode.routes import route_of
from implicitmoments.moments.decode.standardise import Placing
from implicitmoments.moments.passes import Estimate, View
from implicitmoments.notes import InputError

__all__ = ["Decoded", "decode"]


CLEARLY_MORE = 1.5  # a (k+1)-st eigenvalue of so many floors is a component
NOTHING = 1e-90  # an eigenvalue that cannot be told from zero
SMALLEST_EIGENVALUE = 1e-9  # relative; below it whitening would only amplify rounding


@dataclass(frozen=True, eq=False)
class Decoded:
    r"""Components of order r as they were read, good or bad, and how they stand to the noise.

    The strongest comes first.

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
    def crowded(self) -> bool:
        """Whether there is more in the moments than k components explain."""
        k = len(self.weights)
        if k >= len(self.spectrum) or self.floor <= 0:
            return False
        return bool(min(self.spectrum[k] / self.floor, self.residual) >= CLEARLY_MORE)

    @property
    def separated(self) -> bool:
        """Whether the k-th eigenvalue stands clear of the next."""
        k = len(self.weights)
        return k >= len(self.spectrum) or self.spectrum[k - 1] > CLEARLY_MORE * self.spectrum[k]

    @property
    def gap(self) -> float:
        """The k-th eigenvalue over the noise floor."""
        last = float(self.spectrum[len(self.weights) - 1])
        return last / self.floor if self.floor > 0 else math.inf


def decode(view: View, k: int, r: int, placing: Placing, seed: int = 0) -> Decoded | None:
    """Decode k components of order r; None if the moment has no positive eigenvalue.

    Parameters
    ----------
    view : View
        The rows, in an identity frame.
    k, r : int
    placing : Placing
        The frame to decode in.
    seed : int
        Of the random starts of the decomposition.

    Raises
    ------
    ValueError
        If order r has fewer than k dimensions.
    """
    route = route_of(view.seen(placing.frame), r, k)
    if route.window.dim < k:
        raise InputError(
            "too_many_components",
            "order {r} has {dim} dimensions, fewer than {k} components",
            r=r,
            dim=route.window.dim,
            k=k,
        )
    # M_2r = Σ w q qᵀ, whitened; M_3r = Σ w q⊗q⊗q is then orthogonal.
    low, high = placing.second, route.second()
    values, basis = (a[..., ::-1] for a in np.linalg.eigh(high.value))
    if values[0] <= NOTHING:
        return None
    floor = noise_floor(high, values, basis, k, exact=route.window.exact)
    e = np.maximum(values[:k], SMALLEST_EIGENVALUE * values[0])
    whitening = Whitening(basis[:, :k], e, high)
    third = route.third(whitening.whitener)
    found = decompose(to_numpy(third.value), seed=seed)
    first, second = to_numpy(low.value), to_numpy(high.value)
    # Back to vectors, once for all rows and once for either half.
    reader = Reader(route, placing)
    coordinates, ratios = reader.read(whitening.colour(found), first, second)
    signs = find_signs(view.seen(placing.frame), route, whitening, found, coordinates)
    coordinates = coordinates * np.where(signs == 0, 1.0, signs)[:, None]
    halves = []
    for i, side in ((0, 1.0), (1, -1.0)):
        parts = whitening.half(found, third, i), *(to_numpy(e.halves[i]) for e in (low, high))
        halves.append(reader.vectors(_aligned(reader.read(*parts)[0], coordinates), side))
    unit = placing.frame.scale ** (2 * r)
    weights = reader.weights(coordinates, second)
    strengths = weights * np.sum(coordinates**2, axis=1) ** r * unit
    order = np.argsort(-strengths, kind="stable")  # whatever order the random start gave
    return Decoded(
        r=r,
        weights=weights[order],
        vectors=reader.vectors(coordinates, 0.0)[order],
        deviations=(halves[0] - halves[1])[order] / 2,
        ratios=ratios[order],
        strengths=strengths[order],
        signs_known=signs[order] != 0,
        spectrum=values * unit,
        floor=floor * unit,
        residual=_residual(third, found),
        spread=found.spread,
    )


def _residual(third: Estimate, found: Decomposition) -> float:
    """Compare what the components leave of a three-way moment with its noise."""
    U = found.vectors
    left = third.value - np.einsum("i,ai,bi,ci->abc", found.values, U, U, U, optimize=True)
    noise = float(np.linalg.norm(third.half_difference))
    return float(np.linalg.norm(left)) / noise if noise > 0 else 0.0


def _aligned(vectors: Floats, others: Floats) -> Floats:
    """Turn vectors to the side on which the others are."""
    flip = np.sum(vectors * others, axis=1) < 0
    return np.where(flip[:, None], -vectors, vectors)
