"""Fit of a given number of lines: starts, a search on a sample, EM on all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from implicitmoments.moments.components import Components
from implicitmoments.regression.family import LineFamily
from implicitmoments.regression.initialisation import (
    LineStart,
    WaveRows,
    decode_moments,
    first_lines,
    search_span,
)
from implicitmoments.regression.line_search import (
    LEAST_PATIENCE,
    Found,
    check_larger,
    has_light,
    rows_for,
    rows_for_peaks,
    rows_needed,
    some_of,
)
from implicitmoments.regression.lines import Lines, Model
from implicitmoments.regression.residual_peak import Peak, highest_peak
from implicitmoments.rows import Rows
from implicitmoments.search import SEARCH, Budget, Fitted, bic, run_em


@dataclass(frozen=True, eq=False)
class Start:
    """Lines to start from."""

    first: LineStart
    n_decoded: int  # vectors decoded from the moments
    decoded: Components | None  # what was decoded from the moments


@dataclass(frozen=True, eq=False)
class Begun:
    """Lines on a sample, where a fit of as many lines begins."""

    start: Start
    found: Found
    peak: Peak | None  # of the residual, where nothing else is left to improve

    @property
    def settled(self) -> bool:
        """Whether the lines are as good as any, as far as the sample shows."""
        return self.peak is not None and not self.peak.unexplained


@dataclass(frozen=True, eq=False)
class KLines:
    """A fit of a given number of lines to all rows."""

    em: Fitted[Lines]  # of EM on all rows
    found: Found  # by the last search
    checked: Found  # on the largest sample
    start: Start
    peak: Peak  # of the residual
    apart: float  # nats by which two independent searches differed


@dataclass(frozen=True, eq=False)
class Data:
    """Rows, and what is the same for fits of any number of lines."""

    family: LineFamily
    rows: Rows  # all of them
    many: Rows  # held in memory; all where they are few enough
    gaussian: bool  # whether the inputs look Gaussian
    seed: int
    budget: Budget  # of EM on all rows

    def few(self, k: int) -> bool:
        """Return whether rows are fewer than a sample for k lines should have."""
        return self.many.kept < rows_for(k, self.many.n_features - 1)

    def trusts(self, found: Found) -> bool:
        """Return whether lines that are settled are right.

        With few rows, and with discrete inputs, lines may be wrong and seem settled.
        """
        few = self.few(found.state.k)
        return not few and (self.gaussian or found.patience(few=few) < LEAST_PATIENCE)

    def bic(self, fit: KLines) -> float:
        """Return BIC of all rows."""
        total = self.rows.total
        return bic(fit.em.level * total, self.family.n_parameters(fit.em.state), total)


def fit_k(data: Data, k: int, others: Sequence[Lines] = (), begun: Begun | None = None) -> KLines:
    """Fit k lines.

    Parameters
    ----------
    others : sequence of Lines
        That compete with the usual start; where rows are few, with what a fit finds without them.
    begun : Begun, optional
        Replaces the usual start where its lines are settled and none is light: a sample may be
        too small to place a light one. Else it competes with the usual start.
    """
    family, many, rng = data.family, data.many, np.random.default_rng(data.seed)
    few, apart = data.few(k), 0.0
    rough = some_of(many, rows_for_peaks(k, many.n_features - 1))
    if begun is None or not begun.settled or has_light(begun.found.state):
        others = others if begun is None else [begun.found.state]
        begun = begin(data, _start(family.model, rough, k, data.seed), [] if few else others, rng)
        begun = _relocate(data, begun, rough, rng)
    found, peak, trusted = begun.found, begun.peak, data.trusts(begun.found)
    searched = k > 1 and not begun.settled
    if searched:
        found, apart = found.cross(few=few, trusted=trusted)
        if few and others:  # after what a fit without them finds
            found = Found.best_of(family, found.rows, [found.state, *others], rng)
        found, peak = found.move() if not (trusted and found.settled) else found, None
    doubt = searched and (not data.gaussian or found.promising)
    found, checked = check_larger(data.rows, found, doubt=doubt)
    if peak is None or found.accepted:
        peak = highest_peak(family.model, rough, checked.state, rng)
    # EM on all rows.
    em = run_em(family, data.rows, checked.state, data.budget)
    return KLines(em, found, checked, begun.start, peak, apart)


def begin(data: Data, start: Start, others: Sequence[Lines], rng: np.random.Generator) -> Begun:
    """Run EM on a sample from a start, and from others."""
    k, q = start.first.lines.coef.shape
    some = some_of(data.many, rows_for(k, q))
    found = Found.best_of(data.family, some, [start.first.lines, *others], rng)
    return _judge(data, start, found, rng)


def _relocate(data: Data, begun: Begun, rough: Rows, rng: np.random.Generator) -> Begun:
    """Move a superfluous line to a peak of the residual, on as many rows as light lines need.

    A sample may be too small for its lightest line, and shows false places for it. Where more rows
    are needed than a search should have, crossings on the sample take less time.
    """
    found = begun.found
    needed = min(rows_needed(found.state), data.many.kept)
    if begun.settled or found.state.k == 1 or needed > SEARCH.rows_for(found.state.k):
        return begun
    if needed > found.rows.n:
        some = some_of(data.many, needed)
        found = Found.best_of(data.family, some, [found.state], rng)
    return _judge(data, begun.start, found.relocate(rough), rng)


def _judge(data: Data, start: Start, found: Found, rng: np.random.Generator) -> Begun:
    """Look for a peak of the residual, where nothing else is left to improve."""
    if not (data.trusts(found) and found.settled):
        return Begun(start, found, None)
    rough = some_of(data.many, rows_for_peaks(*found.state.coef.shape))
    return Begun(start, found, highest_peak(data.family.model, rough, found.state, rng))


def _start(model: Model, rows: Rows, k: int, seed: int) -> Start:
    """Start at peaks of the characteristic function, and at decoded moments."""
    vectors, decoded = decode_moments(rows, k, seed)
    waves = WaveRows.of(rows, search_span(rows, k))
    first = first_lines(waves, k, model, np.random.default_rng(seed), vectors)
    return Start(first, len(vectors), decoded)
