r"""F/G as a truncated Hermite expansion in compressed form (Lemma 4.17).

:math:`F/G = \sum_t \langle T_t, H_t(x) \rangle` with
:math:`T_t = M_t/\sqrt{t!}`, G the standard Gaussian at the centre of the mixture F.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
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
from implicitmoments.mixture.mean_span import SphericalSpan, span_source
from implicitmoments.moments import HermiteProblem, PaperMoments, implicit_moments
from implicitmoments.moments.balanced import BalancedMoments, measure_moments, split_order
from implicitmoments.moments.chain import SymmetricChain
from implicitmoments.moments.closed_form import OVERSAMPLING, even_estimate
from implicitmoments.moments.frames import Frame
from implicitmoments.moments.passes import whole_view
from implicitmoments.moments.windows import open_window
from implicitmoments.problems import SphericalMixtureProblem
from implicitmoments.projections import hermite_dense
from implicitmoments.rows import Source, as_source, blocks

__all__ = [
    "Constant",
    "DenseExpansion",
    "Expansion",
    "JointExpansion",
    "OrderByOrder",
    "chain_like",
    "expand",
    "expand_dense",
    "moments_on_host",
    "ones_like_rows",
]

EVALUATED = 2**21  # numbers made of the points that are evaluated at a time


class Expansion(Protocol):
    """A polynomial on the span that estimates F/G."""

    @property
    def degree(self) -> int:
        """Highest order that is kept."""

    def __call__(self, coordinates: Array) -> Array:
        """Evaluate at rows of coordinates (n, p), in their library and on their device."""


def chain_like(chain: SymmetricChain, other: Array) -> SymmetricChain:
    """Return a chain in the library, the precision and on the device of an array."""
    if move_like(chain.noise, other) is chain.noise:
        return chain
    steps = tuple(move_like(step, other) for step in chain.steps)
    return SymmetricChain(steps, move_like(chain.noise, other))


def ones_like_rows(x: Array, width: int | None = None) -> Array:
    """Return a one for each row of an array, or a row of them, in its library."""
    n, device = int(x.shape[0]), array_api_compat.device(x)
    shape = (n,) if width is None else (n, width)
    return namespace_of(x).ones(shape, dtype=x.dtype, device=device)


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
    :math:`\tilde M_n = \sum_i w_i \tilde\mu_i^{\otimes n}` holds :math:`M_0, \ldots, M_n` and has
    rank k between halves of its slots, so that lower orders, which are less noisy, help to find
    the subspaces of higher ones. For a point (s/h, x),

    .. math:: \langle He_n(s/h, x), \tilde M_n \rangle
       = \sum_t \binom{n}{t} s^{n-t} \langle He_t(x), M_t \rangle,

    and since a standard exponential s has moments j!, its mean over s is n! times the expansion.
    Gauss-Laguerre quadrature makes it exact with n/2 + 1 points s.

    :math:`h = \sqrt n` makes distances between the :math:`\tilde M_n` those in L2(G), near enough:
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
        n, frame = self.degree, self.moments.frame
        xp, moments = namespace_of(coordinates), self._like(coordinates)
        chain = moments.chain
        width = max(chain.dim(r) for r in range(chain.order + 1)) * chain.p
        found = xp.zeros_like(coordinates[:, 0])
        for rows in blocks(range(int(coordinates.shape[0])), max(256, EVALUATED // width)):
            part = slice(rows.start, rows.stop)
            some = coordinates[part, :]
            points = xp.concat([xp.ones_like(some[:, :1]), some], axis=1) / frame.scale
            first = points[:, 0] / float(frame.height or 1.0)
            for node, weight in zip(*self._nodes, strict=True):
                points[:, 0] = float(node) * first
                found[part] += float(weight) * moments.hermite(points, [n])[n]
        return found

    def _like(self, other: Array) -> BalancedMoments:
        """Return the moments in the library of an array."""
        chain = chain_like(self.moments.chain, other)
        if chain is self.moments.chain:
            return self.moments
        forms = {split: move_like(form, other) for split, form in self.moments.forms.items()}
        return BalancedMoments(self.moments.frame, chain, forms)


@dataclass(frozen=True, eq=False)
class OrderByOrder:
    """Every order by a run of the paper's algorithm of its own.

    Orders 0 and 1 are known: weights sum to 1, and the rows are centred.

    Attributes
    ----------
    degree : int
    orders : tuple of PaperMoments
        Of orders 2, …, degree.
    n_draws : int
        Auxiliary Gaussians that a query is averaged over.
    seed : int
    """

    degree: int
    orders: tuple[PaperMoments, ...]
    n_draws: int
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
    """The dense twin: tensors written down, for small degrees and few coordinates.

    Attributes
    ----------
    degree : int
    tensors : tuple of arrays (p, …, p)
        :math:`T_t` for t = 0, …, degree.
    """

    degree: int
    tensors: tuple[Floats, ...]

    def __call__(self, coordinates: Floats) -> Floats:
        """Evaluate at rows of coordinates (n, p)."""
        found = np.zeros(len(coordinates))
        for t, tensor in enumerate(self.tensors):
            found += hermite_dense(coordinates, t).reshape(len(coordinates), -1) @ tensor.ravel()
        return found


def expand_dense(coordinates: Floats, degree: int) -> DenseExpansion:
    """Average :math:`T_t = E[H_t(x)]` (Lemma 4.17) over rows of coordinates (n, p)."""
    tensors = (np.mean(hermite_dense(coordinates, t), axis=0) for t in range(degree + 1))
    return DenseExpansion(degree, tuple(map(np.asarray, tensors)))


def expand(
    rows: Array | Source,
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
    rows : array of shape (n, d), or Source
    span : SphericalSpan
    k, degree : int
    method : {"closed_form", "paper"}
        :class:`JointExpansion` or :class:`OrderByOrder`.
    n_draws, seed : int
        Auxiliary draws of ``"paper"``.
    """
    source = as_source(rows)
    if span.p == 0 or degree < 2:  # centred rows have no first order
        return Constant(degree)
    if method == "paper":
        problem = HermiteProblem(span_source(source, span))
        runs = (
            implicit_moments(problem, n_components=k, order=t, method="paper", random_state=seed)
            for t in range(2, degree + 1)
        )
        return OrderByOrder(degree, tuple(runs), n_draws, seed)
    return _joint(source, span, k, degree)


