"""Base of both density estimators: steps of a fit, parameters, and sampling."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from implicitmoments.arrays import Array, Floats
from implicitmoments.density.clipped_density import (
    ClippedDensity,
    ClippedFit,
    clip_expansion,
)
from implicitmoments.density.degree import (
    NOT_COMPARED,
    DegreeScores,
    compare_degrees,
    least_degree,
)
from implicitmoments.density.hermite_expansion import Expansion
from implicitmoments.density.summary import DensitySummary
from implicitmoments.estimator import KOLMOGOROV_CHANCE
from implicitmoments.evaluation import DensityScores
from implicitmoments.notes import Note, Notes
from implicitmoments.rows import RandomState, Rows, as_seed
from implicitmoments.rows.outliers import leave_out_outliers
from implicitmoments.validation import (
    check_enough_rows,
    check_method,
    check_number,
    check_option,
    check_whole,
    check_whole_or,
)

CLIP_LOSS = 0.02  # the part of epsilon that clipping may cost (starting value)
# Ratios below this count as this when degrees are compared, so that one row at which a polynomial
# is negative does not decide.
LEAST_RATIO = 0.01
FAR = 0.05  # total variation distance that is reported (starting value)
NEGATIVE = 0.01  # proportion of rows with a negative expansion, from which it is reported


@dataclass(frozen=True, eq=False)
class RatioModel:
    """Estimate of F/G from rows, for all degrees."""

    reference: Any  # G, and the coordinates that F/G depends on
    # ``bound(degree)`` bounds the total variation error of truncation
    bound: Callable[[int], float]
    expand: Callable[[int], Expansion]  # ``expand(degree)`` estimates the expansion
    stats: dict[str, Any] = field(default_factory=dict)  # measurements of the rows


class ExpandedDensity(DensitySummary, DensityScores, DensityMixin, BaseEstimator):
    """A density that is a clipped polynomial times a Gaussian.

    Theorems 4.16 and 4.22 differ in the Gaussian and in the moments, not in what follows.
    """

    degree: int | str
    clip: float | str
    floor: float
    method: str
    n_draws: int
    drop_outliers: bool
    random_state: RandomState

    @abstractmethod
    def _least_rows(self, d: int) -> int:
        """Return how many rows of d features there must be."""

    def _look_at_rows(self, rows: Rows) -> Notes:  # noqa: ARG002
        """Return notes on rows as they were given."""
        return Notes()

    @abstractmethod
    def _learn(self, rows: Rows, seed: int, *, final: bool) -> RatioModel:
        """Find G and what all degrees share; ``final`` for all rows, not for those of a fold."""

    @abstractmethod
    def _store(self, model: RatioModel, density: ClippedDensity[Any], probe: Array) -> Notes:
        """Set the attributes of the fitted model, and return its notes."""

    def _fit(self, every: Rows, seed: int) -> None:
        """Fit the density: the steps of the proofs of Theorems 4.16 and 4.22."""
        notes = self._look_at_rows(every)
        # Outliers would dominate high-order moments.
        how: dict[str, Any] = {"labelled": self.labelled, "drop": self.drop_outliers}
        near = leave_out_outliers(every, self.n_components, **how, seed=seed)
        rows = near.rows
        least = self._least_rows(rows.n_features)
        check_enough_rows(near.n_rows + near.n_outliers, self.n_components, least)
        # 1. The Gaussian G, and the coordinates that F/G depends on.
        model = self._learn(rows, seed, final=True)
        # 2. The degree, by the tail bound or by held-out likelihood.
        degree, compared = self._choose_degree(rows, model, seed)
        # 3. F/G by its Hermite expansion.
        expansion = model.expand(degree)
        # 4. Clip it, multiply it by G, and normalise.
        fitted = self._clip(expansion, model, rows, seed)
        probe = rows.like
        density = fitted.density
        self.degree_, self.clip_, self.normalizer_ = expansion.degree, density.clip, density.mass
        self.acceptance_rate_ = density.mass / density.clip
        self.stats_: dict[str, Any] = {
            "method": self.method,
            "rows_used": near.n_rows,
            "outliers": near.n_outliers,
            "scores": compared.scores,
            "still_rising": compared.rising,
            "last_rise": compared.rise,
            **fitted.measurements(near.n_rows),
            **model.stats,
        }
        if near.n_outliers:
            notes.append(Note("outliers_dropped", {"n": near.n_outliers}))
        self.notes_ = Notes([*notes, *self._store(model, density, probe)])

    def _clip(
        self, expansion: Expansion, model: RatioModel, rows: Rows, seed: int
    ) -> ClippedFit[Any]:
        return clip_expansion(
            expansion,
            model.reference,
            rows,
            floor=self.floor,
            loss=CLIP_LOSS * self.epsilon,
            seed=seed,
            clip=None if isinstance(self.clip, str) else self.clip,
        )

    def _choose_degree(self, rows: Rows, model: RatioModel, seed: int) -> tuple[int, DegreeScores]:
        if not isinstance(self.degree, str):
            return int(self.degree), NOT_COMPARED
        enough = least_degree(model.bound, self.epsilon, self.max_degree)
        if self.degree == "auto" or self.n_components == 1:
            return enough, NOT_COMPARED
        degrees = list(range(2, min(enough + 2, self.max_degree) + 1, 2))

        def fit(kept: Rows) -> Callable[[int], ClippedDensity[Any]]:
            part = self._learn(kept, seed, final=False)
            loss = CLIP_LOSS * self.epsilon

            def density(degree: int) -> ClippedDensity[Any]:
                expansion = part.expand(degree)
                how: dict[str, Any] = {"floor": LEAST_RATIO, "loss": loss, "seed": seed}
                return clip_expansion(expansion, part.reference, kept, rough=True, **how).density

            return density

        fewest = self._least_rows(rows.n_features) + 1
        compared = compare_degrees(fit, rows, degrees, fewest=fewest, highest=self.max_degree)
        return compared.best, compared

    def _check_expansion(self, methods: tuple[str, ...], highest_degree: int) -> None:
        """Check the parameters of the expansion."""
        super()._check_parameters()
        check_whole("n_components", self.n_components, 1)
        check_whole_or("degree", self.degree, ("auto", "cv"), 1, highest_degree)
        check_number("epsilon", self.epsilon, 1e-6, 1.0)
        check_whole("max_degree", self.max_degree, 2, highest_degree)
        if isinstance(self.clip, str):
            check_option("clip", self.clip, ("auto",), besides="a number or ")
        else:
            check_number("clip", self.clip, 1.0)
        check_number("floor", self.floor, 0.0, 0.5)
        check_method(self.method, methods)
        check_whole("n_draws", self.n_draws, 1)

    def _differs(self) -> bool:
        """Return whether the density clearly differs from the rows."""
        stats = self.stats_
        chance = KOLMOGOROV_CHANCE / math.sqrt(stats["rows_counted"])
        return bool(stats["negative_rows"] > NEGATIVE or stats["distance"] > FAR + chance)

    def _degree_notes(self) -> Notes:
        r"""Note that the highest degree allowed is clearly better than the one before.

        If the density of the higher degree were the truth, a rise by r of the mean log-likelihood
        would be the Kullback-Leibler divergence from it to the lower one, and their total
        variation distance at most :math:`\sqrt{r/2}`, by Pinsker's inequality.
        """
        stats, highest = self.stats_, max(self.stats_["scores"], default=0)
        step = math.sqrt(max(stats["last_rise"], 0.0) / 2)
        if not stats["still_rising"] or highest + 2 <= self.max_degree or step <= FAR:
            return Notes()
        values = {"degree": highest, "before": highest - 2, "step": step}
        values["max_degree"] = self.max_degree
        return Notes([Note("degree_still_rising", values)])

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> Any:
        """Draw rows from the density by rejection, with their labels where it has them.

        Parameters
        ----------
        n_samples : int
        random_state : int, generator or None; by default that of the estimator

        Returns
        -------
        array of shape (n_samples, n_features), or a pair of it and labels (n_samples,)
            In the library of the rows of the fit.
        """
        check_is_fitted(self)
        return self._drawn(n_samples, random_state)

    @abstractmethod
    def _drawn(self, n_samples: int, random_state: RandomState) -> Any:
        """Return rows drawn, in the library of the rows of the fit."""

    def _draw(
        self, density: ClippedDensity[Any], n_samples: int, random_state: RandomState
    ) -> Floats:
        """Draw points by rejection; ``stats_`` counts the proposals."""
        n = check_whole("n_samples", n_samples, 1)
        cap = check_whole("max_proposals", self.max_proposals, 1)
        accepted = density.sample(n, seed=self._seed(random_state), max_proposals=cap)
        self.stats_["proposals"] = accepted.n_proposals
        self.stats_["acceptance_rate"] = accepted.acceptance_rate
        return accepted.points

    def _seed(self, random_state: RandomState) -> int:
        """Return a seed for draws: by default that of the estimator."""
        check_is_fitted(self)
        return as_seed(self.random_state if random_state is None else random_state)
