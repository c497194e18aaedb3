"""What an estimation returns: the compressed moment, to be queried, and its statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.backends import Array, as_real_array, move_like, namespace_of
from implicitmoments.circuits import Circuit, hermite, vector
from implicitmoments.projections import RecursiveProjection, evaluate
from implicitmoments.samples import RandomState, RowDraws, as_seed, blocks

__all__ = ["ImplicitMoments", "Run", "StepReport"]

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Auxiliary: TypeAlias = Mapping[str, Callable[[RowDraws], Array]] | tuple[str, ...]

QUERY_STREAM = 1_000_003  # apart from the streams of the orders
QUERY_NUMBERS = 2**20


@dataclass(frozen=True)
class StepReport:
    """What one step of the recursion saw.

    Attributes
    ----------
    order : int
        Order 2r + 2 of the moment that was averaged.
    rows : range
        The rows it was averaged over.
    rank : int
        Directions kept, at most k.
    spectrum : array
        All eigenvalues of the averaged matrix, from the largest down.
    delta : float or None
        Frobenius distance of the average from its mean, when the truth is known.
    started : float
        Clock when the step began; :attr:`seconds` is what it took.
    """

    order: int
    rows: range
    rank: int
    spectrum: Floats
    delta: float | None
    started: float = field(repr=False)
    seconds: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", perf_counter() - self.started)

    @property
    def next_value(self) -> float:
        """The (k+1)-st eigenvalue, zero in the population: the measure of delta in Lemma 3.9."""
        return float(self.spectrum[self.rank]) if self.rank < len(self.spectrum) else 0.0


@dataclass(frozen=True)
class Run:
    """One run of the algorithm.

    Attributes
    ----------
    projection : RecursiveProjection of order m
        The paper's Phi_m.
    coordinates : array of shape (projection.dim,)
        The paper's A: the image of M_m.
    steps : tuple of StepReport
    etas : array of shape (m,), or None
        Distance of the truth from each U_r, when it is known.
    """

    projection: RecursiveProjection
    coordinates: Array
    steps: tuple[StepReport, ...]
    etas: Floats | None


@dataclass(frozen=True)
class ImplicitMoments:
    """A moment tensor of order m in compressed form.

    Attributes
    ----------
    n_components, order : int
        As asked for.
    runs : tuple of Run
        One unless ``n_repeats`` was given; answers are medians over them.
    stats : dict
        Rows a step, rows in all, seconds, block of the last report.
    """

    n_components: int
    order: int
    runs: tuple[Run, ...]
    stats: Mapping[str, Any]

    @property
    def spectra(self) -> tuple[Floats, ...]:
        """Eigenvalues of every step of the first run, from the largest down."""
        return tuple(step.spectrum for step in self.runs[0].steps)

    @property
    def noise_floor(self) -> Floats:
        """The (k+1)-st eigenvalue of every step of the first run."""
        return np.array([abs(step.next_value) for step in self.runs[0].steps])

    def inner(
        self,
        circuit: Circuit,
        inputs: Mapping[str, Array],
        *,
        auxiliary: Auxiliary = (),
        n_draws: int = 100,
        random_state: RandomState = 0,
    ) -> Array:
        r"""Estimate :math:`\langle T(\mathcal{X}), M_m \rangle` for every row of the inputs.

        Steps 7 and 8 of the box: the query circuit is averaged through the projection over
        draws of its auxiliary inputs, and multiplied with the coordinates of the moment.

        Parameters
        ----------
        circuit : Circuit of order m
            The paper's :math:`\mathcal{F}_m`.
        inputs : mapping of str to array
            Its given inputs, one row a query.
        auxiliary : tuple of str, or mapping of str to callable
            Its other inputs, to be drawn and averaged over: names stand for vectors from
            N(0, I), a callable ``f(rng)`` draws one row of numbers a query.
        n_draws : int
            Draws to average over, when there are auxiliary inputs.
        random_state : int, generator or None

        Returns
        -------
        array of shape (n_queries,)
            In the namespace of the inputs; the median over runs.
        """
        samplers = _samplers(circuit, inputs, auxiliary, self.runs[0].projection.n_features)
        if n_draws < 1:
            raise ValueError(f"n_draws is at least 1, got {n_draws}")
        given = {
            name: as_real_array(inputs[name], f"input {name!r}", order + 1)
            for name, order in circuit.inputs.items()
            if name not in samplers
        }
        n = int(next(iter(given.values())).shape[0]) if given else 1
        seed, draws = as_seed(random_state), n_draws if samplers else 1
        size = max(1, QUERY_NUMBERS // (self.runs[0].projection.width * max(1, circuit.order)))
        parts = [
            self._answer(circuit, given, samplers, draws, seed, rows)
            for rows in blocks(range(n), size)
        ]
        return namespace_of(parts[0]).concat(parts)

    def hermite(
        self,
        points: Array,
        order: int | None = None,
        *,
        n_draws: int = 100,
        random_state: RandomState = 0,
    ) -> Array:
        r"""Estimate :math:`\langle H_m(x), M_m \rangle` for every row x of ``points``.

        Parameters
        ----------
        points : array of shape (n_queries, n_features)
        order : int, optional
            The order m that was estimated; the box gives no other.
        n_draws, random_state
            As for :meth:`inner`.
        """
        if order is not None and order != self.order:
            raise ValueError(
                f"the moment of order {self.order} was estimated and order {order} is asked for; "
                f"run implicit_moments(..., order={order})"
            )
        x, y = vector("x"), vector("y")
        query = hermite(x, y, self.order)
        return self.inner(
            query,
            {"x": points},
            auxiliary=("y",) if "y" in query.inputs else (),
            n_draws=n_draws,
            random_state=random_state,
        )

    def _answer(
        self,
        circuit: Circuit,
        given: Mapping[str, Array],
        samplers: Mapping[str, Callable[[RowDraws], Array]],
        n_draws: int,
        seed: int,
        rows: range,
    ) -> Array:
        """Average B(X) over draws for one block of queries, and multiply with A."""
        block = {name: array[rows.start : rows.stop, ...] for name, array in given.items()}
        totals: list[Array] = [None] * len(self.runs)
        for draw in range(n_draws):
            rng = RowDraws(seed, rows, (QUERY_STREAM, draw))
            drawn = {name: sampler(rng) for name, sampler in samplers.items()}
            if block:
                model = next(iter(block.values()))
                drawn = {name: move_like(array, model) for name, array in drawn.items()}
            for i, run in enumerate(self.runs):
                B = evaluate(circuit, {**block, **drawn}, run.projection)
                totals[i] = B if totals[i] is None else totals[i] + B
        answers = [
            (B / n_draws) @ move_like(run.coordinates, B)
            for B, run in zip(totals, self.runs, strict=True)
        ]
        return _median(answers)


def _median(answers: list[Array]) -> Array:
    """Return the entrywise median of arrays of one shape."""
    xp = namespace_of(*answers)
    ordered = xp.sort(xp.stack(answers), axis=0)
    middle = len(answers) // 2
    if len(answers) % 2:
        return ordered[middle, ...]
    return (ordered[middle - 1, ...] + ordered[middle, ...]) / 2


def _samplers(
    circuit: Circuit, inputs: Mapping[str, Array], auxiliary: Auxiliary, n_features: int
) -> dict[str, Callable[[RowDraws], Array]]:
    """Match the auxiliary names with the circuit, in the user's words where they do not fit."""
    named = dict(auxiliary) if isinstance(auxiliary, Mapping) else dict.fromkeys(auxiliary)
    samplers: dict[str, Callable[[RowDraws], Array]] = {}
    for name, sampler in named.items():
        if name not in circuit.inputs:
            raise ValueError(
                f"auxiliary names {name!r}, which the circuit does not read "
                f"(it reads: {', '.join(map(repr, circuit.inputs)) or 'nothing'})"
            )
        if name in inputs:
            raise ValueError(
                f"{name!r} is both in inputs and in auxiliary; give it in one of them"
            )
        if sampler is None and circuit.inputs[name] == 0:
            raise ValueError(
                f"auxiliary {name!r} is a scalar: say how to draw it, "
                f"auxiliary={{{name!r}: lambda rng: rng.normal()}}"
            )
        samplers[name] = sampler or (lambda rng: rng.normal(n_features))
    missing = [name for name in circuit.inputs if name not in inputs and name not in samplers]
    if missing:
        raise ValueError(
            f"the circuit reads {', '.join(map(repr, missing))}, which the inputs do not hold "
            f"(given: {', '.join(map(repr, inputs)) or 'nothing'}); pass it in inputs, or name it "
            f"in auxiliary=({missing[0]!r},) to have it drawn from N(0, I) and averaged over"
        )
    return samplers
