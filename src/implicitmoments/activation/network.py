r"""The model :math:`\sum_i w_i \sigma(v_i \cdot x)`, fitted by least squares."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import array_api_compat
import numpy as np
from scipy.optimize import minimize, nnls

from implicitmoments.arrays import (
    TINY,
    Array,
    Floats,
    as_double,
    machine_epsilon,
    move_like,
    multiply_into,
    namespace_of,
    to_numpy,
)
from implicitmoments.problems.activations import Activation
from implicitmoments.rows import Block, Rows, Sums, weights_of
from implicitmoments.rows.fold import LARGEST

MOST_UNKNOWNS = 2_000  # of Gauss-Newton; beyond it L-BFGS, which holds no square matrix
SMALLEST_WEIGHT = 1e-9  # relative: a weight of zero would freeze its direction
TRIES = 12  # of one step, each four times as damped: over seven orders of magnitude
SMALLEST_CURVATURE = 1e-12  # relative; below it a move changes the sum by rounding only
LEAST = TINY**0.5  # its square is still a normal number


@dataclass(frozen=True, eq=False)
class Network:
    """Weights and unit directions of a sum of activations."""

    weights: Floats  # (k,)
    directions: Floats  # (k, d)
    activation: Activation

    def __call__(self, x: Array) -> Array:
        """Evaluate at points (n, d)."""
        hidden: Array = self.activation(self.inputs(x))
        return hidden @ move_like(self.weights, hidden)

    def inputs(self, x: Array) -> Array:
        """Return the inputs v_i · x (n, k) of the activations."""
        return x @ namespace_of(x).matrix_transpose(move_like(self.directions, x))

    @property
    def k(self) -> int:
        """Number of components."""
        return len(self.weights)

    @property
    def n_unknowns(self) -> int:
        """Degrees of freedom: weights, and unit vectors."""
        return int(self.directions.size)

    def take(self, chosen: Any) -> Network:
        """Return some of the components, in this order."""
        return replace(self, weights=self.weights[chosen], directions=self.directions[chosen])

    def moved(self, step: Floats) -> Network:
        """Take a step in weights and directions, back onto the unit sphere."""
        weights = self.weights + step[: self.k]
        weights = np.maximum(weights, SMALLEST_WEIGHT * max(float(weights.max()), TINY))
        directions = self.directions + step[self.k :].reshape(self.directions.shape)
        return replace(self, weights=weights, directions=unit_rows(directions))


def unit_rows(vectors: Floats) -> Floats:
    """Return vectors (k, d) scaled to length 1."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class FittedNetwork:
    """A network and how it was reached."""

    network: Network
    loss: float  # mean squared error on the rows
    size: float  # mean square of the labels
    eps: float  # precision of the rows
    history: tuple[float, ...] = ()  # the loss at the start and after every step
    converged: bool = True

    @property
    def double(self) -> bool:
        """Whether the rows have double precision."""
        return self.eps <= float(np.finfo(np.float64).eps)

    @property
    def rounding(self) -> float:
        """Relative loss that is rounding: a smaller one means nothing."""
        return 1e-28 if self.double else 100 * self.eps**2

    @property
    def resolved_loss(self) -> float:
        """The loss, or the smallest loss that exceeds rounding."""
        least = 1e-20 if self.double else 1e3 * self.eps**2
        return max(self.loss, least * self.size, TINY)

    def expected_error(self, n: float) -> float:
        """Estimate the mean squared error on new rows by Akaike's final prediction error."""
        unknowns = self.network.n_unknowns
        return self.loss * (n + unknowns) / (n - unknowns) if n > unknowns else math.inf


def fit_network(
    rows: Rows, start: Network, *, max_iter: int = 100, tol: float = 1e-5
) -> FittedNetwork:
    """Minimise the mean squared error from a start.

    Levenberg-Marquardt on the normal equations, summed block by block; L-BFGS where there are
    too many unknowns for a square matrix of them.

    Parameters
    ----------
    rows : Rows
        With labels.
    tol : float
        Stop when a step lowers the error by less than this fraction of it. Labels without noise
        are fitted to rounding, since each step then removes nearly all of the error.
    """
    if start.weights.size + start.directions.size > MOST_UNKNOWNS:
        return _fit_by_gradients(rows, start, max_iter, tol)
    found, damping = measure_loss(rows, start), 1e-3
    history, converged = [found.loss], found.loss <= found.rounding * found.size
    for _ in range(max_iter):
        if converged:
            break
        gram, right = normal_equations(rows, found.network)
        for _ in range(TRIES):
            step = _step(gram, right, damping, found.network.k)
            tried = measure_loss(rows, found.network.moved(step))
            if tried.loss < found.loss:
                break
            damping *= 4
        else:  # no step helps: a minimum, to rounding
            converged = True
            break
        small = found.loss - tried.loss <= tol * tried.loss
        converged = small or tried.loss <= tried.rounding * tried.size
        found, damping = tried, max(damping / 5, 1e-12)
        history.append(found.loss)
    return replace(found, history=tuple(history), converged=converged)


