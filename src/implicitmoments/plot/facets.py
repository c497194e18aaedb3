"""Many groups in small pictures: a few in each, the nearest pairs, and one column at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.picture_data import LinePicture
from implicitmoments.plot import canvas
from implicitmoments.plot.component_plane import GroupMap, draw_groups, line_map, mean_map
from implicitmoments.plot.groups import Groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PER_FACET = len(canvas.PALETTE)  # groups in one panel: one colour each
PAIRS = 6  # nearest pairs that are drawn
BETWEEN = (-1.5, 2.5)  # of a pair whose means are at 0 and 1; rows beyond are at the ends


def is_faceted(groups: Groups) -> bool:
    """Say whether groups are too many for the colours of one picture, and are on a plane."""
    return groups.k > PER_FACET and groups.rows.x.shape[1] > 1


def n_panels(groups: Groups) -> int:
    """Return the number of small pictures that show all groups."""
    return -(-len(groups.largest) // PER_FACET)


def map_of(groups: Groups) -> GroupMap:
    """Place rows and groups on two axes."""
    if isinstance(groups.view, LinePicture):
        return line_map(groups.view, groups.rows)
    return mean_map(groups.view, groups.rows)


def panel_groups(groups: Groups, panel: int) -> list[int]:
    """Return the groups of one panel: the next ones by size."""
    return groups.largest[panel * PER_FACET : (panel + 1) * PER_FACET]


def draw_panel(groups: Groups, drawn: GroupMap, panel: int, ax: Axes) -> None:
    """Draw a few groups before all rows in grey."""
    shown = panel_groups(groups, panel)
    draw_groups(drawn, ax, shown, [groups.colour(i) for i in shown])
    first = panel * PER_FACET + 1
    title = f"{groups.noun}s {first} to {first + len(shown) - 1} by size"
    share = f"{groups.shares[shown].sum():.0%} of the rows"
    canvas.finish(ax, title, f"{share}; {canvas.count_note(groups.rows)}")


def draw_pairs(groups: Groups, figure: Figure) -> None:
    """Draw the nearest pairs of groups along the direction that separates each pair."""
    pairs = groups.nearest_pairs(PAIRS)
    columns = min(2, len(pairs))
    axes = figure.subplots(-(-len(pairs) // columns), columns, squeeze=False)
    for ax in axes.flat[len(pairs) :]:
        ax.set_visible(False)
    for ax, (i, j) in zip(axes.flat, pairs, strict=False):
        _draw_pair(groups, i, j, ax)
    figure.supxlabel("place between the two (0 and 1: the two means)", fontsize="medium")


def _draw_pair(groups: Groups, i: int, j: int, ax: Axes) -> None:
    """Draw histograms of two groups; places of their means are 0 and 1."""
    for group, place in zip((i, j), _places(groups, i, j), strict=True):
        number = groups.colour(group)
        if group == j and canvas.colour(number) == canvas.colour(groups.colour(i)):
            number += 1  # two groups beside each other never have one colour
        style: dict[str, Any] = {"histtype": "step", "lw": 1.6, "range": BETWEEN}
        style |= {"bins": canvas.BINS // 2, "color": canvas.colour(number), "label": str(group)}
        drawn: Any = ax.hist(np.clip(place, *BETWEEN), **style)[2]
        drawn[0].set_gid(f"group-{group}-pair-{i}-{j}")
    ax.set_yticks([])
    ax.legend(loc="upper right", fontsize="small", frameon=False, borderpad=0, handlelength=1)
    canvas.finish(ax, f"{i} and {j}: {groups.distances[i, j]:.1f} deviations apart")


def _places(groups: Groups, i: int, j: int) -> tuple[Floats, Floats]:
    """Return where rows of two groups are between the two means."""
    view = groups.view
    w = groups.separating(i, j)
    ends = view.means[[i, j]] @ w  # type: ignore[union-attr]
    gap = float(ends[1] - ends[0]) or 1.0
    places = (groups.rows.x @ w - ends[0]) / gap
    return places[groups.labels == i], places[groups.labels == j]


def draw_line_column(groups: Groups, column: int, ax: Axes) -> None:
    """Draw the largest lines against one column, and rows of the others in grey."""
    if not isinstance(groups.view, LinePicture):
        raise TypeError("only lines are drawn against a column")
    shown = groups.order[:PER_FACET]
    drawn = line_map(groups.view, groups.rows, column)
    draw_groups(drawn, ax, shown, [groups.colour(i) for i in shown])
    note = canvas.count_note(groups.rows)
    if groups.k > len(shown):
        note += f"; the {len(shown)} largest of {groups.k} lines"
    canvas.finish(ax, f"Lines against {drawn.names[0]}", note)
