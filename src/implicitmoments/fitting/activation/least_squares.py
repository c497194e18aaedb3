"""Coefficients of compressed features by ridge regression, judged on rows held out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from implicitmoments.backends import Array, Floats, index_like, move_like, namespace_of, to_numpy
from implicitmoments.fitting.activation.polynomial import Features
from implicitmoments.fitting.rows import LabelledRows

__all__ = ["Choice", "FoldSums", "Range", "choose", "solve_ridge", "sum_folds"]

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
    size = len(features) + 1
    products, counts = np.zeros((n_folds, size, size)), np.zeros(n_folds)
    low, high = np.inf, -np.inf
    for folds, block in rows.folds(_width(features), n_folds):
        xp = namespace_of(block.x)
        low, high = min(low, float(xp.min(block.y))), max(high, float(xp.max(block.y)))
        columns = xp.concat([features.evaluate(block.x), block.y[:, None]], axis=1)
        for i in range(n_folds):
            chosen = index_like(np.flatnonzero(folds == i), block.y)
            part = xp.take(columns, chosen, axis=0)
            weights = xp.take(block.counts, chosen, axis=0)
            weighted = part * weights[:, None]
            products[i] += to_numpy(xp.matrix_transpose(weighted) @ part)
            counts[i] += float(xp.sum(weights))
    return FoldSums(products, counts, Range(low, high))


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
    total, mass = np.zeros(len(candidates)), 0.0
    some = rows.about(JUDGING_ROWS)
    for folds, block in some.folds(_width(features) + len(candidates), len(fitted)):
        xp = namespace_of(block.x)
        values = features.evaluate(block.x)
        for i, coefficients in enumerate(fitted):
            chosen = index_like(np.flatnonzero(folds == i), block.y)
            part, y = xp.take(values, chosen, axis=0), xp.take(block.y, chosen, axis=0)
            weights = xp.take(block.counts, chosen, axis=0)
            off = sums.labels.clip(part @ move_like(coefficients, part)) - y[:, None]
            total += to_numpy(weights @ off**2)
            mass += float(xp.sum(weights))
    return total / mass


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
