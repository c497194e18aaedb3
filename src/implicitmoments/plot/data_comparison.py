"""The fitted model against the rows."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import chi

from implicitmoments.activation import ActivationSumRegressor
from implicitmoments.arrays import Floats, to_numpy
from implicitmoments.clustering import SphericalMixtureClusterer
from implicitmoments.density import RegressionMixtureDensity, SphericalMixtureDensity
from implicitmoments.mixture import SphericalMixture
from implicitmoments.plot.canvas import (
    NoPictureError,
    axes_for,
    check_model,
    colour,
    ink,
    key,
    middle_tones,
    thin_frame,
)
from implicitmoments.plot.plotted_rows import Some, asked, some_rows
from implicitmoments.regression import RegressionMixture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["compared", "fit"]

MOST_ROWS = 5_000
PROPOSALS = 1_000_000  # of a rejection sampler, about
FEWEST_DRAWN = 200
BINS = 40
INNER = (0.002, 0.998)  # quantiles of rows between which histograms are drawn


def fit(
    model: Any, X: Any, y: Any = None, *, ax: Axes | None = None, max_rows: int = MOST_ROWS
) -> Axes:
    """Draw the model against the rows.

    - Regressors: predicted against actual values.
    - Mixtures and densities: how log densities of the rows are distributed, and those of rows
      drawn from the model. If the model is right, the two agree.
    - Mixtures of regressions: residuals from the likeliest line, of the rows and of labels drawn
      from the model at the same inputs.
    - Clusters: distances of rows from the mean of their cluster, and the law they have if clusters
      are spherical.

    Parameters
    ----------
    model : fitted estimator
    X : array of shape (n_samples, n_features), or whatever else ``fit`` takes
    y : array of shape (n_samples,), where the model has labels
        Refused where it has none.
    ax : matplotlib.axes.Axes, optional
        Drawn on, instead of a new figure.
    max_rows : int
        Rows that are looked at at most, evenly taken.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import implicitmoments as im
    >>> from matplotlib.figure import Figure
    >>> X, y, _ = im.datasets.make_regression_mixture(2_000, 2, 3, random_state=0)
    >>> model = im.RegressionMixture(2, random_state=0).fit(X, y)
    >>> ax = im.plot.fit(model, X, y, ax=Figure().add_subplot())
    >>> ax.get_title(loc="left").strip()
    'Residuals'
    """
    check_model(model)
    some = some_rows(model, X, y, max_rows)
    _affordable(model, len(some.x))  # before there is a figure
    ax = axes_for(ax)
    _draw(asked(model), ax, some)
    return ax


@singledispatch
def _draw(model: Any, ax: Axes, some: Some) -> None:  # noqa: ARG001
    raise TypeError(f"there is no picture of {type(model).__name__} against rows")


@_draw.register(ActivationSumRegressor)
def _draw_predictions(model: ActivationSumRegressor, ax: Axes, some: Some) -> None:
    y = some.y
    predicted = np.asarray(to_numpy(model.predict(some.given)))
    low, high = min(predicted.min(), y.min()), max(predicted.max(), y.max())
    if not high > low:
        low, high = low - 0.5, high + 0.5
    drawn = ax.hexbin(
        predicted,
        y,
        gridsize=36,
        mincnt=1,
        bins="log",
        cmap=middle_tones(),
        extent=(low, high, low, high),
        lw=0.1,
    )
    drawn.set_clim(1, max(10.0, float(np.max(np.asarray(drawn.get_array())))))
    ax.figure.colorbar(drawn, ax=ax, label="rows", shrink=0.9, pad=0.02)
    ax.axline((low, low), slope=1, color=ink(), lw=1, ls="--", alpha=0.7)
    ax.set_aspect("equal", adjustable="box")
    ax.set_xlabel(f"predicted {some.label}")
    ax.set_ylabel(some.label)
    share = 1 - np.var(y - predicted) / max(float(np.var(y)), np.finfo(np.float64).tiny)
    used = model.stats_.get("hypothesis", "model")
    note = f"by the {used}; {some.note}; R² {share:.4f} of these rows"
    thin_frame(ax, "Predicted and actual", note)


@_draw.register(SphericalMixture)
@_draw.register(SphericalMixtureDensity)
@_draw.register(RegressionMixtureDensity)
def _draw_densities(model: Any, ax: Axes, some: Some) -> None:
    rows, drawn = compared(model, some)
    _compare(ax, rows, drawn)
    ax.set_xlabel("log density under the model (nats)")
    thin_frame(ax, "Log densities of rows", f"{some.note}, and {len(drawn):,} from the model")


@_draw.register(RegressionMixture)
def _draw_residuals(model: RegressionMixture, ax: Axes, some: Some) -> None:
    ax.set_xlabel("residual from the likeliest line (σ)")
    _compare(ax, *compared(model, some))
    thin_frame(ax, "Residuals", f"{some.note}, and as many labels drawn from the model")


@_draw.register(SphericalMixtureClusterer)
def _draw_distances(model: SphericalMixtureClusterer, ax: Axes, some: Some) -> None:
    means = np.asarray(to_numpy(model.means_), dtype=np.float64)
    labels = np.asarray(to_numpy(model.predict(some.given)))
    sigma = float(np.sqrt(model.variance_))
    apart = np.linalg.norm(some.x - means[labels], axis=1) / sigma
    edges = _edges(apart)
    ax.hist(_within(apart, edges), edges, density=True, color=colour(0), alpha=0.4, label="rows")
    at = np.linspace(edges[0], edges[-1], 200)
    ax.plot(at, chi.pdf(at, some.x.shape[1]), color=colour(1), lw=2, label="spherical clusters")
    ax.set_xlabel("distance from the mean of the cluster (σ)")
    ax.set_ylabel("density")
    key(ax)
    thin_frame(ax, "Distances within clusters", some.note)


@singledispatch
def compared(model: Any, some: Some) -> tuple[Floats, Floats]:  # noqa: ARG001
    """Return a number for each row, and as many of rows drawn from the model.

    Both have one law if the model is right: log densities, or residuals from the likeliest line.

    Parameters
    ----------
    model : fitted estimator
        As :func:`implicitmoments.plot.plotted_rows.asked` returns it.
    some : Some
    """
    raise TypeError(f"nothing is drawn from {type(model).__name__}")


@compared.register(SphericalMixture)
@compared.register(SphericalMixtureDensity)
def _compared_rows(model: Any, some: Some) -> tuple[Floats, Floats]:
    drawn = model.sample(_affordable(model, len(some.x)))
    points = drawn[0] if isinstance(drawn, tuple) else drawn
    return _floats(model.score_samples(some.given)), _floats(model.score_samples(points))


@compared.register
def _compared_labelled(model: RegressionMixtureDensity, some: Some) -> tuple[Floats, Floats]:
    drawn = model.sample(_affordable(model, len(some.x)))
    return _floats(model.score_samples(some.given, some.y)), _floats(model.score_samples(*drawn))


@compared.register
def _compared_labels(model: RegressionMixture, some: Some) -> tuple[Floats, Floats]:
    _, labels, _ = model.sample(X=some.given)
    return _residuals(model, some, some.y), _residuals(model, some, _floats(labels))


def _floats(array: Any) -> Floats:
    return np.asarray(to_numpy(array), dtype=np.float64)


def _compare(ax: Axes, rows: Floats, drawn: Floats) -> None:
    edges = _edges(np.concatenate([rows, drawn]))
    how: dict[str, Any] = {"bins": edges, "density": True}
    ax.hist(_within(rows, edges), color=colour(0), alpha=0.4, label="rows", **how)
    drawn = _within(drawn, edges)
    ax.hist(drawn, color=colour(1), lw=2, histtype="step", label="drawn from the model", **how)
    ax.set_ylabel("density")
    key(ax)


def _edges(values: Floats) -> list[float]:
    finite = values[np.isfinite(values)]
    low, high = np.quantile(finite, INNER) if len(finite) else (0.0, 1.0)
    if not high > low:
        low, high = low - 0.5, high + 0.5
    return [float(edge) for edge in np.linspace(low, high, BINS + 1)]


def _within(values: Floats, edges: list[float]) -> Floats:
    """Put what lies beyond the ends, and −inf, into the first and last bins."""
    return np.clip(values, edges[0], edges[-1])


def _residuals(model: RegressionMixture, some: Some, y: Floats) -> Floats:
    own = np.asarray(to_numpy(model.predict_component(some.given, y)))
    coef, shift, noise = (
        np.asarray(to_numpy(a), dtype=np.float64)
        for a in (model.coef_, model.intercept_, model.noise_)
    )
    tiny = np.finfo(np.float64).tiny
    left = y - np.einsum("nd,nd->n", some.x, coef[own]) - shift[own]
    residuals: Floats = left / np.maximum(noise[own], tiny)
    return residuals


def _affordable(model: Any, n: int) -> int:
    rate = float(getattr(model, "acceptance_rate_", 1.0))
    if rate * getattr(model, "max_proposals", PROPOSALS) < 2 * FEWEST_DRAWN:
        raise NoPictureError(
            f"no rows can be drawn from this {type(model).__name__}: its sampler accepts "
            f"{rate:.2g} of its proposals; use implicitmoments.plot.components"
        )
    return max(min(n, int(rate * PROPOSALS)), FEWEST_DRAWN)
