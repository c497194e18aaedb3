"""Exact means of polynomials of standard Gaussians: Smolyak's rule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product

import numpy as np

from implicitmoments.arrays import Floats


@dataclass(frozen=True)
class Cubature:
    r"""Nodes and weights for N(0, I) in n dimensions, exact for polynomials up to a degree.

    Smolyak's rule :math:`\sum_{|l| \le s} \Delta_{l_1} \otimes \cdots \otimes \Delta_{l_n}`, with
    :math:`\Delta_l` the difference of Gauss–Hermite rules of levels l and l − 1, is exact up to
    degree 2s + 1 if level l is exact up to 2l + 1. Levels 2j − 1 and 2j share the rule of
    2j + 1 nodes: all rules then have the node 0, and half of the differences vanish. The number of
    nodes grows as :math:`(2n)^s / s!`, for a fixed degree a polynomial in n.
    """

    n: int
    degree: int

    @property
    def level(self) -> int:
        """The level s: odd degrees have mean 0 by symmetry."""
        return self.degree // 2

    @cached_property
    def differences(self) -> dict[float, Floats]:
        """For every node of one dimension its weights in Δ_0, …, Δ_s, by its value."""
        found: dict[float, Floats] = {0.0: np.zeros(self.level + 1)}
        found[0.0][0] = 1.0
        before = {0.0: 1.0}
        for level in range(1, self.level + 1, 2):
            nodes, weights = np.polynomial.hermite_e.hermegauss(level + 2)
            nodes[len(nodes) // 2] = 0.0
            rule = dict(zip(nodes, weights / math.sqrt(2 * math.pi), strict=True))
            for sign, part in ((1.0, rule), (-1.0, before)):
                for node, weight in part.items():
                    found.setdefault(node, np.zeros(self.level + 1))[level] += sign * weight
            before = rule
        return found

    @cached_property
    def supports(self) -> list[list[tuple[float, ...]]]:
        """For t = 0, …, s the nonzero coordinates that a node with t of them may have."""
        least = {v: int(np.flatnonzero(w)[0]) for v, w in self.differences.items() if v != 0.0}
        found: list[list[tuple[float, ...]]] = [[()]]
        for _ in range(min(self.level, self.n)):
            longer = [(*values, v) for values, v in product(found[-1], least)]
            found.append([vs for vs in longer if sum(least[v] for v in vs) <= self.level])
        return found

    @cached_property
    def size(self) -> int:
        """Number of nodes; counted without making them."""
        return sum(math.comb(self.n, t) * len(values) for t, values in enumerate(self.supports))

    def _weight(self, values: tuple[float, ...]) -> float:
        """Return the weight of a node: the terms up to s of a product of series in the level."""
        total = np.zeros(self.level + 1)
        total[0] = 1.0
        for value in (*values, *[0.0] * (self.n - len(values))):
            total = np.convolve(total, self.differences[value])[: self.level + 1]
        return float(total.sum())

    @cached_property
    def rule(self) -> tuple[Floats, Floats]:
        """Nodes (size, n) and weights (size,), of both signs; weights sum to 1."""
        nodes, weights, first = np.zeros((self.size, self.n)), np.empty(self.size), 0
        for t, supports in enumerate(self.supports):
            places = np.array(list(combinations(range(self.n), t)), dtype=np.intp)
            for values in supports:
                rows = np.arange(first, first + len(places))
                nodes[rows[:, None], places] = values
                weights[rows] = self._weight(tuple(sorted(values)))
                first += len(places)
        return nodes, weights
