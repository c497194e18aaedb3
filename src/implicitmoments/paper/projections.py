r"""Definitions 3.4 and 3.6 (recursive pseudo-projections), Lemmas 3.5 and 3.8."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

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
