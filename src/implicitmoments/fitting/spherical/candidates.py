"""Where a component may be missing, and which two components may be one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.backends import Floats
from implicitmoments.fitting.spherical.likelihood import Mixture, log_joint
from implicitmoments.fitting.spherical.rows import Rows

__all__ = ["Insertion", "best_insertions", "merge_losses", "merged"]

Integers: TypeAlias = np.ndarray[Any, np.dtype[Any]]

N_SPARSE = 60  # candidates among the rows of lowest density
SPARSE = 0.3  # share of rows that count as such
NEIGHBOURS = 40  # of which a candidate is the mean
N_NEAREST = 3  # components next to each, the midpoints to which are candidates
N_SPLITS = 10  # components that are split
FIRST_STEPS, LAST_STEPS = 2, 8  # of one-component EM, for all candidates and for the best
N_BEST = 30
FRACTIONS = (0.5, 0.125, 0.03)  # of 1/k: weights at which an insertion is judged
LARGEST_LOG = 80.0  # of a ratio of densities, in float32


@dataclass(frozen=True, eq=False)
class Insertion:
    """Means that would raise the likelihood most, each on its own; the best first.

    Attributes
    ----------
    means : array of shape (n, d)
    gains : array of shape (n,)
        Rise of the log-likelihood, over all rows, by a component of weight 1/2k.
    small_gains : array of shape (n,)
        The largest such rise over several smaller weights.
    """

    means: Floats
    gains: Floats
    small_gains: Floats


def best_insertions(
    rows: Rows, mixture: Mixture, shares: Floats, densities: Floats, rng: np.random.Generator
) -> Insertion:
    """Search for what is missing.

    Candidates are means of neighbours of rows of low density; midpoints of near components and
    the centre, where a component hides behind others; and halves of components that are
    longer than round. A few one-component EM steps move each to where it does best.

    Parameters
    ----------
    rows : Rows
    mixture : Mixture
    shares, densities : array of shape (n, k) and (n,)
        Responsibilities and log densities of the rows.
    rng : Generator
    """
    means = np.vstack(
        [
            _sparse_places(rows, densities, rng),
            _middles(mixture),
            _halves(rows, mixture, shares),
        ]
    )
    eps, v = FRACTIONS[0] / mixture.k, mixture.pooled
    means, gains = _climb(rows, means, densities, eps, v, FIRST_STEPS)
    best = np.argsort(-gains[0], kind="stable")[:N_BEST]
    means, gains = _climb(rows, means[best], densities, eps, v, LAST_STEPS)
    order = np.argsort(-gains[0], kind="stable")
    apart: list[int] = []
    for i in order:
        if all(np.sum((means[i] - means[j]) ** 2) > v for j in apart):
            apart.append(int(i))
    return Insertion(means[apart], gains[0][apart], gains[1:].max(axis=0)[apart])


def merge_losses(
    rows: Rows, mixture: Mixture, shares: Floats, densities: Floats
) -> tuple[Floats, Integers]:
    """Return what it costs to merge each component with the one it shares most rows with.

    Returns
    -------
    losses : array of shape (k,)
        Fall of the log-likelihood, over all rows.
    partners : array of int of shape (k,)
    """
    w, k = mixture.weights, mixture.k
    counted = shares if rows.sample_weight is None else shares * rows.sample_weight[:, None]
    common = (shares.T @ counted).astype(np.float64) / np.sqrt(np.outer(w, w))
    np.fill_diagonal(common, -1.0)
    partners = common.argmax(axis=1)
    joined = _join(mixture, np.arange(k), partners)
    losses, first = np.zeros(k), 0
    for x, times in rows.blocks(k):
        last = first + len(x)
        r = shares[first:last]
        ratio = _log_ratios(x, joined.means, joined.variances, densities[first:last])
        left = 1 - r - r[:, partners] + np.exp(ratio) * joined.weights
        fall = -np.log(np.maximum(left, 1e-12))
        losses += (fall if times is None else fall * times[:, None]).sum(axis=0, dtype=float)
        first = last
    return losses, partners


def merged(mixture: Mixture, i: int, j: int) -> Mixture:
    """Return the mixture with components i and j as one."""
    one = _join(mixture, np.array([i]), np.array([j]))
    w, m, v = mixture.weights.copy(), mixture.means.copy(), mixture.variances.copy()
    w[j], m[j], v[j] = one.weights[0], one.means[0], one.variances[0]
    return Mixture(w, m, v).without(i)


def _join(mixture: Mixture, i: Integers, j: Integers) -> Mixture:
    """Return components i and j pairwise as one, with their mean variance."""
    w = mixture.weights[i] + mixture.weights[j]
    a = (mixture.weights[i] / w)[:, None]
    means = a * mixture.means[i] + (1 - a) * mixture.means[j]
    variances = a[:, 0] * mixture.variances[i] + (1 - a[:, 0]) * mixture.variances[j]
    return Mixture(w, means, variances)


def _sparse_places(rows: Rows, densities: Floats, rng: np.random.Generator) -> Floats:
    """Return means of neighbours among the rows of lowest density."""
    low = np.argsort(densities, kind="stable")[: max(1, int(SPARSE * rows.n))]
    points = np.asarray(rows.X[low], dtype=np.float64)
    seeds = rng.choice(len(low), min(N_SPARSE, len(low)), replace=False)
    apart = np.sum(points**2, axis=1) - 2 * points[seeds] @ points.T
    n = min(NEIGHBOURS, len(low))
    nearest = np.argpartition(apart, n - 1, axis=1)[:, :n]
    return np.asarray(points[nearest].mean(axis=1))


def _middles(mixture: Mixture) -> Floats:
    """Return the centre, and midpoints of every component and the nearest others."""
    m = mixture.means
    centre = (mixture.weights @ m)[None, :]
    n = min(N_NEAREST, mixture.k - 1)
    if n == 0:
        return centre
    squares = np.sum(m**2, axis=1)
    apart = squares[:, None] + squares - 2 * m @ m.T
    np.fill_diagonal(apart, np.inf)
    nearest = np.argpartition(apart, n - 1, axis=1)[:, :n]
    i, j = np.repeat(np.arange(mixture.k), n), nearest.ravel()
    pairs = np.unique(np.sort(np.column_stack([i, j]), axis=1), axis=0)
    return np.vstack([centre, (m[pairs[:, 0]] + m[pairs[:, 1]]) / 2])


def _halves(rows: Rows, mixture: Mixture, shares: Floats) -> Floats:
    """Return both ends of the components that are longest beyond their variance."""
    counts = shares.sum(axis=0, dtype=np.float64)
    excess, ends = np.zeros(mixture.k), np.zeros((mixture.k, 2, rows.d))
    for j, (mean, v) in enumerate(zip(mixture.means, mixture.variances, strict=True)):
        # rows that have no share in the component say nothing about its shape
        near = np.flatnonzero(shares[:, j] > 0.01)
        if len(near) < 2:
            ends[j] = mean
            continue
        root = np.sqrt(shares[near, j])[:, None]
        spread = root * (rows.X[near] - mean.astype(rows.dtype))
        values, vectors = np.linalg.eigh((spread.T @ spread).astype(np.float64) / counts[j])
        excess[j] = counts[j] * (values[-1] - v)
        length = math.sqrt(max(values[-1] - v, 0.1 * v) + 0.5 * v)
        ends[j] = mean + length * np.vstack([vectors[:, -1], -vectors[:, -1]])
    longest = np.argsort(-excess, kind="stable")[:N_SPLITS]
    return ends[longest].reshape(-1, rows.d)


def _climb(
    rows: Rows, means: Floats, densities: Floats, eps: float, v: float, steps: int
) -> tuple[Floats, Floats]:
    """Move each mean by EM of ``(1 − eps) p + eps N(mean, v)`` on its own; return gains too.

    Gains, of shape (weights judged, means), are those of the log-likelihood over all rows.
    """
    variances = np.full(len(means), v)
    for _ in range(steps):
        counts, points, first = np.zeros(len(means)), np.zeros_like(means), 0
        for x, times in rows.blocks(len(means)):
            ratio = _log_ratios(x, means, variances, densities[first : first + len(x)])
            first += len(x)
            odds = np.exp(ratio + math.log(eps / (1 - eps)))
            share = odds / (1 + odds)
            if times is not None:
                share *= times[:, None]
            counts += share.sum(axis=0, dtype=np.float64)
            points += share.T @ x
        means = np.where(counts[:, None] > 0, points / np.maximum(counts, 1e-30)[:, None], means)
    gains, first = np.zeros((len(FRACTIONS), len(means))), 0
    for x, times in rows.blocks(len(means)):
        ratio = np.exp(_log_ratios(x, means, variances, densities[first : first + len(x)]))
        first += len(x)
        for i, fraction in enumerate(FRACTIONS):
            weight = eps * fraction / FRACTIONS[0]
            rise = np.log1p(weight * (ratio - 1))
            gains[i] += (rise if times is None else rise * times[:, None]).sum(axis=0, dtype=float)
    return means, gains


def _log_ratios(x: Floats, means: Floats, variances: Floats, densities: Floats) -> Floats:
    """Return ``log N(x; mean, v I) − log p(x)`` for rows x and every mean, (n, means)."""
    ones = Mixture(np.ones(len(means)), means, variances)
    ratio = log_joint(x, ones)
    ratio -= densities.astype(x.dtype)[:, None]
    np.minimum(ratio, LARGEST_LOG, out=ratio)
    return ratio
