"""Pictures as SVG elements of a page, in the colours of the page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from implicitmoments.plot.canvas import PALETTE, check_matplotlib

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


def picture(
    draw: Callable[[Any], Any],
    name: str,
    words: str,
    *,
    height: float = HEIGHT,
    whole: bool = False,
    titles: Mapping[int, str] | None = None,
) -> str:
    """Return what ``draw(ax)`` draws as an ``svg`` element, with a text alternative.

    Parameters
    ----------
    draw : callable
        Takes axes, or the figure if it is ``whole``.
    name : str
        The prefix of all ids, so that those of several pictures differ.
    words : str
        The text alternative.
    height : float
        In inches.
    whole : bool
        Whether the picture has several axes.
    titles : mapping of int to str, optional
        What a browser shows where the pointer rests on marks of a group. Marks whose ``gid``
        begins with ``group-3`` or ``band-group-3`` are of group 3.
    """
    check_matplotlib()
    import matplotlib as mpl  # noqa: PLC0415 (an extra: only pictures need it)
    from matplotlib.figure import Figure  # noqa: PLC0415

    kept = {"backend", "interactive"}
    style: dict[Any, Any] = {k: v for k, v in mpl.rcParamsDefault.items() if k not in kept}
    style |= {"font.family": "sans-serif", "svg.fonttype": "none", "svg.hashsalt": name}
    style |= {"axes.facecolor": PAPER, "legend.facecolor": PAPER, **dict.fromkeys(INKED, INK)}
    with mpl.rc_context(style, fname=None):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        draw(figure if whole else figure.add_subplot())
        written = io.StringIO()
        figure.savefig(written, format="svg", transparent=False, facecolor="none")
    return _inline(written.getvalue(), name, words, titles or {})


def _inline(svg: str, name: str, words: str, titles: Mapping[int, str]) -> str:
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
    svg = _mark_groups(svg, titles)
    svg = re.sub(r'\bid="([^"]*)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'href="#([^"]*)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]*)\)", rf"url(#{name}-\1)", svg)
    svg = _shortened(svg)
    return re.sub(
        "|".join(VARIABLES), lambda found: VARIABLES[found[0].lower()], svg, flags=re.I
    ).strip()


def _mark_groups(svg: str, titles: Mapping[int, str]) -> str:
    """Give marks of a group its number and a title; they need no id, which may repeat."""

    def marked(found: re.Match[str]) -> str:
        group = int(found["group"])
        title = f"<title>{escape(titles[group])}</title>" if group in titles else ""
        return f'<g data-group="{group}">{title}'

    svg = re.sub(r'<g id="(?:band-)?group-(?P<group>\d+)[^"]*">', marked, svg)
    return re.sub(r'<g id="band-[^"]*">', "<g>", svg)


def _shortened(svg: str) -> str:
    """Return the same picture in fewer bytes.

    Coordinates to a hundredth of a point, no indentation, and the font of the page.
    """

    def rounded(found: re.Match[str]) -> str:
        short = re.sub(r"-?\d+\.\d{3,}", lambda n: f"{float(n[0]):.2f}", found[0])
        return " ".join(short.split())

    svg = re.sub(r'\b(?:d|x|y|transform|width|height|points)="[^"]*"', rounded, svg)
    svg = re.sub(r"(font: [^;\"']*?px) [^;\"]*", r"\1 sans-serif", svg)
    return re.sub(r">\s+<", "><", svg)
