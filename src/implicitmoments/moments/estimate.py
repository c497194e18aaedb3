"""The front door: check what was asked, share out the rows, run, and report."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from time import perf_counter
from typing import Any, Literal, Required, TypedDict, Unpack, overload

from implicitmoments.arrays import check_positive
from implicitmoments.moments.accumulate import Averager, Progress
from implicitmoments.moments.closed_form import ClosedForm, Fold, estimate_closed_form
from implicitmoments.moments.implicit import estimate
from implicitmoments.moments.passes import View, whole_view
from implicitmoments.moments.problem import HermiteProblem, MomentProblem
from implicitmoments.moments.result import ClosedFormMoments, PaperMoments
from implicitmoments.notes import InputError, InputTypeError
from implicitmoments.rows import RandomState, Truth, as_seed

__all__ = ["implicit_moments"]

HIGHEST_ORDER = 80  # factorials of twice that still fit a double
SAMPLING = ("reuse", "cross_fit", "fresh")


class _Options(TypedDict, total=False):
    """Keywords of :func:`implicit_moments` that do not decide what it returns."""

    n_components: Required[int]
    order: Required[int]
    n_samples: int | None
    sampling: str | None
    drop_noise: bool
    balanced: bool
    reduce_weights: bool
    n_repeats: int
    truth: Truth | None
    random_state: RandomState
    rows_per_block: int | None
    progress: Progress | None


@overload
def implicit_moments(
    problem: MomentProblem, *, method: Literal["paper"], **options: Unpack[_Options]
) -> PaperMoments: ...


@overload
def implicit_moments(
    problem: HermiteProblem,
    *,
    method: Literal["closed_form"] | None = ...,
    **options: Unpack[_Options],
) -> ClosedFormMoments: ...


@overload
def implicit_moments(
    problem: MomentProblem, *, method: str | None = ..., **options: Unpack[_Options]
) -> ClosedFormMoments | PaperMoments: ...


def implicit_moments(  # noqa: PLR0913 (keyword-only, each documented)
    problem: MomentProblem,
    *,
    n_components: int,
    order: int,
    method: str | None = None,
    n_samples: int | None = None,
    sampling: str | None = None,
    drop_noise: bool = True,
    balanced: bool = True,
    reduce_weights: bool = True,
    n_repeats: int = 1,
    truth: Truth | None = None,
    random_state: RandomState = None,
    rows_per_block: int | None = None,
    progress: Progress | None = None,
) -> ClosedFormMoments | PaperMoments:
    r"""Estimate the moment tensor :math:`M_m = \sum_i w_i v_i^{\otimes m}` in compressed form.

    Parameters
    ----------
    problem : MomentProblem
        Circuits whose mean is the moment, and rows to average them over.
    n_components : int
        The number k of hidden vectors.
    order : int
        The order m of the moment.
    method : {"closed_form", "paper"}, optional
        ``"closed_form"``, the default for a :class:`HermiteProblem`, gives all orders up to m
        with no auxiliary noise, from moments up to order m, or m + 1 for odd m. ``"paper"``, the
        default for
        others, is algorithm Implicit-Moment-Estimation (section 3.3): fresh rows in each of its
        m + 1 averages, moments up to order 2m.
    n_samples : int, optional
        ``"paper"``: rows N of each average; by default as many as the problem has, shared
        equally. ``"closed_form"``: rows in all; by default all.
    sampling : {"reuse", "cross_fit", "fresh"}, optional
        Closed form only. ``"reuse"``, the default, takes all rows in every pass;
        ``"cross_fit"`` finds subspaces on either half of the rows and moments on the other;
        ``"fresh"`` takes other rows in every pass, as the paper does.
    drop_noise : bool
        Closed form only: leave directions below the noise floor out of the answers.
    balanced : bool
        Closed form only: moments as :math:`U_{m/2} \times U_{m/2}` matrices. If False, as vectors
        of :math:`U_m`, which takes moments up to order 2m.
    reduce_weights : bool
        Closed form only: let the problem take lower orders out of its weights, if it can.
    n_repeats : int
        ``"paper"`` only: independent runs, on rows of their own. Answers are medians over them,
        and the dependence on the failure probability becomes logarithmic.
    truth : Truth, optional
        ``"paper"`` only, for synthetic data: the distances eta and delta of the analysis are
        then measured.
    random_state : int, generator or None
        Of the auxiliary draws, and of a problem that makes its rows.
    rows_per_block : int, optional
        Rows held at a time; the answer depends on it by rounding alone.
    progress : callable, optional
        Called as ``progress(what, rows_done, rows_total)`` after each block.

    Returns
    -------
    ClosedFormMoments or PaperMoments

    Examples
    --------
    >>> from implicitmoments.datasets import make_spherical_mixture
    >>> from implicitmoments.moments import HermiteProblem, implicit_moments
    >>> X, truth = make_spherical_mixture(40_000, 3, 5, random_state=0)
    >>> m = implicit_moments(HermiteProblem(X), n_components=3, order=4)
    >>> m.hermite(X[:4]).shape
    (4,)
    """
    _check_problem(problem, truth)
    whole = {"n_components": n_components, "order": order, "n_repeats": n_repeats}
    for name, value in whole.items():
        check_positive(name, value)
    if order > HIGHEST_ORDER:
        raise InputError(
            "order_too_high",
            "order is at most {highest_order}, got {order}",
            highest_order=HIGHEST_ORDER,
            order=order,
        )
    for name, given in (("n_samples", n_samples), ("rows_per_block", rows_per_block)):
        if given is not None:
            check_positive(name, given)
    seed = as_seed(random_state)
    if method is None:
        method = "closed_form" if isinstance(problem, HermiteProblem) else "paper"
    if method == "paper":
        _check_paper(sampling, drop_noise, balanced, reduce_weights)
        average = Averager(problem, seed, rows_per_block, progress)
        return _paper(average, n_components, order, n_samples, n_repeats, truth)
    how = ClosedForm(n_components, order, drop_noise, balanced, reduce_weights)
    checked = _check_closed_form(method, problem, order, n_repeats, truth)
    view = whole_view(checked, n_samples, rows_per_block, seed, progress)
    return _closed(how, view, sampling or "reuse")


def _paper(
    average: Averager, k: int, m: int, n_samples: int | None, n_repeats: int, truth: Truth | None
) -> PaperMoments:
    clock = perf_counter()
    problem = average.problem
    n = _rows_per_step(problem, k, m, n_samples, n_repeats)
    fresh = _consecutive(n)
    runs = tuple(estimate(average, k, m, fresh, truth) for _ in range(n_repeats))
    stats: dict[str, Any] = {
        "method": "paper",
        "rows_per_step": n,
        "rows_used": n * (m + 1) * n_repeats,
        "seconds": perf_counter() - clock,
        "orthonormality_defect": max(run.projection.defect for run in runs),
    }
    view = None
    if isinstance(problem, HermiteProblem):
        view = whole_view(
            problem, stats["rows_used"], average.rows_per_block, average.seed, average.progress
        )
    return PaperMoments(problem, k, m, stats, view, runs)


def _closed(how: ClosedForm, view: View, sampling: str) -> ClosedFormMoments:
    clock = perf_counter()
    if sampling not in SAMPLING:
        raise InputError(
            "unknown_option",
            "`sampling` is one of {options}, got {given!r}",
            options=", ".join(map(repr, SAMPLING)),
            given=sampling,
        )
    parts = {"reuse": 1, "cross_fit": 2, "fresh": how.levels + 1}[sampling]
    needed = 2 * parts  # every part is halved once more, to measure its noise
    if view.n_rows < needed:
        raise InputError(
            "too_few_rows",
            "too few rows: {n_rows} are there and `sampling={sampling!r}` at order {m} takes at "
            "least {needed}; use more rows",
            n_rows=view.n_rows,
            sampling=sampling,
            m=how.m,
            needed=needed,
        )
    if view.n_rows < how.k:
        raise InputError(
            "too_few_rows",
            "`n_components={k}` is more than the {n_rows} rows; use more rows or fewer components",
            k=how.k,
            n_rows=view.n_rows,
        )
    folds = tuple(_folds(how, view, sampling, parts))
    stats = {
        "method": "closed_form",
        "sampling": sampling,
        "rows_used": view.n_rows,
        "seconds": perf_counter() - clock,
        "orthonormality_defect": max(fold.moments.projection.defect for fold in folds),
        "dropped": [step.dropped for step in folds[0].steps],
        "relative_errors": {a + b: error for (a, b), error in folds[0].errors.items()},
    }
    return ClosedFormMoments(view.problem, how.k, how.m, stats, view, folds)


def _folds(how: ClosedForm, view: View, sampling: str, parts: int) -> Iterator[Fold]:
    """Share the rows out: which find each subspace, and which average the moments on them."""
    if sampling == "fresh":
        yield estimate_closed_form(
            how, lambda n: view.taking(n - 1, parts), view.taking(parts - 1, parts)
        )
    else:
        for i in range(parts):
            finding, averaging = view.taking(i, parts), view.taking((i + 1) % parts, parts)
            yield estimate_closed_form(how, partial(_always, finding), averaging)


def _always(view: View, _: int) -> View:
    return view


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
    if n_samples is None:
        if problem.n_rows is None:
            raise InputError(
                "n_samples_missing",
                "the problem makes its rows, as many as asked for: give n_samples",
            )
        n_samples = problem.n_rows // averages
    shared = f"order {m} takes {m + 1} averages over fresh rows" + (
        f", {n_repeats} times" if n_repeats > 1 else ""
    )
    if problem.n_rows is not None and (n_samples < 1 or n_samples * averages > problem.n_rows):
        raise InputError(
            "too_few_rows",
            "too few rows: {shared}, {averages} × {per_average} rows are needed and {n_rows} are "
            "there; use more rows, a smaller n_samples or a lower order",
            shared=shared,
            averages=averages,
            per_average=max(n_samples, 1),
            n_rows=problem.n_rows,
        )
    if n_samples < k:
        raise InputError(
            "too_few_rows",
            "`n_components={k}` is more than the {n_samples} rows of each average ({shared}); use "
            "more rows or fewer components",
            k=k,
            n_samples=n_samples,
            shared=shared,
        )
    return n_samples


def _check_problem(problem: MomentProblem, truth: Truth | None) -> None:
    if not isinstance(problem, MomentProblem):
        raise InputTypeError(
            "not_a_problem",
            "problem is a MomentProblem such as HermiteProblem(X), got {kind}",
            kind=type(problem).__name__,
        )
    if not (truth is None or isinstance(truth, Truth)):
        raise InputTypeError(
            "not_a_truth",
            "truth is a Truth(weights, vectors), got {kind}",
            kind=type(truth).__name__,
        )
    if truth is not None and truth.vectors.shape[1] != problem.n_features:
        raise InputError(
            "n_features_differ",
            "truth has vectors of {n_features} features, the problem has {expected}",
            n_features=truth.vectors.shape[1],
            expected=problem.n_features,
        )


def _check_paper(
    sampling: str | None, drop_noise: bool, balanced: bool, reduce_weights: bool
) -> None:
    if sampling not in (None, "fresh"):
        raise InputError(
            "option_of_other_method",
            "`method='paper'` takes fresh rows in every average, got `sampling={sampling!r}`",
            sampling=sampling,
        )
    if not (drop_noise and balanced and reduce_weights):
        raise InputError(
            "option_of_other_method",
            "drop_noise, balanced and reduce_weights are options of `method='closed_form'`",
        )


def _check_closed_form(
    method: str, problem: MomentProblem, order: int, n_repeats: int, truth: Truth | None
) -> HermiteProblem:
    if method != "closed_form":
        raise InputError(
            "unknown_option",
            "method is 'closed_form' or 'paper', got {method!r}",
            method=method,
        )
    if not isinstance(problem, HermiteProblem):
        raise InputTypeError(
            "not_a_hermite_problem",
            "the closed form is for a HermiteProblem, got {kind}; `method='paper'` takes any "
            "problem",
            kind=type(problem).__name__,
        )
    if n_repeats != 1 or truth is not None:
        raise InputError(
            "option_of_other_method",
            "n_repeats and truth go with `method='paper'`",
        )
    if not problem.has_order(order):
        raise InputError(
            "order_without_data",
            "the data say nothing about the moment of order {order}; ask for another order",
            order=order,
        )
    return problem
