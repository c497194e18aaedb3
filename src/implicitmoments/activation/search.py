r"""Search for a network: starts in the span of the directions, and moves between networks.

The moments give the span. Within it there are few unknowns, so that many networks can be tried on
a sample of the rows; what is best there is fitted to all rows and features. The residuals of that
fit may show directions outside of the span: the search continues in the span of what is known
then, while the Bayesian information criterion decreases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

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
)
from implicitmoments.activation.polynomial import label_moments, with_points
from implicitmoments.arrays import TINY, Array, Floats
from implicitmoments.moments.activations import ActivationSumProblem
from implicitmoments.rows import Block, Rows

Move: TypeAlias = Callable[[Rows, FittedNetwork], FittedNetwork | None]

MOST_PER_ROW = 0.5  # unknowns per row, for directions to leave the span
MOST_UNKNOWNS = 4_000  # for directions to leave the span: a matrix of them takes 128 MB
MOST_ROUNDS = 3  # of random starts, while a component is missing
CONTINUED = 3  # starts of least error after a few steps, which are fitted further
START_ROWS, SEARCH_ROWS = 5_000, 20_000  # fewest rows of a sample for starts, and for moves
QUICK: dict[str, Any] = {"max_iter": 3, "tol": 1e-3}  # of fits that are only compared
TRIAL: dict[str, Any] = {"max_iter": 10, "tol": 1e-4}  # the last digits come from all rows
CANDIDATES = 200  # random components of which a further one is chosen
EXCHANGES = 3  # attempts, of which each draws other candidates
HOPE = 0.5  # of the gain that the criterion needs, for a trial of a few steps to continue
NOISELESS = 1e-4  # of the mean square of the labels: an error that further steps may remove
SAME = 1e-6  # relative ridge: columns that differ by less are the same
CLEAR = 10.0  # decrease of the criterion that is very strong evidence (Kass and Raftery 1995)


@dataclass(frozen=True)
class SearchOptions:
    """How a network is searched."""

    positive: bool  # keep weights positive
    n_starts: int  # random starts in the span
    grow: bool  # add components while the criterion decreases: k is an estimate, not a bound
    max_iter: int  # matrices of curvature of a fit to all rows
    tol: float  # a fit ends at this fraction of what fitting so many unknowns removes by chance
    seed: int


@dataclass(frozen=True, eq=False)
class Found:
    """A network fitted to all rows."""

    fitted: FittedNetwork  # in the coordinates of the points
    in_span: bool  # whether there are too many unknowns for directions to leave the span
    # share of the error that a further component of either sign explains; 0 if not clearly
    unexplained: float


def find_network(
    problem: ActivationSumProblem, basis: Floats, k: int, options: SearchOptions
) -> Found:
    """Fit weights, directions and biases, from random starts in the span.

    Parameters
    ----------
    basis : array of shape (p, d)
        Span of the directions.
    """
    rows, rng = in_memory(problem.rows), np.random.default_rng(options.seed)
    q, by_chance = problem.n_features + problem.biased, k * problem.n_features / rows.total
    in_span = by_chance > MOST_PER_ROW or k * (q + 1) > MOST_UNKNOWNS
    steps, tol = 0 if in_span else options.max_iter, options.tol * by_chance
    fit = partial(fit_network, rows, max_iter=steps, tol=tol)
    inside = sample_inside(rows, basis, k, START_ROWS)
    draw = partial(random_network, problem.of(inside), k, rng, positive=options.positive)
    swap = partial(exchange, rng=rng, price=len(basis) * np.log(inside.total))
    price = q * np.log(rows.total)
    resize = partial(grow if options.grow else exchange, rng=rng, price=price)
    # an error of the estimated mean of the inputs acts as small biases do
    least = 0.0 if problem.whitening is None else q / rows.total
    missing = partial(unexplained_share, rows, rng=rng, price=price, least=least)
    found = list[Found]()
    for _ in range(MOST_ROUNDS):
        # 1. Starts in the span, improved there; the best is fitted to all rows and features.
        starts = [draw() for _ in range(options.n_starts)]
        trial = improve(inside, _best_trial(inside, starts, CONTINUED), swap)
        best, unexplained = fit(trial.network.through(basis)), 0.0
        if not in_span:
            # 2. Moves in the span of what the network and its residuals know.
            for move in (resize, partial(drop, price=price)):
                best = _search_beyond(rows, best, move, fit)
            unexplained = missing(best)
        found.append(Found(best, in_span, unexplained))
        # 3. Again from other starts where something is missing, as in a local optimum.
        if not unexplained or best.loss < NOISELESS * best.size:
            break
    return min(found, key=lambda each: each.fitted.bic)


def unexplained_share(
    rows: Rows, best: FittedNetwork, rng: np.random.Generator, price: float, least: float
) -> float:
    """Return the share of the error that a further component of either sign would explain.

    0 where it does not lower the criterion clearly, or less than a share of the labels is left.
    """
    if best.loss <= least * best.size:
        return 0.0
    inside, basis = known_inside(rows, best.network)
    there = measure_slope(inside, replace(best.network.through(basis.T), positive=False))[0]
    larger = grow(inside, there, rng=rng, price=price)
    clear = larger is not None and larger.bic < there.bic - CLEAR
    return 1 - larger.loss / there.loss if larger is not None and clear else 0.0


def _search_beyond(
    rows: Rows,
    best: FittedNetwork,
    move: Move,
    fit: Callable[[Network], FittedNetwork],
) -> FittedNetwork:
    """Repeat a move in the span of what is known, and the fit to all rows and features."""
    while True:
        inside, basis = known_inside(rows, best.network)
        start = measure_slope(inside, best.network.through(basis.T))[0]
        trial = improve(inside, start, move)
        candidate = best if trial is start else fit(trial.network.through(basis))
        if not candidate.bic < best.bic:
            return best
        best = candidate


def improve(rows: Rows, best: FittedNetwork, move: Move) -> FittedNetwork:
    """Repeat a move while it lowers the criterion."""
    while (tried := move(rows, best)) is not None and tried.bic < best.bic:
        best = tried
    return best


def _loss(fitted: FittedNetwork) -> float:
    return fitted.loss


def _best_trial(rows: Rows, starts: Sequence[Network], continued: int) -> FittedNetwork:
    """Fit starts for a few steps, and the best of them further."""
    quick = [fit_network(rows, fit_weights(rows, start), **QUICK) for start in starts]
    promising = sorted(quick, key=_loss)[:continued]
    return min((fit_network(rows, each.network, **TRIAL) for each in promising), key=_loss)


def in_memory(rows: Rows) -> Rows:
    """Hold rows as mapped where memory allows: many passes over them follow."""
    if rows.rows_per_block or not rows.small:
        return rows
    return replace(rows.hold(), progress=rows.progress)


def sample_inside(rows: Rows, basis: Floats, k: int, fewest: int) -> Rows:
    """Return a sample in the coordinates of a basis (p, d), large enough for k components."""
    p, d = basis.shape
    mapped = rows if p == d and np.array_equal(basis, np.eye(d)) else rows.mapped(linear=basis.T)
    return in_memory(sample_for(mapped, k * (p + 2), fewest))


def known_inside(rows: Rows, network: Network) -> tuple[Rows, Floats]:
    """Return a sample in the span of what a network and its residuals know, and its basis."""
    _, sizes, found = np.linalg.svd(known_directions(rows, network), full_matrices=False)
    basis = np.ascontiguousarray(found[sizes > SAME * sizes[0]])
    if len(basis) == basis.shape[1]:
        basis = np.eye(len(basis))
    return sample_inside(rows, basis, network.k + 1, SEARCH_ROWS), basis


def known_directions(rows: Rows, network: Network) -> Floats:
    r"""Return unit vectors: of the network, and of orders 1 and 2 of its residuals.

    A component that is missing shows in :math:`E[(y - h(x))(x x^\top - I)]`, at either end of its
    spectrum.
    """
    moments = label_moments(rows, lambda block: block["y"] - network(block["x"]), with_points)
    second = moments[1:, 1:] - moments[0, 0] * np.eye(len(moments) - 1)
    vectors = np.linalg.eigh(second)[1].T
    ends = np.stack([vectors[0], vectors[-1], moments[0, 1:]])
    return unit_rows(
        np.concatenate([network.directions, ends[np.linalg.norm(ends, axis=1) > TINY**0.5]])
    )


def random_network(
    problem: ActivationSumProblem, k: int, rng: np.random.Generator, *, positive: bool
) -> Network:
    """Draw a network of weight 1; inputs of its activations have variance 1."""
    directions = unit_rows(rng.standard_normal((k, problem.n_features)))
    biases = rng.standard_normal(k) if problem.biased else None
    return Network(np.ones(k), directions, problem.activation, biases, positive)


def exchange(
    rows: Rows, best: FittedNetwork, rng: np.random.Generator, price: float
) -> FittedNetwork | None:
    """Add a component, and drop the one that is then needed least; None if none is missing."""
    for _ in range(EXCHANGES):
        grown = grow(rows, best, rng, price)
        if grown is None:
            return None
        rises = _rises(*weight_equations(rows, grown.network), positive=grown.network.positive)
        fewer = min(
            (_without(rows, grown.network, i, QUICK) for i in np.argsort(rises)[:2]), key=_loss
        )
        if fewer.loss < best.loss:
            return fewer
    return None


def grow(
    rows: Rows, best: FittedNetwork, rng: np.random.Generator, price: float
) -> FittedNetwork | None:
    """Add a component; None if it hardly helps, or there are too few rows for it.

    The candidates are directions that the network and its residuals know, and random combinations
    of these. Of the two that are predicted to lower the error most, the better is fitted.
    ``price`` is what the criterion charges for a component.
    """
    network, q = best.network, best.network.units.shape[1]
    if best.exact or 2 * (network.k + 1) * q >= rows.total:
        return None
    known = known_directions(rows, network)
    drawn = unit_rows(rng.standard_normal((CANDIDATES, len(known))) @ known)
    candidates = np.concatenate([known, -known, drawn])
    if network.biases is not None:
        candidates = np.column_stack([candidates, rng.standard_normal(len(candidates))])
    gains = candidate_gains(rows, network, candidates)
    starts = [np.vstack([network.units, candidates[i]]) for i in np.argsort(-gains)[:2]]
    weights = np.ones(network.k + 1)
    tried = _best_trial(rows, [network.with_units(weights, units) for units in starts], 1)
    return tried if best.bic - tried.bic > HOPE * price - q * np.log(rows.total) else None


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


def drop(rows: Rows, best: FittedNetwork, price: float) -> FittedNetwork | None:
    """Drop the component that is needed least, if that is not clearly worse."""
    network = best.network
    rises = _rises(*weight_equations(rows, network), positive=network.positive)
    i = int(np.argmin(rises))
    left = max(best.loss, NOISELESS * best.size) / rows.total
    return (
        _without(rows, network, i, TRIAL)
        if network.k > 1 and rises[i] < 30 * price * left
        else None
    )


def _without(rows: Rows, network: Network, i: int, further: dict[str, Any]) -> FittedNetwork:
    rest = fit_weights(rows, network.take(np.arange(network.k) != i))
    return fit_network(rows, rest, **further)


def _rises(gram: Floats, right: Floats, *, positive: bool) -> Floats:
    """Return the rise of the error without each unknown of least squares, the others refitted."""
    inverse = np.linalg.inv(gram + np.diag(SAME * np.diag(gram) + TINY))
    weights = inverse @ right
    rises = weights**2 / np.diag(inverse)
    return np.where(weights < 0, 0.0, rises) if positive else np.asarray(rises)
