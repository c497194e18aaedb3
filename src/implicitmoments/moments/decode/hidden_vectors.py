r"""From orthogonal components to hidden vectors: unwhitening, roots, lengths and signs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

from implicitmoments.arrays import Array, Floats, move_like, namespace_of, outer_rows, to_numpy
from implicitmoments.moments.closed_form import mean_moments, noise_floor
from implicitmoments.moments.decode.moment_pairs import MomentPair
from implicitmoments.moments.framed_rows import Frame, FramedRows, SplitMean, Weights, average
from implicitmoments.notes import InputError
from implicitmoments.rows import Sums

SMALLEST_LENGTH = 1e-3  # of the unit of the frame
SHRUNK = 0.2  # a variance below 1 − 0.2 is not explained by sampling noise
HEIGHT = 0.8  # times the length of the hidden vectors; from 0.6 to 1 it matters little


@dataclass(frozen=True, eq=False)
class DecodingFrame:
    """A frame, its first-order error, and low moments in it."""

    frame: Frame
    # (p, d), half the difference of the frame's basis between halves of the rows, projected off
    # its span: a vector with coordinates z in the basis has the error ``z @ leak``
    leak: Floats
    shift: Floats  # (d,), the same for the centre, off the span
    second: SplitMean  # M_2 in the frame, (p, p), without the height
    mean: SplitMean | None  # the mean of the points, if all orders have the same weights
    mass: float | None  # the sum of the weights of all components, if the problem has order 0


def choose_frame(view: FramedRows, k: int) -> DecodingFrame:
    r"""Choose the frame for decoding k components.

    Reduce to the span of the top k directions of :math:`M_2` if there are more features. If all
    orders have the same weights, centre first and give every point a constant height, near
    :math:`\sqrt{tr\, M_2}`: hidden vectors become (height, v), so that even moments determine
    signs and short vectors too.
    """
    uniform, d = view.problem.uniform, view.problem.n_features
    found = _first_moments(view)
    mean, second = found["mean"], found["second"]
    mass = float(found["mass"].value) if view.problem.has_order(0) else None
    centred = _centre(mean, second, found["mass"]) if uniform else second
    values, vectors = (a[..., ::-1] for a in np.linalg.eigh(centred.value))
    floor = noise_floor(centred, values, vectors, k, exact=True)
    if uniform:
        _check_variance(float(values[-1]), centred, mass or 1.0)
    kept = min(k, d)
    V, e = vectors[:, :kept], values[:kept]
    length = math.sqrt(max(float(np.sum(e)) / abs(mass or 1.0), SMALLEST_LENGTH**2))
    model = view.frame.basis
    center = np.asarray(mean.value) / (mass or 1.0) if uniform else np.zeros(d)
    frame = Frame(
        move_like(np.ascontiguousarray(V.T if d > k else np.eye(d)), model),
        move_like(center, model),
        scale=length,
        height=HEIGHT * length if uniform else None,
    )
    leak, shift = np.zeros((kept if d > k else d, d)), np.zeros(d)
    if d > k:
        off = np.eye(d) - V @ V.T
        # a direction below the noise floor contains no vector whose error matters
        inverse = np.where(e > floor, 1 / np.maximum(e, np.finfo(float).tiny), 0.0)
        leak = inverse[:, None] * (V.T @ centred.half_difference @ off)
        shift = np.asarray(mean.half_difference) @ off if uniform else shift
    inside = to_numpy(frame.basis)
    low = centred.map(lambda m: inside @ m @ inside.T / length**2)
    return DecodingFrame(frame, leak, shift, low, mean if uniform else None, mass)


def _check_variance(smallest: float, centred: SplitMean, mass: float) -> None:
    """Raise if the points vary less than the assumed noise."""
    noise = float(np.linalg.norm(centred.half_difference, 2))
    if smallest < -SHRUNK * mass and smallest < -4 * noise:
        raise InputError(
            "variance_too_small",
            "the points have variance {variance:.3g} in some direction, below the assumed noise "
            "variance of 1; divide them by the standard deviation of the noise, or use "
            "SphericalMixtureProblem(X, variance=...)",
            variance=1 + smallest / mass,
        )


def _first_moments(view: FramedRows) -> dict[str, SplitMean]:
    """Average the weights of order 0, the points, and M_2 about the origin."""
    d = view.problem.n_features
    orders = [0, 2] if view.problem.has_order(0) else [2]

    def measure(points: Array, weights: Weights) -> Sums:
        xp = namespace_of(points)
        c = weights[2]
        ones = xp.ones_like(points[:, 0])
        weighted = points if c is None else points * c[:, None]
        zeroth = weights.get(0)
        return {
            "mass": xp.sum(ones if zeroth is None else zeroth),
            "second_mass": xp.sum(ones if c is None else c),
            "mean": xp.sum(weighted, axis=0),
            "square": xp.matrix_transpose(weighted) @ points,
        }

    def second(means: Sums) -> Array:
        return to_numpy(means["square"]) - float(means["second_mass"]) * np.eye(d)

    builders = {
        "mass": lambda means: np.asarray(float(means["mass"])),
        "mean": lambda means: to_numpy(means["mean"]),
        "second": second,
    }
    return average(view, orders, measure, builders, "order 2", d)


def _centre(mean: SplitMean, second: SplitMean, mass: SplitMean) -> SplitMean:
    """Centre M_2 at the common mean, for each half."""
    c = mean.value / float(mass.value)

    def moved(i: int) -> Floats:
        cross = np.outer(mean.halves[i], c)
        square = float(mass.halves[i]) * np.outer(c, c)
        return np.asarray(second.halves[i] - cross - cross.T + square)

    return SplitMean((moved(0), moved(1)), second.counts)


N_STARTS = 3  # random orthogonal starts, whose agreement is reported as `spread`
TOLERANCE = 1e-8  # change of an entry: far below sampling errors
MAX_ITERATIONS = 200  # a safeguard (starting value)


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Orthogonal components of a symmetric array."""

    vectors: Floats  # (k, k), orthonormal columns u_i
    values: Floats  # (k,), λ_i = T(u_i, u_i, u_i)
    iterations: int
    # relative difference between the best and the worst objective of the starts; of the order of
    # rounding if all starts found the same components
    spread: float = 0.0

    @property
    def objective(self) -> float:
        """The objective of the iteration: the sum of squares of the values."""
        return float(np.sum(self.values**2))


