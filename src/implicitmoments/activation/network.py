r"""Sums of activations :math:`\sum_i w_i \sigma(v_i \cdot x + b_i)`, fitted by least squares."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import nnls

from implicitmoments.arrays import (
    TINY,
    Array,
    Floats,
    as_double,
    machine_epsilon,
    move_like,
    namespace_of,
    outer_rows,
    to_numpy,
)
from implicitmoments.evaluation import bic
from implicitmoments.moments.activations import Activation
from implicitmoments.rows import Block, Rows, Sums, weights_of

Columns: TypeAlias = Callable[[Block], list[Array]]  # arrays (n, ·) of a block, side by side

ROWS_PER_UNKNOWN = 20  # of a least-squares fit: chance then explains 5 % of the noise
SAMPLE_ROWS = 10_000  # fewest rows of a sample: fewer take no time
NEGLIGIBLE = 1e-9  # relative size below which a weight or a curvature is rounding


@dataclass(frozen=True, eq=False)
class Network:
    """Weights, unit directions and biases of a sum of activations."""

    weights: Floats  # (k,)
    directions: Floats  # (k, d)
    activation: Activation
    biases: Floats | None = None  # (k,), None for a model without them
    positive: bool = True  # weights are kept positive

    def __call__(self, x: Array) -> Array:
        """Evaluate at points (n, d)."""
        hidden: Array = self.activation(self.inputs(x))
        return hidden @ move_like(self.weights, hidden)

    def points(self, x: Array) -> Array:
        """Return what units are multiplied by: points (n, d), and 1 where there are biases."""
        return x if self.biases is None else with_ones(x)

    def inputs(self, x: Array) -> Array:
        """Return the inputs v_i · x + b_i (n, k) of the activations."""
        along: Array = x @ namespace_of(x).matrix_transpose(move_like(self.directions, x))
        return along if self.biases is None else along + move_like(self.biases, x)[None, :]

    @property
    def k(self) -> int:
        """Number of components."""
        return len(self.weights)

    @property
    def units(self) -> Floats:
        """Directions, followed by biases where there are any: (k, d) or (k, d + 1)."""
        biases = () if self.biases is None else (self.biases,)
        return np.column_stack([self.directions, *biases])

    def with_units(self, weights: Floats, units: Floats) -> Network:
        """Return the network of other weights and units, with directions scaled to length 1."""
        d = self.directions.shape[1]
        biases = None if self.biases is None else units[:, d]
        return replace(self, weights=weights, directions=unit_rows(units[:, :d]), biases=biases)

    def take(self, chosen: Any) -> Network:
        """Return some of the components, in this order."""
        return self.with_units(self.weights[chosen], self.units[chosen])

    def through(self, basis: Floats) -> Network:
        """Return the network whose directions are mapped by a basis, (d, p)."""
        return replace(self, directions=unit_rows(self.directions @ basis))

    def moved(self, step: Floats) -> Network:
        """Take a step in weights and units, (k + k q,)."""
        weights, units = self.weights + step[: self.k], self.units
        if self.positive:  # a weight of zero would freeze its direction
            weights = np.maximum(weights, NEGLIGIBLE * max(float(weights.max()), TINY))
        return self.with_units(weights, units + step[self.k :].reshape(units.shape))


def with_ones(x: Array) -> Array:
    """Return (x, 1), (n, d + 1)."""
    return namespace_of(x).concat([x, namespace_of(x).ones_like(x[:, :1])], axis=1)


def unit_rows(vectors: Floats) -> Floats:
    """Return vectors (k, d) scaled to length 1."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class FittedNetwork:
    """A network and its error on some rows."""

    network: Network
    loss: float  # mean squared error
    size: float  # mean square of the labels
    n: float  # number of rows, with their multiplicity
    eps: float  # precision of the rows
    history: tuple[float, ...] = ()  # the loss at the start and after every step
    converged: bool = True
    # share of the error that a further component of either sign explains; 0 if not clearly
    unexplained: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether nothing but rounding is left: relative errors of 1e-14 in double precision."""
        return self.loss <= (45 * self.eps) ** 2 * self.size

    @property
    def bic(self) -> float:
        """Bayesian information criterion; losses that rounding may cause are all alike."""
        least = max(self.loss, 2e5 * self.eps**1.5 * self.size, TINY)
        return bic(-0.5 * self.n * math.log(least), self.network.units.size, self.n)

    def expected_error(self, n: float) -> float:
        """Estimate the mean squared error on new rows by Akaike's final prediction error."""
        unknowns = self.network.units.size  # weights, unit vectors and biases
        return self.loss * (n + unknowns) / (n - unknowns) if n > unknowns else math.inf


