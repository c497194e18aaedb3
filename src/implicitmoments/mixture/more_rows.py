"""Moves on more rows, where the first sample does not tell components apart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from implicitmoments.mixture.starts import Options
from implicitmoments.rows import Rows
from implicitmoments.search import SEARCH, search_moves, worth_of_component
from implicitmoments.search.em import MORE_ROWS, most_rows

if TYPE_CHECKING:
    from implicitmoments.mixture.fit import Found

# A component lighter than 0.25/k needs more rows to be distinguished from a tail of another.
FAINT = 0.25


def search_more(
    best: Found, rows: Rows, sample: Rows, options: Options, rng: np.random.Generator
) -> Found:
    """Try moves on more rows where a component is light, or where the sample leaves some open.

    It may where it has fewer rows than a search asks for: only sure moves were made there.
    """
    view, k = best.view, best.state.k
    if k == 1 or sample.n >= rows.kept or not options.n_moves:
        return best
    light = float(best.state.weights.min()) < FAINT / k
    left = (at for searched in best.searched[-1:] for at in searched.ranking.promising())
    scarce = is_scarce(rows, k)
    if not (light or (scarce and next(left, None) is not None)):
        return best
    held = most_rows(k, rows.budget.held)
    n = min(MORE_ROWS * sample.n, SEARCH.rows_for(k, rows.n_features) if scarce else held)
    more = view.hold(rows.sample(n, rng)).merged()
    worth = worth_of_component(view.family, more, best.state)
    again = search_moves(view.family, more, best.state, options.n_moves, rng, worth=worth)
    return replace(best.after(again), searched=(*best.searched, again), sample=more)


def is_scarce(rows: Rows, k: int) -> bool:
    """Whether the first sample has fewer rows than a search asks for, so that it fits into memory.

    Only sure moves are made there, and others on more rows, which tell more of them apart.
    """
    wanted = min(rows.kept, SEARCH.rows_for(k, rows.n_features))
    return most_rows(k, rows.budget.held) < wanted