def decompose(array: Floats, *, seed: int = 0, n_starts: int = N_STARTS) -> Decomposition:
    """Return the best of several random starts."""
    rng = np.random.default_rng(seed)
    k = len(array)
    found = []
    for _ in range(n_starts):
        start, _ = np.linalg.qr(rng.normal(size=(k, k)))
        found.append(refine(array, start))
    found.sort(key=lambda d: d.objective)
    best, worst = found[-1], found[0]
    spread = 1 - worst.objective / best.objective if best.objective > 0 else 0.0
    return Decomposition(best.vectors, best.values, best.iterations, spread)


def refine(array: Floats, start: Floats, tolerance: float = TOLERANCE) -> Decomposition:
    """Iterate from one orthogonal matrix until convergence."""
    vectors, iteration = start, 0
    while iteration < MAX_ITERATIONS:
        iteration += 1
        left, _, right = np.linalg.svd(_apply(array, vectors))
        moved = left @ right
        change = float(np.abs(moved - vectors).max())
        vectors = moved
        if change < tolerance:
            break
    values = np.sum(_apply(array, vectors) * vectors, axis=0)
    return Decomposition(vectors, values, iteration)


def _apply(array: Floats, vectors: Floats) -> Floats:
    """Return T(·, u_i, u_i) as columns."""
    k = len(array)
    once = (array.reshape(k * k, k) @ vectors).reshape(k, k, k)
    twice: Floats = np.einsum("abi,bi->ai", once, vectors)
    return twice


SMALLEST_HALF = 0.05  # of a whitened half: keeps its square root away from zero
SMALLEST_FIRST = 1e-12  # first coordinate of a unit vector: avoids division by zero
SMALLEST_SHARE = 1e-9  # of the largest weight in M_2, for a length to be estimated
CERTAIN = 3.0  # standard errors beyond which a sign is known: one-sided error 0.1 %
TINY = float(np.finfo(np.float64).tiny)  # avoids division by zero