def fit_network(
    rows: Rows, start: Network, *, max_iter: int = 100, tol: float = 1e-5
) -> FittedNetwork:
    """Minimise the mean squared error from a start, by the method of Levenberg and Marquardt.

    Slopes are those of all rows, so that the minimum is theirs too. The curvature only directs
    steps: it is that of a sample, in single precision, and serves for three steps. From m rows for
    each unknown a step leaves 1/√m of the way to the minimum.

    Parameters
    ----------
    rows : Rows
        With labels.
    max_iter : int
        Matrices of curvature.
    tol : float
        Stop when the steps by one matrix lower the error by less than this fraction of it.
    """
    here, slope = measure_slope(rows, start)
    some = sample_for(rows, start.k + start.units.size)
    history, damping, converged = [here.loss], 1e-3, here.exact or max_iter == 0
    for _ in range(0 if converged else max_iter):
        before, curvature = here.loss, mean_curvature(some, here.network, single=True)
        for tries in (12, 1, 1):  # dampings; a matrix costs as much as many slopes
            found = _descend(rows, here, curvature, slope, damping, tries)
            if found is None:
                break
            here, slope, damping = found
            history.append(here.loss)
        converged = here.exact or before - here.loss <= tol * here.loss
        if converged:
            break
    return replace(here, history=tuple(history), converged=converged)


def _descend(
    rows: Rows, here: FittedNetwork, curvature: Floats, slope: Floats, damping: float, tries: int
) -> tuple[FittedNetwork, Floats, float] | None:
    """Return a network of less error, its slope, and the next damping; None if none helps."""
    k, scale = here.network.k, np.diag(curvature)
    # weights have the units of labels, directions none
    floor = np.repeat([scale[:k].max(), scale[k:].max()], [k, len(scale) - k]) * NEGLIGIBLE
    for attempt in range(0 if here.exact else tries):
        factor = damping * 4.0**attempt
        try:
            damped = cho_factor(curvature + np.diag(factor * (scale + floor) + TINY))
        except LinAlgError:  # not positive, to rounding
            continue
        step = cho_solve(damped, slope)
        if np.all(np.abs(step) < 1 / np.finfo(float).eps):
            there, next_slope = measure_slope(rows, here.network.moved(step))
            if there.loss < here.loss:
                return there, next_slope, max(factor / 5, 1e-7)
    return None


def sample_for(rows: Rows, n_unknowns: int, fewest: int = SAMPLE_ROWS) -> Rows:
    """Return a sample large enough for these unknowns; all rows unless they are twice as many."""
    wanted = max(fewest, ROWS_PER_UNKNOWN * n_unknowns)
    return rows.sample(wanted, 0) if rows.n >= 2 * wanted else rows


def mean_products(
    rows: Rows, columns: Columns, width: int, what: str, *, single: bool = False
) -> Floats:
    """Average the products of columns with one another, in one pass.

    Every least-squares problem of this folder is solved by them: coefficients of a polynomial, a
    turn of the span, the weights and the steps of a network, and gains of candidates.

    Parameters
    ----------
    width : int
        Numbers computed per row.
    single : bool
        Compute in single precision.
    """
    sums = rows.fold(partial(_sum_products, columns, single), width=width, what=what)
    return np.asarray(to_numpy(sums["products"]) / float(sums["total"]), dtype=np.float64)


def _sum_products(columns: Columns, single: bool, block: Block) -> Sums:
    xp = namespace_of(block["x"])
    total = xp.sum(as_double(weights_of(block)))
    if single:
        block = {name: xp.astype(part, xp.float32, copy=False) for name, part in block.items()}
    parts = columns(block)
    made = parts[0] if len(parts) == 1 else xp.concat(parts, axis=1)
    if "counts" in block:
        made = made * xp.sqrt(xp.astype(block["counts"], made.dtype, copy=False))[:, None]
    return {"products": as_double(xp.matrix_transpose(made) @ made), "total": total}


def fit_weights(rows: Rows, network: Network) -> Network:
    """Return the network with the best weights, nonnegative if it keeps them positive."""
    gram, right = weight_equations(rows, network)
    ridge = NEGLIGIBLE * max(float(np.trace(gram)), TINY) * np.eye(network.k)
    # ‖A w − y‖² = ‖R w − R^{-T} A^T y‖² + constant, for A^T A = R^T R
    root = np.linalg.cholesky(gram + ridge).T
    across = np.linalg.solve(root.T, right)
    if not network.positive:
        return replace(network, weights=np.linalg.solve(root, across))
    solved = nnls(root, across)[0]
    # a small weight: a direction may still turn
    floor = max(float(solved.max()), TINY) / (10 * network.k)
    return replace(network, weights=np.maximum(solved, floor))


def weight_equations(rows: Rows, network: Network) -> tuple[Floats, Floats]:
    """Average products of activations (k, k), and of activations and labels (k,)."""

    def columns(block: Block) -> list[Array]:
        return [network.activation(network.inputs(block["x"])), block["y"][:, None]]

    gram = mean_products(rows, columns, 4 * network.k, "weights of directions")
    return gram[:-1, :-1], gram[:-1, -1]


