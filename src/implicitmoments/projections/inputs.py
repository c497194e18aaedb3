"""The numbers a circuit reads, checked once against what it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Array, as_real_array, check_finite, namespace_of
from implicitmoments.circuits import Circuit
from implicitmoments.notes import InputError

__all__ = ["Batch", "read_inputs"]


@dataclass(frozen=True)
class Batch:
    """Named arrays with a common batch axis.

    Attributes
    ----------
    arrays : mapping of str to array
        Vectors ``(n, n_features)``, scalars ``(n,)``.
    n : int
        Number of rows.
    """

    arrays: Mapping[str, Array]
    n: int

    def ones(self) -> Array:
        """Return a column ``(n, 1)`` of ones like the arrays."""
        model = next(iter(self.arrays.values()), np.ones(1))
        xp = namespace_of(model)
        return xp.ones((self.n, 1), dtype=model.dtype, device=model.device)


def read_inputs(
    circuit: Circuit, inputs: Mapping[str, Array], n_features: int | None, first_row: int = 0
) -> Batch:
    """Pick what ``circuit`` reads out of ``inputs`` and check it.

    Names that the circuit does not read are left alone: ``hermite(x, y, order=1)`` reads no y.

    Parameters
    ----------
    circuit : Circuit
    inputs : mapping of str to array
    n_features : int or None
        Length every vector must have; None takes that of the first.
    first_row : int
        Number of the first row, for messages about blocks of a longer table.

    Raises
    ------
    ValueError
        If a name is missing, shapes do not fit, or a value is NaN or infinite.
    TypeError
        If entries are not real numbers, or arrays of two libraries are mixed.
    """
    missing = [name for name in circuit.inputs if name not in inputs]
    if missing:
        given = ", ".join(map(repr, inputs)) or "nothing"
        raise InputError(
            "input_missing",
            "the circuit reads {missing}, which the inputs do not hold (given: {given})",
            missing=", ".join(map(repr, missing)),
            given=given,
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
            "inputs have different numbers of rows: {rows}; expected one row a sample",
            rows=rows,
        )
    for name, array in arrays.items():
        if array.ndim == 2:
            n_features = n_features or int(array.shape[1])
            if array.shape[1] != n_features:
                raise InputError(
                    "n_features_differ",
                    "input {name!r} has {n_features} features, expected {expected}",
                    name=name,
                    n_features=array.shape[1],
                    expected=n_features,
                )
        check_finite(array, f"input {name!r}", first_row)
    return Batch(arrays, next(iter(rows.values()), 1))
