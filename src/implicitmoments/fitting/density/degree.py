"""How many orders of a Hermite expansion to keep: by a tail bound, or by rows left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from scipy.special import gammainc

from implicitmoments.backends import Floats
from implicitmoments.fitting.density.clipped_density import (
    Reference,
    choose_clip,
    evaluate_rows,
    probe_gaussian,
)
from implicitmoments.fitting.density.hermite_expansion import Expansion, expand
from implicitmoments.fitting.spherical.span import find_span

__all__ = [
    "Mask",
    "Scorer",
    "cross_validated_scores",
    "degree_for",
    "held_out_scores",
    "least_degree",
    "score_rows",
    "truncation_error",
]

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
# ``scorer(degree)`` returns the log-likelihoods of rows left out
Scorer: TypeAlias = Callable[[int], Floats]

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


def least_degree(bound: Callable[[int], float], epsilon: float, most: int) -> int:
    """Return the least even degree whose bound is at most half of epsilon, or ``most``."""
    for degree in range(2, most + 1, 2):
        if bound(degree) <= epsilon / 2:
            return degree
    return most


def degree_for(squared_radius: float, epsilon: float, most: int) -> int:
    """Return the least even degree that leaves at most half of epsilon, or ``most``."""
    return least_degree(lambda degree: truncation_error(squared_radius, degree), epsilon, most)


def held_out_scores(
    fit: Callable[[Mask, Mask], Scorer],
    counts: Floats,
    degrees: Sequence[int],
    *,
    fewest: int,
    seed: int,
) -> Floats:
    """Return the mean log-likelihood of rows left out, one number a degree.

    Parameters
    ----------
    fit : callable
        ``fit(kept, left)`` learns from some rows what all degrees share, and returns a function
        of the degree that gives the log-likelihoods of the rows left out.
    counts : array of shape (n,)
        How often each row counts.
    degrees : sequence of int
    fewest : int
        Folds with fewer rows to learn from are passed over.
    seed : int
        Of the folds.
    """
    fold = np.random.default_rng(seed).permutation(len(counts)) % FOLDS
    scores, total = np.zeros(len(degrees)), 0.0
    for i in range(FOLDS):
        kept, left = fold != i, fold == i
        held = counts[left]
        if np.sum(held) == 0 or np.sum(counts[kept] > 0) < fewest:
            continue
        scorer = fit(kept, left)
        scores += [float(held @ scorer(degree)) for degree in degrees]
        total += float(np.sum(held))
    return scores / total if total else scores


def score_rows(
    expansion: Expansion,
    reference: Reference,
    spectrum: Floats,
    train: Floats,
    test: Floats,
    *,
    sample_weight: Floats,
    loss: float,
    seed: int,
) -> Floats:
    """Clip and normalise an expansion on some rows, and return log-likelihoods of others.

    Parameters
    ----------
    expansion : Expansion
    reference : Reference
    spectrum : array of shape (p,)
        Variances of the rows along the coordinates.
    train, test : array of shape (n, d) and (m, d)
    sample_weight : array of shape (n,)
    loss : float
        What clipping may cost, as in :func:`choose_clip`.
    seed : int
    """
    clip = choose_clip(evaluate_rows(expansion, reference, train), sample_weight, loss)
    probe = probe_gaussian(expansion, spectrum, seed=seed, n_points=2**11)
    mass, _ = probe.mass(LEAST_RATIO, clip)
    ratios = np.clip(evaluate_rows(expansion, reference, test), LEAST_RATIO, clip)
    logs: Floats = np.log(ratios / mass) + reference.log_density(test)
    return logs


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
    """Return the mean log-likelihood of rows left out, one number a degree.

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

    def fit(kept: Mask, left: Mask) -> Scorer:
        train, test, weight = X[kept], X[left], counts[kept]
        span = find_span(train, k, variance, weight)
        spectrum = span.spectrum[: span.p]
        options: dict[str, Any] = {"sample_weight": weight, "loss": loss, "seed": seed}

        def scorer(degree: int) -> Floats:
            expansion = expand(train, span, k, degree, sample_weight=weight)
            return score_rows(expansion, span, spectrum, train, test, **options)

        return scorer

    return held_out_scores(fit, counts, degrees, fewest=k + 1, seed=seed)
