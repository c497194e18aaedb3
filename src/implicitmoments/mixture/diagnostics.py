"""Checks of a fit: whether components are spherical, columns alike, and components too many."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.arrays import Floats, softmax_rows, to_numpy
from implicitmoments.mixture.family import Mixture, log_joint
from implicitmoments.notes import Note, Notes
from implicitmoments.rows import Rows
from implicitmoments.search import SEARCH

MOST_PRODUCTS = 2e9  # multiplications for the covariances of all components: about a second
ROWS_FOR_WIDTH = 20  # of a component whose width is measured: fewer give no eigenvalue
UNLIKE = 2.0  # ratio of the spreads of two columns from which one variance misleads
WIDE = 1.3  # variance ratio from which a component is not spherical; noise alone stays below 1.2
IN_DOUBT = 0.1  # expected misclassification rate from which components overlap
ROWS_PER_FEATURE = 10  # of a component: fewer do not show that it is spherical
ROWS_PER_COMPONENT = 5  # fewer determine neither weights nor the variance


@dataclass(frozen=True, eq=False)
class Within:
    """Spreads about the means, with each row assigned to its most probable component."""

    # (d,), standard deviation about the mean in each column, in the component where it is least:
    # one that contains two groups does not count
    spreads: Floats
    # (k,), largest variance of a component along any direction, with columns scaled by their
    # pooled spread, over the largest that spherical noise has with as many rows; NaN for
    # components with few rows
    widths: Floats
    misclassification_rate: float  # expected


def look_within(rows: Rows, mixture: Mixture, rng: np.random.Generator) -> Within:
    """Measure a sample of the rows about the means, in the unit of the rows."""
    affordable = int(MOST_PRODUCTS / mixture.d**2)
    n = min(SEARCH.rows, max(ROWS_FOR_WIDTH * mixture.k, affordable))
    return measure_within(rows.sample(n, rng, width=mixture.k, single=True), mixture)


def measure_within(sample: Rows, mixture: Mixture) -> Within:
    """Measure the rows of a sample about the means."""
    shares = to_numpy(softmax_rows(log_joint(sample.block["x"], mixture))[0])
    labels, points = shares.argmax(axis=1), sample.points.astype(np.float64)
    counts = sample.counts
    parts: dict[int, tuple[Floats, Floats]] = {}
    pooled, least = np.zeros(sample.n_features), np.full(sample.n_features, np.inf)
    for i in range(mixture.k):
        own = np.flatnonzero((labels == i) & (counts > 0))
        if len(own) >= ROWS_FOR_WIDTH:
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
    rate = 1.0 - float(counts @ shares.max(axis=1) / counts.sum())
    spreads = np.sqrt(least) if parts else np.full(sample.n_features, np.nan)
    return Within(spreads, widths, rate)


def _width(apart: Floats, mass: Floats) -> float:
    """Return the largest eigenvalue of the covariance over that of white noise.

    The latter is (1 + √(d/n))², the edge of the law of Marchenko and Pastur.
    """
    n, d = apart.shape
    scaled = apart * np.sqrt(mass / mass.sum())[:, None]
    gram = scaled.T @ scaled if d <= n else scaled @ scaled.T
    alike = mass.sum() ** 2 / float(mass @ mass)  # effective number of weighted rows
    return float(np.linalg.eigvalsh(gram)[-1]) / (1 + math.sqrt(d / alike)) ** 2


def notes_on(model: Any, within: Within, fewer: int | None, unit: float, n_rows: float) -> Notes:
    """Return the notes on a fit.

    Parameters
    ----------
    model : SphericalMixture
        With its fitted parameters and ``stats_``.
    fewer : int or None
        A smaller number of components of lower BIC.
    unit : float
        Of the spreads, in the user's units.
    n_rows : float
        Rows that were fitted, with their weights.
    """
    k, stats, notes = int(model.weights_.shape[0]), model.stats_, Notes()
    auto = model.n_components == "auto"
    if stats["outliers"]:
        notes.append(Note("outliers_dropped", {"n": stats["outliers"]}))
    if n_rows < ROWS_PER_COMPONENT * k:
        n = int(n_rows) if n_rows == int(n_rows) else n_rows
        notes.append(Note("few_rows_per_component", {"n": n, "k": k}))
    overlapping = within.misclassification_rate > IN_DOUBT
    shape = _unlike_columns(within.spreads * unit, getattr(model, "feature_names_in_", None))
    widths = np.nan_to_num(within.widths)
    if not overlapping and widths.max() > WIDE:  # pieces of one group may have any shape
        values = {"component": int(widths.argmax()), "ratio": float(widths.max())}
        shape.append(Note("component_not_spherical", values))
    notes += shape
    if auto and k >= model.max_components:
        notes.append(Note("stopped_at_max_components", {"most": model.max_components}))
    elif auto and overlapping:
        notes.append(Note("components_overlap", {"rate": within.misclassification_rate}))
    smallest = n_rows * float(to_numpy(model.weights_).min())
    unproved = overlapping or smallest < ROWS_PER_FEATURE * len(within.spreads)
    # one component needs no moments, and groups that were fitted apart have no common ones
    resolved = k if k == 1 or "groups" in stats else stats.get("resolved", 0)
    if fewer is not None:
        notes.append(Note("bic_prefers_fewer", {"k": k, "fewer": fewer}))
    elif stats["start"] == "kmeans++" and (shape or unproved):
        notes.append(Note("local_optimum"))
    elif stats["start"] == "moments" and resolved < k and unproved:
        notes.append(Note("components_unresolved", {"resolved": resolved, "k": k}))
    return notes


def _unlike_columns(spreads: Floats, names: Any) -> Notes:
    """Compare the spreads of columns about the means."""
    least, most = int(spreads.argmin()), int(spreads.argmax())
    if not spreads[most] > UNLIKE * spreads[least]:
        return Notes()
    called = [f"column {j}" if names is None else str(names[j]) for j in (least, most)]
    values = {"least": called[0], "least_spread": float(spreads[least])}
    values |= {"most": called[1], "most_spread": float(spreads[most])}
    return Notes([Note("columns_differ_in_spread", values)])
