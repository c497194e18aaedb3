"""Lines that stand for two, and pairs that lie in a wrong direction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Floats, move_like, namespace_of
from implicitmoments.regression.design_rows import FeatureBlock, FeatureRows, as_sum
from implicitmoments.regression.em import Model
from implicitmoments.regression.likelihood import Lines, responsibilities
from implicitmoments.rows import Sums

__all__ = ["doubleness", "looks_double", "significant", "split", "split_steps", "turned_pairs"]

LENGTHENED = 1.5  # steps of a split: their moment is biased down
NEAR, ALIGNED = 0.8, 0.8  # distance over the deviation of y, and cosine of an angle
SMALLEST = 1e-20  # mean square of residuals that are not rounding
FOURTH = 16.0  # score of a fourth moment that is not noise


def split(lines: Lines, i: int, step: Floats) -> Lines:
    """Replace a line by two, on either side of it."""
    w = lines.weights[i]
    others = np.arange(lines.k) != i
    return Lines(
        np.concatenate([lines.weights[others], [w / 2, w / 2]]),
        np.vstack([lines.coef[others], lines.coef[i] + step, lines.coef[i] - step]),
        np.concatenate([lines.variances[others], np.repeat(lines.variances[i], 2)]),
    )


def split_steps(rows: FeatureRows, lines: Lines, model: Model) -> tuple[Floats, Floats]:
    r"""Return how much each line looks like two, (k,), and half the difference of them (k, q).

    The score is about 1 for what noise alone makes of so many features.

    Two lines :math:`b \pm \delta` in place of b gain :math:`\delta^T H \delta n / v` in
    log-likelihood for a short :math:`\delta`, with
    :math:`H = \sum R (r^2 / v - 1) z z^T / 2n`. It is 0 in the mean where the lines are right,
    whatever the law of x. Where a line stands for two, H is their :math:`\delta \delta^T / v`, but
    less of it, since other lines take the rows farthest off.
    """
    first = 0 if model.intercept else 1
    p = rows.n_features - first
    sums = rows.fold(_Double(lines, first), 2 * p + 4 * lines.k, "lines that stand for two")
    moments, masses, power = sums["moments"], sums["masses"], sums["power"]
    moments[masses < 1] = 0.0  # less than a row
    values, vectors = np.linalg.eigh(moments)
    top = np.maximum(values[:, -1], 0.0)
    # a symmetric matrix of entries of variance s² has its top eigenvalue at 2 s √p
    scores = top**2 / (4 * p * np.maximum(power, np.finfo(float).tiny))
    away = np.zeros((lines.k, rows.n_features))
    lengths = LENGTHENED * np.sqrt(top * lines.variances / (2 * np.maximum(masses, 1.0)))
    away[:, first:] = lengths[:, None] * vectors[:, :, -1]
    if lines.k == 1 and model.intercept:
        shift, score = _parallel(rows, lines)
        if score > max(FOURTH, scores[0]):
            scores[0], away[0] = score, shift * np.eye(rows.n_features)[0]
    return scores, away


def _parallel(rows: FeatureRows, lines: Lines) -> tuple[float, float]:
    r"""Return half the distance of two parallel lines for one, and a score with mean 1.

    Noise takes up the second moment of residuals; the fourth shows :math:`3 m_2^2 - m_4 =
    2 \delta^4`. Beside other lines, which cut residuals off, it would show too much.
    """
    powers = rows.fold(_Powers(lines), 4, "residuals")["powers"]
    second, fourth = powers[1:] / powers[0]
    excess = max(3 * second**2 - fourth, 0.0)
    # of Gaussian residuals m_4 has variance 96 v⁴ / n, less what m_2 has in common with it
    relative = excess / second**2 if second > SMALLEST else 0.0
    score = powers[0] * relative**2 / 24
    return float((excess / 2) ** 0.25), float(score)


@dataclass(frozen=True, eq=False)
class _Double:
    """Moments of the features of each line by how far rows are off it."""

    lines: Lines
    first: int

    def __call__(self, block: FeatureBlock) -> Sums:
        xp, lines = namespace_of(block.u), self.lines
        shares, _ = responsibilities(lines, block)
        shares *= block.counts
        masses = as_sum(xp.sum(shares, axis=1))
        z = block.z[self.first :, :]
        left = block.y - move_like(lines.coef, block.u) @ block.z
        shares *= left**2 / move_like(lines.variances, block.u)[:, None] - 1
        turned = xp.matrix_transpose(z)
        moments = [as_sum((z * shares[i, :]) @ turned) for i in range(lines.k)]
        power = as_sum(xp.sum(shares**2, axis=1))
        return {"masses": masses, "power": power, "moments": np.stack(moments)}


@dataclass(frozen=True, eq=False)
class _Powers:
    """Mass, and second and fourth moments of the residuals of one line."""

    lines: Lines

    def __call__(self, block: FeatureBlock) -> Sums:
        square = (block.y - move_like(self.lines.coef[0], block.u) @ block.z) ** 2
        c, xp = block.counts, namespace_of(square)
        return {"powers": as_sum(xp.stack([xp.sum(c), c @ square, c @ square**2]))}


def significant(rows: FeatureRows) -> float:
    """Return the score above which a split is not noise; few features vary more."""
    return 2.5 + 6 / rows.n_features


def doubleness(rows: FeatureRows, lines: Lines, model: Model) -> Floats:
    """Return the scores of splits (k,) over that above which a split is not noise."""
    return np.asarray(split_steps(rows, lines, model)[0] / significant(rows))


def looks_double(rows: FeatureRows, lines: Lines, model: Model) -> bool:
    """Say whether a line stands for two more clearly than noise would have it."""
    return bool(doubleness(rows, lines, model).max() > 1)


def turned_pairs(rows: FeatureRows, lines: Lines, model: Model) -> Lines | None:
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
