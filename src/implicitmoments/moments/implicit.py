"""Implicit-Moment-Estimation: the box of section 3.3, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import numpy as np

from implicitmoments.arrays import Array, to_numpy
from implicitmoments.datasets import Truth
from implicitmoments.moments.circuit_means import CircuitMeans
from implicitmoments.moments.subspace import (
    Run,
    StepReport,
    distances_to_truth,
    projected_moment,
    top_subspace,
)
from implicitmoments.projections import RecursiveProjection


def estimate(
    average: CircuitMeans, k: int, m: int, fresh: Iterator[range], truth: Truth | None = None
) -> Run:
    """Run algorithm Implicit-Moment-Estimation once, up to its step 6.

    Parameters
    ----------
    average : CircuitMeans
        Draws from D_t and averages S_t.
    k : int
        Number of components.
    m : int
        Order of the moment.
    fresh : iterator of range
        Step 1: N rows for each of the m + 1 averages, no row twice. The samples that choose
        Phi_r are not independent of it and cannot be reused to estimate moments in it.
    truth : Truth, optional
        For synthetic data: eta and delta are then measured.

    Returns
    -------
    Run
        Phi_m, A, and measurements of each step. Step 7 and the inner product are left to
        :meth:`PaperMoments.inner`, for any number of queries.
    """
    d = average.problem.n_features
    identity = RecursiveProjection.identity(d, 1)
    Phi = RecursiveProjection.identity(d, 0)
    reports = []
    for r in range(m):  # steps 2 and 3 are step 4 with the empty Phi_0
        clock, rows = perf_counter(), next(fresh)
        # Step 4(b). Window Phi_r ⊗ I ⊗ Phi_r ⊗ I on the 2r + 2 slots:
        #     │ ⋯ │   │   │ ⋯ │   │
        #     [Phi_r] │   [Phi_r] │
        #        └─kd─┘      └─kd─┘       rows × columns of A
        half = Phi.tensor(identity)
        # Steps 2 and 4(c).
        A = average.matrix(2 * r + 2, half, half, rows)
        # Steps 3, 4(d) and 4(e).
        phi, spectrum = top_subspace(A, k)
        delta = None if truth is None else _distance(A, projected_moment(Phi, truth))
        floor = abs(float(spectrum[k])) if k < len(spectrum) else 0.0
        taken = perf_counter() - clock
        reports.append(StepReport(2 * r + 2, rows, k, phi.shape[0], spectrum, floor, delta, taken))
        # Steps 4(a) and 5.
        Phi = Phi.extend(phi)
    # Step 6.
    A_m = average.vector(m, Phi, next(fresh))
    etas = None if truth is None else distances_to_truth(Phi, truth)
    return Run(Phi, A_m, tuple(reports), etas)


def _distance(A: Array, moment: Array) -> float:
    """Measure the paper's delta: the Frobenius distance of an average from its mean."""
    return float(np.linalg.norm(to_numpy(A) - moment))
