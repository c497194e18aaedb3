"""Labels that do not cover one another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from implicitmoments.arrays import Floats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

STEPS = 8  # half labels by which a label is moved at most, along each axis
PADDING = 0.6  # of the height of a text: its frame, and a gap between two labels
OUTWARDS = 0.01  # of the distance from the centre, by which of two places the outer one is nearer


def free_places(marks: Floats, sizes: Floats, frame: Floats) -> Floats:
    """Return centres of labels near their marks, (k, 2), so that none covers another.

    One after another, each at the nearest place that is free, and of two such places at the one
    further from the centre of all marks. A label that finds none stays at its mark.

    Parameters
    ----------
    marks : array of shape (k, 2)
    sizes : array of shape (k, 2)
        Widths and heights of the labels.
    frame : array of shape (2, 2)
        Lower left and upper right corner, between which labels are moved.

    Examples
    --------
    >>> marks, sizes = np.zeros((2, 2)), np.full((2, 2), [4.0, 2.0])
    >>> free_places(marks, sizes, np.array([[-9.0, -9.0], [9.0, 9.0]]))[1].tolist()
    [0.0, -2.0]
    """
    steps = np.arange(-STEPS, STEPS + 1) / 2
    grid = np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1).reshape(-1, 2)
    center, places = marks.mean(axis=0), marks.copy()
    for i, (mark, size) in enumerate(zip(marks, sizes, strict=True)):
        tried = mark + grid * size
        inside = np.all((tried >= frame[0] + size / 2) & (tried <= frame[1] - size / 2), axis=1)
        apart = np.abs(tried[:, None] - places[:i]) >= (size + sizes[:i]) / 2  # (m, i, 2)
        at_mark = np.all(grid == 0, axis=1)
        free = np.all(np.any(apart, axis=2), axis=1) & (inside | at_mark)
        if free.any():
            away = np.linalg.norm(tried - mark, axis=1)
            away -= OUTWARDS * np.linalg.norm(tried - center, axis=1)
            places[i] = tried[free][np.argmin(away[free])]
    return places


def label_marks(
    ax: Axes, marks: Floats, words: Sequence[str], colours: Sequence[str], gids: Sequence[str]
) -> None:
    """Write words in frames at marks, (k, 2), or beside them with a line to the mark."""
    from matplotlib.text import Text  # noqa: PLC0415 (an extra: only pictures need it)

    style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": "x-small", "zorder": 5}
    labels = []
    for mark, text, colour, gid in zip(marks, words, colours, gids, strict=True):
        box = {"boxstyle": "round,pad=0.2", "fc": ax.get_facecolor(), "lw": 1, "ec": colour}
        line = {"arrowstyle": "-", "color": colour, "lw": 1, "shrinkA": 0, "shrinkB": 0}
        label: Any = ax.annotate(
            text, mark, mark, bbox=box, arrowprops=line, gid=f"{gid}-number", **style
        )
        label.arrow_patch.set_gid(f"{gid}-line")
        labels.append(label)
    ax.autoscale_view()
    ax.apply_aspect()  # the scales that the picture will have
    extents = [Text.get_window_extent(label) for label in labels]
    sizes = np.array([[each.width, each.height] for each in extents])
    sizes += PADDING * sizes[:, 1:]
    at = ax.transData.transform(marks)
    places = free_places(at, sizes, ax.bbox.get_points())
    moved, in_data = np.any(places != at, axis=1), ax.transData.inverted().transform(places)
    for label, place, away in zip(labels, in_data, moved, strict=True):
        label.arrow_patch.set_visible(bool(away))
        if away:
            label.set_position(place)
