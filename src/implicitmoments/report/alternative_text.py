"""What each figure shows, in words and numbers: its text alternative."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from implicitmoments.description import counted
from implicitmoments.estimator import FittedEstimator
from implicitmoments.picture_data import (
    Choice,
    Distribution,
    NoPictureError,
    Predictions,
    RowSample,
)
from implicitmoments.plot.canvas import frozen_copy
from implicitmoments.plot.fit_statistics import step_history
from implicitmoments.plot.groups import Groups
from implicitmoments.plot.profiles import quantiles
from implicitmoments.report.group_tables import number

LISTED = 6  # groups, or numbers, that are told one by one


def describe_components(
    model: FittedEstimator,
    rows: RowSample,
    groups: Groups | None,
    shown: Sequence[int] | None = None,
) -> str:
    """Tell the sizes of groups and what they are like: those shown, or the largest."""
    if groups is None:
        x = rows.shown
        parts = [
            f"{name} from {number(column.min())} to {number(column.max())}"
            for name, column in zip(rows.column_names[:LISTED], x.T, strict=False)
        ]
        return f"{counted(len(x), 'row')}: {', '.join(parts)}."
    told = [
        f"{groups.noun} {i}, {groups.shares[i]:.1%} of the rows, {_mean_words(groups, i)}"
        for i in (groups.order if shown is None else shown)[:LISTED]
    ]
    return f"{counted(groups.k, model.component)}, of which {'; '.join(told)}."


def _mean_words(groups: Groups, i: int) -> str:
    parts = [f"{groups.names[j]} {number(groups.means[i, j])}" for j in groups.telling[:2]]
    return "mean " + " and ".join(parts)


def describe_column(groups: Groups, column: int) -> str:
    """Tell the median and the middle half of a column in each group."""
    found = quantiles(groups, column)
    parts = (
        f"{groups.noun} {i} median {number(found[i, 2])}, middle half {number(found[i, 1])} to "
        f"{number(found[i, 3])}"
        for i in groups.order[:LISTED]
    )
    return f"{groups.names[column]} by {groups.noun}, the largest first: {_joined(parts, groups)}."


def describe_lines(groups: Groups, column: int) -> str:
    """Tell the slope of each line along one column."""
    slopes = groups.rows.units.slopes(groups.view.coef)[:, column]  # type: ignore[union-attr]
    name, target = groups.names[column], groups.rows.target
    parts = (f"line {i} {number(slopes[i])}" for i in groups.order[:LISTED])
    return f"Change of {target} for one unit of {name}: {_joined(parts, groups)}."


def describe_residuals(groups: Groups) -> str:
    """Tell the median and the spread of the residuals of each line."""
    parts = []
    for i in groups.order[:LISTED]:
        own = groups.residuals[groups.labels == i]
        if len(own):
            low, middle, high = np.quantile(own, [0.25, 0.5, 0.75])
            parts.append(
                f"line {i} median {number(middle)}, middle half {number(low)} to {number(high)}"
            )
    return f"Residuals in deviations of the noise: {_joined(parts, groups)}."


def describe_pairs(groups: Groups, most: int) -> str:
    """Tell how far apart the nearest pairs are."""
    parts = (f"{i} and {j} {groups.distances[i, j]:.1f}" for i, j in groups.nearest_pairs(most))
    return f"Nearest pairs, in standard deviations apart: {', '.join(parts)}."


def describe_fit(model: Any, rows: RowSample) -> str:
    """Tell the middle of the two distributions, or how well labels are predicted."""
    try:
        view = frozen_copy(model)._fit_view(rows)
    except NoPictureError:
        return ""
    if isinstance(view, Predictions):
        share = 1 - np.var(rows.y - view.values) / max(float(np.var(rows.y)), 1e-300)
        return f"R² {share:.4f} on {counted(len(rows.y), 'row')}."
    view = view.shifted(rows.units.log_volume(model))
    told = _spread_words("rows", view.rows)
    if view.drawn is not None:
        told += f"; {_spread_words('drawn from the model', view.drawn)}"
    return f"{view.axis}: {told}{_law_words(view)}."


def _law_words(view: Distribution) -> str:
    return "" if view.law is None else "; the curve is what the model expects"


def _spread_words(what: str, values: Any) -> str:
    low, middle, high = np.quantile(values[np.isfinite(values)], [0.25, 0.5, 0.75])
    return f"{what}, median {number(middle)}, middle half {number(low)} to {number(high)}"


def describe_choice(choice: Choice) -> str:
    """Tell which number has the least BIC, and how much higher others are."""
    told = ", ".join(
        f"{k}: {number(above)}" for k, above in sorted(choice.above.items())[: 3 * LISTED]
    )
    within = "" if choice.within is None else f" Smallest within noise of it: {choice.within}."
    return f"BIC is least with {counted(choice.least, 'component')}.{within} Above it: {told}."


def describe_spectra(model: Any) -> str:
    """Tell how many eigenvalues were kept, and where the noise is."""
    stats, parts = model.stats_, []
    if "ranks" not in stats:
        return ""
    columns = (stats[name] for name in ("moment_orders", "spectra", "noise_floor", "ranks"))
    for order, every, floor, rank in zip(*columns, strict=True):
        values = np.asarray(every)
        told = f"order {order}: {rank} kept of {len(values)}"
        if rank and len(values):
            told += f", from {number(values[0])} down to {number(values[rank - 1])}"
        if len(values) > rank:
            told += f", the next {number(values[rank])}"
        parts.append(told + (f", noise {number(floor)}" if floor > 0 else ""))
    return "; ".join(parts) + "."


def describe_steps(model: Any) -> str:
    """Tell where the steps began and ended."""
    history = step_history(model)
    steps = model.stats_[history] if history is not None else []
    if isinstance(steps, dict):
        return ", ".join(f"degree {n}: {number(steps[n])}" for n in sorted(steps)) + "."
    return f"{counted(len(steps), 'step')}, from {number(steps[0])} to {number(steps[-1])}."


def _joined(parts: Iterable[str], groups: Groups) -> str:
    told = list(parts)
    more = groups.k - len(told)
    return "; ".join(told) + (f"; and {more} smaller" if more > 0 else "")
