r"""Definitions 3.4, 3.6 (recursive pseudo-projections), Lemmas 3.5, 3.7, 3.8; dense twins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.paper.circuits import Circuit, wires

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Inputs: TypeAlias = Mapping[str, Floats]

ORTHONORMAL = 1e-8  # largest entry of A Aᵀ − I that is taken for rounding


@dataclass(frozen=True, eq=False)
class Step:
    r"""Definition 3.4 (Pseudo-projection): a base pseudo-projection :math:`I_n \otimes \phi`.

    The identity is stored as a number and never formed (Lemma 3.8).

    Attributes
    ----------
    phi : array of shape (n_out, n_in * d)
        Orthonormal rows: :math:`\phi \phi^\top = I`.
    repeat : int
        The n of the identity; 1 for a single pseudo-projection.
    """

    phi: Floats
    repeat: int = 1

    def __post_init__(self) -> None:
        defect = np.abs(self.phi @ self.phi.T - np.eye(len(self.phi))).max()
        if not defect <= ORTHONORMAL:
            raise ValueError(
                f"a pseudo-projection needs orthonormal rows (Definition 3.4), got phi with "
                f"max |phi phi' - I| = {defect:.1e}; use np.linalg.qr"
            )

    def append(self, tensors: Floats, x: Floats) -> Floats:
        """Append vectors (..., d) to images (..., repeat * n_in), and apply the step."""
        split = tensors.reshape(*tensors.shape[:-1], self.repeat, -1)
        joined = split[..., :, None] * x[..., None, None, :]
        joined = joined.reshape(*joined.shape[:-2], -1)
        images: Floats = joined @ self.phi.T
        return images.reshape(*images.shape[:-2], -1)


@dataclass(frozen=True, eq=False)
class Projection:
    r"""Definition 3.6 (Recursive Pseudo-projection): :math:`\Phi: (R^d)^{\otimes t} \to R^n`.

    Step i maps the image of i − 1 slots and the next slot to the image of i slots::

        1 ─┬─[φ_1]─┬─[φ_2]─┬─ … ─[φ_t]── n
           d       d       d

    Attributes
    ----------
    n_features : int
        The length d of a slot.
    steps : tuple of Step
        One for each slot.
    """

    n_features: int
    steps: tuple[Step, ...] = ()

    @property
    def order(self) -> int:
        """The number of slots t."""
        return len(self.steps)

    @property
    def dim(self) -> int:
        """The dimension n of the image."""
        return len(self.steps[-1].phi) * self.steps[-1].repeat if self.steps else 1

    def first(self, order: int) -> Projection:
        """Return the projection of the first slots: Phi_r from Phi_m."""
        return Projection(self.n_features, self.steps[:order])

    def extend(self, phi: Floats) -> Projection:
        """Return the projection with one more step, ``phi`` of shape (n, dim * n_features)."""
        if phi.shape[1] != self.dim * self.n_features:
            expected = f"dim * n_features = {self.dim} * {self.n_features}"
            raise ValueError(f"phi has {phi.shape[1]} columns, expected {expected}")
        return Projection(self.n_features, (*self.steps, Step(phi)))


def identity(n_features: int) -> Projection:
    """Return the identity on one slot."""
    return Projection(n_features).extend(np.eye(n_features))


def tensor(left: Projection, right: Projection) -> Projection:
    r"""Lemma 3.8 (Efficient Tensorization): :math:`\Phi \otimes \Theta`.

    The proof's base pseudo-projections: :math:`\phi_1, \ldots, \phi_t`, then
    :math:`I_n \otimes \theta_1, \ldots, I_n \otimes \theta_s`.
    """
    if left.n_features != right.n_features:
        raise ValueError(f"slots have {left.n_features} and {right.n_features} features")
    repeated = (Step(step.phi, left.dim * step.repeat) for step in right.steps)
    return Projection(left.n_features, (*left.steps, *repeated))


def as_matrix(projection: Projection) -> Floats:
    """Return the dense twin, of shape (dim, n_features ** order)."""
    matrix = np.eye(1)
    for step in projection.steps:
        # (rows, n_in * repeat) ⊗ I_d, then I_repeat ⊗ φ
        matrix = np.kron(np.eye(step.repeat), step.phi) @ np.kron(
            matrix, np.eye(projection.n_features)
        )
    return matrix


def evaluate(circuit: Circuit, inputs: Inputs, projection: Projection) -> Floats:
    r"""Lemma 3.7 (Efficient Computation): return :math:`\Phi(S(\mathcal{I}))`.

    A wire that would carry an order-s tensor carries its image under the first s steps instead.

    Parameters
    ----------
    circuit : Circuit of order t
    inputs : mapping of str to array
        Vectors (..., n_features) and scalars (...); leading axes are broadcast.
    projection : Projection of order t

    Returns
    -------
    array of shape (..., projection.dim)
        Equal to ``project_dense(projection, evaluate_dense(circuit, inputs))``.

    Examples
    --------
    >>> from implicitmoments.paper.circuits import power, vector
    >>> plane = identity(2)
    >>> evaluate(power(vector("x"), 2), {"x": np.array([3.0, 1.0])}, tensor(plane, plane))
    array([9., 3., 3., 1.])
    """
    if circuit.order != projection.order:
        raise ValueError(
            f"the circuit has order {circuit.order} and the projection {projection.order}; "
            "expected equal orders"
        )
    carried: dict[Circuit, Floats] = {}
    for wire in wires(circuit):
        carried[wire] = _carry(wire, carried, inputs, projection)
    return _enter(circuit, carried, projection)


def _carry(
    wire: Circuit, carried: Mapping[Circuit, Floats], inputs: Inputs, projection: Projection
) -> Floats:
    """Apply one operation. Wires of order 0 and 1 carry the scalar, (..., 1), or the vector."""
    if not wire.operands:
        return _read(wire, inputs, projection.n_features)
    first, second = wire.operands
    if wire.operation == "add":
        return carried[first] + carried[second]
    if wire.operation == "scale" or first.order == 0:
        return carried[first] * carried[second]
    entered = _enter(first, carried, projection)
    return projection.steps[first.order].append(entered, carried[second])


def _enter(wire: Circuit, carried: Mapping[Circuit, Floats], projection: Projection) -> Floats:
    """Return the image of a wire. A vector is kept as it is, for it may be appended too."""
    if wire.order == 1:
        return projection.steps[0].append(np.ones(1), carried[wire])
    return carried[wire]


def _read(wire: Circuit, inputs: Inputs, n_features: int) -> Floats:
    """Return a number, (1,), a scalar input, (..., 1), or a vector input, (..., n_features)."""
    if isinstance(wire.value, float):
        return np.array([wire.value])
    if wire.value not in inputs:
        given = ", ".join(inputs) or "nothing"
        raise ValueError(f"the circuit reads {wire.value!r}, and inputs have {given}")
    array = np.asarray(inputs[wire.value], dtype=np.float64)
    if wire.order == 0:
        return array[..., None]
    if array.shape[-1] != n_features:
        shape = f"(..., {n_features})"
        raise ValueError(f"input {wire.value!r} has shape {array.shape}, expected {shape}")
    return array


def evaluate_dense(circuit: Circuit, inputs: Inputs) -> Floats:
    """Return the dense twin of a circuit: tensors of shape (n_samples, d, ..., d).

    ``inputs`` are vectors (n_samples, d) and scalars (n_samples,).
    """
    tensors: dict[Circuit, Floats] = {}
    for wire in wires(circuit):
        if isinstance(wire.value, float):
            tensors[wire] = np.array([wire.value])
        elif not wire.operands:
            tensors[wire] = np.asarray(inputs[wire.value], dtype=np.float64)
        elif wire.operation == "add":
            tensors[wire] = tensors[wire.operands[0]] + tensors[wire.operands[1]]
        elif wire.operation == "append":
            left, x = (tensors[operand] for operand in wire.operands)
            tensors[wire] = np.einsum("n...,na->n...a", left, x)
        else:
            factor, right = (tensors[operand] for operand in wire.operands)
            tensors[wire] = np.einsum("n,n...->n...", factor, right)
    return tensors[circuit]


def project_dense(projection: Projection, tensors: Floats) -> Floats:
    """Return the image (n_samples, dim) of dense tensors (n_samples, d, ..., d)."""
    images: Floats = tensors.reshape(len(tensors), -1) @ as_matrix(projection).T
    return images


def hermite_dense(x: Floats, order: int) -> Floats:
    r"""Definition 2.2 (Normalized Hermite Tensor): return :math:`H_n(x)`, (n_samples, d, ..., d).

    By the recursion that removes the last slot from a partition into singletons and pairs: alone
    it is x, and in a pair with slot j it is −I.
    """
    identity = np.eye(x.shape[1])
    sums = [np.ones(len(x)), x]  # of all partitions of n slots, without 1/√n!
    for n in range(2, order + 1):
        alone = np.einsum("n...,na->n...a", sums[n - 1], x)
        paired = np.einsum("n...,ab->n...ab", sums[n - 2], identity)
        pairs = sum(np.moveaxis(paired, -2, 1 + j) for j in range(n - 1))
        sums.append(alone - pairs)
    return sums[order] / math.sqrt(math.factorial(order))
