"""Starts of a Gaussian mixture of one type compete by short EM on a sample."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from implicitmoments.arrays import Floats, namespace_of
from implicitmoments.mixture.decoding import Decoded
from implicitmoments.mixture.family import GaussianFamily
from implicitmoments.mixture.gaussians import COVARIANCE_TYPES, CovarianceType, Gaussians
from implicitmoments.mixture.initialisation import (
    QUICK,
    converted,
    decoded_state,
    merged_state,
    n_micro,
    n_starts,
    nearest_state,
    partition_rows,
    scattered_state,
    starts_of,
    sum_groups,
)
from implicitmoments.mixture.view import View
from implicitmoments.rows import Rows
from implicitmoments.rows.constants import DOUBLE
from implicitmoments.search import Budget, Fitted, bic, run_em
from implicitmoments.search.noise import is_gaussian
from implicitmoments.search.ranking import ENOUGH

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


def with_poorer(name: str) -> list[str]:
    """Return a type after all those that it contains."""
    before = {each for poorer in POORER[name] for each in with_poorer(poorer)}
    return [*sorted(before, key=COVARIANCE_TYPES.index), name]


@dataclass(frozen=True, eq=False)
class Given:
    """Parameters at which the user wants the fit to start, in the user's units."""

    weights: Floats | None = None  # (k,)
    means: Floats | None = None  # (k, d)
    covariances: Floats | None = None  # (k, d, d) or (k, d)
    freedom: Floats | None = None  # (k,), of the last fit


@dataclass(frozen=True)
class Options:
    """Parameters chosen by the user."""

    k: int | None  # number of components; None to choose it by the Bayesian information criterion
    most: int  # the largest number that is tried
    types: tuple[str, ...]  # of covariances, the best of which is chosen
    n_moves: int  # the most moves that are tried
    final: Budget  # of EM on all rows
    ridge: float = 0.0  # least variance along any direction, relative to those of the columns
    n_init: int = 1  # complete fits, the best of which is kept
    starts: str = "auto"  # which compete; "decoded" for the moments always, besides others
    given: Given | None = None
    variance: float | None = None  # of all components and columns, where it is known
    student: bool = False  # components have multivariate t distributions
    order: int | None = None  # order r of the components decoded from the moments
    epsilon: float = DOUBLE  # of the precision in which rows were given

    @property
    def alone(self) -> bool:
        """Whether one type is searched, with a given number of components, from any start."""
        free = self.given is None and self.variance is None and self.starts == "auto"
        return free and len(self.types) == 1 and (self.k or 1) > 1 and self.n_moves > 0

    def largest(self, kind: CovarianceType, sample: Rows) -> int:
        """Return the number that was given, or the largest for which there are enough rows."""
        enough = int(sample.n / kind.fewest_rows(sample.n_features))
        return self.k or max(1, min(self.most, enough))

    def reducible(self, sample: Rows) -> bool:
        """Whether the search may be done in the span of the means, of half the columns or less.

        Of round components of one variance, from rows that have a regular covariance.
        """
        free = self.given is None and not self.student and self.types == ("tied_spherical",)
        d = sample.n_features
        return free and 1 < (self.k or 1) <= d // 2 + 1 and sample.n > d

    @property
    def first(self) -> tuple[str, ...]:
        """Starts that compete before moves."""
        named = {"moments": ("moments", "k-means++"), "decoded": ("moments", "merge")}
        if self.starts == "auto":
            return ("merge",) if self.n_moves else ("moments", "merge", "k-means++")
        return named.get(self.starts, (self.starts,))


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
    largest = options.largest(family.kind, rows)
    starts = [
        start_from(view, poorer[name])
        for name in POORER[family.kind.name]
        if name in poorer and poorer[name].state.k <= largest
    ]
    if options.given is not None and k is not None:
        state = given_start(view, rows, options.given, k, rng)
        level = family.e_step(rows, state).level
        return Raced(view, rows, state, level * rows.total, "given", {"given": level})
    if k is None:
        n, kind = n_micro(family.kind, rows, None, largest), family.kind
        for _ in range(n_starts(rows, largest)):
            groups = sum_groups(rows, kind, partition_rows(rows, n, int(rng.integers(2**31))))
            starts.append(("merge", merged_state(family, groups, None, largest)))
    elif k == 1:
        x = rows.block["x"]
        starts.append(("merge", family.from_shares(rows, namespace_of(x).ones_like(x[:, :1]))))
    else:
        more, decoded = named_starts(view, everything, rows, k, options.first, options, rng)
        starts += more
    start, best, levels = race(family, rows, starts)
    return Raced(view, rows, best.state, best.level * rows.total, start, levels, decoded)


