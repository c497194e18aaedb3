"""Standard errors from the observed information."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from implicitmoments.arrays import Floats, move_like, namespace_of
from implicitmoments.regression.lines import (
    Lines,
    Model,
    as_sum,
    columns_of,
    responsibilities,
)
from implicitmoments.rows import Block, Rows, Sums

ROWS_PER_PARAMETER = 20  # at least, so that the information of a sample is not singular
MOST_NUMBERS = 2**31  # multiplications for the outer products; beyond it, a sample is used


def covariances(rows: Rows, lines: Lines, model: Model, n: int | None = None) -> Floats:
    """Return the covariance of the coefficients of each line, (k, q, q); NaN if not known.

    The inverse of the observed information of all parameters together, so that the uncertainty
    of weights, noise and other lines counts.

    Parameters
    ----------
    n : int, optional
        Rows on which the information is measured, or more where it is indefinite there.
    """
    k, q = lines.coef.shape
    first, side = model.first, replace(model, student=False).n_parameters(k, q)
    found = np.zeros((k, q, q))
    found[:, first:, first:] = np.nan
    n = n or max(ROWS_PER_PARAMETER * side, MOST_NUMBERS // side**2)
    inverse = _inverse_information(rows, lines, model, n)
    if inverse is None:
        return found
    p = q - first
    for i in range(k):
        part = slice(i * p, (i + 1) * p)
        found[i, first:, first:] = inverse[part, part]
    return found


def _inverse_information(rows: Rows, lines: Lines, model: Model, n: int) -> Floats | None:
    """Invert the information of about n rows, or of more where so few leave it indefinite.

    The lines maximise the likelihood of all rows; the information of a sample at them need not
    be positive. None where all rows, or as many as a sample holds, are not enough either.
    """
    before = 0
    while True:
        some = rows if rows.kept < 2 * n else rows.sample(n)
        matrix = information(some, lines, model) * (rows.total / some.total)
        try:
            np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            if some is rows or some.kept <= before:
                return None
            before, n = some.kept, 2 * n
        else:
            return np.asarray(np.linalg.inv(matrix))


def information(rows: Rows, lines: Lines, model: Model) -> Floats:
    r"""Return the observed information of all parameters (Louis 1982).

    Parameters are the coefficients, then :math:`\log w_i` of all lines but the last, then
    :math:`\log v`, one or k of them. With :math:`S_i` the score of a row if it is known to be on
    line i and :math:`B_i` its information, a row adds
    :math:`\sum_i R_i (B_i - S_i S_i^T) + s s^T`, where :math:`s = \sum_i R_i S_i`.
    The degrees of freedom of Student's law are taken as known.
    """
    first = model.first
    k, p = lines.k, lines.coef.shape[1] - first
    side = replace(model, student=False).n_parameters(k, lines.coef.shape[1])
    width = 2 * side + 8 * k + rows.n_features
    sums = rows.fold(_Scores(lines, model), width=width, what="standard errors")
    total: Floats = sums["outer"].copy()
    for i in range(k):
        part = slice(i * p, (i + 1) * p)
        at = k * p + k - 1 + (0 if model.shared else i)
        total[part, part] += sums["slopes"][i]
        total[part, at] += sums["cross"][i]
        total[at, part] += sums["cross"][i]
        total[at, at] += sums["noise"][i]
    _add_weights(total, sums, lines, model)
    return total


@dataclass(frozen=True, eq=False)
class _Scores:
    """Sums of scores and their products, of all parameters and line by line."""

    lines: Lines
    model: Model

    def __call__(self, block: Block) -> Sums:
        lines, u, c = self.lines, columns_of(block), block["counts"]
        xp, k, n = namespace_of(u), lines.k, u.shape[1]
        z = u[self.model.first : -1, :]
        R, _ = responsibilities(lines, u)
        v = move_like(lines.variances, u)[:, None]
        r = u[-1, :] - move_like(lines.coef, u) @ u[:-1, :]
        # Student's law: ν / (ν + δ), which is 1 for Gaussian noise
        inner = 1 / (1 + r * r / (v * move_like(lines.freedom, u)[:, None]))
        factor = move_like(1 + 1 / lines.freedom, u)[:, None] * inner
        slope = factor * r / v  # score of b is this times z
        noise = 0.5 * (r * slope - 1)  # score of log v
        on_line = R * noise
        scores = xp.concat(
            [
                xp.reshape((R * slope)[:, None, :] * z[None, :, :], (k * z.shape[0], n)),
                R[:-1, :] - move_like(lines.weights[:-1], u)[:, None],
                xp.sum(on_line, axis=0, keepdims=True) if self.model.shared else on_line,
            ],
            axis=0,
        )
        weight, turned = R * c, xp.matrix_transpose(z)
        bend = weight * (factor * (2 * inner - 1) / v - slope**2)
        # information of (b, log v) is r z / v, and S_b S_v its product of scores
        cross = weight * slope * (inner - noise)
        return {
            "outer": as_sum((scores * c) @ xp.matrix_transpose(scores)),
            "slopes": np.stack([as_sum((z * bend[i, :]) @ turned) for i in range(k)]),
            "cross": as_sum(cross @ turned),
            "noise": as_sum(xp.sum(weight * (0.5 * inner * r * slope - noise**2), axis=1)),
            "mass": as_sum(xp.sum(c)),
            "masses": as_sum(R @ c),
            "slope scores": as_sum((R * slope * c) @ turned),
            "noise scores": as_sum(on_line @ c),
        }


def _add_weights(total: Floats, sums: Sums, lines: Lines, model: Model) -> None:
    """Add the entries of the weights, and their cross terms with coefficients and noise."""
    w, k, slopes = lines.weights, lines.k, sums["slope scores"]
    start = slopes.size
    part, rest = slice(start, start + k - 1), slice(start + k - 1, None)
    S = np.eye(k)[:, :-1] - w[:-1]  # score of the log-weights if the row is on line i, (k, k − 1)
    information = np.diag(w[:-1]) - np.outer(w[:-1], w[:-1])
    total[part, part] += sums["mass"] * information - (S.T * sums["masses"]) @ S
    cross = -(slopes[:, :, None] * S[:, None, :]).reshape(start, k - 1)
    total[:start, part] += cross
    total[part, :start] += cross.T
    products = sums["noise scores"]
    with_noise = -(S.T @ products)[:, None] if model.shared else -(S.T * products)
    total[part, rest] += with_noise
    total[rest, part] += with_noise.T
