"""The whole fit: start, search on a sample, polish on all rows."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from implicitmoments.fitting.spherical.em import Polished, VarianceModel, polish
from implicitmoments.fitting.spherical.likelihood import Mixture
from implicitmoments.fitting.spherical.repair import repair
from implicitmoments.fitting.spherical.rows import Rows
from implicitmoments.fitting.spherical.start import Start, choose_start

__all__ = ["Fit", "Search", "finish", "fit_mixture", "fit_sample"]

ROWS_A_COMPONENT = 400  # in the sample that is searched
FEWEST_ROWS = 8_000
SETTLING, SETTLED = 60, 1e-5


@dataclass(frozen=True)
class Search:
    """How far to look and how long to polish.

    Attributes
    ----------
    order : int or None
        Order of the components read off the moments.
    n_repairs : int
    max_iter : int
    tol : float
        Of the mean log-likelihood of a row.
    """

    order: int | None = None
    n_repairs: int = 20
    max_iter: int = 200
    tol: float = 1e-7


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted mixture, in the units of the rows it was fitted to.

    Attributes
    ----------
    polished : Polished
    start : Start
    stats : dict
        What was measured.
    """

    polished: Polished
    start: Start
    stats: dict[str, Any]


def fit_mixture(
    rows: Rows, k: int, model: VarianceModel, search: Search, rng: np.random.Generator
) -> Fit:
    """Fit k components.

    Moments find where the components are; EM and repairs on a sample of the rows judge and
    complete them; EM on all rows makes them exact.
    """
    sample = rows.sample(max(FEWEST_ROWS, ROWS_A_COMPONENT * k), rng)
    mixture, start, stats = fit_sample(rows, sample, k, model, search, rng)
    return finish(rows, mixture, model, search, start, stats)


def finish(
    rows: Rows,
    mixture: Mixture,
    model: VarianceModel,
    search: Search,
    start: Start,
    stats: dict[str, Any],
) -> Fit:
    """Polish on all rows what was found on a sample of them."""
    clock = perf_counter()
    polished = polish(rows, mixture, model, search.max_iter, search.tol)
    return Fit(polished, start, {**stats, "seconds_polish": perf_counter() - clock})


def fit_sample(
    rows: Rows,
    sample: Rows,
    k: int,
    model: VarianceModel,
    search: Search,
    rng: np.random.Generator,
) -> tuple[Mixture, Start, dict[str, Any]]:
    """Start from moments and repair, on a sample of the rows."""
    clock = perf_counter()
    start = choose_start(rows, sample, k, model, search.order, rng)
    begun = perf_counter()
    stats = {**start.numbers, "sample_rows": sample.n, "seconds_start": begun - clock}
    if search.n_repairs == 0:
        return start.mixture, start, stats
    settled = polish(sample, start.mixture, model, SETTLING, SETTLED).mixture
    repaired = repair(sample, settled, model, search.n_repairs, rng)
    stats |= {
        "repairs": repaired.accepted,
        "repairs_tried": repaired.tried,
        "repair_gain": repaired.gain / sample.total,
        "seconds_search": perf_counter() - begun,
    }
    return repaired.mixture, start, stats
