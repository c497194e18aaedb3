"""Recursive pseudo-projections: Definition 3.6, and the tensor product of Lemma 3.8."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import (
    Array,
    as_real_array,
    check_finite,
    eye_like,
    machine_epsilon,
    move_like,
    namespace_of,
    orthonormality_defect,
    outer_rows,
)
from implicitmoments.notes import InputError


@dataclass(frozen=True, eq=False)
class Step:
    r"""One base pseudo-projection, :math:`I_c \otimes \theta`, stored as its two factors.

    The Kronecker product is never formed: a step of a tensor product (Lemma 3.8) would
    otherwise hold :math:`c^2` times the numbers of :math:`\theta`.

    Examples
    --------
    >>> from implicitmoments.projections import RecursiveProjection
    >>> step = RecursiveProjection.identity(3, 2).steps[1]
    >>> step.n_in, step.n_out
    (3, 9)
    """

    theta: Array | None  # (n, n_before · n_features), none stands for the identity
    copies: int  # the size c of the identity in front
    n_before: int  # dimension of each copy before the step
    n_features: int  # length of the appended vector

    @property
    def n_in(self) -> int:
        """Dimension before the step, over all copies."""
        return self.copies * self.n_before

    @property
    def n_out(self) -> int:
        """Dimension after the step, over all copies."""
        inner = self.n_before * self.n_features if self.theta is None else self.theta.shape[0]
        return self.copies * int(inner)

    def apply(self, carried: Array, vector: Array) -> Array:
        r"""Map :math:`\mathrm{carried} \otimes \mathrm{vector}`.

        Parameters
        ----------
        carried : array of shape (n, n_in)
            Values before the step.
        vector : array of shape (n, n_features)
            Vectors appended in the last slot.

        Returns
        -------
        array of shape (n, n_out)
            Values after the step.
        """
        # index of the outer product: (copy, a, j), theta acts on (a, j)
        return self.apply_joined(outer_rows(carried, vector))

    def apply_joined(self, joined: Array) -> Array:
        r"""Map rows of :math:`\mathbb{R}^{n_\mathrm{in}} \otimes \mathbb{R}^d`.

        Parameters
        ----------
        joined : array of shape (n, n_in · n_features)
            Outer products of values and vectors.

        Returns
        -------
        array of shape (n, n_out)
            Values after the step.
        """
        if self.theta is None:
            return joined
        xp = namespace_of(joined)
        theta = move_like(self.theta, joined)
        n = joined.shape[0]
        grouped = xp.reshape(joined, (n * self.copies, theta.shape[1]))
        return xp.reshape(grouped @ xp.matrix_transpose(theta), (n, self.n_out))

    def as_matrix(self) -> Array:
        """Return the step as a matrix, with its Kronecker product formed.

        Returns
        -------
        array of shape (n_out, n_in · n_features)
            The matrix.
        """
        theta = np.eye(self.n_before * self.n_features) if self.theta is None else self.theta
        xp = namespace_of(theta)
        eye = eye_like(self.copies, theta)
        joined = eye[:, None, :, None] * theta[None, :, None, :]
        return xp.reshape(joined, (self.n_out, self.n_in * self.n_features))

    def repeat(self, copies: int) -> Step:
        """Return the tensor product of an identity with this step.

        Parameters
        ----------
        copies : int
            Size of the identity.

        Returns
        -------
        Step
            The repeated step.
        """
        return Step(self.theta, copies * self.copies, self.n_before, self.n_features)


class RecursiveProjection:
    r"""A pseudo-projection :math:`(\mathbb{R}^d)^{\otimes t} \to \mathbb{R}^n` in t steps.

    Step i is a matrix of shape :math:`n_i \times n_{i-1} d` with orthonormal rows,
    :math:`n_0 = 1`; the steps are applied left to right, each contracting one slot of the tensor::

        1 ──[φ_1]──n_1──[φ_2]──n_2── ⋯ ──[φ_t]── n_t
              │           │                 │
              d           d                 d

    Parameters
    ----------
    steps : sequence of arrays, step i of shape (rows, columns)
        With orthonormal rows, and as many columns as the step before has rows, times d.
    tolerance : float, optional
        Largest orthonormality defect accepted; the square root of the precision by default.

    Attributes
    ----------
    order : int
        Number of slots t.
    n_features : int
        Length d of a slot.
    dim : int
        Dimension :math:`n_t` of the image.
    width : int
        Largest dimension between steps (the paper's *size*).
    defect : float
        Largest Frobenius norm of :math:`\varphi \varphi^\top - I` over the steps.

    See Also
    --------
    evaluate : Evaluate a circuit through a projection.
    project_dense : Apply a projection to dense tensors.

    Examples
    --------
    >>> import numpy as np
    >>> P = RecursiveProjection([np.eye(3)[:2], np.eye(6)[:4]])
    >>> P.order, P.n_features, P.dim, P.width, P.defect
    (2, 3, 4, 4, 0.0)
    """

    steps: tuple[Step, ...]
    n_features: int
    defect: float

    def __init__(self, steps: Sequence[Array], *, tolerance: float | None = None) -> None:
        if len(steps) == 0:
            raise InputError(
                "no_steps",
                "a recursive projection needs at least one step; use "
                "RecursiveProjection.identity(n_features, order) for the identity",
            )
        first = as_real_array(steps[0], "step 1", 2)
        built = RecursiveProjection._from_steps((), int(first.shape[1]), 0.0)
        for theta in steps:
            built = built.extend(theta, tolerance=tolerance)
        self.steps, self.n_features, self.defect = built.steps, built.n_features, built.defect

    @classmethod
    def _from_steps(
        cls, steps: tuple[Step, ...], n_features: int, defect: float
    ) -> RecursiveProjection:
        """Build from validated steps."""
        built = object.__new__(cls)
        built.steps, built.n_features, built.defect = steps, n_features, defect
        return built

    @classmethod
    def identity(cls, n_features: int, order: int) -> RecursiveProjection:
        """Return the identity on tensors of an order.

        Parameters
        ----------
        n_features : int
            Length d of a slot.
        order : int
            Number of slots.

        Returns
        -------
        RecursiveProjection
            Of dimension ``n_features ** order``.
        """
        if n_features < 1 or order < 0:
            raise InputError(
                "out_of_range",
                "identity needs n_features >= 1 and order >= 0, got {n_features} and {order}",
                **{"n_features": n_features, "order": order},
            )
        steps = tuple(Step(None, 1, n_features**i, n_features) for i in range(order))
        return cls._from_steps(steps, n_features, 0.0)

    @property
    def order(self) -> int:
        """Number of slots."""
        return len(self.steps)

    @property
    def dim(self) -> int:
        """Dimension of the image."""
        return self.steps[-1].n_out if self.steps else 1

    @property
    def width(self) -> int:
        """Largest dimension between two steps."""
        return max((step.n_out for step in self.steps), default=1)

    def extend(self, step: Array, *, tolerance: float | None = None) -> RecursiveProjection:
        """Return this projection with one more step.

        Parameters
        ----------
        step : array of shape (n, dim · n_features)
            With orthonormal rows.
        tolerance : float, optional
            Largest orthonormality defect accepted.

        Returns
        -------
        RecursiveProjection
            Of order ``self.order + 1``.
        """
        number = self.order + 1
        theta = as_real_array(step, f"step {number}", 2)
        check_finite(theta, f"step {number}")
        n, columns = (int(s) for s in theta.shape)
        if columns != self.dim * self.n_features:
            raise InputError(
                "step_wrong_columns",
                "step {number} has {columns} columns, expected {dim} · {n_features} = {expected} "
                "(rows of the step before times n_features)",
                **{"number": number, "columns": columns, "dim": self.dim},
                **{"n_features": self.n_features, "expected": self.dim * self.n_features},
            )
        if n > columns:
            raise InputError(
                "step_too_many_rows",
                "step {number} has {n} rows and only {columns} columns: more rows than columns "
                "cannot be orthonormal",
                **{"number": number, "n": n, "columns": columns},
            )
        defect = orthonormality_defect(theta)
        if tolerance is None:
            tolerance = math.sqrt(machine_epsilon(theta))
        if not defect <= tolerance:
            raise InputError(
                "step_not_orthonormal",
                "the rows of step {number} are not orthonormal: |φφᵀ − I| = {defect:.2g}, "
                "accepted up to {tolerance:.2g}; try a QR decomposition of its transpose",
                **{"number": number, "defect": defect, "tolerance": tolerance},
            )
        added = Step(theta, 1, self.dim, self.n_features)
        return self._from_steps((*self.steps, added), self.n_features, max(self.defect, defect))

    def tensor(self, other: RecursiveProjection) -> RecursiveProjection:
        r"""Return the tensor product with another projection (Lemma 3.8).

        Its steps are :math:`\varphi_1, \ldots, \varphi_t` and
        :math:`I \otimes \theta_1, \ldots, I \otimes \theta_s`.

        Parameters
        ----------
        other : RecursiveProjection
            With the same ``n_features``.

        Returns
        -------
        RecursiveProjection
            Of order ``self.order + other.order``.
        """
        if other.n_features != self.n_features:
            raise InputError(
                "n_features_differ",
                "cannot join projections of {n_features} and {other} features",
                **{"n_features": self.n_features, "other": other.n_features},
            )
        steps = self.steps + tuple(step.repeat(self.dim) for step in other.steps)
        return self._from_steps(steps, self.n_features, max(self.defect, other.defect))

    def first(self, order: int) -> RecursiveProjection:
        """Return the projection that consists of the first steps.

        Parameters
        ----------
        order : int
            Number of steps.

        Returns
        -------
        RecursiveProjection
            Of order ``order``.
        """
        if not 0 <= order <= self.order:
            raise InputError(
                "too_few_steps",
                "the first {asked} steps were requested, but there are {order}",
                **{"order": self.order, "asked": order},
            )
        return self._from_steps(self.steps[:order], self.n_features, self.defect)

    def as_matrix(self) -> Array:
        """Return the projection as a dense matrix, for small orders.

        Returns
        -------
        array of shape (dim, n_features ** order)
            The matrix.
        """
        matrix: Array = np.ones((1, 1))
        for step in self.steps:
            phi = step.as_matrix()
            xp = namespace_of(phi)
            # φ[o, a, j] matrix[a, x] -> [o, x, j]: one more slot, last
            split = xp.reshape(phi, (step.n_out, step.n_in, self.n_features))
            joined = xp.permute_dims(split, (0, 2, 1)) @ move_like(matrix, phi)
            matrix = xp.reshape(xp.permute_dims(joined, (0, 2, 1)), (step.n_out, -1))
        return matrix

    def __repr__(self) -> str:
        dims = " → ".join(str(n) for n in (1, *(step.n_out for step in self.steps)))
        return (
            f"<recursive projection of order {self.order} in {self.n_features} features: {dims}>"
        )
