"""Fit of a mixture of regressions: several starts, moves on a sample, EM on all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.moments.components import Components
from implicitmoments.regression.family import LineFamily, least_ratio
from implicitmoments.regression.initialisation import (
    LineStart,
    WaveRows,
    decode_moments,
    first_lines,
    noise_maximum,
    peaks_left,
    search_span,
)
from implicitmoments.regression.lines import Lines, Model
from implicitmoments.rows import Rows
from implicitmoments.search import (
    LOCAL,
    SEARCH,
    WHOLE,
    Alternative,
    Budget,
    Fitted,
    Searched,
    bic,
    choose_k,

    cross_populations,
    fit_neighbours,
    grow,
    merge_cheapest,
    one_less,
    one_more,
    run_em,
    search_moves,
)
from implicitmoments.search.alternatives import worth_of_component
from implicitmoments.search.crossings import cross
from implicitmoments.search.em import Places
from implicitmoments.search.moves import OPTIMISM, Ranking
from implicitmoments.search.tails import Rival, compare_laws, suspicious

FEWEST_FOR_PEAKS, PER_LINE_FOR_PEAKS = 50_000, 4_000  # rows: the noise of a peak is 1 / √2n
ALWAYS = (1, 2, 3)  # numbers of lines that are tried, whatever a search from one line finds
HEIGHT, CLEAR = 0.7, 1.5  # of the peak of a line of noise 0.3, and times the noise maximum
USUAL_LINES = 12  # for which rows are sampled where the number is to be chosen
SAMPLE_ROWS, ROWS_PER_COEFFICIENT = 5_000, 50  # of a sample: the error of a coefficient is 0.14
LIGHTEST = 0.15  # of the mean weight: a lighter line does not enlarge the sample
LOUD, IN_NOISE = 0.36, 4  # share of noise in the variance of y from which so many times more rows
N_MOVES = 8  # tried on a sample; the first is usually the right one
# Failures in a row before crossings end: no more than so many products of features, rows x lines
# x coefficients², so that crossings take a few seconds at most; they are left out below the least.
# Where there are more rows than a sample, peaks and moves find most lines, and crossings get less.
PATIENCE, LEAST_PATIENCE, CROSSED_PRODUCTS, CROSSED_ON_SAMPLE = 24, 4, 2**26, 2**23
N_GROWTHS = 2  # one in each of the two populations
EM_ON_SAMPLE = replace(SEARCH, tol=1e-5)  # the last digits come from EM on all rows


@dataclass(frozen=True)
class Peak:
    """The highest peak of the characteristic function of the residual of lines."""

    height: float  # in standard errors
    bound: float  # where nothing but noise is left

    @property
    def unexplained(self) -> bool:
        """Whether noise does not explain it."""
        return self.height > self.bound


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


@dataclass(frozen=True, eq=False)
class Start:
    """Lines to start from."""

    first: LineStart
    n_decoded: int  # vectors decoded from the moments
    decoded: Components | None  # what was decoded from the moments


@dataclass(frozen=True, eq=False)
class Found:
    """Lines searched on a sample."""

    family: LineFamily
    rows: Rows  # the sample
    searched: Searched[Lines]
    accepted: int  # moves that raised the likelihood, on this and on smaller samples

    @property
    def state(self) -> Lines:
        """The lines."""
        return self.searched.state

    @property
    def level(self) -> float:
        """Mean log-likelihood per row of the sample."""
        return self.searched.log_likelihood / self.rows.total

    @cached_property
    def less(self) -> Alternative[Lines] | None:
        """One line less, if it loses no more than chance explains."""
        merges = self.searched.ranking.merges
        return one_less(self.family, self.state, merges, [(self.rows, self.level)])

    @cached_property
    def more(self) -> Alternative[Lines] | None:
        """More lines, if BIC of the sample is lower."""
        return one_more(self.family, self.state, self.searched.ranking, self.rows, self.level)

    @property
    def settled(self) -> bool:
        """Whether no move promises a gain, and no line is superfluous where it is."""
        return next(self.searched.ranking.promising(), None) is None and self.less is None


@dataclass(frozen=True, eq=False)
class KLines:
    """A fit of a given number of lines to all rows."""

    em: Fitted[Lines]  # of EM on all rows
    found: Found  # on a sample
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
    seed: int,
    max_iter: int,
    tol: float,
) -> FittedLines:
    """Fit k lines, or as many as minimise BIC.

    Parameters
    ----------
    most : int
        The largest number of lines.
    max_iter, tol : int and float
        Of EM on all rows.
    """
    q = rows.n_features - 1
    # the floor of the noise is for the rows that are searched, and the same for all k
    family = LineFamily(model, least_ratio(min(rows.kept, _rows_for(1, q)), q))
    about = k or min(most, USUAL_LINES)
    many = _some(rows, max(FEWEST_FOR_PEAKS, PER_LINE_FOR_PEAKS * about))
    data = _Data(family, rows, many, seed, replace(WHOLE, steps=max_iter, tol=tol))
    fits = _choose(data, most) if k is None else {k: _fit_k(data, k)}
    scores = {number: data.bic(fit) for number, fit in sorted(fits.items())}
    best = fits[min(scores, key=scores.__getitem__)]
    order = np.argsort(-best.em.state.weights, kind="stable")
    lines = best.em.state.keep(order)
    left = _unexplained(data, best, order)
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
    seed: int
    budget: Budget  # of EM on all rows

    def bic(self, fit: KLines) -> float:
        """Return BIC of all rows."""
        total = self.rows.total
        return bic(fit.em.level * total, self.family.n_parameters(fit.em.state), total)


def _fit_k(data: _Data, k: int, others: Sequence[Lines] = ()) -> KLines:
    """Fit k lines; ``others`` compete with the usual start."""
    family, many, rng = data.family, data.many, np.random.default_rng(data.seed)
    some = _some(many, _rows_for(k, many.n_features - 1))
    rough = _some(many, _rows_for_peaks(k, many.n_features - 1))
    start, apart, peak = _start(family.model, rough, k, data.seed), 0.0, None
    starts = [start.first.lines, *others]
    few = some.n == many.kept
    if few and k > 1:
        grown, apart = _compete(family, some, start.first.lines, rng, whole=True)
        starts += grown
    found = _rank(family, some, starts, rng)
    if not few and found.settled:
        peak = _highest_peak(family.model, rough, found.state, rng)
    if not few and k > 1 and (peak is None or peak.unexplained):
        start = _start(family.model, many, k, data.seed)
        grown, _ = _compete(family, some, found.state, rng, whole=False)
        starts = [found.state, start.first.lines, *grown]
        found = _rank(family, some, starts, rng, found)
        peak = None
    found = _search(data.rows, found, rng)
    if peak is None or found.accepted:
        peak = _highest_peak(family.model, rough, found.state, rng)
    # EM on all rows.
    em = run_em(family, data.rows, found.state, data.budget)
    return KLines(em, found, start, peak, apart)


def _start(model: Model, rows: Rows, k: int, seed: int) -> Start:
    """Start at peaks of the characteristic function, and at decoded moments."""
    vectors, decoded = decode_moments(rows, k, seed)
    waves = WaveRows.of(rows, search_span(rows, k))
    first = first_lines(waves, k, model, np.random.default_rng(seed), vectors)
    return Start(first, len(vectors), decoded)


def _choose(data: _Data, most: int) -> dict[int, KLines]:
    """Return fits of several numbers of lines, the best of them by BIC and its neighbours.

    Lines are grown from one on a sample, which shows about how many there are. That number, the
    smallest ones and the neighbours of the best are then fitted as if they were asked for.
    """
    some, rng = _some(data.many, SEARCH.rows), np.random.default_rng(data.seed)
    one = _one_line(data.family, some)
    grown = choose_k(data.family, some, one, most, N_MOVES, rng, EM_ON_SAMPLE, _local(some))
    held = replace(data, rows=data.many)

    def fit(k: int) -> KLines:
        return _fit_k(held, k, [grown.states[k]] if k in grown.states else [])

    def fit_all(k: int) -> KLines:
        found = fits[k] if k in fits else fit(k)
        return replace(found, em=run_em(data.family, data.rows, found.em.state, data.budget))

    fits = fit_neighbours(fit, held.bic, {*ALWAYS, grown.searched.state.k}, most)
    best = min(fits, key=lambda k: held.bic(fits[k]))
    if best + 1 in fits:  # which found other lines, perhaps better ones
        less = merge_cheapest(data.family, held.rows, fits[best + 1].em.state)
        em = run_em(data.family, held.rows, less, data.budget)
        if em.level > fits[best].em.level:
            found = _rank(data.family, fits[best].found.rows, [em.state], rng)
            fits[best] = replace(fits[best], em=em, found=found)
    if held.rows.kept == data.rows.kept:
        return fits
    return fit_neighbours(fit_all, data.bic, {best}, most)


def _compete(
    family: LineFamily, rows: Rows, state: Lines, rng: np.random.Generator, *, whole: bool
) -> tuple[list[Lines], float]:
    """Return lines that compete with others, and the nats by which two searches differed.

    Lines are grown from one by splits, and crossed with lines through few rows each. With discrete
    inputs lines may exchange labels between the values of a column, and with few rows they may
    hold rows of many others: no split of one line repairs that.

    Parameters
    ----------
    rows : Rows
        All, or a sample.
    whole : bool
        They are all rows.
    """
    k, q = state.coef.shape
    patience = min(
        PATIENCE, (CROSSED_PRODUCTS if whole else CROSSED_ON_SAMPLE) // (rows.n * k * q * q)
    )
    few = patience >= LEAST_PATIENCE
    one, times = _one_line(family, rows), N_GROWTHS if few else 1
    grown = [grow(family, rows, one, k, rng, local=_local(rows)).state for _ in range(times)]
    if not few:
        return [*grown, cross(family, rows, state, grown[0]).state], 0.0
    crossed = cross_populations(
        family, rows, [*grown, state], lambda: family.random_lines(rows, state, rng), patience, rng
    )
    return [crossed.state], crossed.apart if whole else 0.0


def _rank(
    family: LineFamily,
    rows: Rows,
    starts: list[Lines],
    rng: np.random.Generator,
    before: Found | None = None,
    n_moves: int = 0,
) -> Found:
    """Run EM on a sample from each start, and rank the moves from the best; try ``n_moves``."""
    every = [run_em(family, rows, start, EM_ON_SAMPLE) for start in starts]
    best = max(every, key=lambda each: each.level).state
    known = before.searched.ranking if before is not None and before.rows is rows else None
    searched = search_moves(
        family,
        rows,
        best,
        n_moves,
        rng,
        EM_ON_SAMPLE,
        _local(rows),
        worth=worth_of_component(family, rows, best),
        ranking=known,
    )
    accepted = searched.accepted + (0 if before is None else before.accepted)
    return Found(family, rows, searched, accepted)


def _search(rows: Rows, found: Found, rng: np.random.Generator) -> Found:
    """Improve lines by moves on a sample; again on a larger one for light lines."""
    family, (k, q) = found.family, found.state.coef.shape
    n, n_before = _rows_for(k, q), 0
    while True:
        if not found.settled or found.rows.n == rows.kept:
            found = _rank(family, found.rows, [found.state], rng, found, N_MOVES)
        lines = found.state
        needed = _rows_for(1 / max(lines.weights.min(), LIGHTEST / k), q)
        if float(lines.weights @ lines.variances) > LOUD:
            needed *= IN_NOISE
        if needed < 2 * n or found.rows.n in (n_before, rows.kept):
            return found
        n, n_before = needed, found.rows.n
        found = _rank(family, _some(rows, n), [lines], rng, found)


def _highest_peak(model: Model, rows: Rows, lines: Lines, rng: np.random.Generator) -> Peak:
    """Search the residual of lines for a peak: with discrete inputs too it shows wrong lines."""
    waves = WaveRows.of(rows, search_span(rows, lines.k))
    peaks = peaks_left(waves, lines, model, rng)
    return Peak(float(peaks.z[0]) if len(peaks.z) else 0.0, noise_maximum(waves.n_searched))


def _unexplained(data: _Data, fit: KLines, order: Places) -> Unexplained:
    """Measure the residuals: remaining peaks, and predicted gains of splits.

    Parameters
    ----------
    order : array of shape (k,)
        Of the lines of the fit.
    """
    family, found, ranking = data.family, fit.found, fit.found.searched.ranking
    gains, splits = np.zeros(found.state.k), ranking.origins >= 0
    gains[ranking.origins[splits]] = ranking.gains[splits]
    penalty = OPTIMISM * worth_of_component(family, found.rows, found.state)
    places = np.argsort(order)
    less, more = (
        each and replace(each, components=tuple(int(places[c]) for c in each.components))
        for each in (found.less, found.more)
    )
    rivals = _rivals(family, data.many, fit.em.state, ranking)
    return Unexplained(fit.peak, gains[order], penalty, less, more, *rivals)


def _rivals(
    family: LineFamily, rows: Rows, lines: Lines, ranking: Ranking[Lines]
) -> tuple[dict[str, Rival[Lines]], str | None]:
    """Compare Gaussian noise with heavier tails; if clear, with other ways to explain them.

    Returns the fits of other laws, and the best of them unless a further line is better.
    """
    model, some = family.model, _some(rows, SAMPLE_ROWS)
    if model.student or not suspicious(family, some, lines, 1, ranking):
        return {}, None
    compare = partial(compare_laws, family, rows=some, state=lines, sampled=some.n < rows.n)
    rivals = {"student": compare(replace(family, model=replace(model, student=True)))}
    if not rivals["student"].clear:
        return rivals, None
    if model.shared and lines.k > 1:
        rivals["separate"] = compare(replace(family, model=replace(model, shared=False)))
    best = max(rivals, key=lambda name: rivals[name].gain)
    more = one_more(family, lines, ranking, some, family.e_step(some, lines).level)
    return rivals, best if more is None or more.gain < rivals[best].gain else None


def _rows_for_peaks(k: int, q: int) -> int:
    """Return the rows at which a line of the mean weight is a peak clearly above the noise."""
    return max(SAMPLE_ROWS, int(0.5 * (CLEAR * noise_maximum(q) * k / HEIGHT) ** 2))


def _some(rows: Rows, n: int) -> Rows:
    """Return n random rows, held in memory; all of them if they are fewer than 2 n."""
    return rows.sample(n if rows.kept >= 2 * n else rows.n)


def _one_line(family: LineFamily, rows: Rows) -> Lines:
    """Return a line where EM of one component starts; its first step is least squares."""
    q = rows.n_features - 1
    return Lines(np.ones(1), np.zeros((1, q)), np.ones(1), family.model.freedom(1))


def _rows_for(k: float, q: int) -> int:
    """Return the size of a sample for k lines with q coefficients."""
    return max(SAMPLE_ROWS, int(ROWS_PER_COEFFICIENT * k * q))


def _local(rows: Rows) -> Budget:
    """Return the budget of a split: enough rows for the coefficients of one line."""
    return replace(LOCAL, rows=max(600, 30 * (rows.n_features - 1)))
