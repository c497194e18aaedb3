r"""F/G of a mixture as a truncated Hermite expansion in compressed form (Lemma 4.17).

:math:`F/G = \sum_t \langle T_t, H_t(x) \rangle` with
:math:`T_t = M_t/\sqrt{t!}`, G the standard Gaussian at the centre of the mixture F.

One moment of vectors :math:`(h, \beta_i)` holds those of all lower orders. A slot of
:math:`(h, \beta)^{\otimes m}` holds the constant h or the vector :math:`\beta`; the *grade* of an
entry is the number of its slots that hold the vector. Images and answers are kept by grade.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import array_api_compat
import numpy as np
from scipy.special import roots_laguerre

from implicitmoments.arrays import (
    Array,
    Floats,
    descending_eigh,
    dot_rows,
    eye_like,
    move_like,
    namespace_of,
    outer_rows,
    to_numpy,
)
from implicitmoments.moments import HermiteProblem, PaperMoments, implicit_moments
from implicitmoments.moments.chain import (
    Frame,
    SymmetricChain,
    open_window,
    split_slot,
)
from implicitmoments.moments.closed_form import (
    OVERSAMPLING,
    BalancedMoments,
    contracted_forms,
    split_order,
)
from implicitmoments.moments.form_means import even_mean, mean_moments
from implicitmoments.moments.hermite_problem import all_rows
from implicitmoments.moments.mean_span import SphericalSpan
from implicitmoments.problems import SphericalMixtureProblem
from implicitmoments.projections import hermite_dense
from implicitmoments.rows import Rows, blocks
from implicitmoments.rows.fold import DEFAULT_BUDGET

# Least eigenvalue of the compressed symmetriser in a window, beyond its k most symmetric
# directions. The closed form holds on symmetric tensors; what others add to it is bias, which
# grows with the order. Powers of means are symmetric up to their sampling error.
LEAST_SYMMETRY = 0.99


class Expansion(Protocol):
    """A polynomial in the coordinates that estimates F/G."""

    @property
    def degree(self) -> int:
        """Highest order that is kept."""

    def __call__(self, coordinates: Array) -> Array:
        """Evaluate at rows of coordinates (n, p), in their library and on their device."""


def kind_of(x: Array) -> dict[str, Any]:
    """Return the precision and the device of an array."""
    return {"dtype": x.dtype, "device": array_api_compat.device(x)}


def evaluate_blocks(function: Callable[[Array], Array], points: Array, width: int) -> Array:
    """Evaluate a function of rows block by block; it computes ``width`` numbers per row."""
    size = DEFAULT_BUDGET.rows_per_block(width, points)
    pieces = blocks(range(int(points.shape[0])), size)
    found = [function(points[piece.start : piece.stop, :]) for piece in pieces]
    return found[0] if len(found) == 1 else namespace_of(points).concat(found)


def graded_width(chain: SymmetricChain) -> int:
    """Return the numbers per row that images by grade take, with the largest outer product."""
    images = sum((n + 1) * chain.dim(n) for n in range(chain.order + 1))
    return images + max(chain.dim(n) for n in range(chain.order)) * chain.p


def graded_images(chain: SymmetricChain, points: Array, height: float) -> list[Array]:
    r"""Carry rows (h, x) along a chain; return arrays (n + 1, n_rows, k_n), by order n and grade.

    The recursion :math:`p_n = \phi_n(p_{n-1} \otimes (h, x)) - (n-1)\, C_n p_{n-2}` of the
    closed form, where the constant leaves the grade as it is, a point raises it by one and a
    contraction, which takes two slots of noise, by two. The chain is over :math:`R^{1+p}`, without
    noise in the constant, and in the library of the points.
    """
    xp, rows, like = namespace_of(points), int(points.shape[0]), kind_of(points)
    carried = [xp.ones((1, rows, 1), **like)]
    for n, step in enumerate(chain.steps, start=1):
        split = split_slot(step, chain.p)  # (k_n, k_{n-1}, 1 + p)
        k = int(split.shape[0])
        flat = xp.matrix_transpose(xp.reshape(split[:, :, 1:], (k, -1)))
        before = carried[-1]
        image = xp.zeros((n + 1, rows, k), **like)
        image[:n, :, :] = before @ xp.matrix_transpose(height * split[:, :, 0])
        for a in range(n):
            image[a + 1, :, :] += outer_rows(before[a, :, :], points) @ flat
        if n > 1:
            back = xp.matrix_transpose((n - 1) * chain.contractions[n - 2])
            image[2:, :, :] -= carried[-2] @ back
        carried.append(image)
    return carried


def graded_answers(
    chain: SymmetricChain, images: list[Array], a: int, b: int, form: Array
) -> Array:
    r"""Return the terms of the expansion of a tensor of order m = a + b, by grade.

    For :math:`(h', \beta)^{\otimes m}` and images of (h, x), entry g of a row is
    :math:`(h h')^{m-g} \langle \beta^{\otimes g}, He_g(x) \rangle / g!`. The result has the shape
    (m + 1, n_rows).
    """
    xp = namespace_of(images[0])
    answers = xp.zeros((a + b + 1, images[0].shape[1]), **kind_of(images[0]))
    for n, matrix in enumerate(contracted_forms(chain, a, b, form)):
        left, right = images[a - n], images[b - n]
        for i in range(int(left.shape[0])):
            pulled = left[i, :, :] @ matrix
            for j in range(int(right.shape[0])):
                answers[i + j + 2 * n, :] += dot_rows(pulled, right[j, :, :])
    for g in range(a + b + 1):  # so many choices of slots have a grade
        answers[g, :] /= math.comb(a + b, g) * math.factorial(g)
    return answers


@dataclass(frozen=True)
class Constant:
    """The expansion of one component: F is G."""

    degree: int

    def __call__(self, coordinates: Array) -> Array:
        """Return ones."""
        return namespace_of(coordinates).ones(coordinates.shape[0], **kind_of(coordinates))


@dataclass(frozen=True, eq=False)
class JointExpansion:
    r"""All orders up to n from one moment of rank k.

    With a constant h before every mean, :math:`\tilde\mu_i = (h, \mu_i)`, the one moment
    :math:`\tilde M_n = \sum_i w_i \tilde\mu_i^{\otimes n}` contains :math:`M_0, \ldots, M_n` and
    has rank k between halves of its slots, so that lower orders, which are less noisy, help to
    find the subspaces of higher ones. A query (1/h, x) returns them by grade.

    :math:`h = \sqrt n` makes distances between the :math:`\tilde M_n` nearly those in L2(G):
    :math:`(1 + \langle\mu, \nu\rangle/n)^n \approx e^{\langle\mu, \nu\rangle}`.
    """

    degree: int  # the order n
    moments: BalancedMoments  # :math:`\tilde M_n` as one matrix

    def __call__(self, coordinates: Array) -> Array:
        """Evaluate at rows of coordinates (n, p)."""
        moments = self.moments.like(coordinates)
        chain = moments.chain
        width = sum(chain.dim(r) * (1 + chain.p) for r in range(chain.order + 1))
        return evaluate_blocks(partial(self._evaluate, moments), coordinates, width)

    def _evaluate(self, moments: BalancedMoments, coordinates: Array) -> Array:
        r"""Integrate answers to queries (s/h, x) over s.

        The answer to (s/h, x) is :math:`\sum_t \binom{n}{t} s^{n-t} \langle He_t(x), M_t
        \rangle`, and :math:`\int_0^\infty s^{n-t} e^{-s} ds = (n-t)!` makes it n! times the
        expansion; so many nodes integrate a polynomial of degree n exactly.
        """
        n, scale = self.degree, moments.frame.scale
        xp = namespace_of(coordinates)
        first = xp.ones_like(coordinates[:, :1]) / (moments.frame.height or 1.0)
        found = xp.zeros_like(coordinates[:, 0])
        for s, weight in zip(*roots_laguerre(n // 2 + 1), strict=True):
            queries = xp.concat([float(s) * first, coordinates], axis=1) / scale
            found = found + float(weight) * moments.hermite(queries, [n])[n]
        return found / math.sqrt(math.factorial(n))


@dataclass(frozen=True, eq=False)
class OrderByOrder:
    """Every order by a separate run of the paper's algorithm.

    Orders 0 and 1 are known: weights sum to 1, and the rows are centred.
    """

    degree: int
    orders: tuple[PaperMoments, ...]  # of orders 2, …, degree
    n_draws: int | None  # auxiliary Gaussians that a query is averaged over; exact by None
    seed: int

    def __call__(self, coordinates: Array) -> Array:
        """Evaluate at rows of coordinates (n, p)."""
        found = Constant(0)(coordinates)
        for moment in self.orders:
            term = moment.hermite(coordinates, n_draws=self.n_draws, random_state=self.seed)
            found = found + term / math.sqrt(math.factorial(moment.order))
        return found


@dataclass(frozen=True, eq=False)
class DenseExpansion:
    """The dense twin: explicit tensors, for small degrees and few coordinates."""

    degree: int
    tensors: tuple[Floats, ...]  # :math:`T_t` for t = 0, …, degree

    def __call__(self, coordinates: Floats) -> Floats:
        """Evaluate at rows of coordinates (n, p)."""
        found, n = np.zeros(len(coordinates)), len(coordinates)
        for t, tensor in enumerate(self.tensors):
            found += to_numpy(hermite_dense(coordinates, t)).reshape(n, -1) @ tensor.ravel()
        return found


def expand_dense(coordinates: Floats, degree: int) -> DenseExpansion:
    """Average :math:`T_t = E[H_t(x)]` (Lemma 4.17) over rows of coordinates (n, p)."""
    tensors = (np.mean(hermite_dense(coordinates, t), axis=0) for t in range(degree + 1))
    return DenseExpansion(degree, tuple(map(np.asarray, tensors)))


def expand(
    rows: Rows,
    span: SphericalSpan,
    k: int,
    degree: int,
    *,
    method: str = "closed_form",
    n_draws: int | None = None,
    seed: int = 0,
) -> Expansion:
    """Estimate the expansion of F/G up to a degree, jointly or by "paper" order by order."""
    if span.p == 0 or degree < 2:  # centred rows have no first order
        return Constant(degree)
    if method == "paper":
        problem = HermiteProblem(rows.mapped(span.center, span.basis.T / span.sigma))
        runs = (
            implicit_moments(problem, n_components=k, order=t, method="paper", random_state=seed)
            for t in range(2, degree + 1)
        )
        return OrderByOrder(degree, tuple(runs), n_draws, seed)
    return _expand_jointly(rows, span, k, degree)


def _expand_jointly(rows: Rows, span: SphericalSpan, k: int, n: int) -> JointExpansion:
    """Find subspaces of powers of (h, μ_i), and the moment of order n on the last of them."""
    problem = SphericalMixtureProblem(rows, variance=span.variance, center=span.center)
    whole = all_rows(problem)
    like = whole.frame.basis  # in the library and on the device of the rows
    scale = math.sqrt(n + span.squared_radius)  # the length of the hidden vectors
    origin = move_like(np.zeros(rows.n_features), like)
    frame = Frame(move_like(span.basis, like), origin, scale=scale, height=math.sqrt(n))
    view = whole.in_frame(frame)
    chain = SymmetricChain((eye_like(frame.p, like),), frame.noise)
    a, b = split_order(n)
    for r in range(2, b + 1):
        window = open_window(chain, k, LEAST_SYMMETRY)
        _, vectors = descending_eigh(even_mean(view, chain, window).value)
        # below the last order more than k directions are kept: what is lost cannot be regained
        width = min(k if r == b else OVERSAMPLING * k, window.dim)
        top = namespace_of(vectors).matrix_transpose(vectors[:, :width])
        chain = chain.extend(window.step(top))
    form = mean_moments(view, chain, [(a, b)])[a, b].value
    # in main memory, in double precision
    return JointExpansion(n, BalancedMoments(frame, chain, {(a, b): form}).like(np.zeros(1)))
