"""Coefficients of compressed features by ridge regression, chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from implicitmoments.activation.polynomial import Features
from implicitmoments.arrays import Array, Floats, as_double, move_like, namespace_of, to_numpy
from implicitmoments.rows import Block, Rows, Sums, shares_of, weights_of
from implicitmoments.rows.fold import LARGEST

Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

N_FOLDS = 5  # the usual compromise between bias and cost; one pass sums all folds
RIDGES = (1e-8, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # features have variance at most 1
COMPARED_ROWS = 100_000  # on which candidates are compared: errors are then known to 0.5 %


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


@dataclass(frozen=True, eq=False)
class FoldSums:
    """Sums of products of features and labels, fold by fold."""

    products: Floats  # (folds, P + 1, P + 1), the label is last
    counts: Floats  # (folds,)
    labels: Range

    @property
    def whole(self) -> tuple[Floats, float]:
        """Products and weight of all rows."""
        return self.products.sum(axis=0), float(self.counts.sum())

    def without(self, i: int) -> tuple[Floats, float]:
        """Products and weight of all rows but one fold; of all where there is nothing else."""
        products, total = self.whole
        rest = total - self.counts[i]
        return (products - self.products[i], rest) if rest > 0 else (products, total)


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

    def measurements(self) -> dict[str, Any]:
        """Return the chosen model, and the errors compared."""
        return {
            "error_by_degree": {n: float(error) for n, error in self.by_degree.items()},
            "plain_error": None if self.plain_error is None else float(self.plain_error),
            "width": self.width,
            "ridge": self.ridge,
        }


@dataclass(frozen=True, eq=False)
class _Candidate:
    degree: int
    width: int
    ridge: float | None  # None for the plain moments
    used: Flags

    def solve(self, products: Floats, n: float, plain: Floats | None) -> Floats:
        """Return the coefficients that the products of n rows give."""
        coefficients = np.zeros(len(self.used))
        at = np.flatnonzero(self.used)
        if self.ridge is None:
            coefficients[at] = 0.0 if plain is None else plain[at]
            return coefficients
        gram, right = products[np.ix_(at, at)] / n, products[at, -1] / n
        gram[np.diag_indices_from(gram)] += self.ridge
        try:
            coefficients[at] = cho_solve(cho_factor(gram), right)
        except LinAlgError:  # fewer rows than features, and a ridge below rounding
            coefficients[at] = np.linalg.lstsq(gram, right, rcond=None)[0]
        return coefficients


def sum_folds(rows: Rows, features: Features, n_folds: int = N_FOLDS) -> FoldSums:
    """Sum products of features and labels over the rows of every fold, in one pass."""
    measure = partial(_sum_products, features, n_folds)
    sums = rows.fold(measure, width=features.numbers, what="products of features", keyed=True)
    products = np.stack([to_numpy(sums[f"products {i}"]) for i in range(n_folds)])
    counts = np.array([float(sums[f"total {i}"]) for i in range(n_folds)])
    return FoldSums(products, counts, Range.of(sums))


def _sum_products(features: Features, n_folds: int, block: Block) -> Sums:
    x, counts, folds = block["x"], weights_of(block), shares_of(block, n_folds)
    xp = namespace_of(x)
    columns = xp.concat([features.evaluate(x), block["y"][:, None]], axis=1)
    sums = _largest_labels(block)
    for i in range(n_folds):
        (chosen,) = xp.nonzero(folds == i)
        part = xp.take(columns, chosen, axis=0)
        weights = xp.take(counts, chosen, axis=0)
        sums[f"products {i}"] = as_double(xp.matrix_transpose(part * weights[:, None]) @ part)
        sums[f"total {i}"] = xp.sum(as_double(weights))
    return sums


def sum_labels(block: Block) -> Sums:
    """Sum the labels and weights of a block, and find their range."""
    counts = as_double(weights_of(block))
    total = namespace_of(counts).sum(counts)
    return {"sum": as_double(block["y"]) @ counts, "total": total, **_largest_labels(block)}


def _largest_labels(block: Block) -> Sums:
    y = block["y"]
    high, low = (float(namespace_of(y).max(values)) for values in (y, -y))
    return {LARGEST + "label": high, LARGEST + "negative": low}


def solve_ridge(sums: FoldSums, ridge: float) -> Floats:
    """Return the coefficients of all features at a given ridge, from all rows."""
    every = np.ones(sums.products.shape[1] - 1, dtype=bool)
    return _Candidate(0, 0, ridge, every).solve(*sums.whole, None)


def choose_coefficients(
    rows: Rows,
    sums: FoldSums,
    features: Features,
    degrees: Iterable[int],
    widths: Sequence[int],
    plain: Floats | None = None,
) -> Choice:
    """Choose degree, width and ridge, or the plain moments, by cross-validation.

    Coefficients of every candidate come from all folds but one and are evaluated on that one, on
    predictions clipped to the range of the labels: squares of a polynomial's largest values would
    dominate.

    Parameters
    ----------
    rows : Rows
        Those that ``sums`` were taken over; a sample of at most 100,000 of them is used.
    degrees, widths : sequences of int
        Candidates: features of no higher order and no higher rank are used together.
    plain : array of shape (P,), optional
        Coefficients of the plain moments: the choice has no larger held-out error.
    """
    ridged = [(width, ridge) for width in widths for ridge in RIDGES]
    candidates = [
        _Candidate(degree, width, ridge, features.up_to(degree, width))
        for degree in degrees
        for width, ridge in [*ridged, (features.width, None)]
        if ridge is not None or plain is not None
    ]
    errors = _held_out_errors(rows, sums, features, candidates, plain)
    by_degree: dict[int, float] = {}
    for candidate, error in zip(candidates, errors, strict=True):
        by_degree[candidate.degree] = min(error, by_degree.get(candidate.degree, np.inf))
    plains = [e for c, e in zip(candidates, errors, strict=True) if c.ridge is None]
    best = int(np.argmin(errors))
    chosen = candidates[best]
    return Choice(
        chosen.degree,
        chosen.width,
        chosen.ridge,
        chosen.solve(*sums.whole, plain),
        float(errors[best]),
        by_degree,
        min(plains, default=None),
    )


def _held_out_errors(
    rows: Rows,
    sums: FoldSums,
    features: Features,
    candidates: list[_Candidate],
    plain: Floats | None,
) -> Floats:
    """Return the mean squared error of every candidate on rows it was not fitted on."""
    fitted = tuple(
        np.stack([c.solve(*sums.without(i), plain) for c in candidates], axis=1)
        for i in range(len(sums.counts))
    )
    some = rows.sample(COMPARED_ROWS) if rows.n >= 2 * COMPARED_ROWS else rows
    measure = partial(_sum_errors, features, fitted, sums.labels)
    width = features.numbers + len(candidates)
    found = some.fold(measure, width=width, what="held-out error", keyed=True)
    errors: Floats = to_numpy(found["squares"]) / float(found["total"])
    return errors


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
