"""Validation of the inputs of a circuit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Array, as_real_array, check_finite, namespace_of
from implicitmoments.circuits import Circuit
from implicitmoments.notes import InputError


@dataclass(frozen=True)
class Batch:
    """Named arrays with a common batch axis."""

    arrays: Mapping[str, Array]  # vectors ``(n, n_features)``, scalars ``(n,)``
    n: int  # number of rows

    def ones(self) -> Array:
        """Return a column ``(n, 1)`` of ones like the arrays."""
        model = next(iter(self.arrays.values()), np.ones(1))
        xp = namespace_of(model)
        return xp.ones((self.n, 1), dtype=model.dtype, device=model.device)


def read_inputs(
    circuit: Circuit, inputs: Mapping[str, Array], n_features: int | None, first_row: int = 0
) -> Batch:
    """Select and validate the inputs that ``circuit`` reads.

    Other names are ignored: ``hermite(x, y, order=1)`` does not read y. ``n_features`` is the
    required length of vectors, by default that of the first; ``first_row`` is the number of the
    first row in error messages.
    """
    missing = [name for name in circuit.inputs if name not in inputs]
    if missing:
        raise InputError(
            "input_missing",
            "the circuit needs {missing}, missing from inputs (given: {given})",
            missing=", ".join(map(repr, missing)),
            given=", ".join(map(repr, inputs)) or "nothing",
        )
    arrays = {
        name: as_real_array(inputs[name], f"input {name!r}", order + 1)
        for name, order in circuit.inputs.items()
    }
    if arrays:
        namespace_of(*arrays.values())
    rows = {name: int(array.shape[0]) for name, array in arrays.items()}
    if len(set(rows.values())) > 1:
        raise InputError(
            "lengths_differ",
            "inputs have different numbers of rows: {rows}; expected one row per sample",
            rows=rows,
        )
    for name, array in arrays.items():
        if array.ndim == 2:
            n_features = n_features or int(array.shape[1])
            if array.shape[1] != n_features:
                raise InputError(
                    "n_features_differ",
                    "input {name!r} has {n_features} features, expected {expected}",
                    **{"name": name, "n_features": array.shape[1], "expected": n_features},
                )
        check_finite(array, f"input {name!r}", first_row)
    return Batch(arrays, next(iter(rows.values()), 1))