@dataclass(frozen=True, eq=False)
class Eigenspace:
    """The top eigenspace of M_2r, which whitens and unwhitens components."""

    V: Floats  # (dim, k), top eigenvectors
    e: Floats  # (k,), their eigenvalues, positive
    second: SplitMean  # M_2r on the window

    @property
    def whitener(self) -> Floats:
        """W with Wᵀ M_2r W = I, of shape (dim, k)."""
        return self.V / np.sqrt(self.e)

    def unwhiten(self, found: Decomposition) -> Floats:
        """Return the components q_i = V √e u_i λ_i as columns (dim, k)."""
        components: Floats = (self.V * np.sqrt(self.e)) @ (found.vectors * found.values)
        return components

    def unwhiten_half(self, found: Decomposition, third: SplitMean, i: int) -> Floats:
        """Return the components estimated from half i of the rows, to first order.

        The half is whitened by itself, decomposed starting from the solution of all rows, and
        shifted by its part of the error of the eigenspace.
        """
        W = self.whitener
        g, R = np.linalg.eigh(W.T @ self.second.halves[i] @ W)
        g = np.maximum(g, SMALLEST_HALF)
        down, up = (R / np.sqrt(g)) @ R.T, (R * np.sqrt(g)) @ R.T
        array = np.einsum("abc,ax,by,cz->xyz", third.halves[i], down, down, down, optimize=True)
        mine = refine(array, found.vectors, tolerance=1e-6)
        scaled = mine.vectors * mine.values
        drift = self.second.half_difference @ W
        drift = (1 - 2 * i) * (drift - self.V @ (self.V.T @ drift))
        moved: Floats = (self.V * np.sqrt(self.e)) @ (up @ scaled) + drift @ scaled
        return moved


