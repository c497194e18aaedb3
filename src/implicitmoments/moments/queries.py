"""Query circuits with auxiliary inputs: matching of names, draws, averages over draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from implicitmoments.arrays import Array, move_like, namespace_of
from implicitmoments.circuits import Circuit
from implicitmoments.notes import InputError, InputTypeError
from implicitmoments.projections import Batch, read_inputs
from implicitmoments.rows import DrawPurpose, RowDraws, blocks
from implicitmoments.validation import check_whole

Sampler: TypeAlias = Callable[[RowDraws], Array]
Auxiliary: TypeAlias = Mapping[str, Sampler] | Sequence[str]
InnerProduct: TypeAlias = Callable[[Circuit, Mapping[str, Array]], Array]

QUERY_NUMBERS = 2**20  # held at a time by the wires of a circuit: 8 MB


@dataclass(frozen=True)
class Query:
    r"""A circuit :math:`\mathcal{F}_m(\mathcal{X}, \mathcal{Y})` with given and drawn inputs."""

    circuit: Circuit
    given: Batch  # one row per query
    # ``sampler(rng)`` draws an auxiliary input for a range of queries
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
        """Validate the arguments of a query against the inputs of the circuit."""
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
        check_whole("n_draws", n_draws, 1)
        samplers = _samplers(circuit, inputs, auxiliary, n_features)
        orders = {name: t for name, t in circuit.inputs.items() if name not in samplers}
        given = read_inputs(orders, inputs, n_features)
        return cls(circuit, given, samplers, n_draws if samplers else 1, seed)

    def answer(self, inner: InnerProduct, width: int) -> Array:
        """Average ``inner``, linear in the circuit, over draws, block by block of queries.

        A wire carries ``width`` numbers per row.
        """
        size = max(1, QUERY_NUMBERS // (width * max(1, self.circuit.order)))
        parts = []
        for rows in blocks(range(self.given.n), size):
            block = {name: a[rows.start : rows.stop, ...] for name, a in self.given.arrays.items()}
            model = next(iter(block.values()), None)
            total: Any = 0.0
            for i in range(self.n_draws):
                rng = RowDraws(self.seed, rows, (DrawPurpose.QUERY, i))
                drawn = {name: draw(rng) for name, draw in self.samplers.items()}
                if model is not None:
                    drawn = {name: move_like(array, model) for name, array in drawn.items()}
                total = total + inner(self.circuit, {**block, **drawn})
            parts.append(total / self.n_draws)
        return namespace_of(parts[0]).concat(parts)


def _samplers(
    circuit: Circuit, inputs: Mapping[str, Array], auxiliary: Auxiliary, n_features: int
) -> dict[str, Sampler]:
    """Match the auxiliary names with the inputs of the circuit."""
    named = dict(auxiliary) if isinstance(auxiliary, Mapping) else dict.fromkeys(auxiliary)
    samplers: dict[str, Sampler] = {}
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
        samplers[name] = sampler or (lambda rng: rng.normal(n_features))
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