def measure_loss(rows: Rows, network: Network) -> FittedNetwork:
    """Return a network with its mean squared error."""
    width = 4 * sum(network.directions.shape)
    sums = rows.fold(partial(_sum_squares, network), width=width, what="error")
    total = float(sums["total"])
    loss, size = float(sums["loss"]) / total, float(sums["size"]) / total
    return FittedNetwork(network, loss, size, float(sums[LARGEST + "eps"]))


def normal_equations(rows: Rows, network: Network) -> tuple[Floats, Floats]:
    r"""Average :math:`J^\top J` and :math:`J^\top r`, unknowns ordered (w, v_1, …, v_k).

    Moves along :math:`v_i` itself change nothing once it is scaled back to length 1; the matrix
    gets their average curvature there, so that it can be inverted.
    """
    k, d = network.directions.shape
    measure, width = partial(_sum_curvature, network), k * (d + 1)
    sums = rows.fold(measure, width=width, what="curvature of the error")
    total = float(sums["total"])
    gram, right = to_numpy(sums["gram"]) / total, to_numpy(sums["right"]) / total
    for i, v in enumerate(network.directions):
        own = slice(k + i * d, k + (i + 1) * d)
        curvature = max(float(np.trace(gram[own, own])) / d, TINY)
        across = np.eye(d) - np.outer(v, v)
        gram[own, :] = across @ gram[own, :]
        gram[:, own] = gram[:, own] @ across
        right[own] = across @ right[own]
        gram[own, own] += curvature * np.outer(v, v)
    return gram, right


def _step(gram: Floats, right: Floats, damping: float, k: int) -> Floats:
    scale = np.diag(gram)
    # weights and directions have different units
    floor = np.repeat([scale[:k].max(), scale[k:].max()], (k, len(scale) - k))
    damped = gram + damping * np.diag(scale + 1e-12 * floor)
    try:
        return np.asarray(np.linalg.solve(damped, right), dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(damped, right, rcond=None)[0], dtype=np.float64)


def fit_weights(rows: Rows, directions: Floats, activation: Activation) -> Network:
    """Return the network of given directions with the best nonnegative weights."""
    k = len(directions)
    network = Network(np.ones(k), directions, activation)
    width = 4 * k + sum(directions.shape)
    sums = rows.fold(partial(_sum_products, network), width=width, what="weights of directions")
    total, right = float(sums["total"]), to_numpy(sums["right"])
    values, vectors = np.linalg.eigh(to_numpy(sums["gram"]) / total)
    root = np.sqrt(np.maximum(values, 1e-12 * max(float(values[-1]), TINY)))
    # ‖A w − y‖² = ‖R w − R^{-T} A^T y‖² + constant, for A^T A = R^T R
    solved = nnls(root[:, None] * vectors.T, (vectors.T @ right) / total / root)[0]
    floor = max(float(solved.max()), TINY) / (10 * k)  # a small weight: a direction may still turn
    return replace(network, weights=np.maximum(solved, floor))


def _fit_by_gradients(rows: Rows, start: Network, max_iter: int, tol: float) -> FittedNetwork:
    """Minimise by L-BFGS in roots of the weights and directions of any length."""
    k, d = start.directions.shape
    first = measure_loss(rows, start)
    size = max(first.size, TINY)

    def network_of(z: Floats) -> tuple[Network, Floats]:
        directions = z[k:].reshape(k, d)
        lengths = np.linalg.norm(directions, axis=1, keepdims=True)
        return replace(start, weights=z[:k] ** 2, directions=directions / lengths), lengths

    def objective(z: Floats) -> tuple[float, Floats]:
        network, lengths = network_of(z)
        measure = partial(_sum_gradient, network)
        sums = rows.fold(measure, width=4 * (k + d), what="gradient of the error")
        unit = float(sums["total"]) * size
        slope_w, slope_v = to_numpy(sums["weights"]), to_numpy(sums["directions"])
        v = network.directions
        slope_v = (slope_v - np.sum(slope_v * v, axis=1, keepdims=True) * v) / lengths
        gradient = np.concatenate([slope_w * 2 * z[:k], slope_v.ravel()]) * 2
        return float(sums["loss"]) / unit, gradient / unit

    history = [first.loss]

    def note(intermediate_result: Any) -> None:
        history.append(float(intermediate_result.fun) * size)

    options: Any = {"maxiter": 10 * max_iter, "ftol": tol / 10}
    options["gtol"] = math.sqrt(first.rounding)
    z = np.concatenate([np.sqrt(start.weights), start.directions.ravel()])
    found = minimize(objective, z, jac=True, method="L-BFGS-B", callback=note, options=options)
    network, loss = network_of(found.x)[0], float(found.fun) * size
    return FittedNetwork(network, loss, first.size, first.eps, tuple(history), found.success)


