r"""Were two rows drawn from one component? The test of the proof of Theorem 4.19.

On the span of the means and in units of the noise, :math:`\Delta = (x - x')/\sqrt 2` is
:math:`N((\mu_i - \mu_j)/\sqrt 2, I)`. The test is the size of

.. math:: P_t(\Delta) = \langle H_t(\Delta), M_t \rangle, \qquad
   M_t = \sum_{ij} w_i w_j ((\mu_i - \mu_j)/\sqrt 2)^{\otimes t},

for an even t; M_t with the root of two that the text leaves out (erratum 4). For rows of one
component :math:`\Delta \sim N(0, I)` whatever the means, so that the law of :math:`P_t` for such
pairs is known once M_t is. Thresholds, error rates and t are chosen by that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.arrays import Array, Floats, index_like, move_like, namespace_of, to_numpy
from implicitmoments.mixture.mean_span import SphericalSpan
from implicitmoments.moments import ClosedFormMoments, PaperMoments, implicit_moments
from implicitmoments.problems import PairwiseDifferenceProblem
from implicitmoments.rows import ArraySource, Source, as_source
from implicitmoments.rows.sampling import Integers, counted, counts_of, sample_blocks

__all__ = [
    "HeldRows",
    "PairwiseTest",
    "choose_test",
    "difference_moments",
    "hold_rows",
    "random_differences",
    "same_matrix",
    "usable_orders",
]

ORDERS = (2, 4, 6)
LARGEST_COST = 2_000_000  # operations for one pair
N_PAIRS = 20_000  # pairs from which thresholds are chosen
# Rows that are paired at random, which takes them all at once; and numbers that are held of them.
MOST_ROWS, FEWEST_ROWS, HELD_NUMBERS = 2**20, 2**16, 2**24
HALF = 0.5  # of the pairs of one component lie below their median


@dataclass(frozen=True, eq=False)
class PairwiseTest:
    r"""A test of pairs of rows: below the threshold they are of one component.

    Attributes
    ----------
    order : int
        The even order t.
    moments : ClosedFormMoments or PaperMoments
        :math:`M_t` of the differences.
    threshold : float
    split_rate : float
        Estimated part of the pairs of one component that are told apart.
    merge_rate : float
        Estimated part of the pairs of two components that are not.
    same_rate : float
        Estimated part of pairs of one component among all, :math:`\sum_i w_i^2`.
    n_draws : int
        Auxiliary draws a pair, for moments by the paper's algorithm.
    """

    order: int
    moments: ClosedFormMoments | PaperMoments
    threshold: float
    split_rate: float
    merge_rate: float
    same_rate: float
    n_draws: int = 100

    def statistic(self, left: Array, right: Array) -> Floats:
        """Return P_t for pairs of rows of coordinates (n, p)."""
        return _statistic(self.moments, (left - right) / math.sqrt(2), self.n_draws)

    def same(self, left: Array, right: Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Say for pairs of rows whether they are of one component."""
        return self.statistic(left, right) <= self.threshold


def usable_orders(k: int, p: int) -> tuple[int, ...]:
    """Return the orders whose test of a pair is affordable."""
    n_differences = k * (k - 1) // 2  # up to sign, which even orders do not see
    cost = n_differences * (p * p + n_differences)
    return ORDERS if cost * p <= LARGEST_COST else ORDERS[:2] if cost <= LARGEST_COST else (2,)


@dataclass(frozen=True, eq=False)
class HeldRows:
    """Rows on the span of the means, in memory: all that count, or an even sample of them.

    Attributes
    ----------
    numbers : array of int of shape (n,)
        Numbers of the rows, ascending.
    coordinates : array of shape (n, p)
        In the library and on the device of the rows.
    counts : array of shape (n,) or None
        How often each row counts; None where all count alike.
    """

    numbers: Integers
    coordinates: Array
    counts: Floats | None

    @property
    def chances(self) -> Floats | None:
        """Chances of rows that are drawn as often as they count."""
        return None if self.counts is None else self.counts / np.sum(self.counts)

    def take(self, chosen: Integers) -> Array:
        """Return the coordinates of some of the rows."""
        places = index_like(chosen, self.coordinates)
        return namespace_of(self.coordinates).take(self.coordinates, places, axis=0)


