"""Fit of a Gaussian mixture: starts that compete, moves on a sample, EM on all rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np

from implicitmoments.arrays import Floats, namespace_of
from implicitmoments.mixture.decoding import Decoded
from implicitmoments.mixture.gaussian_family import GaussianFamily
from implicitmoments.mixture.gaussian_initialisation import (
    QUICK,
    converted,
    decoded_state,
    merged_state,
    nearest_state,
    starts_of,
)
from implicitmoments.mixture.gaussian_view import View, check_distinct, make_view
from implicitmoments.mixture.gaussians import (
    COVARIANCE_TYPES,
    CovarianceType,
    Gaussians,
)
from implicitmoments.moments.components import Components
from implicitmoments.rows import Rows
from implicitmoments.search import (
    SEARCH,
    Budget,
    Fitted,
    Searched,
    bic,
    choose_k,
    merge_cheapest,
    run_em,
    search_moves,
)
from implicitmoments.search.moves import ENOUGH

# A component lighter than 0.25/k needs more rows to be distinguished from a tail of another.
FAINT, MORE_ROWS = 0.25, 4
# Starts compete after a few steps of EM, and those that are so many nats per row behind end there.
HEAT, BEHIND = replace(QUICK, steps=12), 0.01
SEARCHED = 3  # types whose starts have the least criterion, among which moves decide
# Types that have fewer parameters, from whose fits a type is started as well.
POORER: dict[str, tuple[str, ...]] = {
    "tied_spherical": (),
    "spherical": ("tied_spherical",),
    "tied_diag": ("tied_spherical",),
    "diag": ("tied_diag", "spherical"),
    "tied": ("tied_diag",),
    "full": ("tied", "diag"),
}


@dataclass(frozen=True, eq=False)
class Given:
    """Parameters at which the user wants the fit to start, in the user's units."""

    weights: Floats | None = None  # (k,)
    means: Floats | None = None  # (k, d)
    covariances: Floats | None = None  # (k, d, d) or (k, d)


@dataclass(frozen=True)
class Options:
    """Parameters chosen by the user."""

    k: int | None  # number of components; None to choose it by the Bayesian information criterion
    most: int  # the largest number that is tried
    types: tuple[str, ...]  # of covariances, the best of which is chosen
    n_moves: int  # the most moves that are tried
    final: Budget  # of EM on all rows
    ridge: float = 1e-6
    n_init: int = 1  # starts of each kind that has random numbers
    starts: str = "auto"  # which compete; "decoded" for the moments always, besides others
    given: Given | None = None
    variance: float | None = None  # of all components and columns, where it is known
    order: int | None = None  # order r of the components decoded from the moments

    @property
    def first(self) -> tuple[str, ...]:
        """Starts that compete before moves."""
        named = {"moments": ("moments", "k-means++"), "decoded": ("moments", "merge")}
        if self.starts == "auto":
            return ("merge",) if self.n_moves else ("moments", "merge", "k-means++")
        return named.get(self.starts, (self.starts,))

    def second(self, found: Found) -> tuple[str, ...]:
        """Return starts that compete where moves were worth a try: the first is then in doubt."""
        if self.given is not None or len(self.types) > 1 or found.state.k == 1:
            return ()
        if self.k is None:
            return ("moments",) if self.starts == "decoded" else ()
        if self.starts not in ("auto", "decoded") or not sum(s.tried for s in found.searched):
            return ()
        return tuple(name for name in ("moments", "k-means++") if name not in self.first)


@dataclass(frozen=True, eq=False)
class Raced:
    """The best start of one type, after a short EM on a sample."""

    view: View
    sample: Rows  # in the coordinates of the view
    state: Gaussians
    log_likelihood: float  # of the sample, in the coordinates of the view
    start: str
    levels: dict[str, float]  # mean log-likelihood per row after a short EM, of each start
    decoded: Decoded = field(default_factory=Decoded)

    @property
    def bic(self) -> float:
        """Bayesian information criterion on the sample, in the user's units."""
        level = self.log_likelihood - self.sample.total * self.view.log_unit
        return bic(level, self.view.family.n_parameters(self.state), self.sample.total)


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
    fewer: int | None = None  # a smaller number of components of lower BIC, if one was found
    n_moves: int | None = None  # moves tried, where the search ended because none were left

    @property
    def kind(self) -> CovarianceType:
        """The type of its covariances."""
        return self.view.family.kind


