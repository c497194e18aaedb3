"""Rows and components in two dimensions.

Shapes: n rows of d columns, k components, m axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t

from implicitmoments.arrays import Floats
from implicitmoments.estimator import counted
from implicitmoments.picture_data import (
    Densities,
    Directions,
    Integers,
    LinePicture,
    Means,
    RowSample,
)
from implicitmoments.plot import canvas
from implicitmoments.plot.canvas import count_note, frozen_copy, plain_text, sample_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def components(
    model: Any, X: Any, y: Any = None, *, ax: Axes | None = None, max_rows: int = 2_000
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
        Largest number of rows drawn, a random sample; more would cover each other.

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
    title, note = counted(model._k(), model.component), count_note(rows)
    match view:
        case Means() if rows.x.shape[1] == 1:
            _draw_histogram(view, ax, rows)
        case Means():
            draw_groups(mean_plane(view, rows), ax, range(len(view.means)))
            shape = "circles" if view.covariances is None else "ellipses"
            note += f"; {shape}: {_width(view.freedom)}"
        case LinePicture():
            draw_groups(line_plane(view, rows), ax, range(len(view.coef)))
            note += f"; bands: {_width(view.freedom)}"
        case Directions():
            _draw_directions(view, ax, rows)
            note += "; arrows: directions"
        case _:
            _draw_densities(view, ax, rows)
            title = "Rows by log density"
    canvas.finish(ax, title, note)
    return ax


def _width(freedom: float) -> str:
    """Return what a circle, an ellipse or a band shows of the noise."""
    return "one standard deviation" if np.isinf(freedom) else "one scale of the t distribution"


@dataclass(frozen=True, eq=False)
class GroupPlane:
    """Rows and groups on two axes."""

    at: Floats  # (n, 2)
    labels: Integers  # (n,)
    weights: Floats  # (k,)
    marks: Floats  # (k, 2), where the number of a group stands
    curves: Floats  # (k, 2, m), rings or lines
    names: list[str]  # of the axes
    bands: Floats | None = None  # (k,), half the width of a band along a line


def mean_plane(view: Means, rows: RowSample) -> GroupPlane:
    """Place means and rows on the two leading principal directions of the means."""
    spread = np.sqrt(view.weights)[:, None] * (view.means - view.weights @ view.means)
    directions = leading_directions(spread, rows.x)
    covariances = view.covariances
    if covariances is None:
        covariances = view.variances[:, None, None] * np.eye(rows.x.shape[1])
    marks = view.means @ directions.T
    values, vectors = np.linalg.eigh(directions @ covariances @ directions.T)
    turn = np.linspace(0, 2 * np.pi, 73)
    axes = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    rings = marks[:, :, None] + axes @ np.array([np.cos(turn), np.sin(turn)])
    names = axis_names(rows, "principal direction of the means")
    return GroupPlane(rows.x @ directions.T, view.labels, view.weights, marks, rings, names)


def line_plane(view: LinePicture, rows: RowSample, column: int | None = None) -> GroupPlane:
    """Place lines and rows along one column, or along the direction where slopes differ most."""
    center, coef = rows.x.mean(axis=0), view.coef
    apart = coef - (view.weights @ coef if len(coef) > 1 else 0.0)
    if column is None:
        u = leading_directions(apart, rows.x, most=1)[0]
        name = axis_names(rows, "direction of the coefficients", most=1)[0]
    else:
        u, name = np.eye(len(center))[column], plain_text(rows.column_names[column])
    # y less what the other directions explain: a_i + b_i · m + (b_i · u) u · (x − m) + noise
    others, along = coef - np.outer(coef @ u, u), rows.x @ u
    level = rows.y - np.sum((rows.x - center) * others[view.labels], axis=1)
    ends = np.array([along.min(), along.max()])
    heights = (view.intercept + coef @ center)[:, None] + np.outer(coef @ u, ends - center @ u)
    lines = np.stack([np.broadcast_to(ends, heights.shape), heights], axis=1)
    less = "" if len(u) == 1 else ", less the contribution of other directions"
    names = [name, plain_text(rows.target) + less]
    at = np.column_stack([along, level])
    return GroupPlane(at, view.labels, view.weights, lines[:, :, 1], lines, names, view.noise)


def leading_directions(vectors: Floats, x: Floats, most: int = 2) -> Floats:
    """Return orthonormal directions, (m, d): the leading ones of vectors, and then of rows x."""
    d = x.shape[1]
    if d <= most:
        return np.eye(d)
    centred = x - x.mean(axis=0)
    beside = 1e-6  # weight of rows beside vectors, whose directions come first
    stack = [_scaled(vectors), beside * _scaled(centred), beside**2 * np.eye(d)]
    directions = np.linalg.svd(np.vstack(stack), full_matrices=False)[2][:most]
    # signs are arbitrary: the largest entry is positive, so that pictures do not flip
    largest = np.abs(directions).argmax(axis=1)
    signed: Floats = directions * np.sign(directions[np.arange(most), largest])[:, None]
    return signed


def _scaled(vectors: Floats) -> Floats:
    scaled: Floats = vectors / max(float(np.linalg.norm(vectors)), np.finfo(np.float64).tiny)
    return scaled


def axis_names(rows: RowSample, words: str, most: int = 2) -> list[str]:
    """Return the names of columns if there are at most ``most``, or words for directions."""
    if rows.x.shape[1] <= most:
        return [plain_text(name) for name in rows.column_names]
    return [f"{nth} {words}" for nth in ("first", "second")]


def draw_groups(
    plane: GroupPlane, ax: Axes, shown: Sequence[int], colours: Sequence[str] | None = None
) -> None:
    """Draw the components ``shown``, and rows of others in grey."""
    colours = [canvas.colour(i) for i in shown] if colours is None else colours
    rest = ~np.isin(plane.labels, shown)
    grey: Any = {"color": canvas.ink(), "alpha": canvas.FAINT, "rasterized": True}
    canvas.draw_rows(ax, plane.at[rest], gid="rest", **grey)
    for i, own in zip(shown, colours, strict=True):
        gid, (x, y) = f"group-{i}-", plane.curves[i]
        at = plane.at[plane.labels == i]
        canvas.draw_rows(ax, at, color=own, label=f"component {i}", gid=f"{gid}rows")
        ax.plot(x, y, color=own, lw=1.8, gid=f"{gid}curve")
        if plane.bands is not None:
            band: Any = {"color": own, "alpha": 0.15, "lw": 0, "gid": f"{gid}band"}
            ax.fill_between(x, y - plane.bands[i], y + plane.bands[i], **band)
    ax.set(xlabel=plane.names[0], ylabel=plane.names[1])
    if plane.bands is None:
        _set_aspect(ax, plane.at)
    _number(ax, plane.marks, plane.weights, shown, colours)


def _set_aspect(ax: Axes, at: Floats) -> None:
    """Use one unit for both axes unless their spread differs by more than a factor of 4."""
    spread = np.ptp(at, axis=0)
    if spread.max() <= 4 * spread.min():
        ax.set_aspect("equal", adjustable="datalim")


def _number(
    ax: Axes, marks: Floats, weights: Floats, shown: Sequence[int], colours: Sequence[str]
) -> None:
    """Label components by number and weight; only crosses if there are more than 30."""
    if len(shown) > 30:
        ax.plot(*marks.T, "+", color=canvas.ink(), ms=7, mew=1.5)
        return
    for i, own in zip(shown, colours, strict=True):
        words = f"{i}: {weights[i]:.2g}" if len(weights) <= 8 else str(i)
        box = {"boxstyle": "round,pad=0.2", "fc": ax.get_facecolor(), "ec": own}
        style: Any = {"ha": "center", "va": "center", "fontsize": "x-small", "bbox": box}
        ax.text(marks[i, 0], marks[i, 1], words, gid=f"group-{i}-number", **style)


def _draw_histogram(view: Means, ax: Axes, rows: RowSample) -> None:
    """Draw stacked histograms of the components, and the density of the mixture."""
    x, means, groups = rows.x[:, 0], view.means[:, 0], range(len(view.weights))
    colours = [canvas.colour(i) for i in groups]
    ax.hist(
        [x[view.labels == i] for i in groups],
        bins=canvas.BINS,
        stacked=True,
        density=True,
        color=colours,
        label=[f"component {i}" for i in groups],
    )
    law = t(view.freedom, means, np.sqrt(view.variances))  # Gaussian if it is infinite
    at = np.linspace(x.min(), x.max(), 400)
    density = (view.weights * law.pdf(at[:, None])).sum(axis=1)
    ax.plot(at, density, color=canvas.ink(), lw=1.5, label="the model")
    marks = np.column_stack([means, view.weights * law.pdf(means)])
    _number(ax, marks, view.weights, groups, colours)
    ax.set_xlabel(plain_text(rows.column_names[0]))
    ax.set_ylabel("density")


def _draw_directions(view: Directions, ax: Axes, rows: RowSample) -> None:
    spread = np.sqrt(np.abs(view.weights))[:, None] * view.vectors
    directions = leading_directions(spread, rows.x)
    names = axis_names(rows, "principal direction of the network")
    at, center = rows.x @ directions.T, directions @ view.center
    if len(directions) == 1:
        at, names = np.column_stack([at, rows.y]), [*names, plain_text(rows.target)]
    else:
        tips = view.vectors @ directions.T
        # the longest arrow reaches beyond four rows in five
        reach = np.quantile(np.linalg.norm(at - center, axis=1), 0.8)
        tips = center + reach * tips / max(float(np.linalg.norm(tips, axis=1).max()), 1e-300)
        for tip in tips:
            arrow = {"arrowstyle": "-|>", "lw": 2, "color": canvas.ink()}
            ax.annotate("", tuple(tip), tuple(center), arrowprops=arrow)
        _set_aspect(ax, at)
        every = range(len(tips))
        _number(ax, tips, view.weights, every, [canvas.colour(i) for i in every])
    _colour_by_value(ax, at, rows.y, plain_text(rows.target), names)


def _draw_densities(view: Densities, ax: Axes, rows: RowSample) -> None:
    target, what = plain_text(rows.target), view.what.format(target=plain_text(rows.target))
    most = 2 if view.residuals is None else 1
    at = rows.x @ leading_directions(view.vectors, rows.x, most).T
    names = axis_names(rows, "direction of the expansion", most)[: at.shape[1]]
    if view.residuals is not None:  # against the leading direction alone
        at = np.column_stack([at, view.residuals])
        names.append(f"{target}, less the least-squares line")
    elif at.shape[1] == 1:
        at, names = np.column_stack([at, view.values]), [*names, what]
    _colour_by_value(ax, at, view.values, what, names)


def _colour_by_value(ax: Axes, at: Floats, values: Floats, words: str, names: list[str]) -> None:
    low, high = np.quantile(values, [0.01, 0.99])
    style: Any = {"s": 7, "lw": 0, "cmap": canvas.tones(), "vmin": low, "vmax": high}
    drawn = ax.scatter(at[:, 0], at[:, 1], c=values, **style)
    ax.figure.colorbar(drawn, ax=ax, label=words, extend="both", shrink=0.9, pad=0.02)
    ax.set(xlabel=names[0], ylabel=names[1])
