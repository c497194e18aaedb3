"""Fit of a mixture of regressions: several starts, moves on a sample, EM on all rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from implicitmoments.arrays import Floats, namespace_of
from implicitmoments.moments.components import Components, find_components
from implicitmoments.moments.framed_rows import all_rows
from implicitmoments.problems import RegressionMixtureProblem
from implicitmoments.regression.characteristic_function import (
    Peaks,
    WaveRows,
    Waves,
    climb_peaks,
    noise_maximum,
    peaks_left,
    random_points,
    separate,
)
from implicitmoments.regression.family import LineFamily
from implicitmoments.regression.likelihood import Lines, Model, as_sum, columns_of
from implicitmoments.rows import Block, Rows, Sums
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

STARTS_PER_LINE = 6  # of mean shift (starting value)
OMEGAS = (2.4, 2.8)  # over the standard deviation of y (starting values)
FIRST_STEPS, LAST_STEPS = 16, 6  # of mean shift, wide and narrow (starting values)
APART = 0.35  # two peaks, over the standard deviation of y: a bandwidth is 1 / 2.8
WIDE, NARROW = 1.0, 0.16  # first variance: where few peaks are seen the noise is large
MOST_DECODED = 40  # components, beyond which the moments' tensors are too large to try
LONGEST = 2.0  # decoded vector, over the standard deviation of y: beyond it is noise
ALIASES = np.arange(-2, 3)  # periods by which an intercept may be shifted (starting value)
FEW_FEATURES = 30  # in which random points still find the peaks
OVERSAMPLING = 2  # directions of the span per line
SPAN_OMEGA = 1.5  # between the best of order 1 and that of order 2, over the deviation of y


@dataclass(frozen=True, eq=False)
class LineStart:
    """A start for EM."""

    lines: Lines
    n_peaks: int  # lines that are peaks above the noise
    n_clear: int  # peaks above the noise, whether or not there was room for them


def first_lines(
    rows: WaveRows, k: int, model: Model, rng: np.random.Generator, decoded: Floats
) -> LineStart:
    """Climb the characteristic function from random points and from decoded vectors.

    Peaks above the noise are lines; where there are fewer than k, the decoded vectors that are
    not near one follow, and then random lines.
    """
    wide, narrow = (rows.waves(omega) for omega in OMEGAS)
    peaks = _climb(wide, narrow, decoded, model)
    least = noise_maximum(rows.n_searched)
    if int(np.sum(peaks.z > least)) < k:  # decoded vectors do not lead to all of them
        b = random_points(rng, STARTS_PER_LINE * k, rows)
        halves = zip((wide, narrow), np.array_split(b, 2), strict=True)
        b = np.vstack([climb_peaks(waves, half, FIRST_STEPS, model) for waves, half in halves])
        peaks = _climb(wide, narrow, np.vstack([b, peaks.points]), model)
    clear = int(np.sum(peaks.z > least))
    found = peaks.points[: min(k, clear)]
    n_peaks = len(found)
    for point in decoded:
        if len(found) < k and np.all(np.linalg.norm(found - point, axis=1) > APART):
            found = np.vstack([found, point])
    coef = np.vstack([found, random_points(rng, k - len(found), rows)])
    variance = NARROW if 2 * n_peaks > k else WIDE
    return LineStart(Lines(np.full(k, 1 / k), coef, np.full(k, variance)), n_peaks, clear)


def _climb(wide: Waves, narrow: Waves, b: Floats, model: Model) -> Peaks:
    """Climb to peaks, and choose among intercepts that look alike."""
    b = climb_peaks(narrow, b, LAST_STEPS, model)
    if model.intercept:
        b = unalias(wide, b, narrow.omega)
    return separate(narrow, b, APART)


def unalias(waves: Waves, points: Floats, omega: float) -> Floats:
    r"""Choose intercepts among those :math:`2\pi/\omega` apart, alike to one frequency."""
    if not len(points):
        return points
    moved = points[:, None, :] + np.zeros((len(ALIASES), 1))
    moved[:, :, 0] += 2 * np.pi / omega * ALIASES
    values, _ = waves.climb(moved.reshape(-1, points.shape[1]))
    best = np.argmax(values.reshape(len(points), -1), axis=1)
    return np.asarray(moved[np.arange(len(points)), best])


def decode_moments(rows: Rows, k: int, seed: int) -> tuple[Floats, Components | None]:
    """Return vectors decoded from moments with Fourier weights, (m, q), without intercepts."""
    q = rows.n_features - 1
    if not 1 < k <= min(MOST_DECODED, rows.kept) or q == 1:
        return np.zeros((0, q)), None
    u, counts = rows.block["x"], rows.block["counts"]
    x = np.ascontiguousarray(u[:, 1:-1]) if isinstance(u, np.ndarray) else u[:, 1:-1]
    problem = RegressionMixtureProblem(x, u[:, -1], weights="fourier", sample_weight=counts)
    read = find_components(all_rows(problem), k, seed=seed)
    guesses = read.guesses
    guesses = guesses[np.all(np.isfinite(guesses), axis=1)]
    guesses = guesses[np.linalg.norm(guesses, axis=1) < LONGEST]
    return np.hstack([np.zeros((len(guesses), 1)), guesses]), read


def search_span(rows: Rows, k: int) -> Floats | None:
    r"""Return an orthonormal basis (r, q) to search in, or None where all features will do.

    With Fourier weights :math:`-E[\cos(\omega y)(x x^T - I)] / \omega^2` is a positive combination
    of :math:`\beta_i \beta_i^T`: its top eigenvectors, and those of
    :math:`E[\sin(\omega y) x]`, span the regressors (order 2 of Lemma 4.23). The constant is kept.
    """
    q = rows.n_features - 1
    if q - 1 <= max(FEW_FEATURES, OVERSAMPLING * k + 1):
        return None
    sums = rows.fold(_wave_moments, width=4 * q, what="span of the regressors")
    second = float(sums["mass"]) * np.eye(q - 1) - sums["second"]
    _, vectors = np.linalg.eigh(second)
    top = vectors[:, : -OVERSAMPLING * k - 1 : -1]
    directions, _ = np.linalg.qr(np.column_stack([sums["first"], top]))
    basis = np.zeros((1 + directions.shape[1], q))
    basis[0, 0] = 1.0
    basis[1:, 1:] = directions.T
    return basis


def _wave_moments(block: Block) -> Sums:
    """Sum sin(ωy) x, cos(ωy) x xᵀ and cos(ωy)."""
    u, counts = columns_of(block), block["counts"]
    x, xp = u[1:-1, :], namespace_of(u)
    cosine = xp.cos(SPAN_OMEGA * u[-1, :]) * counts
    return {
        "first": as_sum(x @ (xp.sin(SPAN_OMEGA * u[-1, :]) * counts)),
        "second": as_sum((x * cosine) @ xp.matrix_transpose(x)),
        "mass": as_sum(xp.sum(cosine)),
    }


FEWEST_FOR_PEAKS, PER_LINE_FOR_PEAKS = 50_000, 4_000  # rows: the noise of a peak is 1 / √2n
USUAL_LINES = 12  # for which rows are sampled where the number is to be chosen
FEWEST_ROWS, ROWS_PER_COEFFICIENT = 5_000, 50  # of a sample: the error of a coefficient is 0.14
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
        family, some, _one_line(rows), most, N_MOVES, rng, EM_ON_SAMPLE, _local(rows)
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
        grow(family, some, _one_line(some), k, rng, local=_local(some)).state for _ in range(times)
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
    )


def _some(rows: Rows, n: int) -> Rows:
    """Return n random rows, held in memory; all of them if they are fewer than 2 n."""
    return rows.sample(n if rows.kept >= 2 * n else rows.n)


def _one_line(rows: Rows) -> Lines:
    """Return a line where EM of one component starts; its first step is least squares."""
    return Lines(np.ones(1), np.zeros((1, rows.n_features - 1)), np.ones(1))


def _rows_for(k: float, q: int) -> int:
    """Return the size of a sample for k lines with q coefficients."""
    return max(FEWEST_ROWS, int(ROWS_PER_COEFFICIENT * k * q))


def _local(rows: Rows) -> Budget:
    """Return the budget of a split: enough rows for the coefficients of one line."""
    return replace(LOCAL, rows=max(600, 30 * (rows.n_features - 1)))
