"""Components at very different distances: split rows into far groups, and fit each on its own.

The paper asks that the largest distance of two means be comparable to the smallest (Theorem
4.19), and expects the recursive clustering of Li and Liu to remove that condition. Here it is in
its simplest form. Where rows fall into groups that lie much further apart than the rows within
them, no component has rows in two groups, and the likelihood is a sum over groups.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from implicitmoments.mixture.family import SphericalFamily
from implicitmoments.mixture.far_groups import Group, Groups, far_groups
from implicitmoments.mixture.fit import Fit, Options, fit_mixture
from implicitmoments.mixture.likelihood import Mixture
from implicitmoments.mixture.sample import draw_sample
from implicitmoments.mixture.standardise import (
    center_of,
    scale_of,
    standardise,
    without_outliers,
)
from implicitmoments.mixture.starts import Decoded, Start
from implicitmoments.notes import Notes
from implicitmoments.rows import Rows
from implicitmoments.search import SEARCH, Fitted, rank_moves, run_em


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
    group = standardise(group.hold() if rows.small else group)
    group, _ = without_outliers(group, 1, drop=False)
    if (known := family.model.known) is not None:
        known *= (scale_of(rows) / scale_of(group)) ** 2
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
    scales = [scale_of(part.rows) for part in parts]
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
    d, unit = rows.n_features, scale_of(rows)
    own_units = [
        found.state.moved(center_of(part.rows), s)
        for part, found, s in zip(parts, fitted, scales, strict=True)
    ]
    together = Mixture(
        np.concatenate([w * m.weights for w, m in zip(shares, own_units, strict=True)]),
        np.vstack([m.means for m in own_units]),
        np.concatenate([m.variances for m in own_units]),
    )
    mixture = together.moved(-center_of(rows) / unit, 1 / unit)
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
    return replace(fits[0].start, kind=kind, decoded=Decoded(notes=notes))


def _joint_stats(fits: list[Fit]) -> dict[str, Any]:
    """Add up what was measured in the groups."""
    counted = {
        name: sum(fit.stats.get(name, 0) for fit in fits) for name in ("n_moves", "n_moves_tried")
    }
    return {
        "start": _joint_start(fits).kind,
        "groups": len(fits),
        **counted,
        "group_stats": [fit.stats for fit in fits],
    }
