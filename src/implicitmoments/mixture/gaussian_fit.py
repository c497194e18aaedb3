"""Fit of a Gaussian mixture: starts that compete, moves on a sample, EM on all rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np

from implicitmoments.arrays import Floats, namespace_of, softmax_rows, to_numpy
from implicitmoments.mixture.gaussian_family import GaussianFamily
from implicitmoments.mixture.gaussian_initialisation import (
    converted,
    merged_state,
    n_micro,
    nearest_state,
    partition_rows,
    starts_of,
    sum_groups,
)
from implicitmoments.mixture.gaussian_view import View, check_distinct, make_view
from implicitmoments.mixture.gaussians import (
    COVARIANCE_TYPES,
    CovarianceType,
    Gaussians,
)
from implicitmoments.mixture.initialisation import QUICK
from implicitmoments.rows import Rows
from implicitmoments.search import (
    SEARCH,
    Budget,
    Fitted,
    Searched,
    bic,
    choose_k,
    run_em,
    search_moves,
)

# A component lighter than 0.25/k needs more rows to be distinguished from a tail of another.
FAINT, MORE_ROWS = 0.25, 4
# Starts compete after a few steps of EM, and those that are so many nats per row behind end there.
HEAT, BEHIND = replace(QUICK, steps=12), 0.01
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
    ridge: float
    n_moves: int  # the most moves that are tried
    n_init: int  # complete fits, the best of which is kept
    starts: str  # which starts compete
    final: Budget  # of EM on all rows
    given: Given | None = None

    @property
    def first(self) -> tuple[str, ...]:
        """Starts that compete before moves."""
        if self.starts == "auto":
            return ("merge",) if self.n_moves else ("merge", "moments", "k-means++")
        return ("moments", "k-means++") if self.starts == "moments" else (self.starts,)

    @property
    def second(self) -> tuple[str, ...]:
        """Starts that compete where moves were worth a try: the first is then in doubt."""
        own = self.given is None and self.k is not None and len(self.types) == 1
        return ("moments", "k-means++") if own and self.starts == "auto" else ()


@dataclass(frozen=True, eq=False)
class Raced:
    """The best start of one type, after a short EM on a sample."""

    view: View
    sample: Rows  # in the coordinates of the view
    state: Gaussians
    log_likelihood: float  # of the sample, in the coordinates of the view
    start: str
    levels: dict[str, float]  # mean log-likelihood per row after a short EM, of each start

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
    kind: CovarianceType
    stats: dict[str, Any]
    fewer: int | None  # a smaller number of components of lower BIC, if one was found
    exhausted: bool  # whether the search ended because no moves were left

    def bic(self, total: float) -> float:
        """Bayesian information criterion of so many rows."""
        state, level = self.fitted.state, self.fitted.level
        return bic(level * total, self.kind.n_parameters(state.k, state.d), total)


def fit_gaussians(rows: Rows, options: Options, rng: np.random.Generator) -> GaussianFit:
    """Fit rows in the user's units without outliers."""
    n = SEARCH.rows_for(options.k or options.most)
    sample = rows.sample(n, rng, width=options.k or options.most).merged()
    check_distinct(sample, options.k, whole=sample.n >= rows.kept)
    options = replace(options, most=min(options.most, sample.n))
    # Each fit has random numbers of its own: with more of them, the first ones are the same.
    generators = [rng, *rng.spawn(options.n_init - 1)]
    fits = (fit_once(rows, sample, options, each) for each in generators)
    return min(fits, key=lambda fit: fit.bic(rows.total))


