"""Evaluation of circuits through projections, without forming a tensor (Lemma 3.7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.arrays import Array, as_real_array, check_finite, namespace_of
from implicitmoments.circuits.nodes import Add, Append, Circuit, Scalar, Scale, Unit, Vector, wires
from implicitmoments.notes import InputError, InputTypeError
from implicitmoments.projections.recursive import RecursiveProjection


def evaluate(
    circuit: Circuit,
    inputs: Mapping[str, Array],
    projection: RecursiveProjection,
    *,
    first_row: int = 0,
) -> Any:
    r"""Evaluate a circuit through a projection, without forming its tensor.

    A wire that would carry an order-``s`` tensor carries its image under the first ``s``
    steps of ``projection`` instead (Lemma 3.7, Efficient Computation).

    Parameters
    ----------
    circuit : Circuit of order t
    inputs : mapping of str to array
        Vectors ``(n_samples, n_features)``, scalars ``(n_samples,)``.
    projection : RecursiveProjection of order t
    first_row : int, default 0
        Number of the first row in error messages about blocks of a longer table.

    Returns
    -------
    array of shape (n_samples, projection.dim)
        In the namespace and on the device of ``inputs``. Equals
        ``project_dense(projection, evaluate_dense(circuit, inputs))``.

    See Also
    --------
    evaluate_dense : Evaluate a circuit to dense tensors.
    implicitmoments.circuits.describe : The cost of a circuit.

    Examples
    --------
    >>> import numpy as np
    >>> from implicitmoments.circuits import power, vector
    >>> from implicitmoments.projections import evaluate
    >>> from implicitmoments.testing import random_projection
    >>> rng = np.random.default_rng(0)
    >>> P = random_projection(rng, n_features=20, order=12, width=4)
    >>> evaluate(power(vector("x"), 12), {"x": rng.normal(size=(7, 20))}, P).shape == (7, P.dim)
    True
    """
    _check_order(circuit, projection.order)
    batch = read_inputs(circuit.inputs, inputs, projection.n_features, first_row)
    carried = _carry(wires(circuit), batch, projection)
    return _enter(carried[id(circuit)], circuit.order, projection)


def evaluate_split(
    circuit: Circuit,
    inputs: Mapping[str, Array],
    left: RecursiveProjection,
    right: RecursiveProjection,
    *,
    first_row: int = 0,
) -> list[tuple[Array, Array]]:
    r"""Evaluate through the product of two projections as a short sum of outer products.

    Appends only ever add a last slot, so the circuit can be cut after ``left.order`` slots:
    the output is :math:`\sum_j L_j \otimes R_j`, one term for each wire j that crosses the cut::

        slots 1 … s                      slots s+1 … t
        ───────────── L_j ──▶ (wire j) ──▶ R_j = what follows, started from 1

    The extended Hermite tensor has two such wires. Averages of :math:`L_j R_j^\top` over rows
    are then matrix products, instead of sums of ``left.dim · right.dim`` numbers per row.

    Parameters
    ----------
    circuit : Circuit of order left.order + right.order
        The circuit.
    inputs : mapping of str to array
        As for :func:`evaluate`.
    left, right : RecursiveProjection of order 1 or more
        Projections of the first and of the last slots.
    first_row : int, default 0
        As for :func:`evaluate`.

    Returns
    -------
    list of pairs of arrays (n_samples, left.dim) and (n_samples, right.dim)
        ``evaluate(circuit, inputs, left.tensor(right))`` is the sum of their row-wise outer
        products.

    Examples
    --------
    >>> import numpy as np
    >>> from implicitmoments.circuits import hermite, vector
    >>> from implicitmoments.projections import RecursiveProjection, evaluate_split
    >>> half, X = RecursiveProjection.identity(3, 2), np.ones((5, 3))
    >>> T = hermite(vector("x"), vector("y"), 4)
    >>> [(L.shape, R.shape) for L, R in evaluate_split(T, {"x": X, "y": X}, half, half)]
    [((5, 9), (5, 9)), ((5, 9), (5, 9))]
    """
    _check_order(circuit, left.order + right.order)
    if left.order < 1 or right.order < 1:
        raise InputError(
            "order_zero",
            "left and right must have order 1 or more, got {order} and {other_order}; use "
            "evaluate for a single projection",
            **{"order": left.order, "other_order": right.order},
        )
    batch = read_inputs(circuit.inputs, inputs, left.n_features, first_row)
    listed, cut = wires(circuit), left.order
    carried = _carry([w for w in listed if w.order <= cut], batch, left)
    crossing = {
        id(w.tensor): w.tensor for w in listed if isinstance(w, Append) and w.order == cut + 1
    }
    above = [w for w in listed if w.order > cut]
    pairs = []
    for wire in crossing.values():
        # 1 from this wire, 0 from every other; a wire that it does not reach is absent
        started = {id(wire): batch.ones()}
        for node in above:
            value = _operate(node, started, carried, cut, right)
            if value is not None:
                started[id(node)] = value
        right_value = _enter(started[id(circuit)], right.order, right)
        pairs.append((_enter(carried[id(wire)], cut, left), right_value))
    return pairs


def _carry(
    listed: list[Circuit], batch: Batch, projection: RecursiveProjection
) -> dict[int, Array]:
    """Compute the values carried by every wire.

    Wires of order 0 and 1 are not projected, ``(n, 1)`` and ``(n, n_features)``, since a vector
    may be appended later. They enter the projection when a wire of order 2 reads them.
    """
    carried: dict[int, Array] = {}
    for node in listed:
        value: Array | None
        match node:
            case Unit():
                value = batch.ones()
            case Scalar(name=name):
                value = batch.arrays[name][:, None]
            case Vector(name=name):
                value = batch.arrays[name]
            case _:
                value = _operate(node, carried, carried, 0, projection)
        if value is not None:  # operands come first, so that every wire is reached
            carried[id(node)] = value
    return carried


def _operate(
    node: Circuit,
    tensors: Mapping[int, Array],
    raw: Mapping[int, Array],
    cut: int,
    projection: RecursiveProjection,
) -> Array | None:
    """Apply one operation; slots up to ``cut`` are outside ``projection``.

    ``tensors`` holds the values of tensor operands, ``raw`` those of scalars and vectors. The
    result is None if no tensor operand is reached.
    """
    match node:
        case Scale(factor=factor, tensor=tensor):
            value = tensors.get(id(tensor))
            if value is None:
                return None
            return (raw[id(factor)] if isinstance(factor, Circuit) else factor) * value
        case Add(left=first, right=second):
            values = [tensors[id(w)] for w in (first, second) if id(w) in tensors]
            return values[0] + values[1] if len(values) == 2 else next(iter(values), None)
        case Append(tensor=tensor, vector=vector):
            value = tensors.get(id(tensor))
            if value is None:
                return None
            inside = tensor.order - cut
            if inside == 0:
                return value * raw[id(vector)]
            return projection.steps[inside].apply(
                _enter(value, inside, projection), raw[id(vector)]
            )
        case _:
            kind = type(node).__name__
            raise InputTypeError("not_a_node", "{kind} is not a circuit operation", kind=kind)


def _enter(value: Array, order: int, projection: RecursiveProjection) -> Array:
    """Apply the first step to a wire of order 1, which is not projected yet."""
    return projection.steps[0].apply_joined(value) if order == 1 else value


def _check_order(circuit: Circuit, order: int) -> None:
    if circuit.order != order:
        raise InputError(
            "orders_differ",
            "the circuit has order {order} and the projection order {other_order}; they must be "
            "equal",
            **{"order": circuit.order, "other_order": order},
        )


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
    orders: Mapping[str, int],
    inputs: Mapping[str, Array],
    n_features: int | None,
    first_row: int = 0,
) -> Batch:
    """Select and validate the inputs of a circuit, given the order of each.

    Other names are ignored: ``hermite(x, y, order=1)`` does not read y. ``n_features`` is the
    required length of vectors, by default that of the first; ``first_row`` is the number of the
    first row in error messages.
    """
    missing = [name for name in orders if name not in inputs]
    if missing:
        raise InputError(
            "input_missing",
            "the circuit needs {missing}, missing from inputs (given: {given})",
            missing=", ".join(map(repr, missing)),
            given=", ".join(map(repr, inputs)) or "nothing",
        )
    arrays = {
        name: as_real_array(inputs[name], f"input {name!r}", order + 1)
        for name, order in orders.items()
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
