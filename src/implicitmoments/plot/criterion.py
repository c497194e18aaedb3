"""BIC against the number of components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from implicitmoments.description import counted
from implicitmoments.picture_data import CHANCE, Choice, compare_numbers
from implicitmoments.plot import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def choice_of(model: Any) -> Choice | None:
    """Return the comparison by BIC that a model stores; None with fewer than two numbers."""
    scores: dict[int, float] = model.stats_.get("bic_by_n_components") or {}
    if len(scores) <= 1:
        return None
    return compare_numbers(scores, model.stats_.get("bic_noise_by_n_components") or {})


def draw_choice(choice: Choice, ax: Axes) -> None:
    """Draw BIC above the least, its noise, and which numbers it prefers."""
    numbers, heights = list(choice.above), list(choice.above.values())
    ax.plot(numbers, heights, "-", color=canvas.ink(), lw=1)
    bars = [CHANCE * choice.errors.get(k, 0.0) for k in numbers]
    style: dict[str, Any] = {"fmt": "o", "color": canvas.ink(), "ms": 4, "capsize": 2, "lw": 1}
    words = "BIC" if not choice.errors else f"BIC, ± {CHANCE:g} standard errors"
    ax.errorbar(numbers, heights, yerr=bars if choice.errors else None, label=words, **style)
    mark: dict[str, Any] = {"ms": 9, "ls": "none", "zorder": 4}
    ax.plot(choice.least, 0.0, "D", color=canvas.colour(1), label=f"least: {choice.least}", **mark)
    if choice.within is not None and choice.within != choice.least:
        label = f"smallest within noise: {choice.within}"
        height = choice.above[choice.within]
        ax.plot(choice.within, height, "s", color=canvas.colour(0), label=label, **mark)
    canvas.whole_numbers(ax)
    ax.set_xlabel("number of components")
    ax.set_ylabel("BIC above the least")
    canvas.key(ax)
    canvas.finish(
        ax, "BIC by number", f"{counted(len(numbers), 'number')} compared; lower is better"
    )
