"""The closed form: the paper's recursion without auxiliary noise, at half the order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from time import perf_counter
from typing import Any

import numpy as np

from implicitmoments.arrays import (
    Array,
    dot_rows,
    eye_like,
    move_like,
    namespace_of,
    to_numpy,
)
from implicitmoments.circuits import Circuit
from implicitmoments.moments.chain import (
    Frame,
    SymmetricChain,
    Window,
    drop,
    mixed_coefficients,
    open_window,
)
from implicitmoments.moments.circuit_rows import project_chain
from implicitmoments.moments.form_means import even_mean, mean_moments, odd_mean
from implicitmoments.moments.hermite_problem import (
    FramedRows,
    HermiteProblem,
    Lower,
)
from implicitmoments.moments.implicit import StepReport
from implicitmoments.moments.split_mean import SplitMean
from implicitmoments.moments.subspace import (
    MARGIN,
    POSITIVE,
    largest_noise,
    leading_eigenpairs,
    restrict_to_symmetric,
    rival_eigenvalue,
)
from implicitmoments.notes import InputError
from implicitmoments.projections import RecursiveProjection, evaluate, evaluate_split

LARGEST_EXPONENT = 300  # of ten, in a double
SYMMETRIC = 1 - 1e-6  # eigenvalue of the compressed symmetriser, up to rounding
OVERSAMPLING = 2  # intermediate subspaces keep 2k directions: a lost one cannot be recovered


def split_order(n: int, *, balanced: bool = True) -> tuple[int, int]:
    """Return (a, b) with a + b = n: halves, or all slots on one side."""
    return (n // 2, n - n // 2) if balanced else (0, n)


@dataclass(frozen=True, eq=False)
class BalancedMoments:
    """Compressed moments of several orders, and their answers to queries."""

    frame: Frame
    chain: SymmetricChain  # its first step is the identity on the frame
    # for (a, b) the matrix of M_{a+b} on U_a × U_b, in the frame's units
    forms: Mapping[tuple[int, int], Array]

    @cached_property
    def by_order(self) -> dict[int, tuple[int, int]]:
        """The split (a, b) of each order."""
        return {a + b: (a, b) for a, b in self.forms}

    @cached_property
    def dropped(self) -> dict[int, list[Array]]:
        """For each order, its form after 0, 1, … contractions with the noise, times factors."""
        return {a + b: contracted_forms(self.chain, a, b, f) for (a, b), f in self.forms.items()}

    def like(self, other: Array) -> BalancedMoments:
        """Return the moments in the library, the precision and on the device of an array."""
        chain = self.chain.like(other)
        forms = {split: move_like(form, other) for split, form in self.forms.items()}
        if chain is self.chain and all(form is self.forms[split] for split, form in forms.items()):
            return self
        basis, center = (move_like(a, other) for a in (self.frame.basis, self.frame.center))
        return BalancedMoments(replace(self.frame, basis=basis, center=center), chain, forms)

    def hermite(self, coordinates: Array, orders: Iterable[int]) -> dict[int, Array]:
        r"""Return :math:`\langle H_n(x), M_n \rangle` for rows given in the frame, by order.

        Deterministic, in :math:`O(n k^2 p)` operations per row: the images of the row along the
        chain, and a bilinear form in them for each number of contractions.
        """
        wanted = list(orders)
        longest = max((max(self.by_order[n]) for n in wanted), default=0)
        images = self.chain.first(longest).images(coordinates)
        xp = namespace_of(coordinates)
        answers = {}
        for n in wanted:
            a, b = self.by_order[n]
            total = xp.zeros_like(coordinates[:, 0])
            for contracted, form in enumerate(self.dropped[n]):
                left, right = images[a - contracted], images[b - contracted]
                total = total + dot_rows(left @ move_like(form, left), right)
            # the frame divides both the point and the moment by scale, n times each
            answers[n] = total * self.frame.scale ** (2 * n) / math.sqrt(math.factorial(n))
        return answers

    def evaluator(self) -> Lower | None:
        """Return a function of points that gives the answers of all known orders."""
        orders = list(self.by_order)
        return (lambda x: self.hermite(self.frame.points(x), orders)) if orders else None

    def inner(self, circuit: Circuit, inputs: Mapping[str, Array]) -> Array:
        """Return ⟨T(inputs), M_n⟩ for a circuit of one of the orders, row by row."""
        a, b = self.by_order[circuit.order]
        form = self.forms[a, b] * self.frame.scale**circuit.order
        left, right = self.projection.first(a), self.projection.first(b)
        if a == 0:
            images: Array = evaluate(circuit, inputs, right)
            return images @ move_like(form[0, :], images)
        total: Any = 0.0
        for head, tail in evaluate_split(circuit, inputs, left, right):
            total = total + dot_rows(head @ move_like(form, head), tail)
        found: Array = total
        return found

    @cached_property
    def projection(self) -> RecursiveProjection:
        """The chain as a recursive projection of tensors over the features."""
        return project_chain(self.frame.basis, self.chain.steps)


def contracted_forms(chain: SymmetricChain, a: int, b: int, form: Array) -> list[Array]:
    r"""Return a form on U_a × U_b after 0, 1, … contractions with the noise, times factors.

    For a symmetric tensor T of order a + b with this form,
    :math:`\langle T, He_{a+b}(x) \rangle` is the sum over n of :math:`p_{a-n}^\top F_n p_{b-n}`.
    """
    forms = [form]
    for n in range(min(a, b)):
        left, right = chain.steps[a - n - 1], chain.steps[b - n - 1]
        forms.append(drop(forms[-1], left, right, chain.noise))
    pairs = zip(mixed_coefficients(a, b), forms, strict=True)
    return [coefficient * matrix for coefficient, matrix in pairs]


@dataclass(frozen=True)
class ClosedForm:
    """Options of the closed form."""

    k: int  # number of components
    m: int  # highest order
    drop_noise: bool = True  # exclude directions below the noise floor from the moments
    # moments as (U_{n/2} × U_{n/2}) matrices; else as vectors of U_n, as in the paper
    balanced: bool = True
    reduce_weights: bool = True  # let the problem remove lower orders from its weights, if it can
    # keep as many directions at the last step as at the previous ones, for coefficients that are
    # fitted by least squares afterwards
    wide: bool = False
    subspace: str = POSITIVE  # the largest eigenvalues, or "singular": the largest magnitudes

    @property
    def levels(self) -> int:
        """Number of subspaces to estimate."""
        return max(1, split_order(self.m, balanced=self.balanced)[1])

    def splits(self, problem: HermiteProblem) -> list[tuple[int, int]]:
        """Return (a, b) for every order that the problem has."""
        orders = filter(problem.has_order, range(self.m + 1))
        return [split_order(n, balanced=self.balanced) for n in orders]

    def width(self, n: int) -> int:
        """Directions kept at step n; the first spans R^p, and no step follows the last."""
        narrow = n == 1 or (n == self.levels and not self.wide)
        return self.k if narrow else OVERSAMPLING * self.k

    def order_of_step(self, n: int, problem: HermiteProblem, window: Window) -> int:
        """Return 2n, or 2n − 1 if the problem has only that: odd activations.

        Order 1 has a single direction, and is of use only if a step keeps all of R^p.
        """
        odd = not problem.has_order(2 * n) and problem.has_order(2 * n - 1)
        return 2 * n - 1 if odd and (n > 1 or self.k >= window.dim) else 2 * n

    def window(self, chain: SymmetricChain) -> Window:
        """Return the k most symmetric directions, or all that are, where it is the moment."""
        if self.wide:  # features of a least-squares fit need not be symmetric
            return open_window(chain, OVERSAMPLING * self.k)
        return open_window(chain, self.k, SYMMETRIC)

    def rank(self, spectrum: Array, floor: float) -> int:
        """Return the number of directions used in the moments."""
        kept = min(self.k, int(spectrum.shape[0]))
        if not self.drop_noise:
            return kept
        sizes = spectrum if self.subspace == POSITIVE else abs(spectrum)
        return sum(1 for i in range(kept) if float(sizes[i]) > MARGIN * floor)


@dataclass(frozen=True, eq=False)
class Fold:
    """Moments with subspaces estimated from some rows and forms from the same or other rows."""

    moments: BalancedMoments
    steps: tuple[StepReport, ...]
    n_rows: float  # rows of which the forms are averages, with their multiplicity


def estimate_closed_form(how: ClosedForm, views: Sequence[FramedRows]) -> Fold:
    """Estimate the subspaces U_1, …, U_{m/2} and the moments of orders 0, …, m on them.

    The views are rows in an identity frame. U_n is estimated from the n-th view, or the last but
    one if there are fewer; the moments are averaged over the last.
    """
    frame, problem = views[-1].frame, views[-1].problem
    chain = SymmetricChain((), frame.noise)
    known = BalancedMoments(frame, chain, {})  # on the rows that estimate the subspaces
    reducing = how.reduce_weights and problem.reduces
    lower = _mean_and_slope(views[0]) if reducing else None
    reports, ranks = [], [1]
    for n in range(1, how.levels + 1):
        clock = perf_counter()
        rows = views[min(n, len(views) - 1) - 1]
        view = replace(rows, frame=frame, lower=lower)
        # M_2n on the window over U_{n−1}, and its noise from split halves.
        window = how.window(chain)
        order = how.order_of_step(n, problem, window)
        moment = (even_mean if order == 2 * n else odd_mean)(view, chain, window)
        positive = how.subspace == POSITIVE
        if not positive:  # beside the moment, the window has values of both signs
            moment = moment.map(partial(restrict_to_symmetric, window))
        # Erratum 8: the largest eigenvalues, or for signed weights the largest singular values.
        spectrum, vectors = leading_eigenpairs(moment.value, how.subspace)
        exact = positive and window.exact
        floor = noise_floor(moment, spectrum, vectors, how.k, exact=exact)
        # Directions above the noise enter the moments; the next step starts from more.
        ranks.append(how.rank(spectrum, floor))
        width = min(how.width(n), window.dim)
        basis = namespace_of(vectors).matrix_transpose(vectors[:, :width])
        unit = frame.scale**order
        if n == 1:  # every later step works in R^p: Hermite tensors commute with projection
            frame, chain = _reframe(frame, basis, moment.value, how.m)
        else:
            chain = chain.extend(window.step(basis))
        if reducing:
            splits = [s for s in how.splits(problem) if s[1] <= n and s not in known.forms]
            means = mean_moments(view.in_frame(frame), chain, splits)
            known = BalancedMoments(frame, chain, {**known.forms, **_forms(means, ranks)})
            lower = known.evaluator()
        values = np.asarray(to_numpy(spectrum), dtype=np.float64) * unit
        rival = rival_eigenvalue(values, largest_noise(moment) * unit) if exact else 0.0
        taken = perf_counter() - clock
        reports.append(
            StepReport(
                order,
                view.part,
                how.k,
                ranks[n],
                values,
                floor * unit,
                None,
                taken,
                rival,
                how.subspace,
            )
        )
    # The moments themselves, on separate rows if sampling requires it.
    seen = replace(views[-1], frame=frame, lower=lower)
    means = mean_moments(seen, chain, how.splits(problem))
    known = BalancedMoments(frame, chain, _forms(means, ranks))
    return Fold(known, tuple(reports), sum(means[how.splits(problem)[-1]].counts))


def noise_floor(
    moment: SplitMean, spectrum: Array, vectors: Array, k: int, *, exact: bool
) -> float:
    """Estimate the noise level of a moment off its signal.

    The larger of two estimates. The first is the spectral norm of half the difference of two
    halves, projected off the top k directions: inside them the difference also contains the
    sampling noise of the signal. The second is the most negative eigenvalue, since the moment
    itself has none; it remains valid when k is so large that few directions are left. It is not
    used if the window is not exact, since the closed form is the moment on symmetric tensors only.
    """
    xp = namespace_of(vectors)
    below = max(0.0, -float(spectrum[-1])) if exact else 0.0
    if k >= vectors.shape[0]:
        return below
    off = vectors[:, k:]
    projected = xp.matrix_transpose(off) @ moment.half_difference @ off
    sizes = xp.abs(xp.linalg.eigvalsh((projected + xp.matrix_transpose(projected)) / 2))
    return max(below, float(xp.max(sizes)))


def _mean_and_slope(view: FramedRows) -> Lower | None:
    """Estimate orders 0 and 1 before any subspace is known: most of a label is its mean."""
    chain = SymmetricChain((eye_like(view.frame.p, view.frame.basis),), view.frame.noise)
    splits = [(0, n) for n in (0, 1) if view.problem.has_order(n)]
    means = mean_moments(view, chain, splits)
    forms = {split: estimate.value for split, estimate in means.items()}
    return BalancedMoments(view.frame, chain, forms).evaluator()


def _reframe(
    frame: Frame, basis: Array, moment: Array, order: int
) -> tuple[Frame, SymmetricChain]:
    """Return the frame of the span of a basis, scaled by the length of the hidden vectors."""
    xp = namespace_of(basis)
    along = xp.linalg.diagonal(basis @ moment @ xp.matrix_transpose(basis))
    length = float(xp.sum(xp.abs(along)))  # weights of both signs may cancel
    scale = math.sqrt(length) if length > 0 else 1.0
    if abs(math.log10(scale)) * 2 * order > LARGEST_EXPONENT:
        raise InputError(
            "lengths_out_of_range",
            "the hidden vectors have length {scale:.2g}, too large or too small for moments of "
            "order {order}; rescale the data to lengths near 1",
            **{"scale": scale, "order": order},
        )
    reduced = replace(frame, basis=basis @ frame.basis, scale=scale)
    return reduced, SymmetricChain((eye_like(basis.shape[0], basis),), reduced.noise)


def _forms(
    measured: dict[tuple[int, int], SplitMean], ranks: list[int]
) -> dict[tuple[int, int], Array]:
    """Keep the directions above the noise of each moment."""
    return {(a, b): _leading(mean.value, ranks[a], ranks[b]) for (a, b), mean in measured.items()}


def _leading(form: Array, rows: int, columns: int) -> Array:
    """Set entries outside the leading ``rows × columns`` block to zero."""
    kept = namespace_of(form).zeros_like(form)
    kept[:rows, :columns] = form[:rows, :columns]
    return kept
