"""Pictures of what a fit stores: eigenvalues of the moments, steps, scores by degree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from implicitmoments.description import counted
from implicitmoments.picture_data import NoPictureError
from implicitmoments.plot import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 60  # eigenvalues per moment: more marks would touch each other
LINEAR = 1e-3  # of the largest eigenvalue: below it the axis is linear
SPREAD = 10.0  # largest over smallest value, from which the axis is logarithmic: a decade
ROUNDING = 1e-15  # of a log-likelihood: smaller differences are rounding
FOOT = 1e-3  # of tol: smaller differences are drawn there, as is the last step
# keys of stats_ that a picture can show; the first one present is drawn
HISTORIES = ("mean_log_likelihood_history", "loss_history", "scores", "error_by_degree")
MISSING = {
    "steps_of_pairwise_test": "a pairwise test has no iterations",
    "steps_without_comparison": "no degrees were compared, and no network was fitted",
    "steps_of_pieces": "its rows came in pieces, each taken in by a few steps",
    "spectra_of_likelihood": "it is fitted by likelihood, and moments are at most a start",
    "spectra_not_decoded": "no moments were decoded, as they are with `order=4`",
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

    See Also
    --------
    convergence : The likelihood by iteration.
    implicitmoments.report.write_report : One HTML page about a fitted model.

    Examples
    --------
    >>> import implicitmoments as im
    >>> from matplotlib.figure import Figure
    >>> X, _ = im.datasets.make_spherical_mixture(5_000, 5, 3, radius=6.0, random_state=1)
    >>> model = im.SphericalMixture(5, variance=1.0, order=4, random_state=0).fit(X)
    >>> ax = im.plot.spectra(model, Figure().add_subplot())
    >>> ax.get_title(loc="left").strip()
    'Spectra of the moments'
    """
    canvas.check_model(model)
    stats = model.stats_
    if not stats.get("spectra"):
        raise _no_picture(model, "spectra", _why_no_spectra(model, stats))
    ax = canvas.axes_for(ax)
    columns = (stats[name] for name in ("moment_orders", "spectra", "noise_floor", "ranks"))
    moments = list(zip(*columns, strict=True))
    for i, (order, every, floor, rank) in enumerate(moments):
        values, own = np.asarray(every)[:SHOWN], canvas.colour(i)
        at, label = np.arange(1, len(values) + 1), f"order {order}: {rank} kept"
        which = "" if len(moments) == 1 else f"order {order}: "
        ax.plot(at, values, "-", color=own, lw=0.8)
        ax.plot(at[:rank], values[:rank], "o", color=own, ms=5, label=label)
        ax.plot(at[rank:], values[rank:], "o", mfc="none", mec=own, ms=4)
        if len(values) > rank:
            ax.plot([], [], "o", mfc="none", mec=own, ms=4, ls="none", label=f"{which}others")
        if floor > 0:
            end = len(values) + 0.4
            ax.hlines(floor, 0.6, end, colors=own, linestyles="--", lw=1.2)
            ax.plot([], [], "--", color=own, lw=1.2, label=f"{which}noise")
    # a logarithmic scale where magnitudes differ; eigenvalues may be negative
    sizes = np.abs(np.concatenate([np.asarray(values)[:SHOWN] for _, values, _, _ in moments]))
    top = float(sizes.max(initial=0.0))
    if top > SPREAD * sizes[sizes > LINEAR * top].min(initial=top):
        ax.set_yscale("symlog", linthresh=10.0 ** math.ceil(math.log10(10 * LINEAR * top)))
    ax.axhline(0, color=canvas.ink(), lw=0.6, alpha=0.5)
    ax.set_xlabel("rank of the eigenvalue")
    ax.set_ylabel("eigenvalue of the moment")
    canvas.whole_numbers(ax)
    canvas.key(ax)
    hidden = max(len(values) for _, values, _, _ in moments) - SHOWN
    canvas.finish(ax, "Spectra of the moments", f"the first {SHOWN} of each" if hidden > 0 else "")
    return ax


def convergence(model: Any, ax: Axes | None = None) -> Axes:
    """Draw how a fit converged.

    For mixtures, the gain of mean log-likelihood that was left after each step of EM, on a
    logarithmic scale. For the network of an :class:`~implicitmoments.ActivationSumRegressor`, its
    mean squared error step by step. For models with a degree, the score of held-out rows by
    degree.

    Parameters
    ----------
    model : fitted estimator
    ax : matplotlib.axes.Axes, optional
        Drawn on instead of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Its note says so if the fit did not converge.

    See Also
    --------
    spectra : Eigenvalues of the moments of a fit.
    implicitmoments.report.write_report : One HTML page about a fitted model.

    Examples
    --------
    >>> import implicitmoments as im
    >>> from matplotlib.figure import Figure
    >>> X, y, _ = im.datasets.make_regression_mixture(2_000, 2, 3, random_state=0)
    >>> model = im.RegressionMixture(n_components="auto", random_state=0).fit(X, y)
    >>> im.plot.convergence(model, Figure().add_subplot()).get_title(loc="left").strip()
    'Convergence of EM'
    """
    canvas.check_model(model)
    history = step_history(model)
    if history is None:
        raise _no_picture(model, "steps to show", _why_no_steps(model))
    steps = model.stats_[history]
    ax = canvas.axes_for(ax)
    if history == "mean_log_likelihood_history":
        return _draw_likelihood(ax, model, steps)
    if history == "loss_history":
        return _draw_loss(ax, model, steps)
    if history == "scores":
        return _draw_degrees(ax, steps, model.degree_, "mean log density per row (nats)", best=max)
    words = "mean squared error of the polynomial"
    return _draw_degrees(ax, steps, model.degree_, words, best=min)


