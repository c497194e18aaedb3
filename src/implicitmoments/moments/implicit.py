"""Implicit-Moment-Estimation: the box of section 3.3, what it measures, and its queries."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    move_like,
    namespace_of,
    to_numpy,
)
from implicitmoments.circuits import Circuit
from implicitmoments.datasets import Truth
from implicitmoments.moments.cubature import Cubature
from implicitmoments.moments.problem import CircuitMeans
from implicitmoments.moments.split_mean import SplitMean
from implicitmoments.moments.subspace import (
    POSITIVE,
    largest_noise,
    rival_eigenvalue,
    top_subspace,
)
from implicitmoments.notes import InputError, InputTypeError, Note
from implicitmoments.projections import Batch, RecursiveProjection, evaluate, read_inputs
from implicitmoments.rows import DEFAULT_BUDGET, DrawPurpose, RowDraws, blocks
from implicitmoments.validation import check_whole

Sampler: TypeAlias = Callable[[RowDraws], Array]
Auxiliary: TypeAlias = Mapping[str, Sampler] | Sequence[str]
InnerProduct: TypeAlias = Callable[[Circuit, Mapping[str, Array]], Array]

# Nodes of an exact rule that are evaluated even if the box would draw fewer: order 8 in ten
# features has 5,281, which for a thousand queries take seconds.
FEW_NODES = 10_000


def estimate(
    average: CircuitMeans,
    k: int,
    m: int,
    fresh: Iterator[range],
    truth: Truth | None = None,
    subspace: str = POSITIVE,
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
    subspace : str
        ``"singular"`` as in the box, or ``"positive"`` (erratum 8).

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
        phi, spectrum = top_subspace(A, k, subspace)
        delta = None
        if truth is not None:  # the Frobenius distance of an average from its mean
            delta = float(np.linalg.norm(to_numpy(A) - projected_moment(Phi, truth)))
        floor = abs(float(spectrum[k])) if k < len(spectrum) else 0.0
        first = r == 0 and subspace == POSITIVE
        rival = _rival_of_mean(average, A, rows, spectrum) if first else 0.0
        taken, rank = perf_counter() - clock, phi.shape[0]
        reports.append(
            StepReport(2 * r + 2, rows, k, rank, spectrum, floor, delta, taken, rival, subspace)
        )
        # Steps 4(a) and 5.
        Phi = Phi.extend(phi)
    # Step 6.
    A_m = average.vector(m, Phi, next(fresh))
    etas = None if truth is None else distances_to_truth(Phi, truth)
    return Run(Phi, A_m, tuple(reports), etas)


def _rival_of_mean(average: CircuitMeans, A: Array, rows: range, spectrum: Floats) -> float:
    """Return the magnitude of a negative eigenvalue of M_2 beside the top one, or 0.

    The noise is estimated in one more pass, over half of the rows, if there is an eigenvalue to
    test.
    """
    n = len(rows) // 2
    others = len(rows) - n
    if n == 0 or not rival_eigenvalue(spectrum, 0.0):
        return 0.0
    one = RecursiveProjection.identity(average.problem.n_features, 1)
    half = average.matrix(2, one, one, rows[:n])
    rest = (len(rows) * A - n * half) / others
    noise = largest_noise(SplitMean((half, rest), (n, others)))
    return rival_eigenvalue(spectrum, noise)


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
    # all eigenvalues of the averaged matrix, by value, or by magnitude if the subspace is singular
    spectrum: Floats
    floor: float  # noise floor of the eigenvalues
    delta: float | None  # frobenius distance of the average from its mean, if the truth is known
    seconds: float
    # magnitude of a negative eigenvalue comparable to the top one, 0 if there is none
    rival: float = 0.0
    subspace: str = POSITIVE

    @property
    def notes(self) -> list[Note]:
        """What the spectrum says against the choice of the subspace."""
        if not self.rival:
            return []
        values = {"order": self.order, "below": -self.rival, "top": float(self.spectrum[0])}
        return [Note("negative_eigenvalue", values)]

    @property
    def dropped(self) -> int:
        """Number of requested directions that were not kept."""
        return self.asked - self.rank

    @property
    def next_value(self) -> float:
        """The (k+1)-st eigenvalue, zero in the population: the measure of delta in Lemma 3.9.

        Its magnitude if the subspace is singular.
        """
        return float(self._sizes[self.asked]) if self.asked < len(self.spectrum) else 0.0

    @property
    def gap(self) -> float:
        """The k-th eigenvalue over the noise floor; above about 1.5 the direction is signal.

        Its magnitude if the subspace is singular.
        """
        last = float(self._sizes[min(self.asked, len(self.spectrum)) - 1])
        return last / self.floor if self.floor > 0 else float("inf")

    @property
    def _sizes(self) -> Floats:
        """The values by which directions were ordered."""
        return self.spectrum if self.subspace == POSITIVE else np.abs(self.spectrum)


@dataclass(frozen=True)
class Run:
    """One run of the paper's algorithm."""

    projection: RecursiveProjection  # the paper's Phi_m
    coordinates: Array  # (projection.dim,), the paper's A: the image of M_m
    steps: tuple[StepReport, ...]
    etas: Floats | None  # (m,), distance of the truth from each U_r, if it is known

    def inner(self, circuit: Circuit, inputs: Mapping[str, Array]) -> Array:
        """Take steps 7 and 8 of the box: ⟨T(inputs), M_m⟩ for a circuit of order m, by row."""
        B: Array = evaluate(circuit, inputs, self.projection)
        return B @ move_like(self.coordinates, B)


