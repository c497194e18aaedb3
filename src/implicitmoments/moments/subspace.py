"""The top-k subspace of a symmetric moment matrix, and its distance from the truth."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from implicitmoments.arrays import Array, Floats, descending_eigh, namespace_of, to_numpy
from implicitmoments.datasets import Truth
from implicitmoments.projections import RecursiveProjection

if TYPE_CHECKING:
    from implicitmoments.moments.decode import Components


def top_subspace(matrix: Array, k: int) -> tuple[Array, Floats]:
    """Return an orthonormal basis of the top-k eigenspace as rows, and all eigenvalues.

    Erratum 8: the box takes singular vectors; the moment of even order is positive
    semidefinite, so a large negative eigenvalue is noise and is left out. With fewer than k
    dimensions all are kept.
    """
    values, vectors = descending_eigh(matrix)
    xp = namespace_of(vectors)
    basis = xp.matrix_transpose(vectors[:, : min(k, int(matrix.shape[0]))])
    return basis, np.asarray(to_numpy(values), dtype=np.float64)


def distances_to_truth(projection: RecursiveProjection, truth: Truth) -> Floats:
    r"""Return :math:`\eta_r = \max_i \mathrm{dist}(\sqrt{w_i} v_i^{\otimes r}, U_r)` for every r.

    The part of :math:`v^{\otimes r}` outside :math:`U_r` is a sum of orthogonal pieces: the part
    dropped by each step times the norms of the following slots. Adding their squares avoids the
    cancellation in :math:`\|v\|^{2r} - \|\Phi_r v^{\otimes r}\|^2`.

    Returns
    -------
    array of shape (order,)
    """
    vectors, norms2 = truth.vectors, np.sum(truth.vectors**2, axis=1)
    image = np.ones((len(vectors), 1))
    dropped2 = np.zeros(len(vectors))
    etas = []
    for step in projection.steps:
        theta = np.asarray(to_numpy(step.as_matrix()), dtype=np.float64)
        joined = (image[:, :, None] * vectors[:, None, :]).reshape(len(vectors), -1)
        image = joined @ theta.T
        dropped2 = norms2 * dropped2 + np.sum((joined - image @ theta) ** 2, axis=1)
        etas.append(math.sqrt(float(np.max(truth.weights * dropped2))))
    return np.array(etas)


def projected_moment(projection: RecursiveProjection, truth: Truth) -> Floats:
    r"""Return :math:`(\Phi_r \otimes I) M_{2r+2} (\Phi_r \otimes I)^\top` of the truth.

    With r = ``projection.order``; a square matrix of side ``projection.dim · n_features``.
    """
    vectors = truth.vectors
    image = np.ones((len(vectors), 1))
    for step in projection.steps:
        image = to_numpy(step.apply(image, vectors))
    joined = (image[:, :, None] * vectors[:, None, :]).reshape(len(vectors), -1)
    moment: Floats = (joined * truth.weights[:, None]).T @ joined
    return moment


@dataclass(frozen=True)
class StepReport:
    """Measurements of one step of the recursion.

    Examples
    --------
    >>> import implicitmoments as im
    >>> X, _ = im.datasets.make_spherical_mixture(5_000, 2, 4, radius=3.0, random_state=0)
    >>> problem = im.problems.SphericalMixtureProblem(X)
    >>> moments = im.implicit_moments(problem, n_components=2, order=4)
    >>> [(step.order, step.rank, bool(step.gap > 1.5)) for step in moments.steps]
    [(2, 2, True), (4, 2, True)]
    """

    order: int  # order 2r of the moment that was averaged
    # the rows of the average: a range of row numbers, or (i, q) for the i-th of q parts into which
    # rows are divided by a hash of their points
    rows: range | tuple[int, int]
    asked: int  # directions requested, the number of components
    # directions kept: fewer than requested if the space has fewer dimensions, or if the closed
    # form found the others below the noise floor
    rank: int
    spectrum: Floats  # all eigenvalues of the averaged matrix, in descending order
    floor: float  # noise floor of the eigenvalues
    delta: float | None  # frobenius distance of the average from its mean, if the truth is known
    seconds: float

    @property
    def dropped(self) -> int:
        """Number of requested directions that were not kept."""
        return self.asked - self.rank

    @property
    def next_value(self) -> float:
        """The (k+1)-st eigenvalue, zero in the population: the measure of delta in Lemma 3.9."""
        return float(self.spectrum[self.asked]) if self.asked < len(self.spectrum) else 0.0

    @property
    def gap(self) -> float:
        """The k-th eigenvalue over the noise floor; above about 1.5 the direction is signal."""
        last = float(self.spectrum[min(self.asked, len(self.spectrum)) - 1])
        return last / self.floor if self.floor > 0 else float("inf")


def step_stats(steps: Iterable[StepReport]) -> dict[str, Any]:
    """Return spectra, noise floors, ranks and orders of the steps, one list entry per moment."""
    steps = list(steps)
    return {
        "spectra": [to_numpy(step.spectrum) for step in steps],
        "noise_floor": [float(step.floor) for step in steps],
        "ranks": [int(step.rank) for step in steps],
        "moment_orders": [int(step.order) for step in steps],
    }


def component_stats(components: Components | None) -> dict[str, Any]:
    """Return the same for the moment that components were decoded from; empty without one."""
    if components is None or components.decoded is None:
        return {}
    decoded = components.decoded
    return _one_moment(decoded.spectrum, len(decoded.weights), float(decoded.floor), 2 * decoded.r)


def span_stats(spectrum: Floats, rank: int, floor: float) -> dict[str, Any]:
    """Return the same for a second moment of which the top directions were kept."""
    return _one_moment(spectrum, rank, floor, 2)


def _one_moment(spectrum: Floats, rank: int, floor: float, order: int) -> dict[str, Any]:
    return {
        "spectra": [to_numpy(spectrum)],
        "noise_floor": [floor],
        "ranks": [rank],
        "moment_orders": [order],
    }


def second_moment_floor(n_features: int, n_rows: float) -> float:
    r"""Return the largest eigenvalue of :math:`E[x x^T] - I` due to noise of variance 1.

    The edge of the Marchenko–Pastur law, :math:`(1 + \sqrt{d/n})^2 - 1`.
    """
    return (1 + math.sqrt(n_features / max(n_rows, 1.0))) ** 2 - 1


@dataclass(frozen=True)
class Run:
    """One run of the paper's algorithm.

    Examples
    --------
    With exact moments the answers are exact:

    >>> import numpy as np
    >>> from implicitmoments import implicit_moments
    >>> from implicitmoments.datasets import Truth
    >>> from implicitmoments.problems import PopulationProblem
    >>> truth = Truth(np.array([0.5, 0.5]), np.eye(3)[:2])
    >>> moments = implicit_moments(
    ...     PopulationProblem(truth), n_components=2, order=3, n_samples=2
    ... )
    >>> moments.runs[0].coordinates.shape
    (2,)
    """

    projection: RecursiveProjection  # the paper's Phi_m
    coordinates: Array  # (projection.dim,), the paper's A: the image of M_m
    steps: tuple[StepReport, ...]
    etas: Floats | None  # (m,), distance of the truth from each U_r, if it is known