@dataclass(frozen=True, eq=False)
class VectorRecovery:
    """Recovers v from v ⊗ … ⊗ v, given in coordinates of a window."""

    pair: MomentPair
    standard: DecodingFrame

    def recover(self, components: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return vectors in the frame (k, p), and the distance of each component from a power.

        The direction is the right singular vector of a component as a matrix of its last slot
        against the others. With a height, its first coordinate determines length and sign.

        Parameters
        ----------
        components : array of shape (dim, k)
        low, high : array of shape (p, p) and (dim, dim)
            M_2 and M_2r, from which lengths are estimated if there is no height.
        """
        frame, r = self.standard.frame, self.pair.r
        k = components.shape[1]
        rows = move_like(np.ascontiguousarray(components.T), frame.basis)
        step = to_numpy(self.pair.window.step(rows)).reshape(k, -1, frame.p)
        _, sizes, right = np.linalg.svd(step, full_matrices=False)
        directions = right[:, 0, :]
        second = sizes[:, 1] if sizes.shape[1] > 1 else np.zeros(k)
        ratios = second / np.maximum(sizes[:, 0], TINY)
        if frame.height is not None:
            first = directions[:, :1]
            safe = np.where(np.abs(first) < SMALLEST_FIRST, SMALLEST_FIRST, first)
            return directions * (frame.height / frame.scale) / safe, ratios
        if r % 2:
            directions = directions * self._odd_sign(step, directions)
        if r > 1 and k <= frame.p * (frame.p + 1) // 2:
            lengths = self._lengths(directions, low, high)
        else:
            lengths = sizes[:, 0] ** (1 / r)
        return directions * lengths[:, None], ratios

    def weights(self, vectors: Floats, high: Floats) -> Floats:
        r"""Fit :math:`M_{2r} \approx \sum_i w_i v_i^{\otimes 2r}` with non-negative weights."""
        return _fit(self._powers(vectors), high)

    def vectors(self, coordinates: Floats, side: float) -> Floats:
        """Map to the problem's coordinates; ``side`` = ±1 adds a half's error of the frame."""
        frame = self.standard.frame
        v = to_numpy(frame.vectors(move_like(coordinates, frame.basis)))
        inside = (v - to_numpy(frame.center)) @ to_numpy(frame.basis).T
        return np.asarray(v + side * (inside @ self.standard.leak + self.standard.shift))

    def _lengths(self, directions: Floats, low: Floats, high: Floats) -> Floats:
        r"""Estimate lengths from two moments of low order.

        :math:`M_2` gives :math:`w_i \|v_i\|^2` and :math:`M_{2r}` gives :math:`w_i \|v_i\|^{2r}`
        along known directions; both are far less noisy than :math:`M_{3r}`.
        """
        near, far = _fit(directions, low), _fit(self._powers(directions), high)
        known = (near > SMALLEST_SHARE * np.max(near)) & (far > 0)
        squared = np.where(known, far, 1.0) / np.where(known, near, 1.0)
        return np.asarray(squared ** (0.5 / (self.pair.r - 1)))

    def _powers(self, vectors: Floats) -> Floats:
        """Return v ⊗ … ⊗ v with r slots, in coordinates of the window (k, dim)."""
        carried = np.ones((len(vectors), 1))
        for phi in self.pair.chain.steps:
            carried = to_numpy(outer_rows(carried, vectors) @ to_numpy(phi).T)
        eye = move_like(np.eye(self.pair.window.dim), self.pair.chain.noise)
        window = to_numpy(self.pair.window.step(eye))
        return np.asarray(outer_rows(carried, vectors) @ window.T)

    def _odd_sign(self, step: Floats, directions: Floats) -> Floats:
        """Sign of v from v^r, r odd: contract every slot with the direction."""
        carried = np.ones((len(directions), 1))
        for phi in self.pair.chain.steps:
            carried = to_numpy(outer_rows(carried, directions) @ to_numpy(phi).T)
        along = np.einsum("kap,ka,kp->k", step, carried, directions)
        return np.where(along < 0, -1.0, 1.0)[:, None]


def find_signs(
    view: FramedRows,
    pair: MomentPair,
    eigenspace: Eigenspace,
    found: Decomposition,
    vectors: Floats,
) -> Floats:
    r"""Return +1, −1, or 0 if unknown, for vectors recovered from even powers without a height.

    :math:`M_{r+1}` on (whitened U_r) × R^p is :math:`\sum_i \sqrt{w_i}\, u_i v_i^\top`: its rows
    along :math:`u_i` are the vectors with their signs. If the data carry no information about
    that order, :math:`M_1 = \sum_i w_i v_i` determines the signs of independent vectors.
    """
    k, r = len(vectors), pair.r
    if view.frame.height is not None or r % 2 == 1:
        return np.ones(k)
    problem = view.problem
    if problem.has_order(r + 1):
        rows = move_like(np.ascontiguousarray(eigenspace.whitener.T), view.frame.noise)
        chain = pair.chain.extend(pair.window.step(rows))
        mixed = mean_moments(view, chain, [(1, r)])[1, r].map(to_numpy)
        along = mixed.map(lambda m: np.sum((m @ found.vectors).T * vectors, axis=1))
    elif problem.has_order(1) and k <= view.frame.p:
        first = mean_moments(view, pair.chain, [(0, 1)])[0, 1].map(to_numpy)
        along = first.map(lambda m: np.linalg.lstsq(vectors.T, m[0], rcond=None)[0])
    else:
        return np.zeros(k)
    noise = math.sqrt(float(np.mean(along.half_difference**2)))
    return np.where(np.abs(along.value) > CERTAIN * noise, np.sign(along.value), 0.0)


def _fit(images: Floats, moment: Floats) -> Floats:
    """Fit ``moment ≈ Σ w_i q_i q_iᵀ`` by least squares with w ≥ 0, for rows q_i of ``images``.

    The matrix of the normal equations holds the squares of inner products; columns are scaled
    to one, so that vectors of very different lengths fit equally well.
    """
    k = len(images)
    squares = (images @ images.T) ** 2
    target = np.einsum("ka,ab,kb->k", images, moment, images)
    scale = np.sqrt(np.maximum(np.diag(squares), TINY))
    factor = cholesky(squares / np.outer(scale, scale) + 1e-10 * np.eye(k), lower=True)
    solved, _ = nnls(factor.T, solve_triangular(factor, target / scale, lower=True))
    return np.asarray(solved / scale)
