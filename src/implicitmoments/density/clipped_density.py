"""A density that is a clipped polynomial times a Gaussian: normalised, checked and sampled."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from implicitmoments.arrays import Array, Floats, namespace_of, to_numpy
from implicitmoments.density.hermite_expansion import Expansion
from implicitmoments.notes import InputError
from implicitmoments.rows import Block, DrawPurpose, RowDraws, Rows, weights_of

BATCH = (2_048, 65_536)  # proposals per batch: vectorised, and limited in memory
PROPOSALS = (DrawPurpose.ROWS, 1)  # random stream
ROUNDING = 1e-9  # relative: ratios may exceed the bound by rounding only
# Rows at which the ratio is evaluated: a distance is then known to 0.002, a clip to a few percent.
RATED = 2**18
REPLICATES = 8  # independent scramblings, whose spread is the standard error
PROBED, ROUGHLY_PROBED = 2**13, 2**11  # points per replicate; powers of 2, for Sobol sequences
COMPLEMENT = (DrawPurpose.ROWS, 2)  # random stream of the coordinates off the span


@dataclass(frozen=True, eq=False)
class Accepted:
    """Draws, and the number of proposals they took."""

    points: Floats  # (n_samples, width)
    n_proposals: int  # up to the last accepted one

    @property
    def acceptance_rate(self) -> float:
        """The proportion of the proposals that were accepted."""
        return len(self.points) / max(self.n_proposals, 1)


def rejection_sample(
    propose: Callable[[RowDraws], Floats],
    ratio: Callable[[Floats], Floats],
    bound: float,
    n_samples: int,
    *,
    seed: int,
    max_proposals: int,
    batch: tuple[int, int] = BATCH,
) -> Accepted:
    r"""Draw from the density proportional to ``ratio`` times the density of proposals.

    End of the proof of Theorem 4.16: x is proposed and accepted with probability ratio(x) / bound.
    Random numbers are keyed by the number of the proposal, so draws do not depend on the size of
    batches, and fewer draws are the beginning of more.

    Parameters
    ----------
    propose : callable
        ``propose(rng)`` returns one row per proposal, (len(rng.rows), width).
    ratio : callable
        Ratios of proposals, from 0 to ``bound``.
    max_proposals : int
        An error is raised if more are needed.
    batch : tuple of int
        The fewest and the most proposals made at a time.

    Returns
    -------
    Accepted
        With exactly ``n_samples`` points.
    """
    kept: list[Floats] = []
    accepted, made = 0, 0
    while True:
        rate = (accepted + 1) / (made + 1) if made else 1.0
        wanted = int(1.1 * (n_samples - accepted) / rate)
        size = min(max(wanted, batch[0]), batch[1], max_proposals - made)
        rng = RowDraws(seed, range(made, made + size), PROPOSALS)
        points = propose(rng)
        values = ratio(points)
        if not np.all((values >= 0) & (values <= bound * (1 + ROUNDING))):
            raise InputError(
                "ratio_out_of_bounds",
                "ratios must be between 0 and the bound {bound:.6g}, got values from {least:.6g} "
                "to {most:.6g}",
                **{"bound": bound, "least": float(min(values)), "most": float(max(values))},
            )
        (chosen,) = np.nonzero(rng.uniform() * bound < values)
        chosen = chosen[: n_samples - accepted]
        kept.append(points[chosen])
        accepted += len(chosen)
        if accepted == n_samples:
            made += int(chosen[-1]) + 1 if len(chosen) else 0
            return Accepted(np.concatenate(kept), made)
        made += size
        if made >= max_proposals:
            raise InputError(
                "too_few_accepted",
                "{accepted} of {n} draws were accepted among `max_proposals={max_proposals}` (a "
                "rate of {rate:.2g}); ask for fewer draws, increase `max_proposals`, or set a "
                "smaller `clip` at the cost of a larger error",
                **{"accepted": accepted, "n": n_samples, "rate": accepted / made},
                max_proposals=max_proposals,
            )


class Reference(Protocol):
    """A Gaussian G on rows, and coordinates that are standard normal under it.

    The ratio of the hypothesis to G depends on the coordinates alone.
    """

    @property
    def p(self) -> int:
        """Number of coordinates."""

    @property
    def variances(self) -> Floats:
        """Variances of the rows along the coordinates, (p,)."""

    def points(self, block: Block) -> Array:
        """Return the rows (n, d) of a block of columns."""

    def coordinates(self, X: Array) -> Array:
        """Map rows (n, d) to coordinates (n, p), in the library of the rows."""

    def log_density(self, X: Array) -> Array:
        """Return the logarithm of G at rows."""

    def complete(self, coordinates: Floats, rng: RowDraws) -> Floats:
        """Return rows with these coordinates, drawn from G otherwise."""


@dataclass(frozen=True, eq=False)
class ClippedDensity:
    r"""The hypothesis of Theorem 4.16: :math:`H = R' G / Z`, R' the expansion clipped."""

    span: Reference  # G, and the coordinates that R' depends on
    expansion: Expansion
    floor: float  # bounds of R'; the paper has a floor of 0
    clip: float
    mass: float  # Z, the integral of R' G

    def ratio(self, coordinates: Array) -> Array:
        """Return R' at coordinates (n, p)."""
        found = self.expansion(coordinates)
        return namespace_of(found).clip(found, self.floor, self.clip)

    def log_density(self, X: Array) -> Array:
        """Return the logarithm of the density at rows (n, d); −∞ where R' is 0."""
        with np.errstate(divide="ignore"):
            logs = namespace_of(X).log(self.ratio(self.span.coordinates(X)))
        return logs + self.span.log_density(X) - math.log(self.mass)

    def sample(self, n_samples: int, *, seed: int, max_proposals: int) -> Accepted:
        """Draw coordinates by rejection, and the rest of the rows from G."""
        accepted = rejection_sample(
            lambda rng: rng.normal(self.span.p),
            lambda coordinates: to_numpy(self.ratio(coordinates)),
            self.clip,
            n_samples,
            seed=seed,
            max_proposals=max_proposals,
        )
        rng = RowDraws(seed, range(n_samples), COMPLEMENT)
        return replace(accepted, points=self.span.complete(accepted.points, rng))


