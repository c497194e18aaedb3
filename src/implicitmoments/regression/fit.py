"""Fit of a mixture of regressions: several starts, moves on a sample, EM on all rows."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np

from implicitmoments.moments.components import Components
from implicitmoments.regression.family import LineFamily, least_ratio
from implicitmoments.regression.initialisation import (
    LineStart,
    WaveRows,
    decode_moments,
    first_lines,
    search_span,
)
from implicitmoments.regression.line_search import (
    EM_ON_SAMPLE,
    LEAST_PATIENCE,
    N_MOVES,
    Found,
    check_larger,
    in_noise,
    local_budget,
    one_line,
    rows_for,
    rows_needed,
    some_of,
)
from implicitmoments.regression.lines import Lines, Model
from implicitmoments.regression.unexplained import (
    Peak,
    Unexplained,
    highest_peak,
    rows_for_peaks,
    unexplained,
)
from implicitmoments.rows import Rows
from implicitmoments.search import (
    WHOLE,
    Budget,
    Chosen,
    Fitted,
    bic,
    choose_k,
    fit_neighbours,
    merge_cheapest,
    run_em,
)

FEWEST_FOR_PEAKS, PER_LINE_FOR_PEAKS = 50_000, 4_000  # rows: the noise of a peak is 1 / √2n
ALWAYS = (1, 2, 3)  # numbers of lines that are tried in few rows, whatever a search from one finds
BESIDE = replace(EM_ON_SAMPLE, steps=20)  # EM on all rows of a number beside the best
USUAL_LINES = 12  # for which rows are sampled where the number is to be chosen


@dataclass(frozen=True, eq=False)
class Start:
    """Lines to start from."""

    first: LineStart
    n_decoded: int  # vectors decoded from the moments
    decoded: Components | None  # what was decoded from the moments


@dataclass(frozen=True, eq=False)
class KLines:
    """A fit of a given number of lines to all rows."""

    em: Fitted[Lines]  # of EM on all rows
    found: Found  # by the last search
    checked: Found  # on the largest sample
    start: Start
    peak: Peak  # of the residual
    apart: float  # nats by which two independent searches differed


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
    data = _Data(family, rows, many, gaussian, seed, replace(WHOLE, steps=max_iter, tol=tol))
    fits = _choose(data, most) if k is None else {k: _fit_k(data, k)}
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


@dataclass(frozen=True, eq=False)
class _Data:
    """Rows, and what is the same for fits of any number of lines."""

    family: LineFamily
    rows: Rows  # all of them
    many: Rows  # held in memory; all where they are few enough
    gaussian: bool
    seed: int
    budget: Budget  # of EM on all rows

    def bic(self, fit: KLines) -> float:
        """Return BIC of all rows."""
        total = self.rows.total
        return bic(fit.em.level * total, self.family.n_parameters(fit.em.state), total)


def _fit_k(data: _Data, k: int, others: Sequence[Lines] = ()) -> KLines:
    """Fit k lines; ``others`` compete with the usual start."""
    family, many, rng = data.family, data.many, np.random.default_rng(data.seed)
    q, apart, peak = many.n_features - 1, 0.0, None
    some, rough = some_of(many, rows_for(k, q)), some_of(many, rows_for_peaks(k, q))
    start = _start(family.model, rough, k, data.seed)
    few = many.kept < rows_for(k, q)
    found = Found.best_of(family, some, [start.first.lines, *([] if few else others)], rng)
    # with few rows, and with discrete inputs, lines may be wrong and seem settled
    trusted = not few and (data.gaussian or found.patience(few=few) < LEAST_PATIENCE)
    if trusted and found.settled:
        peak = highest_peak(family.model, rough, found.state, rng)
    searched = k > 1 and (peak is None or peak.unexplained)
    if searched:
        found, apart = found.cross(few=few, trusted=trusted)
        if few and others:  # after what a fit without them finds
            found = Found.best_of(family, some, [found.state, *others], rng)
        found, peak = found.move() if not (trusted and found.settled) else found, None
    doubt = searched and (not data.gaussian or found.promising)
    found, checked = check_larger(data.rows, found, doubt=doubt)
    if peak is None or found.accepted:
        peak = highest_peak(family.model, rough, checked.state, rng)
    # EM on all rows.
    em = run_em(family, data.rows, checked.state, data.budget)
    return KLines(em, found, checked, start, peak, apart)


def _start(model: Model, rows: Rows, k: int, seed: int) -> Start:
    """Start at peaks of the characteristic function, and at decoded moments."""
    vectors, decoded = decode_moments(rows, k, seed)
    waves = WaveRows.of(rows, search_span(rows, k))
    first = first_lines(waves, k, model, np.random.default_rng(seed), vectors)
    return Start(first, len(vectors), decoded)


def _choose(data: _Data, most: int) -> dict[int, KLines]:
    """Return fits of several numbers of lines, the best of them by BIC and its neighbours.

    Lines are grown from one on a sample, which shows about how many there are. Where rows are few,
    that number, the smallest ones and the neighbours of the best are then fitted as if they were
    asked for; in noise, all but the smallest ones. Else only the best is, and its neighbours are
    it with a line split, or two merged.
    """
    q, rng = data.many.n_features - 1, np.random.default_rng(data.seed)
    some = some_of(data.many, rows_for(1, q))
    one, n_moves = one_line(data.family, some), N_MOVES if some.n == data.many.kept else 0
    grown = choose_k(data.family, some, one, most, n_moves, rng, EM_ON_SAMPLE, local_budget(some))
    begun = grown.searched.state
    needed = rows_needed(begun)
    if some.n < data.many.kept and needed >= 2 * some.n:  # light lines, or noise
        some = some_of(data.many, needed)
        local = local_budget(some)
        grown = choose_k(data.family, some, begun, most, 0, rng, EM_ON_SAMPLE, local)
    held, state = replace(data, rows=data.many), grown.searched.state
    few = data.many.kept < rows_for(state.k, q)
    # in noise EM from a split takes many steps, and BIC of a neighbour may fall late
    if few or in_noise(state):
        first = {*ALWAYS, state.k} if few else {state.k}
        fits = _fit_each(held, grown, first, most, rng)
    else:
        fits = _fit_around(held, state, most)
    if held.rows.kept == data.rows.kept:
        return fits
    best = min(fits, key=lambda k: held.bic(fits[k]))
    return {
        k: replace(fits[k], em=run_em(data.family, data.rows, fits[k].em.state, data.budget))
        for k in {best - 1, best, best + 1} & set(fits)
    }


def _fit_each(
    data: _Data, grown: Chosen[Lines], first: Set[int], most: int, rng: np.random.Generator
) -> dict[int, KLines]:
    """Fit some numbers of lines, and the neighbours of the best."""

    def fit(k: int) -> KLines:
        return _fit_k(data, k, [grown.states[k]] if k in grown.states else [])

    fits = fit_neighbours(fit, data.bic, first, most)
    best = min(fits, key=lambda k: data.bic(fits[k]))
    if best + 1 in fits:  # which found other lines, perhaps better ones
        less = merge_cheapest(data.family, data.rows, fits[best + 1].em.state)
        em = run_em(data.family, data.rows, less, data.budget)
        if em.level > fits[best].em.level:
            found = Found.best_of(data.family, fits[best].found.rows, [em.state], rng)
            fits[best] = replace(fits[best], em=em, found=found, checked=found)
    return fits


def _fit_around(data: _Data, state: Lines, most: int) -> dict[int, KLines]:
    """Fit as many lines as a state has, and more or fewer while BIC falls."""
    fits = dict[int, KLines]()
    while True:
        k = state.k
        fits[k] = best = _fit_k(data, k, [state])
        more = best.found.more
        if more is not None and k < more.state.k <= most and more.state.k not in fits:
            state = more.state
            continue
        beside = dict[int, KLines]()
        if k < most and k + 1 not in fits:
            larger = best.found.ranking.apply(best.found.state, np.zeros(1, dtype=np.int64))
            beside[k + 1] = _refit(data, best, larger)
        if k > 1 and k - 1 not in fits and best.found.merges is not None:
            beside[k - 1] = _refit(data, best, best.found.merges.apply(best.found.state))
        better = [each for each in beside.values() if data.bic(each) < data.bic(best)]
        fits |= beside
        if not better:
            return fits
        state = min(better, key=data.bic).em.state


def _refit(data: _Data, fit: KLines, state: Lines) -> KLines:
    """Return a fit with other lines, as far as its BIC may be lower."""
    state, total = run_em(data.family, fit.found.rows, state, EM_ON_SAMPLE).state, data.rows.total
    penalty = bic(0.0, data.family.n_parameters(state), total)
    least = (penalty - data.bic(fit)) / (2 * total)
    return replace(fit, em=run_em(data.family, data.rows, state, BESIDE, least))
