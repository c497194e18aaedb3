"""Entry point: validate the arguments, divide the rows, run the method, collect statistics."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import count
from time import perf_counter
from typing import Any, Literal, Required, TypedDict, Unpack, overload

from implicitmoments.datasets import Truth
from implicitmoments.moments.answer_errors import Statistics, split_half_errors
from implicitmoments.moments.circuit_rows import CircuitRows
from implicitmoments.moments.closed_form import ClosedForm, Fold, estimate_closed_form
from implicitmoments.moments.hermite_problem import FramedRows, HermiteProblem, all_rows
from implicitmoments.moments.implicit import estimate
from implicitmoments.moments.problem import CircuitMeans, MomentProblem
from implicitmoments.moments.result import ClosedFormMoments, PaperMoments
from implicitmoments.moments.subspace import POSITIVE, SUBSPACES
from implicitmoments.notes import InputError, InputTypeError, warn_of
from implicitmoments.rows import Progress, RandomState, as_seed
from implicitmoments.validation import check_enough_rows, check_method, check_option, check_whole

HIGHEST_ORDER = 80  # the factorial of twice that is still a finite double


class _Options(TypedDict, total=False):
    """Keywords of :func:`implicit_moments` that do not affect its return type."""

    n_components: Required[int]
    order: Required[int]
    n_samples: int | None
    sampling: str | None
    drop_noise: bool
    balanced: bool
    reduce_weights: bool
    subspace: str
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
    subspace: str = POSITIVE,
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
        ``"closed_form"``, the default for a :class:`HermiteProblem`, estimates all orders up to
        m without auxiliary noise, from moments up to order m, or m + 1 for odd m. ``"paper"``,
        the default for other problems, is algorithm Implicit-Moment-Estimation (section 3.3):
        fresh rows in each of its m + 1 averages, moments up to order 2m.
    n_samples : int, optional
        ``"paper"``: number N of rows per average; by default the rows are divided equally.
        ``"closed_form"``: total number of rows; all by default.
    sampling : {"reuse", "cross_fit", "fresh"}, optional
        Closed form only. ``"reuse"``, the default, uses all rows in every pass;
        ``"cross_fit"`` estimates subspaces from each half of the rows and moments from the
        other; ``"fresh"`` uses different rows in every pass, as the paper does.
    drop_noise : bool, default True
        Closed form only: exclude directions below the noise floor.
    balanced : bool, default True
        Closed form only: represent moments as :math:`U_{m/2} \times U_{m/2}` matrices. If False,
        as vectors in :math:`U_m`, which requires moments up to order 2m.
    reduce_weights : bool, default True
        Closed form only: let the problem remove lower orders from its weights, if it can.
    subspace : {"positive", "singular"}, default "positive"
        The subspace kept of each moment of even order. ``"positive"``: its largest eigenvalues;
        with weights :math:`w_i \ge 0` a negative one is noise. ``"singular"``: its largest
        singular values, as in the paper's text; weights may have both signs.
    n_repeats : int, default 1
        ``"paper"`` only: number of independent runs, on disjoint rows. Answers are medians over
        runs, and the dependence on the failure probability becomes logarithmic.
    truth : Truth, optional
        ``"paper"`` only, for synthetic data: measure the distances eta and delta of the analysis.
    random_state : int, generator, np.random or None, default None
        Seed of the auxiliary draws, and of a problem that generates its rows.
    rows_per_block : int, optional
        Block size; it affects the result only through rounding.
    progress : callable, optional
        Called as ``progress(what, rows_done, rows_total)`` after each block.

    Returns
    -------
    ClosedFormMoments or PaperMoments
        The moments in compressed form, by method.

    See Also
    --------
    MomentProblem : A problem defined by circuits.
    HermiteProblem : A problem defined by one weight per row.
    implicitmoments.moments.ClosedFormMoments : The result of the closed form.

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
    check_whole("n_components", n_components, 1)
    check_whole("order", order, 1, HIGHEST_ORDER)
    check_whole("n_repeats", n_repeats, 1)
    for name, given in (("n_samples", n_samples), ("rows_per_block", rows_per_block)):
        if given is not None:
            check_whole(name, given, 1)
    check_option("subspace", subspace, SUBSPACES)
    seed = as_seed(random_state)
    if method is None:
        method = "closed_form" if isinstance(problem, HermiteProblem) else "paper"
    if check_method(method) == "paper":
        _refuse_options(
            method,
            sampling=sampling not in (None, "fresh"),
            drop_noise=not drop_noise,
            balanced=not balanced,
            reduce_weights=not reduce_weights,
        )
        average = CircuitMeans(problem, seed, rows_per_block, progress)
        found = _paper(average, n_components, order, n_samples, n_repeats, truth, subspace)
        warn_of(found.notes)
        return found
    _refuse_options(method, n_repeats=n_repeats > 1, truth=truth is not None)
    if not isinstance(problem, HermiteProblem):
        raise InputTypeError(
            "not_a_hermite_problem",
            "`method='closed_form'` needs a HermiteProblem, got {kind}; `method='paper'` accepts "
            "any problem",
            kind=type(problem).__name__,
        )
    if not problem.has_order(order):
        raise InputError(
            "order_without_data",
            "the data carry no information about the moment of order {order}; use another order",
            order=order,
        )
    how = ClosedForm(n_components, order, drop_noise, balanced, reduce_weights, subspace=subspace)
    view = all_rows(problem, n_samples, rows_per_block, seed, progress)
    closed = _closed(how, view, sampling or "reuse")
    warn_of(closed.notes)
    return closed


def _paper(
    average: CircuitMeans,
    k: int,
    m: int,
    n_samples: int | None,
    n_repeats: int,
    truth: Truth | None,
    subspace: str,
) -> PaperMoments:
    clock = perf_counter()
    problem = average.problem
    n = _rows_per_step(problem, k, m, n_samples, n_repeats)
    fresh = (range(i * n, (i + 1) * n) for i in count())  # step 1 of the box
    runs = tuple(estimate(average, k, m, fresh, truth, subspace) for _ in range(n_repeats))
    stats: dict[str, Any] = {
        "method": "paper",
        "rows_per_step": n,
        "rows_used": n * (m + 1) * n_repeats,
        "seconds": perf_counter() - clock,
        "orthonormality_defect": max(run.projection.defect for run in runs),
    }
    view: FramedRows | CircuitRows = CircuitRows.of(average, stats["rows_used"])
    if isinstance(problem, HermiteProblem):
        view = all_rows(
            problem, stats["rows_used"], average.rows_per_block, average.seed, average.progress
        )
    return PaperMoments(problem, k, m, stats, view, runs)


def _closed(how: ClosedForm, view: FramedRows, sampling: str) -> ClosedFormMoments:
    clock = perf_counter()
    all_parts = {"reuse": 1, "cross_fit": 2, "fresh": how.levels + 1}
    parts = all_parts[check_option("sampling", sampling, tuple(all_parts))]
    needed = 2 * parts  # every part is halved once more, to estimate its noise
    if view.n_rows < needed:
        raise InputError(
            "too_few_rows",
            "`sampling={sampling!r}` at order {m} needs at least {needed} rows, got {n_rows}",
            **{"n_rows": view.n_rows, "sampling": sampling, "m": how.m, "needed": needed},
        )
    check_enough_rows(view.n_rows, how.k, how.k)
    estimate_part = partial(_estimate_part, how, view, parts, sampling == "cross_fit")
    folds = estimate_part((0, 1))
    known = {
        "method": "closed_form",
        "sampling": sampling,
        "rows_used": view.n_rows,
        "seconds": perf_counter() - clock,
        "orthonormality_defect": max(fold.moments.projection.defect for fold in folds),
        "dropped": [step.dropped for step in folds[0].steps],
    }
    stats = Statistics(
        known, {"relative_errors": partial(split_half_errors, folds, estimate_part)}
    )
    return ClosedFormMoments(view.problem, how.k, how.m, stats, view, folds)


def _estimate_part(
    how: ClosedForm, view: FramedRows, parts: int, exchange: bool, part: tuple[int, int]
) -> tuple[Fold, ...]:
    """Estimate from the i-th of q parts of the rows, divided into ``parts`` for the passes."""
    i, q = part
    split = [replace(view, part=(i * parts + j, q * parts)) for j in range(parts)]
    divided = [split, split[::-1]] if exchange else [split]
    return tuple(estimate_closed_form(how, views) for views in divided)


def _rows_per_step(
    problem: MomentProblem, k: int, m: int, n_samples: int | None, n_repeats: int
) -> int:
    """Return N, after checking that there are enough rows."""
    averages = (m + 1) * n_repeats
    if n_samples is None:
        if problem.n_rows is None:
            raise InputError(
                "n_samples_missing", "the problem generates its rows; pass n_samples, their number"
            )
        n_samples = problem.n_rows // averages
    values = {"k": k, "m": m, "n_averages": averages, "n_samples": n_samples}
    if problem.n_rows is not None and (n_samples < 1 or n_samples * averages > problem.n_rows):
        raise InputError(
            "too_few_rows",
            "order {m} needs {n_averages} averages over fresh rows, {n_averages} × {per_average} "
            "rows in all, got {n_rows}; use more rows, a smaller n_samples or a lower order",
            **{**values, "per_average": max(n_samples, 1), "n_rows": problem.n_rows},
        )
    if n_samples < k:
        raise InputError(
            "too_few_rows",
            "`n_components={k}` exceeds the {n_samples} rows per average (order {m} takes "
            "{n_averages} averages over fresh rows); use more rows or fewer components",
            **values,
        )
    return n_samples


def _check_problem(problem: MomentProblem, truth: Truth | None) -> None:
    if not isinstance(problem, MomentProblem):
        raise InputTypeError(
            "not_a_problem",
            "problem must be a MomentProblem such as HermiteProblem(X), got {kind}",
            kind=type(problem).__name__,
        )
    if not (truth is None or isinstance(truth, Truth)):
        raise InputTypeError(
            "not_a_truth",
            "truth must be a Truth(weights, vectors), got {kind}",
            kind=type(truth).__name__,
        )
    if truth is not None and truth.vectors.shape[1] != problem.n_features:
        raise InputError(
            "n_features_differ",
            "truth has vectors of {n_features} features, the problem has {expected}",
            **{"n_features": truth.vectors.shape[1], "expected": problem.n_features},
        )


def _refuse_options(method: str, **given: bool) -> None:
    """Raise for options of the other method that were given."""
    options = " and ".join(name for name, there in given.items() if there)
    if options:
        template = "{options} cannot be combined with `method={method!r}`"
        raise InputError("option_of_other_method", template, options=options, method=method)
