"""EM started at the truth, and how many of the true components were found.

Implemented in NumPy, so that a change of the library does not change the reference.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp

from freezing.kinds import Floats

N_ITER = 300
TOLERANCE = 1e-8  # of the mean log-likelihood


def n_close(found: Floats, true: Floats, close: float = 0.5) -> int:
    """Count true vectors whose partner in the best matching is within ``close``."""
    apart = np.linalg.norm(found[:, None] - true[None], axis=2)
    rows, columns = linear_sum_assignment(apart)
    return int(np.sum(apart[rows, columns] < close))


def mixture_from_truth(
    X: Floats, weights: Floats, means: Floats, *, separate: bool = False, variance: float = 0.0
) -> float:
    """Run EM from a true spherical mixture with unit variances; return the log-likelihood.

    ``separate``: a variance for each component. ``variance``: that of all of them, where it is
    known and stays.
    """
    n, d = X.shape
    variances = np.full(len(weights), variance or 1.0)
    squares = np.sum(X**2, axis=1)

    def log_joint() -> Floats:
        apart = squares[:, None] - 2 * X @ means.T + np.sum(means**2, axis=1)
        joint: Floats = -0.5 * (d * np.log(2 * np.pi * variances) + apart / variances)
        return np.log(weights) + joint

    def m_step(shares: Floats, mass: Floats) -> None:
        nonlocal weights, means, variances
        weights, means = mass / n, (shares.T @ X) / mass[:, None]
        if not variance:
            left = shares.T @ squares - mass * np.sum(means**2, axis=1)
            variances = left / mass / d if separate else np.full(len(mass), left.sum() / n / d)

    return _run_em(log_joint, m_step)


def regression_from_truth(
    X: Floats,
    y: Floats,
    weights: Floats,
    vectors: Floats,
    noise: float,
    *,
    separate: bool = False,
    intercept: bool = True,
) -> float:
    """Run EM from true lines through the origin; return the log-likelihood of y given X."""
    n, k = len(y), len(weights)
    A = np.column_stack([np.ones(n), X]) if intercept else X
    coef = np.column_stack([np.zeros(k), vectors]) if intercept else vectors
    variances = np.full(k, noise**2)

    def log_joint() -> Floats:
        apart = (y[:, None] - A @ coef.T) ** 2
        joint: Floats = -0.5 * (np.log(2 * np.pi * variances) + apart / variances)
        return np.log(weights) + joint

    def m_step(shares: Floats, mass: Floats) -> None:
        nonlocal weights, coef, variances
        weights = mass / n
        coef = np.stack([np.linalg.solve((A.T * s) @ A, A.T @ (s * y)) for s in shares.T])
        left = np.sum(shares * (y[:, None] - A @ coef.T) ** 2, axis=0)
        variances = left / mass if separate else np.full(k, left.sum() / n)

    return _run_em(log_joint, m_step)


def _run_em(log_joint: Callable[[], Floats], m_step: Callable[[Floats, Floats], None]) -> float:
    """Take steps of EM until the log-likelihood hardly grows; return it.

    ``log_joint()`` has a column per component; ``m_step`` gets shares and their sums.
    """
    before = total = -np.inf
    for _ in range(N_ITER):
        joint = log_joint()
        logs = logsumexp(joint, axis=1)
        total = float(logs.sum())
        if total - before < TOLERANCE * len(joint):
            break
        before = total
        shares = np.exp(joint - logs[:, None])
        m_step(shares, shares.sum(axis=0))
    return total


def mixture_logs(X: Floats, weights: Floats, means: Floats) -> Floats:
    """Return the log density of a spherical mixture with unit variance."""
    apart = np.sum((X[:, None] - means[None]) ** 2, axis=2)
    constant = 0.5 * X.shape[1] * np.log(2 * np.pi)
    logs: Floats = logsumexp(np.log(weights) - 0.5 * apart, axis=1) - constant
    return logs


def regression_logs(
    X: Floats, y: Floats, weights: Floats, vectors: Floats, noise: float
) -> Floats:
    """Return the log density of (x, y) for standard Gaussian x."""
    apart = ((y[:, None] - X @ vectors.T) / noise) ** 2
    constant = 0.5 * (X.shape[1] + 1) * np.log(2 * np.pi) + np.log(noise)
    among: Floats = logsumexp(np.log(weights) - 0.5 * apart, axis=1)
    logs: Floats = among - 0.5 * np.sum(X**2, axis=1) - constant
    return logs


def total_variation(log_hypothesis: Floats, log_truth: Floats) -> float:
    """Return the total variation distance, at rows of the truth."""
    return float(np.mean(np.maximum(0.0, 1.0 - np.exp(log_hypothesis - log_truth))))
