"""Eigenvalues of the moments and their noise level."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.picture_data import NoPictureError
from implicitmoments.plot import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 60  # eigenvalues per moment (starting value)
LINEAR = 1e-3  # of the largest eigenvalue: below it the axis is linear
SPREAD = 20.0  # largest over smallest eigenvalue, from which the axis is logarithmic
MISSING = {
    "spectra_not_stored": "it was fitted by an older version, which did not store all of them",
    "spectra_of_paper_method": "`method='paper'` keeps none",
    "spectra_of_groups": "its rows form groups far apart that were fitted separately",
    "spectra_of_one_component": "one component needs no moments",
    "spectra_of_one_column": "a moment of one column is one number, which cannot separate {k} "
    "components",
    "spectra_unreadable": "no moment of these rows has enough dimensions for {k} components",
}


def spectra(model: Any, ax: Axes | None = None) -> Axes:
    """Draw the eigenvalues of the moments that a fit used.

    Filled marks are directions that were kept, hollow ones those that were not; a dashed line is
    the noise level. A kept direction below the line, or one left out far above it, suggests
    another ``n_components``.

    Parameters
    ----------
    model : fitted estimator
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
        With a logarithmic scale where eigenvalues differ in magnitude.

    Examples
    --------
    >>> import implicitmoments as im
    >>> from matplotlib.figure import Figure
    >>> X, _ = im.datasets.make_spherical_mixture(5_000, 5, 3, radius=6.0, random_state=1)
    >>> model = im.SphericalMixture(5, variance=1.0, random_state=0).fit(X)
    >>> ax = im.plot.spectra(model, Figure().add_subplot())
    >>> ax.get_title(loc="left").strip()
    'Spectra of the moments'
    """
    canvas.check_model(model)
    stats = model.stats_
    if not stats.get("spectra") or "ranks" not in stats:
        code = _why(model, stats)
        raise NoPictureError(
            code,
            "this {name} has no spectra: " + MISSING[code] + "; use implicitmoments.plot.fit",
            name=type(model).__name__,
            k=model._k(),
        )
    ax = canvas.axes_for(ax)
    columns = (stats[name] for name in ("moment_orders", "spectra", "noise_floor", "ranks"))
    moments = list(zip(*columns, strict=True))
    for i, (order, values, floor, rank) in enumerate(moments):
        _draw(ax, i, np.asarray(values)[:SHOWN], floor, f"order {order}: {rank} kept", rank)
    _scale(ax, [np.asarray(values)[:SHOWN] for _, values, _, _ in moments])
    if any(floor > 0 for _, _, floor, _ in moments):
        ax.plot([], [], "--", color=canvas.ink(), alpha=0.7, label="noise")
    if any(len(values) > rank for _, values, _, rank in moments):
        ax.plot([], [], "o", mfc="none", mec=canvas.ink(), ms=4, ls="none", label="others")
    ax.set_xlabel("rank of the eigenvalue")
    ax.set_ylabel("eigenvalue of the moment")
    canvas.whole_numbers(ax)
    canvas.key(ax)
    hidden = max(len(values) for _, values, _, _ in moments) - SHOWN
    note = f"the first {SHOWN} of each" if hidden > 0 else ""
    canvas.finish(ax, "Spectra of the moments", note)
    return ax


def _draw(ax: Axes, i: int, values: Floats, floor: float, label: str, rank: int) -> None:
    at = np.arange(1, len(values) + 1)
    own = canvas.colour(i)
    ax.plot(at, values, "-", color=own, alpha=0.35, lw=1)
    ax.plot(at[:rank], values[:rank], "o", color=own, ms=5, label=label)
    ax.plot(at[rank:], values[rank:], "o", mfc="none", mec=own, ms=4)
    if floor > 0:
        ax.hlines(floor, 0.6, len(values) + 0.4, colors=own, linestyles="--", lw=1.2, alpha=0.9)


def _scale(ax: Axes, values: list[Floats]) -> None:
    """Use a logarithmic scale where magnitudes differ; eigenvalues may be negative."""
    every = np.abs(np.concatenate(values))
    top = float(every.max(initial=0.0))
    seen = every[every > LINEAR * top]
    if top > SPREAD * seen.min(initial=top):
        ax.set_yscale("symlog", linthresh=10.0 ** math.ceil(math.log10(10 * LINEAR * top)))
    ax.axhline(0, color=canvas.ink(), lw=0.6, alpha=0.5)


def _why(model: Any, stats: dict[str, Any]) -> str:
    """Return the code of why there are no spectra."""
    if "spectra" in stats:
        return "spectra_not_stored"
    if getattr(model, "method", None) == "paper":
        return "spectra_of_paper_method"
    if stats.get("groups", 1) > 1:
        return "spectra_of_groups"
    if model._k() == 1:
        return "spectra_of_one_component"
    if stats.get("n_varying", model.n_features_in_) == 1:
        return "spectra_of_one_column"
    return "spectra_unreadable"
