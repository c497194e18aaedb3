"""Choose the number of lines: growth on samples, then fits of a number and its neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

import numpy as np

from implicitmoments.regression.initialisation import (
    LineStart,
    WaveRows,
    clear_peaks,
    lines_at,
    search_span,
)
from implicitmoments.regression.k_lines import Begun, Data, KLines, Start, begin, fit_k
from implicitmoments.regression.line_search import (
    EM_ON_SAMPLE,
    GROWTH,
    N_MOVES,
    Found,
    add_line,
    has_light,
    local_budget,
    one_line,
    rows_for,
    rows_needed,
    some_of,
)
from implicitmoments.regression.lines import Lines
from implicitmoments.regression.residual_peak import highest_peak
from implicitmoments.search import bic, choose_k, fit_neighbours, merge_cheapest, run_em
from implicitmoments.search.alternatives import chance_loss
from implicitmoments.search.em import MORE_ROWS

ALWAYS = (1, 2, 3)  # numbers of lines that are tried in few rows, whatever a search from one finds
BESIDE = replace(EM_ON_SAMPLE, steps=20)  # EM on all rows of a number beside the best
USUAL_LINES = 12  # for which rows are sampled, and points drawn, where the number is to be chosen


def choose_number(data: Data, most: int) -> dict[int, KLines]:
    """Return fits of several numbers of lines, the best of them by BIC and its neighbours.

    Lines are grown on samples, which shows about how many there are. Where rows are few, that
    number, the smallest ones and the neighbours of the best are then fitted as if they were asked
    for. Else only that number is, and its neighbours are it with one line more or less.
    """
    rng = np.random.default_rng(data.seed)
    held, n = replace(data, rows=data.many), rows_for(1, data.many.n_features - 1)
    some = some_of(data.many, n)
    one = one_line(data.family, some)
    if some.n == data.many.kept:
        local = local_budget(some)
        grown = choose_k(data.family, some, one, most, N_MOVES, rng, EM_ON_SAMPLE, local)
        fits = _fit_each(held, grown.states, {*ALWAYS, grown.searched.state.k}, most, rng)
    else:
        fits = _fit_around(held, one, n, most, rng)
    if held.rows.kept == data.rows.kept:
        return fits
    best = min(fits, key=lambda k: held.bic(fits[k]))
    return {
        k: replace(fits[k], em=run_em(data.family, data.rows, fits[k].em.state, data.budget))
        for k in {best - 1, best, best + 1} & set(fits)
    }


def _fit_each(
    data: Data,
    known: Mapping[int, Lines],
    first: Set[int],
    most: int,
    rng: np.random.Generator,
) -> dict[int, KLines]:
    """Fit some numbers of lines, and the neighbours of the best.

    Parameters
    ----------
    known : mapping of int to Lines
        Lines that compete, by their number.
    """

    def fit(k: int) -> KLines:
        return fit_k(data, k, [known[k]] if k in known else [])

    fits = fit_neighbours(fit, data.bic, first, most)
    return _improved(data, fits, set(fits), rng)


def _improved(
    data: Data, fits: dict[int, KLines], fitted: Set[int], rng: np.random.Generator
) -> dict[int, KLines]:
    """Return fits whose best has other lines, where a fit of one line more has found better ones.

    Parameters
    ----------
    fitted : set of int
        Numbers that were fitted as if they were asked for.
    """
    best = min(fits, key=lambda k: data.bic(fits[k]))
    if best + 1 not in fitted:
        return fits
    less = merge_cheapest(data.family, data.rows, fits[best + 1].em.state)
    em = run_em(data.family, data.rows, less, data.budget, fits[best].em.level)
    if em.level <= fits[best].em.level:
        return fits
    found = Found.best_of(data.family, fits[best].found.rows, [em.state], rng)
    return fits | {best: replace(fits[best], em=em, found=found, checked=found)}


def _fit_around(
    data: Data, lines: Lines, n: int, most: int, rng: np.random.Generator
) -> dict[int, KLines]:
    """Fit as many lines as a sample shows, and more or fewer while BIC falls.

    Parameters
    ----------
    lines : Lines
        Where growth begins, on a sample of n rows.
    """
    begun, n = _grow(data, lines, n, most, rng)
    if data.few(begun.found.state.k):
        state = begun.found.state
        return _fit_each(data, {state.k: state}, {*ALWAYS, state.k}, most, rng)
    fits, whole, rough = dict[int, KLines](), set[int](), dict[int, Begun]()
    while True:
        k = begun.found.state.k
        if begun.settled and not has_light(begun.found.state):
            # EM on all rows is slow where lines are missing
            rough[k], fits[k] = begun, _rough_fit(data, begun, rng)
        else:
            whole, fits[k] = whole | {k}, fit_k(data, k, begun=begun)
        tried = whole | set(rough)
        if any(data.bic(fits[each]) < data.bic(fits[k]) for each in tried):
            break
        other = _other_number(data, fits, fits[k], most)
        if other is None or other.k in tried:
            break
        begun = _begin_at(data, other, 0, rng)
        if n < data.many.kept:  # the sample did not show all lines
            grown, n = _grow(data, other, MORE_ROWS * n, most, rng)
            begun = begun if grown.found.state.k in tried else grown
    best = min(fits, key=lambda k: data.bic(fits[k]))
    if best not in whole:
        begun = rough.get(best) or _begin_at(data, fits[best].em.state, 0, rng)
        whole, fits[best] = whole | {best}, fit_k(data, best, begun=begun)
    return _improved(data, fits, whole, rng)


def _rough_fit(data: Data, begun: Begun, rng: np.random.Generator) -> KLines:
    """Return lines that are settled on a sample after some EM on all rows."""
    found, model = begun.found, data.family.model
    em = run_em(data.family, data.rows, found.state, BESIDE)
    peak = begun.peak or highest_peak(model, found.rows, found.state, rng)
    return KLines(em, found, found, begun.start, peak, 0.0)


def _grow(
    data: Data, state: Lines, n: int, most: int, rng: np.random.Generator
) -> tuple[Begun, int]:
    """Return lines that are settled on a sample of n rows or more, and how many it has.

    Lines that were grown on a smaller sample compete with peaks of the characteristic function.
    """
    family, many, model = data.family, data.many, data.family.model
    peaks, before = np.zeros((0, many.n_features - 1)), 0
    while True:
        some = some_of(many, n)
        waves = WaveRows.of(some, search_span(some, USUAL_LINES))
        peaks = clear_peaks(waves, max(USUAL_LINES, 2 * len(peaks)), model, rng, peaks)[:most]
        best = Found.best_of(family, some, [state], rng, GROWTH)
        if len(peaks) > state.k:
            other = best.from_lines(lines_at(peaks, model), GROWTH).reduced()
            best = min(best, other, key=lambda found: found.bic)
        state = _grown(best, most).state
        begun, enough = _begin_at(data, state, len(peaks), rng), rows_needed(state) < 2 * some.n
        most_held = some.n == many.kept or some.n < 2 * before  # memory holds no more
        if most_held or (begun.settled and enough):
            return begun, some.n
        before, n = some.n, MORE_ROWS * n


def _grown(found: Found, most: int) -> Found:
    """Add lines while that lowers BIC of the sample: the highest peak of the residual, or splits.

    Where lines overlap a peak that is no higher than those of noise is still the best guess.
    """
    while found.state.k < most:
        peak = highest_peak(found.family.model, found.rows, found.state, found.rng)
        other = found.with_line(peak.point)
        if other.bic < found.bic:
            found = other
        elif found.more is not None and found.more.state.k <= most:
            found = found.from_lines(found.more.state, GROWTH)
        else:
            break
    return found


def _begin_at(data: Data, lines: Lines, n_peaks: int, rng: np.random.Generator) -> Begun:
    return begin(data, Start(LineStart(lines, n_peaks, n_peaks), 0, None), [], rng)


def _other_number(data: Data, fits: dict[int, KLines], best: KLines, most: int) -> Lines | None:
    """Return more lines or one less, if BIC is lower or may be; the neighbours go to ``fits``."""
    found, k, better = best.found, best.em.state.k, list[KLines]()
    more = found.more
    if more is not None and k < more.state.k <= most and more.state.k not in fits:
        return more.state
    if k < most and k + 1 not in fits:
        split = found.ranking.apply(found.state, np.zeros(1, dtype=np.int64))
        larger = _refit(data, best, [split, add_line(found.state, best.peak.point)])
        fits[k + 1], rise = larger, (larger.em.level - best.em.level) * data.rows.total
        # what chance does not explain may be a line that EM reaches only by a search
        chance = chance_loss(data.family, larger.em.state, best.em.state)
        if rise > chance or data.bic(larger) < data.bic(best):
            better.append(larger)
    if k > 1 and k - 1 not in fits and found.merges is not None:
        fits[k - 1] = smaller = _refit(data, best, [found.merges.apply(found.state)])
        if data.bic(smaller) < data.bic(best):
            better.append(smaller)
    return min(better, key=data.bic).em.state if better else None


def _refit(data: Data, fit: KLines, states: Sequence[Lines]) -> KLines:
    """Return a fit with other lines, as far as its BIC may be lower."""
    each = [run_em(data.family, fit.found.rows, state, EM_ON_SAMPLE) for state in states]
    state, total = max(each, key=lambda em: em.level).state, data.rows.total
    penalty = bic(0.0, data.family.n_parameters(state), total)
    least = (penalty - data.bic(fit)) / (2 * total)
    return replace(fit, em=run_em(data.family, data.rows, state, BESIDE, least))
