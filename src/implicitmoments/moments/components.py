r"""Components: hidden vectors and weights decoded from moments of orders 2, 4 and 6.

This goes beyond the paper. With :math:`q_i` the coordinates of :math:`v_i v_i^\top`, the moments
:math:`M_4 = \sum_i w_i q_i q_i^\top` and :math:`M_6 = \sum_i w_i q_i^{\otimes 3}` determine up to
p (p + 1)/2 vectors in p dimensions: whitened by :math:`M_4`, the components of :math:`M_6` are
orthogonal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls
from scipy.spatial import KDTree

from implicitmoments.arrays import (
    TINY,
    Array,
    Floats,
    move_like,
    namespace_of,
    pair_rows,
    place_of_pair,
    sorted_products,
    to_numpy,
)
from implicitmoments.moments.chain import (
    MARGIN,
    Frame,
    SplitMean,
    SymmetricChain,
    SymmetricMatrices,
    leading_subspace,
    sum_squares,
)
from implicitmoments.moments.implicit import (
    FramedRows,
    Weights,
    check_orders,
    estimate_moments,
)
from implicitmoments.moments.problems import HermiteProblem
from implicitmoments.notes import Note, Notes
from implicitmoments.rows import Sums

SMALL = 1e-9  # relative: below it numbers are rounding


@dataclass(frozen=True, eq=False)
class Components:
    """Weights and vectors of the resolved components, the strongest first.

    Attributes
    ----------
    weights : array of shape (k,)
    vectors : array of shape (k, n_features)
        In the user's coordinates. Unresolved components hold NaN in both.
    resolved : array of bool of shape (k,)
    errors : array of shape (k,)
        Standard error of each vector, as a length, from two halves of the rows.
    notes : Notes
        What the moments leave open.
    guesses : array of shape (k, n_features)
        All vectors as estimated, resolved or not: starting values for a local search only.
    spectrum : array
        Eigenvalues of :math:`M_4`, in the user's units; empty if nothing was decoded.
    floor : float
        Their noise floor.

    See Also
    --------
    ImplicitMoments : The moments that are decoded.

    Examples
    --------
    >>> import implicitmoments as im
    >>> X, _ = im.datasets.make_spherical_mixture(
    ...     10_000, 4, 3, radius=5.0, separation=4.0, random_state=0
    ... )
    >>> problem = im.moments.SphericalMixtureProblem(X)
    >>> found = im.implicit_moments(problem, n_components=4, order=1).components()
    >>> found.identified, round(float(found.weights.sum()), 1)
    (True, 1.0)
    """

    weights: Floats
    vectors: Floats
    resolved: np.ndarray[Any, np.dtype[np.bool_]]
    errors: Floats
    notes: Notes
    guesses: Floats
    spectrum: Floats
    floor: float

    @property
    def identified(self) -> bool:
        """Whether every component is resolved."""
        return bool(self.resolved.all())

    @property
    def gap(self) -> float:
        """The k-th eigenvalue of M_4 over the noise floor; above 1.5 decoding rarely fails."""
        last = self.spectrum[len(self.weights) - 1 :]
        if len(last) and self.floor > 0:
            return float(last[0]) / self.floor
        return math.inf if self.identified else 0.0

    def __repr__(self) -> str:
        head = f"<{int(self.resolved.sum())} of {len(self.resolved)} components resolved>"
        return "\n".join((head, *map(str, self.notes)))


def second_moment_floor(n_features: int, n_rows: float) -> float:
    r"""Return the largest eigenvalue of :math:`E[x x^T] - I` due to noise of variance 1.

    The edge of the Marchenko–Pastur law, :math:`(1 + \sqrt{d/n})^2 - 1`.
    """
    return (1 + math.sqrt(n_features / max(n_rows, 1.0))) ** 2 - 1


def find_components(problem: HermiteProblem, k: int, seed: int = 0) -> Components:
    r"""Resolve k components by :math:`M_4` and :math:`M_6`.

    A single component of a problem with the same weights at all orders is the mean.
    """
    check_orders(problem, [2, 4, 6])
    view = FramedRows.of(problem)
    if problem.reduces:  # the part of the weights due to lower orders is noise
        view = replace(view, lower=estimate_moments(view, k, 4))
    low = find_frame(view, k)
    if k == 1 and problem.uniform:
        vector, one, two = (problem.original_vectors(to_numpy(f.center)[None]) for f in low.frames)
        error, sure = np.linalg.norm(one - two, axis=1) / 2, np.ones(1, dtype=bool)
        return Components(np.ones(1), vector, sure, error, Notes(), vector, np.empty(0), 0.0)
    # squares of vectors in a space of fewer dimensions are linearly dependent
    room = math.comb(low.rank + problem.uniform + 1, 2)
    largest = 4_200  # the square of the number of coordinates is held in memory
    if k <= math.comb(low.frames[0].p + 1, 2) <= largest:
        return decode(replace(view, frame=low.frames[0]), low, k, room, seed)
    nan, lost = np.full((k, problem.n_features + 1), np.nan), np.zeros(k, dtype=bool)
    values = {"which": [*range(k)], "room": min(room, largest)}
    notes = Notes([Note("components_unresolved", values)])
    return Components(nan[:, 0], nan[:, 1:], lost, nan[:, 0], notes, nan[:, 1:], np.empty(0), 0.0)


def decode(rows: FramedRows, low: DecodingFrame, k: int, room: int, seed: int) -> Components:
    """Decode k components from moments of orders 4 and 6; at most ``room`` can be resolved."""
    # 1. M_4, and the whitening of its top k directions V.
    chain = SymmetricChain.whole_of(rows.frame).like(rows.problem.rows.like)
    window, problem = SymmetricMatrices.over(chain), rows.problem
    moment = rows.positive_moment(window)
    (vectors, top), fourth = leading_subspace(moment, 4, k), moment.map(to_numpy)
    roots = np.sqrt(np.maximum(top.spectrum[:k], SMALL * max(top.spectrum[0], SMALL)))
    V = to_numpy(vectors)[:, :k]
    # 2. The whitened M_6, and its orthogonal components.
    whitened = window.keep(move_like(np.ascontiguousarray((V / roots).T), window.noise))
    sixth = whitened_sixth(rows, window, whitened, fourth)
    U, values = decompose(sixth.value, seed)
    # 3. Each is the square of a vector; also of either half of the rows, up to sign.
    coordinates, ratios = read_vectors(low, window, (V * roots) @ (U * values), fourth.value)
    signs = find_signs(rows, whitened, U, coordinates)
    sides = np.where(signs < 0, -1.0, 1.0)[:, None]
    vectors, halves = problem.original_vectors(low.frames[0].vectors(sides * coordinates)), []
    for own, array, frame in zip(fourth.halves, sixth.halves, low.frames[1:], strict=True):
        tensors = half_components(V, roots, U, own, fourth.value, array)
        found = read_vectors(low, window, tensors, own)[0]
        same = np.sum(found * coordinates, axis=1, keepdims=True) >= 0
        turned = np.where(same, sides, -sides) * found
        halves.append(problem.original_vectors(frame.vectors(turned)))
    # 4. Weights by least squares, and errors from the halves; the strongest component first.
    unit, errors = rows.frame.scale**4, np.linalg.norm(halves[0] - halves[1], axis=1) / 2
    top = top.scaled(unit)
    weights = fit_squares(squares_of(window, coordinates), fourth.value)
    strengths = weights * np.sum(coordinates**2, axis=1) ** 2 * unit
    order = np.argsort(-strengths, kind="stable")  # independent of the random start
    weights, vectors, errors = weights[order], vectors[order], errors[order]
    # 5. Components that are squares, beyond the noise, and apart from the others are resolved.
    is_square, is_signal = ratios < 0.15, strengths > 1.05 * top.floor
    nearest = np.asarray(KDTree(vectors).query(vectors, 2)[0])[:, 1]  # infinite for a single one
    resolved = (is_square & is_signal)[order] & (errors < 0.3 * nearest) & (k <= room)
    left = sixth.value - np.einsum("i,ai,bi,ci->abc", values, U, U, U, optimize=True)
    noise = max(float(np.linalg.norm(sixth.half_difference)), TINY)
    ratio = float(top.spectrum[k] / max(top.floor, TINY)) if k < len(top.spectrum) else 0.0
    notes = Notes()
    if min(ratio, float(np.linalg.norm(left)) / noise) > 1.5:
        notes.append(Note("more_components_likely", {"k": k, "ratio": ratio}))
    if not resolved.all():
        lost = np.flatnonzero(~resolved).tolist()
        notes.append(Note("components_unresolved", {"which": lost, "room": room}))
    unsigned = np.flatnonzero(resolved & (signs == 0)[order]).tolist()
    if unsigned:
        notes.append(Note("directions_not_identified", {"which": unsigned, "what": "signs"}))
    shown = np.where(resolved, weights, np.nan), np.where(resolved[:, None], vectors, np.nan)
    return Components(*shown, resolved, errors, notes, vectors, top.spectrum, top.floor)


class DecodingFrame(NamedTuple):
    """The frame in which components are decoded, and low moments in it."""

    # of all rows, and with the span and centre of two halves of them: the same coordinates, but
    # for the parts of span and centre that are off the frame of all rows
    frames: tuple[Frame, Frame, Frame]
    second: Floats  # M_2 in the frame, without the height
    rank: int  # directions of M_2 above its noise


def find_frame(view: FramedRows, k: int) -> DecodingFrame:
    r"""Reduce to the span of the top k directions of :math:`M_2`, if there are more features.

    If all orders have the same weights, points are centred and have a constant first coordinate,
    near :math:`\sqrt{tr\, M_2}`: hidden vectors become (height, v), so that even moments determine
    signs and short vectors too.
    """
    problem, d = view.problem, view.problem.n_features
    splits = [s for s in ((0, 1), (1, 1)) if problem.has_order(sum(s))]
    forms = view.forms(SymmetricChain.whole_of(view.frame), splits)
    second, first = forms[1, 1].map(to_numpy), SplitMean((np.zeros(d), np.zeros(d)), (1, 1))
    if problem.uniform:
        first = forms[0, 1].map(lambda mean: to_numpy(mean)[0])
        c = first.value
        second = second.map(lambda m, own: m - np.outer(own, c) - np.outer(c, own - c), first)
    vectors, top = leading_subspace(second, 2, k)
    V, e = vectors[:, :k], top.spectrum[:k]
    basis, length = V.T if d > k else np.eye(d), math.sqrt(max(float(np.sum(e)), 1e-6))
    height = 0.8 * length if problem.uniform else None  # from 0.6 to 1 it matters little
    # a direction below the noise floor contains no vector whose error matters
    clear, off = e > MARGIN * top.floor, np.eye(d) - basis.T @ basis
    inverse = np.where(clear, 1 / np.maximum(e, TINY), 0.0)[:, None]
    zero = np.zeros((int(problem.uniform), d))
    frames = [Frame(np.vstack([zero, basis]), first.value, length, height)]
    for mean, moment in zip(first.halves, second.halves, strict=True):
        turned = basis + inverse * (V.T @ moment @ off) if d > k else basis
        center = first.value + off @ (mean - first.value)
        frames.append(Frame(np.vstack([zero, turned]), center, length, height))
    inside = basis @ second.value @ basis.T / length**2
    return DecodingFrame((frames[0], frames[1], frames[2]), inside, top.rank)


def whitened_sixth(
    rows: FramedRows, window: SymmetricMatrices, whitened: SymmetricChain, fourth: SplitMean
) -> SplitMean:
    r"""Average M_6 through k symmetric matrices, the last step of a chain, (k, k, k).

    With the matrices :math:`A_a` and :math:`p_a = x^\top A_a x - tr(A_a J)` it is the
    symmetrisation of

    .. math:: E[p_a p_b p_c] + tr(A_a J A_b H_c) - 6\, tr(A_a J A_b J)\, tr(A_c M_2), \quad
       H_c = -12\, G_c - 24\, J A_c M_2 - 8\, m_0\, J A_c J, \quad G_c = M_4 A_c,

    every mean with weights :math:`c_6`, and :math:`m_0 = E[c_6]`. If all orders have the same
    weights, ``fourth`` is :math:`M_4`.
    """
    k, uniform = whitened.steps[1].shape[0], rows.problem.uniform
    step = to_numpy(window.steps[1])
    A, J = to_numpy(whitened.steps[1]).reshape(k, window.p, -1), to_numpy(window.noise)

    def measure(points: Array, weights: Weights) -> Sums:
        p, c = whitened.images(points)[2], weights[6]
        sums = {"cube": sorted_products(p, p, [1] * k, c), **sum_squares(points, c)}
        if not uniform:
            weighted = p if c is None else p * c[:, None]
            sums["products"] = namespace_of(p).matrix_transpose(weighted) @ pair_rows(points)
        return sums

    def assemble(means: Sums, fourth: Floats) -> Floats:
        m = {name: np.asarray(to_numpy(mean), dtype=np.float64) for name, mean in means.items()}
        a, b, c = np.sort(np.indices((k, k, k)), axis=0)
        cube = m["cube"][place_of_pair(k - 1 - b, k - 1 - a, k), c]
        M2, AJ, flat = m["second"] - m["mass"] * J, A @ J, A.reshape(k, -1).T
        one, two, mean = J @ A @ M2, m["mass"] * J @ AJ, np.tensordot(A, M2)
        if uniform:
            G = (flat.T @ step.T @ fourth @ step).reshape(A.shape)
        else:
            products = (m["products"] * to_numpy(window.factors)) @ step
            lower = mean[:, None, None] * J + 2 * (one + one.transpose(0, 2, 1) + two)
            G = products.reshape(A.shape) - lower
        H = -12 * G - 24 * one - 8 * two
        traces = np.tensordot(AJ, AJ, axes=((1, 2), (2, 1)))[:, :, None]
        terms = np.stack([(H @ left).reshape(k, -1) @ flat for left in AJ])
        return symmetrise(cube + terms - 6 * traces * mean)

    return rows.average([6], measure, window.width).map(assemble, fourth)


def symmetrise(array: Floats) -> Floats:
    """Average a three-way array over the permutations of its axes."""
    return np.asarray(sum(array.transpose(order) for order in permutations(range(3))) / 6)


def decompose(array: Floats, seed: int = 0, n_starts: int = 3) -> tuple[Floats, Floats]:
    """Return orthonormal columns u_i (k, k) and T(u_i, u_i, u_i) of a symmetric array.

    The best of several random starts, by the sum of squares of the values.
    """
    rng, k = np.random.default_rng(seed), len(array)
    starts = (np.linalg.qr(rng.normal(size=(k, k)))[0] for _ in range(n_starts))
    found = [refine(array, start) for start in starts]
    return max(found, key=lambda one: float(np.sum(one[1] ** 2)))


def refine(array: Floats, start: Floats) -> tuple[Floats, Floats]:
    """Iterate ``U ← polar([T(·, u_i, u_i)]_i)`` from one orthogonal matrix until convergence."""
    vectors, k = start, len(array)

    def apply(vectors: Floats) -> Floats:
        once = (array.reshape(k * k, k) @ vectors).reshape(k, k, k)
        return np.asarray(np.einsum("abi,bi->ai", once, vectors))

    for _ in range(50):  # about 12 are needed; more only where noise exceeds the components
        left, _, right = np.linalg.svd(apply(vectors))
        before, vectors = vectors, left @ right
        if float(np.abs(vectors - before).max()) < 1e-8:
            break
    return vectors, np.sum(apply(vectors) * vectors, axis=0)


def half_components(
    V: Floats, roots: Floats, U: Floats, own: Floats, fourth: Floats, sixth: Floats
) -> Floats:
    """Return the components (dim, k) of one half of the rows, to first order.

    ``own`` and ``sixth`` are the moments of the half, ``fourth`` is that of all rows, whose top
    eigenvectors are V. The half is whitened by itself, decomposed starting from the solution of
    all rows, and shifted by its error of the eigenspace.
    """
    W = V / roots
    g, R = np.linalg.eigh(W.T @ own @ W)
    g = np.maximum(g, 0.05)  # keeps its square root away from zero
    down, up = (R / np.sqrt(g)) @ R.T, (R * np.sqrt(g)) @ R.T
    array = np.einsum("abc,ax,by,cz->xyz", sixth, down, down, down, optimize=True)
    vectors, values = refine(array, U)
    drift = (own - fourth) @ W
    return np.asarray(((V * roots) @ up + drift - V @ (V.T @ drift)) @ (vectors * values))


def read_vectors(
    low: DecodingFrame, window: SymmetricMatrices, tensors: Floats, fourth: Floats
) -> tuple[Floats, Floats]:
    r"""Return vectors (k, p) of their squares (dim, k), and second over first eigenvalues.

    With a height, the first coordinate of a direction determines length and sign. Otherwise
    :math:`M_2` gives :math:`w_i \|v_i\|^2` and :math:`M_4` gives :math:`w_i \|v_i\|^4` along
    known directions; both are far less noisy than :math:`M_6`.
    """
    matrices = (tensors.T @ to_numpy(window.steps[1])).reshape(-1, window.p, window.p)
    left, sizes, _ = np.linalg.svd(matrices, hermitian=True)
    directions, ratios = left[:, :, 0], sizes[:, 1:2].sum(axis=1) / np.maximum(sizes[:, 0], TINY)
    height = low.frames[0].height
    if height is not None:
        first = np.where(np.abs(directions[:, :1]) < SMALL, SMALL, directions[:, :1])
        return directions * (height / low.frames[0].scale) / first, ratios
    near = fit_squares(directions, low.second)
    far = fit_squares(squares_of(window, directions), fourth)
    known = (near > SMALL * np.max(near)) & (far > 0)
    squared = np.where(known, far, 1.0) / np.where(known, near, 1.0)
    return directions * np.sqrt(squared)[:, None], ratios


def squares_of(window: SymmetricMatrices, vectors: Floats) -> Floats:
    """Return v vᵀ in coordinates of the window, (k, dim)."""
    return np.asarray(pair_rows(vectors) * to_numpy(window.factors))


def find_signs(rows: FramedRows, whitened: SymmetricChain, U: Floats, vectors: Floats) -> Floats:
    r"""Return +1, −1, or 0 if unknown, for vectors recovered from even powers without a height.

    :math:`M_3` on R^p × whitened squares is :math:`\sum_i \sqrt{w_i}\, v_i u_i^\top`: along
    :math:`u_i` it has the vectors with their signs. If the data carry no information about
    that order, :math:`M_1 = \sum_i w_i v_i` determines the signs of independent vectors.
    """
    if rows.frame.height is not None:
        return np.ones(len(vectors))
    if rows.problem.has_order(3):
        third = rows.forms(whitened, [(1, 2)])[1, 2]
        along = third.map(lambda m: np.sum((to_numpy(m) @ U).T * vectors, axis=1))
    elif rows.problem.has_order(1) and len(vectors) <= rows.frame.p:
        first = rows.forms(whitened, [(0, 1)])[0, 1]
        along = first.map(lambda m: np.linalg.lstsq(vectors.T, to_numpy(m)[0], rcond=None)[0])
    else:
        return np.zeros(len(vectors))
    noise_of = math.sqrt(float(np.mean(along.half_difference**2)))
    # beyond three standard errors a sign is known
    return np.where(np.abs(along.value) > 3 * noise_of, np.sign(along.value), 0.0)


def fit_squares(images: Floats, moment: Floats) -> Floats:
    """Fit ``moment ≈ Σ w_i q_i q_iᵀ`` by least squares with w ≥ 0, for rows q_i of ``images``.

    The matrix of the normal equations holds the squares of inner products; columns are scaled
    to one, so that vectors of very different lengths fit equally well.
    """
    squares = (images @ images.T) ** 2
    target = np.einsum("ka,ab,kb->k", images, moment, images, optimize=True)
    scale = np.sqrt(np.maximum(np.diag(squares), TINY))
    normal = squares / np.outer(scale, scale) + 1e-10 * np.eye(len(images))
    factor = cholesky(normal, lower=True)
    solved, _ = nnls(factor.T, solve_triangular(factor, target / scale, lower=True))
    return np.asarray(solved / scale)
