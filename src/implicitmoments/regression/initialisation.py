"""Where EM starts: peaks of the characteristic function, the moments' vectors, random lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Floats, namespace_of
from implicitmoments.moments.decode import Components, find_components
from implicitmoments.moments.passes import whole_view
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
from implicitmoments.regression.design_rows import FeatureRows
from implicitmoments.regression.em import Model
from implicitmoments.regression.likelihood import Lines

__all__ = ["Start", "decoded_points", "first_lines", "random_lines"]

STARTS_PER_LINE = 6
OMEGAS = (2.4, 2.8)  # over the standard deviation of y
FIRST_STEPS, LAST_STEPS = 16, 6
APART = 0.35  # two peaks, over the standard deviation of y
WIDE, NARROW = 1.0, 0.16  # first variance: where few peaks are seen the noise is large
MOST_DECODED = 40  # components, beyond which the moments' tensors are too large to try
LONGEST = 2.0  # vector of the moments, over the standard deviation of y: beyond it is noise
ALIASES = np.arange(-2, 3)


@dataclass(frozen=True, eq=False)
class Start:
    """Where EM starts.

    Attributes
    ----------
    lines : Lines
    n_peaks : int
        Lines that are peaks above the noise.
    n_clear : int
        Peaks above the noise, whether or not there was room for them.
    """

    lines: Lines
    n_peaks: int
    n_clear: int


def first_lines(
    rows: WaveRows, k: int, model: Model, rng: np.random.Generator, decoded: Floats
) -> Start:
    """Climb the characteristic function from random points and from the moments' own vectors.

    Peaks above the noise are lines; where there are fewer than k, the moments' vectors that are
    not near one follow, and then random lines.
    """
    q = rows.n_features
    wide, narrow = (rows.waves(omega) for omega in OMEGAS)
    peaks = _peaks(wide, narrow, decoded, model)
    least = noise_maximum(rows.n_searched)
    if int(np.sum(peaks.z > least)) < k:  # the moments alone do not do
        b = random_points(rng, STARTS_PER_LINE * k, rows)
        half = len(b) // 2
        b[:half] = climb_peaks(wide, b[:half], FIRST_STEPS, model)
        b[half:] = climb_peaks(narrow, b[half:], FIRST_STEPS, model)
        peaks = _peaks(wide, narrow, np.vstack([b, peaks.points]), model)
    clear = int(np.sum(peaks.z > least))
    found = peaks.points[: min(k, clear)]
    n_peaks = len(found)
    for point in decoded:
        if len(found) < k and np.all(np.linalg.norm(found - point, axis=1) > APART):
            found = np.vstack([found, point])
    fill = random_points(rng, k - len(found), rows)
    coef = np.vstack([found, fill]).reshape(k, q)
    variance = NARROW if 2 * n_peaks > k else WIDE
    lines = Lines(np.full(k, 1 / k), coef, np.full(k, variance))
    return Start(lines, n_peaks, clear)


def _peaks(wide: Waves, narrow: Waves, b: Floats, model: Model) -> Peaks:
    """Climb to peaks, and choose among intercepts that look alike."""
    b = climb_peaks(narrow, b, LAST_STEPS, model)
    if model.intercept:
        b = unalias(wide, b, narrow.omega)
    return separate(narrow, b, APART)


def random_lines(rows: WaveRows, k: int, rng: np.random.Generator) -> Lines:
    """Return lines of random direction with the noise of y."""
    return Lines(np.full(k, 1 / k), random_points(rng, k, rows), np.full(k, WIDE))


def decoded_points(rows: FeatureRows, k: int, seed: int) -> tuple[Floats, Components | None]:
    """Return what the moments with Fourier weights read, as points (m, q) without intercepts."""
    q = rows.n_features
    if not 1 < k <= min(MOST_DECODED, rows.n_rows) or q == 1:
        return np.zeros((0, q)), None
    every = rows.gathered()
    x = namespace_of(every.u).matrix_transpose(every.u[1:-1, :])
    problem = RegressionMixtureProblem(
        np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x,
        every.y,
        weights="fourier",
        sample_weight=every.counts,
    )
    read = find_components(whole_view(problem), k, seed=seed)
    guesses = read.guesses
    guesses = guesses[np.all(np.isfinite(guesses), axis=1)]
    guesses = guesses[np.linalg.norm(guesses, axis=1) < LONGEST]
    return np.hstack([np.zeros((len(guesses), 1)), guesses]), read


def unalias(waves: Waves, points: Floats, omega: float) -> Floats:
    r"""Choose intercepts among those :math:`2\pi/\omega` apart, alike to one frequency."""
    if not len(points):
        return points
    moved = points[:, None, :] + np.zeros((len(ALIASES), 1))
    moved[:, :, 0] += 2 * np.pi / omega * ALIASES
    values, _ = waves.climb(moved.reshape(-1, points.shape[1]))
    best = np.argmax(values.reshape(len(points), -1), axis=1)
    return np.asarray(moved[np.arange(len(points)), best])