def step_history(model: Any) -> str | None:
    """Return which of the histories in ``stats_`` a picture shows; None if there is none."""
    return next((name for name in HISTORIES if model.stats_.get(name)), None)


def _draw_likelihood(ax: Axes, model: Any, history: Sequence[float]) -> Axes:
    levels = np.asarray(history, dtype=np.float64)
    least = max(ROUNDING * max(1.0, float(np.abs(levels).max())), FOOT * model.tol)
    left = np.maximum(levels.max() - levels, least)
    _draw_steps(ax, left, "remaining gain of EM")
    ax.set_yscale("log")
    if model.tol > 0:
        ax.axhline(model.tol, ls="--", lw=1, color=canvas.ink(), alpha=0.7, label="tol")
    ax.set_ylabel("remaining gain of\nmean log-likelihood (nats)")
    ax.set_xlabel("pass over all rows")
    passes = counted(len(levels), "pass", "passes")
    at_once = len(levels) > 1 and left[0] <= model.tol
    note = passes + (", within tol from the start" if at_once else "")
    return _finish(ax, model, "Convergence of EM", note)


def _draw_loss(ax: Axes, model: Any, history: Sequence[float]) -> Axes:
    stats = model.stats_
    losses = np.maximum(np.asarray(history, dtype=np.float64), np.finfo(np.float64).tiny)
    _draw_steps(ax, losses, "network, training rows")
    shown = list(losses)
    if np.isfinite(error := stats.get("polynomial_error", np.nan)) and error > 0:
        ax.axhline(
            error, ls="--", lw=1, color=canvas.ink(), alpha=0.7, label="polynomial, new rows"
        )
        shown.append(error)
    _fit_scale(ax, shown)
    ax.set_ylabel("mean squared error")
    ax.set_xlabel("Gauss–Newton step")
    end = losses[-1]
    note = "ends at " + (f"{end:,.0f}" if 1e3 <= end < 1e7 else f"{end:.3g}")
    if stats.get("hypothesis") == "polynomial":
        note += "; the polynomial predicts instead"
    return _finish(ax, model, "Convergence of the network", note)


def _draw_steps(ax: Axes, values: Any, label: str) -> None:
    ax.plot(
        np.arange(len(values)), values, "o-", color=canvas.colour(0), ms=4, lw=1.5, label=label
    )
    canvas.whole_numbers(ax)


def _fit_scale(ax: Axes, shown: Sequence[float]) -> None:
    """Use a logarithmic scale if values span magnitudes, else a linear one from 0."""
    if min(shown) > 0 and max(shown) > SPREAD * min(shown):
        ax.set_yscale("log")
    else:
        ax.set_ylim(0, 1.15 * max(shown))


def _finish(ax: Axes, model: Any, title: str, note: str) -> Axes:
    done = getattr(model, "converged_", True)
    canvas.key(ax)
    canvas.finish(ax, title, note if done else f"not converged; {note}")
    return ax


def _draw_degrees(
    ax: Axes, scores: Mapping[int, float], degree: int, words: str, best: Any
) -> Axes:
    degrees = sorted(scores)
    values = [scores[n] for n in degrees]
    ax.plot(degrees, values, "o-", color=canvas.colour(0), mfc="none", ms=6, lw=1.5)
    chosen = degree if degree in scores else best(degrees, key=scores.__getitem__)
    ax.plot(chosen, scores[chosen], "o", color=canvas.colour(1), ms=8, label=f"chosen: {chosen}")
    if min(values) > 0:  # errors, and no logarithms
        _fit_scale(ax, values)
    ax.set_xticks(degrees)
    ax.set_xlabel("degree of the polynomial")
    ax.set_ylabel(words)
    canvas.key(ax)
    canvas.finish(ax, "Held-out rows, by degree", "rows that the polynomial was not fitted to")
    return ax


def _why_no_steps(model: Any) -> str:
    """Return the code of why there are no steps."""
    if not model.iterative:
        return "steps_of_pairwise_test"
    return "steps_without_comparison" if hasattr(model, "degree_") else "steps_of_pieces"


def _why_no_spectra(model: Any, stats: dict[str, Any]) -> str:
    """Return the code of why there are no spectra."""
    reasons = {
        "spectra_of_likelihood": not model.captions["spectra"],
        "spectra_of_one_component": model._k() == 1,
        "spectra_of_one_column": model.n_features_in_ == 1,
        "spectra_not_decoded": getattr(model, "order", 4) == "auto" and "resolved" not in stats,
    }
    return next((code for code, true in reasons.items() if true), "spectra_unreadable")


def _no_picture(model: Any, what: str, code: str) -> NoPictureError:
    template = f"this {{name}} has no {what}: {MISSING[code]}; use implicitmoments.plot.fit"
    return NoPictureError(code, template, name=type(model).__name__, k=model._k())
