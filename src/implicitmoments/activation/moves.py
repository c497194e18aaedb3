"""Moves between networks: add a component, drop or merge one, exchange one.

They are steps of :func:`grow_and_prune`, which judges them. Moves and EM of mixtures do not apply:
a sum of activations has no responsibilities, and its components share every row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np

from implicitmoments.activation.least_squares import (
    MOST_UNKNOWNS,
    NOISELESS,
    ROWS_PER_UNKNOWN,
    fit_network,
    fit_weights,
    largest_of_kind,
    measure_loss,
    weight_equations,
    weighted_jacobian,
)
from implicitmoments.activation.network import FittedNetwork, Network, unit_rows
from implicitmoments.activation.standard_errors import StandardErrors
from implicitmoments.arrays import Floats, as_double, namespace_of, to_numpy
from implicitmoments.evaluation import bic
from implicitmoments.rows import ArraySource, Block, Rows, Sums, weights_of

# fewest rows of a trial fit; of one with a further component
TRIAL_ROWS, GROWTH_ROWS = 5_000, 20_000
TRIAL_STEPS, TRIAL_TOL = 30, 1e-4  # the last digits come from the fit to all rows
QUICK_STEPS, QUICK_TOL = 8, 1e-3  # of trials that are only compared
FIRST_STEPS = 3  # from each start of a further component, before one is chosen
MOST_MORE = 8  # components added one by one before a fit to all rows
HOPE = 0.5  # of the gain that the criterion needs, for a trial of a few steps to continue
CANDIDATES = 200  # random components of which a further one is chosen; the fits are of the best
BEST_CANDIDATES = 2
EXTREMES = 1  # eigenvectors of order 2 of the residuals among them, at either end
EXCHANGES = 3  # failures in a row after which no more exchanges are tried
DROPPED = 2  # components of least loss that an exchange tries to drop
# Relative ridge. A candidate that moving the present components can replace then adds nothing.
SAME = 1e-6
# Components that may be zero or equal: standard errors, relative weight, and distance below which
# they are tested. The criterion decides; a component beyond these would never be dropped.
DOUBTFUL, LIGHT, NEAR = 3.5, 0.1, 0.2


def grow_and_prune(
    start: tuple[float, FittedNetwork],
    judge: Callable[[Network], tuple[float, FittedNetwork]],
    steps: Sequence[Callable[[FittedNetwork], Network | None]],
) -> FittedNetwork:
    """Repeat each kind of step while it lowers a criterion, until no kind does.

    Parameters
    ----------
    start : (float, FittedNetwork)
        The criterion of a fitted network, and the network.
    judge : callable
        Fits a candidate; returns its criterion, and the fitted network.
    steps : sequence of callable
        Each returns a larger or smaller candidate from a fitted network; None if there is none.
    """
    least, best = start
    failed = 0  # kinds of steps, one after another, that did not lower the criterion
    for step in cycle(steps):
        improved = False
        while (candidate := step(best)) is not None:
            score, fitted = judge(candidate)
            if not score < least:
                break
            least, best, improved = score, fitted, True
        failed = 1 if improved else failed + 1
        if failed >= len(steps):
            break
    return best


def criterion(fitted: FittedNetwork, n: float) -> float:
    """Return the Bayesian information criterion of a network fitted to n rows."""
    return bic(-0.5 * n * math.log(fitted.resolved_loss), fitted.network.n_unknowns, n)


def loss_of(fitted: FittedNetwork) -> float:
    """Return the loss, by which fits of equal size are compared."""
    return fitted.loss


def some_of(rows: Rows, n_unknowns: int, seed: Any, fewest: int = TRIAL_ROWS) -> Rows:
    """Return a sample large enough for a trial fit; all rows unless they are twice as many."""
    wanted = max(fewest, ROWS_PER_UNKNOWN * n_unknowns)
    return rows.sample(wanted, seed) if rows.n >= 2 * wanted else rows


def in_memory(rows: Rows) -> Rows:
    """Hold rows of an array as mapped, where memory allows: many passes over them follow."""
    return rows.hold() if rows.small and isinstance(rows.source, ArraySource) else rows


def larger(rows: Rows, best: FittedNetwork, *, rng: np.random.Generator) -> Network | None:
    """Add components, each after a few steps on a sample; None if none seems to help.

    The moments count directions above the noise floor. A direction below it, or one near or
    opposite to another, is missed, but shows in the residuals of the network.
    """
    k, q = best.network.rows.shape
    some = some_of(rows, (k + 1) * (q + 1), rng, GROWTH_ROWS)
    grown = best if some is rows else measure_loss(some, best.network)
    for _ in range(MOST_MORE):
        further = add_component(some, grown, rng)
        if further is None:
            break
        grown = further
    return grown.network if grown.network.k > k else None


def exchanged(rows: Rows, best: FittedNetwork, *, rng: np.random.Generator) -> Network | None:
    """Add a component, and drop the one that is then needed least; None if none is missing.

    In the span of what the network and its residuals know, which has few unknowns.
    """
    if best.loss <= best.rounding * best.size:
        return None
    some, start, basis = inside_span(rows, best, rng)
    for _ in range(EXCHANGES):
        grown = add_component(some, start, rng)
        if grown is None:
            return None
        fewer = min(_without_one(some, grown.network), key=loss_of)
        if fewer.loss < start.loss:
            return fewer.network.through(basis)
    return None


def inside_span(
    rows: Rows, best: FittedNetwork, rng: np.random.Generator
) -> tuple[Rows, FittedNetwork, Floats]:
    """Return a sample and a network in the span of what it and its residuals know.

    Also returned: the basis (p, d) of the span.
    """
    basis = _span_of(_known_directions(rows, best.network))
    inside = rows if len(basis) == rows.n_features else in_memory(rows.mapped(linear=basis.T))
    some = some_of(inside, (best.network.k + 1) * (len(basis) + 2), rng, GROWTH_ROWS)
    return some, measure_loss(some, best.network.through(basis.T)), basis


def fit_relaxed(rows: Rows, start: Network) -> Network:
    """Return a start after a fit with a free affine part, in which orientations do not matter.

    The functions of u and −u often differ by an affine one, as for ReLU, so that a few reversed
    components and a nearly linear one are a local optimum. With an affine part beside them they
    are none. It is then left out: of each component and its opposite, side by side, least squares
    gives the right one its weight.
    """
    k, d = start.directions.shape
    if 2 * (start.k + start.n_unknowns + d) >= min(rows.total, MOST_UNKNOWNS):
        return start
    free = replace(start, affine=np.zeros(d + 1))
    network = fit_network(rows, free, max_iter=TRIAL_STEPS, tol=TRIAL_TOL).network
    lines = np.vstack([network.rows, -network.rows])
    both = replace(network.with_rows(np.ones(2 * k), lines), affine=None)
    gram, right = weight_equations(rows, both)
    kept = np.arange(2 * k)
    while len(kept) > k:
        rises = _rises(gram[np.ix_(kept, kept)], right[kept], positive=network.positive)
        kept = np.delete(kept, int(np.argmin(rises)))
    return fit_weights(rows, both.take(kept))


def _span_of(directions: Floats) -> Floats:
    """Return an orthonormal basis (p, d) of the span of directions."""
    _, sizes, rows = np.linalg.svd(directions, full_matrices=False)
    basis = np.ascontiguousarray(rows[sizes > SAME * sizes[0]])
    return np.eye(basis.shape[1]) if len(basis) == basis.shape[1] else basis


def _without_one(rows: Rows, network: Network) -> Iterator[FittedNetwork]:
    """Yield the network without each of the components that are needed least."""
    places = np.arange(network.k)
    for i in np.argsort(_losses_without(rows, network), kind="stable")[:DROPPED]:
        rest = fit_weights(rows, network.take(places != i))
        yield fit_network(rows, rest, max_iter=QUICK_STEPS, tol=QUICK_TOL)


def _losses_without(rows: Rows, network: Network) -> Floats:
    """Return the rise of the error without each component, the others with the best weights."""
    return _rises(*weight_equations(rows, network), positive=network.positive)


def _rises(gram: Floats, right: Floats, *, positive: bool) -> Floats:
    """Return the rise of the error without each unknown of least squares."""
    ridge = SAME * np.maximum(np.diag(gram), SAME * np.diag(gram).max())
    inverse = np.linalg.inv(gram + np.diag(ridge + np.finfo(float).tiny))
    weights = inverse @ right
    rises = weights**2 / np.diag(inverse)
    return np.where(weights < 0, 0.0, rises) if positive else np.asarray(rises)


def add_component(
    rows: Rows, best: FittedNetwork, rng: np.random.Generator, n_unknowns: int | None = None
) -> FittedNetwork | None:
    """Return a network of one more component after a few steps; None if it hardly helps.

    ``n_unknowns`` are those of a component that the criterion charges, by default all of a row.
    """
    network = best.network
    q, ones = network.rows.shape[1], np.ones(network.k + 1)
    if 2 * (network.n_unknowns + q) >= rows.total:  # too few rows for more
        return None
    starts = [
        fit_network(
            rows,
            fit_weights(rows, network.with_rows(ones, np.vstack([network.rows, row]))),
            max_iter=FIRST_STEPS,
        )
        for row in _further(rows, network, rng)
    ]
    start = min(starts, key=loss_of).network
    tried = fit_network(rows, start, max_iter=QUICK_STEPS, tol=QUICK_TOL)
    gain = rows.total * math.log(best.resolved_loss / tried.resolved_loss)
    return tried if gain > HOPE * (n_unknowns or q) * math.log(rows.total) else None


def _further(rows: Rows, network: Network, rng: np.random.Generator) -> list[Floats]:
    """Return unit vectors, with biases where there are any, from which a component may start."""
    known = _known_directions(rows, network)
    # random combinations of what is known: few of all directions
    inside = unit_rows(rng.standard_normal((CANDIDATES, len(known))) @ known)
    candidates = np.concatenate([known, -known, inside])
    if network.biases is not None:
        candidates = np.column_stack([candidates, rng.standard_normal(len(candidates))])
    gains = _candidate_gains(rows, network, candidates)
    return list(candidates[np.argsort(-gains, kind="stable")[:BEST_CANDIDATES]])


def _known_directions(rows: Rows, network: Network) -> Floats:
    r"""Return unit vectors: of the network, and of orders 1 and 2 of its residuals.

    A component that is missing shows in :math:`E[(y - h(x))(x x^\top - I)]`, at either end of its
    spectrum.
    """
    d = network.directions.shape[1]
    sums = rows.fold(partial(_sum_residuals, network), width=2 * d, what="residuals")
    moment = to_numpy(sums["moment"]) - float(sums["sum"]) * np.eye(d)
    vectors = np.linalg.eigh(moment)[1].T
    slope = to_numpy(sums["slope"])[None]
    ends = np.concatenate([vectors[:EXTREMES], vectors[-EXTREMES:], slope])
    return unit_rows(np.concatenate([network.directions, ends[np.any(ends != 0, axis=1)]]))


def _candidate_gains(rows: Rows, network: Network, candidates: Floats) -> Floats:
    """Predict what each candidate removes of the error, once all others have moved with it."""
    others = network.with_rows(np.ones(len(candidates)), candidates)
    measure, width = partial(_sum_candidates, network, others), 2 * network.n_unknowns + others.k
    sums = rows.fold(measure, width=width, what="candidates")
    gram, cross, right = (to_numpy(sums[name]) for name in ("gram", "cross", "right"))
    least = SAME * largest_of_kind(np.diag(gram), network) + np.finfo(float).tiny
    scale = np.sqrt(np.maximum(np.diag(gram), least))
    scaled = gram / np.outer(scale, scale) + SAME * np.eye(len(gram))
    solved = np.linalg.solve(scaled, cross / scale[:, None])
    along = to_numpy(sums["along"]) - solved.T @ (right / scale)
    squares = to_numpy(sums["squares"])
    left = squares - np.sum((cross / scale[:, None]) * solved, axis=0)
    gains = along**2 / np.maximum(left, SAME * squares + np.finfo(float).tiny)
    return np.where(along > 0, gains, 0.0) if network.positive else np.asarray(gains)


def _sum_candidates(network: Network, others: Network, block: Block) -> Sums:
    """Sum products of the Jacobian, candidates and residuals."""
    jacobian, residual = weighted_jacobian(network, block)
    xp = namespace_of(jacobian)
    hidden = others.activation(others.inputs(block["x"])) * xp.sqrt(weights_of(block))[:, None]
    transposed = xp.matrix_transpose(jacobian)
    return {
        "gram": as_double(transposed @ jacobian),
        "cross": as_double(transposed @ hidden),
        "right": as_double(residual @ jacobian),
        "along": as_double(residual @ hidden),
        "squares": xp.sum(as_double(hidden) ** 2, axis=0),
    }


def _sum_residuals(network: Network, block: Block) -> Sums:
    """Sum residuals of a network, and their products with points and with those of points."""
    x, xp = block["x"], namespace_of(block["x"])
    residual = (block["y"] - network(x)) * weights_of(block)
    return {
        "moment": as_double(xp.matrix_transpose(x * residual[:, None]) @ x),
        "slope": as_double(residual @ x),
        "sum": xp.sum(as_double(residual)),
    }


def smaller(
    rows: Rows,
    errors_of: Callable[[FittedNetwork], StandardErrors],
    best: FittedNetwork,
    *,
    parity: int,
) -> Network | None:
    """Drop the component that is needed least or merge the nearest two, where in doubt."""
    if best.network.k == 1:
        return None
    errors, n, places = errors_of(best), rows.total, np.arange(best.network.k)
    sizes, lines = np.abs(best.network.weights), best.network.rows
    i, j, sign, distance = _nearest(lines, parity)
    light = int(np.argmin(_losses_without(rows, best.network)))
    error = float(np.hypot(errors.directions[i], errors.directions[j]))
    doubtful = bool(errors.free.any())
    fewer = []
    if doubtful or sizes[light] < max(LIGHT * sizes.mean(), DOUBTFUL * errors.weights[light]):
        fewer.append(best.network.take(places != light))
    if doubtful or distance < max(NEAR, DOUBTFUL * error):
        fewer += _merged(best.network, i, j, sign, parity)
    # a few steps decide whether a smaller network is worth fitting
    tried = [fit_network(rows, each, max_iter=QUICK_STEPS, tol=QUICK_TOL) for each in fewer]
    worst = criterion(best, n) + lines.shape[1] * math.log(n)
    promising = [f for f in tried if criterion(f, n) < worst or f.loss < NOISELESS * f.size]
    if not promising:
        return None
    return min(promising, key=lambda fitted: criterion(fitted, n)).network


def _nearest(lines: Floats, parity: int) -> tuple[int, int, int, float]:
    """Return the nearest two of rows (k, q), the sign of the second, and their distance.

    A row and its opposite are the same component, but for the sign of its weight, if the
    activation is even or odd.
    """
    signs = (1, -1) if parity else (1,)
    apart = np.stack([np.linalg.norm(lines[:, None] - s * lines[None], axis=2) for s in signs])
    apart[:, np.eye(len(lines), dtype=bool)] = np.inf
    at, i, j = np.unravel_index(int(np.argmin(apart)), apart.shape)
    return int(i), int(j), signs[int(at)], float(apart[at, i, j])


def _merged(network: Network, i: int, j: int, sign: int, parity: int) -> list[Network]:
    """Return the network with two components merged, unless they are opposite."""
    d, lines = network.directions.shape[1], network.rows
    sizes = np.abs(network.weights[[i, j]])
    joined = sizes[0] * lines[i] + sign * sizes[1] * lines[j]
    length = float(np.linalg.norm(joined[:d]))
    if length == 0:
        return []
    joined[:d] /= length
    joined[d:] /= sizes.sum()
    rest = ~np.isin(np.arange(network.k), (i, j))
    together = network.weights[i] + network.weights[j] * (parity if sign < 0 else 1)
    if together < 0 and parity < 0:
        together, joined = -together, -joined
    weights = np.append(network.weights[rest], together)
    return [network.with_rows(weights, np.vstack([lines[rest], joined]))]
