"""A density that is a clipped polynomial times a Gaussian: normalised, checked and sampled."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from implicitmoments.arrays import Array, Floats, namespace_of, to_numpy
from implicitmoments.density.hermite_expansion import Expansion
from implicitmoments.notes import InputError
from implicitmoments.rows import Block, DrawPurpose, RowDraws, Rows, weights_of

BATCH = (2_048, 65_536)  # proposals per batch: vectorised, and limited in memory
PROPOSALS = (DrawPurpose.ROWS, 1)  # random stream
# Rows at which the ratio is evaluated: a distance is then known to 0.002, a clip to a few percent.
RATED = 2**18
ROUGHLY_RATED = 2**14  # for densities that are only compared with others
REPLICATES = 8  # independent scramblings, whose spread is the standard error
PROBED, ROUGHLY_PROBED = 2**13, 2**11  # points per replicate; powers of 2, for Sobol sequences
# Ratios below this count as this when densities are compared, so that one row at which a
# polynomial is negative does not decide.
LEAST_RATIO = 0.01
COMPLEMENT = (DrawPurpose.ROWS, 2)  # random stream of the coordinates off the span


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

    def sample(
        self, n_samples: int, *, seed: int, max_proposals: int, batch: tuple[int, int] = BATCH
    ) -> tuple[Floats, int]:
        """Draw coordinates by rejection, and the rest of the rows from G.

        End of the proof of Theorem 4.16: x from G is accepted with probability R'(x) / clip.
        Random numbers are keyed by the number of the proposal, so draws do not depend on the size
        of batches, and fewer draws are the beginning of more. Returns the rows, and the number of
        proposals up to the last accepted one. ``batch`` is the fewest and the most proposals made
        at a time.
        """
        if n_samples > max_proposals * self.mass / self.clip:  # as many are expected
            raise self._refusal(n_samples, max_proposals)
        kept: list[Floats] = []
        accepted, made = 0, 0
        while accepted < n_samples:
            if made >= max_proposals:
                raise self._refusal(n_samples, max_proposals)
            rate = (accepted + 1) / (made + 1) if made else 1.0
            wanted = int(1.1 * (n_samples - accepted) / rate)
            size = min(max(wanted, batch[0]), batch[1], max_proposals - made)
            rng = RowDraws(seed, range(made, made + size), PROPOSALS)
            points = rng.normal(self.span.p)
            (chosen,) = np.nonzero(rng.uniform() * self.clip < to_numpy(self.ratio(points)))
            chosen = chosen[: n_samples - accepted]
            kept.append(points[chosen])
            accepted += len(chosen)
            made += size if accepted < n_samples else int(chosen[-1]) + 1
        rng = RowDraws(seed, range(n_samples), COMPLEMENT)
        return self.span.complete(np.concatenate(kept), rng), made

    def _refusal(self, n: int, max_proposals: int) -> InputError:
        """Return the error of a sampler that accepts too few proposals."""
        rate = self.mass / self.clip
        return InputError(
            "too_few_accepted",
            "{n:count row} cannot be drawn: the sampler accepts {rate:.2g} of its proposals, "
            "about {expected:.2g} of {max_proposals:,}; draw fewer rows, fit again with "
            "`clip={clip:.0f}` at the cost of a larger error, or fit `SphericalMixture` or "
            "`RegressionMixture`, which are sampled without proposals",
            **{"n": n, "rate": rate, "expected": rate * max_proposals},
            # whose rate is about its inverse, or more
            **{"max_proposals": max_proposals, "clip": max(1.0, max_proposals / (2 * n))},
        )


def evaluate_rows(
    expansion: Callable[[Array], Array],
    reference: Reference,
    rows: Rows,
    seed: int,
    most: int = RATED,
) -> tuple[Floats, Floats]:
    """Evaluate a function of coordinates at rows, a sample of at most ``most``; return weights."""
    values, counts = [], []
    for block in rows.sample(most, seed).blocks(reference.p):
        coordinates = reference.coordinates(reference.points(block))
        values.append(to_numpy(expansion(coordinates)).astype(np.float64))
        counts.append(to_numpy(weights_of(block)).astype(np.float64))
    return np.concatenate(values), np.concatenate(counts)


def choose_clip(ratios: Floats, counts: Floats, loss: float) -> float:
    r"""Return the smallest A whose clipping costs at most ``loss`` in total variation.

    ``ratios`` are the expansion at rows, ``counts`` their weights.

    The proof of Theorem 4.16 needs :math:`E_G[(F/G - A)_+]` to be small, and takes a polynomial
    in :math:`k/\varepsilon` for A. Over rows of F the same number is :math:`E_F[(1 - A G/F)_+]`,
    which is averaged here. Proposals are accepted with probability 1/A.
    """
    order = np.argsort(-ratios, kind="stable")
    high = np.maximum(ratios[order], np.finfo(np.float64).tiny)
    weight = counts[order] / np.sum(counts)
    mass, inverse = np.cumsum(weight), np.cumsum(weight / high)
    # the loss at A = high[j] is mass[j] − A · inverse[j], and increases with j
    j = int(np.searchsorted(mass - high * inverse, loss))
    if j == 0:
        return max(1.0, float(high[0]))
    # between high[j] and high[j − 1] it is mass[j − 1] − A · inverse[j − 1]
    return max(1.0, float((mass[j - 1] - loss) / inverse[j - 1]))


def clip_loss(ratios: Floats, counts: Floats, clip: float) -> float:
    """Return what a clip costs in total variation, as in :func:`choose_clip`."""
    return float(np.average(1 - clip / np.maximum(ratios, clip), weights=counts))


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

    def distance(self, ratios: Floats, counts: Floats, floor: float, clip: float) -> float:
        """Return the Kolmogorov distance of the expansion between rows and hypothesis.

        Sets {expansion ≤ t} are events, so up to chance it bounds from below the total variation
        distance of the hypothesis from the truth.
        """
        values = np.ravel(self.ratios)
        mass = np.ravel(np.clip(self.ratios, floor, clip) * self.weights)
        order = np.argsort(values, kind="stable")
        below = np.cumsum(mass[order]) / np.sum(mass)
        rows = np.argsort(ratios, kind="stable")
        cumulated = np.append(0.0, np.cumsum(counts[rows]) / np.sum(counts))
        observed = cumulated[np.searchsorted(ratios[rows], values[order], side="right")]
        last = np.append(np.diff(values[order]) > 0, True)  # equal values are one event
        return float(np.max(np.abs(below - observed)[last]))


def probe_gaussian(
    expansion: Callable[[Array], Array], variances: Floats, *, seed: int, n_points: int = PROBED
) -> Probe:
    """Evaluate an expansion at scrambled Sobol points of N(0, diag(variances)).

    A Gaussian as wide as the rows covers the mixture; under G those points are rare. Variances of
    the rows along the coordinates, (p,), that are below 1 count as 1.
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
) -> tuple[ClippedDensity, dict[str, float]]:
    """Clip an expansion, normalise it, and measure the density at the rows.

    Clipping may cost ``loss``, as in :func:`choose_clip`, unless the bound is given; ``rough``
    clips and normalises at fewer points. Of what is measured ``normalizer_error`` is a standard
    error, ``clip_error`` a bound of what clipping costs in total variation, ``negative_rows`` the
    proportion at which the expansion is negative, and ``evenness`` the effective number of rows
    of equal weight over the number of rows.
    """
    ratios, counts = evaluate_rows(
        expansion, reference, rows, seed, ROUGHLY_RATED if rough else RATED
    )
    clip = max(choose_clip(ratios, counts, loss) if clip is None else clip, floor)
    n_points = ROUGHLY_PROBED if rough else PROBED
    probe = probe_gaussian(expansion, reference.variances, seed=seed, n_points=n_points)
    mass, error = probe.mass(floor, clip)
    measured = {
        "normalizer_error": error,
        "clip_error": floor + clip_loss(ratios, counts, clip),
        "negative_rows": float(np.average(ratios < 0, weights=counts)),
        "distance": probe.distance(ratios, counts, floor, clip),
        "evenness": float(np.sum(counts) ** 2 / np.sum(counts**2)) / len(counts),
    }
    return ClippedDensity(reference, expansion, floor, clip, mass), measured
