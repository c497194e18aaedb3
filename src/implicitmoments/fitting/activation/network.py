r"""The model itself, :math:`\sum_i w_i \sigma(v_i \cdot x)`, fitted by least squares."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize, nnls

from implicitmoments.backends import Array, Floats, move_like, namespace_of, outer_rows, to_numpy
from implicitmoments.fitting.rows import LabelledRows
from implicitmoments.models.activation import Activation

__all__ = ["Network", "Polished", "fit_weights", "normal_equations", "polish"]

MOST_UNKNOWNS = 2_000  # of Gauss-Newton; beyond it L-BFGS, which holds no square matrix
SMALLEST_WEIGHT = 1e-9  # relative: a weight of zero would freeze its direction
ROUNDING = 1e-28  # a mean square so far below that of the labels is rounding
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
        hidden = self.activation(x @ move_like(self.directions, x).T)
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
    """

    network: Network
    loss: float
    history: tuple[float, ...]
    converged: bool

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
    loss, size = _loss(rows, network)
    history, converged = [loss], loss <= ROUNDING * size
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
        converged = loss - lower <= tol * lower or lower <= ROUNDING * size
        network, loss, damping = tried, lower, max(damping / 5, 1e-12)
        history.append(loss)
    return Polished(network, loss, tuple(history), converged)


def normal_equations(rows: LabelledRows, network: Network) -> tuple[Floats, Floats]:
    r"""Average :math:`J^\top J` and :math:`J^\top r`, unknowns ordered (w, v_1, …, v_k).

    Moves along :math:`v_i` itself change nothing once it is scaled back to length 1; the matrix
    gets their average curvature there, so that it can be inverted.
    """
    k, d = network.directions.shape
    size = k * (d + 1)
    gram, right, mass = np.zeros((size, size)), np.zeros(size), 0.0
    for block in rows.blocks(size):
        xp = namespace_of(block.x)
        u = block.x @ move_like(network.directions, block.x).T
        hidden = network.activation(u)
        weights = move_like(network.weights, u)
        slopes = network.activation.slope(u) * weights[None, :]
        jacobian = xp.concat([hidden, outer_rows(slopes, block.x)], axis=1)
        jacobian = jacobian * xp.sqrt(block.counts)[:, None]
        residual = (block.y - hidden @ weights) * xp.sqrt(block.counts)
        gram += to_numpy(xp.matrix_transpose(jacobian) @ jacobian)
        right += to_numpy(residual @ jacobian)
        mass += float(xp.sum(block.counts))
    gram, right = gram / mass, right / mass
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
    gram, right, mass = np.zeros((k, k)), np.zeros(k), 0.0
    for block in rows.blocks(4 * k + block_width(directions)):
        hidden = activation(block.x @ move_like(directions, block.x).T)
        weighted = hidden * block.counts[:, None]
        gram += to_numpy(weighted.T @ hidden)
        right += to_numpy(block.y @ weighted)
        mass += float(namespace_of(block.x).sum(block.counts))
    values, vectors = np.linalg.eigh(gram / mass)
    root = np.sqrt(np.maximum(values, 1e-12 * max(float(values[-1]), 1e-300)))
    # ‖A w − y‖² = ‖R w − R^{-T} A^T y‖² + constant, for A^T A = R^T R
    solved = nnls(root[:, None] * vectors.T, (vectors.T @ right) / mass / root)[0]
    floor = max(float(solved.max()), 1e-300) / (10 * k)  # a small share: a direction may yet turn
    return Network(np.maximum(solved, floor), directions, activation)


def block_width(directions: Floats) -> int:
    """Numbers made of a row when it is evaluated."""
    return int(sum(directions.shape))


def _step(gram: Floats, right: Floats, damping: float, k: int) -> Floats:
    scale = np.diag(gram)
    # weights and directions have units of their own
    floor = np.concatenate([np.full(k, scale[:k].max()), np.full(len(scale) - k, scale[k:].max())])
    damped = gram + damping * np.diag(scale + 1e-12 * floor)
    try:
        return np.asarray(np.linalg.solve(damped, right), dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(damped, right, rcond=None)[0], dtype=np.float64)


def _residuals(rows: LabelledRows, network: Network) -> Iterator[tuple[Array, Array, Array]]:
    for block in rows.blocks(4 * block_width(network.directions)):
        yield block.y - network(block.x), block.y, block.counts


def _loss(rows: LabelledRows, network: Network) -> tuple[float, float]:
    """Return the mean squared error, and the mean square of the labels."""
    loss = size = mass = 0.0
    for residual, y, counts in _residuals(rows, network):
        xp = namespace_of(residual)
        loss += float(xp.sum(counts * residual**2))
        size += float(xp.sum(counts * y**2))
        mass += float(xp.sum(counts))
    return loss / mass, size / mass


def _by_gradients(rows: LabelledRows, start: Network, max_iter: int, tol: float) -> Polished:
    """Minimise by L-BFGS in roots of the weights and directions of any length."""
    k, d = start.directions.shape
    _, size = _loss(rows, start)
    size = max(size, np.finfo(float).tiny)

    def network_of(z: Floats) -> tuple[Network, Floats]:
        directions = z[k:].reshape(k, d)
        lengths = np.linalg.norm(directions, axis=1, keepdims=True)
        return replace(start, weights=z[:k] ** 2, directions=directions / lengths), lengths

    def objective(z: Floats) -> tuple[float, Floats]:
        network, lengths = network_of(z)
        loss, mass = 0.0, 0.0
        slope_w, slope_v = np.zeros(k), np.zeros((k, d))
        for block in rows.blocks(4 * (k + d)):
            u = block.x @ move_like(network.directions, block.x).T
            hidden = network.activation(u)
            weights = move_like(network.weights, u)
            residual = (hidden @ weights - block.y) * block.counts
            loss += float(residual @ (hidden @ weights - block.y))
            slope_w += to_numpy(residual @ hidden)
            inner = network.activation.slope(u) * weights[None, :] * residual[:, None]
            slope_v += to_numpy(inner.T @ block.x)
            mass += float(namespace_of(u).sum(block.counts))
        v = network.directions
        slope_v = (slope_v - np.sum(slope_v * v, axis=1, keepdims=True) * v) / lengths
        gradient = np.concatenate([slope_w * 2 * z[:k], slope_v.ravel()]) * 2
        return loss / mass / size, gradient / mass / size

    first = np.concatenate([np.sqrt(start.weights), start.directions.ravel()])
    history: list[float] = [objective(first)[0] * size]

    def note(intermediate_result: Any) -> None:
        history.append(float(intermediate_result.fun) * size)

    options: Any = {"maxiter": 10 * max_iter, "ftol": tol / 10, "gtol": math.sqrt(ROUNDING)}
    found = minimize(objective, first, jac=True, method="L-BFGS-B", callback=note, options=options)
    return Polished(network_of(found.x)[0], float(found.fun) * size, tuple(history), found.success)
