"""Eigenvalues of the moments against their noise, and how many were kept."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.plot.canvas import (
    NoPictureError,
    axes_for,
    check_model,
    colour,
    ink,
    key,
    thin_frame,
    whole_numbers,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["spectra"]

SHOWN = 60  # eigenvalues of a moment: what comes after is noise or more of the same
LOWEST = 1e-3  # of the largest value, where the axis turns linear


def spectra(model: Any, ax: Axes | None = None) -> Axes:
    """Draw the eigenvalues of the moments that a fit looked at.

    Filled marks are directions that were kept, hollow ones those that were not; a dashed line is
    the size of the noise. A kept direction below the line, or one that was left out far above it,
    is a reason to think again about ``n_components``.

    Parameters
    ----------
    model : fitted estimator
    ax : matplotlib.axes.Axes, optional
        Drawn on, instead of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import implicitmoments as im
    >>> from matplotlib.figure import Figure
    >>> X, _ = im.datasets.make_spherical_mixture(2_000, 3, 4, radius=5.0, random_state=0)
    >>> model = im.SphericalMixture(3, random_state=0).fit(X)
    >>> ax = im.plot.spectra(model, Figure().add_subplot())
    >>> ax.get_title(loc="left").strip()
    'Spectra of the moments'
    """
    name = check_model(model)
    stats = model.stats_
    if not stats.get("spectra") or "ranks" not in stats:
        raise NoPictureError(
            f"this {name} has no spectra: {_why(model, stats)}; use implicitmoments.plot.fit"
        )
    ax = axes_for(ax)
    moments = list(
        zip(
            stats["moment_orders"],
            stats["spectra"],
            stats["noise_floor"],
            stats["ranks"],
            strict=True,
        )
    )
    for i, (order, values, floor, rank) in enumerate(moments):
        _draw(ax, i, np.asarray(values)[:SHOWN], floor, f"order {order}: {rank} kept", rank)
    _scale(ax, [np.asarray(values)[:SHOWN] for _, values, _, _ in moments])
    if any(floor > 0 for _, _, floor, _ in moments):
        ax.plot([], [], "--", color=ink(), alpha=0.7, label="noise")
    if any(len(values) > rank for _, values, _, rank in moments):
        ax.plot([], [], "o", mfc="none", mec=ink(), ms=4, ls="none", label="others")
    ax.set_xlabel("number, from the largest")
    ax.set_ylabel("eigenvalue of the moment")
    whole_numbers(ax)
    key(ax)
    hidden = max(len(values) for _, values, _, _ in moments) - SHOWN
    note = f"the first {SHOWN} of each" if hidden > 0 else ""
    thin_frame(ax, "Spectra of the moments", note)
    return ax


def _draw(ax: Axes, i: int, values: Floats, floor: float, label: str, rank: int) -> None:
    at = np.arange(1, len(values) + 1)
    own = colour(i)
    ax.plot(at, values, "-", color=own, alpha=0.35, lw=1)
    ax.plot(at[:rank], values[:rank], "o", color=own, ms=5, label=label)
    ax.plot(at[rank:], values[rank:], "o", mfc="none", mec=own, ms=4)
    if floor > 0:
        ax.hlines(floor, 0.6, len(values) + 0.4, colors=own, linestyles="--", lw=1.2, alpha=0.9)


def _scale(ax: Axes, values: list[Floats]) -> None:
    """Show sizes by their order of magnitude, where they differ in it; they may be negative."""
    every = np.abs(np.concatenate(values))
    top = float(every.max(initial=0.0))
    seen = every[every > LOWEST * top]
    if top > 0 and seen.min(initial=top) < 0.05 * top:
        ax.set_yscale("symlog", linthresh=10.0 ** math.ceil(math.log10(10 * LOWEST * top)))
    ax.axhline(0, color=ink(), lw=0.6, alpha=0.5)


def _why(model: Any, stats: dict[str, Any]) -> str:
    if "spectra" in stats:
        return "it was fitted by an older version, which kept less of them"
    if getattr(model, "method", None) == "paper":
        return "method='paper' keeps none"
    if stats.get("groups", 1) > 1:
        return "its rows fell into groups far apart that were fitted each on its own"
    k = getattr(model, "n_components_", model.n_components)
    if k == 1:
        return "one component is nothing to be told apart"
    if stats.get("n_varying", model.n_features_in_) == 1:
        return f"a moment of one column is one number, which does not tell {k} components apart"
    return f"no moment of these rows could be read for {k} components"
