"""Where to look from before decoding: centre, span and height, and how well they are known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Array, Floats, move_like, namespace_of, to_numpy
from implicitmoments.moments.closed_form import noise_floor
from implicitmoments.moments.frames import Frame
from implicitmoments.moments.passes import Estimate, Sums, View, Weights, average
from implicitmoments.notes import InputError

__all__ = ["Placing", "place"]


SMALLEST_LENGTH = 1e-3
SHRUNK = 0.2  # a variance of less than 1 − 0.2 is not 1 with noise
HEIGHT = 0.8  # times the length of the hidden vectors; from 0.6 to 1 it matters little


@dataclass(frozen=True, eq=False)
class Placing:
    """A frame, and the first-order error of what it leaves out.

    Attributes
    ----------
    frame : Frame
    leak : array of shape (p, d)
        Half the difference between halves of the rows in where the frame's basis points, off
        its own span: a vector with coordinates z in the basis is off by ``z @ leak``.
    shift : array of shape (d,)
        The same for the centre, off the span.
    second : Estimate
        M_2 in the frame, (p, p), without the height.
    mean : Estimate or None
        The mean of the points, when all orders have the same weights.
    mass : float or None
        The sum of the weights of all components, where the data tell it.
    """

    frame: Frame
    leak: Floats
    shift: Floats
    second: Estimate
    mean: Estimate | None
    mass: float | None


def place(view: View, k: int) -> Placing:
    r"""Choose the frame for decoding k components.

    Reduce to the span of the top k directions of :math:`M_2` where there are more features. When
    all orders have the same weights, centre first and give every point a constant height, near
    :math:`\sqrt{tr\, M_2}`: hidden vectors become (height, v), and neither sign nor a short
    vector is lost to even moments.
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
        # a direction that is noise itself holds no vector that could leak
        inverse = np.where(e > floor, 1 / np.maximum(e, np.finfo(float).tiny), 0.0)
        leak = inverse[:, None] * (V.T @ centred.half_difference @ off)
        shift = np.asarray(mean.half_difference) @ off if uniform else shift
    inside = to_numpy(frame.basis)
    low = centred.map(lambda m: inside @ m @ inside.T / length**2)
    return Placing(frame, leak, shift, low, mean if uniform else None, mass)


def _check_variance(smallest: float, centred: Estimate, mass: float) -> None:
    """Refuse points that vary less than the noise that is taken to be in them."""
    noise = float(np.linalg.norm(centred.half_difference, 2))
    if smallest < -SHRUNK * mass and smallest < -4 * noise:
        raise InputError(
            "variance_too_small",
            "the points have variance {variance:.3g} along some direction, less than the noise "
            "variance of 1 they are taken to have; divide them by the standard deviation of the "
            "noise, or use SphericalMixtureProblem(X, variance=...)",
            variance=1 + smallest / mass,
        )


def _first_moments(view: View) -> dict[str, Estimate]:
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


def _centre(mean: Estimate, second: Estimate, mass: Estimate) -> Estimate:
    """Move M_2 to the common centre, half by half."""
    c = mean.value / float(mass.value)

    def moved(i: int) -> Floats:
        cross = np.outer(mean.halves[i], c)
        square = float(mass.halves[i]) * np.outer(c, c)
        return np.asarray(second.halves[i] - cross - cross.T + square)

    return Estimate((moved(0), moved(1)), second.counts)
