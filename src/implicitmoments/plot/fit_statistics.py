"""Pictures of what a fit stores: eigenvalues of the moments, steps, scores by degree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.estimator import counted
from implicitmoments.picture_data import NoPictureError
from implicitmoments.plot import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        raise _no_picture(model, "spectra: no moments were decoded in its fit")
    ax = canvas.axes_for(ax)
    columns = (stats[name] for name in ("moment_orders", "spectra", "noise_floor", "ranks"))
    sizes: list[float] = []
    most = 60  # eigenvalues per moment: more marks would touch each other
    for i, (order, every, floor, rank) in enumerate(zip(*columns, strict=True)):
        values, own = np.asarray(every)[:most], canvas.colour(i)
        at = np.arange(1, len(values) + 1)
        ax.plot(at, values, "o-", color=own, mfc="none", ms=4, lw=0.8, label=f"order {order}")
        ax.plot(at[:rank], values[:rank], "o", color=own, ms=5, label=f"{rank} kept")
        if floor > 0:
            ax.axhline(floor, color=own, ls="--", lw=1.2, label="noise")
        sizes += np.abs(values).tolist()
    # eigenvalues may be negative or nearly 0: the scale is linear below 1/1000 of the largest
    least = max(sizes) / 1_000
    if span_magnitudes([size for size in sizes if size >= least]):
        ax.set_yscale("symlog", linthresh=10.0 ** math.ceil(math.log10(10 * least)))
    ax.axhline(0, color=canvas.ink(), lw=0.6, alpha=0.5)
    ax.set_xlabel("rank of the eigenvalue")
    ax.set_ylabel("eigenvalue of the moment")
    canvas.whole_numbers(ax)
    ax.legend(fontsize="small")
    hidden = max(map(len, stats["spectra"])) - most
    canvas.finish(ax, "Spectra of the moments", f"the first {most} of each" if hidden > 0 else "")
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
        raise _no_picture(model, "steps to show: its fit stored none")
    steps = model.stats_[history]
    ax = canvas.axes_for(ax)
    if history == "mean_log_likelihood_history":
        title, note = _draw_likelihood(ax, model.tol, np.asarray(steps))
    elif history == "loss_history":
        title, note = _draw_loss(ax, model.stats_)
    else:
        title, note = _draw_degrees(ax, steps, model.degree_, history)
    ax.legend(fontsize="small")
    done = getattr(model, "converged_", True)
    canvas.finish(ax, title, note if done else f"not converged; {note}")
    return ax


def step_history(model: Any) -> str | None:
    """Return which of the histories in ``stats_`` a picture shows; None if there is none."""
    histories = ("mean_log_likelihood_history", "loss_history", "scores", "error_by_degree")
    return next((name for name in histories if model.stats_.get(name)), None)


def _draw_likelihood(ax: Axes, tol: float, levels: Floats) -> tuple[str, str]:
    # the last step has no gain left: it is drawn at rounding, or at a thousandth of tol
    least = max(1e-15 * max(1.0, float(np.abs(levels).max())), tol / 1_000)
    _draw_steps(ax, np.maximum(levels.max() - levels, least), "remaining gain of EM")
    if tol > 0:
        ax.axhline(tol, ls="--", lw=1, color=canvas.ink(), alpha=0.7, label="tol")
    ax.set_yscale("log")
    ax.set_ylabel("remaining gain of\nmean log-likelihood (nats)")
    ax.set_xlabel("pass over all rows")
    return "Convergence of EM", counted(len(levels), "pass", "passes")


def _draw_loss(ax: Axes, stats: Mapping[str, Any]) -> tuple[str, str]:
    losses = np.maximum(np.asarray(stats["loss_history"]), np.finfo(np.float64).tiny)
    _draw_steps(ax, losses, "network, training rows")
    shown, error = [*losses], stats.get("polynomial_error", 0.0)
    if error > 0:
        style: Any = {"ls": "--", "lw": 1, "alpha": 0.7, "color": canvas.ink()}
        ax.axhline(error, label="polynomial, new rows", **style)
        shown.append(error)
    _fit_scale(ax, shown)
    ax.set_ylabel("mean squared error")
    ax.set_xlabel("Gauss–Newton step")
    return "Convergence of the network", f"ends at {losses[-1]:.3g}"


def _draw_steps(ax: Axes, values: Floats, label: str) -> None:
    ax.plot(values, "o-", color=canvas.colour(0), ms=4, lw=1.5, label=label)
    canvas.whole_numbers(ax)


def span_magnitudes(values: Sequence[float]) -> bool:
    """Say whether positive values differ by so much that their axis is logarithmic."""
    return max(values) > 10 * min(values)


def _fit_scale(ax: Axes, shown: Sequence[float]) -> None:
    """Use a logarithmic scale if values span magnitudes, else a linear one from 0."""
    if span_magnitudes(shown):
        ax.set_yscale("log")
    else:
        ax.set_ylim(0, 1.15 * max(shown))


def _draw_degrees(
    ax: Axes, scores: Mapping[int, float], chosen: int, history: str
) -> tuple[str, str]:
    degrees = sorted(scores)
    values = [scores[n] for n in degrees]
    ax.plot(degrees, values, "o-", color=canvas.colour(0), mfc="none", ms=6, lw=1.5)
    if chosen in scores:
        mark: Any = {"color": canvas.colour(1), "ms": 8, "label": f"chosen: {chosen}"}
        ax.plot(chosen, scores[chosen], "o", **mark)
    ax.set_xticks(degrees)
    ax.set_xlabel("degree of the polynomial")
    if history == "scores":
        ax.set_ylabel("mean log density per row (nats)")
    else:
        ax.set_ylabel("mean squared error of the polynomial")
        _fit_scale(ax, values)
    return "Held-out rows, by degree", "rows that the polynomial was not fitted to"


def draw_choice(model: Any, ax: Axes) -> None:
    """Draw BIC of each number of components, above the least, and which numbers it prefers."""
    scores = model.stats_.get("bic_by_n_components") or {}
    if len(scores) <= 1:
        raise _no_picture(model, "numbers of components to compare")
    errors = model.stats_.get("bic_noise_by_n_components") or {}
    least, numbers = min(scores, key=scores.__getitem__), sorted(scores)
    heights = np.array([scores[k] for k in numbers]) - scores[least]
    # differences within two standard errors may be chance (Vuong 1989, a 95 % interval)
    noise = 2 * np.array([errors.get(k, 0.0) for k in numbers])
    label = "BIC, ± 2 standard errors" if errors else "BIC"
    style: Any = {"fmt": "o-", "ms": 4, "capsize": 2, "lw": 1, "color": canvas.ink()}
    ax.errorbar(numbers, heights, yerr=noise if errors else None, label=label, **style)
    within = int(np.argmax(heights <= noise))  # the first
    mark: Any = {"ms": 9, "ls": "none"}
    ax.plot(least, 0.0, "D", color=canvas.colour(1), label=f"least: {least}", **mark)
    if errors and numbers[within] != least:
        mark |= {"color": canvas.colour(0), "label": f"smallest within noise: {numbers[within]}"}
        ax.plot(numbers[within], heights[within], "s", **mark)
    canvas.whole_numbers(ax)
    ax.set_xlabel("number of components")
    ax.set_ylabel("BIC above the least")
    ax.legend(fontsize="small")
    canvas.finish(ax, "BIC by number", f"{len(numbers)} numbers compared; lower is better")


def _no_picture(model: Any, what: str) -> NoPictureError:
    template = "this {name} has no {what}; use implicitmoments.plot.fit"
    return NoPictureError("no_picture", template, name=type(model).__name__, what=what)
