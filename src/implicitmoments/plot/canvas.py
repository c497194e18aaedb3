"""Axes, colours and frames of pictures."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from implicitmoments.estimator import FittedEstimator
from implicitmoments.notes import CodedError, InputTypeError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The colours of Okabe and Ito without black and yellow, which are invisible on dark and on light
# backgrounds
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
MARKERS = ("o", "s", "^", "D", "v", "P")
WIDTH, HEIGHT = 5.6, 4.0  # inches
ROUNDED_ZERO = 1e-9  # of the end of an axis: a smaller tick is 0 up to rounding


class MissingLibraryError(CodedError, ImportError):
    """A picture needs a library that is not installed."""


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
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.colors import ListedColormap  # noqa: PLC0415

    return ListedColormap(mpl.colormaps["viridis"](np.linspace(0.2, 0.92, 256)), "middle_tones")


def plain_text(text: str) -> str:
    """Return text as matplotlib prints it: a dollar sign would begin a formula."""
    return text.replace("$", r"\$")


def finish(ax: Axes, title: str, note: str = "") -> None:
    """Leave out the upper and right frame, and write the title and a note beneath it."""
    ax.spines[["top", "right"]].set_visible(False)
    for axis in (ax.xaxis, ax.yaxis):
        if axis.get_scale() == "linear":
            _number_plainly(axis)
    text = f"{title}\n" if note else title
    ax.set_title(text, loc="left", fontsize="medium")
    if note:
        ax.text(0, 1.02, note, transform=ax.transAxes, fontsize="small", alpha=0.75, va="bottom")


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