def named_starts(
    view: View,
    everything: Rows,
    sample: Rows,
    k: int,
    which: tuple[str, ...],
    options: Options,
    rng: np.random.Generator,
) -> tuple[list[tuple[str, Gaussians]], Decoded]:
    """Return starts by name, the moments first, and what was decoded.

    Where the moments resolve all components, merges compete only where moves fail.
    """
    family, starts, decoded = view.family, list[tuple[str, Gaussians]](), Decoded()
    if "moments" in which and family.kind.name not in ("diag", "full"):
        rows = view.rows(everything)
        state, decoded = decoded_state(rows, sample, family, k, options.order, rng)
        starts += [] if state is None else [("moments", state)]
        if starts and decoded.clear and options.n_moves:
            which = tuple(name for name in which if name != "merge")
    return [*starts, *starts_of(sample, family, k, which, rng)], decoded


def start_from(view: View, other: Raced) -> tuple[str, Gaussians]:
    """Return the mixture of another type as a start, and its name."""
    state = converted(view.inside(other.view.outside(other.state).expanded()), view.family.kind)
    # least variances differ between types
    state = replace(state, covariances=view.family.raised(state.covariances, state.means))
    return f"{other.view.family.kind.name} fit", state


def race(
    family: GaussianFamily,
    rows: Rows,
    starts: list[tuple[str, Gaussians]],
    rival: float = math.inf,
) -> tuple[str, Fitted[Gaussians], dict[str, float]]:
    """Run EM from all starts, those that fall behind for a few steps only; return the best.

    By the Bayesian information criterion, since numbers of components may differ.

    Parameters
    ----------
    rival : float
        The criterion of another start, behind which they may fall, too.
    """

    def score(fitted: Fitted[Gaussians]) -> float:
        return bic(fitted.level * rows.total, family.n_parameters(fitted.state), rows.total)

    alone = len(starts) == 1 and rival == math.inf
    fits = [
        (name, run_em(family, rows, start, QUICK if alone else HEAT)) for name, start in starts
    ]
    least = min(rival, *(score(fitted) for _, fitted in fits)) + 2 * BEHIND * rows.total
    levels: dict[str, float] = {}
    for at, (name, fitted) in enumerate(fits):
        if score(fitted) <= least and not (alone or fitted.converged):
            fits[at] = name, run_em(family, rows, fitted.state, QUICK)
        levels[name] = max(fits[at][1].level, levels.get(name, -math.inf))
    best = min((fitted for _, fitted in fits), key=score)
    # named after the first of those that are as good
    start = next(name for name, fitted in fits if score(fitted) <= score(best) + 2 * ENOUGH)
    return start, best, levels


def given_start(
    view: View, rows: Rows, given: Given, k: int, rng: np.random.Generator
) -> Gaussians:
    """Return the start that the user asks for; what is not given follows from the rows.

    Without means they are those of k-means++; without weights and covariances those of the rows
    nearest to the means.
    """
    family = view.family
    means = given.means
    if means is None:
        start = scattered_state(rows, family, k, int(rng.integers(2**31)))
    else:
        inside = (means - view.center) / view.scale
        start = replace(nearest_state(rows, family, inside), means=inside)
    if given.weights is not None:
        start = replace(start, weights=given.weights)
    if given.covariances is not None:
        there = Gaussians(start.weights, start.means, given.covariances)
        moved = there.moved(0 * view.center, 1 / view.scale).covariances
        start = replace(start, covariances=family.raised(moved, start.means))
    start = family.adopt(start)
    if given.freedom is not None and not is_gaussian(start.freedom):
        start = replace(start, freedom=given.freedom)
    return start
