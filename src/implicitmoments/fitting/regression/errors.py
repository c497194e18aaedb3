"""Standard errors from the observed information."""

from __future__ import annotations

import numpy as np

from implicitmoments.backends import Floats
from implicitmoments.fitting.regression.em import Model
from implicitmoments.fitting.regression.features import FeatureBlock, FeatureRows
from implicitmoments.fitting.regression.likelihood import Lines, responsibilities

__all__ = ["covariances", "information"]

MOST_NUMBERS = 2**31  # multiplications for the outer products; beyond it, fewer rows tell


def covariances(rows: FeatureRows, lines: Lines, model: Model) -> Floats:
    """Return the covariance of the coefficients of each line, (k, q, q); NaN if not known.

    The inverse of the observed information of all parameters together, so that what is not known
    of weights, noise and other lines counts.
    """
    k, q = lines.coef.shape
    first = 0 if model.intercept else 1
    side = k * (q - first + 2)
    some = rows.about(max(20 * side, MOST_NUMBERS // side**2))
    matrix = information(some, lines, model) * (rows.mass / some.mass)
    found = np.zeros((k, q, q))
    found[:, first:, first:] = np.nan
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return found
    inverse = np.linalg.inv(matrix)
    p = q - first
    for i in range(k):
        part = slice(i * p, (i + 1) * p)
        found[i, first:, first:] = inverse[part, part]
    return found


def information(rows: FeatureRows, lines: Lines, model: Model) -> Floats:
    r"""Return the observed information of all parameters (Louis 1982).

    Parameters are the coefficients, then :math:`\log w_i` of all lines but the last, then
    :math:`\log v`, one or k of them. With :math:`S_i` the score of a row if it is known to be on
    line i and :math:`B_i` its information, a row adds
    :math:`\sum_i R_i (B_i - S_i S_i^T) + s s^T`, where :math:`s = \sum_i R_i S_i`.
    """
    first = 0 if model.intercept else 1
    k, p = lines.k, lines.coef.shape[1] - first
    n_noise = 1 if model.shared else k
    side = k * p + (k - 1) + n_noise
    total = np.zeros((side, side))
    v = lines.variances
    for block in rows.blocks():
        R, _ = responsibilities(lines, block)
        c, z = block.counts, block.z[first:]
        r = block.y - lines.coef @ block.z
        slope = r / v[:, None]  # score of b is this times z
        noise = 0.5 * (r * slope - 1)  # score of log v
        scores = np.empty((side, len(c)))
        scores[: k * p] = ((R * slope)[:, None, :] * z).reshape(k * p, -1)
        scores[k * p : k * p + k - 1] = R[:-1] - lines.weights[:-1, None]
        on_line = R * noise
        scores[k * p + k - 1 :] = on_line.sum(axis=0) if model.shared else on_line
        total += (scores * c) @ scores.T
        for i in range(k):
            part = slice(i * p, (i + 1) * p)
            weight = c * R[i]
            at = k * p + k - 1 + (0 if model.shared else i)
            total[part, part] += (z * (weight * (1 / v[i] - slope[i] ** 2))) @ z.T
            # information of (b, log v) is r z / v, and S_b S_v its product of scores
            cross = z @ (weight * slope[i] * (1 - noise[i]))
            total[part, at] += cross
            total[at, part] += cross
            total[at, at] += weight @ (0.5 * r[i] * slope[i] - noise[i] ** 2)
        _add_weights(total, R, slope, noise, block, lines, model)
    return total


def _add_weights(
    total: Floats,
    R: Floats,
    slope: Floats,
    noise: Floats,
    block: FeatureBlock,
    lines: Lines,
    model: Model,
) -> None:
    """Add what concerns the weights, alone and with coefficients and noise."""
    first = 0 if model.intercept else 1
    c, z, w, k = block.counts, block.z[first:], lines.weights, lines.k
    start = k * len(z)
    part, rest = slice(start, start + k - 1), slice(start + k - 1, None)
    S = np.eye(k)[:, :-1] - w[:-1]  # score of the log-weights if the row is on line i, (k, k − 1)
    information = np.diag(w[:-1]) - np.outer(w[:-1], w[:-1])
    total[part, part] += c.sum() * information - (S.T * (R @ c)) @ S
    slopes = (R * slope * c) @ z.T  # (k, p)
    cross = -(slopes[:, :, None] * S[:, None, :]).reshape(start, k - 1)
    total[:start, part] += cross
    total[part, :start] += cross.T
    products = (R * noise) @ c
    with_noise = -(S.T @ products)[:, None] if model.shared else -(S.T * products)
    total[part, rest] += with_noise
    total[rest, part] += with_noise.T
