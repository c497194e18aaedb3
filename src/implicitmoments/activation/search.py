r"""Search for a network: starts in the span of the directions, and moves between networks.

The moments give the span. Within it there are few unknowns, so that many networks can be tried on
a sample of the rows; what is best there is fitted to all rows and features. The residuals of that
fit may show directions outside of the span: the search continues in the span of what is known
then, while the Bayesian information criterion decreases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter

import numpy as np

from implicitmoments.activation.network import (
    FittedNetwork,
    Network,
    fit_network,
    fit_weights,
    mean_products,
    measure_slope,
    sample_for,
    unit_rows,
    weight_equations,
    with_ones,
)
from implicitmoments.activation.polynomial import label_moments
from implicitmoments.arrays import TINY, Array, Floats, move_like
from implicitmoments.moments.activations import ActivationSumProblem
from implicitmoments.rows import Block, Rows


def find_network(
    problem: ActivationSumProblem,
    basis: Floats,
    k: int,
    *,
    most: float,
    positive: bool,
    n_starts: int,
    fit: Callable[..., FittedNetwork],
    rng: np.random.Generator,
) -> FittedNetwork:
    """Fit weights, directions and biases, from random starts in the span.

    Parameters
    ----------
    basis : array of shape (p, d)
        Span of the directions.
    k : int
        Number of components of the starts.
    most : float
        The largest number of components; infinite if the criterion alone chooses it.
    positive : bool
        Keep weights positive.
    fit : callable
        :func:`fit_network` with the options of a fit to all rows.

    Returns
    -------
    fitted : FittedNetwork
        Fitted to all rows, in the coordinates of the points, with the share of the error that is
        ``unexplained``.
    """
    rows, q = in_memory(problem.rows), problem.n_features + problem.biased
    # directions stay in the span where rows are few, or a matrix of unknowns takes above 128 MB
    in_span = k * problem.n_features > 0.5 * rows.total or k * (q + 1) > 4_000
    fit_all = partial(fit, rows, **({"max_iter": 0} if in_span else {}))
    inside, price = sample_inside(rows, basis, k, 5_000), q * math.log(rows.total)
    n_starts *= 3 if problem.biased else 1  # more local optima, which few steps do not tell apart
    none = np.zeros(k) if problem.biased else None
    blank = Network(np.ones(k), np.eye(k, len(basis)), problem.activation, none, positive)
    # an error of the estimated mean of the inputs acts as small biases do
    least = 0.0 if problem.whitening is None else q / rows.total
    found = list[FittedNetwork]()
    for _ in range(3):
        # 1. Starts in the span, improved there; the best is fitted to all rows and features.
        draws = rng.standard_normal((n_starts, *blank.units.shape))
        starts = [blank.with_units(blank.weights, units) for units in draws]
        trial = improve(inside, best_trial(inside, starts, 3), k, rng)
        best = fit_all(trial.network.through(basis))
        while not in_span:
            # 2. Moves in the span of what the network and its residuals know.
            sample, known = known_inside(rows, best.network)
            start = measure_slope(sample, best.network.through(known.T))[0]
            trial = improve(sample, start, most, rng, price)
            candidate = best if trial is start else fit_all(trial.network.through(known))
            if not candidate.bic < best.bic:
                share = unexplained_share(sample, start, rng, price, least)
                best = replace(best, unexplained=share)
                break
            best = candidate
        found.append(best)
        # 3. Again from other starts where something is missing, as in a local optimum.
        if not best.unexplained:
            break
    return min(found, key=attrgetter("bic"))


def unexplained_share(
    rows: Rows, best: FittedNetwork, rng: np.random.Generator, price: float, least: float
) -> float:
    """Return the share of the error that a further component of either sign would explain.

    0 where it does not lower the criterion by 10, which is very strong evidence (Kass and Raftery
    1995), or where less than a share of the labels is left.
    """
    there = measure_slope(rows, replace(best.network, positive=False))[0]
    larger = grow(rows, there, rng, price) if best.loss > least * best.size else None
    if larger is None or larger.bic > there.bic - 10:
        return 0.0
    return 1 - larger.loss / there.loss


def improve(
    rows: Rows, best: FittedNetwork, most: float, rng: np.random.Generator, price: float = 0.0
) -> FittedNetwork:
    """Add, exchange and drop components while that lowers the criterion.

    At most ``most`` components. ``price`` is what the criterion charges for one where directions
    have all features; without it, in a span that may miss a part of them, none is dropped. A
    component of a given number is dropped only if what it explains may be chance.
    """
    q, bic = best.network.units.shape[1], attrgetter("bic")
    charge = q * math.log(rows.total) if most == math.inf else q + 5 * math.sqrt(2 * q)
    while True:
        tried = [best, drop(rows, best, charge) if price else None]
        grown = grow(rows, best, rng, price or q * math.log(rows.total))
        if grown is not None:
            weakest = np.argsort(rises(rows, grown.network))[:2]
            tried += [without(rows, grown.network, i, steps=3) for i in weakest]
            tried += [grown] if grown.network.k <= most else []
        lowest = min((each for each in tried if each is not None), key=bic)
        if lowest is best:
            return best
        best = lowest


def try_network(rows: Rows, start: Network, steps: int) -> FittedNetwork:
    """Fit the weights, and all unknowns in a few steps; the last digits come from all rows."""
    return fit_network(rows, fit_weights(rows, start), max_iter=steps, tol=1e-3)


def best_trial(rows: Rows, starts: Sequence[Network], n_best: int) -> FittedNetwork:
    """Fit starts for a few steps, and the best of them further."""
    tried = sorted((try_network(rows, start, 3) for start in starts), key=attrgetter("loss"))
    further = [fit_network(rows, each.network, max_iter=10, tol=1e-3) for each in tried[:n_best]]
    return min(further, key=attrgetter("loss"))


def in_memory(rows: Rows) -> Rows:
    """Hold rows as mapped where memory allows: many passes over them follow."""
    if rows.rows_per_block or not rows.small:
        return rows
    return replace(rows.hold(), progress=rows.progress)


def sample_inside(rows: Rows, basis: Floats, k: int, fewest: int) -> Rows:
    """Return a sample in the coordinates of a basis (p, d), large enough for k components."""
    return in_memory(sample_for(rows.mapped(linear=basis.T), k * (len(basis) + 2), fewest))


def known_inside(rows: Rows, network: Network) -> tuple[Rows, Floats]:
    """Return a sample in the span of what a network and its residuals know, and its basis."""
    _, sizes, found = np.linalg.svd(known_directions(rows, network), full_matrices=False)
    basis = np.ascontiguousarray(found[sizes > 1e-6 * sizes[0]])
    return sample_inside(rows, basis, network.k + 1, 20_000), basis


def known_directions(rows: Rows, network: Network) -> Floats:
    r"""Return unit vectors: of the network, and of orders 1, 2 and 3 of its residuals.

    A component that is missing shows in :math:`E[(y - h(x))(x x^\top - I)]`, at either end of its
    spectrum, and one of an odd activation in the same moment times :math:`x \cdot s`, where s is
    the moment of order 1.
    """

    def residual(block: Block) -> Array:
        return block["y"] - network(block["x"])

    first = label_moments(rows, residual, with_ones)
    slope = move_like(first[:-1, -1], rows.like)
    third = label_moments(rows, lambda block: residual(block) * (block["x"] @ slope), with_ones)
    ends = [first[-1:, :-1]]
    for moments in (first, third):
        second = moments[:-1, :-1] - moments[-1, -1] * np.eye(len(moments) - 1)
        ends.append(np.linalg.eigh(second)[1].T[[0, -1]])
    found = np.concatenate([network.directions, *ends])
    return unit_rows(found[np.linalg.norm(found, axis=1) > TINY**0.5])


def grow(
    rows: Rows, best: FittedNetwork, rng: np.random.Generator, price: float
) -> FittedNetwork | None:
    """Add a component; None if it hardly helps, or there are too few rows for it.

    The candidates are directions that the network and its residuals know, and random combinations
    of these. Of the two that are predicted to lower the error most, the better is fitted.
    ``price`` is what the criterion charges for a component, of which half is to be gained in a few
    steps.
    """
    network, q = best.network, best.network.units.shape[1]
    if best.exact or 2 * (network.k + 1) * q >= rows.total:
        return None
    known = known_directions(rows, network)
    drawn = unit_rows(rng.standard_normal((200, len(known))) @ known)
    candidates = np.concatenate([known, -known, drawn])
    if network.biases is not None:
        candidates = np.column_stack([candidates, rng.standard_normal(len(candidates))])
    gains = candidate_gains(rows, network, candidates)
    starts = [np.vstack([network.units, candidates[i]]) for i in np.argsort(-gains)[:2]]
    weights = np.ones(network.k + 1)
    tried = best_trial(rows, [network.with_units(weights, units) for units in starts], 1)
    return tried if best.bic - tried.bic > price / 2 - q * math.log(rows.total) else None


def candidate_gains(rows: Rows, network: Network, candidates: Floats) -> Floats:
    """Predict what each candidate removes of the error beside the present components."""
    others = network.with_units(np.ones(len(candidates)), candidates)

    def columns(block: Block) -> list[Array]:
        hidden = others.activation(others.inputs(block["x"]))
        return [hidden, (block["y"] - network(block["x"]))[:, None]]

    products = mean_products(rows, columns, 4 * len(candidates), "candidates", single=True)
    along, squares = products[:-1, -1], np.diag(products)[:-1]
    gains = along**2 / np.maximum(squares, TINY)
    return np.where(along > 0, gains, 0.0) if network.positive else np.asarray(gains)


def drop(rows: Rows, best: FittedNetwork, charge: float) -> FittedNetwork | None:
    """Drop the component that is needed least, if the criterion charges more than it explains."""
    rising, network = rises(rows, best.network), best.network
    # further steps may remove an error of 1e-4 of the labels
    allowed = charge * max(best.loss, 1e-4 * best.size) / rows.total
    if network.k == 1 or rising.min() >= 30 * allowed:
        return None
    fewer = without(rows, network, int(np.argmin(rising)), steps=10)
    return fewer if fewer.loss - best.loss < allowed else None


def without(rows: Rows, network: Network, i: int, *, steps: int) -> FittedNetwork:
    """Fit a network without one of its components."""
    return try_network(rows, network.take(np.arange(network.k) != i), steps)


def rises(rows: Rows, network: Network) -> Floats:
    """Return the rise of the error without each component, the weights of the others refitted."""
    gram, right = weight_equations(rows, network)
    inverse = np.linalg.inv(gram + np.diag(1e-6 * np.diag(gram) + TINY))
    weights = inverse @ right
    rising = weights**2 / np.diag(inverse)
    return np.where(weights < 0, 0.0, rising) if network.positive else np.asarray(rising)
