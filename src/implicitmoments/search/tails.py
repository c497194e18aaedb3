"""Compare the law of the noise with another one, under which fewer components may do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, Protocol

import numpy as np
from scipy.special import chdtr, fdtr

from implicitmoments.arrays import Floats, move_like, namespace_of, softmax_rows, to_numpy
from implicitmoments.notes import Note
from implicitmoments.rows.normality import KOLMOGOROV_CHANCE
from implicitmoments.search import trials
from implicitmoments.search.choose_k import grow_and_prune
from implicitmoments.search.em import E, Family, Fitted, R, S, bic, run_em
from implicitmoments.search.moves import GROW
from implicitmoments.search.ranking import Ranking
from implicitmoments.search.splits import OPTIMISM

# Least fall of the Bayesian information criterion that is said. Of Gaussian noise Student's law
# gains half a χ² of one degree of freedom, 2 + log n with a probability of 0.8 % at n = 50.
CLEAR = 2.0
SUSPECT = 2.0  # standard errors of the kurtosis from which laws are compared
AT_ONCE = 8  # one in so many components is merged at a time where no merge is known to pay


class LawFamily(Family[R, S, E], Protocol[R, S, E]):
    """Requirements of a comparison in addition to moves."""

    def adopt(self, state: S) -> S:
        """Return a state of another law as one of this law, to start from."""
        ...

    def log_peaks(self, state: S) -> Floats:
        """Return log weight plus log density at the centre of each component, (k,)."""
        ...

    def freedom(self, state: S) -> float:
        """Return the degrees of freedom of the noise; infinite for a Gaussian."""
        ...


@dataclass(frozen=True, eq=False)
class Rival(Generic[S]):
    """A mixture of another law, and how much better it is."""

    state: S
    gain: float  # what its Bayesian information criterion is lower by
    n: float  # rows that were compared
    chance: float  # a gain that chance explains, or that is of no use
    # Kolmogorov distance of the distances from the centres to their law, and that of the mixture
    # that was fitted; nan where the gain is less
    misfit: float
    own_misfit: float

    @property
    def clear(self) -> bool:
        """Whether the gain is more than chance explains, and the tails are no worse.

        A density with a sharp peak gains where columns hold few values, whatever its tails are.
        """
        worse = self.misfit > max(self.own_misfit, KOLMOGOROV_CHANCE / math.sqrt(self.n))
        return self.gain > self.chance and not worse


def excess_kurtosis(family: LawFamily[R, S, E], rows: R, state: S, q: int) -> float:
    r"""Return the kurtosis within Gaussian components less that of a Gaussian, in standard errors.

    The mean over rows of :math:`\sum_i R_i (\delta_i^2 - 2 (q + 2) \delta_i + q (q + 2))` with
    squared distances :math:`\delta` in q dimensions: the score of Student's law at infinite
    degrees of freedom. If the mixture is right its mean is 0, and its variance at most
    :math:`8 q (q + 2)` per row, that of known components.
    """
    joint, counts = family.log_joint(rows, state), family.counts(rows)
    xp, total = namespace_of(joint), trials.total_rows(family, rows)
    squares = 2 * (move_like(family.log_peaks(state), joint) - joint)
    squares = xp.astype(squares, xp.float64, copy=False)  # their squares leave single precision
    shares, _ = softmax_rows(joint)
    excess = xp.sum(shares * (squares * (squares - 2 * (q + 2)) + q * (q + 2)), axis=1)
    return float(xp.sum(counts * excess)) / math.sqrt(8 * q * (q + 2) * total)


@np.errstate(over="ignore")  # an infinite distance is far
def tail_misfit(family: LawFamily[R, S, E], rows: R, state: S, q: int) -> float:
    r"""Return how far the squared distances from the centres are from their law.

    Kolmogorov's distance, with responsibilities as weights. In q dimensions squared distances
    :math:`\delta` have the law :math:`\chi^2_q` within Gaussian components, and
    :math:`\delta/q` has Fisher's law of q and ν degrees of freedom within Student's. The smallest
    responsibilities, less than one row together, are left out: they are most of those of many
    components.
    """
    joint = to_numpy(family.log_joint(rows, state))
    depths, nu = family.log_peaks(state) - joint, family.freedom(state)
    shares = to_numpy(softmax_rows(joint)[0])
    row, component = np.nonzero(shares >= 1 / shares.size)
    depths = np.maximum(2 * depths[row, component].astype(float), 0.0)
    shares = shares[row, component] * to_numpy(family.counts(rows))[row]
    if math.isinf(nu):
        levels = chdtr(q, depths)
    else:
        levels = fdtr(q, nu, nu * np.expm1(depths / (nu + q)) / q)
    order = np.argsort(levels)
    expected, weights = levels[order], shares[order] / shares.sum()
    found = np.cumsum(weights)
    return float(max(np.max(found - expected), np.max(expected - (found - weights))))


def suspicious(
    family: LawFamily[R, S, E], rows: R, state: S, q: int, ranking: Ranking[S] | None
) -> bool:
    """Return whether Gaussian components may stand for fewer ones with heavy tails.

    Either tails are left within components, or components overlap: some may be tails of others.
    """
    overlap = ranking is not None and ranking.overlap
    return overlap or excess_kurtosis(family, rows, state, q) > SUSPECT


def compare_laws(
    family: LawFamily[R, S, E],
    rival: LawFamily[R, S, E],
    rows: R,
    state: S,
    q: int,
    *,
    sampled: bool = False,
    fewer: bool = True,
    needed: float = 0.0,
) -> Rival[S]:
    """Fit held rows by both laws from a fitted mixture, and merge while BIC falls.

    Heavy tails hide in components of their own: a mixture of Gaussians looks right then, and
    only the comparison with fewer components of the right law shows them.

    Parameters
    ----------
    family, state
        The mixture that was fitted.
    rival
        The family of the other law.
    q : int
        Dimension of the noise.
    sampled : bool
        Whether the rows are a sample of those to which the mixture was fitted. EM on it then gains
        half a nat for each parameter by chance, for one law perhaps more than for the other.
    fewer : bool
        Whether to merge; False for as many components as there are.
    needed : float
        By how much BIC has to be lower to be of use: EM ends where it will not be.
    """
    total = trials.total_rows(family, rows)

    def prune(law: LawFamily[R, S, E], start: S, goal: float) -> tuple[float, S]:
        def score(fitted: Fitted[S]) -> float:
            return bic(fitted.level * total, law.n_parameters(fitted.state), total)

        def judge(candidate: S) -> tuple[float, Fitted[S]]:
            penalty = bic(0.0, law.n_parameters(candidate), total)
            fitted = run_em(law, rows, candidate, GROW, (penalty - goal) / (2 * total))
            return score(fitted), fitted

        def merged(fitted: Fitted[S]) -> S | None:
            return _merged(law, rows, fitted.state, total)

        best = grow_and_prune(judge(start), judge, (merged,) if fewer else (), patience=1)
        return score(best), best.state

    before, own = prune(family, state, math.inf)
    after, best = prune(rival, rival.adopt(state), before - needed)
    chance = CLEAR + sampled * max(family.n_parameters(own), rival.n_parameters(best))
    chance, misfits = max(chance, needed), (math.nan, math.nan)
    if before - after > chance:
        misfits = tail_misfit(rival, rows, best, q), tail_misfit(family, rows, own, q)
    return Rival(best, before - after, total, chance, *misfits)


def tails_note(freedom: Floats, k: int, found: int, gain: float) -> Note:
    """Return the note on k components for which fewer, with heavy tails, do."""
    values = {"freedom": float(freedom[0]), "k": k, "found": found, "gain": gain}
    return Note("heavy_tails", values)


def _merged(law: LawFamily[R, S, E], rows: R, state: S, total: float) -> S | None:
    """Return the state after merges that cost less than their penalty, or after the cheapest.

    Those of one in eight components, since one after another take as many fits as there are
    components. None if the cheapest is predicted to cost far more.
    """
    if state.k == 1:
        return None
    merges = trials.merges_of(law, rows, state)
    saved = law.n_parameters(state) - law.n_parameters(merges.apply(state))
    if bic(float(merges.losses[0]) / OPTIMISM, saved, total) < 0:
        return None
    penalty = 0.5 * saved * math.log(total)
    cheap = merges.cheap(penalty)
    if not len(cheap):
        cheap = merges.cheap(OPTIMISM * penalty)[: max(1, state.k // AT_ONCE)]
    return merges.apply(state, cheap)
