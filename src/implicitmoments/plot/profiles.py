"""How columns, and residuals, are distributed within groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.plot import canvas
from implicitmoments.plot.canvas import count_note
from implicitmoments.plot.groups import Groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VIOLINS = 12  # groups up to which densities are drawn beside boxes; more would be thin lines
POINTS = 40  # of the outline of a density
FEWEST = 8  # rows of a group, from which its density is drawn
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)  # whiskers, box and median
INNER = (0.002, 0.998)  # quantiles of all rows between which the axis runs
LARGEST_NAME = 24  # letters of a name on an axis


def quantiles(groups: Groups, column: int) -> Floats:
    """Return the whiskers, the box and the median of a column in each group, (k, 5)."""
    return np.array(
        [_quantiles(groups.values[groups.labels == i, column]) for i in range(groups.k)]
    )


def _quantiles(values: Floats) -> Floats:
    if not len(values):
        return np.full(len(QUANTILES), np.nan)
    return np.asarray(np.quantile(values, QUANTILES))


def draw_column(groups: Groups, column: int, ax: Axes) -> None:
    """Draw a column by group, the largest group at the top: a box, and its density if few."""
    values, name = groups.values[:, column], groups.names[column]
    _draw_rows_of(groups, values, ax)
    ax.set_xlabel(canvas.plain_text(name))
    short = name if len(name) <= LARGEST_NAME else name[: LARGEST_NAME - 1] + "…"
    canvas.finish(ax, canvas.plain_text(short), count_note(groups.rows))


def draw_residuals(groups: Groups, ax: Axes) -> None:
    """Draw the residuals of each line, in deviations of its noise."""
    _draw_rows_of(groups, groups.residuals, ax)
    ax.axvline(0, color=canvas.ink(), lw=0.8)
    target = canvas.plain_text(groups.rows.target)
    ax.set_xlabel(f"{target} less its line (σ of the noise)")
    canvas.finish(ax, "Residuals by line", count_note(groups.rows))


def _draw_rows_of(groups: Groups, values: Floats, ax: Axes) -> None:
    low, high = np.quantile(values, INNER)
    low, high = (low, high) if high > low else (low - 0.5, high + 0.5)
    for place, i in enumerate(groups.largest):
        own = values[groups.labels == i]
        if len(own):
            _draw_group(ax, own, groups, i, -float(place), (low, high))
    ticks = [-float(place) for place in range(len(groups.largest))]
    ax.set_yticks(ticks, [group_label(groups, i) for i in groups.largest])
    ax.set_ylim(0.4 - len(groups.largest), 0.6)
    ax.set_xlim(low - 0.02 * (high - low), high + 0.02 * (high - low))
    if groups.k > VIOLINS:
        ax.tick_params(axis="y", labelsize="x-small")
    ax.set_ylabel(f"{groups.noun}, by size")


def group_label(groups: Groups, group: int) -> str:
    """Return the number of a group, and its share where there is room."""
    share = f" ({groups.shares[group]:.0%})" if groups.k <= VIOLINS else ""
    return f"{group}{share}"


def _draw_group(
    ax: Axes, own: Floats, groups: Groups, i: int, at: float, ends: tuple[float, float]
) -> None:
    colour, many = canvas.colour(groups.colour(i)), groups.k > VIOLINS
    if not many and len(own) >= FEWEST and np.ptp(own) > 0:
        grid, density = _density(own, *ends)
        height = 0.42 * density / density.max()
        style: dict[str, Any] = {"color": colour, "alpha": canvas.FAINT, "lw": 0}
        ax.fill_between(grid, at - height, at + height, gid=f"band-group-{i}", **style)
        for side in (1, -1):
            gid = f"group-{i}-density{side}"
            ax.plot(grid, at + side * height, color=colour, lw=0.9, gid=gid)
    least, lower, middle, upper, most = _quantiles(own)
    width = 4.0 if many else 6.0
    ax.plot([least, most], [at, at], color=colour, lw=1.2, gid=f"group-{i}-whisker")
    box: dict[str, Any] = {"color": colour, "lw": width, "solid_capstyle": "butt"}
    ax.plot([lower, upper], [at, at], gid=f"group-{i}-box", **box)
    mark: dict[str, Any] = {"color": canvas.ink(), "ms": width + 2, "mew": 1.6}
    ax.plot([middle], [at], "|", gid=f"group-{i}-median", **mark)


def _density(own: Floats, low: float, high: float) -> tuple[Floats, Floats]:
    """Return a density estimate between two ends: Gaussian kernels, by Silverman's rule."""
    middle = np.subtract(*np.quantile(own, [0.75, 0.25])) / 1.34  # of a Gaussian, its deviation
    spread = min(float(own.std()), float(middle)) or float(own.std())
    width = 0.9 * spread * len(own) ** -0.2
    inner = own[(own >= low - 3 * width) & (own <= high + 3 * width)]
    grid = np.linspace(
        max(low, inner.min() - 2 * width), min(high, inner.max() + 2 * width), POINTS
    )
    density = np.exp(-0.5 * ((grid[:, None] - inner) / width) ** 2).mean(axis=1)
    return grid, np.maximum(density, 1e-12)
