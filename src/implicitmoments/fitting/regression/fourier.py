r"""The characteristic function as a density of the regressors, and its peaks.

For Gaussian x, :math:`J_\omega(b) = \mathrm{mean} \cos(\omega (y - b \cdot z))` tends to
:math:`\sum_i w_i e^{-\omega^2 (v_i + \|b - \beta_i\|^2) / 2}`: a kernel density estimate of the
regressors themselves, of bandwidth :math:`1/\omega`. For any other x it still peaks at each of
them, in the shape of the characteristic function of x.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from implicitmoments.backends import Floats
from implicitmoments.fitting.regression.em import Model
from implicitmoments.fitting.regression.features import FeatureRows
from implicitmoments.fitting.regression.likelihood import Lines

__all__ = [
    "Peaks",
    "WaveRows",
    "Waves",
    "climb_peaks",
    "noise_maximum",
    "random_points",
    "separate",
]

LONGEST_STEP = 0.4
LEAST_VALUE = 1.5  # standard errors, in place of a value that noise has made small or negative
NORMS = (0.4, 1.1)  # of points that are climbed from
FLOOR = 0.1  # of the density of y, in that of the lines
N_DRAWS = 4
LARGEST_LOG = 60.0  # of a ratio in single precision
BLOCK_NUMBERS = 2**17  # phases at a time: they stay in the cache


@dataclass(frozen=True, eq=False)
class Waves:
    r"""Rows :math:`\rho_n`, whose inner product with :math:`e^{i \omega b \cdot z}` is climbed.

    Attributes
    ----------
    z : array of shape (q, n), float32
    real, imaginary : array of shape (n,), float32
        Of :math:`\rho_n`, times the row's part of the whole.
    omega : float
    noise : float
        Standard deviation of the value at a point that no line is near.
    span : array of shape (r, q), optional
        Directions that points move in.
    """

    z: Floats
    real: Floats
    imaginary: Floats
    omega: float
    noise: float
    span: Floats | None = None

    def climb(self, b: Floats) -> tuple[Floats, Floats]:
        """Return values (m,) at the points b (m, q), and gradients (m, q)."""
        values = np.zeros(len(b))
        gradients = np.zeros(b.shape)
        scaled = (self.omega * b).astype(np.float32)
        size = max(256, BLOCK_NUMBERS // max(1, len(b)))
        for start in range(0, self.z.shape[1], size):
            part = slice(start, start + size)
            z, real, imaginary = self.z[:, part], self.real[part], self.imaginary[part]
            phase = scaled @ z
            cosine = np.cos(phase)
            sine = np.sin(phase, out=phase)
            values += cosine @ real + sine @ imaginary
            # d/db Re(ρ e^{−iωbz}) = ω Im(ρ e^{−iωbz}) z
            cosine *= imaginary
            sine *= real
            cosine -= sine
            gradients += cosine @ z.T
        if self.span is not None:
            gradients = gradients @ self.span.T @ self.span
        return values, self.omega * gradients


@dataclass(frozen=True, eq=False)
class Peaks:
    """Points where the waves are largest.

    Attributes
    ----------
    points : array of shape (m, q)
    values : array of shape (m,)
    z : array of shape (m,)
        Values over the noise.
    """

    points: Floats
    values: Floats
    z: Floats

    def first(self, chosen: Floats) -> Peaks:
        """Return some of the peaks."""
        return Peaks(self.points[chosen], self.values[chosen], self.z[chosen])


@dataclass(frozen=True, eq=False)
class WaveRows:
    """Rows in single precision, of which waves of any frequency are made.

    Attributes
    ----------
    z : array of shape (q, n)
        Features, the constant first.
    y : array of shape (n,)
    share : array of shape (n,)
        Of each row in the whole; they sum to 1.
    span : array of shape (r, q), optional
        Orthonormal directions that are searched; all by default.
    """

    z: Floats
    y: Floats
    share: Floats
    span: Floats | None = None

    @classmethod
    def of(cls, rows: FeatureRows, span: Floats | None = None) -> WaveRows:
        """Copy the rows."""
        blocks = list(rows.blocks())
        u = np.concatenate([block.u.astype(np.float32) for block in blocks], axis=1)
        counts = np.concatenate([block.counts for block in blocks])
        return cls(u[:-1], u[-1], (counts / counts.sum()).astype(np.float32), span)

    @property
    def n_features(self) -> int:
        """Features q, the constant among them."""
        return int(self.z.shape[0])

    @property
    def n_searched(self) -> int:
        """Dimensions that are searched, the constant among them."""
        return self.n_features if self.span is None else len(self.span)

    def waves(self, omega: float) -> Waves:
        """Return the waves of y itself."""
        angle = np.float32(omega) * self.y
        return self._shared(np.cos(angle), np.sin(angle), omega)

    def waves_beside(
        self, lines: Lines, omegas: Sequence[float], rng: np.random.Generator
    ) -> list[Waves]:
        r"""Return waves of what lines do not explain: :math:`h e^{i \omega y}` less its mean.

        The weight h of a row is large where the lines leave y unlikely. Its mean under the lines,
        given x, is taken over a few draws of y.
        """
        h = self.ratio(lines, self.y)
        parts = []
        for omega in omegas:
            angle = np.float32(omega) * self.y
            parts.append([h * np.cos(angle), h * np.sin(angle)])
        for _ in range(N_DRAWS):
            y = self.drawn(lines, rng)
            h = self.ratio(lines, y) / np.float32(N_DRAWS)
            for part, omega in zip(parts, omegas, strict=True):
                angle = np.float32(omega) * y
                part[0] -= h * np.cos(angle)
                part[1] -= h * np.sin(angle)
        return [
            self._shared(real, imaginary, omega)
            for (real, imaginary), omega in zip(parts, omegas, strict=True)
        ]

    def drawn(self, lines: Lines, rng: np.random.Generator) -> Floats:
        """Return a label for each row, drawn from the lines."""
        labels = rng.choice(lines.k, size=len(self.y), p=lines.weights)
        mean = np.einsum("qn,nq->n", self.z, lines.coef.astype(np.float32)[labels])
        deviations = np.sqrt(lines.variances).astype(np.float32)[labels]
        noise = rng.standard_normal(len(self.y), dtype=np.float32)
        return np.asarray(mean + deviations * noise)

    def _shared(self, real: Floats, imaginary: Floats, omega: float) -> Waves:
        real, imaginary = real * self.share, imaginary * self.share
        power = float(real @ real) + float(imaginary @ imaginary)
        noise = max(math.sqrt(power / 2), 1e-30)
        return Waves(self.z, real, imaginary, omega, noise, self.span)

    def ratio(self, lines: Lines, y: Floats) -> Floats:
        r"""Return how far y is from being explained, :math:`h = g / ((1-c) p + c g)`.

        p is the density of y given x by the lines, and g = N(0, 1) that of y by itself. To tell
        a missing line from chance, the ratio of its density to p is the best weight; g stands for
        a line that is not known, and c bounds the ratio by 1/c.
        """
        scale = ((1 - FLOOR) * lines.weights / np.sqrt(lines.variances)).astype(np.float32)
        rate, coef = (a.astype(np.float32) for a in (-0.5 / lines.variances, lines.coef))
        ratio = np.empty_like(self.y)
        size = max(256, BLOCK_NUMBERS // lines.k)
        for start in range(0, len(ratio), size):
            part = slice(start, start + size)
            left = y[part] - coef @ self.z[:, part]
            left *= left
            left *= rate[:, None]
            # relative to g, in logarithms: neither density is 0 far out
            left += 0.5 * y[part] ** 2
            np.minimum(left, LARGEST_LOG, out=left)
            np.exp(left, out=left)
            ratio[part] = 1 / (scale @ left + np.float32(FLOOR))
        return ratio


def climb_peaks(waves: Waves, b: Floats, steps: int, model: Model) -> Floats:
    r"""Move points uphill: :math:`b + g / (\omega^2 \max(J, c))`, mean shift for this kernel."""
    for _ in range(steps):
        values, gradients = waves.climb(b)
        if not model.intercept:
            gradients[:, 0] = 0.0
        least = LEAST_VALUE * waves.noise
        step = gradients / (waves.omega**2 * np.maximum(values, least))[:, None]
        length = np.linalg.norm(step, axis=1, keepdims=True)
        b = b + step * np.minimum(1.0, LONGEST_STEP / np.maximum(length, 1e-30))
    return b


def separate(waves: Waves, b: Floats, distance: float) -> Peaks:
    """Return the peaks among points, the highest first, none within ``distance`` of another."""
    values, _ = waves.climb(b)
    kept: list[int] = []
    for i in np.argsort(-values, kind="stable"):
        if all(np.linalg.norm(b[i] - b[j]) > distance for j in kept):
            kept.append(int(i))
    chosen = np.asarray(kept, dtype=int)
    return Peaks(b[chosen], values[chosen], values[chosen] / waves.noise)


def noise_maximum(q: int) -> float:
    """Return a bound on z of the highest of many peaks of noise alone in q dimensions."""
    return 2.5 + math.sqrt(2 * q * math.log(3.8))


def random_points(rng: np.random.Generator, n: int, rows: WaveRows) -> Floats:
    """Return points of random direction and of norms from 0.4 to 1.1, without an intercept."""
    directions = rng.normal(size=(n, rows.n_searched))
    directions[:, 0] = 0.0
    directions /= np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-300)
    points = directions * rng.uniform(*NORMS, size=(n, 1))
    return points if rows.span is None else np.asarray(points @ rows.span)
