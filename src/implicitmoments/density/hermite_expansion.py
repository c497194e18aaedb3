r"""F/G of a mixture as a truncated Hermite expansion in compressed form (Lemma 4.17).

:math:`F/G = \sum_t \langle T_t, H_t(x) \rangle` with
:math:`T_t = M_t/\sqrt{t!}`, G the standard Gaussian at the centre of the mixture F.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import array_api_compat
import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    descending_eigh,
    eye_like,
    move_like,
    namespace_of,
    to_numpy,
)
from implicitmoments.mixture.mean_span import SphericalSpan
from implicitmoments.moments import HermiteProblem, PaperMoments, implicit_moments
from implicitmoments.moments.chain import SymmetricChain, open_window
from implicitmoments.moments.closed_form import (
    OVERSAMPLING,
    BalancedMoments,
    even_mean,
    mean_moments,
    split_order,
)
from implicitmoments.moments.framed_rows import Frame, all_rows
from implicitmoments.problems import SphericalMixtureProblem
from implicitmoments.projections import hermite_dense
from implicitmoments.rows import Rows, blocks
from implicitmoments.rows.fold import DEFAULT_BUDGET


class Expansion(Protocol):
    """A polynomial in the coordinates that estimates F/G."""

    @property
    def degree(self) -> int:
        """Highest order that is kept."""

    def __call__(self, coordinates: Array) -> Array:
        """Evaluate at rows of coordinates (n, p), in their library and on their device."""


def ones_like_rows(x: Array, width: int | None = None) -> Array:
    """Return a one for each row of an array, or a row of ones, in its library."""
    n, device = int(x.shape[0]), array_api_compat.device(x)
    shape = (n,) if width is None else (n, width)
    return namespace_of(x).ones(shape, dtype=x.dtype, device=device)


def evaluate_blocks(function: Callable[[Array], Array], points: Array, width: int) -> Array:
    """Evaluate a function of rows block by block; it computes ``width`` numbers per row."""
    size = DEFAULT_BUDGET.rows_per_block(width, points)
    pieces = blocks(range(int(points.shape[0])), size)
    found = [function(points[piece.start : piece.stop, :]) for piece in pieces]
    return found[0] if len(found) == 1 else namespace_of(points).concat(found)


@dataclass(frozen=True)
class Constant:
    """The expansion of one component: F is G."""

    degree: int

    def __call__(self, coordinates: Array) -> Array:
        """Return ones."""
        return ones_like_rows(coordinates)


@dataclass(frozen=True, eq=False)
class JointExpansion:
    r"""All orders up to n from one moment of rank k.

    With a constant h before every mean, :math:`\tilde\mu_i = (h, \mu_i)`, the one moment
    :math:`\tilde M_n = \sum_i w_i \tilde\mu_i^{\otimes n}` contains :math:`M_0, \ldots, M_n` and
    has rank k between halves of its slots, so that lower orders, which are less noisy, help to
    find the subspaces of higher ones. For a point (s/h, x),

    .. math:: \langle He_n(s/h, x), \tilde M_n \rangle
       = \sum_t \binom{n}{t} s^{n-t} \langle He_t(x), M_t \rangle,

    and since a standard exponential s has moments j!, its mean over s is n! times the expansion.
    Gauss-Laguerre quadrature makes it exact with n/2 + 1 nodes s.

    :math:`h = \sqrt n` makes distances between the :math:`\tilde M_n` nearly those in L2(G):
    :math:`(1 + \langle\mu, \nu\rangle/n)^n \approx e^{\langle\mu, \nu\rangle}`.

    Attributes
    ----------
    degree : int
        The order n.
    moments : BalancedMoments
        :math:`\tilde M_n` as one matrix.
    """

    degree: int
    moments: BalancedMoments

    @cached_property
    def _nodes(self) -> tuple[Floats, Floats]:
        nodes, weights = np.polynomial.laguerre.laggauss(self.degree // 2 + 1)
        return np.asarray(nodes), np.asarray(weights) / math.sqrt(math.factorial(self.degree))

    def __call__(self, coordinates: Array) -> Array:
        """Evaluate at rows of coordinates (n, p)."""
        moments = self.moments.like(coordinates)
        chain = moments.chain
        width = max(chain.dim(r) for r in range(chain.order + 1)) * chain.p
        return evaluate_blocks(partial(self._evaluate, moments), coordinates, width)

    def _evaluate(self, moments: BalancedMoments, coordinates: Array) -> Array:
        n, frame, xp = self.degree, self.moments.frame, namespace_of(coordinates)
        points = xp.concat([xp.ones_like(coordinates[:, :1]), coordinates], axis=1) / frame.scale
        first = points[:, 0] / float(frame.height or 1.0)
        found = xp.zeros_like(first)
        for node, weight in zip(*self._nodes, strict=True):
            points[:, 0] = float(node) * first
            found += float(weight) * moments.hermite(points, [n])[n]
        return found


@dataclass(frozen=True, eq=False)
class OrderByOrder:
    """Every order by a separate run of the paper's algorithm.

    Orders 0 and 1 are known: weights sum to 1, and the rows are centred.
    """

    degree: int
    orders: tuple[PaperMoments, ...]  # of orders 2, …, degree
    n_draws: int  # auxiliary Gaussians that a query is averaged over
    seed: int

    def __call__(self, coordinates: Array) -> Array:
        """Evaluate at rows of coordinates (n, p)."""
        found = ones_like_rows(coordinates)
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
        found = np.zeros(len(coordinates))
        for t, tensor in enumerate(self.tensors):
            found += (
                to_numpy(hermite_dense(coordinates, t)).reshape(len(coordinates), -1)
                @ tensor.ravel()
            )
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
    n_draws: int = 100,
    seed: int = 0,
) -> Expansion:
    """Estimate the expansion of F/G up to a degree.

    Parameters
    ----------
    method : {"closed_form", "paper"}
        :class:`JointExpansion` or :class:`OrderByOrder`.
    n_draws, seed : int
        Auxiliary draws of ``"paper"``.
    """
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
        window = open_window(chain, OVERSAMPLING * k)
        _, vectors = descending_eigh(even_mean(view, chain, window).value)
        # below the last order more than k directions are kept: what is lost cannot be regained
        width = min(k if r == b else OVERSAMPLING * k, window.dim)
        top = namespace_of(vectors).matrix_transpose(vectors[:, :width])
        chain = chain.extend(window.step(top))
    form = mean_moments(view, chain, [(a, b)])[a, b].value
    # in main memory, in double precision
    return JointExpansion(n, BalancedMoments(frame, chain, {(a, b): form}).like(np.zeros(1)))
