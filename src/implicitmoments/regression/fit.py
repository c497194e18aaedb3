"""Fit of a mixture of regressions: several starts, moves on a sample, EM on all rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.moments.components import Components, component_stats
from implicitmoments.notes import Note
from implicitmoments.regression.family import LineFamily
from implicitmoments.regression.initialisation import (
    LineStart,
    WaveRows,
    decode_moments,
    first_lines,
    noise_maximum,
    peaks_left,
    search_span,
)
from implicitmoments.regression.lines import Lines, Model, Standard
from implicitmoments.rows import Rows, Whitening
from implicitmoments.rows.second_moments import find_deviations
from implicitmoments.search import (
    LOCAL,
    SEARCH,
    WHOLE,
    Budget,
    Fitted,
    Searched,
    choose_k,
    grow,
    rank_moves,
    run_em,
    search_moves,
)
from implicitmoments.search.moves import Ranking
from implicitmoments.search.tails import Rival, compare_laws, compare_with_more, suspicious

FEWEST_FOR_PEAKS, PER_LINE_FOR_PEAKS = 50_000, 4_000  # rows: the noise of a peak is 1 / √2n
USUAL_LINES = 12  # for which rows are sampled where the number is to be chosen
SAMPLE_ROWS, ROWS_PER_COEFFICIENT = 5_000, 50  # of a sample: the error of a coefficient is 0.14
LIGHTEST = 0.15  # of the mean weight: a lighter line does not enlarge the sample
LOUD, IN_NOISE = 0.36, 4  # share of noise in the variance of y from which so many times more rows
N_MOVES = 8  # tried on a sample; the first is usually the right one
# Growing costs little on so many numbers, so that several compete: with discrete inputs lines
# may exchange labels between the values of a column, which no split of one line repairs.
SMALL, N_GROWTHS = 2**17, 6
EM_ON_SAMPLE = replace(SEARCH, tol=1e-5)  # the last digits come from EM on all rows


@dataclass(frozen=True, eq=False)
class Unexplained:
    """Measurements of the residuals."""

    highest_peak: float  # of the characteristic function of the residual, in standard errors
    noise_maximum: float  # its bound where nothing but noise is left
    split_gains: Floats  # (k,), rise of the log-likelihood of some rows if a line is split
    split_penalty: float  # the rise above which BIC of those rows prefers the split
    # other laws of the noise, and one line more, as far as they were compared
    rivals: dict[str, Rival[Lines]]


@dataclass(frozen=True, eq=False)
class FittedLines:
    """Lines fitted to all rows."""

    lines: Lines  # the heaviest first
    em: Fitted[Lines]  # of EM on all rows
    n_moves: int  # moves that raised the likelihood
    start: LineStart
    n_decoded: int  # vectors decoded from the moments, to start from
    decoded: Components | None  # what was decoded from the moments
    left: Unexplained
    # of ``n_scored`` rows, where the number of lines was chosen
    bic_by_k: dict[int, float] = field(default_factory=dict)
    n_scored: float = 0.0


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
    family, rng = LineFamily(model), np.random.default_rng(seed)
    about = k or min(most, USUAL_LINES)
    many = _some(rows, max(FEWEST_FOR_PEAKS, PER_LINE_FOR_PEAKS * about))
    waves = WaveRows.of(many, search_span(many, about))
    starts, scores = list[Lines](), dict[int, float]()
    if k is None:
        chosen, scores = _choose(family, many, most, rng)
        k, starts = chosen.k, [chosen]
    # Starts compete: peaks and decoded moments, and lines grown from one by splits.
    vectors, decoded = decode_moments(many, k, seed)
    start = first_lines(waves, k, model, rng, vectors)
    if not starts and not (gaussian and start.n_peaks == k):
        starts = _grow(family, many, k, rng)
    # Moves on a sample, which the likelihood judges.
    searched = _search(family, rows, [start.lines, *starts], rng)
    # EM on all rows.
    em = run_em(family, rows, searched.state, replace(WHOLE, steps=max_iter, tol=tol))
    lines = em.state.keep(np.argsort(-em.state.weights, kind="stable"))
    left = _unexplained(family, many, waves, lines, rng)
    return FittedLines(
        lines, em, searched.accepted, start, len(vectors), decoded, left, scores, many.total
    )


def _choose(
    family: LineFamily, rows: Rows, most: int, rng: np.random.Generator
) -> tuple[Lines, dict[int, float]]:
    """Return as many lines as minimise BIC, and BIC by the number of lines.

    Lines are grown from one on a sample; all rows given may show more of them, or fewer.
    """
    some = _some(rows, SEARCH.rows)
    chosen = choose_k(
        family, some, _one_line(family, rows), most, N_MOVES, rng, EM_ON_SAMPLE, _local(rows)
    )
    if some is not rows:
        lines = chosen.searched.state
        chosen = choose_k(family, rows, lines, most, 0, rng, EM_ON_SAMPLE, _local(rows))
    return chosen.searched.state, chosen.scores


def _grow(family: LineFamily, rows: Rows, k: int, rng: np.random.Generator) -> list[Lines]:
    """Return k lines grown from one; several times where that costs little."""
    q = rows.n_features - 1
    some = _some(rows, _rows_for(k, q))
    times = N_GROWTHS if some.n * k * q <= SMALL else 1
    return [
        grow(family, some, _one_line(family, some), k, rng, local=_local(some)).state
        for _ in range(times)
    ]


def _search(
    family: LineFamily, rows: Rows, starts: list[Lines], rng: np.random.Generator
) -> Searched[Lines]:
    """Improve the best start by moves on a sample; again on a larger one for light lines."""
    k, q, accepted, n_before = starts[0].k, rows.n_features - 1, 0, 0
    n = _rows_for(k, q)
    while True:
        some = _some(rows, n)
        found = [run_em(family, some, start, EM_ON_SAMPLE) for start in starts]
        best = max(found, key=lambda each: each.level).state
        searched = search_moves(family, some, best, N_MOVES, rng, EM_ON_SAMPLE, _local(some))
        lines, accepted = searched.state, accepted + searched.accepted
        needed = _rows_for(1 / max(lines.weights.min(), LIGHTEST / k), q)
        if float(lines.weights @ lines.variances) > LOUD:
            needed *= IN_NOISE
        if needed < 2 * n or some.n in (n_before, rows.kept):
            return replace(searched, accepted=accepted)
        starts, n, n_before = [lines], needed, some.n


def _unexplained(
    family: LineFamily,
    rows: Rows,
    waves: WaveRows,
    lines: Lines,
    rng: np.random.Generator,
) -> Unexplained:
    """Measure the residuals: remaining peaks, and predicted gains of splits."""
    peaks = peaks_left(waves, lines, family.model, rng)
    some = _some(rows, lines.k * _local(rows).rows)
    ranking = rank_moves(family, some, lines, rng, replace(LOCAL, rows=some.n))
    gains = np.zeros(lines.k)
    gains[ranking.origins] = ranking.gains
    larger = lines.split(0, lines.take(np.array([0, 0])))
    extra = family.n_parameters(larger) - family.n_parameters(lines)
    return Unexplained(
        float(peaks.z[0]) if len(peaks.z) else 0.0,
        noise_maximum(waves.n_searched),
        gains,
        0.5 * extra * math.log(some.total),
        _rivals(family, rows, lines, ranking),
    )


def _rivals(
    family: LineFamily, rows: Rows, lines: Lines, ranking: Ranking[Lines]
) -> dict[str, Rival[Lines]]:
    """Compare Gaussian noise with heavier tails; if clear, with other ways to explain them."""
    model, some = family.model, _some(rows, SAMPLE_ROWS)
    if model.student or not suspicious(family, some, lines, 1, ranking):
        return {}
    compare = partial(compare_laws, family, rows=some, state=lines, sampled=some.n < rows.n)
    rivals = {"student": compare(LineFamily(replace(model, student=True)))}
    if rivals["student"].clear:
        rivals["more"] = compare_with_more(family, some, lines, ranking)
        if model.shared and lines.k > 1:
            rivals["separate"] = compare(LineFamily(replace(model, shared=False)))
    return rivals


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


HIGH = 1.2  # times the noise maximum: heavy-tailed inputs raise the maximum by less
EXACT = 1e-6  # of the scale of y: smaller residuals are rounding, and so are their peaks


def data_notes(
    rows: Rows,
    standard: Standard,
    model: Model,
    k: int | None,
    names: Sequence[str] | None,
) -> list[Note]:
    """Return notes about rows that differ from what the fit assumes."""
    notes: list[Note] = []
    if standard.constant:
        notes.append(Note("constant_labels"))
    if k != 1:  # one line is least squares, which assumes nothing of x
        # without intercepts points were standardised about 0, not about their mean
        whitening = standard.whitening if model.intercept else Whitening.of(rows, reduce=True)
        deviations = find_deviations(rows, whitening, names)
        if deviations is not None:
            notes.append(Note("inputs_not_gaussian", deviations))
    return notes


def fit_notes(fitted: FittedLines, stats: dict[str, Any]) -> list[Note]:
    """Return a note where the residuals show another line or another law of the noise."""
    left = fitted.left
    rivals = {name: each for name, each in left.rivals.items() if each.clear}
    best = max(rivals, key=lambda name: rivals[name].gain, default="")
    if float(np.sqrt(fitted.lines.variances.max())) < EXACT:
        return []
    if best == "separate":
        return [Note("noise_differs", {"gain": rivals[best].gain})]
    if best == "student":
        found = rivals[best].state
        values = {"freedom": float(found.freedom[0]), "k": fitted.lines.k, "found": found.k}
        return [Note("heavy_tails", {**values, "gain": rivals[best].gain})]
    gains = stats["split_gain_by_line"]
    widest = max(range(len(gains)), key=gains.__getitem__)
    gain, penalty = gains[widest], stats["split_penalty"]
    if best == "more":  # after EM of all lines
        gain = max(gain, penalty + 0.5 * rivals[best].gain)
    if gain > penalty:
        values = {"line": widest, "gain": gain, "penalty": penalty}
        return [Note("line_looks_double", values)]
    if left.highest_peak > HIGH * left.noise_maximum:
        values = {"peak": left.highest_peak, "noise_maximum": left.noise_maximum}
        return [Note("line_missing", values)]
    return []


def fit_stats(fitted: FittedLines, standard: Standard) -> dict[str, Any]:
    """Return the numbers of a fit, in the units of the user."""
    units = 2 * fitted.n_scored * float(np.log(standard.scale))
    return {
        "n_varying": standard.n_features,
        "n_peaks": fitted.start.n_peaks,
        "n_decoded": fitted.n_decoded,
        "n_moves": fitted.n_moves,
        "highest_peak_left": fitted.left.highest_peak,
        "noise_maximum": fitted.left.noise_maximum,
        "split_gain_by_line": fitted.left.split_gains.tolist(),
        "split_penalty": fitted.left.split_penalty,
        "bic_gain_by_noise": {name: each.gain for name, each in fitted.left.rivals.items()},
        "bic_by_n_components": {k: score + units for k, score in fitted.bic_by_k.items()},
        "mean_log_likelihood_history": fitted.em.history,
        **component_stats(fitted.decoded),
    }
