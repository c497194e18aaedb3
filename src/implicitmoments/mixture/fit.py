"""The whole fit: starts compete, moves on a sample, EM on all rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from implicitmoments.mixture.family import SphericalFamily
from implicitmoments.mixture.likelihood import Mixture
from implicitmoments.mixture.sample import Sample, draw_sample
from implicitmoments.mixture.starts import Start, choose_start, decode_moments, spectral_rank
from implicitmoments.rows import Rows
from implicitmoments.search import SEARCH, Budget, Fitted, Searched, choose_k, run_em, search_moves

__all__ = ["Fit", "Options", "fit_mixture"]

# A component lighter than 0.25/k, or one that the moments do not resolve, needs more rows to be
# told from a tail of another.
FAINT, MORE_ROWS = 0.25, 4


@dataclass(frozen=True)
class Options:
    """What the user chose.

    Attributes
    ----------
    order : int or None
        Order r of the components decoded from the moments.
    n_moves : int
        The most moves that are tried.
    final : Budget
        Of EM on all rows.
    """

    order: int | None
    n_moves: int
    final: Budget


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted mixture, in the units of the rows it was fitted to.

    Attributes
    ----------
    fitted : Fitted
    start : Start
    stats : dict
        What was measured.
    """

    fitted: Fitted[Mixture]
    start: Start
    stats: dict[str, Any]


def fit_mixture(
    rows: Rows,
    k: int | None,
    most: int,
    family: SphericalFamily,
    options: Options,
    rng: np.random.Generator,
) -> Fit:
    """Fit k components, or as many as the Bayesian information criterion chooses.

    Parameters
    ----------
    rows : Rows
    k : int or None
        None to choose a number up to ``most``.
    most : int
    family : SphericalFamily
    options : Options
    rng : Generator

    Returns
    -------
    Fit
    """
    clock = _Clock()
    n = SEARCH.rows_for(k or most)
    sample = draw_sample(rows, n, rng, k or most)
    most = min(most, sample.n)
    first = k or spectral_rank(sample, most, family.model)
    decoded = decode_moments(rows, first, family.model, options.order, rng)
    start = choose_start(sample, first, decoded, family, rng)
    clock.read("seconds_start")

    found: dict[str, Any] = {}
    if k is None:
        chosen = choose_k(family, sample, start.mixture, most, options.n_moves, rng)
        searched = chosen.searched
        found = {"spectral_components": first, "sample_bic": chosen.scores}
        if searched.state.k != first:  # describe the moments of the number that was chosen
            again = decode_moments(rows, searched.state.k, family.model, options.order, rng)
            start = replace(start, decoded=again)
    else:
        searched = search_moves(family, sample, start.mixture, options.n_moves, rng)
    doubtful = searched.state.k > 1 and not (start.decoded.clear and _heavy(searched.state))
    if doubtful and n < rows.kept and options.n_moves:
        sample = draw_sample(rows, MORE_ROWS * n, rng, searched.state.k)
        searched = _search_again(searched, family, sample, options, rng)
    clock.read("seconds_search")

    fitted = run_em(family, rows, searched.state, options.final)
    clock.read("seconds_em")
    stats = {
        "start": start.kind,
        "start_log_likelihood": start.levels,
        **(start.decoded.numbers or {}),
        **found,
        "sample_rows": sample.n,
        "n_moves": searched.accepted,
        "n_moves_tried": searched.tried,
        **clock.seconds,
    }
    return Fit(fitted, start, stats)


def _heavy(mixture: Mixture) -> bool:
    return float(mixture.weights.min()) >= FAINT / mixture.k


def _search_again(
    before: Searched[Mixture],
    family: SphericalFamily,
    sample: Sample,
    options: Options,
    rng: np.random.Generator,
) -> Searched[Mixture]:
    """Search on more rows, and count the moves of both searches."""
    after = search_moves(family, sample, before.state, options.n_moves, rng)
    return replace(
        after, accepted=before.accepted + after.accepted, tried=before.tried + after.tried
    )


class _Clock:
    """Seconds of the stages of a fit."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._at = perf_counter()

    def read(self, name: str) -> None:
        """Note the seconds since the last stage."""
        now = perf_counter()
        self.seconds[name], self._at = now - self._at, now
