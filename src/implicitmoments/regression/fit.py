"""Fit of a mixture of regressions: a given number of lines, or as many as minimise BIC."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from implicitmoments.regression.family import LineFamily, least_ratio
from implicitmoments.regression.k_lines import Data, KLines, fit_k
from implicitmoments.regression.line_search import rows_for, some_of
from implicitmoments.regression.lines import Lines, Model
from implicitmoments.regression.number_of_lines import USUAL_LINES, choose_number
from implicitmoments.regression.unexplained import Unexplained, unexplained
from implicitmoments.rows import Rows
from implicitmoments.search import WHOLE

FEWEST_FOR_PEAKS, PER_LINE_FOR_PEAKS = 50_000, 4_000  # rows: the noise of a peak is 1 / √2n


@dataclass(frozen=True, eq=False)
class FittedLines:
    """Lines fitted to all rows."""

    lines: Lines  # the heaviest first
    fit: KLines
    left: Unexplained
    at_floor: list[int]  # lines whose noise is as small as it may be
    # where the number of lines was chosen: BIC, and the nats by which two searches differed
    bic_by_k: dict[int, float] = field(default_factory=dict)
    apart_by_k: dict[int, float] = field(default_factory=dict)


def fit_lines(
    rows: Rows,
    k: int | None,
    model: Model,
    *,
    most: int,
    gaussian: bool,
    seed: int,
    max_iter: int,
    tol: float,
) -> FittedLines:
    """Fit k lines, or as many as minimise BIC.

    Parameters
    ----------
    most : int
        The largest number of lines.
    gaussian : bool
        Whether the inputs look Gaussian: the characteristic function then has no false peaks.
    max_iter, tol : int and float
        Of EM on all rows.
    """
    q = rows.n_features - 1
    # the floor of the noise is for the rows that are searched, and the same for all k
    family = LineFamily(model, least_ratio(min(rows.kept, rows_for(1, q)), q))
    about = k or min(most, USUAL_LINES)
    many = some_of(rows, max(FEWEST_FOR_PEAKS, PER_LINE_FOR_PEAKS * about))
    data = Data(family, rows, many, gaussian, seed, replace(WHOLE, steps=max_iter, tol=tol))
    fits = choose_number(data, most) if k is None else {k: fit_k(data, k)}
    scores = {number: data.bic(fit) for number, fit in sorted(fits.items())}
    best = fits[min(scores, key=scores.__getitem__)]
    order = np.argsort(-best.em.state.weights, kind="stable")
    lines = best.em.state.keep(order)
    left = unexplained(best.found, best.checked, best.em.state, many, best.peak, order)
    at_floor = family.at_floor(lines).tolist()
    if k is not None:
        return FittedLines(lines, best, left, at_floor)
    apart = {number: fit.apart for number, fit in fits.items()}
    return FittedLines(lines, best, left, at_floor, scores, apart)
