"""Components at very different distances: split rows into far groups, and fit each on its own.

The paper asks that the largest distance of two means be comparable to the smallest (Theorem
4.19), and expects the recursive clustering of Li and Liu to remove that condition. Here it is in
its simplest form. Where rows fall into groups that lie much further apart than the rows within
them, no component has rows in two groups, and the likelihood is a sum over groups.
"""

from __future__ import annotations

from dataclasses import replace
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

__all__ = ["fit_by_scale"]


def fit_by_scale(
    rows: Rows,
    k: int | None,
    most: int,
    family: SphericalFamily,
    options: Options,
    rng: np.random.Generator,
) -> Fit:
    """Fit k components, or as many as BIC chooses up to ``most``; far groups of rows apart."""
    told = far_groups(rows, k or most, rng)
    if told is None:
        return fit_mixture(rows, k, most, family, options, rng)
    room = (k or most) - told.n + 1
    groups = [_group(rows, told, g) for g in range(told.n)]
    families = [_rescaled(family, rows, group) for group in groups]
    fits = [
        fit_by_scale(group, None, room, own, options, rng)
        for group, own in zip(groups, families, strict=True)
    ]
    mixtures = [fit.fitted.state for fit in fits]
    if k is not None:
        mixtures = _to_number(groups, mixtures, families, k, rng)
    return _joined(rows, groups, mixtures, families, fits, options)


def _group(rows: Rows, groups: Groups, g: int) -> Rows:
    """Return the rows of a group, in a unit of their own; in memory where they are few."""
    group = rows.as_given().kept_by(Group(groups, g))
    if rows.small:
        group = group.hold()
    return without_outliers(standardise(group), 1, drop=False)[0]


def _rescaled(family: SphericalFamily, rows: Rows, group: Rows) -> SphericalFamily:
    """Return the family with what is known of the variance in the unit of a group."""
    known = family.model.known
    if known is None:
        return family
    factor = (scale_of(rows) / scale_of(group)) ** 2
    return SphericalFamily(replace(family.model, known=known * factor))


def _to_number(
    groups: list[Rows],
    mixtures: list[Mixture],
    families: list[SphericalFamily],
    k: int,
    rng: np.random.Generator,
) -> list[Mixture]:
    """Split where that gains most, or merge where that loses least, until k are left."""
    samples = [
        draw_sample(group, SEARCH.rows_for(mixture.k), rng, mixture.k)
        for group, mixture in zip(groups, mixtures, strict=True)
    ]
    mixtures = list(mixtures)
    while (excess := sum(m.k for m in mixtures) - k) != 0:
        gains, changed = [], []
        for group, sample, mixture, family in zip(
            groups, samples, mixtures, families, strict=True
        ):
            ranking = rank_moves(family, sample, mixture, rng)
            gain, other = -np.inf, mixture
            if excess < 0:
                gain, other = ranking.gains[0], ranking.apply(mixture, np.array([0]))
            elif ranking.merges is not None:
                gain, other = -ranking.merges.losses[0], ranking.merges.apply(mixture)
            gains.append(gain * group.total / sample.total)
            changed.append(other)
        best = int(np.argmax(gains))
        mixtures[best] = run_em(families[best], samples[best], changed[best], SEARCH).state
    return mixtures


def _joined(
    rows: Rows,
    groups: list[Rows],
    mixtures: list[Mixture],
    families: list[SphericalFamily],
    fits: list[Fit],
    options: Options,
) -> Fit:
    """Run EM on every group, with one variance where it is shared, and join the mixtures."""
    settled = [
        run_em(family, group, mixture, options.final)
        for family, group, mixture in zip(families, groups, mixtures, strict=True)
    ]
    total = sum(group.total for group in groups)
    model = families[0].model
    if model.estimated_once:
        squares = sum(
            group.total * found.state.pooled * scale_of(group) ** 2
            for group, found in zip(groups, settled, strict=True)
        )
        known = [float(squares / total) / scale_of(group) ** 2 for group in groups]
        settled = [
            run_em(SphericalFamily(replace(model, known=v)), group, found.state, options.final)
            for v, group, found in zip(known, groups, settled, strict=True)
        ]
    parts, level = [], 0.0
    for group, found in zip(groups, settled, strict=True):
        share, d = group.total / total, rows.n_features
        own = found.state.moved(center_of(group), scale_of(group))
        parts.append(replace(own, weights=own.weights * share))
        level += share * (found.level - d * np.log(scale_of(group)) + np.log(share))
    together = Mixture(
        np.concatenate([m.weights for m in parts]),
        np.vstack([m.means for m in parts]),
        np.concatenate([m.variances for m in parts]),
    )
    unit = scale_of(rows)
    mixture = together.moved(-center_of(rows) / unit, 1 / unit)
    fitted = Fitted(
        mixture,
        float(level) + rows.n_features * float(np.log(unit)),
        (),
        all(found.converged for found in settled),
        max(found.n_iter for found in settled),
    )
    return Fit(fitted, _joint_start(fits), _joint_stats(fits))


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
