"""Look for lines that are missing, and accept only what raises the likelihood."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from implicitmoments.backends import Floats
from implicitmoments.fitting.regression.audition import audition
from implicitmoments.fitting.regression.em import Climb, Model, climb
from implicitmoments.fitting.regression.features import FeatureRows
from implicitmoments.fitting.regression.fourier import (
    Peaks,
    WaveRows,
    climb_peaks,
    random_points,
    separate,
)
from implicitmoments.fitting.regression.likelihood import Lines, expect, losses, responsibilities

__all__ = ["Repaired", "loud", "missing_peaks", "prune", "repair", "split", "split_steps"]

ROUNDS = 30
LEAST_GAIN = 3.0  # in log-likelihood
OMEGA, LOWEST_OMEGA, HIGHEST_OMEGA = 0.7, 1.2, 2.2  # the first over the noise
STARTS, HEARD = (16, 40), (8, 16)  # points that are climbed from, and peaks that are tried
WIDE = 0.65  # of omega: a wider kernel has a wider basin
FIRST_STEPS, LAST_STEPS = 12, 5
MOST_TRIED = 4  # candidates at once
SHORT, LONG, FINAL = 15, 25, 40  # steps of EM
QUICK_TOL = 1e-5
LOUD = 0.36  # variance of the noise over that of y
SIGNIFICANT = 3.0  # score of a split over the number of features; of noise alone it is about 2
LENGTHENED = 1.5  # steps of a split: their moment is biased down
NEAR, ALIGNED = 0.8, 0.8  # distance over the deviation of y, and cosine of an angle


@dataclass(frozen=True, eq=False)
class Repaired:
    """Lines after repair.

    Attributes
    ----------
    climb : Climb
    accepted : int
        Changes that raised the likelihood.
    z : float
        Of the highest peak that is left.
    """

    climb: Climb
    accepted: int
    z: float


def repair(
    rows: FeatureRows,
    wave_rows: WaveRows,
    found: Climb,
    model: Model,
    rng: np.random.Generator,
    patience: int = 3,
) -> Repaired:
    """Insert peaks of what the lines leave, or split a line; prune; keep what is better.

    Parameters
    ----------
    rows : FeatureRows
        On which EM runs.
    wave_rows : WaveRows
        On which peaks are looked for.
    found : Climb
    model : Model
    rng : numpy generator
    patience : int
        Splits that are tried in vain before it ends.
    """
    accepted, z = 0, 0.0
    for _ in range(ROUNDS):
        peaks = missing_peaks(wave_rows, found.lines, model, rng)
        z = float(peaks.z[0]) if len(peaks.z) else 0.0
        for grown in _proposals(rows, found.lines, peaks, model, patience):
            trial = _settle(rows, grown, found.lines.k, model)
            if trial.mean_log_likelihood > found.mean_log_likelihood + LEAST_GAIN / rows.mass:
                found = climb(rows, trial.lines, model, max_iter=FINAL, tol=QUICK_TOL)
                accepted += 1
                break
        else:
            break
    return Repaired(found, accepted, z)


def _proposals(
    rows: FeatureRows, lines: Lines, peaks: Peaks, model: Model, patience: int
) -> Iterator[Lines]:
    """Yield lines with more of them: the best candidates, then splits."""
    heard = audition(rows, lines, peaks.points[: _between(2 * lines.k, HEARD)], model)
    worth = int(np.sum(heard.gains[:MOST_TRIED] > LEAST_GAIN / rows.mass))
    for n in (1, MOST_TRIED):
        if worth >= n or (n > 1 and worth > 1):
            yield lines.add(heard.points[:n], heard.weights[:n])
    turned = _turned_pairs(rows, lines, model)
    if turned is not None:
        yield turned
    scores, away = split_steps(rows, lines, model)
    least = 0.0 if loud(lines) else SIGNIFICANT * rows.n_features
    for i in np.argsort(-scores)[:patience]:
        if scores[i] > least:
            yield split(lines, int(i), away[i])


def missing_peaks(rows: WaveRows, lines: Lines, model: Model, rng: np.random.Generator) -> Peaks:
    """Return the peaks of what the lines do not explain, the highest first."""
    deviation = float(np.sqrt(lines.weights @ lines.variances))
    omega = float(np.clip(OMEGA / deviation, LOWEST_OMEGA, HIGHEST_OMEGA))
    b = random_points(rng, _between(4 * lines.k, STARTS), rows)
    half = len(b) // 2
    wide, waves = rows.waves_beside(lines, (WIDE * omega, omega), rng)
    b = np.vstack(
        [
            climb_peaks(wide, b[:half], FIRST_STEPS, model),
            climb_peaks(waves, b[half:], FIRST_STEPS, model),
        ]
    )
    b = climb_peaks(waves, b, LAST_STEPS, model)
    return separate(waves, b, 1 / omega)


def split(lines: Lines, i: int, step: Floats) -> Lines:
    """Replace a line by two, on either side of it."""
    w = lines.weights[i]
    others = np.arange(lines.k) != i
    return Lines(
        np.concatenate([lines.weights[others], [w / 2, w / 2]]),
        np.vstack([lines.coef[others], lines.coef[i] + step, lines.coef[i] - step]),
        np.concatenate([lines.variances[others], np.repeat(lines.variances[i], 2)]),
    )


def _turned_pairs(rows: FeatureRows, lines: Lines, model: Model) -> Lines | None:
    """Join lines that are near one another, and part them again as their residuals say.

    Two lines may settle on either side of a true pair in a wrong direction, which EM does not
    leave. None where every pair lies as its residuals say.
    """
    pairs = _near_pairs(lines)
    if not pairs:
        return None
    one, other = (np.asarray(part) for part in zip(*pairs, strict=True))
    weights, coef = np.maximum(lines.weights, np.finfo(float).tiny), lines.coef.copy()
    share = (weights[one] / (weights[one] + weights[other]))[:, None]
    coef[one] = share * coef[one] + (1 - share) * coef[other]
    weights[one] += weights[other]
    alone = np.setdiff1d(np.arange(lines.k), other)
    merged = Lines(weights[alone], coef[alone], lines.variances[alone])
    _, away = split_steps(rows, merged, model)
    turned = lines.coef.copy()
    changed = False
    for i, j in pairs:
        step, apart = away[np.searchsorted(alone, i)], lines.coef[i] - lines.coef[j]
        lengths = np.linalg.norm(step) * np.linalg.norm(apart)
        if abs(step @ apart) < ALIGNED * lengths:
            turned[i], turned[j], changed = coef[i] + step, coef[i] - step, True
    return Lines(lines.weights, turned, lines.variances) if changed else None


def _near_pairs(lines: Lines) -> list[tuple[int, int]]:
    """Return disjoint pairs of lines, the nearest first."""
    apart = np.linalg.norm(lines.coef[:, None, :] - lines.coef[None, :, :], axis=2)
    i, j = np.triu_indices(lines.k, 1)
    pairs: list[tuple[int, int]] = []
    taken: set[int] = set()
    for at in np.argsort(apart[i, j], kind="stable"):
        pair = int(i[at]), int(j[at])
        if apart[pair] > NEAR:
            break
        if taken.isdisjoint(pair):
            pairs.append(pair)
            taken.update(pair)
    return pairs


def split_steps(rows: FeatureRows, lines: Lines, model: Model) -> tuple[Floats, Floats]:
    r"""Return how much each line looks like two, (k,), and half the difference of them (k, q).

    Two lines :math:`b \pm \delta` in place of b gain :math:`\delta^T H \delta n / v` in
    log-likelihood for a short :math:`\delta`, with
    :math:`H = \sum R (r^2 / v - 1) z z^T / 2n`. It is 0 in the mean where the lines are right,
    whatever the law of x. Where a line stands for two, H is their :math:`\delta \delta^T / v`, but
    less of it, since other lines take the rows farthest off.
    """
    first = 0 if model.intercept else 1
    p = rows.n_features - first
    moments, masses = np.zeros((lines.k, p, p)), np.zeros(lines.k)
    for block in rows.blocks():
        shares, _ = responsibilities(lines, block)
        shares *= block.counts
        masses += shares.sum(axis=1)
        z = block.z[first:]
        shares *= (block.y - lines.coef @ block.z) ** 2 / lines.variances[:, None] - 1
        for i in range(lines.k):
            moments[i] += (z * shares[i]) @ z.T
    moments[masses < 1] = 0.0  # less than a row
    masses = np.maximum(masses, 1.0)
    values, vectors = np.linalg.eigh(moments / (2 * masses)[:, None, None])
    top = np.maximum(values[:, -1], 0.0)
    away = np.zeros((lines.k, rows.n_features))
    lengths = LENGTHENED * np.sqrt(top * lines.variances)
    away[:, first:] = lengths[:, None] * vectors[:, :, -1]
    if lines.k == 1 and model.intercept:
        shift = _parallel(rows, lines)
        # a step must be worth more than noise makes of p features
        if masses[0] * shift**8 / lines.variances[0] ** 4 > max(24.0, masses[0] * top[0] ** 2):
            away[0] = shift * np.eye(rows.n_features)[0]
    return masses * top**2, away


def _parallel(rows: FeatureRows, lines: Lines) -> float:
    r"""Return half the distance of two parallel lines for one.

    Noise takes up the second moment of residuals; the fourth shows :math:`3 m_2^2 - m_4 =
    2 \delta^4`. Beside other lines, which cut residuals off, it would show too much.
    """
    powers = np.zeros(3)
    for block in rows.blocks():
        square = (block.y - lines.coef[0] @ block.z) ** 2
        powers += [block.counts.sum(), block.counts @ square, block.counts @ square**2]
    second, fourth = powers[1:] / powers[0]
    return float(max((3 * second**2 - fourth) / 2, 0.0) ** 0.25)


def prune(rows: FeatureRows, lines: Lines, k: int) -> Lines:
    """Leave out the line, or join the two lines, that cost least, until k are left."""
    while lines.k > k:
        cost = losses(rows, lines)
        joined, i, j, line = _cheapest_join(rows, lines)
        if joined < cost.min():
            weights, coef = lines.weights.copy(), lines.coef.copy()
            weights[i] += weights[j]
            coef[i] = line
            lines = Lines(weights, coef, lines.variances)
        else:
            j = int(np.argmin(cost))
        lines = lines.keep(np.arange(lines.k) != j)
    return lines


def _cheapest_join(rows: FeatureRows, lines: Lines) -> tuple[float, int, int, Floats]:
    r"""Return the cost in mean log-likelihood of one line for two, which two, and the line.

    With :math:`A_i` the weighted sums of :math:`z z^T`, one line in place of two that are
    :math:`\delta` apart leaves :math:`\delta^T (A_i^{-1} + A_j^{-1})^{-1} \delta` more in squares.
    """
    S = expect(rows, lines).products
    A, c, n = S[:, :-1, :-1], S[:, :-1, -1], S[:, 0, 0]
    apart = lines.coef[:, None, :] - lines.coef[None, :, :]
    harmonic = n[:, None] * n / np.maximum(n[:, None] + n, 1e-300)
    rough = harmonic * np.sum(apart**2, axis=2)
    rough[np.tril_indices(lines.k)] = np.inf
    i, j = (int(a) for a in np.unravel_index(np.argmin(rough), rough.shape))
    ridge = 1e-9 * max(n[i] + n[j], 1.0) * np.eye(len(A[i]))
    line = np.linalg.solve(A[i] + A[j] + ridge, c[i] + c[j])
    more = sum(float((line - lines.coef[m]) @ A[m] @ (line - lines.coef[m])) for m in (i, j))
    variance = float(lines.weights @ lines.variances)
    return more / (2 * variance * rows.mass), i, j, line


def loud(lines: Lines) -> bool:
    """Say whether the noise is so large that lines overlap everywhere."""
    return float(lines.weights @ lines.variances) > LOUD


def _between(n: int, bounds: tuple[int, int]) -> int:
    return max(bounds[0], min(n, bounds[1]))


def _settle(rows: FeatureRows, grown: Lines, k: int, model: Model) -> Climb:
    """Run EM with too many lines, prune, and run it again."""
    grown = climb(rows, grown, model, max_iter=SHORT, tol=QUICK_TOL).lines
    return climb(rows, prune(rows, grown, k), model, max_iter=LONG, tol=QUICK_TOL)
