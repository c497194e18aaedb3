r"""Proposition 3.2 (Main Algorithmic Result): algorithm Implicit-Moment-Estimation of section 3.3.

Also what its analysis speaks of: Lemma 3.9, Claim 3.10, and medians for :math:`\log(1/\tau)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from implicitmoments.paper.circuits import Circuit, hermite, scalar, vector
from implicitmoments.paper.projections import (
    Floats,
    Inputs,
    Projection,
    evaluate,
    identity,
    tensor,
)

Draw: TypeAlias = Callable[[int, int, np.random.Generator], Inputs]
Take: TypeAlias = Callable[[int], dict[str, Floats]]

BLOCK = 1 << 16  # numbers that a wire carries at a time: 512 kB fit into the cache


@dataclass(frozen=True)
class Problem:
    r"""The hypothesis of Proposition 3.2: for each order t, :math:`S_t` and :math:`D_t`.

    The mean of ``circuit(t)`` over ``draw(t, n, rng)`` is
    :math:`M_t = \sum_i w_i v_i^{\otimes t}`.

    Attributes
    ----------
    n_features : int
        The length d of the hidden vectors.
    circuit : callable
        ``circuit(t)`` is the circuit :math:`S_t`, of order t.
    draw : callable
        ``draw(t, n, rng)`` returns the inputs of n new samples of :math:`D_t`.
    """

    n_features: int
    circuit: Callable[[int], Circuit]
    draw: Draw


@dataclass(frozen=True, eq=False)
class SubspaceStep:
    r"""Steps 3 and 4(d) of the box: an average :math:`A_r` and its top-k singular vectors.

    Attributes
    ----------
    A : array of shape (dk, dk)
        The average :math:`A_r`; (d, d) for the first.
    phi : array of shape (k, dk)
        The base pseudo-projection :math:`\phi_r`.
    spectrum : array of shape (dk,)
        Singular values or eigenvalues of A, in descending order. Those after the k-th are 0 in
        the population, and at most delta by the proof of Lemma 3.9.
    """

    A: Floats
    phi: Floats
    spectrum: Floats

    @property
    def next_value(self) -> float:
        r"""The singular value :math:`\sigma_{k+1}`: pure noise; 0 if all directions are kept."""
        k = len(self.phi)
        return float(self.spectrum[k]) if k < len(self.spectrum) else 0.0

    @property
    def gap(self) -> float:
        r"""The gap :math:`\sigma_k - \sigma_{k+1}` by which the subspace is determined."""
        return float(self.spectrum[len(self.phi) - 1]) - self.next_value


@dataclass(frozen=True, eq=False)
class ImplicitMoment:
    r"""The output of steps 1 to 6: :math:`M_m` in compressed form.

    Attributes
    ----------
    projection : Projection
        :math:`\Phi_m`.
    coordinates : array of shape (projection.dim,)
        A, the estimate of :math:`\Phi_m(M_m)`.
    steps : tuple of SubspaceStep
        One for each of the m pseudo-projections.
    """

    projection: Projection
    coordinates: Floats
    steps: tuple[SubspaceStep, ...]


def check_positive(**values: float) -> None:
    """Raise an error unless all values are positive."""
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name}={value}; expected a positive number")


def implicit_moment_estimation(
    problem: Problem,
    k: int,
    m: int,
    n_samples: int,
    rng: np.random.Generator,
    *,
    eigenvalues: bool = False,
) -> ImplicitMoment:
    r"""Proposition 3.2: run steps 1 to 6 of the box; :func:`answer` takes step 7 for any query.

    Parameters
    ----------
    problem : Problem
        Circuits and samples of every even order up to 2m, and of order m.
    k : int
        Number of hidden vectors.
    m : int
        Order of the moment.
    n_samples : int
        N; the algorithm draws m + 1 times as many samples.
    rng : numpy.random.Generator
    eigenvalues : bool, default False
        Take eigenvectors of the largest eigenvalues in place of singular vectors (Erratum 8):
        with positive weights, a negative eigenvalue is noise however large it is.

    Returns
    -------
    ImplicitMoment

    Examples
    --------
    The moment of order 4 of two unit vectors, from samples of the vectors themselves:

    >>> from implicitmoments.paper.circuits import power
    >>> rng = np.random.default_rng(0)
    >>> def draw(order, n, rng):
    ...     return {"v": np.eye(3)[rng.integers(2, size=n)]}
    >>> problem = Problem(3, lambda order: power(vector("v"), order), draw)
    >>> moment = implicit_moment_estimation(problem, 2, 4, 10_000, rng)
    >>> x, no_draws = np.array([[2.0, 0.0, 0.0]]), {"y": np.zeros((1, 3))}
    >>> np.round(answer(moment, power(vector("x"), 4), {"x": x}, no_draws))  # about 2**4 / 2
    array([8.])
    """
    check_positive(k=k, m=m, n_samples=n_samples)
    # Step 1. Every average has N samples of its own: those that choose Phi_r are not independent
    # of it.
    one_slot, Phi, steps = identity(problem.n_features), Projection(problem.n_features), []
    for _ in range(m):  # r = 0, …, m − 1: steps 2 and 3 are step 4 with the empty Phi_0
        # Step 4(b). Window Phi_r ⊗ I ⊗ Phi_r ⊗ I on the 2r + 2 slots:
        #     │ ⋯ │   │   │ ⋯ │   │
        #     [Phi_r] │   [Phi_r] │
        #        └─kd─┘      └─kd─┘       rows × columns of A
        half = tensor(Phi, one_slot)
        # Steps 2 and 4(c).
        A = average(problem, tensor(half, half), n_samples, rng).reshape(half.dim, half.dim)
        # Steps 3, 4(d) and 4(e).
        steps.append(top_subspace(A, k, eigenvalues))
        # Steps 4(a) and 5.
        Phi = Phi.extend(steps[-1].phi)
    # Step 6.
    return ImplicitMoment(Phi, average(problem, Phi, n_samples, rng), tuple(steps))


def average(
    problem: Problem, projection: Projection, n_samples: int, rng: np.random.Generator
) -> Floats:
    """Average ``projection`` applied to new samples of the circuit of its order, by Lemma 3.7."""
    circuit = problem.circuit(projection.order)
    inputs = problem.draw(projection.order, n_samples, rng)
    if any(len(array) != n_samples for array in inputs.values()):
        shapes = {name: array.shape for name, array in inputs.items()}
        raise ValueError(f"draw returned {shapes}; expected n={n_samples} samples of each input")
    total = np.zeros(projection.dim)
    for block in blocks(inputs, projection.dim * projection.n_features):
        total += evaluate(circuit, block, projection).sum(axis=0)
    return total / n_samples


def blocks(inputs: Inputs, width: int) -> Iterator[Inputs]:
    """Yield inputs in blocks of rows; a wire carries ``width`` numbers per row."""
    n = len(next(iter(inputs.values())))
    rows = max(1, BLOCK // width)
    for start in range(0, n, rows):
        yield {name: array[start : start + rows] for name, array in inputs.items()}


def top_subspace(A: Floats, k: int, eigenvalues: bool) -> SubspaceStep:
    """Find the span of the top-k singular vectors, and an isometry from it."""
    if eigenvalues:
        values, vectors = np.linalg.eigh((A + A.T) / 2)
        return SubspaceStep(A, vectors[:, ::-1][:, :k].T, values[::-1])
    left, values, _ = np.linalg.svd(A)
    return SubspaceStep(A, left[:, :k].T, values)


def lower_order(
    moment: ImplicitMoment, problem: Problem, order: int, n_samples: int, rng: np.random.Generator
) -> ImplicitMoment:
    r"""Return the moment of a lower order: step 6 once more, with new samples.

    With the same samples in steps 2 to 5, :math:`\Phi_r` is the beginning of :math:`\Phi_m`. The
    proofs of section 4 use all orders up to n and a union bound over them, which does not need
    independent runs.
    """
    Phi = moment.projection.first(order)
    # M_0, the sum of the weights, is 1 in section 4
    coordinates = average(problem, Phi, n_samples, rng) if order else np.ones(1)
    return ImplicitMoment(Phi, coordinates, moment.steps[:order])


def answer(moment: ImplicitMoment, circuit: Circuit, given: Inputs, drawn: Inputs) -> Floats:
    r"""Take step 7 of the box, and return :math:`\langle A, B(\mathcal{X}) \rangle`.

    Parameters
    ----------
    moment : ImplicitMoment
    circuit : Circuit of order m
        :math:`F_m`, which reads both kinds of inputs.
    given : mapping of str to array
        :math:`\mathcal{X}`: vectors (n_queries, d) and scalars (n_queries,).
    drawn : mapping of str to array
        N samples of :math:`D'`, used for every query as in the discussion after Proposition 3.2:
        vectors (N, d) and scalars (N,).

    Returns
    -------
    array of shape (n_queries,)
        Estimates of :math:`\langle T(\mathcal{X}), M_m \rangle`, where T is the mean over D'.
    """
    n_draws = len(next(iter(drawn.values())))
    width = n_draws * moment.projection.n_features * moment.projection.dim
    answers = []
    for block in blocks(given, width):
        queries = {name: array[:, None] for name, array in block.items()}
        images = evaluate(circuit, {**queries, **drawn}, moment.projection)
        # a circuit that reads no drawn input has one image per query
        answers.append(images.mean(axis=-2) @ moment.coordinates)
    return np.concatenate(answers)


def median_of_runs(runs: Sequence[Floats]) -> Floats:
    r"""Return the median of the answers of several runs (discussion after Proposition 3.2).

    If a run fails with probability 1/4, the median of :func:`runs_for` runs fails with
    probability :math:`\tau`.
    """
    medians: Floats = np.median(np.stack(runs), axis=0)
    return medians


def runs_for(tau: float) -> int:
    r"""Return :math:`8 \log(1/\tau)`, rounded up to an odd number.

    More than half of L runs fail with probability at most :math:`\exp(-2 L / 16)` (Hoeffding).
    """
    return math.ceil(8 * math.log(1 / tau)) // 2 * 2 + 1


@dataclass(frozen=True, eq=False)
class AnalysisErrors:
    r"""Quantities of the analysis, measured against known weights and vectors.

    Attributes
    ----------
    deltas : array of shape (m,)
        :math:`\|A_{r+1} - \Phi'_r(M_{2r+2})\|_2`.
    etas : array of shape (m,)
        Lemma 3.9: :math:`\eta_r = \max_i \mathrm{dist}(\sqrt{w_i} v_i^{\otimes r}, U_r)`, with
        :math:`\eta_{r+1} \le \eta_r \max_i \|v_i\| + \sqrt{2 \delta_{r+1}}`.
    missed : float
        Claim 3.10: :math:`\|M_m - P_m(M_m)\|_2 \le \eta_m \sqrt{k} (\sum_i w_i)^{1/2}`.
    """

    deltas: Floats
    etas: Floats
    missed: float


def measure_errors(moment: ImplicitMoment, weights: Floats, vectors: Floats) -> AnalysisErrors:
    r"""Lemma 3.9 and Claim 3.10: measure delta, eta and the missed part of the moment.

    The part of :math:`v^{\otimes r}` outside :math:`U_r` is what each step drops, tensored with
    the later slots. These pieces are orthogonal, so their Gram matrices add up, without the
    cancellation in :math:`\|v\|^{2r} - \|\Phi_r v^{\otimes r}\|^2`.

    Parameters
    ----------
    moment : ImplicitMoment
    weights : array of shape (k,)
    vectors : array of shape (k, d)

    Returns
    -------
    AnalysisErrors
    """
    images, outside = np.ones((len(vectors), 1)), np.zeros((len(vectors), len(vectors)))
    deltas, etas = [], []
    for step in moment.steps:
        joined = (images[:, :, None] * vectors[:, None, :]).reshape(len(vectors), -1)
        deltas.append(np.linalg.norm(step.A - (joined.T * weights) @ joined))
        images = joined @ step.phi.T
        dropped = joined - images @ step.phi
        outside = outside * (vectors @ vectors.T) + dropped @ dropped.T
        etas.append(np.sqrt((weights * outside.diagonal()).max()))
    missed = math.sqrt(max(0.0, float(weights @ outside @ weights)))
    return AnalysisErrors(np.array(deltas), np.array(etas), missed)


def rows_in_turn(rows: Mapping[str, Floats], rng: np.random.Generator) -> Take:
    """Return a function that hands out data in random order and no row twice: fresh samples.

    Parameters
    ----------
    rows : mapping of str to array
        Points ``"x"`` of shape (n_rows, d), and other arrays with one entry per row.
    rng : numpy.random.Generator

    Returns
    -------
    callable
        ``take(n)`` returns n rows of every array.
    """
    shapes = {name: array.shape for name, array in rows.items()}
    n_rows = len(rows["x"])
    finite = all(np.isfinite(array).all() for array in rows.values())
    if rows["x"].ndim != 2 or not finite or {shape[0] for shape in shapes.values()} != {n_rows}:
        raise ValueError(f"got {shapes}; expected finite arrays, x of (n, d) and the others of n")
    order, handed_out = rng.permutation(n_rows), 0

    def take(n: int) -> dict[str, Floats]:
        nonlocal handed_out
        if handed_out + n > n_rows:
            raise ValueError(
                f"{n} new rows are needed and {n_rows - handed_out} of {n_rows} are left; every "
                "step of the algorithm has rows of its own, so use more rows or smaller steps"
            )
        places = order[handed_out : handed_out + n]
        handed_out += n
        return {name: array[places] for name, array in rows.items()}

    return take


def hermite_problem(
    take: Take, n_features: int, weight: Callable[[int, Mapping[str, Floats]], Floats]
) -> Problem:
    r"""Return the form of all problems of section 4: :math:`S_t = c_t H_t(x, y)`.

    Parameters
    ----------
    take : callable
        Hands out rows with points ``"x"`` of shape (n, d); y is drawn from N(0, I).
    n_features : int
    weight : callable
        ``weight(t, rows)`` returns the :math:`c_t` of rows, (n,).

    Returns
    -------
    Problem
    """

    def circuit(order: int) -> Circuit:
        return scalar("c") * hermite(vector("x"), vector("y"), order)

    def draw(order: int, n: int, rng: np.random.Generator) -> Inputs:
        rows = take(n)
        y = rng.normal(size=(n, n_features))
        return {"x": rows["x"], "y": y, "c": weight(order, rows)}

    return Problem(n_features, circuit, draw)


@dataclass(frozen=True, eq=False)
class HermiteSeries:
    r"""A truncated Hermite expansion :math:`\sum_m a_m \langle H_m(x), M_m \rangle`.

    Attributes
    ----------
    moments : mapping of int to ImplicitMoment
        By order m.
    factors : mapping of int to float
        :math:`a_m`, by order.
    constant : float
        The term of order 0.
    draws : array of shape (N, d)
        Samples of y ~ N(0, I) for step 7.
    """

    moments: Mapping[int, ImplicitMoment]
    factors: Mapping[int, float]
    constant: float
    draws: Floats

    @property
    def degree(self) -> int:
        """The largest order."""
        return max(self.factors)

    def __call__(self, x: Floats) -> Floats:
        """Evaluate the series at points (n, d)."""
        total = np.full(len(x), self.constant)
        for order, moment in self.moments.items():
            query = hermite(vector("x"), vector("y"), order)
            total += self.factors[order] * answer(moment, query, {"x": x}, {"y": self.draws})
        return total


def estimate_series(
    problem: Problem,
    k: int,
    factors: Mapping[int, float],
    constant: float,
    n_samples: int,
    rng: np.random.Generator,
    eigenvalues: bool,
) -> HermiteSeries:
    """Apply Proposition 3.2 for every order of a Hermite expansion, up to the largest."""
    top = max(factors)
    moment = implicit_moment_estimation(problem, k, top, n_samples, rng, eigenvalues=eigenvalues)
    lower = {m: lower_order(moment, problem, m, n_samples, rng) for m in factors if m < top}
    draws = rng.normal(size=(n_samples, problem.n_features))
    return HermiteSeries({**lower, top: moment}, factors, constant, draws)
