"""Checks of a fit: shapes of components, columns, and whether components are too many."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from implicitmoments.arrays import Floats, softmax_rows, to_numpy
from implicitmoments.mixture.expansion import Expansion
from implicitmoments.mixture.gaussians import CovarianceType, Gaussians
from implicitmoments.mixture.view import View
from implicitmoments.notes import Note, Notes
from implicitmoments.rows import Rows
from implicitmoments.rows.draws import Integers, draw_numbers
from implicitmoments.search import SEARCH
from implicitmoments.validation import ROWS_PER_COMPONENT

MOST_PRODUCTS = 1e9  # multiplications for the covariances of all components: a tenth of a second
# Rows from which misclassification rates are known to half a percent, of all and of a component
# to a few.
ROWS_FOR_RATE, ROWS_FOR_RATES = 5_000, 50
ROWS_FOR_WIDTH = 20  # of a component whose width is measured: fewer give no eigenvalue
WIDE = 1.3  # variance ratio from which a component is not spherical; noise alone stays below 1.2
IN_DOUBT = 0.1  # expected misclassification rate from which components overlap
# The same among the rows of one component: equal ones two deviations apart have 0.16, and parts
# of one group with heavy tails or without a peak 0.4 and more.
SHARED = 0.3
FEW_ROWS = 20  # of a component: so few may be in the tail of another by chance
CORRELATED = 1 - 1e-9  # correlation from which two columns are one
PROBED = 20_000  # rows in which columns are compared
FEW_TO_COMPARE = 100  # before: two columns that are not one have no such correlation in as many
ROWS_TO_COMPARE = 2  # any two columns of two rows are linear functions of one another
ALIKE = 1e-3  # of a standard deviation: components that are closer are one by any use
TIED_SPHERICAL = CovarianceType("tied_spherical")


@dataclass(frozen=True, eq=False)
class Within:
    """Spreads about the means, with each row assigned to its most probable component.

    Spreads and widths are of spherical components; NaN for others.
    """

    # (d,), standard deviation about the mean in each column, in the component where it is least:
    # one that contains two groups does not count
    spreads: Floats
    # (k,), largest variance of a component along any direction, in units of its own in the mixture
    # and with columns scaled by their pooled spread, over the largest that spherical noise has
    # with as many rows; NaN for components with few rows
    widths: Floats
    misclassification_rate: float  # expected
    worst_rate: float = 0.0  # the same of rows of one component, where it is highest

    @property
    def overlapping(self) -> bool:
        """Whether components overlap."""
        return self.misclassification_rate > IN_DOUBT or self.worst_rate > SHARED


def look_within(view: View, rows: Rows, mixture: Gaussians, rng: np.random.Generator) -> Within:
    """Measure a sample of the rows about the means, in the user's units."""
    enough = max(ROWS_FOR_RATE, ROWS_FOR_RATES * mixture.k)
    affordable = max(ROWS_FOR_WIDTH * mixture.k, int(MOST_PRODUCTS / mixture.d**2))
    n = min(SEARCH.rows, enough, affordable)
    # in double precision: groups may be far apart
    sample = view.rows(rows.sample(n, rng, width=mixture.k)).hold()
    found = measure_within(sample, view.inside(mixture), view.family.kind)
    return replace(found, spreads=found.spreads * view.scale)


def measure_within(
    sample: Rows, mixture: Gaussians, kind: CovarianceType = TIED_SPHERICAL
) -> Within:
    """Measure the rows of a sample about the means."""
    lifted = kind.lift(sample.block)["x"]
    joint = Expansion.of(mixture, kind, lifted).joint(lifted)
    shares = to_numpy(softmax_rows(mixture.in_law(joint))[0])
    labels, counts = shares.argmax(axis=1), sample.counts
    sums = counts @ shares
    right = np.bincount(labels, counts * shares.max(axis=1), mixture.k)
    rates = 1 - right / np.maximum(sums, np.finfo(float).tiny)
    nowhere = np.full(sample.n_features, np.nan), np.full(mixture.k, np.nan)
    spherical = kind.shape == "spherical"
    spreads, widths = _shapes_within(sample, mixture, labels) if spherical else nowhere
    return Within(spreads, widths, 1 - float(right.sum() / sums.sum()), float(rates.max()))


