"""The front door: check what was asked, share out the rows, run, and report."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

from implicitmoments.moments.accumulate import Averager, Progress
from implicitmoments.moments.implicit import estimate
from implicitmoments.moments.problem import MomentProblem
from implicitmoments.moments.result import ImplicitMoments
from implicitmoments.samples import RandomState, Truth, as_seed

__all__ = ["implicit_moments"]


def implicit_moments(  # noqa: PLR0913 (keyword-only, each documented)
    problem: MomentProblem,
    *,
    n_components: int,
    order: int,
    method: str = "paper",
    n_samples: int | None = None,
    n_repeats: int = 1,
    truth: Truth | None = None,
    random_state: RandomState = None,
    block_rows: int | None = None,
    progress: Progress | None = None,
) -> ImplicitMoments:
    r"""Estimate the moment tensor :math:`M_m = \sum_i w_i v_i^{\otimes m}` in compressed form.

    Parameters
    ----------
    problem : MomentProblem
        Circuits whose mean is the moment, and rows to average them over.
    n_components : int
        The number k of hidden vectors.
    order : int
        The order m of the moment.
    method : {"paper"}
        ``"paper"`` is algorithm Implicit-Moment-Estimation (section 3.3): fresh rows in each of
        its m + 1 averages, moments up to order 2m.
    n_samples : int, optional
        Rows N of each average; by default as many as the problem has, shared equally.
    n_repeats : int
        Independent runs, on rows of their own. Answers are medians over them, and the
        dependence on the failure probability becomes logarithmic.
    truth : Truth, optional
        For synthetic data: the distances eta and delta of the analysis are then measured.
    random_state : int, generator or None
        Of the auxiliary draws, and of a problem that makes its rows.
    block_rows : int, optional
        Rows held at a time; the answer depends on it by rounding alone.
    progress : callable, optional
        Called as ``progress(what, rows_done, rows_total)`` after each block.

    Returns
    -------
    ImplicitMoments

    Examples
    --------
    >>> from implicitmoments.datasets import make_spherical_mixture
    >>> from implicitmoments.moments import HermiteProblem, implicit_moments
    >>> X, truth = make_spherical_mixture(40_000, 3, 5, random_state=0)
    >>> m = implicit_moments(HermiteProblem(X), n_components=3, order=2, random_state=0)
    >>> m.runs[0].projection
    <recursive projection of order 2 in 5 features: 1 → 3 → 3>
    >>> m.hermite(X[:4]).shape
    (4,)
    """
    if not isinstance(problem, MomentProblem):
        raise TypeError(
            f"problem is a MomentProblem such as HermiteProblem(X), got {type(problem).__name__}"
        )
    if method != "paper":
        raise ValueError(f"method is 'paper', got {method!r}")
    for name, value in (
        ("n_components", n_components),
        ("order", order),
        ("n_repeats", n_repeats),
    ):
        _check_positive(name, value)
    if block_rows is not None:
        _check_positive("block_rows", block_rows)
    if truth is not None and truth.vectors.shape[1] != problem.n_features:
        raise ValueError(
            f"truth has vectors of {truth.vectors.shape[1]} features, "
            f"the problem has {problem.n_features}"
        )
    clock = perf_counter()
    n = _rows_per_step(problem, n_components, order, n_samples, n_repeats)
    fresh = _consecutive(n)
    average = Averager(problem, as_seed(random_state), block_rows, progress)
    runs = tuple(estimate(average, n_components, order, fresh, truth) for _ in range(n_repeats))
    stats = {
        "method": method,
        "rows_per_step": n,
        "rows_used": n * (order + 1) * n_repeats,
        "seconds": perf_counter() - clock,
        "orthonormality_defect": max(run.projection.defect for run in runs),
    }
    return ImplicitMoments(n_components, order, runs, stats)


def _consecutive(n: int) -> Iterator[range]:
    """Step 1 of the box: disjoint ranges of N rows, without end."""
    start = 0
    while True:
        yield range(start, start + n)
        start += n


def _rows_per_step(
    problem: MomentProblem, k: int, m: int, n_samples: int | None, n_repeats: int
) -> int:
    """Choose N, or say why there are too few rows for it."""
    averages = (m + 1) * n_repeats
    if n_samples is not None:
        _check_positive("n_samples", n_samples)
    elif problem.n_rows is None:
        raise ValueError("the problem makes its rows, as many as asked for: give n_samples")
    else:
        n_samples = problem.n_rows // averages
    shared = f"order {m} takes {m + 1} averages over fresh rows" + (
        f", {n_repeats} times" if n_repeats > 1 else ""
    )
    if problem.n_rows is not None and (n_samples < 1 or n_samples * averages > problem.n_rows):
        raise ValueError(
            f"too few rows: {shared}, {averages} × {max(n_samples, 1)} rows are needed and "
            f"{problem.n_rows} are there; use more rows, a smaller n_samples or a lower order"
        )
    if n_samples < k:
        raise ValueError(
            f"n_components={k} is more than the {n_samples} rows of each average ({shared}); "
            "use more rows or fewer components"
        )
    return n_samples


def _check_positive(name: str, value: int) -> None:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is a whole number, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} is at least 1, got {value}")
