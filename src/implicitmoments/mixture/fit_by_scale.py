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

from implicitmoments.mixture.choose_k import fit_auto, grow, shrink
from implicitmoments.mixture.em import Polished, VarianceModel, polish
from implicitmoments.mixture.far_groups import Apart, Group, Groups, far_groups
from implicitmoments.mixture.fit import Fit, Search, fit_mixture
from implicitmoments.mixture.initialisation import Start
from implicitmoments.mixture.likelihood import Mixture, gather
from implicitmoments.mixture.outliers import take_census
from implicitmoments.mixture.standard_rows import Rows
from implicitmoments.mixture.standardise import in_memory, place_rows

__all__ = ["fit_by_scale"]

COMPARED = 8_000  # rows of a group on which components are added or merged
HELD_NUMBERS = 2**23  # of rows in all: then a group is held in memory


def fit_by_scale(
    rows: Rows,
    k: int | None,
    most: int,
    model: VarianceModel,
    search: Search,
    rng: np.random.Generator,
) -> Fit:
    """Fit k components, or as many as BIC says up to ``most``; far groups of rows apart."""
    told = far_groups(rows, most if k is None else k, rng)
    if told is None and k is None:
        return fit_auto(rows, most, model, search, rng)
    if told is None:
        return fit_mixture(rows, k or 1, model, search, rng)
    room = (most if k is None else k) - told.n + 1
    groups = [_group(rows, told, g) for g in range(told.n)]
    models = [_rescaled(model, rows, group) for group in groups]
    fits = [
        fit_by_scale(group, None, room, own, search, rng)
        for group, own in zip(groups, models, strict=True)
    ]
    mixtures = [fit.polished.mixture for fit in fits]
    if k is not None:
        mixtures = _to_number(groups, mixtures, models, k, rng)
    return _joined(rows, groups, mixtures, models, fits, search)


def _group(rows: Rows, groups: Groups, g: int) -> Rows:
    """Return the rows of a group, in a unit of their own; in memory where they are few."""
    rules = (*rows.rules, Group(groups, g))
    if rows.near is not None:
        center = np.zeros(rows.d) if rows.center is None else rows.center
        rules = (*rules, Apart(rows.near, center, rows.scale))
    apart = Rows(rows.source, block_rows=rows.block_rows, rules=rules)
    if rows.n * rows.d <= HELD_NUMBERS:
        apart = in_memory(apart)
    return take_census(place_rows(apart))[0]


def _rescaled(model: VarianceModel, rows: Rows, group: Rows) -> VarianceModel:
    """Return what is known of the variance in the unit of a group."""
    if model.known is None:
        return model
    return replace(model, known=model.known * (rows.scale / group.scale) ** 2)


def _to_number(
    groups: list[Rows],
    mixtures: list[Mixture],
    models: list[VarianceModel],
    k: int,
    rng: np.random.Generator,
) -> list[Mixture]:
    """Add components where they gain most, or merge where they lose least, until k are left."""
    samples = [group.sample(COMPARED, rng) for group in groups]
    while sum(m.k for m in mixtures) != k:
        step = grow if sum(m.k for m in mixtures) < k else shrink
        changes: dict[int, tuple[float, Mixture]] = {}
        for g, (sample, mixture, model) in enumerate(zip(samples, mixtures, models, strict=True)):
            changed = step(sample, mixture, model, rng)
            if changed is not None:
                gain = gather(sample, changed).log_likelihood
                gain -= gather(sample, mixture).log_likelihood
                changes[g] = gain * groups[g].total / sample.total, changed
        best = max(changes, key=lambda g: changes[g][0])
        mixtures[best] = changes[best][1]
    return mixtures


def _joined(
    rows: Rows,
    groups: list[Rows],
    mixtures: list[Mixture],
    models: list[VarianceModel],
    fits: list[Fit],
    search: Search,
) -> Fit:
    """Polish every group, with one variance where it is shared, and put them side by side."""
    polished = [
        polish(group, mixture, model, search.max_iter, search.tol)
        for group, mixture, model in zip(groups, mixtures, models, strict=True)
    ]
    total = sum(group.total for group in groups)
    if models[0].shared and models[0].known is None:
        shared = sum(
            group.total * found.mixture.pooled * group.scale**2
            for group, found in zip(groups, polished, strict=True)
        )
        polished = [
            polish(
                group,
                found.mixture,
                replace(models[0], known=float(shared / total) / group.scale**2),
                search.max_iter,
                search.tol,
            )
            for group, found in zip(groups, polished, strict=True)
        ]
    parts, level = [], 0.0
    for group, found in zip(groups, polished, strict=True):
        share, zero = group.total / total, np.zeros(rows.d)
        own = found.mixture.moved(zero if group.center is None else group.center, group.scale)
        parts.append(replace(own, weights=own.weights * share))
        level += share * (found.level - rows.d * np.log(group.scale) + np.log(share))
    together = Mixture(
        np.concatenate([m.weights for m in parts]),
        np.vstack([m.means for m in parts]),
        np.concatenate([m.variances for m in parts]),
    )
    center = np.zeros(rows.d) if rows.center is None else rows.center
    mixture = together.moved(-center / rows.scale, 1 / rows.scale)
    done = Polished(
        mixture,
        float(level) + rows.d * float(np.log(rows.scale)),
        max(found.n_iter for found in polished),
        all(found.converged for found in polished),
    )
    return Fit(done, _one_start(fits), _one_account(fits))


def _one_start(fits: list[Fit]) -> Start:
    """Say where the fit began: from moments if every group did."""
    words = tuple(word for fit in fits for word in fit.start.words)
    kinds = [fit.start.kind for fit in fits]
    kind = "moments" if all(kind == "moments" for kind in kinds) else "scattered"
    return replace(fits[0].start, kind=kind, components=None, words=words)


def _one_account(fits: list[Fit]) -> dict[str, Any]:
    """Add up what was measured in the groups."""
    counted = {
        name: sum(fit.stats.get(name, 0) for fit in fits) for name in ("repairs", "repairs_tried")
    }
    return {
        "start": _one_start(fits).kind,
        "groups": len(fits),
        **counted,
        "group_stats": [fit.stats for fit in fits],
    }
