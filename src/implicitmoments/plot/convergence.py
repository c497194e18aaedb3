"""How a fit came to its end: the polish step by step, or the orders one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from implicitmoments.clustering import SphericalMixtureClusterer
from implicitmoments.estimator import counted
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

__all__ = ["convergence"]

SPREAD = 10.0  # the largest over the smallest, from which magnitudes are shown
ROUNDING = 1e-15  # of a level: less is not told apart
FOOT = 1e-3  # of tol: less is drawn there, as is the last step, which leaves nothing


def convergence(model: Any, ax: Axes | None = None) -> Axes:
    """Draw how a fit converged.

    Of mixtures, what each step of EM left to be gained of the mean log-likelihood, on a
    logarithmic scale. Of the network of an :class:`~implicitmoments.ActivationSumRegressor`, its
    mean squared error step by step. Of models with a degree, the score of held-out rows by the
    degree.

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
    >>> im.plot.convergence(model, Figure().add_subplot()).get_title(loc="left").strip()
    'Convergence of EM'
    """
    name, stats = check_model(model), model.stats_
    if stats.get("mean_log_likelihood_history"):
        return _draw_likelihood(axes_for(ax), model, stats["mean_log_likelihood_history"])
    if stats.get("loss_history"):
        return _draw_loss(axes_for(ax), model, stats["loss_history"])
    if stats.get("scores"):
        words = "mean log density (nats a row)"
        return _draw_degrees(axes_for(ax), stats["scores"], model.degree_, words, best=max)
    if stats.get("error_by_degree"):
        words = "mean squared error of the polynomial"
        return _draw_degrees(axes_for(ax), stats["error_by_degree"], model.degree_, words, min)
    raise NoPictureError(
        f"this {name} has no steps to show: {_why(model, stats)}; use implicitmoments.plot.fit"
    )


def _draw_likelihood(ax: Axes, model: Any, history: Sequence[float]) -> Axes:
    levels = np.asarray(history, dtype=np.float64)
    least = max(ROUNDING * max(1.0, float(np.abs(levels).max())), FOOT * model.tol)
    left = np.maximum(levels.max() - levels, least)
    _draw_steps(ax, left, "what EM has yet to gain")
    ax.set_yscale("log")
    if model.tol > 0:
        ax.axhline(model.tol, ls="--", lw=1, color=ink(), alpha=0.7, label="tol")
    ax.set_ylabel("mean log-likelihood to gain\n(nats a row)")
    ax.set_xlabel("pass over all rows")
    passes = counted(len(levels), "pass", "passes")
    at_once = len(levels) > 1 and left[0] <= model.tol
    note = passes + (", within tol from the first" if at_once else "")
    return _finish(ax, model, "Convergence of EM", note)


def _draw_loss(ax: Axes, model: Any, history: Sequence[float]) -> Axes:
    stats = model.stats_
    losses = np.maximum(np.asarray(history, dtype=np.float64), np.finfo(np.float64).tiny)
    _draw_steps(ax, losses, "network, rows that were fitted")
    shown = list(losses)
    if np.isfinite(error := stats.get("polynomial_error", np.nan)) and error > 0:
        ax.axhline(error, ls="--", lw=1, color=ink(), alpha=0.7, label="polynomial, new rows")
        shown.append(error)
    _fit_scale(ax, shown)
    ax.set_ylabel("mean squared error")
    ax.set_xlabel("step of the polish")
    end = losses[-1]
    note = "ends at " + (f"{end:,.0f}" if 1e3 <= end < 1e7 else f"{end:.3g}")
    if stats.get("hypothesis") == "polynomial":
        note += "; the polynomial predicts instead"
    return _finish(ax, model, "Convergence of the network", note)


def _draw_steps(ax: Axes, values: Any, label: str) -> None:
    ax.plot(np.arange(len(values)), values, "o-", color=colour(0), ms=4, lw=1.5, label=label)
    whole_numbers(ax)


def _fit_scale(ax: Axes, shown: Sequence[float]) -> None:
    """Show orders of magnitude where values span them, and else how large they are beside 0."""
    if min(shown) > 0 and max(shown) > SPREAD * min(shown):
        ax.set_yscale("log")
    else:
        ax.set_ylim(0, 1.15 * max(shown))


def _finish(ax: Axes, model: Any, title: str, note: str) -> Axes:
    done = getattr(model, "converged_", model.stats_.get("converged", True))
    key(ax)
    thin_frame(ax, title, note if done else f"not converged; {note}")
    return ax


def _draw_degrees(
    ax: Axes, scores: Mapping[int, float], degree: int, words: str, best: Any
) -> Axes:
    degrees = sorted(scores)
    values = [scores[n] for n in degrees]
    ax.plot(degrees, values, "o-", color=colour(0), mfc="none", ms=6, lw=1.5)
    chosen = degree if degree in scores else best(degrees, key=scores.__getitem__)
    ax.plot(chosen, scores[chosen], "o", color=colour(1), ms=8, label=f"chosen: {chosen}")
    if min(values) > 0:  # errors, and no logarithms
        _fit_scale(ax, values)
    ax.set_xticks(degrees)
    ax.set_xlabel("degree of the polynomial")
    ax.set_ylabel(words)
    key(ax)
    thin_frame(ax, "Held-out rows, by degree", "rows that the polynomial was not fitted to")
    return ax


def _why(model: Any, stats: Mapping[str, Any]) -> str:
    if isinstance(model, SphericalMixtureClusterer):
        return "a test of pairs is made once"
    if "scores" in stats or hasattr(model, "polynomial_"):
        return "no degrees were compared, and nothing was polished"
    if stats.get("groups", 1) > 1:
        return "its rows fell into groups far apart that were fitted each on its own"
    if "rows_seen" in stats:
        return "its rows came in pieces, and each was taken in by a few steps"
    return "it was fitted by an older version, which kept none"
