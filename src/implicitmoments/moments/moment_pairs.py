r"""The averages :math:`M_{2r}` and whitened :math:`M_{3r}`, and their orthogonal components."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import factorial, prod
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    eye_like,
    move_like,
    namespace_of,
    outer_rows,
    to_numpy,
)
from implicitmoments.moments.chain import SymmetricChain, Window, open_window
from implicitmoments.moments.circuit_rows import CircuitMomentPair, CircuitRows
from implicitmoments.moments.closed_form import OVERSAMPLING
from implicitmoments.moments.form_means import even_mean, even_means, mean_moments
from implicitmoments.moments.hermite_problem import FramedRows, Weights, average
from implicitmoments.moments.pair_window import PairWindow
from implicitmoments.moments.split_mean import SplitMean, symmetrise
from implicitmoments.rows import Sums

Orders: TypeAlias = tuple[int, int, int]

PAIRS = ((0, 1), (0, 2), (1, 2))  # axes paired by l12, l13 and l23
CUBE_BLOCK = 8  # columns of a cube sum that share one copy of the columns after them
N_STARTS = 3  # random orthogonal starts, whose agreement is reported as `spread`
TOLERANCE = 1e-8  # change of an entry: far below sampling errors
MAX_ITERATIONS = 50  # about 12 are needed; more only where noise exceeds the components


def three_way_terms(a: int, b: int, c: int) -> list[tuple[float, Orders, Orders]]:
    """Return the factor, (l12, l13, l23) and the unpaired slots of every term of the formula."""
    terms = []
    for l12, l13, l23 in product(range(min(a, b) + 1), range(min(a, c) + 1), range(min(b, c) + 1)):
        left = (a - l12 - l13, b - l12 - l23, c - l13 - l23)
        if min(left) >= 0:
            above = factorial(a) * factorial(b) * factorial(c)
            below = prod(map(factorial, (l12, l13, l23, *left)))
            factor = (-1) ** (l12 + l13 + l23) * above / below
            terms.append((factor, (l12, l13, l23), left))
    return terms


def three_way_mean(view: FramedRows, chain: SymmetricChain, a: int, b: int, c: int) -> SplitMean:
    """Average M_{a+b+c} on U_a × U_b × U_c, with weights c_{a+b+c}, as NumPy arrays."""
    terms = three_way_terms(a, b, c)

    def measure(points: Array, weights: Weights) -> Sums:
        xp = namespace_of(points)
        images, w, sums = chain.images(points), weights[a + b + c], {}
        for n in sorted({left for _, _, left in terms}):
            x, y, z = (images[slots] for slots in n)
            weighted = z if w is None else z * w[:, None]
            joined = xp.matrix_transpose(outer_rows(x, y)) @ weighted
            sums[str(n)] = xp.reshape(joined, (x.shape[1], y.shape[1], z.shape[1]))
        return sums

    def assemble(means: Sums) -> Sums:
        steps = [to_numpy(step) for step in chain.steps]
        noise = to_numpy(chain.noise)
        total: Any = 0.0
        for factor, paired, left in terms:
            n, array = list(left), to_numpy(means[str(left)])
            for (i, j), times in zip(PAIRS, paired, strict=True):
                for _ in range(times):
                    array = _lift_pair(array, steps[n[i]], steps[n[j]], noise, i, j)
                    n[i], n[j] = n[i] + 1, n[j] + 1
            total = total + factor * array
        return {"moment": np.asarray(total)}

    order, width = a + b + c, max(chain.dim(n) for n in range(chain.order + 1)) ** 2
    return average(view, [order], measure, assemble, f"order {order}", width)["moment"]


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


@dataclass(eq=False)
class HermiteMomentPair:
    """M_{r+1} and M_1 of a Hermite problem, which determine signs."""

    view: FramedRows
    chain: SymmetricChain  # subspaces up to order r − 1
    window: Window  # coordinates of order r

    def mixed(self, whitener: Floats) -> SplitMean:
        """Average M_{r+1} on R^p × the whitened window (dim, k)."""
        chain, r = self._whitened(whitener), self.chain.order + 1
        return mean_moments(self.view, chain, [(1, r)])[1, r].map(to_numpy)

    def first(self) -> SplitMean:
        """Average M_1, (p,)."""
        return mean_moments(self.view, self.chain, [(0, 1)])[0, 1].map(lambda m: to_numpy(m)[0])

    def _whitened(self, whitener: Floats) -> SymmetricChain:
        """Return the chain with a last step onto the columns of the whitener."""
        rows = move_like(np.ascontiguousarray(whitener.T), self.chain.noise)
        return self.chain.extend(self.window.step(rows))


@dataclass(eq=False)
class ChainMomentPair(HermiteMomentPair):
    """M_2r and M_3r for any r, by the recursion and the formula for three-way moments."""

    def second(self) -> SplitMean:
        """Average M_2r on the window."""
        return even_mean(self.view, self.chain, self.window).map(to_numpy)

    def third(self, whitener: Floats) -> SplitMean:
        """Average M_3r through the chain, whose last step is the whitener (dim, k)."""
        r = self.chain.order + 1
        third = three_way_mean(self.view, self._whitened(whitener), r, r, r)
        return third.map(lambda form: symmetrise(to_numpy(form)))


@dataclass(eq=False)
class QuadraticMomentPair(HermiteMomentPair):
    r"""r = 2 on symmetric matrices: only :math:`E[p_a p_b p_c]` needs a second pass.

    With :math:`A_a` the matrix of column a of the whitener, :math:`p_a = x^\top A_a x - tr(A_a J)`
    and :math:`S = E[x x^\top]`, the whitened sixth moment is the symmetrisation of

    .. math:: E[p_a p_b p_c] + tr(A_a J A_b H_c) + 6\, tr(A_a J A_b J)\, E[p_c], \quad
       H_c = -12\, E[p_c\, x x^\top] + 24\, J A_c S - 8\, m_0\, J A_c J,

    every mean with weights :math:`c_6` and :math:`m_0 = E[c_6]`.
    """

    window: PairWindow

    @cached_property
    def first_pass(self) -> dict[str, SplitMean]:
        """M_4 on symmetric matrices, and the terms of which it is composed."""
        means = even_means(self.view, self.chain, self.window)
        return {name: estimate.map(to_numpy) for name, estimate in means.items()}

    def second(self) -> SplitMean:
        """Average M_4 on symmetric matrices."""
        return self.first_pass["moment"]

    def third(self, whitener: Floats) -> SplitMean:
        """Average the whitened M_6."""
        uniform = self.view.problem.uniform
        W = move_like(whitener, self.chain.noise)

        def measure(points: Array, weights: Weights) -> Sums:
            xp = namespace_of(points)
            h = self.window.features(self.chain.images(points), points, None)
            rows, c = h @ W, weights[6]
            sums: Sums = {"cube": cube_sum(rows, c)}
            if not uniform:  # otherwise the first pass has the lower means
                weighted = rows if c is None else rows * c[:, None]
                scaled = points if c is None else points * c[:, None]
                sums["mass"] = xp.sum(xp.ones_like(points[:, 0]) if c is None else c)
                sums["square"] = xp.matrix_transpose(scaled) @ points
                sums["mean"] = xp.sum(weighted, axis=0)
                sums["products"] = xp.matrix_transpose(weighted) @ h
            return sums

        def in_memory(means: Sums) -> Sums:
            return {name: to_numpy(mean) for name, mean in means.items()}

        sums = average(self.view, [6], measure, in_memory, "order 6", self.window.dim)
        groups = []
        for i in range(len(sums["cube"].groups)):
            means = {name: estimate.groups[i] for name, estimate in sums.items()}
            if uniform:
                means |= self._lower_means(whitener, i)
            groups.append(self._assemble(whitener, means))
        return SplitMean(tuple(groups), sums["cube"].counts)

    def _lower_means(self, whitener: Floats, group: int) -> Sums:
        """Compute the lower means from the first pass, if all orders have the same weights."""
        mass, square, gram = (self.first_pass[f"gram{j}"].groups[group] for j in (0, 1, 2))
        h = self.window.coordinates((square - mass * to_numpy(self.window.noise))[None])[0]
        mean, products = h @ whitener, (gram @ whitener).T
        return {"mass": np.sum(mass), "square": square, "mean": mean, "products": products}

    def _assemble(self, whitener: Floats, means: Sums) -> Floats:
        J = np.asarray(to_numpy(self.window.noise))
        A = to_numpy(self.window.matrices(np.ascontiguousarray(whitener.T)))
        # products hold p ⊗ h and h = x xᵀ − J
        pxx = to_numpy(self.window.matrices(means["products"])) + means["mean"][:, None, None] * J
        lower = lower_terms(A, J, pxx, means["square"], means["mean"], means["mass"])
        return symmetrise(fill_cube(means["cube"]) + lower)


def lower_terms(
    A: Floats, J: Floats, pxx: Floats, square: Floats, mean: Floats, mass: Floats | float = 1.0
) -> Floats:
    """Return the whitened sixth moment without E[p ⊗ p ⊗ p]; see QuadraticMomentPair."""
    k, AJ = len(A), A @ J
    H = -12 * pxx + 24 * (J @ A) @ square - 8 * mass * (J @ A) @ J
    AJA = np.einsum("aij,bjk->abik", AJ, A, optimize=True).reshape(k * k, -1)
    T = (AJA @ H.transpose(0, 2, 1).reshape(k, -1).T).reshape(k, k, k)
    traces = AJ.reshape(k, -1) @ AJ.transpose(0, 2, 1).reshape(k, -1).T
    return symmetrise(T + 6 * traces[:, :, None] * mean)


MomentPair: TypeAlias = ChainMomentPair | QuadraticMomentPair | CircuitMomentPair


def moment_pair(view: FramedRows | CircuitRows, r: int, k: int) -> MomentPair:
    """Return the averages for components of order r, after estimating lower subspaces."""
    noise = view.frame.noise
    chain = SymmetricChain(() if r == 1 else (eye_like(view.frame.p, noise),), noise)
    for _ in range(2, r):
        # Below the last order more than k directions are kept: a lost one cannot be recovered.
        window = open_window(chain, OVERSAMPLING * k)
        lower = _average_on(view, chain, window).second()
        width = min(OVERSAMPLING * k, window.dim)
        rows = np.ascontiguousarray(np.linalg.eigh(to_numpy(lower.value))[1][:, ::-1][:, :width].T)
        chain = chain.extend(window.step(move_like(rows, noise)))
    last = open_window(chain, k)
    if isinstance(last, PairWindow) and isinstance(view, FramedRows):
        return QuadraticMomentPair(view, chain, last)
    return _average_on(view, chain, last)


def _average_on(
    view: FramedRows | CircuitRows, chain: SymmetricChain, window: Window
) -> ChainMomentPair | CircuitMomentPair:
    if isinstance(view, CircuitRows):
        return CircuitMomentPair(view, chain, window)
    return ChainMomentPair(view, chain, window)


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Orthogonal components of a symmetric array."""

    vectors: Floats  # (k, k), orthonormal columns u_i
    values: Floats  # (k,), λ_i = T(u_i, u_i, u_i)
    # relative difference between the best and the worst objective of the starts; of the order of
    # rounding if all starts found the same components
    spread: float = 0.0