@dataclass(frozen=True, eq=False)
class Ratios:
    """An expansion at rows: at all of them, or at a sample."""

    values: Floats  # (n,)
    counts: Floats  # (n,), weights of the rows

    @property
    def negative(self) -> float:
        """The proportion of the rows at which the expansion is negative."""
        return float(np.average(self.values < 0, weights=self.counts))

    @property
    def evenness(self) -> float:
        """Effective number of rows of equal weight, over the number of rows: at most 1."""
        total = float(np.sum(self.counts))
        return total**2 / float(np.sum(self.counts**2)) / len(self.counts)


def evaluate_rows(
    expansion: Expansion, reference: Reference, rows: Rows, seed: int, most: int = RATED
) -> Ratios:
    """Evaluate an expansion at all rows, or at a random sample of ``most``."""
    values, counts = [], []
    for block in rows.sample(most, seed).blocks(reference.p):
        coordinates = reference.coordinates(reference.points(block))
        values.append(to_numpy(expansion(coordinates)).astype(np.float64))
        counts.append(to_numpy(weights_of(block)).astype(np.float64))
    return Ratios(np.concatenate(values), np.concatenate(counts))


def choose_clip(ratios: Ratios, loss: float) -> float:
    r"""Return the smallest A whose clipping costs at most ``loss`` in total variation.

    The proof of Theorem 4.16 needs :math:`E_G[(F/G - A)_+]` to be small, and takes a polynomial
    in :math:`k/\varepsilon` for A. Over rows of F the same number is :math:`E_F[(1 - A G/F)_+]`,
    which is averaged here. Proposals are accepted with probability 1/A.
    """
    order = np.argsort(-ratios.values, kind="stable")
    high = np.maximum(ratios.values[order], np.finfo(np.float64).tiny)
    weight = ratios.counts[order] / np.sum(ratios.counts)
    mass, inverse = np.cumsum(weight), np.cumsum(weight / high)
    # the loss at A = high[j] is mass[j] − A · inverse[j], and increases with j
    j = int(np.searchsorted(mass - high * inverse, loss))
    if j == 0:
        return max(1.0, float(high[0]))
    # between high[j] and high[j − 1] it is mass[j − 1] − A · inverse[j − 1]
    return max(1.0, float((mass[j - 1] - loss) / inverse[j - 1]))


