"""A density that is a clipped polynomial times a Gaussian: normalised, checked and sampled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from implicitmoments.arrays import Array, Floats, namespace_of, to_numpy
from implicitmoments.density.hermite_expansion import Expansion
from implicitmoments.density.rejection import Accepted, rejection_sample
from implicitmoments.rows import Block, RowDraws, Source, Stream, blocks
from implicitmoments.rows.sampling import counts_of, sample_blocks

__all__ = [
    "ClippedDensity",
    "Probe",
    "Ratios",
    "Reference",
    "choose_clip",
    "evaluate_rows",
    "probe_gaussian",
]

BLOCK_ROWS = 16_384
# rows at which a ratio is looked at: a distance is then known to 0.002, and a clip to a few
# parts in a hundred
RATED = 2**18
REPLICATES = 8  # independent scramblings, whose spread is the standard error
COMPLEMENT = (Stream.ROWS, 2)  # stream of the coordinates off the span


class Reference(Protocol):
    """A Gaussian G on rows, and coordinates that are standard normal under it.

    The ratio of the hypothesis to G depends on the coordinates alone.
    """

    @property
    def p(self) -> int:
        """Number of coordinates."""

    def points(self, block: Block) -> Array:
        """Return the rows (n, d) of a block of columns."""

    def coordinates(self, X: Array) -> Array:
        """Map rows (n, d) to coordinates (n, p), in the library of the rows."""

    def log_density(self, X: Array) -> Array:
        """Return the logarithm of G at rows."""

    def complete(self, coordinates: Floats, rng: RowDraws) -> Floats:
        """Return rows with these coordinates, drawn from G otherwise."""


R = TypeVar("R", bound=Reference)


@dataclass(frozen=True, eq=False)
class Probe:
    """Quasi-random points of the span, with the expansion at them.

    Attributes
    ----------
    ratios : array of shape (n_replicates, n_points)
        The expansion.
    weights : array of shape (n_replicates, n_points)
        Density of G over that of the points: ``mean(weights * f)`` is the mean of f under G.
    """

    ratios: Floats
    weights: Floats

    def mass(self, floor: float, clip: float) -> tuple[float, float]:
        """Return the mean of the clipped ratio under G, and its standard error."""
        means = np.mean(np.clip(self.ratios, floor, clip) * self.weights, axis=1)
        return float(np.mean(means)), float(np.std(means, ddof=1) / math.sqrt(len(means)))

    def distance(self, ratios: Ratios, floor: float, clip: float) -> float:
        """Compare how the expansion is distributed over rows and under the hypothesis.

        The largest difference of the two distribution functions of the expansion. Sets
        {expansion ≤ t} are events, so that up to chance it bounds from below the total variation
        distance of the hypothesis from the truth.
        """
        values = np.ravel(self.ratios)
        mass = np.ravel(np.clip(self.ratios, floor, clip) * self.weights)
        order = np.argsort(values, kind="stable")
        below = np.cumsum(mass[order]) / np.sum(mass)
        rows = np.argsort(ratios.values, kind="stable")
        weight = ratios.counts[rows]
        cumulated = np.concatenate([[0.0], np.cumsum(weight) / np.sum(weight)])
        observed = cumulated[np.searchsorted(ratios.values[rows], values[order], side="right")]
        last = np.append(np.diff(values[order]) > 0, True)  # equal values are one event
        return float(np.max(np.abs(below - observed)[last]))


def probe_gaussian(
    expansion: Expansion, spectrum: Floats, *, seed: int, n_points: int = 2**13
) -> Probe:
    """Evaluate an expansion at scrambled Sobol points of N(0, diag(spectrum)).

    A Gaussian as wide as the rows sees where the mixture is; under G those places are rare.

    Parameters
    ----------
    expansion : Expansion
    spectrum : array of shape (p,)
        Variances of the rows along the coordinates; those below 1 count as 1.
    seed : int
    n_points : int
        Of each replicate; a power of two.
    """
    p = len(spectrum)
    if p == 0:
        return Probe(np.ones((2, 1)), np.ones((2, 1)))
    widths = np.sqrt(np.maximum(spectrum, 1.0))
    ratios, weights = [], []
    for child in np.random.SeedSequence(seed).spawn(REPLICATES):
        rng = np.random.default_rng(child)
        uniform = qmc.Sobol(p, rng=rng).random(n_points)
        standard = ndtri(np.clip(uniform, 1e-12, 1 - 1e-12))
        points = standard * widths
        log_weights = (np.sum(standard**2, axis=1) - np.sum(points**2, axis=1)) / 2
        ratios.append(expansion(points))
        weights.append(np.exp(log_weights) * np.prod(widths))
    return Probe(np.stack(ratios), np.stack(weights))


@dataclass(frozen=True, eq=False)
class Ratios:
    """An expansion at rows: at all of them, or at some where there are many.

    Attributes
    ----------
    values : array of shape (n,)
    counts : array of shape (n,)
        How often each row counts.
    """

    values: Floats
    counts: Floats

    @property
    def negative(self) -> float:
        """The part of the rows at which the expansion is negative."""
        return float(np.average(self.values < 0, weights=self.counts))

    @property
    def evenness(self) -> float:
        """Rows that would tell as much if all counted alike, over rows: at most 1."""
        total = float(np.sum(self.counts))
        return total**2 / float(np.sum(self.counts**2)) / len(self.counts)


def evaluate_rows(expansion: Expansion, span: Reference, source: Source, seed: int) -> Ratios:
    """Evaluate an expansion at rows: quantiles of its values take the values themselves."""
    values, counts = [], []
    for _, block in sample_blocks(source, RATED, seed):
        points = span.points(block)
        counts.append(to_numpy(counts_of(block)).astype(np.float64))
        for rows in blocks(range(int(points.shape[0])), BLOCK_ROWS):
            part = span.coordinates(points[rows.start : rows.stop, :])
            values.append(to_numpy(expansion(part)).astype(np.float64))
    found, weight = np.concatenate(values), np.concatenate(counts)
    there = weight > 0
    if there.all():
        return Ratios(found, weight)
    return Ratios(found[there], weight[there])


def choose_clip(ratios: Ratios, loss: float) -> float:
    r"""Return the least A whose clipping costs at most ``loss`` in total variation.

    The proof of Theorem 4.16 asks that :math:`E_G[(F/G - A)_+]` be small, and takes a polynomial
    in :math:`k/\varepsilon` for A. Over rows of F the same number is :math:`E_F[(1 - A G/F)_+]`,
    which is averaged here; the chance to accept a proposal is 1/A.

    Parameters
    ----------
    ratios : Ratios
        The expansion at the rows.
    loss : float
    """
    order = np.argsort(-ratios.values, kind="stable")
    high = np.maximum(ratios.values[order], np.finfo(np.float64).tiny)
    weight = ratios.counts[order] / np.sum(ratios.counts)
    mass, inverse = np.cumsum(weight), np.cumsum(weight / high)
    # the loss at A = high[j] is mass[j] − A · inverse[j], and grows with j
    j = int(np.searchsorted(mass - high * inverse, loss))
    if j == 0:
        return max(1.0, float(high[0]))
    # between high[j] and high[j − 1] it is mass[j − 1] − A · inverse[j − 1]
    return max(1.0, float((mass[j - 1] - loss) / inverse[j - 1]))


@dataclass(frozen=True, eq=False)
class ClippedDensity(Generic[R]):
    r"""The hypothesis of Theorem 4.16: :math:`H = R' G / Z`, R' the expansion clipped.

    Attributes
    ----------
    span : Reference
        G, and the coordinates that R' depends on.
    expansion : Expansion
    floor, clip : float
        R' lies between them. The paper has a floor of 0.
    mass : float
        Z, the integral of R' G.
    """

    span: R
    expansion: Expansion
    floor: float
    clip: float
    mass: float

    def ratio(self, coordinates: Array) -> Array:
        """Return R' at coordinates (n, p)."""
        found = self.expansion(coordinates)
        return namespace_of(found).clip(found, self.floor, self.clip)

    def log_density(self, X: Array) -> Array:
        """Return the logarithm of the density at rows (n, d); −∞ where R' is 0."""
        xp, found = namespace_of(X), []
        for rows in blocks(range(int(X.shape[0])), BLOCK_ROWS):
            part = X[rows.start : rows.stop, :]
            with np.errstate(divide="ignore"):
                logs = xp.log(self.ratio(self.span.coordinates(part)))
            found.append(logs + self.span.log_density(part) - math.log(self.mass))
        return xp.concat(found)

    def sample(self, n_samples: int, *, seed: int, max_proposals: int) -> Accepted:
        """Draw coordinates by rejection, and the rest of the rows from G."""
        span = self.span
        accepted = rejection_sample(
            lambda rng: rng.normal(span.p),
            self.ratio,
            self.clip,
            n_samples,
            seed=seed,
            max_proposals=max_proposals,
        )
        rng = RowDraws(seed, range(n_samples), COMPLEMENT)
        points = span.complete(accepted.points, rng)
        return Accepted(points, accepted.n_proposals, accepted.acceptance_rate)
