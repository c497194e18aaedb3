"""Fit of a spherical mixture: two starts, moves on a sample, EM on all rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.cluster import kmeans_plusplus

from implicitmoments.mixture.decode import DecodedMixture, decode_moments, spectral_rank
from implicitmoments.mixture.family import Mixture, SphericalFamily
from implicitmoments.mixture.sample import AnyRows, Sample, draw_sample
from implicitmoments.moments.decode import Components
from implicitmoments.rows import Rows
from implicitmoments.search import (
    SEARCH,
    Budget,
    Fitted,
    bic,
    choose_k,
    merge_cheapest,
    run_em,
    search_moves,
)

QUICK = replace(SEARCH, steps=40, tol=2e-5)  # EM before starts are compared: it need not converge
CLEARLY = 2.0  # log-likelihood gain on the sample required to prefer k-means++
# A component lighter than 0.25/k, or one that the moments do not resolve, needs more rows to be
# distinguished from a tail of another.
FAINT, MORE_ROWS = 0.25, 4


@dataclass(frozen=True)
class Options:
    """Parameters chosen by the user."""

    k: int | None  # number of components; None to choose it by the Bayesian information criterion
    most: int  # the largest number that is tried
    order: int | None  # order r of the components decoded from the moments
    n_moves: int  # the most moves that are tried
    final: Budget  # of EM on all rows


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted mixture, in the units of the rows it was fitted to."""

    fitted: Fitted[Mixture]
    components: Components | None  # decoded from the moments
    stats: dict[str, Any]  # what was measured
    fewer: int | None = None  # a smaller number of components of lower BIC, if one was found


def fit_mixture(
    rows: Rows, family: SphericalFamily, options: Options, rng: np.random.Generator
) -> Fit:
    """Fit standardised rows without outliers."""
    k, most, n_moves, times = options.k, options.most, options.n_moves, [perf_counter()]
    n = SEARCH.rows_for(k or most)
    sample = draw_sample(rows, n, rng, k or most)
    most = min(most, sample.n)
    # 1. Start: the mixture decoded from the moments, or k-means++ if its likelihood is higher.
    first = k or spectral_rank(sample, most, family)
    decoded = decode_moments(rows, sample, first, family, options.order, rng)
    state, kind, levels = choose_start(sample, first, decoded, family, rng)
    times.append(perf_counter())
    # 2. Moves on a sample, or the number of components of least BIC; on more rows where in doubt.
    stats, moves = dict[str, Any](), []
    if k is None:
        chosen = choose_k(family, sample, state, most, n_moves, rng)
        state, moves = chosen.searched.state, [chosen.searched]
        stats = {"spectral_components": first, "bic_by_n_components": chosen.scores}
        if state.k != first:  # describe the moments of the number that was chosen
            decoded = decode_moments(rows, sample, state.k, family, options.order, rng)
    elif n_moves:
        moves = [search_moves(family, sample, state, n_moves, rng)]
        state = moves[0].state
    light = float(state.weights.min()) < FAINT / state.k
    if state.k > 1 and (light or not decoded.clear) and n < rows.kept and n_moves:
        sample = draw_sample(rows, MORE_ROWS * n, rng, state.k)
        moves.append(search_moves(family, sample, state, n_moves, rng))
        state = moves[-1].state
    times.append(perf_counter())
    # 3. EM on all rows.
    fitted = run_em(family, rows, state, options.final)
    times.append(perf_counter())
    seconds = zip(("seconds_start", "seconds_search", "seconds_em"), np.diff(times), strict=True)
    stats = {
        "start": kind,
        "start_log_likelihood": levels,
        **decoded.numbers,
        **stats,
        "sample_rows": sample.n,
        "n_moves": sum(searched.accepted for searched in moves),
        "n_moves_tried": sum(searched.tried for searched in moves),
        **{name: float(taken) for name, taken in seconds},
    }
    # 4. Check: is BIC lower with one component less?
    more = None if sample.total == rows.total else rows
    one_less = k is not None and one_less_suffices(family, fitted.state, sample, more)
    return Fit(fitted, decoded.components, stats, fitted.state.k - 1 if one_less else None)


def choose_start(
    sample: Sample,
    k: int,
    decoded: DecodedMixture,
    family: SphericalFamily,
    rng: np.random.Generator,
) -> tuple[Mixture, str, dict[str, float]]:
    """Run EM on a sample from the moments and from k-means++; choose the higher likelihood.

    Returns
    -------
    mixture : Mixture
    kind : {"moments", "kmeans++"}
    levels : dict of str to float
        Mean log-likelihood of each start that competed.
    """
    if k == 1:
        one = Mixture(np.ones(1), np.zeros((1, sample.n_features)), np.ones(1))
        return family.m_step(family.e_step(sample, one), one), "moments", {}
    starts = {"kmeans++": kmeans_mixture(sample, k, family, rng)}
    if decoded.mixture is not None:
        starts["moments"] = decoded.mixture
    settled = {kind: run_em(family, sample, start, QUICK) for kind, start in starts.items()}
    levels = {kind: found.level for kind, found in settled.items()}
    ahead = (levels["kmeans++"] - levels.get("moments", -np.inf)) * sample.total
    kind = "kmeans++" if ahead > CLEARLY else "moments"
    return settled[kind].state, kind, levels


def kmeans_mixture(
    sample: Sample, k: int, family: SphericalFamily, rng: np.random.Generator
) -> Mixture:
    """Initialise the means by k-means++."""
    points, counts = sample.points, sample.weights
    n = min(k, len(points))
    seed = int(rng.integers(2**31))
    means, _ = kmeans_plusplus(points, n, sample_weight=counts, random_state=seed)
    means = means.astype(np.float64)
    apart = np.sum(means**2, axis=1) - 2 * points @ means.T
    squared = np.maximum(apart.min(axis=1) + np.einsum("ij,ij->i", points, points), 0.0)
    # A row and the mean next to it, which is a row too, both carry the noise.
    variance = 0.5 * float(np.average(squared, weights=counts)) / sample.n_features
    variance = family.known or max(variance, family.floor)
    if n < k:  # one component per row, and the rest on top of them
        means = np.vstack([means, means[rng.integers(n, size=k - n)]])
    return Mixture(np.full(k, 1 / k), means, np.full(k, variance))


def one_less_suffices(
    family: SphericalFamily, state: Mixture, sample: Sample, rows: Rows | None = None
) -> bool:
    """Return whether BIC is lower after the cheapest merge of two components, followed by EM.

    On a sample; and if it is lower there on all rows, where they are given: they may show a
    component that a sample does not.
    """
    if state.k == 1:
        return False
    less = merge_cheapest(family, sample, state)
    saved = family.n_parameters(state) - family.n_parameters(less)
    parts: list[AnyRows] = [sample] if rows is None else [sample, rows]
    for part in parts:
        found = run_em(family, part, less, QUICK)
        gain = part.total * (family.e_step(part, state).level - found.level)
        if bic(gain, saved, part.total) < 0:
            return False
        less = found.state
    return True
