r"""Means of spherical components, decoded from moments of rows whose noise is white.

The variance comes first. With no more than d components the means leave directions free, along
which the covariance is the noise: its smallest eigenvalues. With more, the same holds one order
up: :math:`M_4` on symmetric matrices has k nonzero eigenvalues out of :math:`p(p+1)/2` when the
variance taken out of it is the right one, and the sum of the others crosses zero there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from implicitmoments.arrays import Array, Floats, move_like, namespace_of, pair_rows, to_numpy
from implicitmoments.mixture.gaussians import Gaussians
from implicitmoments.mixture.span import largest_eigenpairs
from implicitmoments.moments.components import Components, find_components
from implicitmoments.moments.hermite_problem import all_rows
from implicitmoments.problems import SphericalMixtureProblem
from implicitmoments.rows import Rows, blocks
from implicitmoments.rows.fold import DEFAULT_BUDGET

SMALLEST = 0.02  # lower bound, relative to the smallest eigenvalue of the covariance
LARGEST_SIDE = 1_400  # of M_4: beyond it an eigendecomposition costs more than it is worth
NEWTON_STEPS = 8  # at most: Newton's method converges quadratically
CLOSE = 1e-4  # relative change at which the iteration stops: EM refines the variance
MANY_ROWS = 200_000  # of a second attempt, where the first does not resolve all components
CLEAR_GAP = 1.2  # k-th eigenvalue over the noise floor at which one attempt is enough
SMALLEST_WEIGHT = 0.1  # of 1/k, in a start: EM may shrink a component, but hardly recovers one


@dataclass(frozen=True, eq=False)
class FourthMoment:
    r"""The moment :math:`M_4 = A - v B + v^2 C` on symmetric matrices, for any variance v."""

    constant: Floats  # (dim, dim), A, B and C
    linear: Floats  # (dim, dim)
    square: Floats  # (dim, dim)

    def at(self, variance: float) -> Floats:
        """Return the moment."""
        return self.constant - variance * self.linear + variance**2 * self.square

    def slope(self, variance: float) -> Floats:
        """Return its derivative in the variance."""
        return 2 * variance * self.square - self.linear


def squares(y: Array) -> Array:
    """Return y yᵀ of every row (n, p) in coordinates (n, p(p+1)/2)."""
    _, _, factor = _places(int(y.shape[1]))
    return pair_rows(y) * move_like(factor, y)


def coordinates(M: Floats) -> Floats:
    """Return the coordinates of symmetric matrices (..., p, p)."""
    i, j, factor = _places(M.shape[-1])
    return np.asarray(M[..., i, j] * factor)


def raw_moments(y: Array, times: Array) -> tuple[Floats, Floats]:
    """Return the means of y yᵀ (p, p) and of products of its coordinates, for weights of sum 1."""
    n, p = y.shape
    xp, dim = namespace_of(y), p * (p + 1) // 2
    size = DEFAULT_BUDGET.rows_per_block(dim, y)
    S, Q = np.zeros((p, p)), np.zeros((dim, dim))
    for rows in blocks(range(n), size):
        part = y[rows.start : rows.stop, :]
        # fourth roots: a product of two coordinates then carries the root, and its square all
        root = (n * times[rows.start : rows.stop]) ** 0.25
        h = squares(part * root[:, None])
        Q += to_numpy(xp.matrix_transpose(h) @ h)
        S += to_numpy(xp.matrix_transpose(part * (root**4)[:, None]) @ part)
    return S / n, Q / n


def fourth_moment(S: Floats, Q: Floats) -> FourthMoment:
    r"""Assemble M_4 from the means of y yᵀ and of products of its coordinates.

    The first coordinate of y is a constant and the others carry the noise, J = diag(0, 1, …, 1).
    For symmetric P, R with :math:`f_P = y^\top P y` and traces taken with J,

    .. math:: \langle P \otimes R, He_4 \rangle = f_P f_R - v\,(tr P\, f_R + tr R\, f_P
       + 4\, y^\top P J R\, y) + v^2 (tr P\, tr R + 2\, tr(P J R J)).
    """
    J = np.diag(np.append(0.0, np.ones(len(S) - 1)))
    trace, mean = coordinates(J), coordinates(S)
    across = np.outer(trace, mean)
    linear = across + across.T + 4 * _product(J, S)
    square = np.outer(trace, trace) + 2 * _product(J, J)
    return FourthMoment(Q, linear, square)


def _places(p: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], Floats]:
    i, j = np.triu_indices(p)
    return i, j, np.where(i == j, 1.0, math.sqrt(2.0))


def _product(P: Floats, R: Floats) -> Floats:
    """Return the form A, B ↦ tr(A P B R), symmetrised, in coordinates."""
    i, j, factor = _places(len(P))
    # over the two orders of the indices of either matrix
    whole = P[j][:, i] * R[i][:, j]
    whole += P[j][:, j] * R[i][:, i]
    whole += P[i][:, i] * R[j][:, j]
    whole += P[i][:, j] * R[j][:, i]
    whole *= np.outer(factor, factor) / 4
    return np.asarray((whole + whole.T) / 2)


def guess_variance(rows: Rows, k: int) -> tuple[float, str]:
    """Return the variance of the noise in rows of a mixture of k components, and from what."""
    x, d = rows.block["x"], rows.n_features
    times = move_like(rows.counts / rows.total, x)  # sum to 1
    xp, x = namespace_of(x), x - (times[None, :] @ x)
    covariance = xp.matrix_transpose(x * times[:, None]) @ x
    values = np.linalg.eigvalsh(to_numpy(covariance).astype(np.float64))
    if k <= d:
        # the k means span k − 1 directions; the k − 1 largest eigenvalues absorb noise too
        free = values[: d - k + 1]
        return float(free.mean() / max(1 - k / rows.n, 0.5)), "covariance"
    upper = float(values[0])
    length = math.sqrt(float(values.sum()))
    side = (d + 1) * (d + 2) // 2
    if k >= side or side > LARGEST_SIDE or length == 0:
        return upper, "smallest eigenvalue"
    root = _fourth_moment_root(x / length, times, k, upper / length**2)
    return root * length**2, "fourth moments"


def _fourth_moment_root(x: Array, times: Array, k: int, upper: float) -> float:
    """Solve for the variance at which the eigenvalues of M_4 beyond k sum to zero."""
    xp = namespace_of(x)
    y = xp.concat([xp.ones_like(x[:, :1]), x], axis=1)
    moment = fourth_moment(*raw_moments(y, times))
    variance = upper
    for _ in range(NEWTON_STEPS):
        # of the eigenvalues beyond k, by the k largest: their sum, and its derivative
        whole, slope = moment.at(variance), moment.slope(variance)
        values, vectors = largest_eigenpairs(whole, k)
        fall = float(np.trace(slope) - np.sum(vectors * (slope @ vectors)))
        if fall >= 0:  # past the minimum: there is no root below
            break
        moved = variance - float(np.trace(whole) - values.sum()) / fall
        moved = min(max(moved, SMALLEST * upper), upper)
        done = abs(moved - variance) < CLOSE * upper
        variance = moved
        if done:
            break
    return variance


@dataclass(frozen=True, eq=False)
class Decoded:
    """Result of decoding the moments."""

    mixture: Gaussians | None = None  # spherical; none where they give none
    components: Components | None = None
    numbers: dict[str, Any] = field(default_factory=dict)  # what was measured

    @property
    def clear(self) -> bool:
        """Whether all components stand clear of the noise."""
        found = self.components
        return found is not None and found.identified and found.gap >= CLEAR_GAP


@dataclass(frozen=True)
class Decoder:
    """Decodes spherical components of one variance from moments of orders 2r and 3r."""

    order: int | None = None  # r; None for one chosen by k and d
    variance: float | None = None  # where it is known
    least: float = 1e-6  # variance

    def decode(self, rows: Rows, sample: Rows, k: int, rng: np.random.Generator) -> Decoded:
        """Decode k components of a sample of the rows, and of more rows if not clear there."""
        if k == 1:
            return Decoded()
        found = self._decode(sample, k, int(rng.integers(2**31)))
        if found.clear or sample.n >= min(rows.kept, MANY_ROWS):
            return found
        many = rows.sample(MANY_ROWS, rng, single=True).merged()
        return self._decode(many, k, int(rng.integers(2**31)))

    def _decode(self, sample: Rows, k: int, seed: int) -> Decoded:
        """Decode k components; outliers, which would dominate sixth moments, were left out."""
        numbers: dict[str, Any] = {"moment_rows": sample.n}
        if sample.n < k:
            return Decoded(numbers=numbers)
        variance, how = self.variance, "known"
        if variance is None:
            variance, how = guess_variance(sample, k)
        variance = max(variance, self.least)
        numbers |= {"first_variance": variance, "first_variance_from": how}
        problem = SphericalMixtureProblem(sample, variance=variance)
        try:
            # degenerate rows divide by zero; what follows is checked to be finite
            with np.errstate(all="ignore"):
                found = find_components(all_rows(problem), k, self.order, seed)
        except (ValueError, np.linalg.LinAlgError) as error:  # then there are other starts
            reason = {"moments_error": getattr(error, "code", "linear_algebra")}
            return Decoded(numbers=numbers | reason)
        numbers |= {"resolved": int(found.resolved.sum()), "gap": found.gap, "r": found.r}
        if not np.isfinite(found.guesses).all():
            return Decoded(None, found, numbers)
        read = np.ones(k) / k if found.decoded is None else found.decoded.weights
        weights = np.clip(np.nan_to_num(read, nan=1 / k), SMALLEST_WEIGHT / k, 1.0)
        # means outside the ball that the rows fill are moved to its surface
        reach = math.sqrt(float(np.max(np.sum(sample.points**2, axis=1))))
        lengths = np.linalg.norm(found.guesses, axis=1, keepdims=True)
        means = found.guesses * np.minimum(1.0, reach / np.maximum(lengths, 1e-300))
        covariances = np.full(means.shape, variance)
        mixture = Gaussians(weights / weights.sum(), np.asarray(means, float), covariances)
        return Decoded(mixture, found, numbers)
