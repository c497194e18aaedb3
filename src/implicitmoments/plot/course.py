"""How a fit came to its end: the polish step by step, or the orders one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

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
SMALLEST = 1e-16  # of the last value: what rounding leaves


def convergence(model: Any, ax: Axes | None = None) -> Axes:
    """Draw how a fit converged.

    Of models that are polished, what each step left to be gained, on a logarithmic scale: EM's
    mean log-likelihood, or the mean squared error of an
    :class:`~implicitmoments.ActivationSumRegressor`. Of models with a degree, the score of rows
    left out by the degree.

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
    'Convergence of the polish'
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
        words = "mean squared error"
        return _draw_degrees(axes_for(ax), stats["error_by_degree"], model.degree_, words, min)
    raise NoPictureError(
        f"this {name} has no steps to show: {_why(model)}; use implicitmoments.plot.spectra or "
        "implicitmoments.plot.fit"
    )


def _draw_likelihood(ax: Axes, model: Any, history: Sequence[float]) -> Axes:
    levels = np.asarray(history, dtype=np.float64)
    least = SMALLEST * max(1.0, abs(float(levels[-1])))
    left = np.maximum(levels.max() - levels, least)
    _draw_steps(ax, left, "what EM has yet to gain")
    ax.axhline(model.tol, ls="--", lw=1, color=ink(), alpha=0.7, label="tol")
    ax.set_ylabel("mean log-likelihood to gain\n(nats a row)")
    ax.set_xlabel("pass over all rows")
    passes = f"{len(levels)} pass{'es' if len(levels) > 1 else ''}"
    at_once = len(levels) > 1 and left[0] <= model.tol
    return _finish(ax, model, passes + (", within tol from the first" if at_once else ""))


def _draw_loss(ax: Axes, model: Any, history: Sequence[float]) -> Axes:
    losses = np.maximum(np.asarray(history, dtype=np.float64), np.finfo(np.float64).tiny)
    _draw_steps(ax, losses, "rows that were fitted")
    if np.isfinite(error := model.stats_.get("polynomial_error", np.nan)) and error > 0:
        ax.axhline(error, ls="--", lw=1, color=ink(), alpha=0.7, label="polynomial, rows held out")
    ax.set_ylabel("mean squared error")
    ax.set_xlabel("step of the polish")
    return _finish(ax, model, f"ends at {losses[-1]:.2g}")


def _draw_steps(ax: Axes, values: Any, label: str) -> None:
    ax.plot(np.arange(len(values)), values, "o-", color=colour(0), ms=4, lw=1.5, label=label)
    if values.max() > SPREAD * values.min():
        ax.set_yscale("log")
    whole_numbers(ax)


def _finish(ax: Axes, model: Any, note: str) -> Axes:
    done = getattr(model, "converged_", model.stats_.get("converged", True))
    key(ax)
    thin_frame(ax, "Convergence of the polish", note if done else f"not converged; {note}")
    return ax


def _draw_degrees(
    ax: Axes, scores: Mapping[int, float], degree: int, words: str, best: Any
) -> Axes:
    degrees = sorted(scores)
    values = [scores[n] for n in degrees]
    ax.plot(degrees, values, "o-", color=colour(0), mfc="none", ms=6, lw=1.5)
    chosen = degree if degree in scores else best(degrees, key=scores.__getitem__)
    ax.plot(chosen, scores[chosen], "o", color=colour(1), ms=8, label=f"chosen: {chosen}")
    if min(values) > 0 and max(values) > 10 * min(values):
        ax.set_yscale("log")
    ax.set_xticks(degrees)
    ax.set_xlabel("degree of the polynomial")
    ax.set_ylabel(words)
    key(ax)
    thin_frame(ax, "Rows left out, by degree")
    return ax


def _why(model: Any) -> str:
    if hasattr(model, "labels_"):
        return "a test of pairs is made once"
    if hasattr(model, "hypothesis_"):
        return "its degree was given, and none was compared"
    return "its rows were fitted in groups or came in pieces, or nothing was polished"
