"""Contrast of text and marks with what is behind them, by the formula of WCAG 2."""

import re
from importlib.resources import files

import pytest
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.figure import Figure
from matplotlib.text import Text

import implicitmoments as im
from implicitmoments.plot import canvas
from implicitmoments.plot.facets import draw_line_column, draw_pairs
from implicitmoments.plot.groups import group_rows
from implicitmoments.plot.profiles import draw_column, draw_residuals

TEXT, MARK = 4.5, 3.0
STYLE = files("implicitmoments.report").joinpath("page.css").read_text("utf-8")


def themes():
    """Return the variables of the light and of the dark page."""
    light, dark = (
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", part))
        for part in STYLE.split("* { box-sizing")[0].split("@media")
    )
    assert light.keys() == dark.keys()
    return [light, dark]


def luminance(colour):
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3]]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def contrast(colour, behind):
    """Return the contrast of a colour, which may be transparent, with what is behind it."""
    *rgb, alpha = to_rgba(colour)
    behind = to_rgb(behind)
    seen = [alpha * c + (1 - alpha) * b for c, b in zip(rgb, behind, strict=True)]
    low, high = sorted([luminance(seen), luminance(behind)])
    return (high + 0.05) / (low + 0.05)


def test_the_formula():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert contrast(("#000000", 0.5), "#ffffff") < 4.5


@pytest.mark.parametrize("theme", themes(), ids=["light", "dark"])
def test_colours_of_the_page(theme):
    for behind in ("paper", "panel"):
        for colour in ("ink", "soft", "good", "look"):
            assert contrast(theme[colour], theme[behind]) >= TEXT, (colour, behind)
    for colour in ("c0", "c1", "c2", "c3", "c4", "c5", "edge"):
        assert contrast(theme[colour], theme["paper"]) >= MARK, colour
    for shade in ("up", "down"):  # the darkest shade of the heatmap, behind its numbers
        assert contrast(theme["ink"], theme[shade]) >= TEXT
    for tone in canvas.TONES:
        assert contrast(tone, theme["paper"]) >= MARK


def marks(ax):
    """Yield the colours of marks, but for bands and the rows behind, and those of texts."""
    for artist in [*ax.lines, *ax.patches, *ax.collections]:
        if (artist.get_gid() or "").startswith("band"):
            continue
        if artist in ax.lines:
            colours = [artist.get_color(), artist.get_markeredgecolor()]
        else:
            faces = [*artist.get_edgecolor(), *artist.get_facecolor()]
            colours = [faces[:4], faces[4:]] if artist in ax.patches else faces
        alpha = artist.get_alpha()
        yield MARK, [to_rgba(c, alpha) for c in colours if len(c)]
    for text in ax.findobj(Text):
        if text.get_text():
            yield TEXT, [to_rgba(text.get_color(), text.get_alpha())]


def least(ax):
    """Return the least contrast with white of all texts and marks, over what it should be."""
    return min(
        max(contrast(colour, "#ffffff") for colour in colours) / limit
        for limit, colours in marks(ax)
        if colours
    )


def test_pictures(fitted):
    drawn = []
    for model, X, y in fitted.values():
        rows = canvas.sample_rows(model, X, y, 200)
        figure = Figure()
        drawn += [im.plot.components(model, rows, ax=figure.add_subplot(121))]
        drawn += [im.plot.fit(model, rows, ax=figure.add_subplot(122))]
        groups = group_rows(model, rows)
        if groups is None:
            continue
        draw_column(groups, 0, ax := Figure().add_subplot())
        drawn.append(ax)
        if model.labelled:
            axes = [Figure().add_subplot() for _ in range(2)]
            draw_residuals(groups, axes[0])
            draw_line_column(groups, 0, axes[1])
        else:
            draw_pairs(groups, pairs := Figure())
            axes = [ax for ax in pairs.axes if ax.get_visible()]
        drawn += axes
    for ax in drawn:
        assert least(ax) >= 1, ax.get_title(loc="left")


def test_a_pale_mark_is_noticed():
    ax = Figure().add_subplot()
    ax.plot([0, 1], [0, 1], color="#56b4e9")
    assert least(ax) < 1
