"""Where to look from before decoding: centre, span and height, and how well they are known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from implicitmoments.backends import Array, Floats, move_like, namespace_of, to_numpy
from implicitmoments.moments.frames import Frame
from implicitmoments.moments.passes import Estimate, Sums, View, Weights, average

__all__ = ["Placing", "place"]


SMALLEST_LENGTH = 1e-3
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
    """

    frame: Frame
    leak: Floats
    shift: Floats


def place(view: View, k: int) -> Placing:
    r"""Choose the frame for decoding k components.

    Reduce to the span of the top k directions of :math:`M_2` where there are more features. When
    all orders have the same weights, centre first and give every point a constant height, near
    :math:`\sqrt{tr\, M_2}`: hidden vectors become (height, v), and neither sign nor a short
    vector is lost to even moments.
    """
    uniform = view.problem.uniform
    mean, second = _first_moments(view)
    d = view.problem.n_features
    center = np.asarray(mean.value) if uniform else np.zeros(d)
    centred = _centre(mean, second) if uniform else second
    values, vectors = np.linalg.eigh(centred.value)
    kept = min(k, d)
    V, e = (
        vectors[:, ::-1][:, :kept],
        np.maximum(values[::-1][:kept], 1e-12 + 1e-9 * abs(values).max()),
    )
    basis = V.T if d > k else np.eye(d)
    length = math.sqrt(max(float(np.sum(values[::-1][:kept])), SMALLEST_LENGTH**2))
    model = view.frame.basis
    frame = Frame(
        move_like(np.ascontiguousarray(basis), model),
        move_like(center, model),
        scale=length,
        height=HEIGHT * length if uniform else None,
    )
    if d <= k:
        return Placing(frame, np.zeros((d, d)), np.zeros(d))
    off = np.eye(d) - V @ V.T
    leak = (V / e).T @ centred.half_difference @ off
    return Placing(frame, leak, np.asarray(mean.half_difference) @ off if uniform else np.zeros(d))


def _first_moments(view: View) -> tuple[Estimate, Estimate]:
    """Average the points, when weights are one, and M_2 about the origin, of order-2 weights."""
    d = view.problem.n_features

    def measure(points: Array, weights: Weights) -> Sums:
        xp = namespace_of(points)
        c = weights[2]
        weighted = points if c is None else points * c[:, None]
        return {
            "mass": xp.sum(xp.ones_like(points[:, 0]) if c is None else c),
            "mean": xp.sum(weighted, axis=0),
            "square": xp.matrix_transpose(weighted) @ points,
        }

    def second(means: Sums) -> Array:
        return to_numpy(means["square"]) - float(means["mass"]) * np.eye(d)

    builders = {"mean": lambda means: to_numpy(means["mean"]), "second": second}
    found = average(view, [2], measure, builders, "order 2", d)
    return found["mean"], found["second"]


def _centre(mean: Estimate, second: Estimate) -> Estimate:
    """Move M_2 to the common centre, half by half."""
    c = mean.value

    def moved(m: Floats, half_mean: Floats) -> Floats:
        cross = np.outer(half_mean, c)
        return np.asarray(m - cross - cross.T + np.outer(c, c))

    halves = [moved(second.halves[i], mean.halves[i]) for i in (0, 1)]
    return Estimate((halves[0], halves[1]), second.counts)
