r"""Moments of order a + b + c as three-way arrays on :math:`U_a \times U_b \times U_c`.

For symmetric A, B, C the inner product with a Hermite tensor is a sum over the numbers
:math:`l_{12}, l_{13}, l_{23}` of slots paired between them,

.. math:: \langle A \otimes B \otimes C, He_{a+b+c}(x) \rangle = \sum
   \frac{(-1)^{l_{12}+l_{13}+l_{23}}\, a!\, b!\, c!}{l_{12}!\, l_{13}!\, l_{23}!\, a'!\, b'!\, c'!}
   [A, B, C \text{ so contracted}] (He_{a'} \otimes He_{b'} \otimes He_{c'}),

with :math:`a' = a - l_{12} - l_{13}` and so on.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import factorial
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.arrays import Array, Floats, eye_like, namespace_of, outer_rows, to_numpy
from implicitmoments.moments.chain import SymmetricChain
from implicitmoments.moments.framed_rows import FramedRows, Weights
from implicitmoments.moments.split_means import SplitMean, average
from implicitmoments.rows import Sums

Orders: TypeAlias = tuple[int, int, int]

PAIRS = ((0, 1), (0, 2), (1, 2))  # axes paired by l12, l13 and l23
CUBE_BLOCK = 8  # columns of a cube sum that share one copy of the columns after them


def three_way_terms(a: int, b: int, c: int) -> list[tuple[float, Orders]]:
    """Return the factor and (l12, l13, l23) of every term of the formula."""
    terms = []
    for l12, l13, l23 in product(range(min(a, b) + 1), range(min(a, c) + 1), range(min(b, c) + 1)):
        left = _left_over((a, b, c), (l12, l13, l23))
        if min(left) >= 0:
            above = factorial(a) * factorial(b) * factorial(c)
            below = factorial(l12) * factorial(l13) * factorial(l23)
            for n in left:
                below *= factorial(n)
            terms.append(((-1) ** (l12 + l13 + l23) * above / below, (l12, l13, l23)))
    return terms


def three_way_mean(view: FramedRows, chain: SymmetricChain, a: int, b: int, c: int) -> SplitMean:
    """Average M_{a+b+c} on U_a × U_b × U_c, with weights c_{a+b+c}, as NumPy arrays."""
    terms = three_way_terms(a, b, c)
    needed = sorted({_left_over((a, b, c), paired) for _, paired in terms})

    def measure(points: Array, weights: Weights) -> Sums:
        images = chain.images(points)
        w = weights[a + b + c]
        return {str(n): _product_sum(images[n[0]], images[n[1]], images[n[2]], w) for n in needed}

    def assemble(means: Sums) -> Array:
        steps = [to_numpy(step) for step in chain.steps]
        noise = to_numpy(chain.noise)
        total: Any = 0.0
        for factor, paired in terms:
            n = list(_left_over((a, b, c), paired))
            array = to_numpy(means[str(tuple(n))])
            for (i, j), times in zip(PAIRS, paired, strict=True):
                for _ in range(times):
                    array = _lift_pair(array, steps[n[i]], steps[n[j]], noise, i, j)
                    n[i], n[j] = n[i] + 1, n[j] + 1
            total = total + factor * array
        return np.asarray(total)

    builders: dict[str, Callable[[Sums], Array]] = {"moment": assemble}
    width = max(chain.dim(n) for n in range(chain.order + 1)) ** 2
    return average(view, [a + b + c], measure, builders, f"order {a + b + c}", width)["moment"]


def cube_sum(rows: Array, weights: Array | None) -> Array:
    """Return the sum of ``c · p ⊗ p ⊗ p`` over rows p, in about a third of the products.

    For each column a, one product of the columns from the block of a on; the rest follows by
    symmetry.
    """
    xp = namespace_of(rows)
    k = int(rows.shape[1])
    slabs = []
    for first in range(0, k, CUBE_BLOCK):
        later = rows[:, first:] + 0.0  # a contiguous copy, used for all columns of the block
        turned = xp.matrix_transpose(later)
        for a in range(first, min(first + CUBE_BLOCK, k)):
            column = rows[:, a] if weights is None else rows[:, a] * weights
            slab = 0 * eye_like(k, rows)
            slab[first:, first:] = turned @ (later * column[:, None])
            slabs.append(slab)
    return xp.stack(slabs)


def fill_cube(array: Floats) -> Floats:
    """Complete a cube sum from its entries (a, b, c) with a ≤ b ≤ c."""
    a = np.arange(len(array))[:, None, None]
    b, c = a.transpose(1, 0, 2), a.transpose(2, 1, 0)
    low, high = np.minimum(np.minimum(a, b), c), np.maximum(np.maximum(a, b), c)
    filled: Floats = array[low, a + b + c - low - high, high]
    return filled


def symmetrise(array: Floats) -> Floats:
    """Average a three-way array over the permutations of its axes."""
    twice = (array + array.transpose(1, 0, 2)) / 2
    averaged: Floats = (twice + twice.transpose(2, 1, 0) + twice.transpose(0, 2, 1)) / 3
    return averaged


def _left_over(orders: Orders, paired: Orders) -> Orders:
    """Return the number of unpaired slots of each axis."""
    (a, b, c), (l12, l13, l23) = orders, paired
    return a - l12 - l13, b - l12 - l23, c - l13 - l23


def _product_sum(x: Array, y: Array, z: Array, weights: Array | None) -> Array:
    xp = namespace_of(x)
    weighted = z if weights is None else z * weights[:, None]
    joined = xp.matrix_transpose(outer_rows(x, y)) @ weighted
    return xp.reshape(joined, (x.shape[1], y.shape[1], z.shape[1]))


def _lift_pair(
    array: Floats, left: Floats, right: Floats, noise: Floats, i: int, j: int
) -> Floats:
    """Append one slot, paired through the noise, to axes i and j of a three-way array."""
    p = len(noise)
    other = 3 - i - j
    turned = array.transpose(i, j, other)
    phi = left.reshape(len(left), -1, p) @ noise
    theta = right.reshape(len(right), -1, p)
    # φ[A, a, l] T[a, b, o] θ[B, b, l] -> [A, o, B]
    half = np.tensordot(phi, turned, axes=(1, 0))  # (A, l, b, o)
    joined = np.tensordot(half, theta, axes=([1, 2], [2, 1])).transpose(0, 2, 1)
    lifted: Floats = joined.transpose(np.argsort((i, j, other)))
    return lifted