def fit_once(rows: Rows, sample: Rows, options: Options, rng: np.random.Generator) -> GaussianFit:
    """Search on a sample of the rows, then run EM on all of them."""
    times, k = [perf_counter()], options.k
    # 1. On a sample, for each type: starts, then moves or the number of components. The type whose
    # starts are best comes first: others are searched as far as they may still surpass it.
    raced: dict[str, Raced] = {}
    for name in options.types:
        view = make_view(sample, CovarianceType(name), options.ridge)
        raced[name] = race_starts(view, sample, options, raced, rng)
    found: dict[str, Found] = {}
    for name in sorted(raced, key=lambda name: raced[name].bic):
        found[name] = search_type(raced[name], options, found, rng)
    best = min(found.values(), key=lambda each: each.bic)
    # 2. Moves on more rows where a component is light.
    light = float(best.state.weights.min()) < FAINT / best.state.k
    if best.state.k > 1 and light and sample.n < rows.kept and options.n_moves:
        more = best.view.rows(rows).sample(MORE_ROWS * sample.n, rng, width=best.state.k).merged()
        again = search_moves(best.view.family, more, best.state, options.n_moves, rng)
        best = replace(best, state=again.state, searched=(*best.searched, again), sample=more)
    times.append(perf_counter())
    # 3. EM on all rows.
    view = best.view
    fitted = run_em(view.family, view.rows(rows), best.state, options.final)
    times.append(perf_counter())
    rate = _misclassification_rate(view.family, best.sample, fitted.state)
    unit = view.log_unit
    history = tuple(float(level) - unit for level in fitted.history)
    state = view.outside(fitted.state)
    fitted = replace(fitted, state=state, level=fitted.level - unit, history=history)
    stats = {
        "start": best.start,
        "start_log_likelihood": {name: level - unit for name, level in best.levels.items()},
        "misclassification_rate": rate,
        "sample_rows": best.sample.n,
        "n_moves": sum(searched.accepted for searched in best.searched),
        "n_moves_tried": sum(searched.tried for searched in best.searched),
        "seconds_search": times[1] - times[0],
        "seconds_em": times[2] - times[1],
        **({"bic_by_n_components": best.scores} if best.scores else {}),
    }
    if len(found) > 1:
        stats["bic_by_covariance_type"] = {name: found[name].bic for name in options.types}
    tried = [searched.tried for searched in best.searched]
    exhausted = k is not None and options.n_moves > 0 and max(tried, default=0) >= options.n_moves
    return GaussianFit(fitted, view.family.kind, stats, _fewer(best, rows.total), exhausted)


def race_starts(
    view: View,
    sample: Rows,
    options: Options,
    poorer: Mapping[str, Raced],
    rng: np.random.Generator,
) -> Raced:
    """Let starts of one type of covariance compete on a sample in the user's units.

    Parameters
    ----------
    poorer : mapping of str to Raced
        Types with fewer parameters, from the best of which this one is started too.
    """
    family, rows, k = view.family, view.rows(sample).hold(), options.k
    starts = [
        start_from(view, poorer[name]) for name in POORER[family.kind.name] if name in poorer
    ]
    if options.given is not None and k is not None:
        starts = [("given", given_start(view, rows, options.given, k))]
    elif k is None:
        n, kind = n_micro(family.kind, rows, None, options.most), family.kind
        groups = sum_groups(rows, kind, partition_rows(rows, n, int(rng.integers(2**31))))
        starts.append(("merge", merged_state(family, groups, None, options.most)))
    elif k == 1:
        x = rows.block["x"]
        starts.append(("merge", family.from_shares(rows, namespace_of(x).ones_like(x[:, :1]))))
    else:
        starts += starts_of(rows, family, k, options.first, rng)
    start, best, levels = _race(family, rows, starts)
    return Raced(view, rows, best.state, best.level * rows.total, start, levels)


def start_from(view: View, other: Raced) -> tuple[str, Gaussians]:
    """Return the mixture of another type as a start, and its name."""
    state = view.inside(other.view.outside(other.state).expanded())
    kind = view.family.kind
    return f"{other.view.family.kind.name} fit", converted(state, kind)