def _joint(source: Source, span: SphericalSpan, k: int, n: int) -> JointExpansion:
    """Find subspaces of powers of (h, μ_i), and the moment of order n on the last of them."""
    problem = SphericalMixtureProblem(source, variance=span.variance, center=span.center)
    whole = whole_view(problem)
    like = whole.frame.basis  # in the library and on the device of the rows
    scale = math.sqrt(n + span.squared_radius)  # the length of the hidden vectors
    origin = move_like(np.zeros(source.n_features), like)
    frame = Frame(move_like(span.basis, like), origin, scale=scale, height=math.sqrt(n))
    view = whole.seen(frame)
    chain = SymmetricChain((eye_like(frame.p, like),), frame.noise)
    a, b = split_order(n)
    for r in range(2, b + 1):
        window = open_window(chain, OVERSAMPLING * k)
        _, vectors = descending_eigh(even_estimate(view, chain, window).value)
        # below the last order more than k directions are kept: what is lost cannot be regained
        width = min(k if r == b else OVERSAMPLING * k, window.dim)
        top = namespace_of(vectors).matrix_transpose(vectors[:, :width])
        chain = chain.extend(window.step(top))
    form = measure_moments(view, chain, [(a, b)])[a, b].value
    return JointExpansion(n, moments_on_host(BalancedMoments(frame, chain, {(a, b): form})))


def moments_on_host(moments: BalancedMoments) -> BalancedMoments:
    """Return moments in main memory, in double precision, where their answers are decided on."""

    def host(array: Array) -> Floats:
        return np.ascontiguousarray(to_numpy(array), dtype=np.float64)

    old, chain = moments.frame, moments.chain
    frame = Frame(host(old.basis), host(old.center), scale=old.scale, height=old.height)
    steps = tuple(host(step) for step in chain.steps)
    forms = {split: host(form) for split, form in moments.forms.items()}
    return BalancedMoments(frame, SymmetricChain(steps, host(chain.noise)), forms)
