"""Incremental fits: stepwise EM on batches, corrected by moments of all rows and by moves."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import array_api_compat
import numpy as np

from implicitmoments.arrays import Array, Floats, move_like, namespace_of, to_numpy
from implicitmoments.mixture.family import Mixture, MixtureSums, SphericalFamily
from implicitmoments.mixture.initialisation import (
    coordinates,
    fourth_moment,
    matrices,
    raw_moments,
    squares,
)
from implicitmoments.moments.moment_pairs import (
    cube_sum,
    decompose,
    fill_cube,
    lower_terms,
    symmetrise,
)
from implicitmoments.rows import ArraySource, Block, Rows, Sums, weights_of
from implicitmoments.rows.draws import Integers
from implicitmoments.search import SEARCH, run_em, search_moves

MOST_FEATURES = 50  # of moments of order 4, whose matrix has 1,326² entries then: 14 MB
OVERSAMPLING = 2  # directions per component: a lost one cannot be recovered
FAR_OUT = 30.0  # lengths: products of four coordinates are then up to 1e6
HEIGHT = 0.8  # of the constant coordinate, in lengths of the means; as in decoding
SMALLEST = 1e-9  # eigenvalue of M_4 relative to the largest: below it is rounding


@dataclass(frozen=True, eq=False)
class MomentSums:
    """Sums over the rows seen, in units of ``length``."""

    basis: Floats  # (p − 1, d), principal directions of the first rows
    center: Floats  # (d,)
    length: float
    directions: Floats  # (p(p+1)/2, m), symmetric matrices whose products are summed to order 6
    total: float  # sum of the row weights
    S: Floats  # (p, p), sums of y yᵀ and of products of its coordinates, for y = (height, points)
    Q: Floats  # (dim, dim)
    cube: Floats  # (m, m, m), sums of products of three of the directions

    def add(self, rows: Rows) -> MomentSums:
        """Return the sums with a batch of rows added."""
        step = partial(_moment_sums, self.basis, self.center, self.length, self.directions)
        found = rows.fold(step, width=len(self.Q), what="moments of orders 4 and 6")
        return replace(
            self,
            total=self.total + float(found["total"]),
            S=self.S + found["S"],
            Q=self.Q + found["Q"],
            cube=self.cube + fill_cube(found["cube"]),
        )

    def read(self, k: int, variance: float, seed: int) -> Mixture | None:
        """Decode k components; None if the rank of the moments is lower."""
        v, n = variance / self.length**2, self.total
        S, Q, p = self.S / n, self.Q / n, len(self.S)
        moment = self.directions.T @ fourth_moment(S, Q).at(v) @ self.directions
        values, vectors = np.linalg.eigh(moment)
        e, V = values[::-1][:k], vectors[:, ::-1][:, :k]
        if len(e) < k or e[-1] <= SMALLEST * e[0]:
            return None
        T = self._sixth(V / np.sqrt(e), v)
        found = decompose(T, seed=seed)
        powers = self.directions @ (V * np.sqrt(e)) @ (found.vectors * found.values)
        _, axes = np.linalg.eigh(matrices(powers.T, p))
        top = axes[:, :, -1]
        first = np.where(np.abs(top[:, :1]) < 1e-3, 1e-3, top[:, :1])
        means = (HEIGHT * self.length) * top[:, 1:] / first @ self.basis + self.center
        weights = 1 / np.maximum(found.values**2, 1.0)
        return Mixture(weights / weights.sum(), means, np.full(k, variance))

    def _sixth(self, G: Floats, v: float) -> Floats:
        """Return M_6 with a whitener G (m, k) on every leg; see ``QuadraticMomentPair``."""
        n, p = self.total, len(self.S)
        S, Q = self.S / n, self.Q / n
        W = self.directions @ G
        A, J = matrices(W.T, p), np.diag(np.append(0.0, np.full(p - 1, v)))
        t, mean, second = np.trace(A @ J, axis1=1, axis2=2), coordinates(S) @ W, W.T @ Q @ W
        raw = np.einsum("abc,ax,by,cz->xyz", self.cube / n, G, G, G, optimize=True)
        # E[ppp] for p = f − t, from moments of f
        pairs = t[:, None, None] * second[None]
        singles = t[:, None, None] * t[None, :, None] * mean[None, None, :]
        ppp = raw - 3 * symmetrise(pairs) + 3 * symmetrise(singles)
        ppp -= t[:, None, None] * t[None, :, None] * t[None, None, :]
        pyy = matrices((Q @ W).T, p) - t[:, None, None] * S
        return np.asarray(ppp + lower_terms(A, J, pyy, S, mean - t))


def begin_sums(rows: Rows, k: int, variance: float) -> MomentSums:
    """Choose the frame from the first rows, and start the sums with them."""
    x = rows.points.astype(np.float64)
    times = rows.counts / rows.total
    center = times @ x
    covariance = ((x - center) * times[:, None]).T @ (x - center)
    values, vectors = np.linalg.eigh(covariance)
    kept = min(rows.n_features, k, MOST_FEATURES)
    basis = np.ascontiguousarray(vectors[:, ::-1][:, :kept].T)
    spread = float(np.sum(np.maximum(values[::-1][:kept] - variance, 0.0)))
    length = math.sqrt(max(spread, variance))
    lifted = _lift(x, basis, center, length)
    moment = fourth_moment(*raw_moments(lifted, times.astype(lifted.dtype)))
    _, axes = np.linalg.eigh(moment.at(variance / length**2))
    m = min(axes.shape[1], OVERSAMPLING * k)
    directions = np.ascontiguousarray(axes[:, ::-1][:, :m])
    p, dim = kept + 1, len(axes)
    empty = (0.0, np.zeros((p, p)), np.zeros((dim, dim)), np.zeros((m, m, m)))
    return MomentSums(basis, center, length, directions, *empty).add(rows)


def _moment_sums(
    basis: Floats, center: Floats, length: float, directions: Floats, block: Block
) -> Sums:
    """Return sums of a block of rows as NumPy arrays, the cube in its entries a ≤ b ≤ c."""
    y = _lift(block["x"], basis, center, length)
    xp, times = namespace_of(y), weights_of(block)
    n, counts = float(xp.sum(times, dtype=xp.float64)), xp.astype(times, y.dtype)
    S, Q = raw_moments(y, counts / n)
    cube = to_numpy(cube_sum(squares(y) @ move_like(directions, y), counts)).astype(np.float64)
    return {"total": n, "S": n * S, "Q": n * Q, "cube": cube}


def _lift(x: Array, basis: Floats, center: Floats, length: float) -> Array:
    """Return (height, basis (x − centre) / length), in float32 unless there are extreme rows."""
    xp = namespace_of(x)
    moved = (x - move_like(center, x)) @ move_like(basis.T / length, x)
    single = float(xp.max(xp.abs(moved))) < FAR_OUT
    y = xp.concat([xp.full_like(moved[:, :1], HEIGHT), moved], axis=1)
    return xp.astype(y, xp.float32 if single else xp.float64, copy=False)


# A batch that holds a fraction s of all rows gets weight s to this power. At 1, old sums never
# fade and overlapping components lag behind; at 0.7, recent batches dominate and the estimates of
# separated components are noisy.
FORGETTING = 0.85
STEPS = 5  # EM steps per batch, at most: later batches go on where these end
STILL = 1e-7  # gain in the mean log-likelihood of a batch below which EM stops
CLEARLY = 10.0  # log-likelihood gain on the sample required to replace the mixture
DRAWN = 2**20  # rows per draw of the reservoir sample: 8 MB of random integers
LATER = 2.0  # growth factor of the rows after which moments are decoded again: log2(n) times


@dataclass(frozen=True, eq=False)
class Stream:
    """State kept between batches."""

    mixture: Mixture
    sums: MixtureSums  # of EM, each batch evaluated at the mixture of its time
    moments: MomentSums
    # reservoir sample: uniform among the rows seen, of constant size
    sample: Rows
    n_seen: int
    read_at: float  # rows at which the moments were last decoded
    # number of times that moments or moves gave a clearly higher likelihood than EM
    corrections: int = 0


def begin_stream(rows: Rows, mixture: Mixture, family: SphericalFamily) -> Stream:
    """Start from rows held in memory and the mixture fitted to them."""
    sums = family.e_step(rows, mixture)
    moments = begin_sums(rows, mixture.k, mixture.pooled)
    return Stream(mixture, sums, moments, rows, rows.n, sums.total)


def continue_stream(
    stream: Stream, rows: Rows, family: SphericalFamily, n_moves: int, rng: np.random.Generator
) -> Stream:
    """Update the mixture with a batch of rows.

    Stepwise EM (Cappé and Moulines 2009): the sums of this batch are recomputed
    for a few steps; those of earlier batches stay fixed and slowly lose weight. Whenever the
    number of rows has doubled, the moments of all rows are decoded again and moves are tried;
    both are judged on the sample.
    """
    mixture, sums, level = stream.mixture, stream.sums, -np.inf
    if rows.total == 0:
        return stream
    total = stream.sums.total + rows.total
    share = (rows.total / total) ** FORGETTING
    earlier = stream.sums.times((1 - share) * total / stream.sums.total)
    for _ in range(STEPS):
        piece = family.e_step(rows, mixture)
        sums = earlier + piece.times(share * total / piece.total)
        mixture = family.m_step(sums, mixture)
        before, level = level, piece.log_likelihood / piece.total
        if level - before < STILL:
            break
    grown = replace(
        stream,
        mixture=mixture,
        sums=sums,
        moments=stream.moments.add(rows),
        sample=_mixed(stream.sample, rows, stream.n_seen, rng),
        n_seen=stream.n_seen + rows.n,
    )
    if sums.total < LATER * stream.read_at:
        return grown
    return _look_again(grown, family, n_moves, rng)


def _mixed(sample: Rows, rows: Rows, n_seen: int, rng: np.random.Generator) -> Rows:
    """Update the sample so that every row seen is in it with the same probability."""
    entering, places = _enter(sample.n, rows.n, n_seen, rng)
    if len(entering) == 0:
        return sample
    # excluded rows keep their place in the draw, with weight zero
    new, old = rows.pick(entering, whole=True), sample.source.block(range(sample.n))
    points, before = to_numpy(new["x"]), to_numpy(old["x"])
    X = before.astype(np.result_type(points.dtype, before.dtype))
    X[places] = points
    x = move_like(X, new["x"] if points.dtype == X.dtype else old["x"])
    if "counts" not in old and "counts" not in new:
        return replace(sample, source=ArraySource(x))
    counts = to_numpy(weights_of(old)).astype(np.float64)
    counts[places] = to_numpy(weights_of(new))
    return replace(sample, source=ArraySource(x, counts=move_like(counts, x)), known=None)


def _enter(
    n: int, n_rows: int, n_seen: int, rng: np.random.Generator
) -> tuple[Integers, Integers]:
    """Draw which new rows enter a sample of n, and the places they take."""
    entering, places = [], []
    for first in range(0, n_rows, DRAWN):
        last = min(first + DRAWN, n_rows)
        drawn = rng.integers(n_seen + np.arange(first + 1, last + 1))  # below n: it enters
        (inside,) = np.nonzero(drawn < n)
        entering.append(first + inside)
        places.append(drawn[inside])
    return np.concatenate(entering), np.concatenate(places)


def _look_again(
    stream: Stream, family: SphericalFamily, n_moves: int, rng: np.random.Generator
) -> Stream:
    """Compare the mixture with candidates from the moments of all rows and from moves."""
    stream, sample = replace(stream, read_at=stream.sums.total), stream.sample.hold()
    k, seed = stream.mixture.k, int(rng.integers(2**31))
    settled = [run_em(family, sample, stream.mixture, SEARCH)]
    decoded = stream.moments.read(k, stream.mixture.pooled, seed)
    if decoded is not None:
        settled.append(run_em(family, sample, decoded, SEARCH))
    best = max(settled, key=lambda found: found.level).state
    if n_moves:
        best = search_moves(family, sample, best, n_moves, rng).state
    found = family.e_step(sample, best)
    if found.log_likelihood - settled[0].level * found.total < CLEARLY:
        return stream
    # the sample represents all rows until the next batch
    sums = found.times(stream.sums.total / found.total)
    return replace(stream, mixture=best, sums=sums, corrections=stream.corrections + 1)


def in_one_unit(rows: Rows, sample_weight: Any) -> Rows:
    """Undo the scaling of the weights of a batch, so that all batches have the same unit."""
    if sample_weight is None:
        return rows
    weights = sample_weight
    if not array_api_compat.is_array_api_obj(weights):
        weights = np.asarray(weights, dtype=np.float64)
    given = float(namespace_of(weights).sum(weights))
    factor = given * (1 if weights.ndim else rows.n) / rows.total
    return rows if math.isclose(factor, 1.0, rel_tol=1e-5) else rows.weighted(factor)
