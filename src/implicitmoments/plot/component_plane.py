"""Rows and components in two dimensions."""

from __future__ import annotations

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

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_DRAWN = 2_000  # drawn: more would cover each other
NUMBERED, WEIGHED = 30, 8  # components that have a number, and a weight beside it
RANK_TOL = 1e-9  # of the largest singular value
ALONG_AN_AXIS = 0.99  # cosine from which a direction is called by the name of its column
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
            _draw_densities(view, ax, rows)
    return ax


def _draw_means(view: Means, ax: Axes, rows: RowSample, noun: str) -> None:
    center = view.weights @ view.means
    spread = np.sqrt(view.weights)[:, None] * (view.means - center)
    plane = _leading_plane(spread, rows.x - center)
    note = count_note(rows)
    if len(plane) == 1:
        _draw_histogram(view, ax, rows.x[:, 0])
    else:
        marks = view.means @ plane.T
        shapes = view.variances[:, None, None] * np.eye(2)
        if view.covariances is not None:
            shapes = plane @ view.covariances @ plane.T
        _draw_ellipses(ax, marks, shapes)
        _draw_rows(ax, rows.x @ plane.T, view.labels, len(marks))
        _number(ax, marks, view.weights)
        ax.set_aspect("equal", adjustable="datalim")
        shape = "circles" if view.covariances is None else "ellipses"
        note += f"; {shape}: {_width(view.freedom)}"
    _name_axes(ax, rows, plane, "principal direction of the means", second="density")
    canvas.finish(ax, counted(len(view.means), noun), note)


def _draw_lines(view: LinePicture, ax: Axes, rows: RowSample, noun: str) -> None:
    center, coef = rows.x.mean(axis=0), view.coef
    apart = coef - (view.weights @ coef if len(coef) > 1 else 0.0)
    u = _leading_plane(apart, rows.x - center)[0]
    # y less what the other directions explain: a_i + b_i · m + (b_i · u) u · (x − m) + noise
    others = coef - np.outer(coef @ u, u)
    along = rows.x @ u
    level = rows.y - np.einsum("nd,nd->n", rows.x - center, others[view.labels])
    _draw_rows(ax, np.column_stack([along, level]), view.labels, len(coef))
    ends = np.array([along.min(), along.max()])
    tops = []
    for i, (b, a, s) in enumerate(zip(coef, view.intercept, view.noise, strict=True)):
        line = a + b @ center + (b @ u) * (ends - center @ u)
        ax.plot(ends, line, color=canvas.ink(), lw=2.4, alpha=0.6, zorder=3)
        ax.plot(ends, line, color=canvas.colour(i), lw=1.4, zorder=4)
        ax.fill_between(ends, line - s, line + s, color=canvas.colour(i), alpha=0.15, lw=0)
        tops.append((ends[1], line[1]))
    _number(ax, np.array(tops), view.weights)
    ax.set_xlabel(_axis_name(u, rows.names, "leading direction of the coefficients"))
    less = "" if len(u) == 1 else ", less the contribution of other directions"
    ax.set_ylabel(canvas.plain_text(rows.target) + less)
    note = f"{count_note(rows)}; bands: {_width(view.freedom)}"
    canvas.finish(ax, counted(len(coef), noun), note)


def _width(freedom: float) -> str:
    """Return what a circle, an ellipse or a band shows of the noise."""
    return "one standard deviation" if np.isinf(freedom) else "one scale of the t distribution"


def _draw_directions(view: Directions, ax: Axes, rows: RowSample, noun: str) -> None:
    x, target = rows.x - view.center, canvas.plain_text(rows.target)
    plane = _leading_plane(np.sqrt(np.abs(view.weights))[:, None] * view.vectors, x)
    at = x @ plane.T if len(plane) > 1 else np.column_stack([x, rows.y])
    _colour_by_value(ax, at, rows.y, target)
    note = count_note(rows)
    if len(plane) > 1:
        tips = view.vectors @ plane.T
        longest = max(float(np.linalg.norm(tips, axis=1).max()), np.finfo(np.float64).tiny)
        tips *= float(np.quantile(np.linalg.norm(at, axis=1), ARROW_REACH)) / longest
        for tip in tips:
            ax.annotate(
                "", tip, (0, 0), arrowprops={"arrowstyle": "-|>", "color": canvas.ink(), "lw": 2}
            )
        _number(ax, tips, view.weights)
        ax.set_aspect("equal", adjustable="datalim")
        note += "; arrows: directions"
    _name_axes(ax, rows, plane, "principal direction of the network", second=target)
    canvas.finish(ax, counted(len(view.vectors), noun), note)


def _draw_densities(view: Densities, ax: Axes, rows: RowSample) -> None:
    plane = _leading_plane(view.vectors, rows.x - view.center)
    what, target = view.what.format(target=rows.target), canvas.plain_text(rows.target)
    at, second = rows.x @ plane.T, what
    if view.residuals is not None or len(plane) == 1:
        plane = plane[:1]
        height = view.values if view.residuals is None else view.residuals
        at = np.column_stack([at[:, 0], height])
        if view.residuals is not None:
            second = f"{target}, less the least-squares line"
    _colour_by_value(ax, at, view.values, canvas.plain_text(what))
    _name_axes(ax, rows, plane, "direction of the expansion", second=second)
    canvas.finish(ax, "Rows by log density", count_note(rows))


