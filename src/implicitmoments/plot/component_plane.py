"""Rows and components in two dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t

from implicitmoments.arrays import Floats
from implicitmoments.description import counted
from implicitmoments.picture_data import (
    Densities,
    Directions,
    Integers,
    LinePicture,
    Means,
    RowSample,
)
from implicitmoments.plot import canvas
from implicitmoments.plot.canvas import count_note, frozen_copy, sample_rows
from implicitmoments.plot.labels import label_marks
from implicitmoments.plot.plane import Plane, axis_name, leading_direction, plane_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_DRAWN = 2_000  # drawn: more would cover each other
NUMBERED, WEIGHED = 30, 8  # components that have a number, and a weight beside it
ARROW_REACH = 0.8  # quantile of the rows' distances that the longest arrow reaches


def components(
    model: Any, X: Any, y: Any = None, *, ax: Axes | None = None, max_rows: int = MOST_DRAWN
) -> Axes:
    """Draw rows and components in two dimensions.

    - Means: rows on the two leading principal directions of the means, coloured by component, and
      a circle or ellipse of one standard deviation around each mean; of t distributions it is one
      scale, as for lines.
    - Lines: y against the leading principal direction of the coefficients, less what the other
      directions of each row's line explain, with a band of one standard deviation.
    - Directions of activations: rows on their two leading directions, coloured by y.
    - Densities, which have no components: rows on two directions of their span, coloured by log
      density.

    Parameters
    ----------
    model : fitted estimator
    X : array of shape (n_samples, n_features), or whatever else ``fit`` takes
    y : array of shape (n_samples,), optional
        Labels, for models that are fitted to labels.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure by default.
    max_rows : int, default 2000
        Largest number of rows drawn, a random sample.

    Returns
    -------
    matplotlib.axes.Axes
        Titled with the number of components.

    See Also
    --------
    fit : The model against the rows.
    implicitmoments.report.write_report : One HTML page about a fitted model.

    Examples
    --------
    >>> import implicitmoments as im
    >>> from matplotlib.figure import Figure
    >>> X, _ = im.datasets.make_spherical_mixture(2_000, 3, 4, radius=5.0, random_state=0)
    >>> model = im.SphericalMixture(3, random_state=0).fit(X)
    >>> ax = im.plot.components(model, X, ax=Figure().add_subplot())
    >>> ax.get_title(loc="left").strip()
    '3 components'
    """
    rows = sample_rows(model, X, y, max_rows)
    view = frozen_copy(model)._component_view(rows)
    ax = canvas.axes_for(ax)
    match view:
        case Means():
            _draw_means(view, ax, rows, model.component)
        case LinePicture():
            _draw_lines(view, ax, rows, model.component)
        case Directions():
            _draw_directions(view, ax, rows, model.component)
        case _:
            shift = rows.units.log_volume(model)
            _draw_densities(replace(view, values=view.values - shift), ax, rows)
    return ax


def _draw_means(view: Means, ax: Axes, rows: RowSample, noun: str) -> None:
    note = count_note(rows)
    if rows.x.shape[1] == 1:
        _draw_histogram(view, ax, rows)
        ax.set_xlabel(axis_name(rows, 0, ""))
        ax.set_ylabel("density")
    else:
        draw_groups(mean_map(view, rows), ax, range(len(view.means)))
        shape = "circles" if view.covariances is None else "ellipses"
        note += f"; {shape}: {_width(view.freedom)}"
    canvas.finish(ax, counted(len(view.means), noun), note)


@dataclass(frozen=True, eq=False)
class GroupMap:
    """Rows and components on two axes, in the units of the axes."""

    at: Floats  # (n, 2)
    labels: Integers  # (n,)
    weights: Floats  # (k,)
    marks: Floats  # (k, 2), where the number of a component stands
    curves: list[tuple[Floats, Floats]]  # k rings or lines, each of x and y
    bands: Floats | None  # (k,), half the width of a band along a line
    names: list[str]  # of the axes
    plane: Plane | None = None  # of means


def mean_map(view: Means, rows: RowSample) -> GroupMap:
    """Place means and rows on the two leading principal directions of the means."""
    center = view.weights @ view.means
    spread = np.sqrt(view.weights)[:, None] * (view.means - center)
    plane = plane_of(spread, rows.x - center, rows, "principal direction of the means")
    covariances = view.covariances
    if covariances is None:
        covariances = view.variances[:, None, None] * np.eye(rows.x.shape[1])
    marks = plane.at(view.means)
    rings = _ellipses(marks, plane.shapes(covariances))
    at = plane.at(rows.x)
    return GroupMap(at, view.labels, view.weights, marks, rings, None, plane.names, plane)


def line_map(view: LinePicture, rows: RowSample, column: int | None = None) -> GroupMap:
    """Place lines and rows along one column, or along the direction where slopes differ most."""
    center, coef = rows.x.mean(axis=0), view.coef
    apart = coef - (view.weights @ coef if len(coef) > 1 else 0.0)
    if column is None:
        u = leading_direction(apart, rows.x - center, rows)
    else:
        u = np.eye(rows.x.shape[1])[column]
    # y less what the other directions explain: a_i + b_i · m + (b_i · u) u · (x − m) + noise
    others = coef - np.outer(coef @ u, u)
    along = rows.x @ u
    level = rows.y - np.einsum("nd,nd->n", rows.x - center, others[view.labels])
    ends = np.array([along.min(), along.max()])
    heights = (view.intercept + coef @ center)[:, None] + np.outer(coef @ u, ends - center @ u)
    own, unit = rows.units.axis(u)
    marks = np.column_stack([np.full(len(coef), ends[1] * unit), heights[:, 1]])
    less = "" if len(u) == 1 else ", less the contribution of other directions"
    if len(u) > 1 and own is not None:
        less = ", less the contribution of other columns"
    names = [
        axis_name(rows, own, "leading direction of the coefficients"),
        canvas.plain_text(rows.target) + less,
    ]
    at = np.column_stack([along * unit, level])
    lines = [(ends * unit, height) for height in heights]
    return GroupMap(at, view.labels, view.weights, marks, lines, view.noise, names)


def draw_groups(
    drawn: GroupMap, ax: Axes, shown: Sequence[int], colours: Sequence[int] | None = None
) -> None:
    """Draw the components ``shown``, and rows of others in grey."""
    rest = ~np.isin(drawn.labels, shown)
    if rest.any():
        style: dict[str, Any] = {"ec": canvas.ink(), "alpha": canvas.FAINT, "lw": 1.4}
        canvas.draw_dots(ax, drawn.at[rest], gid="band-rest", **style)
    for place, i in enumerate(shown):
        number = i if colours is None else colours[place]
        own, (x, y) = canvas.colour(number), drawn.curves[i]
        rows: dict[str, Any] = {"color": own, "ms": 2.0, "mew": 0, "label": f"component {i}"}
        at = drawn.at[drawn.labels == i].T
        ax.plot(*at, canvas.marker(number), gid=f"group-{i}", **rows)
        ax.plot(x, y, color=canvas.ink(), lw=2.6, zorder=3, gid=f"group-{i}-outline")
        ax.plot(x, y, color=own, lw=1.4, zorder=4, gid=f"group-{i}-curve")
        if drawn.bands is not None:
            width = drawn.bands[i]
            band: dict[str, Any] = {"color": own, "alpha": 0.15, "lw": 0}
            ax.fill_between(x, y - width, y + width, gid=f"band-group-{i}", **band)
    ax.set_xlabel(drawn.names[0])
    ax.set_ylabel(drawn.names[1])
    if drawn.plane is not None:
        drawn.plane.set_aspect(ax, drawn.at)
    _number(ax, drawn.marks, drawn.weights, shown, colours)


def _draw_lines(view: LinePicture, ax: Axes, rows: RowSample, noun: str) -> None:
    draw_groups(line_map(view, rows), ax, range(len(view.coef)))
    note = f"{count_note(rows)}; bands: {_width(view.freedom)}"
    canvas.finish(ax, counted(len(view.coef), noun), note)


def _width(freedom: float) -> str:
    """Return what a circle, an ellipse or a band shows of the noise."""
    return "one standard deviation" if np.isinf(freedom) else "one scale of the t distribution"


def _draw_directions(view: Directions, ax: Axes, rows: RowSample, noun: str) -> None:
    target, vectors = canvas.plain_text(rows.target), view.vectors
    spread = np.sqrt(np.abs(view.weights))[:, None] * vectors
    plane = plane_of(spread, rows.x - view.center, rows, "principal direction of the network")
    at, center = plane.at(rows.x), plane.at(view.center[None])[0]
    if rows.x.shape[1] == 1:
        at = np.column_stack([at[:, 0], rows.y])
    _colour_by_value(ax, at, rows.y, target)
    note = count_note(rows)
    if rows.x.shape[1] > 1:
        tips = plane.at(vectors)
        longest = max(float(np.linalg.norm(tips, axis=1).max()), np.finfo(np.float64).tiny)
        reach = float(np.quantile(np.linalg.norm(at - center, axis=1), ARROW_REACH))
        tips = center + tips * (reach / longest)
        for tip in tips:
            ax.annotate(
                "", tip, center, arrowprops={"arrowstyle": "-|>", "color": canvas.ink(), "lw": 2}
            )
        plane.set_aspect(ax, at)
        _number(ax, tips, view.weights, range(len(tips)))
        note += "; arrows: directions"
    _name_axes(ax, plane, second=target)
    canvas.finish(ax, counted(len(vectors), noun), note)


def _draw_densities(view: Densities, ax: Axes, rows: RowSample) -> None:
    words = "direction of the expansion"
    plane = plane_of(view.vectors, rows.x - view.center, rows, words)
    what, target = view.what.format(target=rows.target), canvas.plain_text(rows.target)
    at, second = plane.at(rows.x), what
    if view.residuals is not None:  # against the leading direction alone
        u = leading_direction(view.vectors, rows.x - view.center, rows)
        column, unit = rows.units.axis(u)
        at = np.column_stack([rows.x @ u * unit, view.residuals])
        second = f"{target}, less the least-squares line"
        name = [axis_name(rows, column, f"first {words}")]
        plane = Plane(u[None], np.array([unit]), name, [column])
    elif rows.x.shape[1] == 1:
        at = np.column_stack([at[:, 0], view.values])
    _colour_by_value(ax, at, view.values, canvas.plain_text(what))
    _name_axes(ax, plane, second=second)
    canvas.finish(ax, "Rows by log density", count_note(rows))


def _name_axes(ax: Axes, plane: Plane, second: str) -> None:
    ax.set_xlabel(plane.names[0])
    ax.set_ylabel(plane.names[1] if len(plane.names) > 1 else second)


def _colour_by_value(ax: Axes, at: Floats, values: Floats, words: str) -> None:
    low, high = np.quantile(values, [0.01, 0.99])
    style: dict[str, Any] = {"s": 7, "lw": 0, "cmap": canvas.middle_tones()}
    drawn = ax.scatter(at[:, 0], at[:, 1], c=values, vmin=low, vmax=high, **style)
    ax.figure.colorbar(drawn, ax=ax, label=words, extend="both", shrink=0.9, pad=0.02)


def _draw_histogram(view: Means, ax: Axes, rows: RowSample) -> None:
    """Draw stacked histograms of the components, and the density of the mixture."""
    x, means = rows.shown[:, 0], rows.units.points(view.means)[:, 0]
    deviations = rows.units.points(np.sqrt(view.variances)[:, None])[:, 0]
    k = len(view.weights)
    drawn: Any = ax.hist(
        [x[view.labels == i] for i in range(k)],
        bins=canvas.BINS,
        stacked=True,
        density=True,
        color=[canvas.colour(i) for i in range(k)],
        label=[f"component {i}" for i in range(k)],
    )[2]
    for i, bars in enumerate([drawn] if k == 1 else drawn):
        for j, bar in enumerate(bars):
            bar.set_gid(f"group-{i}-bar-{j}")
    at = np.linspace(x.min(), x.max(), 400)
    law = t(view.freedom, means, deviations)  # Gaussian if it is infinite
    density = (view.weights * law.pdf(at[:, None])).sum(axis=1)
    ax.plot(at, density, color=canvas.ink(), lw=1.5, label="the model")
    heights = view.weights * law.pdf(means)
    _number(ax, np.column_stack([means, heights]), view.weights, range(k))


def _ellipses(marks: Floats, covariances: Floats) -> list[tuple[Floats, Floats]]:
    """Return points one standard deviation from each mark, by covariances (k, 2, 2)."""
    turn = np.linspace(0, 2 * np.pi, 73)
    values, vectors = np.linalg.eigh(covariances)
    roots = (vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    rings = marks[:, :, None] + roots @ np.array([np.cos(turn), np.sin(turn)])
    return [(ring[0], ring[1]) for ring in rings]


def _number(
    ax: Axes,
    marks: Floats,
    weights: Floats,
    shown: Sequence[int],
    colours: Sequence[int] | None = None,
) -> None:
    """Label components by number and weight; only crosses if there are many."""
    if len(shown) > NUMBERED:
        ax.plot(*marks.T, "+", color=canvas.ink(), ms=7, mew=1.5, zorder=4)
        return
    words = [f"{i}: {weights[i]:.2g}" if len(weights) <= WEIGHED else str(i) for i in shown]
    own = [canvas.colour(number) for number in (shown if colours is None else colours)]
    label_marks(ax, marks[list(shown)], words, own, [f"group-{i}" for i in shown])
