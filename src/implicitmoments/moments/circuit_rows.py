"""Rows of any moment problem in the coordinates of a frame, averaged by its circuits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from implicitmoments.arrays import Array, Floats, namespace_of, to_numpy
from implicitmoments.moments.chain import Frame, SymmetricChain, Window
from implicitmoments.moments.problem import CircuitMeans, MomentProblem
from implicitmoments.moments.split_mean import SplitMean, symmetrise
from implicitmoments.projections import RecursiveProjection


def project_chain(basis: Array, steps: Sequence[Array]) -> RecursiveProjection:
    """Return steps (n, n_before · p) in a basis (p, d) as a projection over the d features."""
    xp, p = namespace_of(basis), int(basis.shape[0])
    projection = RecursiveProjection.identity(int(basis.shape[1]), 0)
    for step in steps:
        # φ[o, a, j] basis[j, i]: each slot of the frame becomes a slot of the features
        split = xp.reshape(step, (step.shape[0], -1, p)) @ basis
        projection = projection.extend(xp.reshape(split, (step.shape[0], -1)))
    return projection


@dataclass(frozen=True)
class CircuitRows:
    """Rows of a moment problem in the coordinates of a frame.

    A moment of order t in the frame is the mean of S_t through a projection, over the unit of
    length to the power t. All means are NumPy arrays.
    """

    average: CircuitMeans
    frame: Frame  # without a height
    n_rows: int  # the first rows, in the order of the averages, are used
    n_groups: int = 2  # groups into which they are divided, to estimate the noise of a mean

    @classmethod
    def of(cls, average: CircuitMeans, n_rows: int) -> CircuitRows:
        """Return rows in their own coordinates."""
        eye = np.eye(average.problem.n_features)
        return cls(average, Frame(eye, np.zeros(len(eye))), n_rows)

    @property
    def problem(self) -> MomentProblem:
        """The problem."""
        return self.average.problem

    def in_frame(self, frame: Frame) -> CircuitRows:
        """Return the same rows in another frame."""
        return replace(self, frame=frame)

    def matrix(self, left: RecursiveProjection, right: RecursiveProjection) -> SplitMean:
        """Average the moment of the order of both, as a (left.dim, right.dim) matrix."""
        order = left.order + right.order
        return self._split(order, self.average.matrices(order, left, right, self._parts))

    def vector(self, projection: RecursiveProjection) -> SplitMean:
        """Average the moment of the order of a projection, as a vector of its dimension."""
        order = projection.order
        return self._split(order, self.average.vectors(order, projection, self._parts))

    def first_moments(self) -> dict[str, SplitMean]:
        """Average the moment of order 2, and of order 0 if the problem has it."""
        one = RecursiveProjection([np.asarray(self.frame.basis)])
        found = {"second": self.matrix(one, one).map(lambda mean: (mean + mean.T) / 2)}
        if self.problem.has_order(0):
            mass = self.vector(RecursiveProjection.identity(one.n_features, 0))
            found["mass"] = mass.map(lambda mean: mean[0])
        return found

    @property
    def _parts(self) -> list[range]:
        """The rows of each group, of which there are no more than rows."""
        n, q = self.n_rows, min(self.n_groups, 2 * (self.n_rows // 2))
        return [range(i * n // q, (i + 1) * n // q) for i in range(q)]

    def _split(self, order: int, means: list[Array]) -> SplitMean:
        unit = self.frame.scale**order
        groups = tuple(np.asarray(to_numpy(mean), dtype=np.float64) / unit for mean in means)
        return SplitMean(groups, tuple(float(len(part)) for part in self._parts))


@dataclass(frozen=True, eq=False)
class CircuitMomentPair:
    """M_2r and M_3r of any moment problem, by its circuits of these orders."""

    view: CircuitRows
    chain: SymmetricChain  # subspaces up to order r − 1
    window: Window  # coordinates of order r

    def second(self) -> SplitMean:
        """Average M_2r on the window."""
        whole, _ = self._power(np.eye(self.window.dim))
        return self.view.matrix(whole, whole).map(lambda mean: (mean + mean.T) / 2)

    def third(self, whitener: Floats) -> SplitMean:
        """Average M_3r through a whitener (dim, k) with orthogonal columns."""
        power, sizes = self._power(whitener.T)
        k = len(sizes)
        scales = sizes[:, None, None] * np.outer(sizes, sizes)
        cube = self.view.vector(power.tensor(power).tensor(power))
        return cube.map(lambda mean: symmetrise(np.reshape(mean, (k, k, k)) * scales))

    def mixed(self, whitener: Floats) -> SplitMean:
        """Average M_{r+1} on R^p × the whitened window, (p, k)."""
        power, sizes = self._power(whitener.T)
        return self.view.matrix(self._first, power).map(lambda mean: mean * sizes)

    def first(self) -> SplitMean:
        """Average M_1, (p,)."""
        return self.view.vector(self._first)

    @property
    def _first(self) -> RecursiveProjection:
        return RecursiveProjection([np.asarray(self.view.frame.basis)])

    def _power(self, rows: Floats) -> tuple[RecursiveProjection, Floats]:
        """Return the projection of order r onto orthogonal rows (n, dim), and their lengths."""
        sizes: Floats = np.linalg.norm(rows, axis=1)
        last = self.window.step(np.ascontiguousarray(rows / sizes[:, None]))
        return project_chain(self.view.frame.basis, [*self.chain.steps, last]), sizes
