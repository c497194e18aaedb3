"""Pictures of groups: a few in each panel, columns by group, the nearest pairs, and lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.picture_data import LinePicture
from implicitmoments.plot import canvas
from implicitmoments.plot.canvas import PALETTE, count_note, plain_text
from implicitmoments.plot.component_plane import (
    GroupPlane,
    draw_groups,
    line_plane,
    mean_plane,
)
from implicitmoments.plot.groups import Groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = len(PALETTE)  # groups in one picture: one colour each
PAIRS = 6  # nearest pairs that are drawn
VIOLINS = 12  # groups up to which densities are drawn beside boxes; more would be thin lines


def group_plane(groups: Groups) -> GroupPlane:
    """Place rows and groups on two axes."""
    if isinstance(groups.view, LinePicture):
        return line_plane(groups.view, groups.rows)
    return mean_plane(groups.view, groups.rows)


def panels(groups: Groups) -> list[list[int]]:
    """Return the groups of each panel, the largest first."""
    return [groups.largest[i : i + PANEL] for i in range(0, len(groups.largest), PANEL)]


def draw_panel(groups: Groups, plane: GroupPlane, shown: Sequence[int], ax: Axes) -> None:
    """Draw a few groups before all rows in grey."""
    draw_groups(plane, ax, shown, [groups.colour(i) for i in shown])
    first = groups.order.index(shown[0]) + 1
    title = f"{groups.noun}s {first} to {first + len(shown) - 1} by size"
    share = f"{groups.shares[list(shown)].sum():.0%} of the rows"
    canvas.finish(ax, title, f"{share}; {count_note(groups.rows)}")


def draw_line_column(groups: Groups, column: int, ax: Axes) -> None:
    """Draw the largest lines against one column, and rows of the others in grey."""
    shown = groups.order[:PANEL]
    plane = line_plane(groups.view, groups.rows, column)  # type: ignore[arg-type]
    draw_groups(plane, ax, shown, [groups.colour(i) for i in shown])
    more = f"; the {PANEL} largest of {groups.k} lines" if groups.k > PANEL else ""
    canvas.finish(ax, f"Lines against {plane.names[0]}", count_note(groups.rows) + more)


def draw_column(groups: Groups, column: int, ax: Axes) -> None:
    """Draw a column by group, the largest group at the top: a box, and its density if few."""
    name = groups.names[column]
    _draw_by_group(groups, groups.values[:, column], ax)
    short = name if len(name) <= 24 else name[:23] + "…"  # a title has one line
    ax.set_xlabel(plain_text(short))
    canvas.finish(ax, plain_text(short), count_note(groups.rows))


def draw_residuals(groups: Groups, ax: Axes) -> None:
    """Draw the residuals of each line, in deviations of its noise."""
    _draw_by_group(groups, groups.residuals, ax)
    ax.axvline(0, color=canvas.ink(), lw=0.8)
    ax.set_xlabel(f"{plain_text(groups.rows.target)} less its line (σ of the noise)")
    canvas.finish(ax, "Residuals by line", count_note(groups.rows))


def _draw_by_group(groups: Groups, values: Floats, ax: Axes) -> None:
    low, high = canvas.inner_range(values)
    few, along = groups.k <= VIOLINS, {"orientation": "horizontal"}
    shape: Any = {"widths": 0.85, "points": 40, "showextrema": False, **along}
    box: Any = {"widths": 0.25 if few else 0.5, "whis": (5, 95), "showfliers": False, **along}
    box |= {"showcaps": False, "medianprops": {"color": canvas.ink(), "lw": 1.6}}
    for place, i in enumerate(groups.largest):
        values_of, colour = values[groups.labels == i], groups.colour(i)
        if few and len(values_of):
            violin: Any = ax.violinplot([np.clip(values_of, low, high)], [-place], **shape)
            body = violin["bodies"][0]
            body.set(color=colour, alpha=canvas.FAINT, gid=f"group-{i}-density")
        box |= {part: {"color": colour} for part in ("boxprops", "whiskerprops")}
        for lines in ax.boxplot([values_of], positions=[-place], **box).values():
            for line in lines:
                line.set_gid(f"group-{i}-box")
    shares = [f" ({groups.shares[i]:.0%})" if few else "" for i in groups.largest]
    names = [f"{i}{share}" for i, share in zip(groups.largest, shares, strict=True)]
    size = "medium" if few else "x-small"
    ax.set_yticks([-place for place in range(len(names))], names, fontsize=size)
    ax.set(xlim=canvas.widened(low, high), ylim=(0.4 - len(names), 0.6))
    ax.set_ylabel(f"{groups.noun}, by size")


def draw_pairs(groups: Groups, figure: Figure) -> None:
    """Draw the nearest pairs of groups along the direction that separates each pair."""
    pairs = groups.nearest_pairs[:PAIRS]
    columns = min(2, len(pairs))
    axes = figure.subplots(-(-len(pairs) // columns), columns, squeeze=False).flat
    for ax, (distance, i, j) in zip(axes, pairs, strict=False):
        _draw_pair(groups, i, j, ax)
        canvas.finish(ax, f"{i} and {j}: {distance:.1f} deviations apart")
    for ax in axes[len(pairs) :]:
        ax.set_visible(False)
    figure.supxlabel("position between the two means, at 0 and 1", fontsize="medium")


def _draw_pair(groups: Groups, i: int, j: int, ax: Axes) -> None:
    """Draw histograms of two groups; places of their means are 0 and 1."""
    w, means = groups.separating(i, j), groups.means
    gap = float((means[j] - means[i]) @ w) or 1.0
    ends = (-1.5, 2.5)  # rows beyond are in the first and last bin
    for group, style in ((i, "-"), (j, "--")):
        place = (groups.rows.x[groups.labels == group] - means[i]) @ w / gap
        bins: Any = {"histtype": "step", "range": ends, "bins": canvas.BINS // 2, "lw": 1.6}
        bins |= {"color": groups.colour(group), "ls": style, "label": str(group)}
        ax.hist(np.clip(place, *ends), gid=f"group-{group}-pair", **bins)
    ax.set_yticks([])
    ax.legend(fontsize="small", frameon=False)
