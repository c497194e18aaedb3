"""Query circuits with auxiliary inputs: match names, draw, and average over draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from implicitmoments.arrays import Array, as_real_array, check_finite, move_like, namespace_of
from implicitmoments.circuits import Circuit
from implicitmoments.rows import RowDraws, Stream, blocks

__all__ = ["Auxiliary", "Query"]

Sampler: TypeAlias = Callable[[RowDraws], Array]
Auxiliary: TypeAlias = Mapping[str, Sampler] | Sequence[str]

QUERY_NUMBERS = 2**20


@dataclass(frozen=True)
class Query:
    r"""A circuit :math:`\mathcal{F}_m(\mathcal{X}, \mathcal{Y})`, its given and its drawn inputs.

    Attributes
    ----------
    circuit : Circuit
    given : mapping of str to array
        One row a query.
    samplers : mapping of str to callable
        ``sampler(rng)`` draws an auxiliary input for a range of queries.
    n_draws : int
    seed : int
    """

    circuit: Circuit
    given: Mapping[str, Array]
    samplers: Mapping[str, Sampler]
    n_draws: int
    seed: int

    @classmethod
    def build(
        cls,
        circuit: Circuit,
        inputs: Mapping[str, Array],
        auxiliary: Auxiliary,
        n_draws: int,
        seed: int,
        n_features: int,
    ) -> Query:
        """Check what the user gave against what the circuit reads."""
        if not isinstance(circuit, Circuit):
            raise TypeError(f"a query is a circuit such as power(vector('x'), 3), got {circuit!r}")
        if not isinstance(inputs, Mapping):
            raise TypeError(f"inputs map names to arrays, got {type(inputs).__name__}")
        if isinstance(auxiliary, str):
            raise TypeError(f"auxiliary is a tuple of names, try auxiliary=({auxiliary!r},)")
        if n_draws < 1:
            raise ValueError(f"n_draws is at least 1, got {n_draws}")
        samplers = _samplers(circuit, inputs, auxiliary, n_features)
        given = {
            name: as_real_array(inputs[name], f"input {name!r}", order + 1)
            for name, order in circuit.inputs.items()
            if name not in samplers
        }
        for name, array in given.items():
            check_finite(array, f"input {name!r}")
        rows = {name: int(array.shape[0]) for name, array in given.items()}
        if len(set(rows.values())) > 1:
            raise ValueError(f"inputs have different numbers of rows: {rows}")
        return cls(circuit, given, samplers, n_draws if samplers else 1, seed)

    def answer(self, inner: Callable[[Mapping[str, Array]], Array], width: int) -> Array:
        """Average ``inner`` over draws, block by block of queries.

        Parameters
        ----------
        inner : callable
            Linear in the circuit's output: maps inputs to one number a row.
        width : int
            Numbers a wire carries for one row.
        """
        n = int(next(iter(self.given.values())).shape[0]) if self.given else 1
        size = max(1, QUERY_NUMBERS // (width * max(1, self.circuit.order)))
        parts = []
        for rows in blocks(range(n), size):
            total: Array = 0.0
            for inputs in self._draws(rows):
                total = total + inner(inputs)
            parts.append(total / self.n_draws)
        return namespace_of(parts[0]).concat(parts)

    def _draws(self, rows: range) -> Iterator[dict[str, Array]]:
        block = {name: array[rows.start : rows.stop, ...] for name, array in self.given.items()}
        for draw in range(self.n_draws):
            rng = RowDraws(self.seed, rows, (Stream.QUERY, draw))
            drawn = {name: sampler(rng) for name, sampler in self.samplers.items()}
            if block:
                model = next(iter(block.values()))
                drawn = {name: move_like(array, model) for name, array in drawn.items()}
            yield {**block, **drawn}


def _samplers(
    circuit: Circuit, inputs: Mapping[str, Array], auxiliary: Auxiliary, n_features: int
) -> dict[str, Sampler]:
    """Match the auxiliary names with the circuit, in the user's words where they do not fit."""
    named = dict(auxiliary) if isinstance(auxiliary, Mapping) else dict.fromkeys(auxiliary)
    samplers: dict[str, Sampler] = {}
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
