"""The whole fit: starts compete, moves on a sample, EM on all rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from implicitmoments.mixture.family import SphericalFamily
from implicitmoments.mixture.likelihood import Mixture
from implicitmoments.mixture.sample import draw_sample
from implicitmoments.mixture.starts import Start, choose_start, decode_moments, spectral_rank
from implicitmoments.rows import Rows
from implicitmoments.search import SEARCH, Budget, Fitted, choose_k, run_em, search_moves

# A component lighter than 0.25/k, or one that the moments do not resolve, needs more rows to be
# distinguished from a tail of another.
FAINT, MORE_ROWS = 0.25, 4


@dataclass(frozen=True)
class Options:
    """What the user chose."""

    k: int | None  # number of components; None to choose it by the Bayesian information criterion
    most: int  # the largest number that is tried
    order: int | None  # order r of the components decoded from the moments
    n_moves: int  # the most moves that are tried
    final: Budget  # of EM on all rows


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted mixture, in the units of the rows it was fitted to."""

    fitted: Fitted[Mixture]
    start: Start
    stats: dict[str, Any]  # what was measured


def fit_mixture(
    rows: Rows, family: SphericalFamily, options: Options, rng: np.random.Generator
) -> Fit:
    """Fit standardised rows without outliers: starts compete, moves, EM on all rows."""
    k, most = options.k, options.most
    clock = _Clock()
    n = SEARCH.rows_for(k or most)
    sample = draw_sample(rows, n, rng, k or most)
    most = min(most, sample.n)
    first = k or spectral_rank(sample, most, family.model)
    decoded = decode_moments(rows, sample, first, family.model, options.order, rng)
    start = choose_start(sample, first, decoded, family, rng)
    clock.read("seconds_start")

    state, found, moves = start.mixture, dict[str, Any](), []
    if k is None:
        chosen = choose_k(family, sample, state, most, options.n_moves, rng)
        state, moves = chosen.searched.state, [chosen.searched]
        found = {"spectral_components": first, "sample_bic": chosen.scores}
        if state.k != first:  # describe the moments of the number that was chosen
            again = decode_moments(rows, sample, state.k, family.model, options.order, rng)
            start = replace(start, decoded=again)
    elif options.n_moves:
        moves = [search_moves(family, sample, state, options.n_moves, rng)]
        state = moves[0].state
    doubtful = state.k > 1 and not (start.decoded.clear and _heavy(state))
    if doubtful and n < rows.kept and options.n_moves:
        sample = draw_sample(rows, MORE_ROWS * n, rng, state.k)
        moves.append(search_moves(family, sample, state, options.n_moves, rng))
        state = moves[-1].state
    clock.read("seconds_search")

    fitted = run_em(family, rows, state, options.final)
    clock.read("seconds_em")
    stats = {
        "start": start.kind,
        "start_log_likelihood": start.levels,
        **(start.decoded.numbers or {}),
        **found,
        "sample_rows": sample.n,
        "n_moves": sum(searched.accepted for searched in moves),
        "n_moves_tried": sum(searched.tried for searched in moves),
        **clock.seconds,
    }
    return Fit(fitted, start, stats)


def _heavy(mixture: Mixture) -> bool:
    return float(mixture.weights.min()) >= FAINT / mixture.k


class _Clock:
    """Seconds of the stages of a fit."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._at = perf_counter()

    def read(self, name: str) -> None:
        """Note the seconds since the last stage."""
        now = perf_counter()
        self.seconds[name], self._at = now - self._at, now
