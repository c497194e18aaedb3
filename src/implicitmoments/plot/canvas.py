"""Axes, colours, and the sample of rows of pictures."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from implicitmoments.arrays import Floats
from implicitmoments.estimator import (
    FittedEstimator,
    as_floats,
    column_names,
    counted,
)
from implicitmoments.notes import InputTypeError
from implicitmoments.picture_data import NoPictureError, RowSample
from implicitmoments.rows import Rows, draw_numbers, open_rows
from implicitmoments.validation import check_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The colours of Okabe and Ito without black and yellow, which are invisible on dark and on light
# backgrounds; the last three are darker, for a contrast of 3 with white
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#b8588a", "#2f9bd8", "#b07800")
# a scale of values of about one brightness, with a contrast of 3 on white
TONES = ("#3f74d1", "#8467cf", "#b35bb0", "#cf5583", "#d2602f", "#b57a10")
FAINT = 0.25  # opacity of what stands behind the marks
BINS = 40  # of a histogram


def axes_for(ax: Axes | None) -> Axes:
    """Return the axes given, or those of a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt  # noqa: PLC0415 (an extra: only pictures need it)

    return plt.subplots(figsize=(5.6, 4.0), layout="constrained")[1]


def check_model(model: Any) -> None:
    """Raise unless this is a fitted estimator of this library."""
    check_is_fitted(model)
    if not isinstance(model, FittedEstimator):
        raise InputTypeError(
            "not_an_estimator",
            "pictures and reports are of the estimators of implicitmoments, got {name}; of a "
            "pipeline or search give the step or best_estimator_",
            name=type(model).__name__,
        )


def colour(i: int) -> str:
    """Return the colour of component i."""
    return PALETTE[i % len(PALETTE)]


def ink() -> Any:
    """Return the colour of text in the style of the user."""
    import matplotlib as mpl  # noqa: PLC0415

    return mpl.rcParams["text.color"]


def tones() -> Any:
    """Return a colour map without pale colours."""
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415

    return LinearSegmentedColormap.from_list("tones", TONES)


def plain_text(text: str) -> str:
    """Return text as matplotlib prints it: a dollar sign would begin a formula."""
    return text.replace("$", r"\$")


def widened(low: float, high: float) -> tuple[float, float]:
    """Return the ends of an interval that is not empty."""
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def inner_range(values: Floats) -> tuple[float, float]:
    """Return the ends of an axis of values: outliers beyond it would flatten a picture."""
    return widened(*np.quantile(values, (0.002, 0.998)))


def finish(ax: Axes, title: str, note: str = "") -> None:
    """Leave out the upper and right frame, and write the title and a note beneath it."""
    from matplotlib.ticker import ScalarFormatter  # noqa: PLC0415

    for axis in (ax.xaxis, ax.yaxis):
        if isinstance(axis.get_major_formatter(), ScalarFormatter):
            axis.set_major_formatter("{x:.10g}")  # an offset or factor would overlap the title
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(f"{title}\n" if note else title, loc="left", fontsize="medium")
    if note:
        ax.text(0, 1.02, note, transform=ax.transAxes, fontsize="small", gid="note")


def whole_numbers(ax: Axes) -> None:
    """Put ticks at integers only along the x axis."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def sample_rows(model: FittedEstimator, X: Any, y: Any, max_rows: int) -> RowSample:
    """Return at most ``max_rows`` rows, drawn at random with a fixed seed, in their order.

    X and y are whatever ``fit`` takes, or X is a sample drawn before.
    """
    check_model(model)
    check_whole("max_rows", max_rows, 1)
    if not model.captions:
        template = "{name} has no pictures of rows; its `profiles_` are a table"
        raise NoPictureError("no_picture", template, name=type(model).__name__)
    if isinstance(X, RowSample):
        return X.take(draw_numbers(len(X.x), max_rows, 0))
    if y is not None and not model.labelled:
        raise InputTypeError(
            "labels_not_used",
            "the model has no labels, so that y of type {given} does not apply; arguments other "
            "than X and y are given by name: ax=…, path=…",
            given=type(y).__name__,
        )
    with open_rows(model, X, y, labelled=model.labelled, reset=False) as (opened, _):
        rows = Rows.of(opened)
        n, sample = rows.n, rows.sample(max_rows, 0)
        block = sample.block
        numbers = np.arange(n) if sample.numbers is None else sample.numbers
    labels, names = as_floats(block["y"]) if model.labelled else np.zeros(0), column_names(model)
    target, x = target_name(model, y), block["x"]
    return RowSample(x, as_floats(x), labels, n, names, target, numbers)


def count_note(rows: RowSample) -> str:
    """Return how many rows are shown."""
    shown = f"{len(rows.x):,} of " if len(rows.x) < rows.total else ""
    return shown + counted(rows.total, "row")


def target_name(model: FittedEstimator, y: Any = None) -> str:
    """Return the name of the labels: that of y, or of the column the model was fitted to."""
    if isinstance(y, str):
        return y
    columns = getattr(y, "columns", None)  # of a frame with one column
    name = getattr(y, "name", None) if columns is None else columns[0]
    if isinstance(name, str) and name:
        return name
    return str(getattr(model, "columns_in_", {}).get("target", "y"))


def frozen_copy(model: Any) -> Any:
    """Return a copy with a fixed seed, so that pictures repeat and leave the model as it was.

    It has no names of columns: rows that were checked before come as plain arrays.
    """
    twin = copy.copy(model)
    twin.random_state, twin.stats_ = 0, dict(model.stats_)
    if hasattr(twin, "feature_names_in_"):
        del twin.feature_names_in_
    return twin


def draw_rows(ax: Axes, at: Floats, **style: Any) -> None:
    """Draw rows, (n, 2), as dots."""
    ax.plot(*at.T, ".", **{"ms": 4.0, "mew": 0, **style})
