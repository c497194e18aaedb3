"""Rows and components in two dimensions."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from implicitmoments.activation import ActivationSumRegressor
from implicitmoments.arrays import Floats, to_numpy
from implicitmoments.clustering import SphericalMixtureClusterer
from implicitmoments.density import RegressionMixtureDensity, SphericalMixtureDensity
from implicitmoments.estimator import counted
from implicitmoments.mixture import SphericalMixture
from implicitmoments.plot.canvas import (
    MARKERS,
    PALETTE,
    NoPictureError,
    axes_for,
    check_model,
    colour,
    ink,
    middle_tones,
    thin_frame,
)
from implicitmoments.plot.plotted_rows import Some, asked, some_rows
from implicitmoments.plot.viewing_plane import leading_plane, name_of_axis
from implicitmoments.regression import RegressionMixture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["components"]

MOST_ROWS = 2_000
NUMBERED = 30  # components that are told by number
WEIGHED = 8  # and by weight
SHORTEST = 1e-12
BINS = 40


def components(
    model: Any, X: Any, y: Any = None, *, ax: Axes | None = None, max_rows: int = MOST_ROWS
) -> Axes:
    """Draw rows and components in two dimensions.

    - Means: rows on the two leading principal directions of the means, coloured by component, and
      a circle of one standard deviation about each mean.
    - Lines: y against the leading principal direction of the coefficients, less what the other
      directions of each row's line explain, with a band of one standard deviation.
    - Directions of activations: rows on their two leading directions, coloured by y.
    - Densities, which have no components: rows on two directions of their span, coloured by log
      density.

    Parameters
    ----------
    model : fitted estimator
    X : array of shape (n_samples, n_features), or whatever else ``fit`` takes
    y : array of shape (n_samples,), where the model has labels
        Refused where it has none.
    ax : matplotlib.axes.Axes, optional
        Drawn on, instead of a new figure.
    max_rows : int
        Rows that are drawn at most, evenly taken.

    Returns
    -------
    matplotlib.axes.Axes

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
    check_model(model)
    if isinstance(model, ActivationSumRegressor) and not hasattr(model, "directions_"):
        raise NoPictureError(
            "refine=False gives this ActivationSumRegressor no directions; fit with refine=True, "
            "or use implicitmoments.plot.fit"
        )
    some = some_rows(model, X, y, max_rows)
    ax = axes_for(ax)
    _draw(asked(model), ax, some)
    return ax


@singledispatch
def _draw(model: Any, ax: Axes, some: Some) -> None:  # noqa: ARG001
    raise TypeError(f"there is no picture of the components of {type(model).__name__}")


@_draw.register(SphericalMixture)
@_draw.register(SphericalMixtureClusterer)
def _draw_means(model: Any, ax: Axes, some: Some) -> None:
    means, weights = _numbers(model.means_), _numbers(model.weights_)
    center = weights @ means
    labels = np.asarray(to_numpy(model.predict(some.given)))
    plane = leading_plane(np.sqrt(weights)[:, None] * (means - center), some.x - center)
    deviations = np.sqrt(np.broadcast_to(_numbers(model.variance_), len(means)))
    note = some.note
    if len(plane) == 1:
        _along_one_axis(ax, some.x[:, 0], labels, (weights, means[:, 0], deviations))
    else:
        _circles(ax, means @ plane.T, deviations)
        _by_component(ax, some.x @ plane.T, labels, len(means))
        _numbered(ax, means @ plane.T, weights)
        ax.set_aspect("equal", adjustable="datalim")
        note += "; circles: one standard deviation"
    _axes_of(ax, some, plane, "principal direction of the means", second="density")
    what = "cluster" if isinstance(model, SphericalMixtureClusterer) else "component"
    thin_frame(ax, counted(len(means), what), note)


