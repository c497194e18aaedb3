"""Groups of rows whose distances are much larger than the distances within them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from implicitmoments.arrays import Array, Floats, move_like, namespace_of
from implicitmoments.mixture.family import SphericalFamily
from implicitmoments.mixture.fit import (
    DecodedMixture,
    Fit,
    Options,
    Start,
    draw_sample,
    fit_mixture,
    without_outliers,
)
from implicitmoments.mixture.likelihood import Mixture
from implicitmoments.notes import Notes
from implicitmoments.rows import Block, Rows
from implicitmoments.rows.draws import Integers
from implicitmoments.rows.outliers import squared_distances, standardise_rows
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

    def nearest(self, x: Array) -> Array:
        """Return the point that is nearest to every row (n, d), by number."""
        xp = namespace_of(x)
        x = xp.astype(x, xp.float64, copy=False)
        x = (x - move_like(self.center, x)) / self.scale
        return xp.argmin(squared_distances(x, move_like(self.points, x)), axis=1)


@dataclass(frozen=True, eq=False)
class Group:
    """Keeps the rows of one group."""

    groups: Groups
    g: int

    def __call__(self, block: Block) -> Array:
        """Return which rows of a block are in the group."""
        nearest = self.groups.nearest(block["x"])
        inside = nearest < 0
        for i in np.flatnonzero(self.groups.labels == self.g):
            inside = inside | (nearest == int(i))
        return inside


def far_groups(rows: Rows, k: int, rng: np.random.Generator) -> Groups | None:
    """Return groups of rows; None if all are one.

    Groups are the clusters of single linkage of some rows just before its steps grow 500-fold.
    """
    if k == 1 or rows.kept < 2 * k:
        return None
    x = rows.sample(LINKED, rng).points.astype(np.float64)
    links = linkage(x, method="single")
    heights = links[:, 2]
    last = heights[-(k - 1) :] if k > 1 else heights[-1:]
    inside = np.maximum(np.append(heights[-k : -(k - 1)], last[:-1])[-len(last) :], 0.0)
    jumps = np.flatnonzero(last > JUMP * inside)
    jumps = jumps[inside[jumps] > 0]
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

    def settle(self, family: SphericalFamily, options: Options) -> Fitted[Mixture]:
        return run_em(family, self.rows, self.mixture, options.final)


def fit_by_scale(
    rows: Rows, family: SphericalFamily, options: Options, rng: np.random.Generator
) -> Fit:
    """Fit a mixture; far groups of rows, where there are any, separately."""
    groups = far_groups(rows, options.k or options.most, rng)
    if groups is None:
        return fit_mixture(rows, family, options, rng)
    room = (options.k or options.most) - groups.n + 1
    chosen = replace(options, k=None, most=room)
    parts = [_fit_part(rows, groups, g, family, chosen, rng) for g in range(groups.n)]
    if options.k is not None:
        parts = _to_number(parts, options.k, rng)
    return _join(rows, parts, options)


def _fit_part(
    rows: Rows,
    groups: Groups,
    g: int,
    family: SphericalFamily,
    options: Options,
    rng: np.random.Generator,
) -> _Part:
    """Fit the rows of a group, which are held in memory where there are few."""
    group = rows.as_given().kept_by(Group(groups, g))
    group = standardise_rows(group.hold() if rows.small else group)
    group, _ = without_outliers(group, 1, drop=False)
    if (known := family.model.known) is not None:
        known *= (rows.unit / group.unit) ** 2
        family = SphericalFamily(replace(family.model, known=known))
    fit = fit_by_scale(group, family, options, rng)
    return _Part(group, family, fit, fit.fitted.state)


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
    fitted = [part.settle(part.family, options) for part in parts]
    scales = [part.rows.unit for part in parts]
    totals = np.array([part.rows.total for part in parts])
    shares = totals / totals.sum()
    model = parts[0].family.model
    if model.estimated_once:
        own = [found.state.pooled * s**2 for found, s in zip(fitted, scales, strict=True)]
        families = [
            SphericalFamily(replace(model, known=float(shares @ own) / s**2)) for s in scales
        ]
        parts = [replace(p, mixture=f.state) for p, f in zip(parts, fitted, strict=True)]
        fitted = [p.settle(family, options) for p, family in zip(parts, families, strict=True)]
    d, unit = rows.n_features, rows.unit
    own_units = [
        found.state.moved(part.rows.origin, s)
        for part, found, s in zip(parts, fitted, scales, strict=True)
    ]
    together = Mixture(
        np.concatenate([w * m.weights for w, m in zip(shares, own_units, strict=True)]),
        np.vstack([m.means for m in own_units]),
        np.concatenate([m.variances for m in own_units]),
    )
    mixture = together.moved(-rows.origin / unit, 1 / unit)
    levels = np.array([found.level for found in fitted]) - d * np.log(scales)
    level = d * math.log(unit) + shares @ (levels + np.log(shares))
    converged, n_iter = all(f.converged for f in fitted), max(f.n_iter for f in fitted)
    whole = Fitted(mixture, float(level), (), converged, n_iter)
    fits = [part.fit for part in parts]
    return Fit(whole, _joint_start(fits), _joint_stats(fits))


def _joint_start(fits: list[Fit]) -> Start:
    """Return the start of all groups: the moments if every group started from them."""
    notes = Notes(note for fit in fits for note in fit.start.decoded.notes)
    kinds = [fit.start.kind for fit in fits]
    kind = "moments" if all(kind == "moments" for kind in kinds) else "scattered"
    return replace(fits[0].start, kind=kind, decoded=DecodedMixture(notes=notes))


def _joint_stats(fits: list[Fit]) -> dict[str, Any]:
    """Combine the measurements of the groups."""
    counted = {
        name: sum(fit.stats.get(name, 0) for fit in fits) for name in ("n_moves", "n_moves_tried")
    }
    return {
        "start": _joint_start(fits).kind,
        "groups": len(fits),
        **counted,
        "group_stats": [fit.stats for fit in fits],
    }