def mean_curvature(rows: Rows, network: Network, *, single: bool = False) -> Floats:
    r"""Average :math:`J^\top J` over rows, unknowns ordered (w, v_1, b_1, …, v_k, b_k)."""
    # weights afterwards: squares of small ones would be zero in single precision
    plain = replace(network, weights=np.ones(network.k))
    units = np.append(plain.weights, np.repeat(network.weights, network.units.shape[1]))
    columns, what = partial(jacobian, plain), "curvature of the error"
    gram = mean_products(rows, columns, 2 * len(units), what, single=single)
    return off_directions(gram * units * units[:, None], network)


def jacobian(network: Network, block: Block) -> list[Array]:
    """Return derivatives by weights (n, k) and by units (n, k q), projected later."""
    x, u = block["x"], network.inputs(block["x"])
    slopes = network.activation.slope(u) * move_like(network.weights, x)[None, :]
    return [network.activation(u), outer_rows(slopes, network.points(x))]


def off_directions(matrix: Floats, network: Network) -> Floats:
    """Project a matrix of unknowns on both sides off the directions themselves, in place.

    A step along a unit vector itself changes nothing.
    """
    (k, q), d = network.units.shape, network.directions.shape[1]
    for side in (matrix, matrix.T):
        for i, v in enumerate(network.directions):
            own = side[k + i * q : k + i * q + d]
            own -= np.outer(v, v @ own)
    return matrix


def measure_slope(rows: Rows, network: Network) -> tuple[FittedNetwork, Floats]:
    r"""Return a network with its mean squared error, and :math:`J^\top r` as a mean over rows."""
    width = 6 * sum(network.units.shape)
    sums = rows.fold(partial(_sum_slope, network), width=width, what="slope of the error")
    total, slopes = float(sums["total"]), to_numpy(sums["units"])
    own = slopes[:, : network.directions.shape[1]]
    own -= np.sum(own * network.directions, axis=1, keepdims=True) * network.directions
    loss, size = float(sums["loss"]) / total, float(sums["size"]) / total
    fitted = FittedNetwork(network, loss, size, total, machine_epsilon(rows.table.first["y"]))
    return fitted, np.append(to_numpy(sums["weights"]), slopes.ravel()) / total


def _sum_slope(network: Network, block: Block) -> Sums:
    """Sum squares of residuals and labels in float64: steps are compared by differences."""
    x, y, counts = block["x"], block["y"], weights_of(block)
    xp, u, weights = namespace_of(x), network.inputs(x), move_like(network.weights, x)
    hidden = network.activation(u)
    left = y - hidden @ weights
    residual = left * counts
    inner = network.activation.slope(u) * weights[None, :] * residual[:, None]
    return {
        "loss": xp.sum(as_double(residual) * as_double(left)),
        "size": xp.sum(as_double(counts) * as_double(y) ** 2),
        "weights": as_double(residual @ hidden),
        "units": as_double(xp.matrix_transpose(inner) @ network.points(x)),
        "total": xp.sum(as_double(counts)),
    }


def standard_errors(rows: Rows, fitted: FittedNetwork) -> Floats:
    r"""Return standard errors of weights, directions (lengths) and biases, (3, k).

    NaN where a direction can turn without changing the sum; biases count if there are any. The
    covariance is :math:`s^2 (J^\top J)^{-1}`, of the curvature on a sample.
    """
    network = fitted.network
    (k, q), d = network.units.shape, network.directions.shape[1]
    curvature = mean_curvature(sample_for(rows, k + k * q), network)
    # weights have the units of labels, directions none
    largest = np.maximum([np.diag(curvature)[:k].max(), np.diag(curvature)[k:].max()], TINY**0.5)
    # along itself a unit vector has curvature 0: another number there adds its inverse below
    eye = np.eye(len(curvature))
    curvature += largest[1] * (eye - off_directions(eye.copy(), network))
    # in units in which every unknown has curvature 1
    floor = 1e-13 * np.repeat(largest, [k, k * q])
    root = np.sqrt(np.maximum(np.diag(curvature), floor))
    scaled = curvature / np.outer(root, root) + 1e-13 * np.eye(len(root))
    inverse = np.abs(np.diag(np.linalg.inv(scaled)))
    # relative variance above which a direction is free to turn
    loose = 1e7 if fitted.eps < NEGLIGIBLE else 0.1 / fitted.eps**0.75
    free = inverse[k:].reshape(k, q).max(axis=1) > loose
    noise = fitted.loss / max(rows.total - network.units.size, 1.0)
    variances = noise * inverse / root**2
    of_units = variances[k:].reshape(k, q)
    turns = np.maximum(of_units[:, :d].sum(axis=1) - noise / largest[1], 0.0)
    return np.where(free, np.nan, np.sqrt([variances[:k], turns, of_units[:, -1]]))
