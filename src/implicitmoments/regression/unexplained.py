"""What fitted lines leave unexplained: peaks of the residual, other numbers, other noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.regression.family import LineFamily
from implicitmoments.regression.line_search import SAMPLE_ROWS, Found, some_of
from implicitmoments.regression.lines import Lines
from implicitmoments.regression.residual_peak import Peak
from implicitmoments.rows import Rows
from implicitmoments.search import Alternative, Ranking, one_more
from implicitmoments.search.alternatives import penalty_of
from implicitmoments.search.em import Places
from implicitmoments.search.tails import Rival, compare_laws, suspicious


@dataclass(frozen=True, eq=False)
class Unexplained:
    """Measurements of the residuals, on the sample on which lines were searched."""

    peak: Peak
    split_gains: Floats  # (k,), rise of the log-likelihood of some rows if a line is split
    split_penalty: float  # the rise above which BIC of those rows prefers the split
    # one line less, and more of them, if BIC of those rows is lower
    less: Alternative[Lines] | None
    more: Alternative[Lines] | None
    # other laws of the noise, as far as they were compared, and the best if it is clearly better
    rivals: dict[str, Rival[Lines]]
    law: str | None


def unexplained(
    found: Found, checked: Found, lines: Lines, many: Rows, peak: Peak, order: Places
) -> Unexplained:
    """Measure the residuals: remaining peaks, and predicted gains of splits.

    Parameters
    ----------
    found, checked : Found
        Lines on the sample that was searched last, and on the largest.
    lines : Lines
        After EM on all rows.
    many : Rows
        Of which laws of the noise are compared.
    order : array of shape (k,)
        Of the lines.
    """
    family, ranking = found.family, found.ranking
    gains, splits = np.zeros(lines.k), ranking.origins >= 0
    gains[ranking.origins[splits]] = ranking.gains[splits]
    larger = lines.split(0, lines.take(np.array([0, 0])))
    penalty = penalty_of(family, lines, larger, found.rows.total)
    places = np.argsort(order)
    less, more = (
        each and replace(each, components=tuple(int(places[c]) for c in each.components))
        for each in (checked.less, found.more)
    )
    return Unexplained(
        peak, gains[order], penalty, less, more, *_rivals(family, many, lines, ranking)
    )


def _rivals(
    family: LineFamily, rows: Rows, lines: Lines, ranking: Ranking[Lines]
) -> tuple[dict[str, Rival[Lines]], str | None]:
    """Compare Gaussian noise with heavier tails; if clear, with other ways to explain them.

    Returns the fits of other laws, and the best of them unless a further line is better.
    """
    model, some = family.model, some_of(rows, SAMPLE_ROWS)
    if model.student or not suspicious(family, some, lines, 1, ranking):
        return {}, None
    compare = partial(compare_laws, family, rows=some, state=lines, q=1, sampled=some.n < rows.n)
    rivals = {"student": compare(replace(family, model=replace(model, student=True)))}
    if not rivals["student"].clear:
        return rivals, None
    if model.shared and lines.k > 1:
        rivals["separate"] = compare(replace(family, model=replace(model, shared=False)))
    best = max(rivals, key=lambda name: rivals[name].gain)
    more = one_more(family, lines, ranking, some, family.e_step(some, lines).level)
    return rivals, best if more is None or more.gain < rivals[best].gain else None
