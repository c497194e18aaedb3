"""Fit of a Gaussian mixture: starts that compete, moves on a sample, EM on all rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np

from implicitmoments.mixture.alternatives import find_better
from implicitmoments.mixture.gaussians import (
    COVARIANCE_TYPES,
    CovarianceType,
    Gaussians,
)
from implicitmoments.mixture.initialisation import MOST_STARTS, QUICK, n_starts
from implicitmoments.mixture.more_rows import is_scarce, search_more
from implicitmoments.mixture.span import Span, principal_span
from implicitmoments.mixture.starts import (
    POORER,
    Options,
    Raced,
    named_starts,
    race,
    race_starts,
    start_from,
    with_poorer,
)
from implicitmoments.mixture.view import View, check_distinct, make_view
from implicitmoments.moments.components import Components
from implicitmoments.notes import Note
from implicitmoments.rows import Rows, mean_and_covariance
from implicitmoments.search import (
    ENOUGH,
    SEARCH,
    Fitted,
    Searched,
    bic,
    choose_k,
    run_em,
    search_moves,
    worth_of_component,
)
from implicitmoments.search.em import Places, most_rows


@dataclass(frozen=True, eq=False)
class Found(Raced):
    """The best mixture of one type on a sample, after moves."""

    searched: tuple[Searched[Gaussians], ...] = ()
    scores: dict[int, float] = field(default_factory=dict)  # BIC of each number that was tried

    def after(self, searched: Searched[Gaussians]) -> Found:
        """Return the mixture that a search ended with."""
        level = searched.log_likelihood
        return replace(self, state=searched.state, log_likelihood=level, searched=(searched,))


@dataclass(frozen=True, eq=False)
class GaussianFit:
    """A fitted mixture, in the user's units."""

    fitted: Fitted[Gaussians]
    view: View
    stats: dict[str, Any]
    components: Components | None  # decoded from the moments
    better: Note | None = None  # on another number or shape of components of lower BIC
    n_moves: int | None = None  # moves tried, where the search ended because none were left
    own_views: tuple[View, ...] = ()  # of the components, where groups of rows have their own

    @property
    def at_floor(self) -> Places:
        """Components that have the least variance allowed, in the order of the fit."""
        state = self.fitted.state
        if not self.own_views:
            return self.view.at_floor(state)
        alone = (state.take(np.array([i])) for i in range(state.k))
        found = [len(view.at_floor(one)) for view, one in zip(self.own_views, alone, strict=True)]
        return np.flatnonzero(found)

    @property
    def kind(self) -> CovarianceType:
        """The type of its covariances."""
        return self.view.family.kind

    def bic(self, total: float) -> float:
        """Bayesian information criterion of so many rows."""
        n_parameters = self.view.family.n_parameters(self.fitted.state)
        return bic(self.fitted.level * total, n_parameters, total)


def fit_gaussians(
    rows: Rows, options: Options, rng: np.random.Generator, *, part: bool = False
) -> GaussianFit:
    """Fit rows in the user's units without outliers.

    Parameters
    ----------
    part : bool
        They are a part of the rows, which may be one point.
    """
    k = options.k or options.most
    n = min(SEARCH.rows_for(k, rows.n_features), most_rows(k, rows.budget.held))
    sample = rows.sample(n, rng).merged()
    if not part:
        check_distinct(sample, options.k)
    options = replace(options, most=min(options.most, sample.n))
    # Each fit has random numbers of its own: with more of them, the first ones are the same.
    fits = (fit_once(rows, sample, options, each) for each in rng.spawn(options.n_init))
    return min(fits, key=lambda fit: fit.bic(rows.total))


def fit_once(rows: Rows, sample: Rows, options: Options, rng: np.random.Generator) -> GaussianFit:
    """Search on a sample of the rows, then run EM on all of them."""
    times, k = [perf_counter()], options.k
    # 1. On a sample, for each type: starts, then moves or the number of components.
    reduced = search_span(rows, sample, options, rng) if options.reducible(sample) else None
    found = dict[str, Found]()
    if reduced is None:
        found = search_types(rows, sample, options, rng)
        best = min((found[name] for name in options.types), key=lambda each: each.bic)
        best = search_more(best, rows, sample, options, rng)
        view, start, held = best.view, best.state, best.sample
    else:
        best, view, start = reduced.found, reduced.view, reduced.state
        held = reduced.sample
    times.append(perf_counter())
    # 2. EM on all rows.
    fitted = run_em(view.family, view.rows(rows), start, options.final)
    times.append(perf_counter())
    tried = [searched.tried for searched in best.searched]
    stats = {
        "start": best.start,
        "start_log_likelihood": {
            name: level - view.log_unit for name, level in best.levels.items()
        },
        **best.decoded.numbers,
        "sample_rows": best.sample.n,
        "n_moves": sum(searched.accepted for searched in best.searched),
        "n_moves_tried": sum(tried),
        "seconds_search": times[1] - times[0],
        "seconds_em": times[2] - times[1],
        **({"bic_by_n_components": best.scores} if best.scores else {}),
    }
    if len(options.types) > 1:
        stats["bic_by_covariance_type"] = {name: found[name].bic for name in options.types}
    exhausted = k is not None and options.n_moves > 0 and max(tried, default=0) >= options.n_moves
    parts, level = [(best.sample, fitted.level)], fitted.level
    everything = view.rows(rows)
    if reduced is not None:
        everything, level = reduced.measure(everything, fitted.state)
        parts = [(best.sample, level)]
    if best.sample.total < rows.total:  # all may show a component that a sample does not
        before = best.log_likelihood / best.sample.total
        parts = [(best.sample, before), (everything, level)]
    ranking = best.searched[-1].ranking if best.searched else None
    return GaussianFit(
        view.fitted(fitted),
        view,
        stats,
        best.decoded.components,
        find_better(
            best.view, best.state, parts, ranking, sample, options, rng, (view, start, held)
        ),
        options.n_moves if exhausted else None,
    )


