"""Dense counterparts for small orders: slow and simple.

Every entry of the tensor is stored. The property tests compare :func:`evaluate` with these
functions; users can test a new circuit in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from implicitmoments.arrays import Array, as_real_array, move_like, namespace_of
from implicitmoments.circuits.nodes import Add, Append, Circuit, Scalar, Scale, Unit, Vector, wires
from implicitmoments.notes import InputError, InputTypeError
from implicitmoments.projections.evaluate import read_inputs
from implicitmoments.projections.recursive import RecursiveProjection


def evaluate_dense(circuit: Circuit, inputs: Mapping[str, Array]) -> Any:
    """Evaluate a circuit to a dense tensor per row.

    Parameters
    ----------
    circuit : Circuit of order t
    inputs : mapping of str to array
        Vectors ``(n_samples, n_features)``, scalars ``(n_samples,)``.

    Returns
    -------
    array of shape (n_samples, d, …, d)
        With t axes of length d, the number of features.

    See Also
    --------
    evaluate : Evaluate a circuit through a projection.
    project_dense : Apply a projection to dense tensors.

    Examples
    --------
    >>> import numpy as np
    >>> from implicitmoments.circuits import power, vector
    >>> from implicitmoments.projections import evaluate_dense
    >>> evaluate_dense(power(vector("x"), 2), {"x": np.array([[1.0, 2.0]])}).tolist()
    [[[1.0, 2.0], [2.0, 4.0]]]
    """
    batch = read_inputs(circuit.inputs, inputs, None)
    xp = namespace_of(batch.ones())
    tensors: dict[int, Array] = {}
    for node in wires(circuit):
        match node:
            case Unit():
                value = batch.ones()[:, 0]
            case Scalar(name=name) | Vector(name=name):
                value = batch.arrays[name]
            case Scale(factor=factor, tensor=tensor):
                value = tensors[id(tensor)]
                if isinstance(factor, Circuit):
                    ones = (1,) * (value.ndim - 1)
                    value = xp.reshape(tensors[id(factor)], (batch.n, *ones)) * value
                else:
                    value = factor * value
            case Add(left=left, right=right):
                value = tensors[id(left)] + tensors[id(right)]
            case Append(tensor=tensor, vector=vector):
                head, last = tensors[id(tensor)], tensors[id(vector)]
                ones = (1,) * (head.ndim - 1)
                value = head[..., None] * xp.reshape(last, (batch.n, *ones, last.shape[1]))
            case _:
                kind = type(node).__name__
                raise InputTypeError("not_a_node", "{kind} is not a circuit node", kind=kind)
        tensors[id(node)] = value
    return tensors[id(circuit)]


def hermite_dense(points: Array, order: int, noise: Array | None = None) -> Any:
    r"""Return the normalised Hermite tensors of the rows.

    Definition 2.2, by the recursion on the last slot: it holds x, or it is paired with one of
    the slots before it, :math:`He_n = He_{n-1} \otimes x - \sum_{j<n} I_{j,n} \otimes He_{n-2}`.

    Parameters
    ----------
    points : array of shape (n_samples, d)
        The rows x.
    order : int
        The order n.
    noise : array of shape (d, d), optional
        Takes the place of the identity I.

    Returns
    -------
    array of shape (n_samples, d, …, d)
        With n axes of length d.

    See Also
    --------
    evaluate_dense : Evaluate a circuit to dense tensors.
    implicitmoments.circuits.hermite : The extended Hermite tensor.

    Examples
    --------
    >>> import numpy as np
    >>> from implicitmoments.projections import hermite_dense
    >>> (np.sqrt(2) * hermite_dense(np.array([[1.0, 2.0]]), 2)).round(6).tolist()
    [[[0.0, 2.0], [2.0, 3.0]]]
    """
    x = as_real_array(points, "points", 2)
    xp = namespace_of(x)
    n_samples, d = (int(s) for s in x.shape)
    pair = xp.eye(d, dtype=x.dtype) if noise is None else move_like(noise, x)
    before, now = xp.zeros_like(x[:, 0]), xp.ones_like(x[:, 0])
    for n in range(1, order + 1):
        after = now[..., None] * xp.reshape(x, (n_samples, *(1,) * (n - 1), d))
        if n > 1:
            # axes of paired: (batch, n − 2 slots, slot j, slot n)
            paired = before[..., None, None] * pair
            for j in range(n - 1):
                after = after - xp.moveaxis(paired, n - 1, 1 + j)
        before, now = now, after
    return now / math.sqrt(math.factorial(order))


def project_dense(projection: RecursiveProjection, tensor: Array) -> Any:
    """Apply a projection to dense tensors.

    Parameters
    ----------
    projection : RecursiveProjection of order t
    tensor : array of shape (n_samples, d, …, d)
        With t axes of length d, the number of features.

    Returns
    -------
    array of shape (n_samples, projection.dim)
        The images of the tensors.

    See Also
    --------
    evaluate_dense : Evaluate a circuit to dense tensors.
    RecursiveProjection : A projection in steps, one per slot.

    Examples
    --------
    >>> import numpy as np
    >>> from implicitmoments.projections import RecursiveProjection, project_dense
    >>> P = RecursiveProjection([np.eye(2), np.eye(4)[:1]])
    >>> project_dense(P, np.array([[[1.0, 2.0], [2.0, 4.0]]])).tolist()
    [[1.0]]
    """
    tensor = as_real_array(tensor, "tensor", projection.order + 1)
    d = projection.n_features
    if any(size != d for size in tensor.shape[1:]):
        raise InputError(
            "wrong_shape",
            "tensor has shape {shape}, expected (n_samples{expected})",
            **{"shape": tuple(tensor.shape), "expected": f", {d}" * projection.order},
        )
    xp = namespace_of(tensor)
    flat = xp.reshape(tensor, (tensor.shape[0], d**projection.order))
    return flat @ xp.matrix_transpose(move_like(projection.as_matrix(), flat))
