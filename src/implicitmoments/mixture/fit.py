"""Fit of a spherical mixture: groups far apart, two starts, moves on a sample, EM on all rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from implicitmoments.arrays import (
    Array,
    Floats,
    check_squares,
    index_like,
    move_like,
    namespace_of,
)
from implicitmoments.mixture.family import Mixture, SphericalFamily
from implicitmoments.mixture.initialisation import (
    QUICK,
    choose_start,
    decode_moments,
    draw_sample,
    spectral_rank,
)
from implicitmoments.moments.components import Components
from implicitmoments.rows import Block, Rows
from implicitmoments.rows.draws import Integers
from implicitmoments.rows.outliers import (
    leave_out_outliers,
    squared_distances,
    standardise_rows,
)
from implicitmoments.rows.view import LARGEST_SINGLE
from implicitmoments.search import (
    SEARCH,
    Budget,
    Fitted,
    bic,
    choose_k,
    merge_cheapest,
    rank_moves,
    run_em,
    search_moves,
)

LINKED = 2_000  # rows among which groups are looked for
JUMP = 500.0  # distance of groups over the largest step inside them: one fit copes with less
SMALLEST_GROUP = 0.02  # of an equal share of rows
NEARER = 0.25  # squared distance from a row to its own points over that to others'
# A component lighter than 0.25/k, or one that the moments do not resolve, needs more rows to be
# distinguished from a tail of another.
FAINT, MORE_ROWS = 0.25, 4


def without_outliers(rows: Rows, k: int, *, drop: bool) -> tuple[Rows, int]:
    """Leave out outliers, if asked for, and count rows; return how many were left out.

    Rows that lie too far out for single precision are read in double precision.
    """
    rows, n_out = leave_out_outliers(rows, k, drop=drop)
    check_squares("X", rows.census.squares or 0.0)
    return replace(rows, wide=(rows.census.longest or 0.0) > LARGEST_SINGLE**2), n_out


@dataclass(frozen=True)
class Options:
    """Parameters chosen by the user."""

    k: int | None  # number of components; None to choose it by the Bayesian information criterion
    most: int  # the largest number that is tried
    order: int | None  # order r of the components decoded from the moments
    n_moves: int  # the most moves that are tried
    final: Budget  # of EM on all rows


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted mixture, in the units of the rows it was fitted to."""

    fitted: Fitted[Mixture]
    components: Components | None  # decoded from the moments
    stats: dict[str, Any]  # what was measured
    fewer: int | None = None  # a smaller number of components of lower BIC, if one was found


def fit_mixture(
    rows: Rows, family: SphericalFamily, options: Options, rng: np.random.Generator
) -> Fit:
    """Fit standardised rows without outliers."""
    k, most, n_moves, times = options.k, options.most, options.n_moves, [perf_counter()]
    n = SEARCH.rows_for(k or most)
    sample = draw_sample(rows, n, rng, k or most)
    most = min(most, sample.n)
    # 1. Start: the mixture decoded from the moments, or k-means++ if its likelihood is higher.
    first = k or spectral_rank(sample, most, family)
    decoded = decode_moments(rows, sample, first, family, options.order, rng)
    state, kind, levels = choose_start(sample, first, decoded, family, rng)
    times.append(perf_counter())
    # 2. Moves on a sample, or the number of components of least BIC; on more rows where in doubt.
    stats, moves = dict[str, Any](), []
    if k is None:
        chosen = choose_k(family, sample, state, most, n_moves, rng)
        state, moves = chosen.searched.state, [chosen.searched]
        stats = {"spectral_components": first, "bic_by_n_components": chosen.scores}
        if state.k != first:  # describe the moments of the number that was chosen
            decoded = decode_moments(rows, sample, state.k, family, options.order, rng)
    elif n_moves:
        moves = [search_moves(family, sample, state, n_moves, rng)]
        state = moves[0].state
    light = float(state.weights.min()) < FAINT / state.k
    if state.k > 1 and (light or not decoded.clear) and n < rows.kept and n_moves:
        sample = draw_sample(rows, MORE_ROWS * n, rng, state.k)
        moves.append(search_moves(family, sample, state, n_moves, rng))
        state = moves[-1].state
    times.append(perf_counter())
    # 3. EM on all rows.
    fitted = run_em(family, rows, state, options.final)
    times.append(perf_counter())
    seconds = zip(("seconds_start", "seconds_search", "seconds_em"), np.diff(times), strict=True)
    stats = {
        "start": kind,
        "start_log_likelihood": levels,
        **decoded.numbers,
        **stats,
        "sample_rows": sample.n,
        "n_moves": sum(searched.accepted for searched in moves),
        "n_moves_tried": sum(searched.tried for searched in moves),
        **{name: float(taken) for name, taken in seconds},
    }
    # 4. Check: is BIC lower with one component less?
    more = None if sample.total == rows.total else rows
    one_less = k is not None and one_less_suffices(family, fitted.state, sample, more)
    return Fit(fitted, decoded.components, stats, fitted.state.k - 1 if one_less else None)


def one_less_suffices(
    family: SphericalFamily, state: Mixture, sample: Rows, rows: Rows | None = None
) -> bool:
    """Return whether BIC is lower after the cheapest merge of two components, followed by EM.

    On a sample; and if it is lower there on all rows, where they are given: they may show a
    component that a sample does not.
    """
    if state.k == 1:
        return False
    less = merge_cheapest(family, sample, state)
    saved = family.n_parameters(state) - family.n_parameters(less)
    for part in [sample] if rows is None else [sample, rows]:
        found = run_em(family, part, less, QUICK)
        gain = part.total * (family.e_step(part, state).level - found.level)
        if bic(gain, saved, part.total) < 0:
            return False
        less = found.state
    return True


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
    return Groups(rows.origin, rows.unit, x[chosen], labels[chosen])


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
        unclear = to_own - NEARER * to_others
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
            own = replace(family, known=family.known * (rows.unit / group.unit) ** 2)
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
    scales = np.array([part.rows.unit for part in parts])
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
        found.state.moved(part.rows.origin, s)
        for part, found, s in zip(parts, fitted, scales, strict=True)
    ]
    together = Mixture(
        np.concatenate([w * m.weights for w, m in zip(shares, own_units, strict=True)]),
        np.vstack([m.means for m in own_units]),
        np.concatenate([m.variances for m in own_units]),
    )
    d, unit = rows.n_features, rows.unit
    mixture = together.moved(-rows.origin / unit, 1 / unit)
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
