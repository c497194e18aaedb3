"""Where a component may be missing, and which two components may be one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    cross_sums,
    index_like,
    linear_rows,
    lower_to,
    move_like,
    namespace_of,
    to_numpy,
)
from implicitmoments.mixture.likelihood import Mixture
from implicitmoments.mixture.standard_rows import Sample
from implicitmoments.rows import Block, Sums

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
    rows: Sample, mixture: Mixture, shares: Array, densities: Array, rng: np.random.Generator
) -> Insertion:
    """Search for what is missing.

    Candidates are means of neighbours of rows of low density; midpoints of near components and
    the centre, where a component hides behind others; and halves of components that are
    longer than round. A few one-component EM steps move each to where it does best.

    Parameters
    ----------
    rows : Sample
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
    rows: Sample, mixture: Mixture, shares: Array, densities: Array
) -> tuple[Floats, Integers]:
    """Return what it costs to merge each component with the one it shares most rows with.

    Returns
    -------
    losses : array of shape (k,)
        Fall of the log-likelihood, over all rows.
    partners : array of int of shape (k,)
    """
    w, k, xp = mixture.weights, mixture.k, namespace_of(shares)
    counted = shares if rows.sample_weight is None else shares * rows.sample_weight[:, None]
    common = to_numpy(cross_sums(shares, counted))
    common /= np.sqrt(np.outer(w, w))
    np.fill_diagonal(common, -1.0)
    partners = common.argmax(axis=1)
    joined = _join(mixture, np.arange(k), partners)
    slopes = _slopes(joined.means, joined.variances, rows.X)
    weights, places = move_like(joined.weights, rows.X), index_like(partners, rows.X)

    def fall(block: Block) -> Sums:
        ratio = xp.exp(_log_ratios(block["x"], slopes, block["densities"]))
        r, times = block["shares"], block.get("counts")
        left = 1 - r - xp.take(r, places, axis=1) + ratio * weights
        logs = -xp.log(xp.clip(left, min=1e-12))
        if times is not None:
            logs *= times[:, None]
        return {"losses": xp.sum(logs, axis=0, dtype=xp.float64)}

    found = rows.fold(fall, k, lifted=True, densities=densities, shares=shares)
    return to_numpy(found["losses"]), partners


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


def _sparse_places(rows: Sample, densities: Array, rng: np.random.Generator) -> Floats:
    """Return means of neighbours among the rows of lowest density."""
    low = np.argsort(to_numpy(densities), kind="stable")[: max(1, int(SPARSE * rows.n))]
    points = rows.points[low].astype(np.float64)
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


def _halves(rows: Sample, mixture: Mixture, shares: Array) -> Floats:
    """Return both ends of the components that are longest beyond their variance."""
    xp = namespace_of(shares)
    counts = to_numpy(xp.sum(shares, axis=0, dtype=xp.float64))
    means = move_like(mixture.means, rows.X)
    excess, ends = np.zeros(mixture.k), np.zeros((mixture.k, 2, rows.d))
    for j, (mean, v) in enumerate(zip(mixture.means, mixture.variances, strict=True)):
        # rows that have no share in the component say nothing about its shape
        (near,) = xp.nonzero(shares[:, j] > 0.01)
        if near.shape[0] < 2:
            ends[j] = mean
            continue
        root = xp.sqrt(xp.take(shares[:, j], near, axis=0))[:, None]
        spread = root * (xp.take(rows.X, near, axis=0) - means[j, :])
        gram = to_numpy(xp.matrix_transpose(spread) @ spread).astype(np.float64)
        values, vectors = np.linalg.eigh(gram / counts[j])
        excess[j] = counts[j] * (values[-1] - v)
        length = math.sqrt(max(values[-1] - v, 0.1 * v) + 0.5 * v)
        ends[j] = mean + length * np.vstack([vectors[:, -1], -vectors[:, -1]])
    longest = np.argsort(-excess, kind="stable")[:N_SPLITS]
    return ends[longest].reshape(-1, rows.d)


def _climb(
    rows: Sample, means: Floats, densities: Array, eps: float, v: float, steps: int
) -> tuple[Floats, Floats]:
    """Move each mean by EM of ``(1 − eps) p + eps N(mean, v)`` on its own; return gains too.

    Gains, of shape (weights judged, means), are those of the log-likelihood over all rows.
    """
    n = len(means)

    def climb(block: Block) -> Sums:
        lifted, times = block["x"], block.get("counts")
        xp = namespace_of(lifted)
        odds = xp.exp(_log_ratios(lifted, slopes, block["densities"]) + math.log(eps / (1 - eps)))
        odds /= 1 + odds
        if times is not None:
            odds *= times[:, None]
        return {"moments": cross_sums(odds, lifted)}

    def gain(block: Block) -> Sums:
        lifted, times = block["x"], block.get("counts")
        xp = namespace_of(lifted)
        ratio = xp.exp(_log_ratios(lifted, slopes, block["densities"])) - 1
        sums = {}
        for i, fraction in enumerate(FRACTIONS):
            rise = xp.log1p((eps * fraction / FRACTIONS[0]) * ratio)
            if times is not None:
                rise *= times[:, None]
            sums[str(i)] = xp.sum(rise, axis=0, dtype=xp.float64)
        return sums

    for _ in range(steps):
        slopes = _slopes(means, np.full(n, v), rows.X)
        moments = to_numpy(rows.fold(climb, n, lifted=True, densities=densities)["moments"])
        counts, points = moments[:, -1:], moments[:, :-2]
        means = np.where(counts > 0, points / np.maximum(counts, 1e-30), means)
    slopes = _slopes(means, np.full(n, v), rows.X)
    gains = rows.fold(gain, n, lifted=True, densities=densities)
    return means, np.stack([to_numpy(gains[str(i)]) for i in range(len(FRACTIONS))])


def _slopes(means: Floats, variances: Floats, like: Array) -> Array:
    return move_like(Mixture(np.ones(len(means)), means, variances).slopes, like)


def _log_ratios(lifted: Array, slopes: Array, densities: Array) -> Array:
    """Return ``log N(x; mean, v I) − log p(x)`` for lifted rows and every mean, (n, means)."""
    xp = namespace_of(lifted)
    ratio = linear_rows(lifted, slopes)
    ratio -= xp.astype(densities, lifted.dtype)[:, None]
    return lower_to(ratio, LARGEST_LOG)
