"""The closed form: the paper's recursion without auxiliary noise, at half the order."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

import numpy as np

from implicitmoments.arrays import Array, descending_eigh, eye_like, namespace_of, to_numpy
from implicitmoments.moments.balanced import BalancedMoments, measure_moments, split_order
from implicitmoments.moments.chain import SymmetricChain
from implicitmoments.moments.frames import Frame
from implicitmoments.moments.passes import (
    Estimate,
    Lower,
    Sums,
    View,
    Weights,
    average,
    by_sign,
    signed_gram,
)
from implicitmoments.moments.problem import HermiteProblem
from implicitmoments.moments.step_report import StepReport
from implicitmoments.moments.windows import Window, even_moment, open_window
from implicitmoments.notes import InputError

__all__ = ["ClosedForm", "Fold", "estimate_closed_form", "even_estimate", "noise_floor"]

LARGEST_EXPONENT = 300  # of ten, in a double
MARGIN = 1.25  # the largest of many noise eigenvalues may pass the floor a little
OVERSAMPLING = 2  # intermediate subspaces keep 2k directions: what they lose cannot be regained


@dataclass(frozen=True)
class ClosedForm:
    """How the closed form is to be run.

    Attributes
    ----------
    k : int
        Number of components.
    m : int
        Highest order answered.
    drop_noise : bool
        Leave directions below the noise floor out of the answers.
    balanced : bool
        Moments as (U_{n/2} × U_{n/2}) matrices; else as vectors of U_n, as in the paper.
    reduce_weights : bool
        Let the problem remove lower orders from its weights, where it can.
    wide : bool
        Keep as many directions at the last step as at those before it, for answers that are to
        be fitted rather than read off.
    """

    k: int
    m: int
    drop_noise: bool = True
    balanced: bool = True
    reduce_weights: bool = True
    wide: bool = False

    @property
    def levels(self) -> int:
        """Subspaces to be found."""
        return max(1, split_order(self.m, balanced=self.balanced)[1])

    def splits(self, problem: HermiteProblem) -> list[tuple[int, int]]:
        """Return (a, b) for every order that the problem has."""
        orders = filter(problem.has_order, range(self.m + 1))
        return [split_order(n, balanced=self.balanced) for n in orders]

    def width(self, n: int) -> int:
        """Directions kept at step n; the first spans R^p and the last is not built upon."""
        narrow = n == 1 or (n == self.levels and not self.wide)
        return self.k if narrow else OVERSAMPLING * self.k

    def rank(self, spectrum: Array, floor: float) -> int:
        """Directions that enter the answers."""
        kept = min(self.k, int(spectrum.shape[0]))
        if not self.drop_noise:
            return kept
        return sum(1 for i in range(kept) if float(spectrum[i]) > MARGIN * floor)


@dataclass(frozen=True, eq=False)
class Fold:
    """Moments whose subspaces came from some rows and whose forms came from others.

    Attributes
    ----------
    moments : BalancedMoments
    steps : tuple of StepReport
    errors : dict of (int, int) to float
        Standard error of each form, relative to its size.
    """

    moments: BalancedMoments
    steps: tuple[StepReport, ...]
    errors: dict[tuple[int, int], float]


def estimate_closed_form(
    how: ClosedForm, view_of: Callable[[int], View], view_of_forms: View
) -> Fold:
    """Find the subspaces U_1, …, U_{m/2} and the moments of orders 0, …, m on them.

    Parameters
    ----------
    how : ClosedForm
    view_of : callable
        ``view_of(n)`` gives the rows, in an identity frame, from which U_n is found.
    view_of_forms : View
        The rows from which the moments on the subspaces are averaged.
    """
    frame, problem = view_of_forms.frame, view_of_forms.problem
    chain = SymmetricChain((), frame.noise)
    known = BalancedMoments(frame, chain, {})  # on the rows that find the subspaces
    reducing = how.reduce_weights and problem.reduces
    lower = _mean_and_slope(view_of(1)) if reducing else None
    reports, ranks = [], [1]
    for n in range(1, how.levels + 1):
        clock = perf_counter()
        view = view_of(n).seen(frame).knowing(lower)
        # M_2n on the window over U_{n−1}, and its own noise from split halves.
        window = open_window(chain, OVERSAMPLING * how.k)
        moment = even_estimate(view, chain, window)
        # Erratum 8: the largest eigenvalues; the paper's singular values would take noise.
        spectrum, vectors = descending_eigh(moment.value)
        floor = noise_floor(moment, spectrum, vectors, how.k, exact=window.exact)
        # Directions above the noise enter the answers; the next step starts from more.
        ranks.append(how.rank(spectrum, floor))
        width = min(how.width(n), window.dim)
        basis = namespace_of(vectors).matrix_transpose(vectors[:, :width])
        unit = frame.scale ** (2 * n)
        if n == 1:  # every later step works in R^p: Hermite tensors commute with projection
            frame, chain = _reframe(frame, basis, moment.value, how.m)
        else:
            chain = chain.extend(window.step(basis))
        if reducing:
            splits = [s for s in how.splits(problem) if s[1] <= n and s not in known.forms]
            means = measure_moments(view.seen(frame), chain, splits)
            known = BalancedMoments(frame, chain, {**known.forms, **_forms(means, ranks)[0]})
            lower = known.evaluator()
        values = np.asarray(to_numpy(spectrum), dtype=np.float64) * unit
        taken = perf_counter() - clock
        reports.append(
            StepReport(2 * n, view.part, how.k, ranks[n], values, floor * unit, None, taken)
        )
    # The moments themselves, on rows of their own where sampling asks for it.
    seen = view_of_forms.seen(frame).knowing(lower)
    forms, errors = _forms(measure_moments(seen, chain, how.splits(problem)), ranks)
    return Fold(BalancedMoments(frame, chain, forms), tuple(reports), errors)


def even_estimate(view: View, chain: SymmetricChain, window: Window) -> Estimate:
    """Average M_2n on the window over a chain of order n − 1, with weights c_2n."""
    return even_estimates(view, chain, window)["moment"]


def even_estimates(view: View, chain: SymmetricChain, window: Window) -> dict[str, Estimate]:
    """Average M_2n, and the sums ``gram0``, …, ``gram{n}`` that it is made of."""
    n = chain.order + 1

    def measure(points: Array, weights: Weights) -> Sums:
        sums: Sums = {}
        for sign, x, root in by_sign(points, weights[2 * n]):
            images = chain.images(x)
            if root is not None:  # everything is linear in the images, so they carry the weight
                images = [image * root for image in images]
            for j, rows in enumerate([*images, window.features(images, x, root)]):
                gram = signed_gram(rows, sign)
                sums[str(j)] = sums[str(j)] + gram if str(j) in sums else gram
        return sums

    def assemble(means: Sums) -> Array:
        return even_moment([means[str(j)] for j in range(n + 1)], chain, window)

    builders: dict[str, Callable[[Sums], Array]] = {
        f"gram{j}": partial(_named, str(j)) for j in range(n + 1)
    }
    builders["moment"] = assemble
    width = max(window.dim, chain.dim(n - 1) * chain.p)
    return average(view, [2 * n], measure, builders, f"order {2 * n}", width)


def _named(name: str, means: Sums) -> Array:
    mean: Array = means[name]
    return mean


def noise_floor(
    moment: Estimate, spectrum: Array, vectors: Array, k: int, *, exact: bool
) -> float:
    """Measure the noise of a moment where there is no signal.

    The larger of two witnesses. The spectral norm of half the difference of two halves, off
    the space of the top k directions: inside it the difference also holds the sampling noise of
    the signal. And the most negative eigenvalue, since the moment itself has none: it does not
    suffer when k is so large that little is left outside. It is no witness where the window
    holds more than symmetric tensors, on which alone the closed form is the moment.
    """
    xp = namespace_of(vectors)
    below = max(0.0, -float(spectrum[-1])) if exact else 0.0
    if k >= vectors.shape[0]:
        return below
    off = vectors[:, k:]
    projected = xp.matrix_transpose(off) @ moment.half_difference @ off
    sizes = xp.abs(xp.linalg.eigvalsh((projected + xp.matrix_transpose(projected)) / 2))
    return max(below, float(xp.max(sizes)))


def _mean_and_slope(view: View) -> Lower | None:
    """Estimate orders 0 and 1 before any subspace is known: most of a label is its mean."""
    chain = SymmetricChain((eye_like(view.frame.p, view.frame.basis),), view.frame.noise)
    splits = [(0, n) for n in (0, 1) if view.problem.has_order(n)]
    means = measure_moments(view, chain, splits)
    forms = {split: estimate.value for split, estimate in means.items()}
    return BalancedMoments(view.frame, chain, forms).evaluator()


def _reframe(
    frame: Frame, basis: Array, moment: Array, order: int
) -> tuple[Frame, SymmetricChain]:
    """Look at the span of the first basis, in units of the length of the hidden vectors."""
    xp = namespace_of(basis)
    length = float(xp.linalg.trace(basis @ moment @ xp.matrix_transpose(basis)))
    scale = math.sqrt(length) if length > 0 else 1.0
    if abs(math.log10(scale)) * 2 * order > LARGEST_EXPONENT:
        raise InputError(
            "lengths_out_of_range",
            "the hidden vectors are of length {scale:.2g}, too large or too small for moments of "
            "order {order}; rescale the data to lengths near 1",
            scale=scale,
            order=order,
        )
    reduced = replace(frame, basis=basis @ frame.basis, scale=scale)
    return reduced, SymmetricChain((eye_like(basis.shape[0], basis),), reduced.noise)


def _forms(
    measured: dict[tuple[int, int], Estimate], ranks: list[int]
) -> tuple[dict[tuple[int, int], Array], dict[tuple[int, int], float]]:
    """Keep the directions above the noise of each moment, and say how noisy what is kept is."""
    forms, errors = {}, {}
    for (a, b), estimate in measured.items():
        forms[a, b] = _leading(estimate.value, ranks[a], ranks[b])
        noise = _leading(estimate.half_difference, ranks[a], ranks[b])
        size = float(np.linalg.norm(to_numpy(forms[a, b])))
        errors[a, b] = float(np.linalg.norm(to_numpy(noise))) / size if size else math.inf
    return forms, errors


def _leading(form: Array, rows: int, columns: int) -> Array:
    """Set to zero what lies outside the leading ``rows × columns`` block."""
    kept = namespace_of(form).zeros_like(form)
    kept[:rows, :columns] = form[:rows, :columns]
    return kept
