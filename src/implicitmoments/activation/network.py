r"""The model itself, :math:`\sum_i w_i \sigma(v_i \cdot x)`, fitted by least squares."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import array_api_compat
import numpy as np
from scipy.optimize import minimize, nnls

from implicitmoments.activation.precision import Rounding, wide
from implicitmoments.arrays import (
    Array,
    Floats,
    move_like,
    multiply_into,
    namespace_of,
    to_numpy,
)
from implicitmoments.problems.activations import Activation
from implicitmoments.problems.labelled_rows import LabelledRows, Rows
from implicitmoments.rows import Sums
from implicitmoments.rows.fold import LARGEST

__all__ = ["Network", "Polished", "fit_weights", "normal_equations", "polish"]

MOST_UNKNOWNS = 2_000  # of Gauss-Newton; beyond it L-BFGS, which holds no square matrix
SMALLEST_WEIGHT = 1e-9  # relative: a weight of zero would freeze its direction
TRIES = 12  # of one step, each more damped


@dataclass(frozen=True, eq=False)
class Network:
    """Weights and unit directions of a sum of activations.

    Attributes
    ----------
    weights : array of shape (k,)
    directions : array of shape (k, d)
    activation : Activation
    """

    weights: Floats
    directions: Floats
    activation: Activation

    def __call__(self, x: Array) -> Array:
        """Evaluate at points (n, d)."""
        hidden = self.activation(_along(x, self.directions))
        return hidden @ move_like(self.weights, hidden)

    @property
    def n_unknowns(self) -> int:
        """Numbers that are fitted: weights, and unit vectors."""
        return int(self.directions.size)

    def moved(self, step: Floats) -> Network:
        """Take a step in weights and directions, back onto the unit sphere."""
        k = len(self.weights)
        weights = self.weights + step[:k]
        weights = np.maximum(weights, SMALLEST_WEIGHT * max(float(weights.max()), 1e-300))
        directions = self.directions + step[k:].reshape(self.directions.shape)
        lengths = np.linalg.norm(directions, axis=1, keepdims=True)
        return replace(self, weights=weights, directions=directions / lengths)


@dataclass(frozen=True, eq=False)
class Polished:
    """A network and how it was reached.

    Attributes
    ----------
    network : Network
    loss : float
        Mean squared error on the rows.
    history : tuple of float
        The loss at the start and after every step.
    converged : bool
    rounding : Rounding
        Of the precision of the rows.
    """

    network: Network
    loss: float
    history: tuple[float, ...]
    converged: bool
    rounding: Rounding

    def expected_error(self, n: float) -> float:
        """Estimate the mean squared error on new rows by Akaike's final prediction error."""
        unknowns = self.network.n_unknowns
        return self.loss * (n + unknowns) / (n - unknowns) if n > unknowns else math.inf


def polish(
    rows: LabelledRows, start: Network, *, max_iter: int = 100, tol: float = 1e-5
) -> Polished:
    """Minimise the mean squared error from a start.

    Levenberg-Marquardt on the normal equations, summed block by block; L-BFGS where there are
    too many unknowns for a square matrix of them.

    Parameters
    ----------
    rows : LabelledRows
    start : Network
    max_iter : int
    tol : float
        Stop when a step lowers the error by less than this part of it. Labels without noise are
        fitted on to rounding, since each step then takes away nearly all that is left.
    """
    if start.weights.size + start.directions.size > MOST_UNKNOWNS:
        return _by_gradients(rows, start, max_iter, tol)
    network, damping = start, 1e-3
    loss, size, rounding = _loss(rows, network)
    history, converged = [loss], loss <= rounding.step * size
    for _ in range(max_iter):
        if converged:
            break
        gram, right = normal_equations(rows, network)
        tried, lower = network, loss
        for _ in range(TRIES):
            tried = network.moved(_step(gram, right, damping, len(network.weights)))
            lower = _loss(rows, tried)[0]
            if lower < loss:
                break
            damping *= 4
        if not lower < loss:  # no step helps: a minimum, to rounding
            converged = True
            break
        converged = loss - lower <= tol * lower or lower <= rounding.step * size
        network, loss, damping = tried, lower, max(damping / 5, 1e-12)
        history.append(loss)
    return Polished(network, loss, tuple(history), converged, rounding)


