r"""The hypothesis of Theorem 4.7: a polynomial whose Hermite tensors are kept compressed.

Its coefficients are found by ridge regression on compressed features, chosen by cross-validation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from typing import Any, TypeAlias

import array_api_compat
import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from implicitmoments.arrays import (
    Array,
    Floats,
    as_double,
    move_like,
    namespace_of,
    outer_rows,
    pair_rows,
    to_numpy,
)
from implicitmoments.moments.chain import (
    Frame,
    SymmetricChain,
    drop,
    mixed_coefficients,
    split_slot,
)
from implicitmoments.moments.closed_form import BalancedMoments
from implicitmoments.rows import Block, Rows, Sums, shares_of, weights_of
from implicitmoments.rows.fold import LARGEST

Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

N_FOLDS = 5  # the usual compromise between bias and cost; one pass sums all folds
RIDGES = (1e-8, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # features have variance at most 1
COMPARED_ROWS = 20_000  # on which candidates are compared: errors are then known to 1 %


@dataclass(frozen=True, eq=False)
class Polynomial:
    r"""The function :math:`\sum_n \langle T_n, H_n(x) \rangle`."""

    tensors: BalancedMoments  # compressed forms of the :math:`T_n`, by order

    @property
    def degree(self) -> int:
        """Highest order of a tensor."""
        return max((a + b for a, b in self.tensors.forms), default=0)

    def __call__(self, x: Array) -> Array:
        """Evaluate at points (n, d); no randomness."""
        tensors = self.tensors.like(x)
        orders = [a + b for a, b in tensors.forms]
        answers = tensors.hermite(tensors.frame.points(x), orders)
        return sum(answers.values(), namespace_of(x).zeros_like(x[:, 0]))

    def gradient(self, x: Array) -> Array:
        r"""Return the gradient in the coordinates of the frame, (n, p).

        With :math:`\nabla He_n = n\, He_{n-1} \otimes \cdot` the image :math:`p_n` of a row has
        derivative :math:`n\, \phi_n(p_{n-1} \otimes \cdot)`, and each form is bilinear in images.
        """
        tensors = self.tensors.like(x)
        frame, chain = tensors.frame, tensors.chain
        z = frame.points(x)
        images = chain.images(z)
        total = namespace_of(z).zeros_like(z)
        for n, forms in tensors.dropped.items():
            a, b = tensors.by_order[n]
            unit = frame.scale ** (2 * n - 1) / math.sqrt(math.factorial(n))
            for contracted, form in enumerate(forms):
                form = move_like(form, z) * unit  # noqa: PLW2901
                left, right = a - contracted, b - contracted
                total = total + _slope(chain, images, left, images[right] @ form.T)
                total = total + _slope(chain, images, right, images[left] @ form)
        return total


def _slope(chain: SymmetricChain, images: list[Array], n: int, against: Array) -> Array:
    """Return the derivative of ⟨p_n, against⟩ in the coordinates, (rows, p)."""
    xp = namespace_of(against)
    if n == 0:
        return xp.zeros_like(images[1])
    step = split_slot(move_like(chain.steps[n - 1], against), chain.p)  # (k_n, k_{n-1}, p)
    joined = xp.reshape(
        against @ xp.reshape(step, (step.shape[0], -1)), (-1, step.shape[1], chain.p)
    )
    return n * xp.sum(images[n - 1][:, :, None] * joined, axis=1)


@dataclass(frozen=True, eq=False)
class Features:
    r"""Polynomials :math:`\langle Q_f, H_n(x) \rangle` that span the compressed hypotheses.

    :math:`Q_f` is a symmetrised product of the i-th direction of :math:`U_a` and the j-th of
    :math:`U_b`, for each pair with i ≤ j where a = b.
    """

    frame: Frame
    chain: SymmetricChain
    splits: tuple[tuple[int, int], ...]  # pairs (a, b) for the orders a + b of the hypothesis
    width: int  # directions of each subspace that are used

    @cached_property
    def pairs(self) -> list[tuple[int, int, int, int]]:
        """(a, b, i, j) of every feature."""
        return [
            (a, b, i, j)
            for a, b in self.splits
            for i in range(min(self.width, self.chain.dim(a)))
            for j in range(min(self.width, self.chain.dim(b)))
            if a != b or i <= j
        ]

    def up_to(self, degree: int, width: int) -> Flags:
        """Return which features have no higher order, and use no more directions."""
        return np.array([a + b <= degree and max(i, j) < width for a, b, i, j in self.pairs])

    @property
    def numbers(self) -> int:
        """Numbers made per row; outer products of images are the widest."""
        widest = max(self.chain.dim(n) for n in range(self.chain.order + 1))
        return len(self) + 1 + widest**2

    def __len__(self) -> int:
        return len(self.pairs)

    def evaluate(self, x: Array) -> Array:
        """Return the features of points (n, d), as (n, len(self))."""
        z = self.frame.points(x)
        xp = namespace_of(z)
        images = self.chain.images(z)
        shape = (z.shape[0], len(self))
        found = xp.zeros(shape, dtype=z.dtype, device=array_api_compat.device(z))
        for (left, right), (columns, matrix) in self._maps.items():
            same, a, b = left == right, images[left], images[right]
            parts = (pair_rows(a) if same else outer_rows(a, b)) @ move_like(matrix, z)
            for start, (first, last) in columns.items():
                found[:, first:last] += parts[:, start : start + last - first]
        return found

    def forms(self, coefficients: Floats) -> Mapping[tuple[int, int], Array]:
        """Return the nonzero compressed tensors of a linear combination of features."""
        forms = {split: np.zeros(tuple(map(self.chain.dim, split))) for split in self.splits}
        for (a, b, i, j), value in zip(self.pairs, coefficients, strict=True):
            forms[a, b] += value * self._unit(a, b, i, j)
        return {
            (a, b): move_like(form / self.frame.scale ** (a + b), self.chain.noise)
            for (a, b), form in forms.items()
            if form.any()
        }

    def polynomial(self, coefficients: Floats) -> Polynomial:
        """Return a linear combination of features as a hypothesis."""
        return Polynomial(BalancedMoments(self.frame, self.chain, self.forms(coefficients)))

    def coefficients(self, forms: Mapping[tuple[int, int], Array]) -> Floats:
        """Return the combination closest to compressed tensors: the adjoint of :meth:`forms`."""
        scaled = {
            split: to_numpy(form) * self.frame.scale ** sum(split) for split, form in forms.items()
        }
        return np.array(
            [
                float(np.sum(scaled[a, b] * self._unit(a, b, i, j))) if (a, b) in scaled else 0.0
                for a, b, i, j in self.pairs
            ]
        )

    def _unit(self, a: int, b: int, i: int, j: int) -> Floats:
        """Return the form of one feature, of norm 1."""
        form = np.zeros((self.chain.dim(a), self.chain.dim(b)))
        form[i, j] = 1.0
        return (form + form.T) / np.linalg.norm(form + form.T) if a == b else form

    @cached_property
    def _maps(self) -> dict[tuple[int, int], tuple[dict[int, tuple[int, int]], Floats]]:
        """Matrices from outer products of two images to the features of all orders they are in.

        By the orders of the two images; beside each, which columns (first, last) of the features
        its columns from a start on are added to. An outer product is made once.
        """
        orders = [pair[:2] for pair in self.pairs]
        found: dict[tuple[int, int], list[tuple[tuple[int, int], Floats]]] = {}
        for a, b in dict.fromkeys(orders):
            first = orders.index((a, b))
            for contracted, matrix in enumerate(self._contracted(a, b)):
                own = (first, first + matrix.shape[1]), matrix
                found.setdefault((a - contracted, b - contracted), []).append(own)
        maps = {}
        for images, parts in found.items():
            starts = np.cumsum([0, *(matrix.shape[1] for _, matrix in parts)]).tolist()
            places = dict(zip(starts, (columns for columns, _ in parts), strict=False))
            maps[images] = places, np.hstack([matrix for _, matrix in parts])
        return maps

    def _contracted(self, a: int, b: int) -> list[Floats]:
        """Return matrices from outer products to the features of an order, by contractions."""
        steps = [to_numpy(step) for step in self.chain.steps]
        noise, maps = to_numpy(self.chain.noise), []
        unit = self.frame.scale ** (a + b) / math.sqrt(math.factorial(a + b))
        forms = [self._unit(*pair) for pair in self.pairs if pair[:2] == (a, b)]
        for contracted, factor in enumerate(mixed_coefficients(a, b)):
            if contracted:
                left, right = steps[a - contracted], steps[b - contracted]
                forms = [to_numpy(drop(form, left, right, noise)) for form in forms]
            matrix = unit * factor * np.array([form.ravel() for form in forms]).T
            if a == b:  # rows (j, i) of a map from outer products join the rows (i, j), i < j
                k = math.isqrt(len(matrix))
                square, (i, j) = matrix.reshape(k, k, -1), np.triu_indices(k)
                matrix = square[i, j] + np.where((i < j)[:, None], square[j, i], 0.0)
            maps.append(matrix)
        return maps


@dataclass(frozen=True)
class Range:
    """The range of the labels: a polynomial is unreliable far from the rows."""

    low: float
    high: float

    @classmethod
    def of(cls, sums: Sums) -> Range:
        """Return the range from the sums of :func:`sum_labels` over all blocks."""
        return cls(-sums[LARGEST + "negative"], sums[LARGEST + "label"])

    def clip(self, values: Array) -> Array:
        """Move values into the range."""
        return namespace_of(values).clip(values, self.low, self.high)


def sum_labels(block: Block) -> Sums:
    """Sum the labels and weights of a block, and find the range of the labels."""
    y, counts = block["y"], as_double(weights_of(block))
    xp = namespace_of(y)
    return {
        "sum": as_double(y) @ counts,
        "total": xp.sum(counts),
        LARGEST + "label": float(xp.max(y)),
        LARGEST + "negative": float(xp.max(-y)),
    }


@dataclass(frozen=True, eq=False)
class FoldSums:
    """Sums of products of features and labels, fold by fold."""

    products: Floats  # (folds, P + 1, P + 1), the label is last
    counts: Floats  # (folds,)
    labels: Range

    def without(self, i: int | None) -> tuple[Floats, float]:
        """Return products and weight of all rows but one fold, or of all if no other has rows."""
        products, total = self.products.sum(axis=0), float(self.counts.sum())
        if i is None or total <= self.counts[i]:
            return products, total
        return products - self.products[i], total - self.counts[i]


def sum_folds(rows: Rows, features: Features, n_folds: int = N_FOLDS) -> FoldSums:
    """Sum products of features and labels over the rows of every fold, in one pass."""
    measure = partial(_sum_products, features, n_folds)
    sums = rows.fold(measure, width=features.numbers, what="products of features", keyed=True)
    products = np.stack([to_numpy(sums[f"products {i}"]) for i in range(n_folds)])
    counts = np.array([float(sums[f"total {i}"]) for i in range(n_folds)])
    return FoldSums(products, counts, Range.of(sums))


def _sum_products(features: Features, n_folds: int, block: Block) -> Sums:
    x, counts, folds = block["x"], weights_of(block), shares_of(block, n_folds)
    xp, sums = namespace_of(x), sum_labels(block)
    columns = xp.concat([features.evaluate(x), block["y"][:, None]], axis=1)
    for i in range(n_folds):
        (chosen,) = xp.nonzero(folds == i)
        part = xp.take(columns, chosen, axis=0)
        weights = xp.take(counts, chosen, axis=0)
        sums[f"products {i}"] = as_double(xp.matrix_transpose(part * weights[:, None]) @ part)
        sums[f"total {i}"] = xp.sum(as_double(weights))
    return sums


def solve_ridge(products: Floats, n: float, ridge: float, used: Flags | None = None) -> Floats:
    """Return the coefficients that the products of n rows give, zero for features not used."""
    coefficients = np.zeros(len(products) - 1)
    at = np.arange(len(coefficients)) if used is None else np.flatnonzero(used)
    gram, right = products[np.ix_(at, at)] / n, products[at, -1] / n
    gram[np.diag_indices_from(gram)] += ridge
    try:
        coefficients[at] = cho_solve(cho_factor(gram), right)
    except LinAlgError:  # fewer rows than features, and a ridge below rounding
        coefficients[at] = np.linalg.lstsq(gram, right, rcond=None)[0]
    return coefficients


@dataclass(frozen=True, eq=False)
class Choice:
    """The coefficients with the smallest held-out error, fitted on all rows."""

    degree: int  # of the features that were used
    width: int
    ridge: float | None  # none for the plain moments
    coefficients: Floats  # (P,), zero for features that were not used
    error: float  # held-out mean squared error
    # the smallest such error of each degree
    by_degree: dict[int, float] = field(default_factory=dict)
    # the smallest held-out mean squared error of the plain moments
    plain_error: float | None = None


def choose_coefficients(
    rows: Rows,
    features: Features,
    degrees: Sequence[int],
    widths: Sequence[int],
    plain: Floats,
) -> tuple[Choice, Range]:
    """Choose degree, width and ridge, or the plain moments, by cross-validation.

    Coefficients of every candidate come from all folds but one and are evaluated on that one, on
    predictions clipped to the range of the labels: squares of a polynomial's largest values would
    dominate.

    Parameters
    ----------
    degrees, widths : sequences of int
        Candidates: features of no higher order and no higher rank are used together.
    plain : array of shape (P,)
        Coefficients of the plain moments: the choice has no larger held-out error.
    """
    sums = sum_folds(rows, features)
    ways = [*product(widths, RIDGES), (features.width, None)]
    tried = [(degree, *way, features.up_to(degree, way[0])) for degree in degrees for way in ways]

    def solve(left_out: int | None, chosen: Sequence[int]) -> Floats:
        """Return the coefficients of candidates, (P, candidates), from all folds but one."""
        products, n = sums.without(left_out)
        columns = [
            np.where(used, plain, 0.0) if ridge is None else solve_ridge(products, n, ridge, used)
            for _, _, ridge, used in (tried[at] for at in chosen)
        ]
        return np.stack(columns, axis=1)

    fitted = tuple(solve(i, range(len(tried))) for i in range(N_FOLDS))
    some = rows.sample(COMPARED_ROWS) if rows.n >= 2 * COMPARED_ROWS else rows
    measure = partial(_sum_errors, features, fitted, sums.labels)
    width = features.numbers + len(tried)
    found = some.fold(measure, width=width, what="held-out error", keyed=True)
    errors: Floats = to_numpy(found["squares"]) / float(found["total"])
    by_degree = {n: float(errors[[degree == n for degree, *_ in tried]].min()) for n in degrees}
    plain_error = float(errors[[ridge is None for _, _, ridge, _ in tried]].min())
    best = int(np.argmin(errors))
    coefficients, error = solve(None, [best])[:, 0], float(errors[best])
    choice = Choice(*tried[best][:3], coefficients, error, by_degree, plain_error)
    return choice, sums.labels


def _sum_errors(
    features: Features, fitted: tuple[Floats, ...], labels: Range, block: Block
) -> Sums:
    """Sum squared errors of candidates (P, candidates), fold by fold."""
    x, counts, folds = block["x"], weights_of(block), shares_of(block, len(fitted))
    xp, values = namespace_of(x), features.evaluate(x)
    squares: Any = 0.0
    for i, coefficients in enumerate(fitted):
        (chosen,) = xp.nonzero(folds == i)
        part, y = xp.take(values, chosen, axis=0), xp.take(block["y"], chosen, axis=0)
        off = labels.clip(part @ move_like(coefficients, part)) - y[:, None]
        squares = squares + as_double(xp.take(counts, chosen, axis=0) @ off**2)
    return {"squares": squares, "total": xp.sum(as_double(counts))}