@dataclass(frozen=True, eq=False)
class StandardErrors:
    """Standard errors from the curvature of the mean squared error."""

    # (k,), directions as lengths. NaN where there are too many unknowns to compute them
    weights: Floats
    directions: Floats  # (k,)
    # (k,), directions that can turn without changing the sum
    free: np.ndarray[Any, np.dtype[np.bool_]]


def standard_errors(rows: Rows, fitted: FittedNetwork) -> StandardErrors:
    r"""Invert the normal equations: the covariance is :math:`s^2 (J^\top J)^{-1}`."""
    network = fitted.network
    k, d = network.directions.shape
    if k * (d + 1) > MOST_UNKNOWNS:
        unknown = np.full(k, np.nan)
        return StandardErrors(unknown, unknown, np.zeros(k, dtype=bool))
    gram, _ = normal_equations(rows, network)
    # in units in which every unknown has curvature 1; weights and directions have their own
    curvatures = np.diag(gram)
    largest = np.repeat([curvatures[:k].max(), curvatures[k:].max()], (k, k * d))
    still = curvatures <= SMALLEST_CURVATURE * np.maximum(largest, LEAST)
    root = np.where(still, 1.0, np.sqrt(np.maximum(curvatures, LEAST)))
    scaled = gram / np.outer(root, root)
    scaled[still, :] = scaled[:, still] = 0.0
    values, vectors = np.linalg.eigh(scaled)
    inverse = (vectors**2) @ (1 / np.maximum(values, SMALLEST_CURVATURE))
    variance = fitted.loss / max(rows.total - network.n_unknowns, 1.0)
    by_move = (inverse / root**2)[k:].reshape(k, d)
    # of the d moves the one along the direction itself, of mean curvature, is no error
    own = 1 / np.maximum(curvatures[k:].reshape(k, d).mean(axis=1), LEAST)
    # relative variance above which a direction is free to turn
    loose = 1e7 if fitted.double else 0.1 / fitted.eps**0.75
    free = inverse[k:].reshape(k, d).max(axis=1) > loose
    free |= still[k:].reshape(k, d).any(axis=1)
    own = np.where(free, 0.0, own)
    return StandardErrors(
        np.sqrt(variance * (inverse / root**2)[:k]),
        np.sqrt(variance * np.maximum(by_move.sum(axis=1) - own, 0.0)),
        free,
    )


def _total(block: Block) -> Array:
    counts = as_double(weights_of(block))
    return namespace_of(counts).sum(counts)


def _sum_squares(network: Network, block: Block) -> Sums:
    """Sum squares of residuals and labels in float64: steps are compared by differences."""
    y, counts = block["y"], as_double(weights_of(block))
    xp = namespace_of(y)
    return {
        "loss": xp.sum(counts * as_double(y - network(block["x"])) ** 2),
        "size": xp.sum(counts * as_double(y) ** 2),
        "total": xp.sum(counts),
        LARGEST + "eps": machine_epsilon(y),
    }


def _sum_products(network: Network, block: Block) -> Sums:
    """Sum products of activations, and of activations and labels."""
    hidden = network.activation(network.inputs(block["x"]))
    weighted = hidden * weights_of(block)[:, None]
    gram = namespace_of(hidden).matrix_transpose(weighted) @ hidden
    return {
        "gram": as_double(gram),
        "right": as_double(block["y"] @ weighted),
        "total": _total(block),
    }


def _sum_curvature(network: Network, block: Block) -> Sums:
    """Sum JᵀJ and Jᵀr."""
    x, u = block["x"], network.inputs(block["x"])
    xp, hidden, weights = namespace_of(x), network.activation(u), move_like(network.weights, u)
    root = xp.sqrt(weights_of(block))
    slopes = network.activation.slope(u) * weights[None, :] * root[:, None]
    # activations, and slopes times points, side by side: (n, k + k · d)
    (n, k), d = hidden.shape, x.shape[1]
    jacobian = xp.empty((n, k * (d + 1)), dtype=x.dtype, device=array_api_compat.device(x))
    jacobian[:, :k] = hidden * root[:, None]
    for i in range(k):
        own = slice(k + i * d, k + (i + 1) * d)
        multiply_into(jacobian[:, own], slopes[:, i : i + 1], x)
    residual = (block["y"] - hidden @ weights) * root
    return {
        "gram": as_double(xp.matrix_transpose(jacobian) @ jacobian),
        "right": as_double(residual @ jacobian),
        "total": _total(block),
    }


def _sum_gradient(network: Network, block: Block) -> Sums:
    """Sum the error and its slopes in weights and directions, but for a factor 2."""
    x, u = block["x"], network.inputs(block["x"])
    xp, hidden, weights = namespace_of(x), network.activation(u), move_like(network.weights, u)
    off = hidden @ weights - block["y"]
    residual = off * weights_of(block)
    inner = network.activation.slope(u) * weights[None, :] * residual[:, None]
    return {
        "loss": xp.sum(as_double(residual) * as_double(off)),
        "weights": as_double(residual @ hidden),
        "directions": as_double(xp.matrix_transpose(inner) @ x),
        "total": _total(block),
    }
