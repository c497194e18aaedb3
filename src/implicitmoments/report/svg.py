"""Pictures as SVG elements of a page, in the colours of the page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

from implicitmoments.plot.canvas import PALETTE, check_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 4.6, 3.5  # inches: text stays readable at the width of a phone
# placeholders for colours of the page, which depend on light and dark
INK, PAPER = "#010203", "#fdfcfb"
INKED = (
    *("text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor"),
    *("xtick.color", "ytick.color"),
)
VARIABLES = {INK: "var(--ink)", PAPER: "var(--paper)"} | {
    colour: f"var(--c{i})" for i, colour in enumerate(PALETTE)
}


def picture(draw: Callable[[Axes], Any], name: str, words: str) -> str:
    """Return what ``draw(ax)`` draws as an ``svg`` element, with a text alternative.

    The name is the prefix of all ids, so that those of several pictures differ.
    """
    check_matplotlib()
    import matplotlib as mpl  # noqa: PLC0415 (an extra: only pictures need it)
    from matplotlib.figure import Figure  # noqa: PLC0415

    kept = {"backend", "interactive"}
    style: dict[Any, Any] = {k: v for k, v in mpl.rcParamsDefault.items() if k not in kept}
    style |= {"font.family": "sans-serif", "svg.fonttype": "none", "svg.hashsalt": name}
    style |= {"axes.facecolor": PAPER, "legend.facecolor": PAPER, **dict.fromkeys(INKED, INK)}
    with mpl.rc_context(style, fname=None):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        draw(figure.add_subplot())
        written = io.StringIO()
        figure.savefig(written, format="svg", transparent=False, facecolor="none")
    return _inline(written.getvalue(), name, words)


def _inline(svg: str, name: str, words: str) -> str:
    """Turn a file into an element: no prolog, no metadata, ids and colours of the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    box = re.search(r'viewBox="([^"]*)"', svg)
    if box is None:
        raise ValueError("matplotlib wrote an SVG without a viewBox")
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box[1]}" role="img" '
        f'aria-label="{escape(words)}">'
    )
    svg = opening + svg[svg.index(">") + 1 :]
    svg = svg.replace("xlink:href=", "href=")
    svg = re.sub(r'\bid="([^"]*)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'href="#([^"]*)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]*)\)", rf"url(#{name}-\1)", svg)
    return re.sub(
        "|".join(VARIABLES), lambda found: VARIABLES[found[0].lower()], svg, flags=re.I
    ).strip()
