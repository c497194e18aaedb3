"""Groups of rows so far apart that each needs a unit of its own, fitted one by one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from implicitmoments.arrays import Array, Floats, index_like, move_like, namespace_of
from implicitmoments.mixture.alternatives import bounded_note
from implicitmoments.mixture.fit import GaussianFit, fit_gaussians
from implicitmoments.mixture.gaussians import Gaussians
from implicitmoments.mixture.least_variances import rounding_steps
from implicitmoments.mixture.starts import Options
from implicitmoments.mixture.view import View, make_view
from implicitmoments.notes import Note
from implicitmoments.rows import Block, Rows
from implicitmoments.rows.draws import Integers
from implicitmoments.rows.far_rows import squared_distances
from implicitmoments.rows.outliers import standardise_rows
from implicitmoments.search import SEARCH, Fitted, rank_moves, run_em

LINKED = 2_000  # rows among which groups are looked for
# Distance of groups over the largest step inside them. With less, the least variance, which is
# relative to that of all rows, stays below that of a component.
JUMP = 100.0
SMALLEST_GROUP = 0.02  # of an equal share of rows
NEARER = 0.25  # squared distance from a row to its own points over that to others'


@dataclass(frozen=True, eq=False)
class Groups:
    """Points that assign a row to a group: that of the nearest point."""

    center: Floats  # (d,)
    factors: Floats  # (d,), rows are compared as (x − center) times them
    points: Floats  # (m, d)
    labels: Integers  # (m,)
    columns: Integers | None = None  # (d,), columns of the source that are compared; None for all

    @property
    def n(self) -> int:
        """Number of groups."""
        return int(self.labels.max()) + 1

    def holds(self, g: int, block: Block) -> Array:
        """Return which rows of a block are in group g, (n,)."""
        x = block["x"]
        xp = namespace_of(x)
        if self.columns is not None:
            x = xp.take(x, index_like(self.columns, x), axis=1)
        x = xp.astype(x, xp.float64, copy=False)
        x = (x - move_like(self.center, x)) * move_like(self.factors, x)
        nearest = xp.argmin(squared_distances(x, move_like(self.points, x)), axis=1)
        found: Array = xp.take(index_like(self.labels, x), nearest, axis=0) == g
        return found


def far_groups(rows: Rows, k: int, rng: np.random.Generator) -> Groups | None:
    """Return groups of rows; None if all are one.

    Groups are the clusters of single linkage of some rows just before its steps grow 100-fold.
    """
    if k == 1 or rows.kept < 2 * k:
        return None
    some = standardise_rows(rows.sample(LINKED, rng))
    x, counts = some.points.astype(np.float64), some.counts
    k = min(k, len(x) // 2)  # more groups than this, of two rows or more, are not in the sample
    # a column of few values has gaps, but no groups
    compared = 1.0 - rounding_steps(x, counts)[1]
    x = x * compared
    if _all_near(x, k):
        return None
    links = linkage(x, method="single")
    heights = links[:, 2]
    last = heights[-(k - 1) :]
    inside = np.maximum(np.append(heights[-k : -(k - 1)], last[:-1])[-len(last) :], 0.0)
    jumps = np.flatnonzero((last > JUMP * inside) & (inside > 0))
    if len(jumps) == 0:
        return None
    cut = 0.5 * (last[jumps[-1]] + inside[jumps[-1]])
    labels: Integers = fcluster(links, cut, criterion="distance").astype(np.int64) - 1
    sizes = np.bincount(labels, counts)
    if len(sizes) < 2 or sizes.min() < max(2.0, SMALLEST_GROUP * counts.sum() / k):
        return None
    chosen = _representatives(x, labels)
    factors = compared / some.unit
    return Groups(some.origin, factors, x[chosen], labels[chosen], rows.columns)


def _all_near(x: Floats, k: int) -> bool:
    """Say, in far less time than linkage, whether its last k - 1 steps are sure to be no jumps.

    The last step is at most the distance from a central row to the farthest. While k rows have no
    other within a distance, there are more than k groups; the outermost rows have the fewest.
    """
    lengths = np.sum((x - x.mean(axis=0)) ** 2, axis=1)
    last = np.sum((x - x[lengths.argmin()]) ** 2, axis=1).max()
    outer = np.argsort(-lengths)[: 4 * k]
    apart: Floats = np.asarray(squared_distances(x[outer], x))
    apart[np.arange(len(outer)), outer] = np.inf
    alone = np.sort(apart.min(axis=1))[-k]
    return bool(last < JUMP**2 * alone)


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
    """A far group of rows, and the mixture fitted to it, in the coordinates of its view."""

    rows: Rows  # in the coordinates of the view
    fit: GaussianFit
    mixture: Gaussians

    @property
    def total(self) -> float:
        return self.rows.total


def fit_by_scale(
    rows: Rows, options: Options, rng: np.random.Generator, *, part: bool = False
) -> GaussianFit:
    """Fit a mixture; far groups of rows, where there are any, separately.

    Each group gets the number of components of least BIC. Then the split that gains most, or the
    merge that loses least, follows until there are k in all. ``part`` is for one of the groups.
    """
    groups = None
    if options.given is None and not options.student:  # whose components share tails
        groups = far_groups(rows, options.k or options.most, rng)
    if groups is None:
        found = fit_gaussians(rows, options, rng, part=part)
        return replace(found, better=found.better if part else bounded_note(found.better, options))
    if len(options.types) > 1:
        single = [replace(options, types=(name,)) for name in options.types]
        each = [fit_by_scale(rows, one, rng, part=part) for one in single]
        scores = {fit.kind.name: fit.bic(rows.total) for fit in each}
        best = min(each, key=lambda fit: scores[fit.kind.name])
        return replace(best, stats=best.stats | {"bic_by_covariance_type": scores})
    room = (options.k or options.most) - groups.n + 1
    parts = []
    for g in range(groups.n):
        group = rows.kept_by(partial(groups.holds, g))
        group = group.hold() if rows.small else group
        fit = fit_by_scale(group, replace(options, k=None, most=room), rng, part=True)
        view = fit.view
        parts.append(_Part(view.rows(group), fit, view.inside(fit.fitted.state)))
    chosen = sum(part.mixture.k for part in parts)
    if options.k is None or options.k == chosen:
        better = _missing(parts)
        better = better if part else bounded_note(better, options)
        return replace(_join(rows, parts, options), better=better)
    changed = _to_number(parts, options.k, rng)
    joined = _join(rows, changed, options)
    if chosen < options.k:
        return replace(joined, better=Note("bic_prefers_fewer", {"k": options.k, "fewer": chosen}))
    gain = joined.bic(rows.total) - _join(rows, parts, options).bic(rows.total)
    if gain <= 0:
        return joined
    values = {"which": _merged(parts, changed), "more": chosen, "gain": gain}
    return replace(joined, better=Note("component_missing", values))


def _missing(parts: list[_Part]) -> Note | None:
    """Return the note on a component that is missing in one of the groups, of largest gain."""
    found, first, total = list[Note](), 0, sum(part.mixture.k for part in parts)
    for part in parts:
        note = part.fit.better
        if note is not None and note.code == "component_missing":
            values = dict(note.values)
            values["more"] += total - part.mixture.k
            values["which"] = [first + i for i in values["which"]]
            found.append(Note("component_missing", values))
        first += part.mixture.k
    return max(found, key=lambda note: float(note.values["gain"]), default=None)


def _merged(parts: list[_Part], changed: list[_Part]) -> list[int]:
    """Return which of the components that are left stand for several of those before."""
    nearest, first = list[Integers](), 0
    for one, other in zip(parts, changed, strict=True):
        apart = squared_distances(one.mixture.means, other.mixture.means)
        nearest.append(first + np.argmin(apart, axis=1))
        first += other.mixture.k
    return [int(i) for i in np.flatnonzero(np.bincount(np.concatenate(nearest)) > 1)]


def _to_number(parts: list[_Part], k: int, rng: np.random.Generator) -> list[_Part]:
    """Split where that gains most, or merge where that loses least, until k are left."""
    parts = list(parts)
    samples = [
        part.rows.sample(SEARCH.rows_for(part.mixture.k), rng, width=part.mixture.k).merged()
        for part in parts
    ]
    while (excess := sum(part.mixture.k for part in parts) - k) != 0:
        gains, changed = [], []
        for part, sample in zip(parts, samples, strict=True):
            ranking = rank_moves(part.fit.view.family, sample, part.mixture, rng)
            gain, other = -np.inf, part.mixture
            if excess < 0:
                gain, other = ranking.gains[0], ranking.apply(other, np.array([0]))
            elif ranking.merges is not None:
                gain, other = -ranking.merges.losses[0], ranking.merges.apply(other)
            gains.append(gain * part.total / sample.total)
            changed.append(other)
        best = int(np.argmax(gains))
        family = parts[best].fit.view.family
        settled = run_em(family, samples[best], changed[best], SEARCH)
        parts[best] = replace(parts[best], mixture=settled.state)
    return parts


def _join(rows: Rows, parts: list[_Part], options: Options) -> GaussianFit:
    """Run EM on every group, with one covariance where it is shared, and join the mixtures."""
    views = [part.fit.view for part in parts]
    shares = np.array([part.total for part in parts])
    shares = shares / shares.sum()
    fitted = [
        run_em(view.family, part.rows, part.mixture, options.final)
        for view, part in zip(views, parts, strict=True)
    ]
    if views[0].family.kind.tied and options.variance is None:
        own = [view.outside(f.state).covariances[0] for view, f in zip(views, fitted, strict=True)]
        pooled = np.tensordot(shares, np.array(own), axes=1)
        fitted = [
            run_em(view.with_known(pooled).family, part.rows, found.state, options.final)
            for view, part, found in zip(views, parts, fitted, strict=True)
        ]
    states = [view.outside(found.state) for view, found in zip(views, fitted, strict=True)]
    together = Gaussians(
        np.concatenate(
            [share * state.weights for share, state in zip(shares, states, strict=True)]
        ),
        np.vstack([state.means for state in states]),
        np.concatenate([state.covariances for state in states]),
    )
    levels = [found.level - view.log_unit for view, found in zip(views, fitted, strict=True)]
    level = float(shares @ (np.array(levels) + np.log(shares)))
    converged, n_iter = all(f.converged for f in fitted), max(f.n_iter for f in fitted)
    each = [part.fit.stats for part in parts]
    starts = {stats["start"] for stats in each}
    stats = {
        "start": starts.pop() if len(starts) == 1 else "merge",
        "start_log_likelihood": {},
        "groups": len(parts),
        "n_moves": sum(s["n_moves"] for s in each),
        "n_moves_tried": sum(s["n_moves_tried"] for s in each),
        "group_stats": each,
    }
    fit = Fitted(together, level, (), converged, n_iter)
    by_component = tuple(
        view for view, state in zip(views, states, strict=True) for _ in range(state.k)
    )
    joined = _joined_view(rows, views, options)
    return GaussianFit(fit, joined, stats, None, own_views=by_component)


def _joined_view(rows: Rows, views: list[View], options: Options) -> View:
    """Return a view of all rows with the least variances, and the known one, of the groups."""
    sample, kind = rows.sample(SEARCH.rows, 0), views[0].family.kind
    view = make_view(sample, kind, options.ridge, epsilon=options.epsilon)
    own = np.array([each.family.least * np.square(each.scale) for each in views])
    least = own.min(axis=0) / np.square(view.scale)
    view = replace(view, family=replace(view.family, least=least))
    if options.variance is None:
        return view
    return view.with_known(np.full(rows.n_features, options.variance))