@dataclass(frozen=True)
class Query:
    r"""A circuit :math:`\mathcal{F}_m(\mathcal{X}, \mathcal{Y})` with given and drawn inputs."""

    circuit: Circuit
    given: Batch  # one row per query
    # ``sampler(rng)`` draws an auxiliary input for a range of queries; None for N(0, I)
    samplers: Mapping[str, Sampler | None]
    n_features: int
    n_draws: int
    seed: int
    cubature: Cubature | None  # takes the place of draws; all auxiliary inputs side by side

    @classmethod
    def build(
        cls,
        circuit: Circuit,
        inputs: Mapping[str, Array],
        auxiliary: Auxiliary,
        n_draws: int | None,
        seed: int,
        n_features: int,
        n_rows: int,
    ) -> Query:
        """Validate the arguments of a query against the inputs of the circuit.

        Without ``n_draws``, Gaussian inputs are integrated exactly (the circuit is a polynomial in
        them, of no higher degree than its order) if that takes fewer evaluations than the
        ``n_rows`` draws of the box, or few ones.
        """
        if not isinstance(circuit, Circuit):
            raise InputTypeError(
                "not_a_circuit",
                "a query must be a circuit such as power(vector('x'), 3), got {circuit!r}",
                circuit=circuit,
            )
        if not isinstance(inputs, Mapping):
            raise InputTypeError(
                "inputs_not_a_mapping",
                "inputs must map names to arrays, got {kind}",
                kind=type(inputs).__name__,
            )
        if isinstance(auxiliary, str):
            raise InputTypeError(
                "auxiliary_not_a_tuple",
                "auxiliary must be a tuple of names; try auxiliary=({auxiliary!r},)",
                auxiliary=auxiliary,
            )
        if n_draws is not None:
            check_whole("n_draws", n_draws, 1)
        samplers = _samplers(circuit, inputs, auxiliary)
        orders = {name: t for name, t in circuit.inputs.items() if name not in samplers}
        given = read_inputs(orders, inputs, n_features)
        cubature = None
        if n_draws is None and not any(samplers.values()):
            exact = Cubature(n_features * len(samplers), circuit.order)
            cubature = exact if exact.size <= max(n_rows, FEW_NODES) else None
        return cls(circuit, given, samplers, n_features, n_draws or n_rows, seed, cubature)

    def answer(self, inner: InnerProduct, width: int) -> Array:
        """Average ``inner``, linear in the circuit, over draws, block by block of queries.

        A wire carries ``width`` numbers per row.
        """
        like = next(iter(self.given.arrays.values()), np.ones(1))
        size = DEFAULT_BUDGET.rows_per_block(width * max(1, self.circuit.order), like)
        parts = []
        for rows in blocks(range(self.given.n), size):
            block = {name: a[rows.start : rows.stop, ...] for name, a in self.given.arrays.items()}
            total: Any = 0.0
            for weights, drawn in self._draws(rows, max(1, size // len(rows))):
                tiled = {name: _tile(array, len(weights)) for name, array in block.items()}
                if block:
                    drawn = {name: move_like(a, like) for name, a in drawn.items()}  # noqa: PLW2901
                answers = inner(self.circuit, {**tiled, **drawn})
                xp = namespace_of(answers)
                answers = xp.reshape(answers, (len(weights), len(rows)))
                total = total + move_like(weights, answers) @ answers
            parts.append(total)
        return namespace_of(parts[0]).concat(parts)

    def _draws(self, rows: range, most: int) -> Iterator[tuple[Floats, dict[str, Any]]]:
        """Yield weights (g,) and auxiliary inputs (g · rows, …) of at most ``most`` draws."""
        if not self.samplers:
            yield np.ones(1), {}
            return
        n = self.n_draws if self.cubature is None else self.cubature.size
        for batch in blocks(range(n), most):
            if self.cubature is not None:
                nodes, weights = (a[batch.start : batch.stop] for a in self.cubature.rule)
                parts = np.split(np.repeat(nodes, len(rows), axis=0), len(self.samplers), axis=1)
                yield weights, dict(zip(self.samplers, parts, strict=True))
            else:
                each = [self._draw(rows, i) for i in batch]
                drawn = {name: np.concatenate([a[name] for a in each]) for name in each[0]}
                yield np.full(len(batch), 1 / n), drawn

    def _draw(self, rows: range, i: int) -> dict[str, Any]:
        """Return the i-th draw for some queries."""
        rng = RowDraws(self.seed, rows, (DrawPurpose.QUERY, i))
        return {
            name: rng.normal(self.n_features) if draw is None else to_numpy(draw(rng))
            for name, draw in self.samplers.items()
        }


def _tile(array: Array, times: int) -> Array:
    """Return the rows of an array, several times."""
    return array if times == 1 else namespace_of(array).concat([array] * times)


def _samplers(
    circuit: Circuit, inputs: Mapping[str, Array], auxiliary: Auxiliary
) -> dict[str, Sampler | None]:
    """Match the auxiliary names with the inputs of the circuit."""
    named = dict(auxiliary) if isinstance(auxiliary, Mapping) else dict.fromkeys(auxiliary)
    samplers: dict[str, Sampler | None] = {}
    for name, sampler in named.items():
        if name not in circuit.inputs:
            raise InputError(
                "auxiliary_unknown",
                "auxiliary names {name!r}, which is not an input of the circuit (inputs: {names})",
                name=name,
                names=", ".join(map(repr, circuit.inputs)) or "nothing",
            )
        if name in inputs:
            raise InputError(
                "auxiliary_twice",
                "{name!r} is in both inputs and auxiliary; pass it in one of them",
                name=name,
            )
        if sampler is None and circuit.inputs[name] == 0:
            raise InputError(
                "auxiliary_scalar",
                "auxiliary {name!r} is a scalar and needs a sampler: auxiliary={{{name!r}: "
                "lambda rng: rng.normal()}}",
                name=name,
            )
        samplers[name] = sampler
    missing = [name for name in circuit.inputs if name not in inputs and name not in samplers]
    if missing:
        raise InputError(
            "input_missing",
            "the circuit needs {missing}, missing from inputs (given: {given}); pass it in "
            "inputs, or name it in auxiliary=({example!r},) to average over draws from N(0, I)",
            missing=", ".join(map(repr, missing)),
            given=", ".join(map(repr, inputs)) or "nothing",
            example=missing[0],
        )
    return samplers