def _leading_plane(vectors: Floats, rows: Floats) -> Floats:
    """Return orthonormal directions, (2, d), or (1, d) with one column: the leading ones.

    Where vectors span less than a plane, centred rows give the missing directions: those of their
    largest variance.
    """
    d = rows.shape[1]
    plane = _leading(vectors, min(2, d))
    for further in (rows, np.eye(d)):  # rows may have no spread at all
        if len(plane) < min(2, d):
            residual = further - (further @ plane.T) @ plane
            plane = np.vstack([plane, _leading(residual, min(2, d) - len(plane))])
    # signs are arbitrary: the largest entry is positive, so that pictures do not flip
    largest = np.abs(plane).argmax(axis=1)
    signed: Floats = plane * np.sign(plane[np.arange(len(plane)), largest])[:, None]
    return signed


def _leading(vectors: Floats, most: int) -> Floats:
    if not len(vectors):
        return np.zeros((0, vectors.shape[1]))
    _, sizes, directions = np.linalg.svd(vectors, full_matrices=False)
    kept = sizes[:most] > RANK_TOL * max(float(sizes[0]), np.finfo(np.float64).tiny)
    leading: Floats = directions[:most][kept]
    return leading


def _axis_name(direction: Floats, names: Any, otherwise: str) -> str:
    """Return the name of the column that a direction is, or other words."""
    i = int(np.abs(direction).argmax())
    if abs(direction[i]) < ALONG_AN_AXIS * float(np.linalg.norm(direction)):
        return otherwise
    return f"column {i}" if names is None else canvas.plain_text(str(names[i]))


def _name_axes(ax: Axes, rows: RowSample, plane: Floats, words: str, second: str) -> None:
    ax.set_xlabel(_axis_name(plane[0], rows.names, f"first {words}"))
    if len(plane) > 1:
        second = _axis_name(plane[1], rows.names, f"second {words}")
    ax.set_ylabel(second)


def _draw_rows(ax: Axes, at: Floats, labels: Integers, k: int) -> None:
    """Draw rows in the colours of their components."""
    style: dict[str, Any] = {"ms": 2.5, "mew": 0, "alpha": 0.55}
    for i in range(k):
        style |= {"color": canvas.colour(i), "label": f"component {i}"}
        ax.plot(*at[labels == i].T, canvas.marker(i), **style)


def _colour_by_value(ax: Axes, at: Floats, values: Floats, words: str) -> None:
    low, high = np.quantile(values, [0.01, 0.99])
    style: dict[str, Any] = {"s": 7, "lw": 0, "alpha": 0.8, "cmap": canvas.middle_tones()}
    drawn = ax.scatter(at[:, 0], at[:, 1], c=values, vmin=low, vmax=high, **style)
    ax.figure.colorbar(drawn, ax=ax, label=words, extend="both", shrink=0.9, pad=0.02)


def _draw_histogram(view: Means, ax: Axes, x: Floats) -> None:
    """Draw stacked histograms of the components, and the density of the mixture."""
    k, deviations = len(view.weights), np.sqrt(view.variances)
    ax.hist(
        [x[view.labels == i] for i in range(k)],
        bins=canvas.BINS,
        stacked=True,
        density=True,
        color=[canvas.colour(i) for i in range(k)],
        alpha=0.5,
        label=[f"component {i}" for i in range(k)],
    )
    at = np.linspace(x.min(), x.max(), 400)
    law = t(view.freedom, view.means[:, 0], deviations)  # Gaussian if it is infinite
    density = (view.weights * law.pdf(at[:, None])).sum(axis=1)
    ax.plot(at, density, color=canvas.ink(), lw=1.5, label="the model")
    heights = view.weights * law.pdf(view.means[:, 0])
    _number(ax, np.column_stack([view.means[:, 0], heights]), view.weights)


def _draw_ellipses(ax: Axes, marks: Floats, covariances: Floats) -> None:
    """Draw points one standard deviation from each mark, by covariances (k, 2, 2)."""
    turn = np.linspace(0, 2 * np.pi, 73)
    values, vectors = np.linalg.eigh(covariances)
    roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    for i, (mark, root) in enumerate(zip(marks, roots, strict=True)):
        ring = mark[:, None] + root @ np.array([np.cos(turn), np.sin(turn)])
        ax.plot(*ring, color=canvas.ink(), lw=2.2, alpha=0.5, zorder=3)
        ax.plot(*ring, color=canvas.colour(i), lw=1.4, zorder=3)


def _number(ax: Axes, marks: Floats, weights: Floats) -> None:
    """Label components by number and weight; only crosses if there are many."""
    if len(marks) > NUMBERED:
        ax.plot(*marks.T, "+", color=canvas.ink(), ms=7, mew=1.5, zorder=4)
        return
    style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": "x-small", "zorder": 5}
    for i, (mark, weight) in enumerate(zip(marks, weights, strict=True)):
        words = f"{i}: {weight:.2g}" if len(marks) <= WEIGHED else str(i)
        box = {"boxstyle": "round,pad=0.2", "fc": ax.get_facecolor(), "lw": 1}
        ax.text(mark[0], mark[1], words, bbox=box | {"ec": canvas.colour(i)}, **style)
