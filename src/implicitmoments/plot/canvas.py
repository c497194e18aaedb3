"""Axes, colours and frames of pictures."""

from __future__ import annotations

import copy
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import array_api_compat
import numpy as np
from sklearn.utils.validation import check_is_fitted

from implicitmoments.arrays import Floats, namespace_of
from implicitmoments.description import FileUnits, as_floats, column_names, counted, fit_columns
from implicitmoments.estimator import FittedEstimator
from implicitmoments.notes import InputError, InputTypeError
from implicitmoments.picture_data import RowSample
from implicitmoments.rows import MissingLibraryError, Rows, draw_numbers, open_rows
from implicitmoments.validation import check_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The colours of Okabe and Ito without black and yellow, which are invisible on dark and on light
# backgrounds; the last three are darker, for a contrast of 3 with white
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#b8588a", "#2f9bd8", "#b07800")
# colours of a scale of values, of about one brightness: a contrast of 3 with white and with dark
TONES = ("#3f74d1", "#8467cf", "#b35bb0", "#cf5583", "#d2602f", "#b57a10")
FAINT = 0.25  # opacity of what stands behind the marks
MARKERS = ("o", "s", "^", "D", "v", "P")  # one per colour
WIDTH, HEIGHT = 5.6, 4.0  # inches: text keeps its size across a column of a page
BINS = 40  # of a histogram: some 50 rows each of the least number of rows drawn
ROUNDED_ZERO = 1e-9  # of the end of an axis: a smaller tick is 0 up to rounding


def check_matplotlib() -> None:
    """Raise an error that names the extra where matplotlib is missing."""
    if find_spec("matplotlib") is None:
        raise MissingLibraryError(
            "missing_library",
            "pictures need {library}; install it with pip install 'implicitmoments[{extra}]'",
            library="matplotlib",
            extra="plot",
        )


def axes_for(ax: Axes | None) -> Axes:
    """Return the axes given, or those of a new figure."""
    if ax is not None:
        return ax
    check_matplotlib()
    import matplotlib.pyplot as plt  # noqa: PLC0415 (an extra: only pictures need it)

    return plt.subplots(figsize=(WIDTH, HEIGHT), layout="constrained")[1]


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


def marker(i: int) -> str:
    """Return the marker of component i, which changes when the colours begin again."""
    return MARKERS[i // len(PALETTE) % len(MARKERS)]


def ink() -> Any:
    """Return the colour of text in the style of the user."""
    import matplotlib as mpl  # noqa: PLC0415

    return mpl.rcParams["text.color"]


def key(ax: Axes) -> None:
    """Put a legend where it covers least."""
    ax.legend(loc="best", fontsize="small", framealpha=0.85, edgecolor="none", borderpad=0.2)


def middle_tones() -> Any:
    """Return a colour map that is visible on light and on dark backgrounds."""
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415

    return LinearSegmentedColormap.from_list("middle_tones", TONES)


def plain_text(text: str) -> str:
    """Return text as matplotlib prints it: a dollar sign would begin a formula."""
    return text.replace("$", r"\$")


def finish(ax: Axes, title: str, note: str = "") -> None:
    """Leave out the upper and right frame, and write the title and a note beneath it."""
    ax.spines[["top", "right"]].set_visible(False)
    from matplotlib.ticker import ScalarFormatter  # noqa: PLC0415

    for axis in (ax.xaxis, ax.yaxis):
        named = not isinstance(axis.get_major_formatter(), ScalarFormatter)
        if axis.get_scale() == "linear" and not named:
            _number_plainly(axis)
    ax.set_title(f"{title}\n" if note else title, loc="left", fontsize="medium")
    if note:
        above: dict[str, Any] = {"xytext": (0, 4), "textcoords": "offset points", "va": "bottom"}
        ax.annotate(note, (0, 1), xycoords="axes fraction", fontsize="small", alpha=0.75, **above)


def draw_dots(ax: Axes, at: Floats, **style: Any) -> None:
    """Draw rows, (n, 2), as dots of one path, which takes a fifth of the bytes of markers."""
    from matplotlib.patches import PathPatch  # noqa: PLC0415
    from matplotlib.path import Path  # noqa: PLC0415

    path = Path(np.repeat(at, 2, axis=0), np.tile([Path.MOVETO, Path.LINETO], len(at)))
    path.should_simplify = False  # which would drop segments without length
    ax.add_patch(PathPatch(path, fill=False, capstyle="round", **style))
    ax.update_datalim(at)
    ax.autoscale_view()


def _number_plainly(axis: Any) -> None:
    """Write ticks in full: a common offset or factor would overlap the title."""

    def formatted(value: float, _: Any) -> str:
        least = ROUNDED_ZERO * max(map(abs, axis.get_view_interval()))
        return "0" if abs(value) <= least else f"{value:.10g}".replace("-", "−")

    axis.set_major_formatter(formatted)


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
    if isinstance(X, RowSample):
        chosen, xp = draw_numbers(len(X.x), max_rows, 0), namespace_of(X.given)
        places = xp.asarray(chosen, device=array_api_compat.device(X.given))
        labels = X.y[chosen] if len(X.y) else X.y
        numbers = None if X.numbers is None else X.numbers[chosen]
        given = xp.take(X.given, places, axis=0)
        return X._replace(given=given, x=X.x[chosen], y=labels, numbers=numbers)
    name = type(model).__name__
    if y is not None and not model.labelled:
        raise InputTypeError(
            "labels_not_used",
            "{name} has no labels, so that y does not apply; got y of type {given}. Other "
            "arguments are given by name: ax=…, path=…",
            name=name,
            given=type(y).__name__,
        )
    if model.labelled and y is None and hasattr(X, "__array__"):
        raise InputError(
            "labels_missing", "{name} has labels; give the picture `y` too", name=name
        )
    with open_rows(model, X, y, labelled=model.labelled, reset=False) as (opened, _):
        rows = Rows.of(opened)
        n, sample = rows.n, rows.sample(max_rows, 0)
        block, numbers = sample.block, sample.numbers
    labels = as_floats(block["y"]) if model.labelled else np.zeros(0)
    x, target = as_floats(block["x"]), target_name(model, y)
    names, units = column_names(model), FileUnits.of(model)
    return RowSample(block["x"], x, labels, n, names, target, units, numbers)


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
    return str(fit_columns(model).get("target", "y"))


def frozen_copy(model: Any) -> Any:
    """Return a copy with a fixed seed, so that pictures repeat and leave the model as it was.

    It has no names of columns: rows that were checked before come as plain arrays.
    """
    twin = copy.copy(model)
    twin.random_state, twin.stats_ = 0, dict(model.stats_)
    if hasattr(twin, "feature_names_in_"):
        del twin.feature_names_in_
    return twin
