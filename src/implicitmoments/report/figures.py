"""Figures of a report: which ones a model has, their captions, and what they show in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from implicitmoments.estimator import FittedEstimator
from implicitmoments.picture_data import (
    CHANCE,
    Choice,
    LinePicture,
    Means,
    NoPictureError,
    RowSample,
)
from implicitmoments.plot import components, convergence, fit, spectra
from implicitmoments.plot.criterion import choice_of, draw_choice
from implicitmoments.plot.facets import (
    PAIRS,
    draw_line_column,
    draw_pairs,
    draw_panel,
    is_faceted,
    map_of,
    n_panels,
    panel_groups,
)
from implicitmoments.plot.fit_statistics import step_history
from implicitmoments.plot.groups import Groups
from implicitmoments.plot.profiles import VIOLINS, draw_column, draw_residuals
from implicitmoments.report.alternative_text import (
    describe_choice,
    describe_column,
    describe_components,
    describe_fit,
    describe_lines,
    describe_pairs,
    describe_residuals,
    describe_spectra,
    describe_steps,
)
from implicitmoments.report.svg import HEIGHT, picture

SCATTERED = 1_200  # rows in a picture where each is an element
SCATTERED_BY_COLUMN = 400  # the same, where there is one picture for each column
# columns that have a picture each: those that differ most between groups; and boxes in all of them
MOST_COLUMNS, FEWEST_COLUMNS, MOST_BOXES = 12, 4, 480
GROUP_HEIGHT = 0.14  # inches for each group above VIOLINS
PANEL_HEIGHT = 1.75  # inches for each row of small pictures

NOISE = " Dashed: the noise level, below which an eigenvalue carries no information."
STEPS = {
    "mean_log_likelihood_history": "The remaining gain of EM at each pass over the rows; it stops "
    "below the dashed tolerance. At the foot: a thousandth of it, or less.",
    "loss_history": "Error of the network on its training rows, step by step. Dashed: that of the "
    "polynomial, expected on new rows.",
    "scores": "Mean log density of held-out rows, by degree of the polynomial.",
    "error_by_degree": "Squared error of the polynomial on held-out rows, by degree.",
}


@dataclass(frozen=True)
class Figure:
    """A picture with its caption; its text alternative is part of the picture."""

    id: str
    title: str
    words: str
    svg: str
    column: str = ""  # the column it shows, where there is one figure for each


def caption_of(name: str, model: FittedEstimator, target: str = "y") -> tuple[str, str]:
    """Return the title of a picture, and how to read it; the labels are called ``target``."""
    if name == "convergence":
        history = step_history(model) or "scores"
        steps = history.endswith("history")
        return "Convergence" if steps else "Choice of the degree", STEPS[history]
    words = model._caption(name).format(target=target)
    if name == "spectra" and any(floor > 0 for floor in model.stats_.get("noise_floor", ())):
        words += NOISE
    own = "Components" if model.vectors else "Rows by density"
    return {"spectra": "Spectra", "components": own, "fit": "Fit against data"}[name], words


def group_titles(groups: Groups | None) -> dict[int, str]:
    """Return what a browser shows where the pointer rests on a group."""
    if groups is None:
        return {}
    return {i: f"{groups.noun} {i}: {groups.shares[i]:.1%} of the rows" for i in range(groups.k)}


def map_figures(
    model: FittedEstimator, rows: RowSample, groups: Groups | None
) -> Iterator[Figure]:
    """Draw rows and components in two dimensions, a few in each picture where they are many."""
    title, words = caption_of("components", model, rows.target)
    told = f"{title}. {words} {describe_components(model, rows, groups)}"
    if groups is None or not is_faceted(groups):

        def draw(ax: Any) -> Any:
            return components(model, rows, ax=ax, max_rows=SCATTERED)

        titles = group_titles(groups)
        yield from _drawn("components", title, words, told, draw, titles=titles)
        return
    few = _fewer(groups, SCATTERED)
    drawn = map_of(few)
    for panel in range(n_panels(groups)):
        own = panel_groups(groups, panel)
        if panel:
            words = "The next by size."
            title = f"{title.split(' (')[0]} ({panel + 1})"
            told = f"{title}. {describe_components(model, rows, groups, own)}"
        name = f"components-{panel}" if panel else "components"
        titles = group_titles(groups)
        draw_one = partial(draw_panel, few, drawn, panel)
        yield from _drawn(name, title, words, told, draw_one, titles=titles)


def column_figures(groups: Groups) -> Iterator[Figure]:
    """Draw each column by group, and for lines the lines against each column."""
    titles, height = group_titles(groups), _height(groups)
    lines = isinstance(groups.view, LinePicture)
    d, few = groups.rows.x.shape[1], _fewer(groups, SCATTERED_BY_COLUMN)
    most = max(FEWEST_COLUMNS, min(MOST_COLUMNS, MOST_BOXES // len(groups.largest)))
    for j in sorted(groups.telling[:most]):
        name = groups.names[j]
        if lines and j < d:
            told = describe_lines(groups, j)
            draw: Callable[[Any], Any] = partial(draw_line_column, few, j)
            words = f"The lines against {name}, and rows by most probable line."
            yield from _drawn(
                f"lines-{j}", f"Lines: {name}", words, told, draw, titles=titles, column=name
            )
        words = (
            "By group, the largest at the top. Box: the middle half of its rows; line: 5% to 95%; "
            "tick: median" + ("; outline: density." if groups.k <= VIOLINS else ".")
        )
        draw = partial(draw_column, groups, j)
        how: dict[str, Any] = {"titles": titles, "height": height, "column": name}
        told = describe_column(groups, j)
        yield from _drawn(f"column-{j}", name, words, told, draw, **how)


def pair_figure(groups: Groups) -> Iterator[Figure]:
    """Draw the nearest pairs of groups with means."""
    if not isinstance(groups.view, Means):
        return
    drawn = min(PAIRS, groups.k * (groups.k - 1) // 2)
    words = (
        "Rows of two groups on the direction that separates them best. Where the outlines "
        "overlap, rows of the two cannot be told apart."
    )
    how: dict[str, Any] = {"height": PANEL_HEIGHT * -(-drawn // 2) + 0.3, "whole": True}
    told = describe_pairs(groups, drawn)
    draw = partial(draw_pairs, groups)
    yield from _drawn(
        "pairs", "Nearest pairs", words, told, draw, titles=group_titles(groups), **how
    )


def fit_figures(
    model: FittedEstimator, rows: RowSample, groups: Groups | None
) -> Iterator[Figure]:
    """Draw what the fit is judged by: rows against the model, residuals, BIC."""
    title, words = caption_of("fit", model, rows.target)
    told = f"{title}. {words} {describe_fit(model, rows)}"
    yield from _drawn("fit", title, words, told, lambda ax: fit(model, rows, ax=ax))
    if groups is not None and isinstance(groups.view, LinePicture):
        words = (
            "Residuals of each line from its own rows, the largest line at the top. A line that "
            "fits has its median near 0."
        )
        how: dict[str, Any] = {"titles": group_titles(groups), "height": _height(groups)}
        told, draw = describe_residuals(groups), partial(draw_residuals, groups)
        yield from _drawn("residuals", "Residuals by line", words, told, draw, **how)
    choice = choice_of(model)
    if choice is not None:
        told = describe_choice(choice)
        draw = partial(draw_choice, choice)
        yield from _drawn("bic", "BIC by number", _choice_words(choice), told, draw)


def method_figures(model: FittedEstimator) -> Iterator[Figure]:
    """Draw how the fit was made, where that says something."""
    title, words = caption_of("spectra", model)
    told = f"{title}. {words} {describe_spectra(model)}"
    yield from _drawn("spectra", title, words, told, partial(spectra, model))
    if steps_tell(model):
        title, words = caption_of("convergence", model)
        told = f"{title}. {words} {describe_steps(model)}"
        yield from _drawn("convergence", title, words, told, partial(convergence, model))


def steps_tell(model: Any) -> bool:
    """Say whether steps show more than that EM converged, which the table of findings says."""
    history = step_history(model)
    return history is not None and (
        history != "mean_log_likelihood_history" or not getattr(model, "converged_", True)
    )


def _choice_words(choice: Choice) -> str:
    words = "BIC of each number of components that was compared, above the least. Lower is better."
    if not choice.errors:
        return words + " A difference below 2 is no evidence."
    return words + (
        f" Bars: {CHANCE:g} standard errors of the difference from the least. A number whose "
        "bar reaches 0 may be as good, and the smallest of them is the cautious choice."
    )


def _height(groups: Groups) -> float:
    """Return the height of a picture with one line per group."""
    return max(HEIGHT, GROUP_HEIGHT * len(groups.largest) + 0.8)


def _fewer(groups: Groups, most: int) -> Groups:
    """Return groups with fewer rows, at random."""
    n = len(groups.rows.x)
    if n <= most:
        return groups
    kept = np.sort(np.random.default_rng(0).choice(n, most, replace=False))
    rows = groups.rows
    labels = rows.y[kept] if len(rows.y) else rows.y
    fewer = rows._replace(x=rows.x[kept], y=labels, numbers=None)
    view = groups.view.taken(kept)
    return Groups(view, fewer, groups.noun, groups.probabilities[kept])


def _drawn(
    name: str,
    title: str,
    words: str,
    told: str,
    draw: Callable[[Any], Any],
    *,
    column: str = "",
    **how: Any,
) -> Iterator[Figure]:
    try:
        yield Figure(name, title, words, picture(draw, name, told, **how), column)
    except NoPictureError:
        return