def _shapes_within(sample: Rows, mixture: Gaussians, labels: Integers) -> tuple[Floats, Floats]:
    """Return the spreads of columns and the widths of components, as in :class:`Within`."""
    points, counts = sample.points.astype(np.float64), sample.counts
    deviations = np.sqrt(mixture.variances.mean(axis=1))
    parts: dict[int, tuple[Floats, Floats]] = {}
    pooled, least = np.zeros(sample.n_features), np.full(sample.n_features, np.inf)
    for i in range(mixture.k):
        own = np.flatnonzero((labels == i) & (counts > 0))
        if len(own) >= ROWS_FOR_WIDTH:
            mass = counts[own]
            apart = points[own] - mass @ points[own] / mass.sum()
            parts[i], squares = (apart / deviations[i], mass), mass @ apart**2
            pooled += squares / deviations[i] ** 2
            least = np.minimum(least, squares / mass.sum())
    pooled = np.sqrt(pooled / max(1, sum(mass.sum() for _, mass in parts.values())))
    varying = pooled > 0
    widths = np.full(mixture.k, np.nan)
    for i, (apart, mass) in parts.items():
        if varying.any():
            widths[i] = _width(apart[:, varying] / pooled[varying], mass)
    spreads = np.sqrt(least) if parts else np.full(sample.n_features, np.nan)
    return spreads, widths


def _width(apart: Floats, mass: Floats) -> float:
    """Return the largest eigenvalue of the covariance over that of white noise.

    The latter is (1 + √(d/n))², the edge of the law of Marchenko and Pastur.
    """
    n, d = apart.shape
    scaled = apart * np.sqrt(mass / mass.sum())[:, None]
    gram = scaled.T @ scaled if d <= n else scaled @ scaled.T
    alike = mass.sum() ** 2 / float(mass @ mass)  # effective number of weighted rows
    return float(np.linalg.eigvalsh(gram)[-1]) / (1 + math.sqrt(d / alike)) ** 2


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of a fit when its notes are written, in the user's units."""

    rows: Rows  # without outliers
    mixture: Gaussians  # in the order of the estimator
    kind: CovarianceType
    columns: list[str]  # their names
    stats: dict[str, Any]  # of the estimator
    within: Within
    most: int | None  # the largest number of components tried, where it was chosen
    better: Note | None  # on a number or shape of components of lower BIC
    n_moves: int | None = None  # where all of them were tried

    @property
    def n(self) -> int | float:
        """Rows that were fitted, with their weights."""
        total = self.rows.total
        return int(total) if total == int(total) else total


def notes_on(fit: Evidence) -> Notes:
    """Return the notes on a fit."""
    notes = Notes()
    if fit.stats["outliers"]:
        notes.append(Note("outliers_dropped", {"n": fit.stats["outliers"]}))
    notes += _notes_on_columns(fit)
    notes += _notes_on_rows(fit)
    notes += _notes_on_copies(fit)
    return Notes([*notes, *_notes_on_number(fit), *_notes_on_start(fit)])


def _notes_on_copies(fit: Evidence) -> Notes:
    """Return a note on components that are the same, unless a better number is known."""
    if fit.better is not None and fit.better.code == "components_are_one":
        return Notes()
    twins = [_twins_of(fit.mixture, i) for i in range(fit.mixture.k)]
    which = [i for i, found in enumerate(twins) if found]
    if not which:
        return Notes()
    fewer = sum(not found or i < min(found) for i, found in enumerate(twins))
    return Notes([Note("components_identical", {"which": which, "fewer": fewer})])


def _twins_of(mixture: Gaussians, i: int) -> list[int]:
    """Return the other components that have the mean and covariance of this one."""
    deviations = np.sqrt(mixture.variances[i])
    near = np.all(np.abs(mixture.means - mixture.means[i]) <= ALIKE * deviations, axis=1)
    near[i] = False
    scale = deviations**2 if mixture.diagonal else np.outer(deviations, deviations)
    apart = np.abs(mixture.covariances[near] - mixture.covariances[i]) / scale
    alike = [bool((each <= ALIKE).all()) for each in apart]
    return [int(j) for j, same in zip(np.flatnonzero(near), alike, strict=True) if same]


