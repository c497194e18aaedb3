"""Figures of a report: which ones a model has, and their captions."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from implicitmoments.estimator import FittedEstimator
from implicitmoments.picture_data import LinePicture, Means, NoPictureError, RowSample
from implicitmoments.plot import components, convergence, fit, spectra
from implicitmoments.plot.fit_statistics import draw_choice, step_history
from implicitmoments.plot.groups import Groups
from implicitmoments.report.group_pictures import (
    PAIRS,
    PANEL,
    VIOLINS,
    draw_column,
    draw_line_column,
    draw_pairs,
    draw_panel,
    draw_residuals,
    group_plane,
    panels,
)
from implicitmoments.rows import draw_numbers

HEIGHT = 3.5  # inches, of most pictures
SCATTERED = 600  # rows in a picture, where each is an element
STEPS = {
    "mean_log_likelihood_history": "Convergence. The remaining gain of EM at each pass over the "
    "rows; it stops below the dashed tolerance.",
    "loss_history": "Convergence. Error of the network on its training rows, step by step. "
    "Dashed: that of the polynomial, expected on new rows.",
    "scores": "Choice of the degree. Mean log density of held-out rows, by degree of the "
    "polynomial.",
    "error_by_degree": "Choice of the degree. Squared error of the polynomial on held-out rows, "
    "by degree.",
}


class Figure(NamedTuple):
    """A picture and its caption, which is its text alternative too."""

    id: str
    caption: str
    svg: str
    column: str = ""  # the column it shows, where there is one figure for each


def draw_svg(draw: Callable[[Any], Any], name: str, height: float, whole: bool) -> str:
    """Return what ``draw(ax)``, or ``draw(figure)`` if it is whole, draws as an element."""
    import matplotlib as mpl  # noqa: PLC0415 (an extra: only pictures need it)
    from matplotlib.figure import Figure as Canvas  # noqa: PLC0415

    with mpl.rc_context():
        mpl.rcdefaults()
        # text in the font of the page, and references that differ between pictures
        mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": name})
        mpl.rcParams["font.sans-serif"] = ["DejaVu Sans"]
        # 4.6 inches: text stays readable at the width of a phone
        figure, written = Canvas((4.6, height), layout="constrained"), io.StringIO()
        draw(figure if whole else figure.add_subplot())
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(written, format="svg", transparent=True, metadata=nothing)
    svg = written.getvalue()
    return svg[svg.index("<svg") :].strip()


def _figure(
    name: str,
    caption: str,
    draw: Callable[[Any], Any],
    *,
    column: str = "",
    height: float = HEIGHT,
    whole: bool = False,
) -> Iterator[Figure]:
    """Yield a figure, or nothing where the model has no such picture."""
    try:
        yield Figure(name, caption, draw_svg(draw, name, height, whole), column)
    except NoPictureError:
        return


def map_figures(
    model: FittedEstimator, rows: RowSample, groups: Groups | None
) -> Iterator[Figure]:
    """Draw rows and components in two dimensions, a few in each picture where they are many."""
    title = "Components" if model.vectors else "Rows by density"
    caption = f"{title}. {model._caption('components', rows.target)}"
    if groups is None or groups.k <= PANEL or rows.x.shape[1] == 1:
        draw = partial(_draw_components, model, rows)
        yield from _figure("components", caption, draw)
        return
    few = _fewer(groups, SCATTERED)
    for i, shown in enumerate(panels(groups)):
        name = f"components-{i}" if i else "components"
        words = f"{title} ({i + 1}). The next by size." if i else caption
        yield from _figure(name, words, partial(draw_panel, few, group_plane(few), shown))


def _draw_components(model: FittedEstimator, rows: RowSample, ax: Any) -> None:
    components(model, rows, ax=ax, max_rows=SCATTERED)


def column_figures(groups: Groups) -> Iterator[Figure]:
    """Draw columns by group, and for lines the lines against each of them.

    They are the 4 to 12 columns that differ most between groups, with at most 480 boxes in all.
    """
    most = max(4, min(12, 480 // len(groups.largest)))
    few = _fewer(groups, SCATTERED // 3)  # there is a picture of rows for each column
    how = (
        "By group, the largest at the top. Box: the middle half of its rows, with the median; "
        "line: 5% to 95%" + ("; outline: density." if groups.k <= VIOLINS else ".")
    )
    for j in sorted(groups.telling[:most]):
        name = groups.names[j]
        if isinstance(groups.view, LinePicture) and j < groups.rows.x.shape[1]:
            words = f"Lines: {name}. The lines against {name}, and rows by most probable line."
            draw = partial(draw_line_column, few, j)
            yield from _figure(f"lines-{j}", words, draw, column=name)
        draw, height = partial(draw_column, groups, j), _height(groups)
        yield from _figure(f"column-{j}", f"{name}. {how}", draw, column=name, height=height)


def pair_figure(groups: Groups) -> Iterator[Figure]:
    """Draw the nearest pairs of groups with means."""
    if not isinstance(groups.view, Means):
        return
    caption = (
        "Nearest pairs. Rows of two groups on the direction that separates them best. Where the "
        "outlines overlap, the group of a row is uncertain."
    )
    height = 1.75 * -(-min(PAIRS, len(groups.nearest_pairs)) // 2) + 0.3
    draw = partial(draw_pairs, groups)
    yield from _figure("pairs", caption, draw, height=height, whole=True)


def fit_figures(
    model: FittedEstimator, rows: RowSample, groups: Groups | None
) -> Iterator[Figure]:
    """Draw what the fit is judged by: rows against the model, residuals, BIC."""
    caption = f"Fit against data. {model._caption('fit', rows.target)}"
    yield from _figure("fit", caption, lambda ax: fit(model, rows, ax=ax))
    if groups is not None and isinstance(groups.view, LinePicture):
        caption = (
            "Residuals by line, of the rows of each, the largest line at the top. A line that "
            "fits has its median near 0."
        )
        draw = partial(draw_residuals, groups)
        yield from _figure("residuals", caption, draw, height=_height(groups))
    caption = (
        "BIC of each number of components compared, above the least. Lower is better. Bars: two "
        "standard errors of the difference from the least, where they are known."
    )
    yield from _figure("bic", caption, partial(draw_choice, model))


def method_figures(model: FittedEstimator) -> Iterator[Figure]:
    """Draw how the fit was made, where that says something."""
    caption = f"Spectra. {model._caption('spectra')} Dashed: the noise level."
    yield from _figure("spectra", caption, partial(spectra, model))
    history = step_history(model)
    # that EM converged is in the table of findings
    converged = getattr(model, "converged_", True)
    if history and (history != "mean_log_likelihood_history" or not converged):
        yield from _figure("convergence", STEPS[history], partial(convergence, model))


def _height(groups: Groups) -> float:
    """Return the height of a picture with one line per group."""
    return max(HEIGHT, 0.14 * len(groups.largest) + 0.8)


def _fewer(groups: Groups, most: int) -> Groups:
    return groups.take(draw_numbers(len(groups.rows.x), most, 0))
