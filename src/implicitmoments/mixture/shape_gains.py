"""Types of covariance that are worth comparing, by what one M-step of them may gain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from implicitmoments.arrays import TINY, Array, as_double, softmax_rows, to_numpy
from implicitmoments.arrays.responsibilities import linear_responsibilities
from implicitmoments.mixture.expansion import far_components
from implicitmoments.mixture.family import GaussianFamily
from implicitmoments.mixture.gaussians import CovarianceType, Gaussians, precisions_of
from implicitmoments.mixture.least_variances import raise_covariances
from implicitmoments.rows import Block, Rows, Sums
from implicitmoments.rows.constants import DOUBLE
from implicitmoments.rows.fold import weights_of
from implicitmoments.search.shares import HELD

BY_CHANCE = 3.0  # deviations that a gain may fall short by chance on a part of the rows


class Assigned(NamedTuple):
    """Rows in the coordinates of a view, held in double precision, and responsibilities (n, k)."""

    sample: Rows
    shares: Array


def worth_comparing(
    family: GaussianFamily,
    others: list[GaussianFamily],
    rows: Assigned,
    state: Gaussians,
    total: float,
) -> list[GaussianFamily]:
    """Return those types of which a part of a sample leaves open that BIC is lower on all of it.

    The M-step of q further parameters gains about q/2 nats of any rows by chance, with a deviation
    of √(q/2), and what is more grows with the rows. All of it is taken to grow.

    Parameters
    ----------
    total : float
        Rows of the whole sample.
    """
    if not others:
        return others
    part, shares = rows
    # means and weights of the part, which the other types have as well
    own = family.e_step(part, family.from_shares(part, shares)).level
    levels = (other.e_step(part, other.from_shares(part, shares)).level for other in others)
    gains = [(level - own) * part.total for level in levels]
    return _repaid(family, others, gains, state, part.total, total)


def within_reach(
    family: GaussianFamily,
    others: list[GaussianFamily],
    rows: Rows,
    state: Gaussians,
    total: float,
) -> list[GaussianFamily]:
    """Return the same by bounds of the gains, which take one pass over the rows for all types."""
    if family.student or not isinstance(rows.first["x"], np.ndarray):
        return others
    gains = most_gains(family, others, rows, state)
    return _repaid(family, others, gains, state, rows.total, total)


def _repaid(
    family: GaussianFamily,
    others: list[GaussianFamily],
    gains: list[float],
    state: Gaussians,
    rows: float,
    total: float,
) -> list[GaussianFamily]:
    """Return the types whose gains on some rows, or all, may repay their parameters on all."""
    worth, short = list[GaussianFamily](), BY_CHANCE if rows < total else 0.0
    for other, gain in zip(others, gains, strict=True):
        more = other.n_parameters(state) - family.n_parameters(state)
        most = (gain + short * math.sqrt(0.5 * more)) * total / rows
        if most > 0.5 * more * math.log(total):
            worth.append(other)
    return worth


def most_gains(
    family: GaussianFamily, others: Sequence[GaussianFamily], rows: Rows, state: Gaussians
) -> list[float]:
    r"""Return the most that the M-step of each of some types gains above that of a family.

    For given responsibilities the M-step of a richer type, :math:`\delta` away, raises the
    expected log-likelihood by :math:`\delta^\top I \delta / 2`, with I the complete-data
    information. To second order the log-likelihood rises by :math:`\delta^\top (I + M) \delta / 2`
    with :math:`M \le I`, the information that is missing: by at most twice as much. The first
    follows from the covariances within components.

    Parameters
    ----------
    family : GaussianFamily
        Of Gaussians.
    others : sequence of GaussianFamily
        Types that contain that of the family.
    rows : Rows
        In NumPy, in the coordinates of the state.
    state : Gaussians
        Of the family, from which responsibilities are.
    """
    full = any(other.kind.shape == "full" for other in others)
    within = spread_within(family, rows, state, CovarianceType("full" if full else "diag"))
    own = _expected(family, within)
    return [2 * max(_expected(other, within) - own, 0.0) for other in others]


def spread_within(
    family: GaussianFamily, rows: Rows, state: Gaussians, kind: CovarianceType
) -> Gaussians:
    """Return how many rows each component has, their means, and their covariances, of a type.

    Of the rows that a component holds: fewer than n for each, so that covariances take the time
    of one product of all rows with themselves. Those of a part of one row are rounding, and raised
    above it.
    """
    sums = rows.fold(partial(_sums_within, family, state, kind), width=state.k)
    counts = np.maximum(sums["counts"], TINY)
    steps = sums["points"] / counts[:, None]
    products = sums["products"] / counts[:, None] - kind.products(steps)
    means, found = state.means + steps, kind.covariances(products, state.d)
    found = raise_covariances(found, family.least_variances(means, steps), family.epsilon)
    return Gaussians(counts, means, found)


def _sums_within(
    family: GaussianFamily, state: Gaussians, kind: CovarianceType, block: Block
) -> Sums:
    """Return sums over the rows of a block that each component holds, about its mean."""
    x, times = as_double(block["x"]), to_numpy(weights_of(block))
    near = not len(far_components(state, DOUBLE))
    if near and not family.free and state.shared:  # log densities but for a common term
        linear, offsets, _ = state.linear_parts(state.covariances[:1])
        shares = linear_responsibilities(x, linear.T, offsets)[0]
    else:
        shares = softmax_rows(family.log_joint(Rows.of(x), state))[0]
    k, d = state.k, state.d
    counts, points, products = np.zeros(k), np.zeros((k, d)), np.zeros((k, kind.n_numbers(d)))
    for i, share in enumerate(to_numpy(shares).T):
        places = np.flatnonzero(share > HELD)
        apart, mass = x[places] - state.means[i], share[places] * times[places]
        counts[i], points[i] = mass.sum(), mass @ apart
        products[i] = kind.scatter(apart, mass)
    return {"counts": counts, "points": points, "products": products}


def _expected(family: GaussianFamily, within: Gaussians) -> float:
    """Return the expected log-likelihood after the M-step of a family, but for a constant."""
    kind, counts, means, found = family.kind, within.weights, within.means, within.covariances
    if kind.tied:
        found = within.pooled[None]
        counts, means = counts.sum(keepdims=True), (counts @ means / counts.sum())[None]
    if not within.diagonal:
        found = kind.constrained(found)
    elif kind.shape == "spherical":
        found = np.repeat(found.mean(axis=1, keepdims=True), within.d, axis=1)
    if family.known is None:
        covariances = family.raised(found, means)
    else:
        covariances = np.broadcast_to(family.known, found.shape)
    precisions, log_dets = precisions_of(covariances)
    squares = np.sum((precisions * found).reshape(len(found), -1), axis=1)
    return -0.5 * float(counts @ (log_dets + squares))
