"""The whole fit: start, search on a sample, polish on all rows."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from implicitmoments.mixture.em import Polished, VarianceModel, polish
from implicitmoments.mixture.initialisation import Start, choose_start
from implicitmoments.mixture.likelihood import Mixture
from implicitmoments.mixture.moment_start import read_moments
from implicitmoments.mixture.repair import Repaired, repair
from implicitmoments.mixture.standard_rows import Rows, Sample

__all__ = ["Fit", "Search", "finish", "fit_mixture", "fit_sample"]

ROWS_A_COMPONENT = 400  # in the sample that is searched
ROWS_IF_UNCLEAR = 2_000  # what moments leave open takes more rows to tell
FEWEST_ROWS = 8_000
FAINT, MORE_ROWS = 0.25, 4  # below 0.25/k a weight has four times the rows searched again
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
    mixture, start, stats = fit_sample(rows, None, k, model, search, rng)
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
    sample: Sample | None,
    k: int,
    model: VarianceModel,
    search: Search,
    rng: np.random.Generator,
) -> tuple[Mixture, Start, dict[str, Any]]:
    """Start from moments and repair, on a sample of the rows.

    On the one given, or else on one that is larger where the moments are unclear.
    """
    clock = perf_counter()
    reading = read_moments(rows, k, model, search.order, rng) if k > 1 else None
    few = sample or rows.sample(max(FEWEST_ROWS, ROWS_A_COMPONENT * k), rng, k)
    start = choose_start(few, k, reading, model, rng)
    begun = perf_counter()
    stats = {**start.numbers, "seconds_start": begun - clock}
    if search.n_repairs == 0:
        return start.mixture, start, stats
    mixture = start.mixture
    if sample is None and reading is not None and not reading.clear:
        sample = rows.sample(max(FEWEST_ROWS, ROWS_IF_UNCLEAR * k), rng, k)
        if reading.mixture is not None and start.kind == "moments":
            mixture = reading.mixture  # EM on few rows may have led it astray
    sample = sample or few
    repaired = [_settle(sample, mixture, model, search, rng)]
    if repaired[0].mixture.weights.min() < FAINT / k and sample.n < rows.census.there:
        # few rows in a tail may look like a component, until there are more rows
        sample = rows.sample(MORE_ROWS * sample.n, rng, k)
        repaired.append(_settle(sample, repaired[0].mixture, model, search, rng))
    stats |= {
        "sample_rows": sample.n,
        "repairs": sum(one.accepted for one in repaired),
        "repairs_tried": sum(one.tried for one in repaired),
        "seconds_search": perf_counter() - begun,
    }
    return repaired[-1].mixture, start, stats


def _settle(
    sample: Sample,
    mixture: Mixture,
    model: VarianceModel,
    search: Search,
    rng: np.random.Generator,
) -> Repaired:
    settled = polish(sample, mixture, model, SETTLING, SETTLED).mixture
    return repair(sample, settled, model, search.n_repairs, rng)