def normal_equations(rows: LabelledRows, network: Network) -> tuple[Floats, Floats]:
    r"""Average :math:`J^\top J` and :math:`J^\top r`, unknowns ordered (w, v_1, …, v_k).

    Moves along :math:`v_i` itself change nothing once it is scaled back to length 1; the matrix
    gets their average curvature there, so that it can be inverted.
    """
    k, d = network.directions.shape
    sums = rows.fold(_Curvature(network), k * (d + 1), "curvature of the error")
    mass = float(sums["mass"])
    gram, right = to_numpy(sums["gram"]) / mass, to_numpy(sums["right"]) / mass
    for i, v in enumerate(network.directions):
        own = slice(k + i * d, k + (i + 1) * d)
        curvature = max(float(np.trace(gram[own, own])) / d, np.finfo(float).tiny)
        across = np.eye(d) - np.outer(v, v)
        gram[own, :] = across @ gram[own, :]
        gram[:, own] = gram[:, own] @ across
        right[own] = across @ right[own]
        gram[own, own] += curvature * np.outer(v, v)
    return gram, right


def fit_weights(rows: LabelledRows, directions: Floats, activation: Activation) -> Network:
    """Return the network of given directions with the best weights that are not negative."""
    k = len(directions)
    width = 4 * k + block_width(directions)
    sums = rows.fold(_Products(directions, activation), width, "weights of the directions")
    mass, right = float(sums["mass"]), to_numpy(sums["right"])
    values, vectors = np.linalg.eigh(to_numpy(sums["gram"]) / mass)
    root = np.sqrt(np.maximum(values, 1e-12 * max(float(values[-1]), 1e-300)))
    # ‖A w − y‖² = ‖R w − R^{-T} A^T y‖² + constant, for A^T A = R^T R
    solved = nnls(root[:, None] * vectors.T, (vectors.T @ right) / mass / root)[0]
    floor = max(float(solved.max()), 1e-300) / (10 * k)  # a small share: a direction may yet turn
    return Network(np.maximum(solved, floor), directions, activation)


def block_width(directions: Floats) -> int:
    """Numbers made of a row when it is evaluated."""
    return int(sum(directions.shape))


def _along(x: Array, directions: Floats) -> Array:
    return x @ namespace_of(x).matrix_transpose(move_like(directions, x))


def _jacobian(hidden: Array, slopes: Array, x: Array) -> Array:
    """Return activations, and slopes times points, side by side: (n, k + k · d)."""
    (n, k), d = hidden.shape, x.shape[1]
    device = array_api_compat.device(x)
    jacobian = namespace_of(x).empty((n, k * (d + 1)), dtype=x.dtype, device=device)
    jacobian[:, :k] = hidden
    for i in range(k):
        own = slice(k + i * d, k + (i + 1) * d)
        multiply_into(jacobian[:, own], slopes[:, i : i + 1], x)
    return jacobian


@dataclass(frozen=True, eq=False)
class _Curvature:
    """Sums JᵀJ and Jᵀr."""

    network: Network

    def __call__(self, rows: Rows) -> Sums:
        xp, network = namespace_of(rows.x), self.network
        u = _along(rows.x, network.directions)
        hidden = network.activation(u)
        weights = move_like(network.weights, u)
        root = xp.sqrt(rows.counts)
        slopes = network.activation.slope(u) * weights[None, :] * root[:, None]
        jacobian = _jacobian(hidden * root[:, None], slopes, rows.x)
        residual = (rows.y - hidden @ weights) * root
        return {
            "gram": wide(xp.matrix_transpose(jacobian) @ jacobian),
            "right": wide(residual @ jacobian),
            "mass": xp.sum(wide(rows.counts)),
        }


@dataclass(frozen=True, eq=False)
class _Products:
    """Sums products of activations, and of activations and labels."""

    directions: Floats
    activation: Activation

    def __call__(self, rows: Rows) -> Sums:
        xp = namespace_of(rows.x)
        hidden = self.activation(_along(rows.x, self.directions))
        weighted = hidden * rows.counts[:, None]
        return {
            "gram": wide(xp.matrix_transpose(weighted) @ hidden),
            "right": wide(rows.y @ weighted),
            "mass": xp.sum(wide(rows.counts)),
        }