@dataclass(frozen=True, eq=False)
class Probe:
    """Quasi-random points of the span, with the expansion at them."""

    ratios: Floats  # (n_replicates, n_points), the expansion
    # (n_replicates, n_points), density of G over that of the points: ``mean(weights * f)`` is the
    # mean of f under G
    weights: Floats

    def mass(self, floor: float, clip: float) -> tuple[float, float]:
        """Return the mean of the clipped ratio under G, and its standard error."""
        means = np.mean(np.clip(self.ratios, floor, clip) * self.weights, axis=1)
        return float(np.mean(means)), float(np.std(means, ddof=1) / math.sqrt(len(means)))

    def distance(self, ratios: Ratios, floor: float, clip: float) -> float:
        """Return the Kolmogorov distance of the expansion between rows and hypothesis.

        Sets {expansion ≤ t} are events, so up to chance it bounds from below the total variation
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
    expansion: Expansion, variances: Floats, *, seed: int, n_points: int = PROBED
) -> Probe:
    """Evaluate an expansion at scrambled Sobol points of N(0, diag(variances)).

    A Gaussian as wide as the rows covers the mixture; under G those points are rare.

    Parameters
    ----------
    variances : array of shape (p,)
        Of the rows along the coordinates; those below 1 count as 1.
    """
    p = len(variances)
    if p == 0:
        return Probe(np.ones((2, 1)), np.ones((2, 1)))
    widths = np.sqrt(np.maximum(variances, 1.0))
    ratios, weights = [], []
    for child in np.random.SeedSequence(seed).spawn(REPLICATES):
        uniform = qmc.Sobol(p, rng=np.random.default_rng(child)).random(n_points)
        standard = ndtri(np.clip(uniform, 1e-12, 1 - 1e-12))
        points = standard * widths
        log_weights = (np.sum(standard**2, axis=1) - np.sum(points**2, axis=1)) / 2
        ratios.append(expansion(points))
        weights.append(np.exp(log_weights) * np.prod(widths))
    return Probe(np.stack(ratios), np.stack(weights))


@dataclass(frozen=True, eq=False)
class ClippedFit:
    """A clipped density, and the points at which it was normalised and checked."""

    density: ClippedDensity
    mass_error: float  # standard error of the normalising constant
    probe: Probe
    ratios: Ratios

    def measurements(self, n_rows: int) -> dict[str, Any]:
        """Return statistics of the fit to a given number of rows."""
        floor, clip = self.density.floor, self.density.clip
        return {
            "degree": self.density.expansion.degree,
            "normalizer_error": self.mass_error,
            "negative_rows": self.ratios.negative,
            "distance": self.probe.distance(self.ratios, floor, clip),
            "rows_counted": n_rows * self.ratios.evenness,
        }


def clip_expansion(
    expansion: Expansion,
    reference: Reference,
    rows: Rows,
    *,
    floor: float,
    loss: float,
    seed: int,
    clip: float | None = None,
    rough: bool = False,
) -> ClippedFit:
    """Clip an expansion at a bound that suits the rows, and normalise it.

    Parameters
    ----------
    loss : float
        What clipping may cost, as in :func:`choose_clip`.
    clip : float, optional
        The bound, if it is known.
    rough : bool
        Normalise at fewer points.
    """
    ratios = evaluate_rows(expansion, reference, rows, seed)
    clip = max(choose_clip(ratios, loss) if clip is None else clip, floor)
    n_points = ROUGHLY_PROBED if rough else PROBED
    probe = probe_gaussian(expansion, reference.variances, seed=seed, n_points=n_points)
    mass, error = probe.mass(floor, clip)
    return ClippedFit(
        ClippedDensity(reference, expansion, floor, clip, mass), error, probe, ratios
    )
