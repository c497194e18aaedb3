"""Components at very different distances: split rows into far groups, and fit each on its own.

The paper asks that the largest distance of two means be comparable to the smallest (Theorem
4.19), and expects the recursive clustering of Li and Liu to remove that condition. Here it is in
its simplest form. Where rows fall into groups that lie much further apart than the rows within
them, no component has rows in two groups, and the likelihood is a sum over groups.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from implicitmoments.fitting.spherical.choose_k import fit_auto, grow, shrink
from implicitmoments.fitting.spherical.em import Polished, VarianceModel, polish
from implicitmoments.fitting.spherical.fit import Fit, Search, fit_mixture
from implicitmoments.fitting.spherical.likelihood import Mixture, gather
from implicitmoments.fitting.spherical.rows import Rows, place_rows
from implicitmoments.fitting.spherical.start import Start

__all__ = ["far_groups", "fit_by_scale"]

LINKED = 2_000  # rows among which groups are looked for
JUMP = 500.0  # distance of groups over the largest step inside them: one fit bears less than that
SMALLEST_GROUP = 0.02  # of an equal share of rows
COMPARED = 8_000  # rows of a group on which components are added or merged

Labels: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def fit_by_scale(
    rows: Rows,
    k: int | None,
    most: int,
    model: VarianceModel,
    search: Search,
    rng: np.random.Generator,
) -> Fit:
    """Fit k components, or as many as BIC says up to ``most``; far groups of rows apart."""
    labels = far_groups(rows, most if k is None else k, rng)
    if labels is None and k is None:
        return fit_auto(rows, most, model, search, rng)
    if labels is None:
        return fit_mixture(rows, k or 1, model, search, rng)
    n_groups = int(labels.max()) + 1
    room = (most if k is None else k) - n_groups + 1
    groups = [_group(rows, labels == g) for g in range(n_groups)]
    models = [_rescaled(model, rows, group) for group in groups]
    fits = [
        fit_by_scale(group, None, room, own, search, rng)
        for group, own in zip(groups, models, strict=True)
    ]
    mixtures = [fit.polished.mixture for fit in fits]
    if k is not None:
        mixtures = _to_number(groups, mixtures, models, k, rng)
    return _joined(rows, groups, mixtures, models, fits, search)


def far_groups(rows: Rows, k: int, rng: np.random.Generator) -> Labels | None:
    """Return the group of every row; None if all are one.

    Groups are what single linkage has left before its steps grow fivehundredfold at once.
    """
    if k == 1 or rows.n < 2 * k:
        return None
    sample = rows.sample(LINKED, rng)
    x = np.asarray(sample.X, dtype=np.float64)
    links = linkage(x, method="single")
    heights = links[:, 2]
    last = heights[-(k - 1) :] if k > 1 else heights[-1:]
    inside = np.maximum(np.append(heights[-k : -(k - 1)], last[:-1])[-len(last) :], 0.0)
    jumps = np.flatnonzero(last > JUMP * inside)
    jumps = jumps[inside[jumps] > 0]
    if len(jumps) == 0:
        return None
    cut = 0.5 * (last[jumps[-1]] + inside[jumps[-1]])
    group = fcluster(links, cut, criterion="distance") - 1
    sizes = np.bincount(group)
    if len(sizes) < 2 or sizes.min() < max(2.0, SMALLEST_GROUP * len(x) / k):
        return None
    squares, nearest = np.sum(x**2, axis=1), []
    for points, _ in rows.blocks(len(x)):
        nearest.append((squares - 2 * points @ x.T).argmin(axis=1))
    labels: Labels = group[np.concatenate(nearest)]
    return labels


def _group(rows: Rows, chosen: Labels) -> Rows:
    counts = None if rows.sample_weight is None else rows.sample_weight[chosen]
    return place_rows(rows.X[chosen], counts, rows.block_rows)


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
