"""Types of covariance that are worth comparing, by what one M-step of them may gain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from implicitmoments.arrays import TINY, Array, to_numpy
from implicitmoments.mixture.family import GaussianFamily
from implicitmoments.mixture.gaussians import CovarianceType, Gaussians, precisions_of
from implicitmoments.rows import Rows
from implicitmoments.search.splits import HELD

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
    rows: Assigned,
    state: Gaussians,
    total: float,
) -> list[GaussianFamily]:
    """Return the same by bounds of the gains, which take no pass over the rows for each type."""
    sample, shares = rows
    if family.student or not isinstance(sample.block["x"], np.ndarray):
        return others
    gains = most_gains(family, others, sample, shares)
    return _repaid(family, others, gains, state, sample.total, total)


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
    family: GaussianFamily, others: Sequence[GaussianFamily], sample: Rows, shares: Array
) -> list[float]:
    r"""Return the most that the M-step of each of some types gains above that of a family.

    For given responsibilities the M-step of a richer type, :math:`\delta` away, raises the
    expected log-likelihood by :math:`\delta^\top I \delta / 2`, with I the complete-data
    information. To second order the log-likelihood rises by :math:`\delta^\top (I + M) \delta / 2`
    with :math:`M \le I`, the information that is missing: by at most twice as much. The first
    follows from the covariances within components: no pass over the rows for each type.

    Parameters
    ----------
    family : GaussianFamily
        Of Gaussians.
    others : sequence of GaussianFamily
        Types that contain that of the family.
    sample : Rows
        Held in NumPy.
    shares : array of shape (n, k)
        Responsibilities.
    """
    full = any(other.kind.shape == "full" for other in others)
    within = spread_within(sample, shares, CovarianceType("full" if full else "diag"))
    own = _expected(family, within)
    return [2 * max(_expected(other, within) - own, 0.0) for other in others]


def spread_within(sample: Rows, shares: Array, kind: CovarianceType) -> Gaussians:
    """Return the rows in each component as its weight, their mean, and their covariance.

    Of the rows that a component holds: fewer than n for each, so that covariances take the time
    of one product of all rows with themselves.
    """
    held, x, d = to_numpy(shares).T, np.asarray(sample.points, dtype=np.float64), sample.n_features
    k = len(held)
    counts, means, products = np.zeros(k), np.zeros((k, d)), np.zeros((k, kind.n_numbers(d)))
    for i, share in enumerate(held):
        places = np.flatnonzero(share > HELD)
        own, mass = x[places], share[places] * sample.counts[places]
        counts[i] = mass.sum()
        means[i] = mass @ own / max(counts[i], TINY)
        products[i] = kind.scatter(own - means[i], mass) / max(counts[i], TINY)
    return Gaussians(counts, means, kind.covariances(products, d))


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