def _notes_on_number(fit: Evidence) -> Notes:
    """Return the note on a better number or shape, or on where the search for a number ended.

    At most one, so that no advice contradicts another.
    """
    if fit.better is not None:
        return Notes([fit.better])
    if fit.most is not None and fit.mixture.k >= fit.most:
        return Notes([Note("stopped_at_max_components", {"most": fit.most})])
    if fit.most is not None and fit.within.overlapping:
        return Notes([Note("components_overlap", {"rate": fit.within.misclassification_rate})])
    return Notes()


def _notes_on_start(fit: Evidence) -> Notes:
    """Return notes on a search that may have ended too early, and on what the moments resolve."""
    # one component needs no search, and groups that were fitted apart have no common one
    k, stats = fit.mixture.k, fit.stats
    resolved = k if k == 1 or "groups" in stats else stats.get("resolved", 0)
    smallest = fit.rows.total * float(fit.mixture.weights.min())
    fewest = max(FEW_ROWS, 2 * fit.kind.fewest_rows(fit.mixture.d))
    if fit.better is None and fit.n_moves is not None:
        return Notes([Note("search_exhausted", {"n_moves": fit.n_moves})])
    if resolved >= k or fit.better is not None:
        return Notes()
    # where components overlap, moves that helped show that EM has several optima
    several = fit.within.overlapping and stats["n_moves"] > 0
    if stats["start"] != "moments" and (several or smallest < fewest):
        return Notes([Note("local_optimum")])
    if "resolved" in stats:
        values = {"resolved": resolved, "k": k, "start": stats["start"]}
        return Notes([Note("moments_unresolved", values)])
    return Notes()


def _notes_on_columns(fit: Evidence) -> Notes:
    """Return a note on a column that is a linear function of another."""
    sample = fit.rows.sample(PROBED, 0)
    few, every = draw_numbers(sample.n, FEW_TO_COMPARE, 0), np.arange(sample.n_features)
    # of columns that differ clearly in a few rows, no more rows are compared
    correlations = _correlations(sample, few, fit.mixture, every)
    odd = np.flatnonzero(~(correlations <= CORRELATED).all(axis=1))
    if len(odd) == 0 or fit.rows.kept <= ROWS_TO_COMPARE:
        return Notes()
    correlations = _correlations(sample, np.arange(sample.n), fit.mixture, odd)
    alike = np.argwhere(np.triu(correlations) > CORRELATED)
    if len(alike) == 0:
        return Notes()
    i, j = odd[alike[0]]
    code = "columns_dependent" if fit.kind.shape == "full" else "columns_repeated"
    return Notes([Note(code, {"column": fit.columns[j], "other": fit.columns[i]})])


def _correlations(sample: Rows, places: Integers, mixture: Gaussians, columns: Integers) -> Floats:
    """Return the sizes of the correlations of some columns (p, p) in some rows.

    About the means of the components: far groups lie on a line whatever their columns are. With
    itself a column has none, and NaN with all if it has one value in each component.
    """
    x, counts = sample.points[places].astype(np.float64), sample.counts[places]
    unit = np.abs(x).max(axis=0)
    unit[unit == 0] = 1.0
    x /= unit
    means = mixture.means / unit
    nearest = np.argmin(np.sum(means**2, axis=1) - 2 * x @ means.T, axis=1)
    z = x[:, columns] - means[:, columns][nearest]
    covariance = (z * counts[:, None]).T @ z
    scale = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    scale[scale == 0] = np.nan
    correlations: Floats = np.abs(covariance / np.outer(scale, scale))
    np.fill_diagonal(correlations, np.where(np.isnan(scale), np.nan, 0.0))
    return correlations


def _notes_on_rows(fit: Evidence) -> Notes:
    """Return notes on too few rows for the parameters of a component."""
    kind, d, k, notes = fit.kind, fit.mixture.d, fit.mixture.k, Notes()
    parameters = d + kind.n_numbers(d)
    if fit.n * d < parameters and kind.shape != "spherical":
        values = {"n": fit.n, "parameters": parameters, "kind": kind.name}
        notes.append(Note("covariance_undetermined", values))
    fewest = kind.fewest_rows(d)
    few = np.flatnonzero(fit.n * fit.mixture.weights < fewest).tolist()
    if few and not kind.tied:
        notes.append(Note("components_borrow", {"which": few, "fewest": fewest}))
    elif fit.n < max(fewest, ROWS_PER_COMPONENT) * k:
        notes.append(Note("few_rows_per_component", {"n": fit.n, "k": k}))
    return notes