@dataclass(frozen=True, eq=False)
class Reduced:
    """The best mixture on a sample, searched in the span of the means."""

    span: Span
    found: Found  # in the coordinates of the span
    view: View
    sample: Rows  # in the coordinates of the view
    state: Gaussians  # after EM on the sample

    def measure(self, rows: Rows, state: Gaussians) -> tuple[Rows, float]:
        """Return rows of the view, and the level of a state of it, as the search has them."""
        inner = self.found.view
        rows, state = inner.rows(self.span.rows(rows)), inner.inside(self.span.inside(state))
        return rows, inner.family.e_step(rows, state).level


def search_span(rows: Rows, sample: Rows, options: Options, rng: np.random.Generator) -> Reduced:
    """Search on a sample in the span of the means.

    First in that of the leading directions of the covariance. EM in all columns from there gives
    better means, in the span of which moves are tried again.
    """
    name, k = options.types[0], options.k or 1
    view = view_of(name, sample, options)
    rows, held = view.rows(rows), view.hold(sample)
    if options.variance is not None:  # in the coordinates of the view
        options = replace(options, variance=options.variance / float(np.mean(view.scale)) ** 2)
    span = principal_span(mean_and_covariance(held, double=False).covariance, k)
    part = span.rows(held).hold()
    inner = view_of(name, part, options, rows.n_features)
    raced = race_starts(inner, span.rows(rows), part, options, {}, rng)
    first = search_type(raced, span.rows(rows), options, {}, rng)
    levels, whole = span.restored(first.levels, first.view), widened(first, span, view, held)
    before = replace(first.decoded, components=span.outside(first.decoded.components, inner))

    span = span.of_means(whole, held.total)
    part = span.rows(held).hold()
    inner = view_of(name, part, options, rows.n_features)
    inside, state = inner.hold(part), inner.inside(span.inside(whole))
    level = inner.family.e_step(inside, state).level * inside.total
    raced = Raced(inner, inside, state, level, first.start, {}, before)
    found = search_type(raced, span.rows(rows), options, {}, rng)
    found = search_more(found, span.rows(rows), part, options, rng)
    levels |= span.restored(found.levels, inner)
    if found.sample is not inside or found.log_likelihood - level > ENOUGH:
        whole = widened(found, span, view, held)
    found = replace(found, levels=levels, searched=(*first.searched, *found.searched))
    if found.decoded is not before:
        components = span.outside(found.decoded.components, inner)
        found = replace(found, decoded=replace(found.decoded, components=components))
    return Reduced(span, found, view, held, whole)


def widened(found: Raced, span: Span, view: View, sample: Rows) -> Gaussians:
    """Return the mixture after EM in all columns, from one in a span."""
    start = span.widened(found.view.outside(found.state))
    return run_em(view.family, sample, start, QUICK).state


def view_of(name: str, sample: Rows, options: Options, columns: int | None = None) -> View:
    """Return the view of a sample that a type of covariance has.

    Parameters
    ----------
    columns : int, optional
        Number of columns, where rows are coordinates on a span of them.
    """
    means, kind = None if options.given is None else options.given.means, CovarianceType(name)
    # starts of other types do not depend on units, as those types do not
    asked = {CovarianceType(each).shape for each in options.types}
    alike = kind.shape == "spherical" and "spherical" in asked
    view = make_view(sample, kind, options.ridge, means, options.epsilon, alike=alike)
    family = replace(view.family, student=options.student, columns=columns)
    view = replace(view, family=family)
    if options.variance is not None:
        view = view.with_known(np.full(sample.n_features, options.variance))
    return view