@_draw.register(RegressionMixture)
def _draw_lines(model: RegressionMixture, ax: Axes, some: Some) -> None:
    coef, shift, weights, noise = (
        _numbers(a) for a in (model.coef_, model.intercept_, model.weights_, model.noise_)
    )
    y = some.y
    center = some.x.mean(axis=0)
    labels = np.asarray(to_numpy(model.predict_component(some.given, y)))
    apart = coef - (weights @ coef if len(coef) > 1 else 0.0)
    u = leading_plane(apart, some.x - center)[0]
    # y less what the other directions explain: a_i + b_i · m + (b_i · u) u · (x − m) + noise
    others = coef - np.outer(coef @ u, u)
    along = some.x @ u
    level = y - np.einsum("nd,nd->n", some.x - center, others[labels])
    _by_component(ax, np.column_stack([along, level]), labels, len(coef))
    ends = np.array([along.min(), along.max()])
    tops = []
    for i, (b, a, s) in enumerate(zip(coef, shift, noise, strict=True)):
        line = a + b @ center + (b @ u) * (ends - center @ u)
        ax.plot(ends, line, color=ink(), lw=2.4, alpha=0.6, zorder=3)
        ax.plot(ends, line, color=colour(i), lw=1.4, zorder=4)
        ax.fill_between(ends, line - s, line + s, color=colour(i), alpha=0.15, lw=0)
        tops.append((ends[1], line[1]))
    _numbered(ax, np.array(tops), weights)
    ax.set_xlabel(name_of_axis(u, some.names, "leading direction of the coefficients"))
    less = "" if len(u) == 1 else ", less what other directions explain"
    ax.set_ylabel(some.label + less)
    bands = f"{some.note}; bands: one standard deviation"
    thin_frame(ax, counted(len(coef), "line"), bands)


@_draw.register(ActivationSumRegressor)
def _draw_directions(model: ActivationSumRegressor, ax: Axes, some: Some) -> None:
    vectors, weights = _numbers(model.directions_), _numbers(model.weights_)
    center = np.zeros(some.x.shape[1]) if model.whitening_ is None else model.whitening_.mean
    rows = some.x - _numbers(center)
    plane = leading_plane(np.sqrt(np.abs(weights))[:, None] * vectors, rows)
    at = rows @ plane.T if len(plane) > 1 else np.column_stack([rows, some.y])
    _by_value(ax, at, some.y, some.label)
    if len(plane) > 1:
        tips = vectors @ plane.T
        longest = max(float(np.linalg.norm(tips, axis=1).max()), SHORTEST)
        # arrows reach over most of the rows, whatever the unit of the inputs is
        tips *= float(np.quantile(np.linalg.norm(at, axis=1), 0.8)) / longest
        for tip in tips:
            ax.annotate("", tip, (0, 0), arrowprops={"arrowstyle": "-|>", "color": ink(), "lw": 2})
        _numbered(ax, tips, weights)
        ax.set_aspect("equal", adjustable="datalim")
    _axes_of(ax, some, plane, "principal direction of the v", second=some.label)
    arrows = "; arrows: directions, numbered" if len(plane) > 1 else ""
    thin_frame(ax, counted(len(vectors), "direction"), some.note + arrows)


@_draw.register(SphericalMixtureDensity)
def _draw_density(model: SphericalMixtureDensity, ax: Axes, some: Some) -> None:
    center = _numbers(model.center_)
    basis = np.asarray(getattr(model.hypothesis_.span, "basis", np.zeros((0, len(center)))))
    plane = leading_plane(np.diag(np.arange(len(basis), 0, -1.0)) @ basis, some.x - center)
    logs = np.asarray(to_numpy(model.score_samples(some.given)))
    at = some.x @ plane.T
    _by_value(ax, at if len(plane) > 1 else np.column_stack([at, logs]), logs, "log density")
    _axes_of(ax, some, plane, "leading direction of the rows", second="log density")
    thin_frame(ax, "Rows by their log density", some.note)


