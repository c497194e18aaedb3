"""How many orders of a Hermite expansion to keep: by a tail bound, or by rows left out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import gammainc

from implicitmoments.backends import Floats
from implicitmoments.fitting.clipped_density import choose_clip, evaluate_rows, probe_gaussian
from implicitmoments.fitting.hermite_expansion import expand
from implicitmoments.fitting.spherical_span import find_span

__all__ = ["cross_validated_scores", "degree_for", "truncation_error"]

FOLDS = 3
# ratios below this count as this: one row where a polynomial dips below 0 decides nothing
LEAST_RATIO = 0.01


def truncation_error(squared_radius: float, degree: int) -> float:
    r"""Bound the total variation distance that the orders above a degree make.

    Proof of Theorem 4.16: :math:`\|T_t\|^2 \le R^{2t}/t!`, so that in L2(G) the tail is at most
    :math:`(\sum_{t>n} R^{2t}/t!)^{1/2}`, a tail of the Poisson law; the total variation distance
    is at most half of it.
    """
    tail = math.exp(squared_radius) * float(gammainc(degree + 1, squared_radius))
    return math.sqrt(tail) / 2


def degree_for(squared_radius: float, epsilon: float, most: int) -> int:
    """Return the least even degree that leaves at most half of epsilon, or ``most``."""
    for degree in range(2, most + 1, 2):
        if truncation_error(squared_radius, degree) <= epsilon / 2:
            return degree
    return most


def cross_validated_scores(
    X: Floats,
    k: int,
    variance: float | None,
    degrees: Sequence[int],
    *,
    sample_weight: Floats | None = None,
    loss: float,
    seed: int,
) -> Floats:
    """Return the mean log-likelihood ratio to G of rows left out, one number a degree.

    Parameters
    ----------
    X : array of shape (n, d)
    k : int
    variance : float or None
    degrees : sequence of int
    sample_weight : array of shape (n,), optional
    loss : float
        What clipping may cost, as in :func:`choose_clip`.
    seed : int
        Of the folds.
    """
    counts = np.ones(len(X)) if sample_weight is None else sample_weight
    fold = np.random.default_rng(seed).permutation(len(X)) % FOLDS
    scores, total = np.zeros(len(degrees)), 0.0
    for i in range(FOLDS):
        kept, left = fold != i, fold == i
        weight, held = counts[kept], counts[left]
        if np.sum(held) == 0 or np.sum(weight > 0) <= k:
            continue
        train, test = X[kept], X[left]
        span = find_span(train, k, variance, weight)
        base = -np.sum((test - span.center) ** 2, axis=1) / (2 * span.variance)
        base -= len(span.center) / 2 * math.log(span.variance)
        for j, degree in enumerate(degrees):
            expansion = expand(train, span, k, degree, sample_weight=weight)
            clip = choose_clip(evaluate_rows(expansion, span, train), weight, loss)
            probe = probe_gaussian(expansion, span.spectrum[: span.p], seed=seed, n_points=2**11)
            mass, _ = probe.mass(LEAST_RATIO, clip)
            ratios = np.clip(evaluate_rows(expansion, span, test), LEAST_RATIO, clip)
            scores[j] += float(np.sum(held * (np.log(ratios / mass) + base)))
        total += float(np.sum(held))
    return scores / total if total else scores
