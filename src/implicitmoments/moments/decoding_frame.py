"""The frame in which components are decoded: span, centre, height and unit of length."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Array, Floats, move_like, namespace_of, to_numpy
from implicitmoments.moments.chain import Frame
from implicitmoments.moments.circuit_rows import CircuitRows
from implicitmoments.moments.closed_form import noise_floor
from implicitmoments.moments.hermite_problem import FramedRows, Weights, average
from implicitmoments.moments.split_mean import SplitMean
from implicitmoments.moments.subspace import MARGIN
from implicitmoments.notes import InputError
from implicitmoments.rows import Sums

SMALLEST_LENGTH = 1e-3  # of the unit of the frame
SHRUNK = 0.2  # a variance below 1 − 0.2 is not explained by sampling noise
CERTAIN = 3.0  # standard errors beyond which a number is not 0: one-sided error 0.1 %
HEIGHT = 0.8  # times the length of the hidden vectors; from 0.6 to 1 it matters little


@dataclass(frozen=True, eq=False)
class DecodingFrame:
    """A frame, its first-order error, and low moments in it."""

    frame: Frame
    spectrum: Floats  # (kept,), eigenvalues of :math:`M_2` along the basis, in descending order
    noise: Floats  # (kept,), values that noise alone does not exceed
    # (groups, p, d), the change of the frame's basis without a group of the rows, projected off
    # its span: a vector with coordinates z in the basis moves by ``z @ leaks[g]``
    leaks: Floats
    shifts: Floats  # (groups, d), the same for the centre, off the span
    second: SplitMean  # M_2 in the frame, (p, p), without the height
    mean: SplitMean | None  # the mean of the points, if all orders have the same weights
    mass: float | None  # the sum of the weights of all components, if the problem has order 0

    def room(self, r: int, floor: float) -> int:
        """Return the dimension of powers with r factors on the directions above noise."""
        rank = int(np.sum(self.spectrum > np.maximum(self.noise, floor)))
        return math.comb(rank + (self.frame.height is not None) + r - 1, r)


def choose_frame(view: FramedRows | CircuitRows, k: int) -> DecodingFrame:
    r"""Choose the frame for decoding k components.

    Reduce to the span of the top k directions of :math:`M_2` if there are more features. If all
    orders have the same weights, centre first and give every point a constant height, near
    :math:`\sqrt{tr\, M_2}`: hidden vectors become (height, v), so that even moments determine
    signs and short vectors too.
    """
    uniform, d = view.problem.uniform, view.problem.n_features
    found = view.first_moments() if isinstance(view, CircuitRows) else _first_moments(view)
    second = found["second"]
    mean = found["mean"] if uniform else None
    mass = float(found["mass"].value) if view.problem.has_order(0) else None
    centred = second if mean is None else _centre(mean, second, found["mass"])
    values, vectors = (a[..., ::-1] for a in np.linalg.eigh(centred.value))
    floor = noise_floor(centred, values, vectors, k, exact=True)
    if uniform:
        _check_variance(float(values[-1]), centred, mass or 1.0)
    kept = min(k, d)
    V, e = vectors[:, :kept], values[:kept]
    length = math.sqrt(max(float(np.sum(e)) / abs(mass or 1.0), SMALLEST_LENGTH**2))
    model = view.frame.basis
    center = np.zeros(d) if mean is None else np.asarray(mean.value) / (mass or 1.0)
    frame = Frame(
        move_like(np.ascontiguousarray(V.T if d > k else np.eye(d)), model),
        move_like(center, model),
        scale=length,
        height=HEIGHT * length if uniform else None,
    )
    groups = range(len(centred.groups))
    leaks, shifts = np.zeros((len(groups), kept if d > k else d, d)), np.zeros((len(groups), d))
    if d > k:
        off = np.eye(d) - V @ V.T
        # a direction below the noise floor contains no vector whose error matters
        inverse = np.where(e > floor, 1 / np.maximum(e, np.finfo(float).tiny), 0.0)
        for g in groups:
            moved = centred.without(g) - centred.value
            leaks[g] = inverse[:, None] * (V.T @ moved @ off)
            if mean is not None:
                shifts[g] = (np.asarray(mean.without(g)) - np.asarray(mean.value)) @ off
    inside = to_numpy(frame.basis)
    low = centred.map(lambda m: inside @ m @ inside.T / length**2)
    left_out = np.stack([np.sum(V * (centred.without(g) @ V), axis=0) for g in groups])
    spread = np.sqrt(np.sum(centred.deviate(left_out) ** 2, axis=0))
    noise = np.maximum(MARGIN * floor, CERTAIN * spread)
    return DecodingFrame(frame, e, noise, leaks, shifts, low, mean, mass)


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
    """Centre M_2 at the common mean, for each group."""
    c = mean.value / float(mass.value)

    def moved(i: int) -> Floats:
        cross = np.outer(mean.groups[i], c)
        square = float(mass.groups[i]) * np.outer(c, c)
        return np.asarray(second.groups[i] - cross - cross.T + square)

    return SplitMean(tuple(map(moved, range(len(second.groups)))), second.counts)
