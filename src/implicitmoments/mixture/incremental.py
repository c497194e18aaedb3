"""Incremental fits: stepwise EM on batches, corrected by a search on a random sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from implicitmoments.arrays import move_like, to_numpy
from implicitmoments.mixture.gaussians import Gaussians, GaussianSums
from implicitmoments.mixture.view import View
from implicitmoments.rows import ArraySource, Rows, weights_of
from implicitmoments.rows.draws import Integers
from implicitmoments.search import SEARCH, run_em

# A batch that holds a fraction s of all rows gets weight s to this power. At 1, old sums never
# fade and overlapping components lag behind; at 0.7, recent batches dominate and the estimates of
# separated components are noisy.
FORGETTING = 0.85
STEPS = 5  # EM steps per batch, at most: later batches go on where these end
STILL = 1e-7  # gain in the mean log-likelihood of a batch below which EM stops
CLEARLY = 10.0  # log-likelihood gain on the sample required to replace the mixture
DRAWN = 2**20  # rows per draw of the reservoir sample: 8 MB of random integers
LATER = 2.0  # growth factor of the rows after which the search is repeated: log2(n) times


# rows of a sample and a mixture -> a mixture that is at least as likely
Search = Callable[[Rows, Gaussians], Gaussians]


@dataclass(frozen=True, eq=False)
class Stream:
    """State kept between batches; rows and mixtures in the coordinates of the view."""

    view: View
    mixture: Gaussians
    sums: GaussianSums  # of EM, each batch evaluated at the mixture of its time
    # reservoir sample: uniform among the rows seen, of constant size
    sample: Rows
    n_seen: int
    searched_at: float  # rows at the last search
    corrections: int = 0  # searches with a clearly higher likelihood than EM


def begin_stream(view: View, rows: Rows, mixture: Gaussians) -> Stream:
    """Start from rows held in memory and the mixture fitted to them."""
    sums = view.family.e_step(rows, mixture)
    return Stream(view, mixture, sums, rows, rows.n, sums.total)


def continue_stream(
    stream: Stream, rows: Rows, search: Search, rng: np.random.Generator
) -> Stream:
    """Update the mixture with a batch of rows.

    Stepwise EM (Cappé and Moulines 2009): the sums of this batch are recomputed for a few
    steps; those of earlier batches stay fixed and slowly lose weight. Whenever the number of
    rows has doubled, the sample is searched, which also judges what is found.
    """
    mixture, sums, level = stream.mixture, stream.sums, -np.inf
    if rows.total == 0:
        return stream
    family, total = stream.view.family, stream.sums.total + rows.total
    share = (rows.total / total) ** FORGETTING
    earlier = stream.sums.times((1 - share) * total / stream.sums.total)
    for _ in range(STEPS):
        piece = family.e_step(rows, mixture)
        sums = earlier + piece.times(share * total / piece.total)
        mixture = family.m_step(sums, mixture)
        before, level = level, piece.level
        if level - before < STILL:
            break
    grown = replace(
        stream,
        mixture=mixture,
        sums=sums,
        sample=_mixed(stream.sample, rows, stream.n_seen, rng),
        n_seen=stream.n_seen + rows.n,
    )
    return grown if sums.total < LATER * stream.searched_at else _search(grown, search)


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


def _search(stream: Stream, search: Search) -> Stream:
    """Compare the mixture with what a search of the sample finds."""
    stream, sample = replace(stream, searched_at=stream.sums.total), stream.sample.hold()
    family = stream.view.family
    best = search(sample, run_em(family, sample, stream.mixture, SEARCH).state)
    found, before = family.e_step(sample, best), family.e_step(sample, stream.mixture)
    # EM on the sample alone gains about half a nat for each parameter
    clearly = max(CLEARLY, float(family.n_parameters(best)))
    if found.log_likelihood - before.log_likelihood < clearly:
        return stream
    # the sample represents all rows until the next batch
    sums = found.times(stream.sums.total / found.total)
    return replace(stream, mixture=best, sums=sums, corrections=stream.corrections + 1)
