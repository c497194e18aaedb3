"""Groups of rows whose distances are much larger than the distances within them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from implicitmoments.arrays import Array, Floats, index_like, move_like, namespace_of
from implicitmoments.mixture.family import Mixture, SphericalFamily
from implicitmoments.mixture.fit import Fit, Options, fit_mixture
from implicitmoments.mixture.sample import (
    Integers,
    center_of,
    draw_sample,
    scale_of,
    standardise_rows,
    without_outliers,
)
from implicitmoments.rows import Block, Rows
from implicitmoments.rows.outliers import squared_distances
from implicitmoments.search import SEARCH, Fitted, rank_moves, run_em

LINKED = 2_000  # rows among which groups are looked for
JUMP = 500.0  # distance of groups over the largest step inside them: one fit copes with less
SMALLEST_GROUP = 0.02  # of an equal share of rows
CLEARLY = 0.25  # squared distance from a row to its own points over that to others'


@dataclass(frozen=True, eq=False)
class Groups:
    """Points that assign a row to a group: that of the nearest point."""

    center: Floats  # (d,)
    scale: float  # rows are compared as (x − center) / scale
    points: Floats  # (m, d)
    labels: Integers  # (m,)

    @property
    def n(self) -> int:
        """Number of groups."""
        return int(self.labels.max()) + 1

    def holds(self, g: int, block: Block) -> Array:
        """Return which rows of a block are in group g, (n,)."""
        x = block["x"]
        xp = namespace_of(x)
        x = xp.astype(x, xp.float64, copy=False)
        x = (x - move_like(self.center, x)) / self.scale
        nearest = xp.argmin(squared_distances(x, move_like(self.points, x)), axis=1)
        found: Array = xp.take(index_like(self.labels, x), nearest, axis=0) == g
        return found


def far_groups(rows: Rows, k: int, rng: np.random.Generator) -> Groups | None:
    """Return groups of rows; None if all are one.

    Groups are the clusters of single linkage of some rows just before its steps grow 500-fold.
    """
    if k == 1 or rows.kept < 2 * k:
        return None
    x = rows.sample(LINKED, rng).points.astype(np.float64)
    links = linkage(x, method="single")
    heights = links[:, 2]
    last = heights[-(k - 1) :]
    inside = np.maximum(np.append(heights[-k : -(k - 1)], last[:-1])[-len(last) :], 0.0)
    jumps = np.flatnonzero((last > JUMP * inside) & (inside > 0))
    if len(jumps) == 0:
        return None
    cut = 0.5 * (last[jumps[-1]] + inside[jumps[-1]])
    labels: Integers = fcluster(links, cut, criterion="distance").astype(np.int64) - 1
    sizes = np.bincount(labels)
    if len(sizes) < 2 or sizes.min() < max(2.0, SMALLEST_GROUP * len(x) / k):
        return None
    chosen = _representatives(x, labels)
    return Groups(center_of(rows), scale_of(rows), x[chosen], labels[chosen])


def _representatives(x: Floats, labels: Integers) -> Integers:
    """Return few rows to which all others of their group are clearly nearest.

    One of each group to begin with; then the row that is assigned least clearly, until all are.
    """
    chosen = [int(np.flatnonzero(labels == g)[0]) for g in range(int(labels.max()) + 1)]
    while len(chosen) < len(x):
        apart = np.maximum(squared_distances(x, x[chosen]), 0.0)
        own = labels[:, None] == labels[chosen]
        to_own = np.where(own, apart, np.inf).min(axis=1)
        to_others = np.where(own, np.inf, apart).min(axis=1)
        unclear = to_own - CLEARLY * to_others
        worst = int(unclear.argmax())
        if unclear[worst] <= 0:
            break
        chosen.append(worst)
    return np.array(chosen)


@dataclass(frozen=True, eq=False)
class _Part:
    """A far group of rows in a unit of its own, and the mixture fitted to it."""

    rows: Rows
    family: SphericalFamily
    fit: Fit
    mixture: Mixture


def fit_by_scale(
    rows: Rows, family: SphericalFamily, options: Options, rng: np.random.Generator
) -> Fit:
    """Fit a mixture; far groups of rows, where there are any, separately.

    Each group gets the number of components of least BIC. Then the split that gains most, or the
    merge that loses least, follows until there are k in all.
    """
    groups = far_groups(rows, options.k or options.most, rng)
    if groups is None:
        return fit_mixture(rows, family, options, rng)
    room = (options.k or options.most) - groups.n + 1
    parts = []
    for g in range(groups.n):
        group = rows.as_given().kept_by(partial(groups.holds, g))
        group = standardise_rows(group.hold() if rows.small else group)
        group, _ = without_outliers(group, 1, drop=False)
        own = family
        if family.known is not None:
            own = replace(family, known=family.known * (scale_of(rows) / scale_of(group)) ** 2)
        fit = fit_by_scale(group, own, replace(options, k=None, most=room), rng)
        parts.append(_Part(group, own, fit, fit.fitted.state))
    chosen = sum(part.mixture.k for part in parts)
    if options.k is None or options.k == chosen:
        return _join(rows, parts, options)
    joined = _join(rows, _to_number(parts, options.k, rng), options)
    return replace(joined, fewer=chosen if chosen < options.k else None)


def _to_number(parts: list[_Part], k: int, rng: np.random.Generator) -> list[_Part]:
    """Split where that gains most, or merge where that loses least, until k are left."""
    parts = list(parts)
    samples = [
        draw_sample(part.rows, SEARCH.rows_for(part.mixture.k), rng, part.mixture.k)
        for part in parts
    ]
    while (excess := sum(part.mixture.k for part in parts) - k) != 0:
        gains, changed = [], []
        for part, sample in zip(parts, samples, strict=True):
            ranking = rank_moves(part.family, sample, part.mixture, rng)
            gain, other = -np.inf, part.mixture
            if excess < 0:
                gain, other = ranking.gains[0], ranking.apply(other, np.array([0]))
            elif ranking.merges is not None:
                gain, other = -ranking.merges.losses[0], ranking.merges.apply(other)
            gains.append(gain * part.rows.total / sample.total)
            changed.append(other)
        best = int(np.argmax(gains))
        settled = run_em(parts[best].family, samples[best], changed[best], SEARCH)
        parts[best] = replace(parts[best], mixture=settled.state)
    return parts


def _join(rows: Rows, parts: list[_Part], options: Options) -> Fit:
    """Run EM on every group, with one variance where it is shared, and join the mixtures."""
    final, family = options.final, parts[0].family
    fitted = [run_em(part.family, part.rows, part.mixture, final) for part in parts]
    scales = np.array([scale_of(part.rows) for part in parts])
    shares = np.array([part.rows.total for part in parts])
    shares = shares / shares.sum()
    if family.estimated_once:
        variances = np.array([found.state.pooled for found in fitted]) * scales**2
        known = float(shares @ variances) / scales**2
        fitted = [
            run_em(replace(family, known=float(v)), part.rows, found.state, final)
            for v, part, found in zip(known, parts, fitted, strict=True)
        ]
    own_units = [
        found.state.moved(center_of(part.rows), s)
        for part, found, s in zip(parts, fitted, scales, strict=True)
    ]
    together = Mixture(
        np.concatenate([w * m.weights for w, m in zip(shares, own_units, strict=True)]),
        np.vstack([m.means for m in own_units]),
        np.concatenate([m.variances for m in own_units]),
    )
    d, unit = rows.n_features, scale_of(rows)
    mixture = together.moved(-center_of(rows) / unit, 1 / unit)
    levels = np.array([found.level for found in fitted]) - d * np.log(scales)
    level = d * math.log(unit) + float(shares @ (levels + np.log(shares)))
    converged, n_iter = all(f.converged for f in fitted), max(f.n_iter for f in fitted)
    each = [part.fit.stats for part in parts]
    stats = {
        "start": "moments" if all(s["start"] == "moments" for s in each) else "kmeans++",
        "groups": len(parts),
        "n_moves": sum(s["n_moves"] for s in each),
        "n_moves_tried": sum(s["n_moves_tried"] for s in each),
        "group_stats": each,
    }
    return Fit(Fitted(mixture, level, (), converged, n_iter), None, stats)