def fit_gaussians(rows: Rows, options: Options, rng: np.random.Generator) -> GaussianFit:
    """Fit rows in the user's units without outliers."""
    times = [perf_counter()]
    k, n = options.k, SEARCH.rows_for(options.k or options.most)
    sample = rows.sample(n, rng, width=k or options.most).merged()
    check_distinct(sample, k, whole=sample.n >= rows.kept)
    options = replace(options, most=min(options.most, sample.n))
    # 1. On a sample, for each type: starts, then moves or the number of components.
    raced: dict[str, Raced] = {}
    for name in options.types:
        view = make_view(sample, CovarianceType(name), options.ridge)
        if options.variance is not None:
            view = view.with_known(np.full(rows.n_features, options.variance))
        raced[name] = race_starts(view, rows, sample, options, raced, rng)
    promising = sorted(raced, key=lambda name: raced[name].bic)[:SEARCHED]
    found: dict[str, Found] = {}
    for name in filter(promising.__contains__, options.types):
        found[name] = search_type(raced[name], rows, options, found, rng)
    best = min(found.values(), key=lambda each: each.bic)
    # 2. Moves on more rows where a component is light.
    light = float(best.state.weights.min()) < FAINT / best.state.k
    view = best.view
    if best.state.k > 1 and light and n < rows.kept and options.n_moves:
        more = view.hold(rows.sample(MORE_ROWS * n, rng, width=best.state.k)).merged()
        again = search_moves(view.family, more, best.state, options.n_moves, rng)
        best = replace(best, state=again.state, searched=(*best.searched, again), sample=more)
    times.append(perf_counter())
    # 3. EM on all rows.
    fitted = run_em(view.family, view.rows(rows), best.state, options.final)
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
    if len(raced) > 1:
        compared: dict[str, Raced] = raced | found
        stats["bic_by_covariance_type"] = {name: each.bic for name, each in compared.items()}
    exhausted = k is not None and options.n_moves > 0 and max(tried, default=0) >= options.n_moves
    more_rows = None if best.sample.total == rows.total else view.rows(rows)
    fewer = None if k is None else one_less(view, best.sample, fitted.state, more_rows)
    return GaussianFit(
        view.fitted(fitted),
        view,
        stats,
        best.decoded.components,
        fewer,
        options.n_moves if exhausted else None,
    )


def race_starts(
    view: View,
    everything: Rows,
    sample: Rows,
    options: Options,
    poorer: Mapping[str, Raced],
    rng: np.random.Generator,
) -> Raced:
    """Let starts of one type of covariance compete on a sample in the user's units.

    Parameters
    ----------
    everything, sample : Rows
        All rows, and some of them that are held.
    poorer : mapping of str to Raced
        Types with fewer parameters, from the best of which this one is started too.
    """
    family, rows, k = view.family, view.hold(sample), options.k
    decoded = Decoded()
    starts = [
        start_from(view, poorer[name]) for name in POORER[family.kind.name] if name in poorer
    ]
    if options.given is not None and k is not None:
        starts = [("given", given_start(view, rows, options.given, k))]
    elif k is None:
        seed = int(rng.integers(2**31))
        starts.append(("merge", merged_state(rows, family, None, options.most, seed)))
    elif k == 1:
        x = rows.block["x"]
        starts.append(("merge", family.from_shares(rows, namespace_of(x).ones_like(x[:, :1]))))
    else:
        more, decoded = _starts(view, everything, rows, k, options.first, options, rng)
        starts += more
    start, best, levels = _race(family, rows, starts)
    return Raced(view, rows, best.state, best.level * rows.total, start, levels, decoded)


def _starts(
    view: View,
    everything: Rows,
    sample: Rows,
    k: int,
    which: tuple[str, ...],
    options: Options,
    rng: np.random.Generator,
) -> tuple[list[tuple[str, Gaussians]], Decoded]:
    """Return starts by name, the moments first, and what was decoded."""
    family, starts, decoded = view.family, list[tuple[str, Gaussians]](), Decoded()
    if "moments" in which and family.kind.name not in ("diag", "full"):
        rows = view.rows(everything)
        state, decoded = decoded_state(rows, sample, family, k, options.order, rng)
        starts += [] if state is None else [("moments", state)]
    return [*starts, *starts_of(sample, family, k, which, options.n_init, rng)], decoded


def start_from(view: View, other: Raced) -> tuple[str, Gaussians]:
    """Return the mixture of another type as a start, and its name."""
    state = view.inside(other.view.outside(other.state).expanded())
    kind = view.family.kind
    return f"{other.view.family.kind.name} fit", converted(state, kind)


