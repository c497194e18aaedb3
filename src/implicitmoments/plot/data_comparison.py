"""The fitted model against the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import r2_score

from implicitmoments.picture_data import Distribution, Predictions, RowSample
from implicitmoments.plot import canvas
from implicitmoments.plot.canvas import (
    count_note,
    frozen_copy,
    inner_range,
    sample_rows,
    widened,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_COMPARED = 5_000  # compared: two samples of a law then differ by 0.03 by chance


def fit(
    model: Any, X: Any, y: Any = None, *, ax: Axes | None = None, max_rows: int = MOST_COMPARED
) -> Axes:
    """Draw the model against the rows.

    - Regressors: predicted against actual values.
    - Mixtures and densities: the distribution of log densities of the rows, and that of rows drawn
      from the model. If the model is right, the two agree.
    - Mixtures of regressions: residuals from the most probable line, of the rows and of labels
      drawn from the model at the same inputs.
    - Clusters: distances of rows from the mean of their cluster, and their distribution if
      clusters are spherical.

    Parameters
    ----------
    model : fitted estimator
    X : array of shape (n_samples, n_features), or whatever else ``fit`` takes
    y : array of shape (n_samples,), optional
        Labels; regressors and models of regressions need them.
    ax : matplotlib.axes.Axes, optional
        Drawn on instead of a new figure.
    max_rows : int, default 5000
        Largest number of rows used, a random sample.

    Returns
    -------
    matplotlib.axes.Axes
        Its note has the number of rows used.

    See Also
    --------
    components : Rows and components in two dimensions.
    implicitmoments.report.write_report : One HTML page about a fitted model.

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
    rows = sample_rows(model, X, y, max_rows)
    view = frozen_copy(model)._fit_view(rows)
    ax = canvas.axes_for(ax)
    if isinstance(view, Predictions):
        _draw_predictions(view, ax, rows)
    else:
        _draw_distribution(view, ax, rows)
    return ax


def _draw_predictions(view: Predictions, ax: Axes, rows: RowSample) -> None:
    y, predicted, target = rows.y, view.values, canvas.plain_text(rows.target)
    low, high = widened(min(predicted.min(), y.min()), max(predicted.max(), y.max()))
    cells: Any = {"extent": (low, high, low, high), "mincnt": 1, "gridsize": 36, "lw": 0.1}
    drawn = ax.hexbin(predicted, y, cmap=canvas.tones(), norm="log", **cells)
    ax.figure.colorbar(drawn, ax=ax, label="rows", shrink=0.9, pad=0.02)
    ax.axline((low, low), slope=1, color=canvas.ink(), lw=1, ls="--", alpha=0.7)
    ax.set_aspect("equal", adjustable="box")
    ax.set_xlabel(f"predicted {target}")
    ax.set_ylabel(target)
    note = f"by the {view.by}; {count_note(rows)}; R² {r2_score(y, predicted):.4f} on these rows"
    canvas.finish(ax, "Predicted and actual", note)


def _draw_distribution(view: Distribution, ax: Axes, rows: RowSample) -> None:
    note, every = count_note(rows), view.rows
    if view.drawn is not None:
        every = np.concatenate([every, view.drawn])
        note += f", and {len(view.drawn):,} drawn from the model"
    low, high = inner_range(every[np.isfinite(every)])
    bins: Any = {"bins": np.linspace(low, high, canvas.BINS + 1), "density": True}
    # the first and last bins hold what lies beyond them, also −inf
    own = canvas.colour(0)
    ax.hist(np.clip(view.rows, low, high), fc=(own, 0.4), ec=own, lw=0.8, label="rows", **bins)
    if view.drawn is not None:
        drawn, bins = np.clip(view.drawn, low, high), bins | {"lw": 2, "histtype": "step"}
        ax.hist(drawn, color=canvas.colour(1), label="drawn from the model", **bins)
    if view.law is not None:
        at = np.linspace(low, high, 200)
        ax.plot(at, view.law(at), color=canvas.colour(1), lw=2, label="the model")
    ax.set_xlabel(view.axis)
    ax.set_ylabel("density")
    ax.legend(fontsize="small")
    canvas.finish(ax, view.title, note)