@dataclass(frozen=True, eq=False)
class _Squares:
    """Sums squares of residuals and of labels, in float64: steps are told by their differences."""

    network: Network

    def __call__(self, rows: Rows) -> Sums:
        xp, counts = namespace_of(rows.y), wide(rows.counts)
        return {
            "loss": xp.sum(counts * wide(rows.y - self.network(rows.x)) ** 2),
            "size": xp.sum(counts * wide(rows.y) ** 2),
            "mass": xp.sum(counts),
            LARGEST + "eps": float(xp.finfo(rows.y.dtype).eps),
        }


@dataclass(frozen=True, eq=False)
class _Gradient:
    """Sums the error and its slopes in weights and directions, but for a factor 2."""

    network: Network

    def __call__(self, rows: Rows) -> Sums:
        xp, network = namespace_of(rows.x), self.network
        u = _along(rows.x, network.directions)
        hidden = network.activation(u)
        weights = move_like(network.weights, u)
        off = hidden @ weights - rows.y
        residual = off * rows.counts
        inner = network.activation.slope(u) * weights[None, :] * residual[:, None]
        return {
            "loss": xp.sum(wide(residual) * wide(off)),
            "weights": wide(residual @ hidden),
            "directions": wide(xp.matrix_transpose(inner) @ rows.x),
            "mass": xp.sum(wide(rows.counts)),
        }


def _step(gram: Floats, right: Floats, damping: float, k: int) -> Floats:
    scale = np.diag(gram)
    # weights and directions have units of their own
    floor = np.concatenate([np.full(k, scale[:k].max()), np.full(len(scale) - k, scale[k:].max())])
    damped = gram + damping * np.diag(scale + 1e-12 * floor)
    try:
        return np.asarray(np.linalg.solve(damped, right), dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(damped, right, rcond=None)[0], dtype=np.float64)


def _loss(rows: LabelledRows, network: Network) -> tuple[float, float, Rounding]:
    """Return the mean squared error, the mean square of the labels, and what rounding is."""
    sums = rows.fold(_Squares(network), 4 * block_width(network.directions), "error")
    mass = float(sums["mass"])
    rounding = Rounding.of(float(sums[LARGEST + "eps"]))
    return float(sums["loss"]) / mass, float(sums["size"]) / mass, rounding


def _by_gradients(rows: LabelledRows, start: Network, max_iter: int, tol: float) -> Polished:
    """Minimise by L-BFGS in roots of the weights and directions of any length."""
    k, d = start.directions.shape
    _, size, rounding = _loss(rows, start)
    size = max(size, np.finfo(float).tiny)

    def network_of(z: Floats) -> tuple[Network, Floats]:
        directions = z[k:].reshape(k, d)
        lengths = np.linalg.norm(directions, axis=1, keepdims=True)
        return replace(start, weights=z[:k] ** 2, directions=directions / lengths), lengths

    def objective(z: Floats) -> tuple[float, Floats]:
        network, lengths = network_of(z)
        sums = rows.fold(_Gradient(network), 4 * (k + d), "gradient of the error")
        loss, mass = float(sums["loss"]), float(sums["mass"])
        slope_w, slope_v = to_numpy(sums["weights"]), to_numpy(sums["directions"])
        v = network.directions
        slope_v = (slope_v - np.sum(slope_v * v, axis=1, keepdims=True) * v) / lengths
        gradient = np.concatenate([slope_w * 2 * z[:k], slope_v.ravel()]) * 2
        return loss / mass / size, gradient / mass / size

    first = np.concatenate([np.sqrt(start.weights), start.directions.ravel()])
    history: list[float] = [objective(first)[0] * size]

    def note(intermediate_result: Any) -> None:
        history.append(float(intermediate_result.fun) * size)

    options: Any = {"maxiter": 10 * max_iter, "ftol": tol / 10, "gtol": math.sqrt(rounding.step)}
    found = minimize(objective, first, jac=True, method="L-BFGS-B", callback=note, options=options)
    network, loss = network_of(found.x)[0], float(found.fun) * size
    return Polished(network, loss, tuple(history), found.success, rounding)