@_draw.register(RegressionMixtureDensity)
def _draw_label_density(model: RegressionMixtureDensity, ax: Axes, some: Some) -> None:
    slope, y = _numbers(model.slope_), some.y
    frame = model.hypothesis_.frame
    directions = np.asarray(frame.basis) @ np.asarray(frame.whitener).T
    u = leading_plane(directions[:1], some.x - some.x.mean(axis=0))[0]
    logs = np.asarray(to_numpy(model.score_samples(some.given, y)))
    left = y - some.x @ slope - float(model.intercept_)
    _by_value(ax, np.column_stack([some.x @ u, left]), logs, f"log density of x and {some.label}")
    ax.set_xlabel(name_of_axis(u, some.names, "leading direction of the regressors"))
    ax.set_ylabel(f"{some.label}, less the line of least squares")
    thin_frame(ax, "Rows by their log density", some.note)


def _numbers(array: Any) -> Floats:
    return np.asarray(to_numpy(array), dtype=np.float64)


def _by_component(ax: Axes, at: Floats, labels: Floats, k: int) -> None:
    for i in range(k):
        ax.plot(
            *at[labels == i].T,
            MARKERS[i // len(PALETTE) % len(MARKERS)],
            color=colour(i),
            ms=2.5,
            mew=0,
            alpha=0.55,
            label=f"component {i}",
        )


def _by_value(ax: Axes, at: Floats, values: Floats, words: str) -> None:
    low, high = np.quantile(values, [0.01, 0.99])
    drawn = ax.scatter(
        at[:, 0],
        at[:, 1],
        c=values,
        s=7,
        lw=0,
        cmap=middle_tones(),
        vmin=low,
        vmax=high,
        alpha=0.8,
    )
    ax.figure.colorbar(drawn, ax=ax, label=words, extend="both", shrink=0.9, pad=0.02)


def _along_one_axis(
    ax: Axes, x: Floats, labels: Floats, mixture: tuple[Floats, Floats, Floats]
) -> None:
    """Draw histograms of components on top of one another, and the density of the mixture."""
    weights, means, deviations = mixture
    k = len(weights)
    ax.hist(
        [x[labels == i] for i in range(k)],
        bins=BINS,
        stacked=True,
        density=True,
        color=[colour(i) for i in range(k)],
        alpha=0.5,
        label=[f"component {i}" for i in range(k)],
    )
    at = np.linspace(x.min(), x.max(), 400)
    parts = weights * norm.pdf(at[:, None], means, deviations)
    ax.plot(at, parts.sum(axis=1), color=ink(), lw=1.5, label="the model")
    heights = weights * norm.pdf(0.0, 0.0, deviations)
    _numbered(ax, np.column_stack([means, heights]), weights)


def _circles(ax: Axes, marks: Floats, deviations: Floats) -> None:
    turn = np.linspace(0, 2 * np.pi, 73)
    for i, (mark, s) in enumerate(zip(marks, deviations, strict=True)):
        ring = mark[:, None] + s * np.array([np.cos(turn), np.sin(turn)])
        ax.plot(*ring, color=ink(), lw=2.2, alpha=0.5, zorder=3)
        ax.plot(*ring, color=colour(i), lw=1.4, zorder=3)


def _numbered(ax: Axes, marks: Floats, weights: Floats) -> None:
    if len(marks) > NUMBERED:
        ax.plot(*marks.T, "+", color=ink(), ms=7, mew=1.5, zorder=4)
        return
    for i, (mark, weight) in enumerate(zip(marks, weights, strict=True)):
        words = f"{i}: {weight:.2g}" if len(marks) <= WEIGHED else str(i)
        box = {"boxstyle": "round,pad=0.2", "fc": ax.get_facecolor(), "ec": colour(i), "lw": 1}
        ax.text(
            mark[0],
            mark[1],
            words,
            ha="center",
            va="center",
            fontsize="x-small",
            bbox=box,
            zorder=5,
        )


def _axes_of(ax: Axes, some: Some, plane: Floats, words: str, second: str) -> None:
    ax.set_xlabel(name_of_axis(plane[0], some.names, f"first {words}"))
    ax.set_ylabel(
        name_of_axis(plane[1], some.names, f"second {words}") if len(plane) > 1 else second
    )
