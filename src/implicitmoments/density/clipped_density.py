"""A density that is a clipped polynomial times a Gaussian: normalised, compared and sampled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from implicitmoments.arrays import Array, Floats, namespace_of, to_numpy
from implicitmoments.density.expansion import Expansion
from implicitmoments.notes import InputError
from implicitmoments.rows import DrawPurpose, RowDraws, Rows, join_labels, weights_of

# Rows at which the ratio is evaluated: a distance is then known to 0.003, a clip to a few percent.
RATED = 2**17
FLOOR = 1e-6  # smallest ratio of a density; the paper has 0, at which logarithms are infinite


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

    def coordinates(self, X: Array) -> Array:
        """Map rows (n, d) to coordinates (n, p), in the library of the rows."""

    def log_density(self, X: Array) -> Array:
        """Return the logarithm of G at rows."""

    def complete(self, coordinates: Floats, rng: RowDraws) -> Floats:
        """Return rows with these coordinates, drawn from G otherwise."""


@dataclass(frozen=True, eq=False)
class ClippedDensity:
    r"""The hypothesis of Theorem 4.16: :math:`H = R' G / Z`, R' the expansion clipped."""

    reference: Reference  # G, and the coordinates that R' depends on
    expansion: Expansion
    clip: float  # largest value of R'
    mass: float  # Z, the integral of R' G

    def ratio(self, coordinates: Array) -> Array:
        """Return R' at coordinates (n, p)."""
        found = self.expansion(coordinates)
        return namespace_of(found).clip(found, FLOOR, self.clip)

    def log_density(self, X: Array) -> Array:
        """Return the logarithm of the density at rows (n, d)."""
        logs = namespace_of(X).log(self.ratio(self.reference.coordinates(X)))
        return logs + self.reference.log_density(X) - math.log(self.mass)

    def sample(
        self, n_samples: int, *, seed: int, max_proposals: int, batch: int = 16_384
    ) -> tuple[Floats, int]:
        """Draw coordinates by rejection, and the rest of the rows from G.

        End of the proof of Theorem 4.16: x from G is accepted with probability R'(x) / clip.
        Random numbers are keyed by the number of the proposal, so draws do not depend on the size
        of a batch, and fewer draws are the beginning of more. Returns the rows, and the number of
        proposals up to the last accepted one.
        """
        rate = self.mass / self.clip
        if n_samples > max_proposals * rate:  # as many are expected
            raise InputError(
                "too_few_accepted",
                "{n:count row} cannot be drawn: the sampler accepts {rate:.2g} of its proposals, "
                "about {expected:.2g} of {max_proposals:,}; draw fewer rows, fit again with "
                "`clip={clip:.0f}` at the cost of a larger error, or fit `SphericalMixture` or "
                "`RegressionMixture`, which are sampled without proposals",
                n=n_samples,
                rate=rate,
                expected=rate * max_proposals,
                max_proposals=max_proposals,
                clip=max(1.0, max_proposals / n_samples / 2),  # its rate is about the inverse
            )
        kept: list[Floats] = []
        accepted, made = 0, 0
        while accepted < n_samples:
            rng = RowDraws(seed, range(made, made + batch), (DrawPurpose.ROWS, 1))
            points = rng.normal(self.reference.p)
            (chosen,) = np.nonzero(rng.uniform() * self.clip < to_numpy(self.ratio(points)))
            chosen = chosen[: n_samples - accepted]
            kept.append(points[chosen])
            accepted += len(chosen)
            made += batch if accepted < n_samples else int(chosen[-1]) + 1
        rng = RowDraws(seed, range(n_samples), (DrawPurpose.ROWS, 2))  # another stream
        return self.reference.complete(np.concatenate(kept), rng), made


def evaluate_rows(
    expansion: Expansion, reference: Reference, sample: Rows
) -> tuple[Floats, Floats, Floats]:
    """Return terms of each order, (degree + 1, n), log G, (n,), and the weights of rows, (n,)."""
    block = sample.block
    X = join_labels(block) if "y" in block else block["x"]
    columns = expansion.orders(reference.coordinates(X)), reference.log_density(X)
    orders, logs, counts = (
        to_numpy(column).astype(np.float64) for column in (*columns, weights_of(block))
    )
    return orders, logs, counts


