"""Implicit-Moment-Estimation: the box of section 3.3, step by step, and what it measures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    descending_eigh,
    move_like,
    namespace_of,
    to_numpy,
)
from implicitmoments.circuits import Circuit
from implicitmoments.datasets import Truth
from implicitmoments.moments.problem import MomentProblem
from implicitmoments.notes import InputError, InputTypeError
from implicitmoments.projections import RecursiveProjection, evaluate, evaluate_split
from implicitmoments.rows import DEFAULT_BUDGET, Block, Progress, Sums

ON_HOST = np.zeros((0, 0))  # draws of a problem are generated on the host


def estimate(
    average: CircuitMeans, k: int, m: int, fresh: Iterator[range], truth: Truth | None = None
) -> Run:
    """Run algorithm Implicit-Moment-Estimation once, up to its step 6.

    Parameters
    ----------
    average : CircuitMeans
        Draws from D_t and averages S_t.
    k : int
        Number of components.
    m : int
        Order of the moment.
    fresh : iterator of range
        Step 1: N rows for each of the m + 1 averages, no row twice. The samples that choose
        Phi_r are not independent of it and cannot be reused to estimate moments in it.
    truth : Truth, optional
        For synthetic data: eta and delta are then measured.

    Returns
    -------
    Run
        Phi_m, A, and measurements of each step. Steps 7 and 8 are left to :meth:`Run.inner`, for
        any number of queries.
    """
    d = average.problem.n_features
    identity = RecursiveProjection.identity(d, 1)
    Phi = RecursiveProjection.identity(d, 0)
    reports = []
    for r in range(m):  # steps 2 and 3 are step 4 with the empty Phi_0
        clock, rows = perf_counter(), next(fresh)
        # Step 4(b). Window Phi_r ⊗ I ⊗ Phi_r ⊗ I on the 2r + 2 slots:
        #     │ ⋯ │   │   │ ⋯ │   │
        #     [Phi_r] │   [Phi_r] │
        #        └─kd─┘      └─kd─┘       rows × columns of A
        half = Phi.tensor(identity)
        # Steps 2 and 4(c).
        A = average.matrix(2 * r + 2, half, half, rows)
        # Steps 3, 4(d) and 4(e).
        phi, spectrum = top_subspace(A, k)
        delta = None
        if truth is not None:  # the Frobenius distance of an average from its mean
            delta = float(np.linalg.norm(to_numpy(A) - projected_moment(Phi, truth)))
        floor = abs(float(spectrum[k])) if k < len(spectrum) else 0.0
        taken = perf_counter() - clock
        reports.append(StepReport(2 * r + 2, rows, k, phi.shape[0], spectrum, floor, delta, taken))
        # Steps 4(a) and 5.
        Phi = Phi.extend(phi)
    # Step 6.
    A_m = average.vector(m, Phi, next(fresh))
    etas = None if truth is None else distances_to_truth(Phi, truth)
    return Run(Phi, A_m, tuple(reports), etas)


@dataclass(frozen=True)
class CircuitMeans:
    """Averages circuits of a problem over rows, block by block: memory does not grow with rows."""

    problem: MomentProblem
    seed: int  # for the auxiliary draws
    # block size; by default chosen from the width of the projection
    rows_per_block: int | None = None
    progress: Progress | None = None  # called as ``progress(what, rows_done, rows_total)``

    def matrix(
        self, order: int, left: RecursiveProjection, right: RecursiveProjection, rows: range
    ) -> Array:
        """Average ``S_order`` through ``left ⊗ right``, as a (left.dim, right.dim) matrix."""

        def product(circuit: Circuit, inputs: Block, first_row: int) -> Any:
            halves = evaluate_split(circuit, inputs, left, right, first_row=first_row)
            return sum(namespace_of(head).matrix_transpose(head) @ tail for head, tail in halves)

        return self._mean(order, product, rows, max(left.width, right.width))

    def vector(self, order: int, projection: RecursiveProjection, rows: range) -> Array:
        """Average ``S_order`` through ``projection``, as a vector of ``projection.dim``."""

        def image(circuit: Circuit, inputs: Block, first_row: int) -> Array:
            images = evaluate(circuit, inputs, projection, first_row=first_row)
            return namespace_of(images).sum(images, axis=0)

        return self._mean(order, image, rows, projection.width * projection.n_features)

    def _mean(
        self, order: int, total: Callable[[Circuit, Block, int], Array], rows: range, width: int
    ) -> Array:
        """Average over rows what ``total(circuit, inputs, first_row)`` sums over a block."""
        circuit, kind = self.problem.circuit(order), type(self.problem).__name__
        if not isinstance(circuit, Circuit):
            raise InputTypeError(
                "not_a_circuit",
                "{kind}.circuit({order}) must return a circuit, got {circuit!r}",
                **{"kind": kind, "order": order, "circuit": circuit},
            )
        if circuit.order != order:
            template = "{kind}.circuit({order}) returned a circuit of order {found}"
            raise InputError(
                "orders_differ", template, kind=kind, order=order, found=circuit.order
            )

        def measure(inputs: Block, block: range) -> Sums:
            return {"sum": total(circuit, inputs, block.start)}

        def after(_: Sums, done: int) -> None:
            if self.progress is not None:
                self.progress(f"order {order}", done - rows.start, len(rows))

        size = self.rows_per_block or DEFAULT_BUDGET.rows_per_block(width, ON_HOST)
        sums = self.problem.fold(order, measure, rows, size, seed=self.seed, after=after)
        mean: Array = sums["sum"] / len(rows)
        return mean


def top_subspace(matrix: Array, k: int) -> tuple[Array, Floats]:
    """Return an orthonormal basis of the top-k eigenspace as rows, and all eigenvalues.

    Erratum 8: the box takes singular vectors; the moment of even order is positive
    semidefinite, so a large negative eigenvalue is noise and is left out. With fewer than k
    dimensions all are kept.
    """
    values, vectors = descending_eigh(matrix)
    xp = namespace_of(vectors)
    basis = xp.matrix_transpose(vectors[:, : min(k, int(matrix.shape[0]))])
    return basis, np.asarray(to_numpy(values), dtype=np.float64)


def distances_to_truth(projection: RecursiveProjection, truth: Truth) -> Floats:
    r"""Return :math:`\eta_r = \max_i \mathrm{dist}(\sqrt{w_i} v_i^{\otimes r}, U_r)` for every r.

    The part of :math:`v^{\otimes r}` outside :math:`U_r` is a sum of orthogonal pieces: the part
    dropped by each step times the norms of the following slots. Adding their squares avoids the
    cancellation in :math:`\|v\|^{2r} - \|\Phi_r v^{\otimes r}\|^2`.

    Returns
    -------
    array of shape (order,)
    """
    vectors, norms2 = truth.vectors, np.sum(truth.vectors**2, axis=1)
    image = np.ones((len(vectors), 1))
    dropped2 = np.zeros(len(vectors))
    etas = []
    for step in projection.steps:
        theta = np.asarray(to_numpy(step.as_matrix()), dtype=np.float64)
        joined = (image[:, :, None] * vectors[:, None, :]).reshape(len(vectors), -1)
        image = joined @ theta.T
        dropped2 = norms2 * dropped2 + np.sum((joined - image @ theta) ** 2, axis=1)
        etas.append(math.sqrt(float(np.max(truth.weights * dropped2))))
    return np.array(etas)


def projected_moment(projection: RecursiveProjection, truth: Truth) -> Floats:
    r"""Return :math:`(\Phi_r \otimes I) M_{2r+2} (\Phi_r \otimes I)^\top` of the truth.

    With r = ``projection.order``; a square matrix of side ``projection.dim · n_features``.
    """
    vectors = truth.vectors
    image = np.ones((len(vectors), 1))
    for step in projection.steps:
        image = to_numpy(step.apply(image, vectors))
    joined = (image[:, :, None] * vectors[:, None, :]).reshape(len(vectors), -1)
    moment: Floats = (joined * truth.weights[:, None]).T @ joined
    return moment


@dataclass(frozen=True)
class StepReport:
    """Measurements of one step of the recursion.

    Examples
    --------
    >>> import implicitmoments as im
    >>> X, _ = im.datasets.make_spherical_mixture(5_000, 2, 4, radius=3.0, random_state=0)
    >>> problem = im.problems.SphericalMixtureProblem(X)
    >>> moments = im.implicit_moments(problem, n_components=2, order=4)
    >>> [(step.order, step.rank, bool(step.gap > 1.5)) for step in moments.steps]
    [(2, 2, True), (4, 2, True)]
    """

    order: int  # order 2r of the moment that was averaged
    # the rows of the average: a range of row numbers, or (i, q) for the i-th of q parts into which
    # rows are divided by a hash of their points
    rows: range | tuple[int, int]
    asked: int  # directions requested, the number of components
    # directions kept: fewer than requested if the space has fewer dimensions, or if the closed
    # form found the others below the noise floor
    rank: int
    spectrum: Floats  # all eigenvalues of the averaged matrix, in descending order
    floor: float  # noise floor of the eigenvalues
    delta: float | None  # frobenius distance of the average from its mean, if the truth is known
    seconds: float

    @property
    def dropped(self) -> int:
        """Number of requested directions that were not kept."""
        return self.asked - self.rank

    @property
    def next_value(self) -> float:
        """The (k+1)-st eigenvalue, zero in the population: the measure of delta in Lemma 3.9."""
        return float(self.spectrum[self.asked]) if self.asked < len(self.spectrum) else 0.0

    @property
    def gap(self) -> float:
        """The k-th eigenvalue over the noise floor; above about 1.5 the direction is signal."""
        last = float(self.spectrum[min(self.asked, len(self.spectrum)) - 1])
        return last / self.floor if self.floor > 0 else float("inf")


@dataclass(frozen=True)
class Run:
    """One run of the paper's algorithm.

    Examples
    --------
    With exact moments the answers are exact:

    >>> import numpy as np
    >>> from implicitmoments import implicit_moments
    >>> from implicitmoments.datasets import Truth
    >>> from implicitmoments.problems import PopulationProblem
    >>> truth = Truth(np.array([0.5, 0.5]), np.eye(3)[:2])
    >>> moments = implicit_moments(
    ...     PopulationProblem(truth), n_components=2, order=3, n_samples=2
    ... )
    >>> moments.runs[0].coordinates.shape
    (2,)
    """

    projection: RecursiveProjection  # the paper's Phi_m
    coordinates: Array  # (projection.dim,), the paper's A: the image of M_m
    steps: tuple[StepReport, ...]
    etas: Floats | None  # (m,), distance of the truth from each U_r, if it is known

    def inner(self, circuit: Circuit, inputs: Mapping[str, Array]) -> Array:
        """Take steps 7 and 8 of the box: ⟨T(inputs), M_m⟩ for a circuit of order m, by row."""
        B: Array = evaluate(circuit, inputs, self.projection)
        return B @ move_like(self.coordinates, B)
