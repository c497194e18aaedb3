"""Where pictures are drawn, and in which colours."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "MARKERS",
    "PALETTE",
    "NoPictureError",
    "axes_for",
    "check_matplotlib",
    "check_model",
    "colour",
    "ink",
    "key",
    "middle_tones",
    "thin_frame",
    "whole_numbers",
]

# Okabe and Ito's colours without black and yellow, which vanish on dark and on light paper
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
MARKERS = ("o", "s", "^", "D", "v", "P")  # change when the colours begin again
WIDTH, HEIGHT = 5.6, 4.0  # inches
NOTHING = 1e-9  # of the end of an axis: a tick that rounding keeps from 0


class NoPictureError(ValueError):
    """A model does not have what a picture shows; the message says what it has instead."""


def check_matplotlib() -> None:
    """Say which extra is missing."""
    if find_spec("matplotlib") is None:
        raise ImportError(
            "pictures take matplotlib; install it with pip install 'implicitmoments[plot]'"
        )


def axes_for(ax: Axes | None) -> Axes:
    """Return the axes given, or those of a new figure."""
    if ax is not None:
        return ax
    check_matplotlib()
    import matplotlib.pyplot as plt  # noqa: PLC0415 (an extra: only pictures need it)

    return plt.subplots(figsize=(WIDTH, HEIGHT), layout="constrained")[1]


def check_model(model: Any) -> str:
    """Return the name of the class of a fitted model; raise for one that is not."""
    check_is_fitted(model)
    if not isinstance(getattr(model, "stats_", None), dict):
        raise TypeError(
            f"pictures are of the estimators of implicitmoments, got {type(model).__name__}; of a "
            "pipeline or search give the step or best_estimator_"
        )
    return type(model).__name__


def colour(i: int) -> str:
    """Return the colour of component i."""
    return PALETTE[i % len(PALETTE)]


def ink() -> Any:
    """Return the colour of text, which follows the user's style."""
    import matplotlib as mpl  # noqa: PLC0415

    return mpl.rcParams["text.color"]


def key(ax: Axes) -> None:
    """Put a legend where it hides least."""
    ax.legend(loc="best", fontsize="small", framealpha=0.85, edgecolor="none", borderpad=0.2)


def middle_tones() -> Any:
    """Return a map of colours of which none vanishes on light or on dark paper."""
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.colors import ListedColormap  # noqa: PLC0415

    return ListedColormap(mpl.colormaps["viridis"](np.linspace(0.2, 0.92, 256)), "middle_tones")


def thin_frame(ax: Axes, title: str, note: str = "") -> None:
    """Draw no more frame than is read, and put a note beneath the title."""
    ax.spines[["top", "right"]].set_visible(False)
    for axis in (ax.xaxis, ax.yaxis):
        if axis.get_scale() == "linear":
            _number_plainly(axis)
    text = f"{title}\n" if note else title
    ax.set_title(text, loc="left", fontsize="medium")
    if note:
        ax.text(0, 1.02, note, transform=ax.transAxes, fontsize="small", alpha=0.75, va="bottom")


def _number_plainly(axis: Any) -> None:
    """Write out what ticks are: a common offset or factor would stand on the title."""

    def told(value: float, _: Any) -> str:
        least = NOTHING * max(map(abs, axis.get_view_interval()))
        return "0" if abs(value) <= least else f"{value:.10g}".replace("-", "−")

    axis.set_major_formatter(told)


def whole_numbers(ax: Axes) -> None:
    """Mark whole numbers alone along the axis of x."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