def search_type(
    raced: Raced, options: Options, found: Mapping[str, Found], rng: np.random.Generator
) -> Found:
    """Try moves from the best start of a type, or choose the number of components.

    Parameters
    ----------
    found : mapping of str to Found
        Fits of other types. The best of them and those of types with fewer parameters are starts,
        too, and moves that cannot surpass the best are not tried.
    """
    view, rows, family, k = raced.view, raced.sample, raced.view.family, options.k
    offset = 2 * rows.total * view.log_unit  # of criteria in the user's units
    least = min((each.bic for each in found.values()), default=math.inf) - offset
    best = Found(**vars(raced))
    fits = [
        start_from(view, each)
        for name, each in found.items()
        if name in POORER[family.kind.name] or each.bic - offset <= least
    ]
    if fits:
        start, fitted, levels = _race(family, rows, [(raced.start, raced.state), *fits])
        total, levels = fitted.level * rows.total, raced.levels | levels
        best = Found(view, rows, fitted.state, total, start, levels)
    if k is None:
        chosen = choose_k(
            family, rows, best.state, options.most, options.n_moves, rng, least=least
        )
        scores = {number: score + offset for number, score in chosen.scores.items()}
        return replace(best.after(chosen.searched), scores=scores)
    if k == 1 or not options.n_moves:
        return best
    target = 0.5 * (family.n_parameters(best.state) * math.log(rows.total) - least)

    def moved(state: Gaussians) -> Searched[Gaussians]:
        return search_moves(family, rows, state, options.n_moves, rng, target=target)

    after = best.after(moved(best.state))
    if after.searched[0].tried == 0 or not options.second:
        return after
    others = list(starts_of(rows, family, k, options.second, rng))
    start, fitted, levels = _race(family, rows, others)
    after = replace(after, levels=after.levels | levels)
    if fitted.level * rows.total <= best.log_likelihood:
        return after
    again = moved(fitted.state)
    if again.log_likelihood <= after.log_likelihood:
        return after
    return replace(after, start=start).after(again)


def _race(
    family: GaussianFamily, rows: Rows, starts: list[tuple[str, Gaussians]]
) -> tuple[str, Fitted[Gaussians], dict[str, float]]:
    """Run EM from all starts, those that fall behind for a few steps only; return the best.

    By the Bayesian information criterion, since numbers of components may differ.
    """

    def score(fitted: Fitted[Gaussians]) -> float:
        return bic(fitted.level * rows.total, family.n_parameters(fitted.state), rows.total)

    heat = HEAT if len(starts) > 1 else QUICK
    fits = [(name, run_em(family, rows, start, heat)) for name, start in starts]
    least = min(score(fitted) for _, fitted in fits) + 2 * BEHIND * rows.total
    levels: dict[str, float] = {}
    kept = []
    for name, fitted in fits:
        if score(fitted) <= least:
            if len(fits) > 1 and not fitted.converged:
                fitted = run_em(family, rows, fitted.state, QUICK)  # noqa: PLW2901
            kept.append((name, fitted))
        levels[name] = max(fitted.level, levels.get(name, -math.inf))
    start, best = min(kept, key=lambda pair: score(pair[1]))
    return start, best, levels


def given_start(view: View, rows: Rows, given: Given, k: int) -> Gaussians:
    """Return the start that the user asks for; what is not given follows from the rows.

    Without means they are those of k-means++; without weights and covariances those of the rows
    nearest to the means.
    """
    family = view.family
    means = given.means
    if means is None:
        state = dict(starts_of(rows, family, k, ["k-means++"], np.random.default_rng(0)))
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


def _misclassification_rate(family: GaussianFamily, sample: Rows, state: Gaussians) -> float:
    """Return the expected share of rows that are not of their most probable component."""
    shares = to_numpy(softmax_rows(family.log_joint(sample, state))[0])
    return float(1 - sample.counts @ shares.max(axis=1) / sample.counts.sum())


def _fewer(best: Found, total: float) -> int | None:
    """Return one component less, if the predicted loss of a merge is below the penalty of BIC."""
    k, family = best.state.k, best.view.family
    merges = best.searched[-1].ranking.merges if best.searched else None
    if merges is None or best.scores:
        return None
    saved = family.n_parameters(best.state) - family.kind.n_parameters(k - 1, best.state.d)
    loss = float(merges.losses[0]) * total / best.sample.total
    return k - 1 if bic(loss, saved, total) > 0 else None


def types_of(covariance_type: str) -> tuple[str, ...]:
    """Return the types among which the fit chooses, from the fewest to the most parameters."""
    return COVARIANCE_TYPES if covariance_type == "auto" else (covariance_type,)
