"""Sums of activations fitted by least squares."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import array_api_compat
import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import minimize, nnls

from implicitmoments.activation.network import FittedNetwork, Network, with_ones
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
from implicitmoments.rows import Block, Rows, Sums, weights_of
from implicitmoments.rows.fold import LARGEST

MOST_UNKNOWNS = 2_000  # of Gauss-Newton; beyond it L-BFGS, which holds no square matrix
ROWS_PER_UNKNOWN = 20  # of a least-squares fit: chance then explains 5 % of the noise
REUSES = 3  # steps by one matrix of curvature, which costs as much as many slopes
CURVATURE_ROWS = 10_000  # fewest of a sample for it: fewer take no time
NOISELESS = 1e-4  # of the mean square of the labels: without noise, steps need all digits
LEAST_DAMPING = 1e-7  # rounding of the curvature in single precision
LONGEST = 1e16  # entry of a step: nothing would be left of a unit vector
TRIES = 12  # of one step, each four times as damped: over seven orders of magnitude


def fit_network(
    rows: Rows, start: Network, *, max_iter: int = 100, tol: float = 1e-5
) -> FittedNetwork:
    """Minimise the mean squared error from a start.

    Levenberg-Marquardt on the normal equations, summed block by block. The slope is that of all
    rows. The curvature, which only directs steps, is that of a sample where rows are many, is
    summed in single precision, and serves for several steps. L-BFGS where there are too many
    unknowns for a square matrix of them.

    Parameters
    ----------
    rows : Rows
        With labels.
    max_iter : int
        Matrices of curvature.
    tol : float
        Stop when a step lowers the error by less than this fraction of it. Labels without noise
        are fitted to rounding, since each step then removes nearly all of the error.
    """
    if start.k + start.n_unknowns > MOST_UNKNOWNS:
        return _fit_by_gradients(rows, start, max_iter, tol)
    here, slope = measure_slope(rows, start)
    history, converged = [here.loss], here.loss <= here.rounding * here.size
    some, damping = curvature_sample(rows, start), 1e-3
    # rows and precision of the curvature: finer ones where steps by the first no longer help
    sources = [(some, True)] * (some is not rows) + [(rows, True), (rows, False)]
    n_curvatures, age, gram = 0, REUSES, np.empty(0)
    while not converged:
        if age == REUSES:
            if n_curvatures == max_iter:
                break
            gram = mean_curvature(sources[0][0], here.network, single=sources[0][1])
            age, n_curvatures = 0, n_curvatures + 1
        found = _descend(rows, here, gram, slope, damping, n_tries=1 if age else TRIES)
        if found is None and age == 0:
            converged = len(sources) == 1  # a minimum, to rounding
            sources = sources[1:] or sources
        if found is None:
            age = REUSES
            continue
        before, (here, slope, damping) = here, found
        small = before.loss - here.loss <= tol * here.loss
        whole = sources[0][0] is rows
        converged = (small and age == 0 and whole) or here.loss <= here.rounding * here.size
        if here.loss < NOISELESS * here.size:
            sources = sources[-1:]
        elif small and age == 0 and not whole:
            sources = sources[1:]
        age = REUSES if small else age + 1
        history.append(here.loss)
    return replace(here, history=tuple(history), converged=converged)


def _descend(
    rows: Rows, here: FittedNetwork, gram: Floats, slope: Floats, damping: float, n_tries: int
) -> tuple[FittedNetwork, Floats, float] | None:
    """Return a network of less error, its slope, and the damping after it; None if none helps."""
    for _ in range(n_tries):
        step = _step(gram, slope, damping, here.network)
        if step is not None:
            tried, there = measure_slope(rows, here.network.moved(step))
            if tried.loss < here.loss:
                return tried, there, max(damping / 5, LEAST_DAMPING)
        damping *= 4
    return None


def curvature_sample(rows: Rows, network: Network) -> Rows:
    """Return rows from which the curvature is estimated; all unless they are twice as many.

    Slopes are those of all rows, so that the minimum is theirs too: from m rows for each unknown
    a step leaves 1/√m of the way to it.
    """
    wanted = max(CURVATURE_ROWS, ROWS_PER_UNKNOWN * (network.k + network.n_unknowns))
    return rows.sample(wanted, 0) if rows.n >= 2 * wanted else rows


def measure_slope(rows: Rows, network: Network) -> tuple[FittedNetwork, Floats]:
    r"""Return a network with its mean squared error, and :math:`J^\top r` as a mean over rows."""
    width = 6 * sum(network.rows.shape)
    sums = rows.fold(partial(_sum_gradient, network), width=width, what="slope of the error")
    total = float(sums["total"])
    loss, size = float(sums["loss"]) / total, float(sums["size"]) / total
    d, slopes = network.directions.shape[1], to_numpy(sums["rows"])
    along = np.sum(slopes[:, :d] * network.directions, axis=1, keepdims=True)
    slopes[:, :d] -= along * network.directions  # along a unit vector nothing changes
    parts = [to_numpy(sums["weights"]), slopes.ravel(), to_numpy(sums["affine"])]
    fitted = FittedNetwork(network, loss, size, float(sums[LARGEST + "eps"]))
    return fitted, -np.concatenate(parts) / total


def measure_loss(rows: Rows, network: Network) -> FittedNetwork:
    """Return a network with its mean squared error."""
    width = 4 * sum(network.rows.shape)
    sums = rows.fold(partial(_sum_squares, network), width=width, what="error")
    total = float(sums["total"])
    loss, size = float(sums["loss"]) / total, float(sums["size"]) / total
    return FittedNetwork(network, loss, size, float(sums[LARGEST + "eps"]))


def mean_curvature(rows: Rows, network: Network, *, single: bool = False) -> Floats:
    r"""Average :math:`J^\top J`, unknowns ordered (w, v_1, b_1, …, v_k, b_k).

    Moves along :math:`v_i` itself change nothing once it is scaled back to length 1; the matrix
    gets their average curvature there, so that it can be inverted. In ``single`` precision where
    it only directs steps.
    """
    (k, d), q = network.directions.shape, network.rows.shape[1]
    # weights afterwards: squares of small ones would be zero in single precision
    unit, units = replace(network, weights=np.ones(k)), np.ones(k + network.n_unknowns)
    units[k : k + k * q] = np.repeat(network.weights, q)
    measure, width = partial(_sum_curvature, unit, single), k + network.n_unknowns
    sums = rows.fold(measure, width=width, what="curvature of the error")
    gram: Floats = to_numpy(sums["gram"]) / float(sums["total"])
    gram *= units
    gram *= units[:, None]
    own = slice(k, k + k * q)
    curvatures = np.diagonal(gram)[own].reshape(k, q)[:, :d].mean(axis=1)
    v, m = network.directions, len(gram)
    left, right = gram[own].reshape(k, q, m)[:, :d], gram[:, own].reshape(m, k, q)[:, :, :d]
    left -= v[:, :, None] * np.matmul(v[:, None, :], left)  # (k, d, m)
    right -= np.einsum("mkd,kd->mk", right, v)[:, :, None] * v  # (m, k, d)
    for i, curvature in enumerate(np.maximum(curvatures, TINY)):
        right[k + i * q : k + i * q + d, i] += curvature * np.outer(v[i], v[i])
    return gram


def largest_of_kind(scale: Floats, network: Network) -> Floats:
    """Return the largest entry of its kind, for each entry of the diagonal of JᵀJ.

    Those of directions have the square of the units of labels. Those of weights, and of the
    affine part where there is one, have none.
    """
    k, q = network.rows.shape
    of_directions = np.zeros(len(scale), dtype=bool)
    of_directions[k : k + k * q] = True
    largest = scale[of_directions].max(), scale[~of_directions].max()
    return np.asarray(np.where(of_directions, *largest))


def _step(gram: Floats, slope: Floats, damping: float, network: Network) -> Floats | None:
    """Return the damped step; None if it is too long, or the matrix not positive to rounding."""
    scale = np.diag(gram)
    damped = gram.copy()
    np.fill_diagonal(damped, scale + damping * (scale + 1e-12 * largest_of_kind(scale, network)))
    try:
        factor = cho_factor(damped, overwrite_a=True)
        step = np.asarray(cho_solve(factor, slope), dtype=np.float64)
    except LinAlgError:
        return None
    return step if np.all(np.abs(step) < LONGEST) else None


def fit_weights(rows: Rows, network: Network) -> Network:
    """Return the network with the best weights, nonnegative if it keeps them positive."""
    gram, right = weight_equations(rows, network)
    values, vectors = np.linalg.eigh(gram)
    root = np.sqrt(np.maximum(values, 1e-12 * max(float(values[-1]), TINY)))
    # ‖A w − y‖² = ‖R w − R^{-T} A^T y‖² + constant, for A^T A = R^T R
    across = (vectors.T @ right) / root
    if not network.positive:
        return replace(network, weights=vectors @ (across / root))
    solved = nnls(root[:, None] * vectors.T, across)[0]
    # a small weight: a direction may still turn
    floor = max(float(solved.max()), TINY) / (10 * network.k)
    return replace(network, weights=np.maximum(solved, floor))


def weight_equations(rows: Rows, network: Network) -> tuple[Floats, Floats]:
    """Average products of activations (k, k), and of activations and labels (k,)."""
    width = 4 * network.k + sum(network.rows.shape)
    sums = rows.fold(partial(_sum_products, network), width=width, what="weights of directions")
    total = float(sums["total"])
    return to_numpy(sums["gram"]) / total, to_numpy(sums["right"]) / total


def _fit_by_gradients(rows: Rows, start: Network, max_iter: int, tol: float) -> FittedNetwork:
    """Minimise by L-BFGS in directions of any length, and roots of weights that are positive."""
    (k, d), shape = start.directions.shape, start.rows.shape
    first = measure_loss(rows, start)
    size = max(first.size, TINY)

    def network_of(z: Floats) -> Network:
        weights = z[:k] ** 2 if start.positive else z[:k]
        return start.with_rows(weights, z[k:].reshape(shape))

    def objective(z: Floats) -> tuple[float, Floats]:
        network = network_of(z)
        measure = partial(_sum_gradient, network)
        sums = rows.fold(measure, width=4 * (k + shape[1]), what="gradient of the error")
        unit = float(sums["total"]) * size
        slope_w, slope = to_numpy(sums["weights"]), to_numpy(sums["rows"])
        v, slope_v = network.directions, slope[:, :d]
        lengths = np.linalg.norm(z[k:].reshape(shape)[:, :d], axis=1, keepdims=True)
        slope[:, :d] = (slope_v - np.sum(slope_v * v, axis=1, keepdims=True) * v) / lengths
        if start.positive:
            slope_w = slope_w * 2 * z[:k]
        gradient = np.concatenate([slope_w, slope.ravel()]) * 2
        return float(sums["loss"]) / unit, gradient / unit

    history = [first.loss]

    def note(intermediate_result: Any) -> None:
        history.append(float(intermediate_result.fun) * size)

    options: Any = {"maxiter": 10 * max_iter, "ftol": tol / 10}
    options["gtol"] = math.sqrt(first.rounding)
    weights = np.sqrt(start.weights) if start.positive else start.weights
    z = np.concatenate([weights, start.rows.ravel()])
    found = minimize(objective, z, jac=True, method="L-BFGS-B", callback=note, options=options)
    network, loss = network_of(found.x), float(found.fun) * size
    return FittedNetwork(network, loss, first.size, first.eps, tuple(history), found.success)


def _total(block: Block) -> Array | float:
    if "counts" not in block:
        return float(block["x"].shape[0])
    counts = as_double(block["counts"])
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


def weighted_jacobian(network: Network, block: Block) -> tuple[Array, Array]:
    """Return the Jacobian and the residuals (n,), times roots of the weights.

    Its columns: k of weights, k · q of rows, and d + 1 of the affine part where there is one.
    """
    x, u = network.lift(block["x"]), network.inputs(block["x"])
    xp, hidden, weights = namespace_of(x), network.activation(u), move_like(network.weights, u)
    root = xp.sqrt(weights_of(block))
    slopes = network.activation.slope(u) * weights[None, :] * root[:, None]
    # activations, and slopes times points, side by side
    (n, k), q = hidden.shape, x.shape[1]
    shape = n, k + network.n_unknowns
    jacobian = xp.empty(shape, dtype=x.dtype, device=array_api_compat.device(x))
    jacobian[:, :k] = hidden * root[:, None]
    for i in range(k):
        own = slice(k + i * q, k + (i + 1) * q)
        multiply_into(jacobian[:, own], slopes[:, i : i + 1], x)
    left = block["y"] - hidden @ weights
    if network.affine is not None:
        points = with_ones(block["x"])
        jacobian[:, k * (q + 1) :] = points * root[:, None]
        left = left - points @ move_like(network.affine, x)
    return jacobian, left * root


def _sum_curvature(network: Network, single: bool, block: Block) -> Sums:
    """Sum JᵀJ."""
    xp, total = namespace_of(block["x"]), _total(block)
    if single:
        block = {name: xp.astype(part, xp.float32, copy=False) for name, part in block.items()}
    jacobian, _ = weighted_jacobian(network, block)
    return {"gram": as_double(xp.matrix_transpose(jacobian) @ jacobian), "total": total}


def _sum_gradient(network: Network, block: Block) -> Sums:
    """Sum the error, its slopes in weights, rows and affine part but for a factor 2, and y²."""
    x, u = network.lift(block["x"]), network.inputs(block["x"])
    xp, hidden, weights = namespace_of(x), network.activation(u), move_like(network.weights, u)
    y, counts = block["y"], block.get("counts")
    off, affine, squares = hidden @ weights - y, xp.zeros_like(y[:0]), as_double(y) ** 2
    if network.affine is not None:
        off = off + with_ones(block["x"]) @ move_like(network.affine, x)
    residual = off if counts is None else off * counts
    if network.affine is not None:
        affine = residual @ with_ones(block["x"])
    inner = network.activation.slope(u) * weights[None, :] * residual[:, None]
    return {
        "loss": xp.sum(as_double(residual) * as_double(off)),
        "size": xp.sum(squares if counts is None else as_double(counts) * squares),
        "weights": as_double(residual @ hidden),
        "rows": as_double(xp.matrix_transpose(inner) @ x),
        "affine": as_double(affine),
        "total": _total(block),
        LARGEST + "eps": machine_epsilon(y),
    }
