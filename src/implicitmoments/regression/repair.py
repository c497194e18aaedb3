"""Look for lines that are missing, and accept only what raises the likelihood."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.regression.candidate_gains import audition
from implicitmoments.regression.characteristic_function import (
    Peaks,
    WaveRows,
    climb_peaks,
    random_points,
    separate,
)
from implicitmoments.regression.design_rows import FeatureRows
from implicitmoments.regression.em import Climb, Model, climb
from implicitmoments.regression.likelihood import Lines, expect, losses
from implicitmoments.regression.splits import (
    significant,
    split,
    split_steps,
    turned_pairs,
)

__all__ = ["Repaired", "loud", "missing_peaks", "prune", "repair"]

ROUNDS = 30
LEAST_GAIN = 3.0  # in log-likelihood
OMEGA, LOWEST_OMEGA, HIGHEST_OMEGA = 0.7, 1.2, 2.2  # the first over the noise
STARTS, HEARD = (16, 40), (8, 16)  # points that are climbed from, and peaks that are tried
WIDE = 0.65  # of omega: a wider kernel has a wider basin
FIRST_STEPS, LAST_STEPS = 12, 5
MOST_TRIED = 4  # candidates at once
SHORT, LONG, FINAL = 15, 25, 40  # steps of EM
QUICK_TOL = 1e-5
RIDGE = 1e-9  # of a row
SPARE = 100.0  # cost of a line, in log-likelihood, that another place is likely to repay
LOUD = 0.36  # variance of the noise over that of y


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
    effort: int = 1,
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
    effort : int
        Times as many points from which missing lines are looked for.
    """
    accepted, z = 0, 0.0
    for _ in range(ROUNDS):
        peaks = missing_peaks(wave_rows, found.lines, model, rng, effort)
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
    if lines.k > 1 and _cheapest_join(rows, lines)[0] * rows.mass < SPARE:
        worth = max(worth, 1)  # a line is free to go anywhere
    for n in (1, MOST_TRIED):
        if worth >= n or (n > 1 and worth > 1):
            yield lines.add(heard.points[:n], heard.weights[:n])
    turned = turned_pairs(rows, lines, model)
    if turned is not None:
        yield turned
    scores, away = split_steps(rows, lines, model)
    least = 0.0 if loud(lines) else significant(rows)
    for i in np.argsort(-scores)[:patience]:
        if scores[i] > least:
            yield split(lines, int(i), away[i])


def missing_peaks(
    rows: WaveRows, lines: Lines, model: Model, rng: np.random.Generator, effort: int = 1
) -> Peaks:
    """Return the peaks of what the lines do not explain, the highest first."""
    deviation = float(np.sqrt(lines.weights @ lines.variances))
    omega = float(np.clip(OMEGA / deviation, LOWEST_OMEGA, HIGHEST_OMEGA))
    b = random_points(rng, effort * _between(4 * lines.k, STARTS), rows)
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

    Two lines of weights w and w' that are :math:`\delta` apart and do not overlap lose
    :math:`s / 2` with :math:`s = w w' |\delta|^2 / (w + w') v`. Near ones are nearly a line with
    more noise, and lose :math:`3 s^2 / 4 (w + w')`.
    """
    w, S = lines.weights, expect(rows, lines).products
    apart = np.sum((lines.coef[:, None, :] - lines.coef[None, :, :]) ** 2, axis=2)
    both = np.maximum(w[:, None] + w, np.finfo(float).tiny)
    s = w[:, None] * w / both * apart / float(w @ lines.variances)
    cost = np.minimum(s / 2, 0.75 * s**2 / both)
    cost[np.tril_indices(lines.k)] = np.inf
    i, j = (int(a) for a in np.unravel_index(np.argmin(cost), cost.shape))
    total = S[i] + S[j]
    ridge = RIDGE * max(float(total[0, 0]), 1.0) * np.eye(len(total) - 1)
    line = np.linalg.solve(total[:-1, :-1] + ridge, total[:-1, -1])
    return float(cost[i, j]), i, j, line


def loud(lines: Lines) -> bool:
    """Say whether the noise is so large that lines overlap everywhere."""
    return float(lines.weights @ lines.variances) > LOUD


def _between(n: int, bounds: tuple[int, int]) -> int:
    return max(bounds[0], min(n, bounds[1]))


def _settle(rows: FeatureRows, grown: Lines, k: int, model: Model) -> Climb:
    """Run EM with too many lines, prune, and run it again."""
    grown = climb(rows, grown, model, max_iter=SHORT, tol=QUICK_TOL).lines
    return climb(rows, prune(rows, grown, k), model, max_iter=LONG, tol=QUICK_TOL)
