"""Coefficients of compressed features by ridge regression, judged on rows held out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from implicitmoments.activation.polynomial import Features
from implicitmoments.activation.precision import wide
from implicitmoments.arrays import Array, Floats, move_like, namespace_of, to_numpy
from implicitmoments.problems.labelled_rows import LabelledRows, Rows
from implicitmoments.rows import Sums
from implicitmoments.rows.fold import LARGEST

__all__ = [
    "Choice",
    "FoldSums",
    "Range",
    "choose",
    "range_of",
    "seen_labels",
    "solve_ridge",
    "sum_folds",
]

N_FOLDS = 5
RIDGES = (1e-8, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # features have variance at most 1
JUDGING_ROWS = 100_000


@dataclass(frozen=True)
class Range:
    """The labels that were seen: a polynomial far from the rows is not to be trusted.

    Attributes
    ----------
    low, high : float
    """

    low: float
    high: float

    def clip(self, values: Array) -> Array:
        """Move values into the range."""
        xp = namespace_of(values)
        return xp.clip(values, self.low, self.high)


@dataclass(frozen=True, eq=False)
class FoldSums:
    """Sums of products of features and labels, fold by fold.

    Attributes
    ----------
    products : array of shape (folds, P + 1, P + 1)
        The label stands last.
    counts : array of shape (folds,)
    labels : Range
    """

    products: Floats
    counts: Floats
    labels: Range


@dataclass(frozen=True, eq=False)
class Choice:
    """The coefficients that did best on rows held out, fitted on all rows.

    Attributes
    ----------
    degree, width : int
        Of the features that were used.
    ridge : float or None
        None for the plain moments.
    coefficients : array of shape (P,)
        Zero for features that were not used.
    error : float
        Mean squared error on rows held out.
    by_degree : dict of int to float
        The least such error of each degree.
    plain_error : float or None
        The least mean squared error of the plain moments.
    """

    degree: int
    width: int
    ridge: float | None
    coefficients: Floats
    error: float
    by_degree: dict[int, float] = field(default_factory=dict)
    plain_error: float | None = None


@dataclass(frozen=True, eq=False)
class _Candidate:
    degree: int
    width: int
    ridge: float | None
    used: np.ndarray[tuple[int], np.dtype[np.bool_]]


def sum_folds(rows: LabelledRows, features: Features, n_folds: int = N_FOLDS) -> FoldSums:
    """Sum products of features and labels over the rows of every fold, in one pass."""
    measure = _FoldProducts(features, n_folds)
    sums = rows.fold_shares(measure, n_folds, _width(features), "products of features")
    products = np.stack([to_numpy(sums[f"products {i}"]) for i in range(n_folds)])
    counts = np.array([float(sums[f"mass {i}"]) for i in range(n_folds)])
    return FoldSums(products, counts, range_of(sums))


@dataclass(frozen=True, eq=False)
class _FoldProducts:
    features: Features
    n_folds: int

    def __call__(self, folds: Array, rows: Rows) -> Sums:
        xp = namespace_of(rows.x)
        columns = xp.concat([self.features.evaluate(rows.x), rows.y[:, None]], axis=1)
        sums = seen_labels(rows)
        for i in range(self.n_folds):
            (chosen,) = xp.nonzero(folds == i)
            part = xp.take(columns, chosen, axis=0)
            weights = xp.take(rows.counts, chosen, axis=0)
            sums[f"products {i}"] = wide(xp.matrix_transpose(part * weights[:, None]) @ part)
            sums[f"mass {i}"] = xp.sum(wide(weights))
        return sums


def seen_labels(rows: Rows) -> Sums:
    """Return the largest label of rows that count, and the largest of their negatives."""
    xp = namespace_of(rows.y)
    nothing = xp.full_like(rows.y, -np.inf)
    high, low = (xp.max(xp.where(rows.counts > 0, y, nothing)) for y in (rows.y, -rows.y))
    return {LARGEST + "label": float(high), LARGEST + "negative": float(low)}


def range_of(sums: Sums) -> Range:
    """Return the range of the labels from what :func:`seen_labels` gave of all blocks."""
    return Range(-sums[LARGEST + "negative"], sums[LARGEST + "label"])


def solve_ridge(sums: FoldSums, ridge: float) -> Floats:
    """Return the coefficients of all features at a given ridge, from all rows."""
    everything = _Candidate(0, 0, ridge, np.ones(sums.products.shape[1] - 1, dtype=bool))
    return _coefficients(sums.products.sum(axis=0), float(sums.counts.sum()), everything, None)


def choose(
    rows: LabelledRows,
    sums: FoldSums,
    features: Features,
    degrees: Iterable[int],
    widths: Sequence[int],
    plain: Floats | None = None,
) -> Choice:
    """Choose degree, width and ridge, or the plain moments where they do better.

    Coefficients of every candidate come from all folds but one and are judged on that one, on
    predictions within the range of the labels: squares of a polynomial's largest values would
    drown everything else.

    Parameters
    ----------
    rows : LabelledRows
        Those that ``sums`` were taken over; judged on at most 100,000 of them.
    sums : FoldSums
    features : Features
    degrees, widths : sequences of int
        Candidates: features of no higher order and no higher rank are used together.
    plain : array of shape (P,), optional
        Coefficients of the plain moments: what is chosen is never worse on rows held out.
    """
    candidates = [
        _Candidate(degree, width, ridge, _used(features, degree, width))
        for degree in degrees
        for width, ridges in [*((w, RIDGES) for w in widths), (features.width, (None,))]
        for ridge in ridges
        if ridge is not None or plain is not None
    ]
    errors = _judge(rows, sums, features, candidates, plain)
    best = int(np.argmin(errors))
    chosen = candidates[best]
    by_degree: dict[int, float] = {}
    for candidate, error in zip(candidates, errors, strict=True):
        by_degree[candidate.degree] = min(error, by_degree.get(candidate.degree, np.inf))
    plains = [e for c, e in zip(candidates, errors, strict=True) if c.ridge is None]
    return Choice(
        chosen.degree,
        chosen.width,
        chosen.ridge,
        _coefficients(sums.products.sum(axis=0), sums.counts.sum(), chosen, plain),
        float(errors[best]),
        by_degree,
        min(plains, default=None),
    )


def _judge(
    rows: LabelledRows,
    sums: FoldSums,
    features: Features,
    candidates: list[_Candidate],
    plain: Floats | None,
) -> Floats:
    """Return the mean squared error of every candidate on rows it was not fitted on."""
    products, counts = sums.products.sum(axis=0), float(sums.counts.sum())
    fitted = []
    for fold, n in zip(sums.products, sums.counts, strict=True):
        # with all rows in one fold there is nothing to hold out
        left = (products - fold, counts - n) if n < counts else (products, counts)
        columns = [_coefficients(left[0], left[1], c, plain) for c in candidates]
        fitted.append(np.stack(columns, axis=1))
    measure = _HeldOut(features, tuple(fitted), sums.labels)
    width = _width(features) + len(candidates)
    judged = rows.about(JUDGING_ROWS).fold_shares(
        measure, len(fitted), width, "error on rows held out"
    )
    errors: Floats = to_numpy(judged["squares"]) / float(judged["mass"])
    return errors


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """Sums squared errors of candidates (P, candidates), one fold after the other."""

    features: Features
    fitted: tuple[Floats, ...]
    labels: Range

    def __call__(self, folds: Array, rows: Rows) -> Sums:
        xp = namespace_of(rows.x)
        values = self.features.evaluate(rows.x)
        squares: Array = 0.0
        for i, coefficients in enumerate(self.fitted):
            (chosen,) = xp.nonzero(folds == i)
            part, y = xp.take(values, chosen, axis=0), xp.take(rows.y, chosen, axis=0)
            weights = xp.take(rows.counts, chosen, axis=0)
            off = self.labels.clip(part @ move_like(coefficients, part)) - y[:, None]
            squares = squares + wide(weights @ off**2)
        return {"squares": squares, "mass": xp.sum(wide(rows.counts))}


def _coefficients(
    products: Floats, n: float, candidate: _Candidate, plain: Floats | None
) -> Floats:
    coefficients = np.zeros(len(candidate.used))
    at = np.flatnonzero(candidate.used)
    if candidate.ridge is None:
        if plain is not None:
            coefficients[at] = plain[at]
        return coefficients
    gram = products[np.ix_(at, at)] / n
    right = products[at, -1] / n
    gram[np.diag_indices_from(gram)] += candidate.ridge
    try:
        coefficients[at] = cho_solve(cho_factor(gram), right)
    except LinAlgError:  # fewer rows than features, at a ridge that rounding swallows
        coefficients[at] = np.linalg.lstsq(gram, right, rcond=None)[0]
    return coefficients


def _used(
    features: Features, degree: int, width: int
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return (features.orders <= degree) & (features.ranks <= width)


def _width(features: Features) -> int:
    """Numbers made of a row; outer products of images are the widest."""
    return (
        len(features)
        + 1
        + max(features.chain.dim(n) for n in range(features.chain.order + 1)) ** 2
    )