def search_type(
    raced: Raced,
    everything: Rows,
    options: Options,
    poorer: Mapping[str, Found],
    rng: np.random.Generator,
) -> Found:
    """Try moves from the best start of a type, or choose the number of components.

    Parameters
    ----------
    everything : Rows
        All rows.
    poorer : mapping of str to Found
        Fits of types with fewer parameters: if one is better, the search starts from it.
    """
    view, rows, family, k = raced.view, raced.sample, raced.view.family, options.k
    fits = [start_from(view, poorer[name]) for name in POORER[family.kind.name] if name in poorer]
    found = Found(**vars(raced))
    if fits:
        start, fitted, levels = _race(family, rows, [(raced.start, raced.state), *fits])
        total, levels = fitted.level * rows.total, raced.levels | levels
        found = replace(
            found, state=fitted.state, log_likelihood=total, start=start, levels=levels
        )
    before = found.log_likelihood
    if k is None:
        chosen = choose_k(family, rows, found.state, options.most, options.n_moves, rng)
        offset = 2 * rows.total * view.log_unit
        scores = {number: score + offset for number, score in chosen.scores.items()}
        found = replace(found.after(chosen.searched), scores=scores)
        before = found.log_likelihood
    elif k > 1 and options.n_moves:
        found = found.after(search_moves(family, rows, found.state, options.n_moves, rng))
    others, decoded = _starts(
        view, everything, rows, found.state.k, options.second(found), options, rng
    )
    if decoded.numbers:
        found = replace(found, decoded=decoded)
    if not others:
        return found
    start, fitted, levels = _race(family, rows, others)
    found = replace(found, levels=found.levels | levels)
    if fitted.level * rows.total <= before:
        return found
    again = search_moves(family, rows, fitted.state, options.n_moves, rng)
    if again.log_likelihood <= found.log_likelihood:
        return found
    return replace(found, start=start).after(again)


def search_again(
    view: View, options: Options, rng: np.random.Generator
) -> Callable[[Rows, Gaussians], Gaussians]:
    """Return the search of a sample for a mixture at least as likely as a given one."""

    def search(sample: Rows, state: Gaussians) -> Gaussians:
        starts, _ = _starts(view, view.back(sample), sample, state.k, options.first, options, rng)
        best = _race(view.family, sample, [("last", state), *starts])[1].state
        if not options.n_moves or best.k == 1:
            return best
        return search_moves(view.family, sample, best, options.n_moves, rng).state

    return search


def _race(
    family: GaussianFamily, rows: Rows, starts: list[tuple[str, Gaussians]]
) -> tuple[str, Fitted[Gaussians], dict[str, float]]:
    """Run EM from all starts, those that fall behind for a few steps only; return the best.

    By the Bayesian information criterion, since numbers of components may differ.
    """

    def score(fitted: Fitted[Gaussians]) -> float:
        return bic(fitted.level * rows.total, family.n_parameters(fitted.state), rows.total)

    fits = [(name, run_em(family, rows, start, HEAT)) for name, start in starts]
    least = min(score(fitted) for _, fitted in fits) + 2 * BEHIND * rows.total
    levels: dict[str, float] = {}
    kept = []
    for name, fitted in fits:
        if score(fitted) <= least:
            fitted = run_em(family, rows, fitted.state, QUICK)  # noqa: PLW2901
            kept.append((name, fitted))
        levels[name] = max(fitted.level, levels.get(name, -math.inf))
    start, best = min(kept, key=lambda pair: score(pair[1]))
    for name, fitted in kept:  # the first of those that are as good
        if score(fitted) < score(best) + 2 * ENOUGH and fitted.state.k == best.state.k:
            return name, fitted, levels
    return start, best, levels


def given_start(view: View, rows: Rows, given: Given, k: int) -> Gaussians:
    """Return the start that the user asks for; what is not given follows from the rows.

    Without means they are those of k-means++; without weights and covariances those of the rows
    nearest to the means.
    """
    family = view.family
    means = given.means
    if means is None:
        state = dict(starts_of(rows, family, k, ["k-means++"], 1, np.random.default_rng(0)))
        start = state["k-means++"]
    else:
        inside = (means - view.center) / view.scale
        start = replace(nearest_state(rows, family, inside), means=inside)
    if given.weights is not None:
        start = replace(start, weights=given.weights)
    if given.covariances is not None:
        there = Gaussians(start.weights, start.means, given.covariances)
        start = replace(
            start, covariances=there.moved(0 * view.center, 1 / view.scale).covariances
        )
    return start


def one_less(view: View, sample: Rows, state: Gaussians, rows: Rows | None = None) -> int | None:
    """Return one component less, if BIC is lower after the cheapest merge, followed by EM.

    On a sample; and if it is lower there on all rows, where they are given: they may show a
    component that a sample does not.
    """
    if state.k == 1:
        return None
    family = view.family
    less = merge_cheapest(family, sample, state)
    saved = family.n_parameters(state) - family.n_parameters(less)
    for part in [sample] if rows is None else [sample, rows]:
        found = run_em(family, part, less, QUICK)
        gain = part.total * (family.e_step(part, state).level - found.level)
        if bic(gain, saved, part.total) < 0:
            return None
        less = found.state
    return less.k


def types_of(covariance_type: str) -> tuple[str, ...]:
    """Return the types among which the fit chooses, from the fewest to the most parameters."""
    return COVARIANCE_TYPES if covariance_type == "auto" else (covariance_type,)