def hold_rows(rows: Array | Source, span: SphericalSpan, seed: int = 0) -> HeldRows:
    """Hold the coordinates of rows: of all up to a million, of an even sample of more."""
    source = as_source(rows)
    most = min(MOST_ROWS, max(FEWEST_ROWS, HELD_NUMBERS // max(1, span.p)))
    numbers, held, counts = [], [], []
    for chosen, block in sample_blocks(source, most, seed):
        weight = to_numpy(counts_of(block)).astype(np.float64)
        held.append(span.coordinates(counted(block)["x"]))
        numbers.append(chosen[weight > 0])
        counts.append(weight[weight > 0])
    weight = np.concatenate(counts)
    even = bool(np.all(weight == weight[0]))
    coordinates = namespace_of(held[0]).concat(held)
    return HeldRows(np.concatenate(numbers), coordinates, None if even else weight)


def difference_moments(
    held: HeldRows, k: int, order: int, *, method: str = "closed_form", seed: int = 0
) -> ClosedFormMoments | PaperMoments:
    """Estimate M_t of differences of rows that are paired at random.

    Rows are often sorted by what made them; neighbours would then be of one component.
    """
    order_of_rows = np.random.default_rng(seed).permutation(len(held.numbers))
    source = ArraySource(held.take(order_of_rows))
    weights = (
        None if held.counts is None else move_like(held.counts[order_of_rows], held.coordinates)
    )
    problem = PairwiseDifferenceProblem(source, sample_weight=weights)
    n_averages = order + 1 if method == "paper" else 1
    n = max(
        1, min(k * (k - 1) // 2, len(held.numbers) // (2 * n_averages))
    )  # no more than there are rows
    if method == "paper":
        return implicit_moments(
            problem, n_components=n, order=order, method="paper", random_state=seed
        )
    return implicit_moments(problem, n_components=n, order=order, drop_noise=False)


def choose_test(
    moments: Mapping[int, ClosedFormMoments | PaperMoments],
    differences: Array,
    *,
    n_draws: int = 100,
    seed: int = 0,
) -> PairwiseTest:
    r"""Choose the order and the threshold with the smallest sum of error rates.

    The part of pairs of one component is the part of all pairs below the median of such pairs,
    doubled, as for p-values (Storey 2002). Pairs of two components there make it too large, so
    the least over the orders is taken.

    Parameters
    ----------
    moments : mapping of int to moments
        By order.
    differences : array of shape (n, p)
        :math:`(x - x')/\sqrt 2` for random pairs of rows.
    n_draws, seed : int
    """
    if not moments:
        raise ValueError("there is no order to choose from; give moments of at least one")
    null = move_like(np.random.default_rng(seed).standard_normal(differences.shape), differences)
    seen, known = (
        {t: np.sort(_statistic(m, points, n_draws)) for t, m in moments.items()}
        for points in (differences, null)
    )
    same_rate = min(_part_below(seen[t], float(np.quantile(known[t], HALF))) for t in moments)
    same_rate = min(max(same_rate / HALF, 1.0 / int(differences.shape[0])), 1.0)
    found = {t: _threshold(seen[t], known[t], same_rate) for t in moments}
    best = min(found, key=lambda t: found[t][1] + found[t][2])
    threshold, split, merge = found[best]
    return PairwiseTest(best, moments[best], threshold, split, merge, same_rate, n_draws)


def _threshold(seen: Floats, known: Floats, same_rate: float) -> tuple[float, float, float]:
    """Return threshold, split rate and merge rate for sorted values of a statistic."""
    grid = np.unique(np.concatenate([seen, known]))
    below = np.searchsorted(seen, grid, side="right") / len(seen)
    below_known = np.searchsorted(known, grid, side="right") / len(known)
    split = 1.0 - below_known
    other = max(1.0 - same_rate, 1.0 / len(seen))
    # a distribution function, which the noise of a difference of two is not
    merge = np.maximum.accumulate(np.clip((below - same_rate * below_known) / other, 0.0, 1.0))
    at = int(np.argmin(split + merge))
    return float(grid[at]), float(split[at]), float(merge[at])


def _part_below(values: Floats, bound: float) -> float:
    return float(np.searchsorted(values, bound, side="right")) / len(values)


def _statistic(
    moments: ClosedFormMoments | PaperMoments, differences: Array, n_draws: int
) -> Floats:
    if isinstance(moments, PaperMoments):
        found = moments.hermite(differences, n_draws=n_draws)
    else:
        found = moments.hermite(differences)
    return np.asarray(to_numpy(found), dtype=np.float64)


def random_differences(held: HeldRows, seed: int) -> Array:
    """Return (x − x')/√2 for random pairs of different rows, drawn as often as they count."""
    rng = np.random.default_rng(seed)
    n = len(held.numbers)
    first = rng.choice(n, size=N_PAIRS, p=held.chances)
    second = rng.choice(n, size=N_PAIRS, p=held.chances)
    apart = first != second
    return (held.take(first[apart]) - held.take(second[apart])) / math.sqrt(2)


def same_matrix(
    test: PairwiseTest, coordinates: Array, block: int = 65_536
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Test every pair of some rows, (m, p) to a symmetric (m, m)."""
    m, xp = int(coordinates.shape[0]), namespace_of(coordinates)
    same = np.eye(m, dtype=bool)
    left, right = np.triu_indices(m, 1)
    for start in range(0, len(left), block):
        i, j = left[start : start + block], right[start : start + block]
        one, other = (xp.take(coordinates, index_like(k, coordinates), axis=0) for k in (i, j))
        same[i, j] = test.same(one, other)
    return same | same.T
