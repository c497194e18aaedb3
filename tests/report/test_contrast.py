"""Contrast of text and marks with what is behind them, by the formula of WCAG 2."""

import re
from importlib.resources import files

import numpy as np
import pytest
from matplotlib.colors import to_rgb, to_rgba

from implicitmoments.plot import canvas

TEXT, MARK = 4.5, 3.0
STYLE = files("implicitmoments.report").joinpath("page.css").read_text("utf-8")


def themes():
    """Return the variables of the light and of the dark page."""
    light, dark = (
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", part))
        for part in STYLE.split("/* Pictures")[0].split("@media")
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


@pytest.mark.parametrize("theme", themes(), ids=["light", "dark"])
def test_colours_of_the_page(theme):
    for behind in ("paper", "panel"):
        for colour in ("ink", "soft", "good", "look"):
            assert contrast(theme[colour], theme[behind]) >= TEXT, (colour, behind)
    for colour in ("c0", "c1", "c2", "c3", "c4", "c5", "edge"):
        assert contrast(theme[colour], theme["paper"]) >= MARK, colour
    for shade in ("up", "down"):  # the darkest shade of the heatmap, behind its numbers
        assert contrast(theme["ink"], theme[shade]) >= TEXT


# hue-rotate(180deg) of CSS
TURN = np.array([[-0.574, 1.43, 0.144], [0.426, 0.43, 0.144], [0.426, 1.43, -0.856]])


def test_colours_of_pictures_on_white_and_inverted_on_dark():
    dark = themes()[1]["paper"]
    for colour in (*canvas.PALETTE, *canvas.TONES, "#000000"):
        limit = TEXT if colour == "#000000" else MARK
        assert contrast(colour, "#ffffff") >= limit, colour
        inverted = np.clip(TURN @ (1 - np.array(to_rgb(colour))), 0, 1)
        assert contrast(tuple(inverted), dark) >= limit, colour
