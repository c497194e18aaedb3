"""Rows in pieces: stepwise EM, corrected by the moments of all rows and by moves."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import array_api_compat
import numpy as np

from implicitmoments.arrays import move_like, namespace_of, to_numpy
from implicitmoments.mixture.family import SphericalFamily
from implicitmoments.mixture.incremental_moments import MomentSums, begin_sums
from implicitmoments.mixture.likelihood import Mixture, Sums, e_step
from implicitmoments.mixture.sample import Integers, Sample
from implicitmoments.rows import Rows
from implicitmoments.search import SEARCH, run_em, search_moves

# A piece that is a share s of all rows weighs s to this power. At 1 old sums never fade, and
# overlapping components lag behind; at 0.7 the last pieces rule, and separate ones are noisy.
FORGETTING = 0.85
STEPS = 5  # EM steps per piece
STILL = 1e-7  # rise of the mean log-likelihood of a piece at which fewer are enough
CLEARLY = 10.0  # log-likelihood of the sample by which another mixture must win
DRAWN = 2**20  # rows at a time of which is drawn whether they enter the sample
LATER = 2.0  # the moments are decoded again when there are so many times the rows of last time


@dataclass(frozen=True, eq=False)
class Stream:
    """All that is kept of the rows seen."""

    mixture: Mixture
    sums: Sums  # of EM, each piece at the mixture of its time
    moments: MomentSums
    # some of the rows, each with the same chance; as many as there were to begin with
    sample: Sample
    n_seen: int
    read_at: float  # rows at which the moments were last decoded
    # times that moments or moves led to a clearly likelier mixture than EM had
    corrections: int = 0


def begin_stream(rows: Sample, mixture: Mixture) -> Stream:
    """Begin with rows, held as they are read, to which a mixture has been fitted."""
    sums = e_step(rows, mixture)
    moments = begin_sums(rows, mixture.k, mixture.pooled)
    return Stream(mixture, sums, moments, rows, rows.n, sums.total)


def continue_stream(
    stream: Stream, rows: Rows, family: SphericalFamily, n_moves: int, rng: np.random.Generator
) -> Stream:
    """Take in further rows.

    Stepwise EM (Cappé and Moulines 2009): the sums of this piece follow the mixture for a few
    steps, those of earlier pieces stay as they were and slowly lose weight. Whenever the rows
    have doubled, the moments of all rows are decoded again and moves are tried, both judged on
    the sample.
    """
    mixture, sums, level = stream.mixture, stream.sums, -np.inf
    if rows.total == 0:
        return stream
    total = stream.sums.total + rows.total
    share = (rows.total / total) ** FORGETTING
    earlier = stream.sums.times((1 - share) * total / stream.sums.total)
    for _ in range(STEPS):
        piece = e_step(rows, mixture)
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


def _mixed(sample: Sample, rows: Rows, n_seen: int, rng: np.random.Generator) -> Sample:
    """Let rows into the sample, so that every row seen has the same chance to be in it."""
    entering, places = _enter(sample.n, rows.n, n_seen, rng)
    if len(entering) == 0:
        return sample
    # rows that are left out keep their place in the draw, and count zero times
    new = rows.reader().whole(rows.source.pick(entering, what="some of the rows"), entering)
    points = to_numpy(new["x"])
    X = sample.points.astype(np.result_type(points.dtype, sample.points.dtype))
    X[places] = points
    x = move_like(X, new["x"] if points.dtype == X.dtype else sample.X)
    if sample.sample_weight is None and "counts" not in new:
        return Sample(x, None, sample.rows_per_block)
    counts = sample.weights.copy()
    counts[places] = to_numpy(new["counts"]) if "counts" in new else 1.0
    return Sample(x, move_like(counts, x), sample.rows_per_block)


def _enter(
    n: int, n_rows: int, n_seen: int, rng: np.random.Generator
) -> tuple[Integers, Integers]:
    """Draw which of some further rows enter a sample of n, and the places they take."""
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
    """Compare the mixture with what the moments of all rows and moves make of it."""
    stream, sample = replace(stream, read_at=stream.sums.total), stream.sample
    k, seed = stream.mixture.k, int(rng.integers(2**31))
    settled = [run_em(family, sample, stream.mixture, SEARCH)]
    decoded = stream.moments.read(k, stream.mixture.pooled, seed)
    if decoded is not None:
        settled.append(run_em(family, sample, decoded, SEARCH))
    best = max(settled, key=lambda found: found.level).state
    if n_moves:
        best = search_moves(family, sample, best, n_moves, rng).state
    found = e_step(sample, best)
    if found.log_likelihood - settled[0].level * found.total < CLEARLY:
        return stream
    # the sample stands for all rows until further ones come
    sums = found.times(stream.sums.total / found.total)
    return replace(stream, mixture=best, sums=sums, corrections=stream.corrections + 1)


def in_one_unit(rows: Rows, sample_weight: Any) -> Rows:
    """Let rows of a piece count as often as was given: no piece is scaled on its own."""
    if sample_weight is None:
        return rows
    weights = sample_weight
    if not array_api_compat.is_array_api_obj(weights):
        weights = np.asarray(weights, dtype=np.float64)
    given = float(namespace_of(weights).sum(weights))
    factor = given * (1 if weights.ndim else rows.n) / rows.total
    return rows if math.isclose(factor, 1.0, rel_tol=1e-5) else rows.weighted(factor)
