"""Search for lines on a sample: EM, moves and crossings, and whether they are settled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.regression.family import LineFamily
from implicitmoments.regression.initialisation import noise_maximum
from implicitmoments.regression.lines import Lines
from implicitmoments.regression.residual_peak import highest_peak
from implicitmoments.rows import Rows
from implicitmoments.search import (
    ENOUGH,
    LOCAL,
    SEARCH,
    Alternative,
    Budget,
    Fitted,
    Merges,
    Ranking,
    bic,
    cross,
    cross_fresh,
    cross_populations,
    grow,
    merges_of,
    one_less,
    one_more,
    rank_moves,
    run_em,
    search_moves,
    worth_of_component,
)
from implicitmoments.search.alternatives import penalty_of
from implicitmoments.search.em import MORE_ROWS
from implicitmoments.search.moves import GROW

SAMPLE_ROWS, ROWS_PER_COEFFICIENT = 5_000, 50  # of a sample: the error of a coefficient is 0.14
LIGHTEST = 0.15  # of the mean weight: a lighter line does not enlarge the sample
LOUD, IN_NOISE = 0.36, 4  # share of noise in the variance of y from which so many times more rows
HEIGHT, CLEAR = 0.7, 1.5  # of the peak of a line of noise 0.3, and times the noise maximum
N_MOVES = 8  # tried on a sample; the first is usually the right one
# Failures in a row before crossings end: no more than so many products of features, rows x lines
# x coefficients², so that crossings take a few seconds at most. Populations are crossed if lines
# that seem settled may be wrong and these are more than the least; else one fit with random ones.
PATIENCE, LEAST_PATIENCE, CROSSED_PRODUCTS, CROSSED_ON_SAMPLE = 24, 3, 2**26, 2**23
N_GROWTHS = 2  # where the first of the populations starts
EM_ON_SAMPLE = replace(SEARCH, tol=1e-5)  # the last digits come from EM on all rows
# EM between two steps of growth need not converge, but lines at peaks are on a plateau first
GROWTH = replace(GROW, steps=40)


@dataclass(frozen=True, eq=False)
class Found:
    """Lines after EM on a sample."""

    family: LineFamily
    rows: Rows  # the sample
    rng: np.random.Generator
    state: Lines
    level: float  # mean log-likelihood per row of the sample
    accepted: int = 0  # moves that raised the likelihood
    ranked: Ranking[Lines] | None = None  # the moves, where they are known

    @classmethod
    def best_of(
        cls,
        family: LineFamily,
        rows: Rows,
        starts: Sequence[Lines],
        rng: np.random.Generator,
        budget: Budget = EM_ON_SAMPLE,
    ) -> Found:
        """Run EM from each start; return the lines of the highest likelihood."""
        every = [run_em(family, rows, start, budget) for start in starts]
        best = max(every, key=lambda each: each.level)
        return cls(family, rows, rng, best.state, best.level)

    @cached_property
    def merges(self) -> Merges[Lines] | None:
        """Ways to one line less; None for a single line."""
        if self.ranked is not None:
            return self.ranked.merges
        return merges_of(self.family, self.rows, self.state) if self.state.k > 1 else None

    @cached_property
    def ranking(self) -> Ranking[Lines]:
        """The moves, by their predicted gains."""
        if self.ranked is not None:
            return self.ranked
        return rank_moves(
            self.family, self.rows, self.state, self.rng, local_budget(self.rows), worth=self.worth
        )

    @property
    def worth(self) -> float:
        """A predicted gain of a split from which one line more may have a lower BIC."""
        return worth_of_component(self.family, self.rows, self.state)

    @cached_property
    def less(self) -> Alternative[Lines] | None:
        """One line less, if it loses no more than chance explains."""
        return one_less(self.family, self.state, self.merges, [(self.rows, self.level)])

    @cached_property
    def more(self) -> Alternative[Lines] | None:
        """More lines, if BIC of the sample is lower."""
        return one_more(self.family, self.state, self.ranking, self.rows, self.level)

    @property
    def bic(self) -> float:
        """BIC of the sample."""
        total = self.rows.total
        return bic(self.level * total, self.family.n_parameters(self.state), total)

    def reduced(self) -> Found:
        """Return the lines without those that are superfluous."""
        found = self
        while found.merges is not None:
            saved = penalty_of(
                self.family, found.merges.apply(found.state), found.state, self.rows.total
            )
            fewer = found.merges.apply(found.state, found.merges.cheap(saved))
            other = found.from_lines(fewer, GROWTH) if fewer.k < found.state.k else found
            if other.bic >= found.bic:
                break
            found = other
        while found.less is not None:
            found = found.from_lines(found.less.state, GROWTH)
        return found

    def from_lines(self, state: Lines, budget: Budget = EM_ON_SAMPLE) -> Found:
        """Return other lines after EM on the same rows."""
        return self._after(run_em(self.family, self.rows, state, budget))

    def with_line(self, point: Floats) -> Found:
        """Return the lines with one more, as far as BIC may be lower."""
        state, total = add_line(self.state, point), self.rows.total
        least = (bic(0.0, self.family.n_parameters(state), total) - self.bic) / (2 * total)
        return self._after(run_em(self.family, self.rows, state, GROWTH, least))

    @property
    def promising(self) -> bool:
        """Whether a move promises a gain."""
        return next(self.ranking.promising(), None) is not None

    @property
    def settled(self) -> bool:
        """Whether no line is superfluous or looks double, and no move promises a gain."""
        return self.less is None and not self.promising and self.more is None

    def move(self) -> Found:
        """Exchange lines while that raises the likelihood."""
        moved = search_moves(
            self.family,
            self.rows,
            self.state,
            N_MOVES,
            self.rng,
            EM_ON_SAMPLE,
            local_budget(self.rows),
            worth=self.worth,
            ranking=self.ranking,
        )
        return replace(
            self,
            state=moved.state,
            level=moved.log_likelihood / self.rows.total,
            accepted=self.accepted + moved.accepted,
            ranked=moved.ranking,
        )

    def relocate(self, rows: Rows) -> Found:
        """Move lines to the highest peak of the residual while that raises the likelihood.

        Of the lines the cheapest merge becomes one. Where lines overlap a peak that is no higher
        than those of noise is still the best guess.

        Parameters
        ----------
        rows : Rows
            On which peaks are looked for.
        """
        found = self
        while found.merges is not None:
            if found.less is not None:
                fewer = found.less.state
            else:
                fewer = found.from_lines(found.merges.apply(found.state), GROWTH).state
            peak = highest_peak(self.family.model, rows, fewer, self.rng)
            other = run_em(
                self.family, self.rows, add_line(fewer, peak.point), EM_ON_SAMPLE, found.level
            )
            if (other.level - found.level) * self.rows.total <= ENOUGH:
                break
            found = found._after(other)
        return found

    def patience(self, *, few: bool) -> int:
        """Return how many crossings in a row may fail."""
        k, q = self.state.coef.shape
        products = CROSSED_PRODUCTS if few else CROSSED_ON_SAMPLE
        return int(min(PATIENCE, products // (self.rows.n * k * q * q)))

    def cross(self, *, few: bool, trusted: bool) -> tuple[Found, float]:
        """Cross the lines with others; return the best, and how two searches differed, in nats.

        With discrete inputs lines may exchange labels between the values of a column, and with few
        rows they may hold rows of many others: no split of one line repairs that.

        Parameters
        ----------
        few : bool
            The sample is all rows, and they are fewer than it should have.
        trusted : bool
            Lines that are settled are right.
        """
        family, rows, rng = self.family, self.rows, self.rng
        patience = self.patience(few=few)

        def fresh() -> Lines:
            return family.random_lines(rows, self.state, rng)

        last = self

        def settled(fitted: Fitted[Lines]) -> bool:
            nonlocal last
            last = self._after(fitted)
            return trusted and last.settled

        if trusted or patience < LEAST_PATIENCE:
            patience = max(patience, LEAST_PATIENCE)
            best = cross_fresh(family, rows, self.state, fresh, patience, settled)
            found = last if last.state is best.state else self._after(best)
            if found.settled:
                return found, 0.0
            # in noise random lines are poor parents
            child = cross(family, rows, best.state, self._grown())
            return (self._after(child) if child.level > found.level else found), 0.0
        grown = [self._grown() for _ in range(N_GROWTHS)]
        crossed = cross_populations(family, rows, [*grown, self.state], fresh, patience, rng)
        return self.from_lines(crossed.state), crossed.apart if few else 0.0

    def search_again(self) -> Found:
        """Return the best of these lines, others grown from one, and both crossed, after moves."""
        moved, grown = self.move(), self.from_lines(self._grown()).move()
        best = max(moved, grown, key=lambda each: each.level)
        if abs(moved.level - grown.level) * self.rows.total <= ENOUGH:  # probably the same
            return best
        child = self._after(cross(self.family, self.rows, moved.state, grown.state)).move()
        return max(best, child, key=lambda each: each.level)

    def _grown(self) -> Lines:
        """Return as many lines, grown from one by splits."""
        one, local = one_line(self.family, self.rows), local_budget(self.rows)
        return grow(self.family, self.rows, one, self.state.k, self.rng, local=local).state

    def _after(self, fitted: Fitted[Lines]) -> Found:
        return replace(self, state=fitted.state, level=fitted.level, ranked=None)


def check_larger(rows: Rows, found: Found, *, doubt: bool) -> tuple[Found, Found]:
    """Check lines on larger samples where they are light or in noise; search again where needed.

    Returns the lines of the last search, and lines after EM on the largest sample.

    Parameters
    ----------
    doubt : bool
        Lines that are best on a small sample may not be best on all rows. Where a move promises
        a gain on a larger one, they are searched again, and on larger ones while that is better.
    """
    (k, q), family, checked = found.state.coef.shape, found.family, found
    n, more = max(rows_for(k, q), found.rows.n), SEARCH.rows_for(k) if doubt else 0
    while checked.rows.n < rows.kept:
        needed = max(rows_needed(checked.state), more)
        if needed < 2 * n:
            break
        n, more = needed, 0
        some = some_of(rows, n, width=2 * k)  # responsibilities of two fits that are crossed
        if some.n <= checked.rows.n:  # memory holds no more
            break
        checked = Found.best_of(family, some, [checked.state], found.rng)
        checked = replace(checked, accepted=found.accepted)
        if checked.less is not None:
            checked, _ = checked.cross(few=False, trusted=True)
            checked = found = checked if checked.settled else checked.move()
        if doubt and checked.promising:
            level, checked = checked.level, checked.search_again()
            if (checked.level - level) * checked.rows.total > ENOUGH:
                found, more = checked, MORE_ROWS * n
    return found, checked


def add_line(lines: Lines, point: Floats) -> Lines:
    """Return lines with one more, of half the mean weight."""
    noise = np.array([lines.weights @ lines.variances])
    return lines.add(Lines(np.ones(1), point[None], noise, lines.freedom[:1]), 0.5 / lines.k)


def some_of(rows: Rows, n: int, width: int = 1) -> Rows:
    """Return n random rows, held in memory; all of them if they are fewer than 1.5 n.

    Fewer where memory should not hold ``width`` numbers for each of them.
    """
    return rows.sample(n if 2 * rows.kept >= 3 * n else rows.n, width=width)


def one_line(family: LineFamily, rows: Rows) -> Lines:
    """Return a line where EM of one component starts; its first step is least squares."""
    q = rows.n_features - 1
    return Lines(np.ones(1), np.zeros((1, q)), np.ones(1), family.model.freedom(1))


def rows_for(k: float, q: int) -> int:
    """Return the size of a sample for k lines with q coefficients."""
    return max(SAMPLE_ROWS, int(ROWS_PER_COEFFICIENT * k * q))


def rows_for_peaks(k: int, q: int) -> int:
    """Return the rows at which a line of the mean weight is a peak clearly above the noise."""
    return max(SAMPLE_ROWS, int(0.5 * (CLEAR * noise_maximum(q) * k / HEIGHT) ** 2))


def rows_needed(lines: Lines) -> int:
    """Return the size of a sample for lines that may be light, or in noise."""
    return _rows_for_lightest(lines) * (IN_NOISE if in_noise(lines) else 1)


def has_light(lines: Lines) -> bool:
    """Return whether a line is so light that a sample should have twice as many rows."""
    return _rows_for_lightest(lines) >= 2 * rows_for(*lines.coef.shape)


def _rows_for_lightest(lines: Lines) -> int:
    k, q = lines.coef.shape
    return rows_for(1 / max(lines.weights.min(), LIGHTEST / k), q)


def in_noise(lines: Lines) -> bool:
    """Return whether noise is a large share of the variance of y."""
    return float(lines.weights @ lines.variances) > LOUD


def local_budget(rows: Rows) -> Budget:
    """Return the budget of a split: enough rows for the coefficients of one line."""
    return replace(LOCAL, rows=max(LOCAL.rows, 30 * (rows.n_features - 1)))
