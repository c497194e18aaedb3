"""Starts of the refinement: networks decoded from the moments, and random ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from implicitmoments.activation.network import Network, unit_rows
from implicitmoments.activation.residual_moments import SLICED, Slices, moment_slices
from implicitmoments.arrays import Floats
from implicitmoments.moments.components import find_components
from implicitmoments.moments.hermite_problem import all_rows
from implicitmoments.problems import Activation, ActivationSumProblem

PER_DIRECTION = 2  # slices for each direction: about as many equations as unknowns twice over
DRAWS = 30  # random pairs of combinations of slices, of which the best is taken
BIASES = np.linspace(-3.0, 3.0, 61)  # tried for a decoded component, in deviations of its input
ORDERS = range(1, 5)  # of the strengths that determine a bias
# points of a sum for Hermite coefficients of shifted functions, to 1e-4: enough for a start
POINTS, STEP = np.linspace(-9.0, 9.0, 3601, retstep=True)


def network_starts(
    inside: ActivationSumProblem, k: int, *, positive: bool, seed: int
) -> Iterator[tuple[Network, int]]:
    """Yield networks of weight 1 with the number of components that the moments resolve.

    The first is decoded from the moments, all others are random.
    """
    rng, p = np.random.default_rng(seed), inside.n_features

    def network(directions: Floats, biases: Floats) -> Network:
        given = biases if inside.biased else None
        return Network(np.ones(k), unit_rows(directions), inside.activation, given, positive)

    if positive and not inside.biased and inside.has_order(2):
        found = find_components(all_rows(inside), k, seed=seed)
        decoded, biases, resolved = found.guesses.copy(), np.zeros(k), int(found.resolved.sum())
    else:
        decoded, biases, resolved = _decode_signed(inside, k, positive=positive, rng=rng)
    lengths = np.linalg.norm(decoded, axis=1)
    bad = ~(np.isfinite(lengths) & (lengths > 0))
    decoded[bad] = rng.standard_normal((int(bad.sum()), p))
    yield network(decoded, biases), resolved
    while True:
        directions = rng.standard_normal((k, p))
        # inputs of the activations have variance 1
        yield network(directions, rng.standard_normal(k) if inside.biased else biases), 0


def _decode_signed(
    inside: ActivationSumProblem, k: int, *, positive: bool, rng: np.random.Generator
) -> tuple[Floats, Floats, int]:
    """Decode directions (k, p) and biases (k,) from weights that depend on the order.

    NaN for what the slices cannot determine: they have rank p.
    """
    p = inside.n_features
    directions, biases = np.full((k, p), np.nan), np.zeros(k)
    if not any(map(inside.has_order, SLICED)):
        return directions, biases, 0
    slices = moment_slices(inside, rng.standard_normal((PER_DIRECTION * p, p)) / np.sqrt(p))
    found, resolved = diagonalise(slices, rng)
    tried = BIASES if inside.biased else np.zeros(1)
    strengths = component_strengths(slices, found)
    signs, biases[:p] = choose_biases(inside.activation, strengths, tried, positive=positive)
    directions[:p] = signs[:, None] * found
    return directions, biases, resolved


def diagonalise(slices: Slices, rng: np.random.Generator) -> tuple[Floats, int]:
    r"""Return unit vectors (p, p) that diagonalise all slices, and how many are real.

    With :math:`S_m = V^\top D_m V` for p independent rows of V, the columns of :math:`V^\top` are
    the eigenvectors of :math:`B A^{-1}` for any two combinations A and B of the slices, whatever
    the signs of the weights (simultaneous diagonalisation; Jennrich). Of several random pairs the
    one that leaves the least of all slices is kept.
    """
    flat = slices.matrices.reshape(len(slices.matrices), -1)
    best, least, real = np.eye(len(slices.slope)), np.inf, 0
    for _ in range(DRAWS):
        first, other = np.tensordot(rng.standard_normal((2, len(flat))), slices.matrices, 1)
        values, vectors = np.linalg.eig(other @ np.linalg.pinv(first))
        found = unit_rows(np.real(vectors).T)
        powers = (found[:, :, None] * found[:, None, :]).reshape(len(found), -1)
        fitted = np.linalg.lstsq(powers.T, flat.T, rcond=None)[0]
        left = float(np.linalg.norm(flat.T - powers.T @ fitted))
        if left < least:
            best, least, real = found, left, int(np.sum(np.imag(values) == 0))
    return best, real


def component_strengths(slices: Slices, directions: Floats) -> dict[int, Floats]:
    r"""Return :math:`w_i c_t(b_i)` of each direction, for order 1 and each order t of slices."""
    slope = np.linalg.lstsq(directions.T, slices.slope, rcond=None)[0]
    solved: dict[int, Floats] = {1: np.asarray(slope, dtype=np.float64)}
    powers = (directions[:, :, None] * directions[:, None, :]).reshape(len(directions), -1)
    for order in np.unique(slices.orders):
        chosen = slices.orders == order
        # (slices, p², components)
        scale = (slices.against[chosen] @ directions.T) ** (int(order) - 2)
        design = (scale[:, None, :] * powers.T[None]).reshape(-1, len(directions))
        right = slices.matrices[chosen].ravel()
        found = np.linalg.lstsq(design, right, rcond=None)[0]
        solved[int(order)] = np.asarray(found, dtype=np.float64)
    return solved


def choose_biases(
    activation: Activation, strengths: dict[int, Floats], biases: Floats, *, positive: bool
) -> tuple[Floats, Floats]:
    """Return the sign of each direction, and the bias that best explains its strengths."""
    orders = sorted(strengths)
    shifted = shifted_coefficients(activation, biases)[:, [t - 1 for t in orders]]
    sizes = np.maximum(np.linalg.norm(shifted, axis=1), 1e-12 * np.abs(shifted).max())
    patterns = shifted / sizes[:, None]
    observed = np.stack([strengths[t] for t in orders])  # (orders, k)
    signs = np.array([1.0, -1.0])
    turned = signs[:, None] ** np.array(orders)  # a direction reversed: odd orders change sign
    # (signs, biases, k)
    fits = np.einsum("st,bt,tk->sbk", turned, patterns, observed)
    if not positive:
        fits = np.abs(fits)
    flat = fits.reshape(-1, fits.shape[2]).argmax(axis=0)
    at, which = np.divmod(flat, len(biases))
    return signs[at], biases[which]


def shifted_coefficients(activation: Activation, biases: Floats) -> Floats:
    r"""Return :math:`c_t(b) = E[\sigma(G + b) h_t(G)]` for t = 1, …, 4: (biases, 4)."""
    u = POINTS[None, :] - biases[:, None]
    density = np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi)
    hermite = [np.ones_like(u), u]
    for t in ORDERS[:-1]:  # normalised
        hermite.append((u * hermite[t] - np.sqrt(t) * hermite[t - 1]) / np.sqrt(t + 1))
    values = activation(POINTS) * STEP
    return np.stack([(hermite[t] * density) @ values for t in ORDERS], axis=1)
