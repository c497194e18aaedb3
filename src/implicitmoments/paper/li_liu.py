r"""The estimator of Li and Liu, which the paper generalises, and the naive average.

Both are described at the beginning of section 4.1 and in section 1.2. Lemma 4.3 is here in exact
form, so that the variances can be compared.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np

from implicitmoments.paper.circuits import Circuit, number, vector
from implicitmoments.paper.estimation import Problem, Take, blocks
from implicitmoments.paper.projections import Floats, Inputs, evaluate_dense


def pairings(slots: tuple[int, ...]) -> Iterator[list[tuple[int, int]]]:
    """Yield the pairs of every partition of slots into sets of size 1 and 2.

    Examples
    --------
    >>> list(pairings((1, 2, 3)))
    [[], [(2, 3)], [(1, 2)], [(1, 3)]]
    """
    if not slots:
        yield []
        return
    first, *rest = slots
    yield from pairings(tuple(rest))
    for other in rest:
        for pairs in pairings(tuple(slot for slot in rest if slot != other)):
            yield [(first, other), *pairs]


def li_liu_hermite(order: int) -> Circuit:
    r"""Return Li and Liu's circuit for :math:`H_t(x)`, a sum of rank-one tensors.

    The sum of Definition 2.2, with :math:`z_j \otimes z_j` for the j-th copy of I, for independent
    :math:`z_j \sim N(0, I)`. It has roughly :math:`t^{t/2}` terms, where Definition 4.1 has one
    auxiliary vector and O(t) operations (Remark 4.2).

    Parameters
    ----------
    order : int
        The order t, at least 1.

    Returns
    -------
    Circuit
        Reads the vectors x, z1, z2, ….

    Examples
    --------
    >>> from implicitmoments.paper.circuits import hermite, size
    >>> x, y = vector("x"), vector("y")
    >>> [(size(li_liu_hermite(t)), size(hermite(x, y, t))) for t in (2, 4, 6, 8)]
    [(6, 5), (50, 17), (532, 29), (6876, 41)]
    """
    terms = []
    for pairs in pairings(tuple(range(order))):
        filled = [vector("x")] * order
        for j, pair in enumerate(pairs, start=1):
            for slot in pair:
                filled[slot] = vector(f"z{j}")
        one_term = number((-1.0) ** len(pairs))
        for x in filled:
            one_term = one_term.append(x)
        terms.append(one_term)
    return (1 / math.sqrt(math.factorial(order))) * functools.reduce(Circuit.__add__, terms)


def li_liu_problem(take: Take, n_features: int) -> Problem:
    r"""Return :math:`\sqrt{t!}` times Li and Liu's circuits, for spherical mixtures.

    Parameters
    ----------
    take : callable
        Hands out rows with points ``"x"`` of shape (n, n_features).
    n_features : int

    Returns
    -------
    Problem
    """

    def circuit(order: int) -> Circuit:
        return math.sqrt(math.factorial(order)) * li_liu_hermite(order)

    def draw(order: int, n: int, rng: np.random.Generator) -> Inputs:
        pairs = range(1, order // 2 + 1)
        auxiliary = {f"z{j}": rng.normal(size=(n, n_features)) for j in pairs}
        return {"x": take(n)["x"], **auxiliary}

    return Problem(n_features, circuit, draw)


def naive_average(
    problem: Problem, order: int, n_samples: int, rng: np.random.Generator
) -> Floats:
    """Average dense tensors: what implicit estimation avoids, with d ** order numbers per sample.

    Parameters
    ----------
    problem : Problem
    order : int
        The order t.
    n_samples : int
    rng : numpy.random.Generator

    Returns
    -------
    array of shape (d, …, d)
    """
    circuit, inputs = problem.circuit(order), problem.draw(order, n_samples, rng)
    total = np.zeros((problem.n_features,) * order)
    for block in blocks(inputs, total.size):
        total += evaluate_dense(circuit, block).sum(axis=0)
    return total / n_samples


def hermite_second_moment(order: int, radius: float = 0.0) -> float:
    r"""Lemma 4.3 (Second Moment Bound), exactly: the largest second moment of :math:`H_n(X, Y)`.

    For X ~ N(μ, I) with :math:`\|\mu\| = r` it is :math:`(2^n L_n(-r^2/2) + r^{2n}/n!)/2`, with
    the Laguerre polynomial :math:`L_n`; :math:`2^{n-1}` at the origin. (Erratum 12: in the last
    sum of the text's proof the number of pairs of type 2 is even, not that of all pairs.)

    Examples
    --------
    >>> [hermite_second_moment(n) for n in (1, 2, 4, 8)]
    [1.0, 2.0, 8.0, 128.0]
    """
    laguerre = 0.0
    for j in range(order + 1):
        laguerre += math.comb(order, j) * (radius**2 / 2) ** j / math.factorial(j)
    return 2.0 ** (order - 1) * laguerre + radius ** (2 * order) / math.factorial(order) / 2
