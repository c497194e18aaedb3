r"""The averages :math:`M_{2r}` and whitened :math:`M_{3r}` for decoding; faster for r = 2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import factorial
from typing import Any, Protocol, TypeAlias

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    descending_eigh,
    eye_like,
    move_like,
    namespace_of,
    outer_rows,
    to_numpy,
)
from implicitmoments.moments.chain import (
    ChainWindow,
    PairWindow,
    SymmetricChain,
    Window,
    open_window,
)
from implicitmoments.moments.closed_form import OVERSAMPLING, even_mean, even_means
from implicitmoments.moments.framed_rows import FramedRows, SplitMean, Weights, average
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


class MomentPair(Protocol):
    """The two averages needed for decoding at order r, on a window of symmetric tensors."""

    @property
    def r(self) -> int:
        """Slots of a component."""

    @property
    def chain(self) -> SymmetricChain:
        """Subspaces up to order r − 1."""

    @property
    def window(self) -> Window:
        """Coordinates of order r."""

    def second(self) -> SplitMean:
        """Average M_2r on the window."""

    def third(self, whitener: Floats) -> SplitMean:
        """Average M_3r, each leg multiplied by the whitener (dim, k)."""


@dataclass(eq=False)
class ChainMomentPair:
    """Any r, by the recursion and the general formula for three-way moments."""

    view: FramedRows
    chain: SymmetricChain
    window: Window

    @property
    def r(self) -> int:
        """Slots of a component."""
        return self.chain.order + 1

    def second(self) -> SplitMean:
        """Average M_2r on the window."""
        return even_mean(self.view, self.chain, self.window).map(to_numpy)

    def third(self, whitener: Floats) -> SplitMean:
        """Average M_3r through the chain, whose last step is the whitener."""
        last = self.window.step(move_like(np.ascontiguousarray(whitener.T), self.chain.noise))
        whitened = self.chain.extend(last)
        third = three_way_mean(self.view, whitened, self.r, self.r, self.r)
        return third.map(lambda form: symmetrise(to_numpy(form)))


@dataclass(eq=False)
class QuadraticMomentPair:
    r"""r = 2 on symmetric matrices: only :math:`E[p_a p_b p_c]` needs a second pass.

    With :math:`A_a` the matrix of column a of the whitener, :math:`p_a = x^\top A_a x - tr(A_a J)`
    and :math:`S = E[x x^\top]`, the whitened sixth moment is the symmetrisation of

    .. math:: E[p_a p_b p_c] + tr(A_a J A_b H_c) + 6\, tr(A_a J A_b J)\, E[p_c], \quad
       H_c = -12\, E[p_c\, x x^\top] + 24\, J A_c S - 8\, m_0\, J A_c J,

    every mean with weights :math:`c_6` and :math:`m_0 = E[c_6]`.
    """

    view: FramedRows
    chain: SymmetricChain
    window: PairWindow
    r: int = 2
    _first: dict[str, SplitMean] | None = None

    def second(self) -> SplitMean:
        """Average M_4 on symmetric matrices."""
        self._first = {
            name: estimate.map(to_numpy)
            for name, estimate in even_means(self.view, self.chain, self.window).items()
        }
        return self._first["moment"]

    def third(self, whitener: Floats) -> SplitMean:
        """Average the whitened M_6."""
        uniform = self.view.problem.uniform
        sums = self._sums(whitener, with_products=not uniform)
        halves = []
        for i in (0, 1):
            means = {name: estimate.halves[i] for name, estimate in sums.items()}
            if uniform:
                means |= self._from_first_pass(whitener, i)
            halves.append(self._assemble(whitener, means))
        return SplitMean((halves[0], halves[1]), sums["cube"].counts)

    def _sums(self, whitener: Floats, *, with_products: bool) -> dict[str, SplitMean]:
        """Average p ⊗ p ⊗ p, and lower means unless the first pass provides them."""
        W = move_like(whitener, self.chain.noise)

        def measure(points: Array, weights: Weights) -> Sums:
            xp = namespace_of(points)
            h = self.window.features(self.chain.images(points), points, None)
            rows, c = h @ W, weights[6]
            sums: Sums = {"cube": cube_sum(rows, c)}
            if with_products:
                weighted = rows if c is None else rows * c[:, None]
                scaled = points if c is None else points * c[:, None]
                sums["mass"] = xp.sum(xp.ones_like(points[:, 0]) if c is None else c)
                sums["square"] = xp.matrix_transpose(scaled) @ points
                sums["mean"] = xp.sum(weighted, axis=0)
                sums["products"] = xp.matrix_transpose(weighted) @ h
            return sums

        names = ["cube", *(["mass", "square", "mean", "products"] if with_products else [])]
        builders = {n: partial(_as_numpy, n) for n in names}
        return average(self.view, [6], measure, builders, "order 6", self.window.dim)

    def _from_first_pass(self, whitener: Floats, half: int) -> Sums:
        """Compute the lower means from the first pass, if all orders have the same weights."""
        if self._first is None:
            raise RuntimeError("second() must be called before third()")
        mass, square, gram = (self._first[f"gram{j}"].halves[half] for j in (0, 1, 2))
        h = self.window.coordinates((square - mass * to_numpy(self.window.noise))[None])[0]
        return {
            "mass": np.sum(mass),
            "square": square,
            "mean": h @ whitener,
            "products": (gram @ whitener).T,
        }

    def _assemble(self, whitener: Floats, means: Sums) -> Floats:
        J = np.asarray(to_numpy(self.window.noise))
        A = to_numpy(self.window.matrices(np.ascontiguousarray(whitener.T)))
        k = len(A)
        # products hold p ⊗ h and h = x xᵀ − J
        pxx = to_numpy(self.window.matrices(means["products"])) + means["mean"][:, None, None] * J
        H = -12 * pxx + 24 * (J @ A) @ means["square"] - 8 * means["mass"] * (J @ A) @ J
        AJ = A @ J
        AJA = np.einsum("aij,bjk->abik", AJ, A, optimize=True).reshape(k * k, -1)
        T = (AJA @ H.transpose(0, 2, 1).reshape(k, -1).T).reshape(k, k, k)
        traces = AJ.reshape(k, -1) @ AJ.transpose(0, 2, 1).reshape(k, -1).T
        T += 6 * traces[:, :, None] * means["mean"]
        return symmetrise(fill_cube(means["cube"]) + symmetrise(T))


def _as_numpy(name: str, means: Sums) -> Floats:
    return to_numpy(means[name])


def moment_pair(view: FramedRows, r: int, k: int) -> MomentPair:
    """Return the averages for components of order r, after estimating lower subspaces."""
    noise = view.frame.noise
    xp = namespace_of(noise)
    p = view.frame.p
    if r == 1:
        empty = SymmetricChain((), noise)
        return ChainMomentPair(view, empty, ChainWindow(empty, eye_like(p, noise)))
    chain = SymmetricChain((eye_like(p, noise),), noise)
    if r == 2:
        return QuadraticMomentPair(view, chain, PairWindow(noise))
    for _ in range(2, r):
        # Below the last order more than k directions are kept: a lost one cannot be recovered.
        window = open_window(chain, OVERSAMPLING * k)
        _, vectors = descending_eigh(even_mean(view, chain, window).value)
        width = min(OVERSAMPLING * k, window.dim)
        basis = xp.matrix_transpose(vectors[:, :width])
        chain = chain.extend(window.step(basis))
    return ChainMomentPair(view, chain, open_window(chain, k))