def decompose(array: Floats, *, seed: int = 0) -> Decomposition:
    """Return the best of several random starts, by the sum of squares of the values."""
    rng = np.random.default_rng(seed)
    k = len(array)
    starts = (np.linalg.qr(rng.normal(size=(k, k)))[0] for _ in range(N_STARTS))
    found = [refine(array, start) for start in starts]
    objectives = [float(np.sum(one.values**2)) for one in found]
    order = np.argsort(objectives, kind="stable")
    best, worst = found[order[-1]], objectives[order[0]]
    spread = 1 - worst / objectives[order[-1]] if objectives[order[-1]] > 0 else 0.0
    return Decomposition(best.vectors, best.values, spread)


def refine(array: Floats, start: Floats, tolerance: float = TOLERANCE) -> Decomposition:
    """Iterate from one orthogonal matrix until convergence."""
    vectors = start
    for _ in range(MAX_ITERATIONS):
        left, _, right = np.linalg.svd(_apply(array, vectors))
        before, vectors = vectors, left @ right
        if float(np.abs(vectors - before).max()) < tolerance:
            break
    return Decomposition(vectors, np.sum(_apply(array, vectors) * vectors, axis=0))


def _apply(array: Floats, vectors: Floats) -> Floats:
    """Return T(·, u_i, u_i) as columns."""
    k = len(array)
    once = (array.reshape(k * k, k) @ vectors).reshape(k, k, k)
    twice: Floats = np.einsum("abi,bi->ai", once, vectors)
    return twice
