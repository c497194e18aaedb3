"""Which component a row is of, by the rule of Bayes with known means, weights and variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.special import softmax

from implicitmoments.backends import Floats
from implicitmoments.samples import blocks

__all__ = ["Assignment", "assign", "cluster_moments"]

Labels: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

ASSIGNED = 2**21  # distances held at a time


@dataclass(frozen=True, eq=False)
class Assignment:
    """Labels, and how sure they are.

    Attributes
    ----------
    labels : array of int of shape (n,)
    doubt : array of shape (n,)
        Chance that the row is of another component than its label, if the model is right.
    """

    labels: Labels
    doubt: Floats


def assign(X: Floats, means: Floats, weights: Floats, variance: float) -> Assignment:
    """Send every row (n, d) to the component (k, d) of the largest posterior probability."""
    labels, doubt = np.empty(len(X), dtype=np.int64), np.empty(len(X))
    origin = np.mean(means, axis=0)  # rounding is that of distances, not of coordinates
    moved = means - origin
    offset = np.log(weights) - np.sum(moved**2, axis=1) / (2 * variance)
    for rows in blocks(range(len(X)), max(256, ASSIGNED // (len(means) + X.shape[1]))):
        part = slice(rows.start, rows.stop)
        scores = (X[part] - origin) @ moved.T / variance + offset
        labels[part] = np.argmax(scores, axis=1)
        doubt[part] = 1.0 - np.max(softmax(scores, axis=1), axis=1)
    return Assignment(labels, doubt)


def cluster_moments(
    X: Floats, labels: Labels, k: int, sample_weight: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return the mean (k, d) and the weight (k,) of every cluster; NaN means where it is empty."""
    counts = np.ones(len(X)) if sample_weight is None else sample_weight
    sums, sizes = np.zeros((k, X.shape[1])), np.bincount(labels, counts, k)
    for rows in blocks(range(len(X)), max(256, ASSIGNED // (k + X.shape[1]))):
        part = slice(rows.start, rows.stop)
        members = (labels[part, None] == np.arange(k)) * counts[part, None]
        sums += members.T @ X[part]
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums / sizes[:, None]
    return means, sizes / np.sum(sizes)
