"""Starts for EM: peaks of the characteristic function, decoded moments, random lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Floats, namespace_of
from implicitmoments.moments.decode import Components, find_components
from implicitmoments.moments.framed_rows import all_rows
from implicitmoments.problems import RegressionMixtureProblem
from implicitmoments.regression.characteristic_function import (
    Peaks,
    WaveRows,
    Waves,
    climb_peaks,
    noise_maximum,
    random_points,
    separate,
)
from implicitmoments.regression.design_rows import DesignBlock, DesignRows, as_sum
from implicitmoments.regression.lines import Lines, Model
from implicitmoments.rows import Sums

STARTS_PER_LINE = 6
OMEGAS = (2.4, 2.8)  # over the standard deviation of y
FIRST_STEPS, LAST_STEPS = 16, 6
APART = 0.35  # two peaks, over the standard deviation of y: a bandwidth is 1 / 2.8
WIDE, NARROW = 1.0, 0.16  # first variance: where few peaks are seen the noise is large
MOST_DECODED = 40  # components, beyond which the moments' tensors are too large to try
LONGEST = 2.0  # decoded vector, over the standard deviation of y: beyond it is noise
ALIASES = np.arange(-2, 3)
FEW_FEATURES = 30  # in which random points still find the peaks
OVERSAMPLING = 2  # directions of the span per line
SPAN_OMEGA = 1.5  # between the best of order 1 and that of order 2, over the deviation of y


@dataclass(frozen=True, eq=False)
class Start:
    """A start for EM."""

    lines: Lines
    n_peaks: int  # lines that are peaks above the noise
    n_clear: int  # peaks above the noise, whether or not there was room for them


def first_lines(
    rows: WaveRows, k: int, model: Model, rng: np.random.Generator, decoded: Floats
) -> Start:
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
    return Start(Lines(np.full(k, 1 / k), coef, np.full(k, variance)), n_peaks, clear)


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


def decode_moments(rows: DesignRows, k: int, seed: int) -> tuple[Floats, Components | None]:
    """Return vectors decoded from moments with Fourier weights, (m, q), without intercepts."""
    q = rows.n_features
    if not 1 < k <= min(MOST_DECODED, rows.n_rows) or q == 1:
        return np.zeros((0, q)), None
    held = rows.held
    x = namespace_of(held.u).matrix_transpose(held.u[1:-1, :])
    problem = RegressionMixtureProblem(
        np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x,
        held.y,
        weights="fourier",
        sample_weight=held.counts,
    )
    read = find_components(all_rows(problem), k, seed=seed)
    guesses = read.guesses
    guesses = guesses[np.all(np.isfinite(guesses), axis=1)]
    guesses = guesses[np.linalg.norm(guesses, axis=1) < LONGEST]
    return np.hstack([np.zeros((len(guesses), 1)), guesses]), read


def search_span(rows: DesignRows, k: int) -> Floats | None:
    r"""Return an orthonormal basis (r, q) to search in, or None where all features will do.

    With Fourier weights :math:`-E[\cos(\omega y)(x x^T - I)] / \omega^2` is a positive combination
    of :math:`\beta_i \beta_i^T`: its top eigenvectors, and those of
    :math:`E[\sin(\omega y) x]`, span the regressors (order 2 of Lemma 4.23). The constant is kept.
    """
    q = rows.n_features
    if q - 1 <= max(FEW_FEATURES, OVERSAMPLING * k + 1):
        return None
    sums = rows.fold(_wave_moments, 3 * q, "span of the regressors")
    second = float(sums["mass"]) * np.eye(q - 1) - sums["second"]
    _, vectors = np.linalg.eigh(second)
    top = vectors[:, : -OVERSAMPLING * k - 1 : -1]
    directions, _ = np.linalg.qr(np.column_stack([sums["first"], top]))
    basis = np.zeros((1 + directions.shape[1], q))
    basis[0, 0] = 1.0
    basis[1:, 1:] = directions.T
    return basis


def _wave_moments(block: DesignBlock) -> Sums:
    """Sum sin(ωy) x, cos(ωy) x xᵀ and cos(ωy)."""
    x, xp = block.u[1:-1, :], namespace_of(block.u)
    cosine = xp.cos(SPAN_OMEGA * block.y) * block.counts
    return {
        "first": as_sum(x @ (xp.sin(SPAN_OMEGA * block.y) * block.counts)),
        "second": as_sum((x * cosine) @ xp.matrix_transpose(x)),
        "mass": as_sum(xp.sum(cosine)),
    }
