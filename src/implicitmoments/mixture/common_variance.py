r"""The common variance of the components, before any component is known.

With no more than d components the means leave directions free, along which the covariance is the
noise: its smallest eigenvalues. With more, the same holds one floor up: :math:`M_4` on symmetric
matrices has k nonzero eigenvalues out of :math:`p(p+1)/2` when the variance taken out of it is the
right one, and the sum of the others crosses zero there.
"""

from __future__ import annotations

import math

import numpy as np

from implicitmoments.arrays import Array, move_like, namespace_of, to_numpy
from implicitmoments.mixture.fourth_moment import fourth_moment, raw_moments
from implicitmoments.mixture.sample import Sample

SMALLEST = 0.02  # of the smallest eigenvalue of the covariance: what is believed at the least
LARGEST_SIDE = 1_400  # of M_4: beyond it an eigendecomposition costs more than it tells
NEWTON_STEPS = 8
CLOSE = 1e-4  # relative change at which the iteration stops


def guess_variance(rows: Sample, k: int) -> tuple[float, str]:
    """Return the variance of the noise in rows of a mixture of k components, and how.

    Returns
    -------
    how : {"covariance", "fourth moments", "smallest eigenvalue"}
    """
    d, times, xp = rows.n_features, normalised(rows), namespace_of(rows.X)
    x = rows.X - (times[None, :] @ rows.X)
    covariance = xp.matrix_transpose(x * times[:, None]) @ x
    values = np.linalg.eigvalsh(to_numpy(covariance).astype(np.float64))
    if k <= d:
        # the k means span k − 1 directions; the largest eigenvalues carry noise off as well
        free = values[: d - k + 1]
        return float(free.mean() / max(1 - k / rows.n, 0.5)), "covariance"
    upper = float(values[0])
    length = math.sqrt(float(values.sum()))
    side = (d + 1) * (d + 2) // 2
    if k >= side or side > LARGEST_SIDE or length == 0:
        return upper, "smallest eigenvalue"
    return _fourth_moment_root(x / length, times, k, upper / length**2) * length**2, (
        "fourth moments"
    )


def normalised(rows: Sample) -> Array:
    """Return weights of the rows that sum to 1, (n,)."""
    return move_like(rows.weights / rows.total, rows.X)


def _fourth_moment_root(x: Array, times: Array, k: int, upper: float) -> float:
    """Solve for the variance at which the eigenvalues of M_4 beyond k sum to zero."""
    xp = namespace_of(x)
    y = xp.concat([xp.ones_like(x[:, :1]), x], axis=1)
    moment = fourth_moment(*raw_moments(y, times))
    variance = upper
    for _ in range(NEWTON_STEPS):
        values, vectors = np.linalg.eigh(moment.at(variance))
        rest = vectors[:, : len(values) - k]
        fall = float(np.sum(rest * (moment.slope(variance) @ rest)))
        if fall >= 0:  # past the minimum: there is no root below
            break
        moved = variance - float(values[: len(values) - k].sum()) / fall
        moved = min(max(moved, SMALLEST * upper), upper)
        done = abs(moved - variance) < CLOSE * upper
        variance = moved
        if done:
            break
    return variance