@dataclass(frozen=True, eq=False)
class Probe:
    """Quasi-random points of the span, by which means under G are taken.

    Attributes
    ----------
    points : array of shape (n_replicates, n_points, p)
    weights : array of shape (n_replicates, n_points)
        Density of G over that of the points: ``mean(weights * f)`` is the mean of f under G.
    """

    points: Floats
    weights: Floats

    @staticmethod
    def of(variances: Floats, *, seed: int, n_points: int = 2**10, n_replicates: int = 8) -> Probe:
        """Return scrambled Sobol points of N(0, diag(variances)), a power of 2 per replicate.

        A Gaussian as wide as the rows covers the mixture; under G those points are rare. Variances
        of the rows along the coordinates, (p,), that are below 1 count as 1.
        """
        p = len(variances)
        if p == 0:
            return Probe(np.zeros((2, 1, 0)), np.ones((2, 1)))
        widths = np.sqrt(np.maximum(variances, 1.0))
        uniform = [
            qmc.Sobol(p, rng=np.random.default_rng(child)).random(n_points)
            for child in np.random.SeedSequence(seed).spawn(n_replicates)
        ]
        standard = ndtri(np.clip(np.stack(uniform), 1e-12, 1 - 1e-12))
        points = standard * widths
        log_weights = np.sum(standard**2 - points**2, axis=2) / 2
        return Probe(points, np.exp(log_weights) * np.prod(widths))

    def orders(self, expansion: Expansion) -> Floats:
        """Return the terms of each order of an expansion, (degree + 1, n_replicates, n_points)."""
        found = expansion.orders(np.concatenate(list(self.points)))
        terms: Floats = to_numpy(found).reshape(-1, *self.weights.shape)
        return terms

    def masses(self, ratios: Floats) -> Floats:
        """Return the mean of ratios under G by each replicate, (n_replicates,)."""
        found: Floats = np.mean(ratios * self.weights, axis=1)
        return found


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


def kolmogorov_distance(rated: Floats, counts: Floats, probed: Floats, mass: Floats) -> float:
    """Return the Kolmogorov distance of the expansion between rows and hypothesis.

    Sets {expansion ≤ t} are events, so up to chance the total variation distance of the hypothesis
    from the truth is no smaller. ``rated`` (n,) are its values at rows of weights ``counts``,
    ``probed`` those at points whose weights under the hypothesis are ``mass``.
    """
    order, rows = np.argsort(probed, kind="stable"), np.argsort(rated, kind="stable")
    below = np.cumsum(mass[order]) / np.sum(mass)
    cumulated = np.append(0.0, np.cumsum(counts[rows]) / np.sum(counts))
    observed = cumulated[np.searchsorted(rated[rows], probed[order], side="right")]
    last = np.append(np.diff(probed[order]) > 0, True)  # equal values are one event
    return float(np.max(np.abs(below - observed)[last]))


def clip_expansion(
    expansion: Expansion,
    reference: Reference,
    rows: Rows,
    *,
    loss: float,
    seed: int,
    clip: float | None = None,
) -> tuple[ClippedDensity, dict[str, float]]:
    """Clip an expansion, normalise it, and measure the density at the rows.

    Clipping may cost ``loss``, as in :func:`choose_clip`, unless it is given. Of what is
    measured ``negative_rows`` is the proportion at which the expansion is negative, ``distance``
    the Kolmogorov distance from the rows, and ``evenness`` the effective number of rows of equal
    weight over the number of rows.
    """
    orders, _, counts = evaluate_rows(expansion, reference, rows.sample(RATED, seed))
    ratios = np.sum(orders, axis=0)
    clip = choose_clip(ratios, counts, loss) if clip is None else clip
    probe = Probe.of(reference.variances, seed=seed, n_points=2**13)
    probed = np.sum(probe.orders(expansion), axis=0)
    clipped = np.clip(probed, FLOOR, clip)
    weights = np.ravel(clipped * probe.weights)
    measured = {
        "negative_rows": float(np.average(ratios < 0, weights=counts)),
        "distance": kolmogorov_distance(ratios, counts, np.ravel(probed), weights),
        "evenness": float(np.sum(counts) ** 2 / np.sum(counts**2)) / len(counts),
    }
    mass = float(np.mean(probe.masses(clipped)))
    return ClippedDensity(reference, expansion, clip, mass), measured


def held_out_logs(
    expansion: Expansion,
    reference: Reference,
    held: Rows,
    *,
    loss: float,
    seed: int,
    floor: float = 0.01,
) -> tuple[Floats, Floats]:
    """Return log densities of held-out rows at every degree, (degree + 1, n), and their weights.

    All degrees come from one evaluation: they are the cumulated terms of the orders. Ratios below
    ``floor`` count as it, so that one row at which a polynomial is negative does not decide.
    """
    orders, log_gauss, counts = evaluate_rows(expansion, reference, held)
    probe = Probe.of(reference.variances, seed=seed)
    at_rows = np.cumsum(orders, axis=0)
    at_points = np.cumsum(probe.orders(expansion), axis=0)
    logs = np.zeros_like(at_rows)
    for degree, (ratios, probed) in enumerate(zip(at_rows, at_points, strict=True)):
        clip = choose_clip(ratios, counts, loss)
        mass = float(np.mean(probe.masses(np.clip(probed, floor, clip))))
        logs[degree] = np.log(np.clip(ratios, floor, clip) / mass) + log_gauss
    return logs, counts


def least_degree(expansion: Expansion, reference: Reference, distance: float, seed: int) -> int:
    """Return the lowest even degree whose density is within a distance of that of the highest.

    In total variation, at quasi-random points; polynomials count as 0 where they are negative.
    """
    probe = Probe.of(reference.variances, seed=seed)
    ratios = np.maximum(np.cumsum(probe.orders(expansion), axis=0), 0.0)
    densities = ratios * probe.weights
    densities /= np.mean(densities, axis=(1, 2), keepdims=True)
    apart = np.mean(np.abs(densities - densities[-1]), axis=(1, 2)) / 2
    near = (n for n in range(2, expansion.degree, 2) if apart[n] <= distance)
    return next(near, expansion.degree)
