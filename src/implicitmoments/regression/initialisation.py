r"""Starts for EM: peaks of the characteristic function, and vectors decoded from moments.

For Gaussian x, :math:`J_\omega(b) = \mathrm{mean} \cos(\omega (y - b \cdot z))` tends to
:math:`\sum_i w_i e^{-\omega^2 (v_i + \|b - \beta_i\|^2) / 2}`: a kernel density estimate of the
regressors themselves, of bandwidth :math:`1/\omega`. For any other x it still peaks at each of
them, in the shape of the characteristic function of x.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    index_like,
    map_into,
    move_like,
    namespace_of,
)
from implicitmoments.moments.components import Components, find_components
from implicitmoments.moments.hermite_problem import all_rows
from implicitmoments.problems import RegressionMixtureProblem
from implicitmoments.regression.lines import LOG_TWO_PI, Lines, Model, joint_of_residuals
from implicitmoments.regression.products import as_sum, columns_of
from implicitmoments.rows import DEFAULT_BUDGET, Block, Rows, Sums, blocks, fold_blocks
from implicitmoments.search.noise import draw_scales

# Mean shift. The deviation of y is 1, and a kernel of frequency ω has bandwidth 1 / ω.
OMEGAS = (2.4, 2.8)  # a line of noise 0.3 keeps 0.7 of its height, lines 0.8 apart are two peaks
STARTS_PER_LINE = 6  # random ones: most of them climb to the heavy lines
FIRST_STEPS, LAST_STEPS = 16, 6  # on wide and narrow kernels; EM follows, so peaks may be rough
HALVINGS = (4, 8)  # steps after which the lower half of the points is left, for the highest peak
LONGEST_STEP = 0.4  # about a bandwidth
LEAST_VALUE = 1.5  # standard errors, in place of a value that noise has made small or negative
NORMS = (0.4, 1.1)  # of random points; that of a regressor is at most 1
APART = 0.35  # two peaks: a bandwidth is 1 / 2.8
ALIASES = np.arange(-2, 3)  # periods by which an intercept may be shifted: 4.5 deviations of y
LITTLE_NOISE = 0.16  # first variance where most lines are peaks; elsewhere all of y is noise
# The residual of lines.
FLOOR = 0.1  # of the density of y, in that of the lines
N_DRAWS = 4  # of y per row, to estimate the waves of the lines
LARGEST_LOG = 60.0  # of a ratio in single precision
POINTS_LEFT = 40  # random starts, where few lines or none are left to find
LEFT_OMEGA, LEFT_OMEGAS = 0.7, (1.2, 2.2)  # frequency over the noise, and its bounds
WIDER = 0.65  # of omega: a wider kernel has a wider basin
# Moments.
MOST_DECODED = 40  # components, beyond which the moments' tensors are too large to try
LONGEST = 2.0  # decoded vector: beyond it is noise
FEW_FEATURES = 30  # in which random points still find the peaks
OVERSAMPLING = 2  # directions of the span per line
SPAN_OMEGA = 1.5  # between the best of order 1 and that of order 2


@dataclass(frozen=True, eq=False)
class Waves:
    r"""Rows :math:`\rho_n`, whose inner product with :math:`e^{i \omega b \cdot z}` is climbed."""

    z: Array  # (q, n)
    real: Array  # (n,), of :math:`\rho_n`, times the row's share of the total weight
    imaginary: Array  # (n,)
    omega: float
    noise: float  # standard deviation of the value at a point that is far from every line
    span: Floats | None = None  # (r, q), directions that points move in

    def climb(self, b: Floats) -> tuple[Floats, Floats]:
        """Return values (m,) at the points b (m, q), and gradients (m, q)."""
        scaled = move_like(self.omega * b, self.z)

        def measure(block: Block, rows: range) -> Sums:  # noqa: ARG001
            z, real, imaginary = block["z"], block["real"], block["imaginary"]
            xp = namespace_of(z)
            phase = scaled @ z
            cosine = xp.cos(phase)
            sine = map_into("sin", phase)
            values = as_sum(cosine @ real + sine @ imaginary)
            # d/db Re(ρ e^{−iωbz}) = ω Im(ρ e^{−iωbz}) z
            cosine *= imaginary
            sine *= real
            cosine -= sine
            return {"values": values, "gradients": as_sum(cosine @ xp.matrix_transpose(z))}

        def read(rows: range) -> Block:
            part = slice(rows.start, rows.stop)
            columns = {"real": self.real[part], "imaginary": self.imaginary[part]}
            return {"z": self.z[:, part], **columns}

        size = DEFAULT_BUDGET.rows_per_block(2 * len(b), self.z)  # cosines and sines
        sums = fold_blocks(read, measure, blocks(range(int(self.z.shape[1])), size))
        values, gradients = sums["values"], sums["gradients"]
        if self.span is not None:
            gradients = gradients @ self.span.T @ self.span
        return values, self.omega * gradients


@dataclass(frozen=True, eq=False)
class Peaks:
    """Local maxima, the highest first."""

    points: Floats  # (m, q)
    z: Floats  # (m,), heights in standard errors


@dataclass(frozen=True, eq=False)
class WaveRows:
    """Rows in single precision, from which waves of any frequency are made."""

    z: Array  # (q, n), features, the constant first
    y: Array  # (n,)
    share: Array  # (n,), of the total weight; they sum to 1
    span: Floats | None = None  # (r, q), orthonormal directions that are searched; all by default

    @classmethod
    def of(cls, rows: Rows, span: Floats | None = None) -> WaveRows:
        """Copy held rows."""
        u, share = columns_of(rows.block), rows.block["counts"] / rows.total
        xp = namespace_of(u)
        u, share = (xp.astype(a, xp.float32) for a in (u, share))
        return cls(u[:-1, :], u[-1, :], share, span)

    @property
    def n_searched(self) -> int:
        """Dimensions that are searched, the constant among them."""
        return int(self.z.shape[0]) if self.span is None else len(self.span)

    def waves(self, omega: float) -> Waves:
        """Return the waves of y itself."""
        xp, angle = namespace_of(self.y), omega * self.y
        return self._shared(xp.cos(angle), xp.sin(angle), omega)

    def waves_beside(
        self, lines: Lines, omegas: Sequence[float], rng: np.random.Generator
    ) -> list[Waves]:
        r"""Return waves of the residual of the lines: :math:`h e^{i \omega y}` less its mean.

        The weight h of a row is large where the lines make y improbable. Its mean under the
        lines, given x, is estimated from a few draws of y.
        """
        xp, size = namespace_of(self.y), DEFAULT_BUDGET.rows_per_block(3 * lines.k, self.y)
        parts = [
            self._beside(slice(rows.start, rows.stop), lines, omegas, rng)
            for rows in blocks(range(int(self.y.shape[0])), size)
        ]
        found = []
        for at, omega in enumerate(omegas):
            real, imaginary = (xp.concat([part[at][side] for part in parts]) for side in (0, 1))
            found.append(self._shared(real, imaginary, omega))
        return found

    def _beside(
        self, part: slice, lines: Lines, omegas: Sequence[float], rng: np.random.Generator
    ) -> list[list[Array]]:
        """Return real and imaginary parts of the waves of some rows, for each frequency."""
        xp, y = namespace_of(self.y), self.y[part]
        means = move_like(lines.coef, y) @ self.z[:, part]
        h, found = _ratio(lines, means, y), []
        for omega in omegas:
            angle = omega * y
            found.append([h * xp.cos(angle), h * xp.sin(angle)])
        for _ in range(N_DRAWS):
            y = _draw(lines, means, rng)
            h = _ratio(lines, means, y) / N_DRAWS
            for waves, omega in zip(found, omegas, strict=True):
                angle = omega * y
                waves[0] -= h * xp.cos(angle)
                waves[1] -= h * xp.sin(angle)
        return found

    def _shared(self, real: Array, imaginary: Array, omega: float) -> Waves:
        real, imaginary = real * self.share, imaginary * self.share
        power = float(real @ real) + float(imaginary @ imaginary)
        noise = max(math.sqrt(power / 2), 1e-30)
        return Waves(self.z, real, imaginary, omega, noise, self.span)


def _draw(lines: Lines, means: Array, rng: np.random.Generator) -> Array:
    """Return a label for each row, drawn from lines with means (k, n)."""
    n = int(means.shape[1])
    labels = rng.choice(lines.k, size=n, p=lines.weights)
    noise = np.sqrt(lines.variances)[labels] * rng.standard_normal(n, dtype=np.float32)
    noise *= draw_scales(lines.freedom[labels], rng)
    places = index_like(labels * n + np.arange(n), means)
    xp = namespace_of(means)
    return xp.take(xp.reshape(means, (-1,)), places) + move_like(noise, means)


def _ratio(lines: Lines, means: Array, y: Array) -> Array:
    r"""Return how improbable y is under lines of given means, :math:`h = g / ((1-c) p + c g)`.

    p is the density of y given x under the lines, and g = N(0, 1) that of y by itself. The most
    powerful weight against a given missing line is the ratio of its density to p; g stands for a
    line that is not known, and c bounds the ratio by 1/c.
    """
    xp, left = namespace_of(y), joint_of_residuals(lines, y - means)
    # relative to g, in logarithms: neither density is 0 far out
    left += 0.5 * (LOG_TWO_PI + y**2)
    left = map_into("exp", xp.clip(left, None, LARGEST_LOG))
    return 1 / ((1 - FLOOR) * xp.sum(left, axis=0) + FLOOR)


def climb_peaks(waves: Waves, b: Floats, steps: int, model: Model) -> Floats:
    r"""Move points uphill: :math:`b + g / (\omega^2 \max(J, c))`, mean shift for this kernel."""
    for _ in range(steps):
        values, gradients = waves.climb(b)
        gradients[:, : model.first] = 0.0
        least = LEAST_VALUE * waves.noise
        step = gradients / (waves.omega**2 * np.maximum(values, least))[:, None]
        length = np.linalg.norm(step, axis=1, keepdims=True)
        b = b + step * np.minimum(1.0, LONGEST_STEP / np.maximum(length, 1e-30))
    return b


def separate(waves: Waves, b: Floats, distance: float) -> Peaks:
    """Return the peaks among points, none within ``distance`` of a higher one."""
    values, _ = waves.climb(b)
    kept: list[int] = []
    for i in np.argsort(-values, kind="stable"):
        if all(np.linalg.norm(b[i] - b[j]) > distance for j in kept):
            kept.append(int(i))
    chosen = np.asarray(kept, dtype=int)
    return Peaks(b[chosen], values[chosen] / waves.noise)


def noise_maximum(q: int) -> float:
    """Return a bound on z of the highest of many peaks of noise alone in q dimensions."""
    return 2.5 + math.sqrt(2 * q * math.log(3.8))


def peaks_left(rows: WaveRows, lines: Lines, model: Model, rng: np.random.Generator) -> Peaks:
    """Return the peaks of the residual of the lines."""
    deviation = float(np.sqrt(lines.weights @ lines.variances))
    omega = float(np.clip(LEFT_OMEGA / deviation, *LEFT_OMEGAS))
    b = random_points(rng, POINTS_LEFT, rows)
    waves = rows.waves_beside(lines, (WIDER * omega, omega), rng)
    halves = zip(waves, np.array_split(b, 2), strict=True)
    b = np.vstack([_climb_highest(each, half, model) for each, half in halves])
    return separate(waves[-1], climb_peaks(waves[-1], b, LAST_STEPS, model), 1 / omega)


def _climb_highest(waves: Waves, b: Floats, model: Model) -> Floats:
    """Climb to the highest peaks: successive halving of the points."""
    for begin, end in pairwise((0, *HALVINGS, FIRST_STEPS)):
        if begin:
            values, _ = waves.climb(b)
            b = b[np.argsort(-values, kind="stable")[: (len(b) + 1) // 2]]
        b = climb_peaks(waves, b, end - begin, model)
    return b


def random_points(rng: np.random.Generator, n: int, rows: WaveRows) -> Floats:
    """Return points of random direction and of norms from 0.4 to 1.1, without an intercept."""
    directions = rng.normal(size=(n, rows.n_searched))
    directions[:, 0] = 0.0
    directions /= np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-300)
    points = directions * rng.uniform(*NORMS, size=(n, 1))
    return points if rows.span is None else np.asarray(points @ rows.span)


@dataclass(frozen=True, eq=False)
class LineStart:
    """A start for EM."""

    lines: Lines
    n_peaks: int  # lines that are peaks above the noise
    n_clear: int  # peaks above the noise, whether or not there was room for them


def first_lines(
    rows: WaveRows, k: int, model: Model, rng: np.random.Generator, decoded: Floats
) -> LineStart:
    """Climb the characteristic function from random points and from decoded vectors.

    Peaks above the noise are lines; where there are fewer than k, the decoded vectors that are
    not near one follow, and then random lines.
    """
    wide, narrow = (rows.waves(omega) for omega in OMEGAS)
    peaks = _climb(wide, narrow, decoded, model)
    least = noise_maximum(rows.n_searched)
    if int(np.sum(peaks.z > least)) < k:  # decoded vectors do not lead to all of them
        peaks = _climb_random(rows, wide, narrow, k, model, rng, peaks.points)
    clear = int(np.sum(peaks.z > least))
    found = peaks.points[: min(k, clear)]
    n_peaks = len(found)
    for point in decoded:
        if len(found) < k and np.all(np.linalg.norm(found - point, axis=1) > APART):
            found = np.vstack([found, point])
    coef = np.vstack([found, random_points(rng, k - len(found), rows)])
    variance = LITTLE_NOISE if 2 * n_peaks > k else 1.0
    return LineStart(lines_at(coef, model, variance), n_peaks, clear)


def lines_at(coef: Floats, model: Model, variance: float = LITTLE_NOISE) -> Lines:
    """Return lines of equal weights."""
    k = len(coef)
    return Lines(np.full(k, 1 / k), coef, np.full(k, variance), model.freedom(k))


def clear_peaks(
    rows: WaveRows, k: int, model: Model, rng: np.random.Generator, known: Floats
) -> Floats:
    """Return the peaks above the noise, (m, q), the highest first.

    Parameters
    ----------
    k : int
        For how many lines there are random points.
    known : array of shape (l, q)
        Further points to climb from.
    """
    wide, narrow = (rows.waves(omega) for omega in OMEGAS)
    peaks = _climb_random(rows, wide, narrow, k, model, rng, known)
    return peaks.points[peaks.z > noise_maximum(rows.n_searched)]


def _climb_random(
    rows: WaveRows,
    wide: Waves,
    narrow: Waves,
    k: int,
    model: Model,
    rng: np.random.Generator,
    known: Floats,
) -> Peaks:
    """Climb to peaks from random points, and from known ones."""
    b = random_points(rng, STARTS_PER_LINE * k, rows)
    halves = zip((wide, narrow), np.array_split(b, 2), strict=True)
    b = np.vstack([climb_peaks(waves, half, FIRST_STEPS, model) for waves, half in halves])
    return _climb(wide, narrow, np.vstack([b, known]), model)


def _climb(wide: Waves, narrow: Waves, b: Floats, model: Model) -> Peaks:
    """Climb to peaks, and choose among intercepts that look alike."""
    b = climb_peaks(narrow, b, LAST_STEPS, model)
    if model.intercept:
        b = unalias(wide, b, narrow.omega)
    return separate(narrow, b, APART)


def unalias(waves: Waves, points: Floats, omega: float) -> Floats:
    r"""Choose intercepts among those :math:`2\pi/\omega` apart, alike to one frequency."""
    if not len(points):
        return points
    moved = points[:, None, :] + np.zeros((len(ALIASES), 1))
    moved[:, :, 0] += 2 * np.pi / omega * ALIASES
    values, _ = waves.climb(moved.reshape(-1, points.shape[1]))
    best = np.argmax(values.reshape(len(points), -1), axis=1)
    return np.asarray(moved[np.arange(len(points)), best])


def decode_moments(rows: Rows, k: int, seed: int) -> tuple[Floats, Components | None]:
    """Return vectors decoded from moments with Fourier weights, (m, q), without intercepts."""
    q = rows.n_features - 1
    if not 1 < k <= min(MOST_DECODED, rows.kept) or q == 1:
        return np.zeros((0, q)), None
    u, counts = rows.block["x"], rows.block["counts"]
    x = np.ascontiguousarray(u[:, 1:-1]) if isinstance(u, np.ndarray) else u[:, 1:-1]
    problem = RegressionMixtureProblem(x, u[:, -1], weights="fourier", sample_weight=counts)
    read = find_components(all_rows(problem), k, seed=seed)
    guesses = read.guesses
    guesses = guesses[np.all(np.isfinite(guesses), axis=1)]
    guesses = guesses[np.linalg.norm(guesses, axis=1) < LONGEST]
    return np.hstack([np.zeros((len(guesses), 1)), guesses]), read


def search_span(rows: Rows, k: int) -> Floats | None:
    r"""Return an orthonormal basis (r, q) to search in, or None where all features will do.

    With Fourier weights :math:`-E[\cos(\omega y)(x x^T - I)] / \omega^2` is a positive combination
    of :math:`\beta_i \beta_i^T`: its top eigenvectors, and those of
    :math:`E[\sin(\omega y) x]`, span the regressors (order 2 of Lemma 4.23). The constant is kept.
    """
    q = rows.n_features - 1
    if q - 1 <= max(FEW_FEATURES, OVERSAMPLING * k + 1):
        return None
    sums = rows.fold(_wave_moments, width=4 * q, what="span of the regressors")
    second = float(sums["mass"]) * np.eye(q - 1) - sums["second"]
    _, vectors = np.linalg.eigh(second)
    top = vectors[:, : -OVERSAMPLING * k - 1 : -1]
    directions, _ = np.linalg.qr(np.column_stack([sums["first"], top]))
    basis = np.zeros((1 + directions.shape[1], q))
    basis[0, 0] = 1.0
    basis[1:, 1:] = directions.T
    return basis


def _wave_moments(block: Block) -> Sums:
    """Sum sin(ωy) x, cos(ωy) x xᵀ and cos(ωy)."""
    u, counts = columns_of(block), block["counts"]
    x, xp = u[1:-1, :], namespace_of(u)
    cosine = xp.cos(SPAN_OMEGA * u[-1, :]) * counts
    return {
        "first": as_sum(x @ (xp.sin(SPAN_OMEGA * u[-1, :]) * counts)),
        "second": as_sum((x * cosine) @ xp.matrix_transpose(x)),
        "mass": as_sum(xp.sum(cosine)),
    }