def search_types(
    rows: Rows, sample: Rows, options: Options, rng: np.random.Generator
) -> dict[str, Found]:
    """Search on a sample for the best mixture of each type of covariance.

    The type whose starts are best comes first: others are searched as far as they may still
    surpass it. A single type starts from complete fits of poorer ones, too, where they cost
    little: it then never ends below them, since each type has random numbers of its own.
    """
    generators = dict(zip(COVARIANCE_TYPES, rng.spawn(len(COVARIANCE_TYPES)), strict=True))

    def raced_type(name: str, raced: Mapping[str, Raced]) -> Raced:
        view = view_of(name, sample, options)
        return race_starts(view, rows, sample, options, raced, generators[name])

    found: dict[str, Found] = {}
    if options.alone and n_starts(sample, options.k or 1) == MOST_STARTS:
        for name in with_poorer(options.types[0]):
            own, poorer = raced_type(name, {}), {each: found[each] for each in POORER[name]}
            single = replace(options, types=(name,))
            found[name] = search_type(own, rows, single, poorer, generators[name])
        return found
    raced: dict[str, Raced] = {}
    for name in options.types:
        raced[name] = raced_type(name, raced)
    for name in sorted(raced, key=lambda name: raced[name].bic):
        found[name] = search_type(raced[name], rows, options, found, generators[name])
    return found


def second_starts(options: Options, found: Found) -> tuple[str, ...]:
    """Return starts that compete where moves failed: the first is then in doubt."""
    if options.given is not None or len(options.types) > 1 or found.state.k == 1:
        return ()
    if options.k is None:
        return ("moments",) if options.starts == "decoded" else ()
    failed = sum(searched.failed for searched in found.searched)
    if options.starts not in ("auto", "decoded") or not failed:
        return ()
    first = set(options.first) - {"merge"} | set(found.levels)
    return tuple(name for name in ("moments", "merge", "k-means++") if name not in first)


def search_type(
    raced: Raced,
    everything: Rows,
    options: Options,
    others: Mapping[str, Found],
    rng: np.random.Generator,
) -> Found:
    """Try moves from the best start of a type, or choose the number of components.

    Parameters
    ----------
    everything : Rows
        All rows.
    others : mapping of str to Found
        Fits of other types. The best of them and those of types with fewer parameters are starts,
        too, and moves that cannot surpass the best that the user asks for are not tried.
    """
    view, rows, family, k = raced.view, raced.sample, raced.view.family, options.k
    offset = 2 * rows.total * view.log_unit  # of criteria in the user's units
    rivals = (each.bic for name, each in others.items() if name in options.types)
    least = min(rivals, default=math.inf)
    largest = options.largest(family.kind, rows)
    fits = [
        start_from(view, each)
        for name, each in others.items()
        if (name in POORER[family.kind.name] or each.bic <= least) and each.state.k <= largest
    ]
    found = Found(**vars(raced))
    if fits:
        start, fitted, levels = race(family, rows, [(raced.start, raced.state), *fits])
        total, levels = fitted.level * rows.total, raced.levels | levels
        found = replace(
            found, state=fitted.state, log_likelihood=total, start=start, levels=levels
        )
    before, worth = found.log_likelihood, worth_of_component(family, rows, found.state)
    scarce = k is not None and is_scarce(everything, k)  # then only sure moves are made
    if k is None:
        chosen = choose_k(
            family, rows, found.state, largest, options.n_moves, rng, least=least - offset
        )
        scores = {number: score + offset for number, score in chosen.scores.items()}
        found = replace(found.after(chosen.searched), scores=scores)
        before = found.log_likelihood
    elif k > 1 and options.n_moves:
        penalty = family.n_parameters(found.state) * math.log(rows.total)
        target = 0.5 * (penalty + offset - least)  # the log-likelihood at which BIC is ``least``
        target = math.inf if scarce else target
        searched = search_moves(
            family, rows, found.state, options.n_moves, rng, target=target, worth=worth
        )
        found = found.after(searched)
    starts, decoded = named_starts(
        view, everything, rows, found.state.k, second_starts(options, found), options, rng
    )
    if decoded.numbers:
        found = replace(found, decoded=decoded)
    if not starts:
        return found
    rival = bic(before, family.n_parameters(found.state), rows.total)
    start, fitted, levels = race(family, rows, starts, rival)
    found = replace(found, levels=found.levels | levels)
    if fitted.level * rows.total <= before:
        return found
    target = math.inf if scarce else -math.inf
    again = search_moves(
        family, rows, fitted.state, options.n_moves, rng, target=target, worth=worth
    )
    if again.log_likelihood <= found.log_likelihood:
        return found
    return replace(found, start=start).after(again)


def search_again(
    view: View, options: Options, rng: np.random.Generator
) -> Callable[[Rows, Gaussians], Gaussians]:
    """Return the search of a sample for a mixture at least as likely as a given one."""

    def search(sample: Rows, state: Gaussians) -> Gaussians:
        which = () if options.given is not None else options.first
        starts, _ = named_starts(view, view.back(sample), sample, state.k, which, options, rng)
        best = race(view.family, sample, [("last", state), *starts])[1].state
        if not options.n_moves or best.k == 1:
            return best
        return search_moves(view.family, sample, best, options.n_moves, rng).state

    return search


def types_of(covariance_type: str) -> tuple[str, ...]:
    """Return the types among which the fit chooses, from the fewest to the most parameters."""
    return COVARIANCE_TYPES if covariance_type == "auto" else (covariance_type,)
