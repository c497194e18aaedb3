"""Base of both density estimators: steps of a fit, parameters, sampling and findings."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

from sklearn.base import BaseEstimator, DensityMixin

from implicitmoments.arrays import Array, move_like
from implicitmoments.density.clipped_density import (
    LEAST_RATIO,
    RATED,
    ClippedDensity,
    clip_expansion,
)
from implicitmoments.density.degree import (
    NOT_COMPARED,
    DegreeScores,
    compare_degrees,
    least_degree,
)
from implicitmoments.density.hermite_expansion import Expansion
from implicitmoments.density.sampling_error import bound_sampling_error
from implicitmoments.description import DensityDescription, as_floats
from implicitmoments.estimator import Fact, FittedEstimator, constant_notes
from implicitmoments.evaluation import DensityScores
from implicitmoments.notes import Note, Notes
from implicitmoments.picture_data import (
    DENSITY_AXIS,
    Distribution,
    FitView,
    NoPictureError,
    RowSample,
)
from implicitmoments.rows import RandomState, Rows
from implicitmoments.rows.constants import find_constants, restore_columns
from implicitmoments.rows.normality import KOLMOGOROV_CHANCE
from implicitmoments.rows.outliers import SMALLEST_COMPONENT, leave_out_outliers
from implicitmoments.validation import (
    ROWS_PER_COMPONENT,
    check_enough_rows,
    check_method,
    check_number,
    check_number_or,
    check_whole,
    check_whole_or,
)

# The part of epsilon that clipping may cost: small against the half for truncation. Less of it
# makes the clip larger, and with it the number of proposals per draw.
CLIP_LOSS = 0.02
FAR = 0.05  # total variation distance that is reported: the default of epsilon
NEGATIVE = 0.01  # proportion of rows with a negative expansion, from which it is reported
# notes that a density differs from the rows
FAR_CODES = frozenset({"density_far_from_rows", "regression_density_far_from_rows"})
PROPOSALS = 1_000_000  # of the rejection sampler, for a picture: a second or two
FEWEST_DRAWN = 200  # for a picture: bars of a histogram of fewer rows are mostly chance


@dataclass(frozen=True, eq=False)
class RatioModel:
    """Estimate of F/G from rows, for all degrees."""

    reference: Any  # G, and the coordinates that F/G depends on
    bound: Any  # of the total variation error of truncation, by degree
    expand: Callable[[int], Expansion]  # ``expand(degree)`` estimates the expansion
    stats: dict[str, Any] = field(default_factory=dict)  # measurements of the rows


class ExpandedDensity(
    DensityDescription, FittedEstimator, DensityScores, DensityMixin, BaseEstimator
):
    """A density that is a clipped polynomial times a Gaussian.

    Theorems 4.16 and 4.22 differ in the Gaussian and in the moments, not in what follows.
    """

    fewest_rows = 2
    answers: ClassVar[Mapping[str, str]] = {"densities": "score_samples", "samples": "sample"}
    captions: ClassVar[Mapping[str, str]] = {
        "fit": "Log densities of the rows, and of rows drawn from the model. If the model is "
        "right, both have the same distribution.",
    }

    n_components: int
    degree: int | str
    epsilon: float
    max_degree: int
    clip: float | str
    floor: float
    method: str
    n_draws: int | None
    max_proposals: int
    drop_outliers: bool
    random_state: RandomState
    hypothesis_: Any

    @abstractmethod
    def _least_rows(self, d: int) -> int:
        """Return how many rows of d features there must be."""

    def _look_at_rows(self, rows: Rows) -> Notes:  # noqa: ARG002
        """Return notes on rows as they were given."""
        return Notes()

    @abstractmethod
    def _learn(self, rows: Rows, seed: int, dropped: float) -> RatioModel:
        """Find G and what all degrees share; a proportion ``dropped`` of rows was left out."""

    @abstractmethod
    def _learn_part(self, model: RatioModel, seed: int, rows: Rows) -> RatioModel:
        """Learn the same from some of the rows, but for the truncation bound."""

    @abstractmethod
    def _store(self, model: RatioModel, density: ClippedDensity, like: Array) -> Notes:
        """Set the attributes of the fitted model, and return its notes."""

    def _fit(self, every: Rows, seed: int) -> None:
        """Fit the density: the steps of the proofs of Theorems 4.16 and 4.22."""
        notes = self._look_at_rows(every)
        # Outliers would dominate high-order moments.
        how: dict[str, Any] = {"labelled": self.labelled, "drop": self.drop_outliers}
        how["least_share"] = SMALLEST_COMPONENT
        near = leave_out_outliers(every, self.n_components, seed=seed, **how)
        rows, self._near = near.rows, near.rule
        if not self.labelled:
            rows = rows.without(find_constants(rows))
        self._constants = rows.constants
        notes += constant_notes(self, rows.constants)
        least = self._least_rows(rows.n_features)
        given = near.n_rows + near.n_outliers
        check_enough_rows(given, self.n_components, least)
        # 1. The Gaussian G, and the coordinates that F/G depends on.
        model = self._learn(rows, seed, near.n_outliers / given)
        # 2. The degree.
        degree, compared = self._choose_degree(rows, model, seed)
        # 3. F/G by its Hermite expansion.
        expansion = model.expand(degree)
        # 4. Clip it, multiply it by G, and normalise.
        clip = None if isinstance(self.clip, str) else self.clip
        how = {"floor": self.floor, "loss": CLIP_LOSS * self.epsilon}
        density, measured = clip_expansion(
            expansion, model.reference, rows, clip=clip, seed=seed, **how
        )
        self.degree_, self.clip_, self.normalizer_ = expansion.degree, density.clip, density.mass
        self.acceptance_rate_ = density.mass / density.clip
        self.stats_ = {
            "method": self.method,
            "rows_used": near.n_rows,
            "outliers": near.n_outliers,
            "scores": compared.scores,
            "still_rising": compared.rising,
            "last_rise": compared.rise,
            "last_step": compared.step,
            "degree": expansion.degree,
            "rows_counted": near.n_rows * measured.pop("evenness"),
            **measured,
            **model.stats,
        }
        if near.n_rows < ROWS_PER_COMPONENT * self.n_components:
            values = {"n": near.n_rows, "k": self.n_components}
            notes.append(Note("few_rows_per_component", values))
        if near.n_outliers:
            notes.append(Note("outliers_dropped", {"n": near.n_outliers}))
        self.stats_ |= self._bound_distance(model, density, rows, seed)
        self.notes_ = Notes([*notes, *self._store(model, density, rows.like)])

    def _choose_degree(self, rows: Rows, model: RatioModel, seed: int) -> tuple[int, DegreeScores]:
        if not isinstance(self.degree, str):
            return int(self.degree), NOT_COMPARED
        enough = least_degree(model.bound, self.epsilon, self.max_degree) or self.max_degree
        if self.degree == "auto" or self.n_components == 1:
            # without a bound higher orders may diverge
            bounded = math.isfinite(model.bound(enough))
            return enough if bounded else 2, NOT_COMPARED
        degrees = list(range(2, min(enough + 2, self.max_degree) + 1, 2))
        fewest = self._least_rows(rows.n_features) + 1
        fit = partial(self._fit_fold, model, seed)
        compared = compare_degrees(fit, rows, degrees, fewest=fewest, highest=self.max_degree)
        return compared.best, compared

    def _fit_fold(
        self, model: RatioModel, seed: int, kept: Rows
    ) -> Callable[[int], ClippedDensity]:
        """Learn from the rows of a fold; return densities by degree."""
        return partial(self._trial, kept, self._learn_part(model, seed, kept), seed)

    def _bound_distance(
        self, model: RatioModel, density: ClippedDensity, rows: Rows, seed: int
    ) -> dict[str, float]:
        """Bound the sampling error, and with it the distance of the density from the truth."""

        def fit(group: Rows) -> ClippedDensity:
            again = self._learn_part(model, seed, group)
            expansion = again.expand(density.expansion.degree)
            return replace(density, span=again.reference, expansion=expansion)

        fewest = self._least_rows(rows.n_features)
        sampling = bound_sampling_error(fit, density, rows, fewest=fewest, seed=seed)
        truncation = model.bound(density.expansion.degree)
        total = truncation + sampling + self.stats_["clip_error"]
        bounds = {"truncation_error": truncation, "sampling_error": sampling}
        return bounds | {"distance_bound": min(total, 1.0)}

    def _trial(self, rows: Rows, model: RatioModel, seed: int, degree: int) -> ClippedDensity:
        """Return the density of a degree, normalised roughly, to be compared with others."""
        how: dict[str, Any] = {"floor": LEAST_RATIO, "loss": CLIP_LOSS * self.epsilon}
        expansion = model.expand(degree)
        return clip_expansion(expansion, model.reference, rows, seed=seed, rough=True, **how)[0]

    def _check_expansion(self, methods: tuple[str, ...], highest_degree: int) -> None:
        """Check the parameters of the expansion."""
        super()._check_parameters()
        check_whole("n_components", self.n_components, 1)
        check_whole_or("degree", self.degree, ("auto", "cv"), 1, highest_degree)
        check_number("epsilon", self.epsilon, 1e-6, 1.0)
        check_whole("max_degree", self.max_degree, 2, highest_degree)
        check_number_or("clip", self.clip, ("auto",), 1.0)
        check_number("floor", self.floor, 0.0, 0.5)
        check_method(self.method, methods)
        if self.n_draws is not None:
            check_whole("n_draws", self.n_draws, 1)

    def _differs(self) -> bool:
        """Return whether the density clearly differs from the rows."""
        stats = self.stats_
        chance = KOLMOGOROV_CHANCE / math.sqrt(stats["rows_counted"])
        return bool(stats["negative_rows"] > NEGATIVE or stats["distance"] > FAR + chance)

    def _degree_notes(self) -> Notes:
        """Note that the highest degree allowed is clearly better than the one before."""
        stats, highest = self.stats_, max(self.stats_["scores"], default=0)
        step = stats["last_step"]
        if not stats["still_rising"] or highest + 2 <= self.max_degree or step <= FAR:
            return Notes()
        values = {"degree": highest, "before": highest - 2, "step": step}
        return Notes([Note("degree_still_rising", {**values, "max_degree": self.max_degree})])

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
        seed, n = self._seed(random_state), check_whole("n_samples", n_samples, 1)
        cap = check_whole("max_proposals", self.max_proposals, 1)
        density, like = self._sampled()
        points, proposals = density.sample(n, seed=seed, max_proposals=cap)
        self.stats_["proposals"], self.stats_["acceptance_rate"] = proposals, n / proposals
        drawn = move_like(restore_columns(points, self._constant_values), like)
        return (drawn[:, :-1], drawn[:, -1]) if self.labelled else drawn

    @abstractmethod
    def _sampled(self) -> tuple[ClippedDensity, Array]:
        """Return the density of rows, labels last, and an array of the library of the rows."""

    def _evidence(self) -> list[Fact]:
        if self.n_components == 1:  # a Gaussian, whatever the rows are
            return []
        return self._distance_facts() + self._degree_facts()

    def _distance_facts(self) -> list[Fact]:
        stats = self.stats_
        n = min(stats.get("rows_counted", stats.get("rows_used", 1)), RATED)
        distance, chance = stats["distance"], KOLMOGOROV_CHANCE / math.sqrt(max(n, 1))
        values = {"distance": distance, "chance": chance, "epsilon": self.epsilon}
        if distance <= chance:
            return [Fact(True, Note("density_agrees", values))]
        if distance <= self.epsilon:
            return [Fact(True, Note("density_within_epsilon", values))]
        if not FAR_CODES.isdisjoint(self._codes()):
            return []
        return [Fact(False, Note("density_differs", values))]

    def _degree_facts(self) -> list[Fact]:
        bound = self.stats_.get("truncation_error", math.inf)
        values = {"degree": self.degree_, "bound": bound}
        if bound <= self.epsilon / 2:
            return [Fact(True, Note("truncation_small", values))]
        tried = self.stats_.get("scores") or {0: 0.0}
        at_limit = self.degree_ == max(tried) == self.max_degree
        if at_limit and (FAR_CODES | {"degree_still_rising"}).isdisjoint(self._codes()):
            return [Fact(False, Note("degree_at_limit", values))]
        return []

    def _fit_view(self, rows: RowSample) -> FitView:
        rate = self.acceptance_rate_
        if rate * self.max_proposals < 2 * FEWEST_DRAWN:
            raise NoPictureError(
                "no_rows_drawn",
                "no rows can be drawn from this {name}: its sampler accepts {rate:.2g} of its "
                "proposals; use implicitmoments.plot.components",
                name=type(self).__name__,
                rate=rate,
            )
        sample = self.sample(max(min(len(rows.x), int(rate * PROPOSALS)), FEWEST_DRAWN))
        pairs = ((rows.given, rows.y), sample) if self.labelled else ((rows.given,), (sample,))
        logs, drawn = (as_floats(self.score_samples(*each)) for each in pairs)
        return Distribution("Log densities of rows", DENSITY_AXIS, logs, drawn, logs=True)
