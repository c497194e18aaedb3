"""Within-component spread: whether components are spherical, and columns alike."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Floats, softmax_rows, to_numpy
from implicitmoments.mixture.likelihood import Mixture, log_joint
from implicitmoments.mixture.sample import Sample, hold_rows
from implicitmoments.rows import Rows

MOST_ROWS = 20_000  # of the sample
MOST_PRODUCTS = 2e9  # multiplications for the covariances of all components: about a second
FEWEST_ROWS = 20  # of a component whose width is measured: fewer give no eigenvalue


@dataclass(frozen=True, eq=False)
class Within:
    """Spreads about the means, with each row assigned to its most probable component."""

    # (d,), standard deviation about the mean in each column, in the component where it is least:
    # one that contains two groups does not count
    spreads: Floats
    # (k,), largest variance of a component along any direction, with columns scaled by their
    # pooled spread, over the largest that spherical noise has with so many rows; NaN for
    # components with few rows
    widths: Floats
    doubt: float  # expected misclassification rate
    n_rows: int


def look_within(rows: Rows, mixture: Mixture, rng: np.random.Generator) -> Within:
    """Measure a sample of the rows about the means, in the unit of the rows."""
    affordable = int(MOST_PRODUCTS / mixture.d**2)
    n = min(MOST_ROWS, max(FEWEST_ROWS * mixture.k, affordable))
    return measure_within(hold_rows(rows.sample(n, rng, width=mixture.k, single=True)), mixture)


def measure_within(sample: Sample, mixture: Mixture) -> Within:
    """Measure the rows of a sample about the means."""
    shares = to_numpy(softmax_rows(log_joint(sample.X, mixture))[0])
    labels, points = shares.argmax(axis=1), sample.points.astype(np.float64)
    counts = sample.weights
    parts: dict[int, tuple[Floats, Floats]] = {}
    pooled, least = np.zeros(sample.n_features), np.full(sample.n_features, np.inf)
    for i in range(mixture.k):
        own = np.flatnonzero((labels == i) & (counts > 0))
        if len(own) >= FEWEST_ROWS:
            mass = counts[own]
            apart = points[own] - mass @ points[own] / mass.sum()
            parts[i], squares = (apart, mass), mass @ apart**2
            pooled, least = pooled + squares, np.minimum(least, squares / mass.sum())
    pooled = np.sqrt(pooled / max(1, sum(mass.sum() for _, mass in parts.values())))
    varying = pooled > 0
    widths = np.full(mixture.k, np.nan)
    for i, (apart, mass) in parts.items():
        if varying.any():
            widths[i] = _width(apart[:, varying] / pooled[varying], mass)
    doubt = 1.0 - float(counts @ shares.max(axis=1) / counts.sum())
    spreads = np.sqrt(least) if parts else np.full(sample.n_features, np.nan)
    return Within(spreads, widths, doubt, sample.n)


def _width(apart: Floats, mass: Floats) -> float:
    """Return the largest eigenvalue of the covariance over that of white noise.

    The latter is (1 + √(d/n))², the edge of the law of Marchenko and Pastur.
    """
    n, d = apart.shape
    scaled = apart * np.sqrt(mass / mass.sum())[:, None]
    gram = scaled.T @ scaled if d <= n else scaled @ scaled.T
    alike = mass.sum() ** 2 / float(mass @ mass)  # effective number of weighted rows
    return float(np.linalg.eigvalsh(gram)[-1]) / (1 + math.sqrt(d / alike)) ** 2
