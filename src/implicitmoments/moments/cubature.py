"""Exact means of polynomials of standard Gaussians: Smolyak's rule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

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
        within = [[v for v in least if least[v] <= s] for s in range(self.level + 1)]
        found: list[list[tuple[float, ...]]] = [[()]]
        for _ in range(min(self.level, self.n)):
            left = [self.level - sum(least[v] for v in values) for values in found[-1]]
            found.append(
                [(*vs, v) for vs, s in zip(found[-1], left, strict=True) for v in within[s]]
            )
        return found

    @cached_property
    def size(self) -> int:
        """Number of nodes; counted without making them.

        Every odd level l brings l + 1 nonzero nodes, which no other level has. A power t of the
        series of these numbers counts t nonzero coordinates by the sum of their levels.
        """
        new = [level + 1 if level % 2 else 0 for level in range(self.level + 1)]
        counts, total = np.array([1], dtype=object), 0
        for t in range(min(self.level, self.n) + 1):
            total += math.comb(self.n, t) * sum(counts)
            counts = np.convolve(counts, np.array(new, dtype=object))[: self.level + 1]
        return int(total)

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
