"""Base of both density estimators: the steps of a fit, the choice of the degree, and sampling."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin

from implicitmoments.arrays import Array, Floats, move_like
from implicitmoments.density.clipped_density import (
    RATED,
    ClippedDensity,
    Reference,
    clip_expansion,
    held_out_logs,
    least_degree,
)
from implicitmoments.density.expansion import Expansion
from implicitmoments.estimator import (
    Check,
    FittedEstimator,
    Table,
    as_floats,
    column_names,
    constant_notes,
    outlier_notes,
)
from implicitmoments.evaluation import DensityScores
from implicitmoments.notes import InputError, Note, Notes
from implicitmoments.picture_data import (
    DENSITY_AXIS,
    Distribution,
    FitView,
    NoPictureError,
    RowSample,
)
from implicitmoments.rows import (
    KOLMOGOROV_CHANCE,
    SMALLEST_COMPONENT,
    Near,
    Rows,
    find_constants,
    leave_out_outliers,
    mean_and_covariance,
    restore_columns,
)
from implicitmoments.validation import (
    ROWS_PER_COMPONENT,
    RandomState,
    check_enough_rows,
    check_number,
    check_number_or,
    check_whole,
    check_whole_or,
)

FAR = "density_far_from_rows"


@dataclass(frozen=True, eq=False)
class RatioModel:
    """Estimate of F/G from rows, for all degrees and settings.

    A setting is the scale of G for regressions, and the part of the degree to which moments are
    estimated for means.
    """

    # ``at(degree, setting)`` estimates the expansion; returns it with G
    at: Callable[[int, float], tuple[Expansion, Reference]]
    stats: dict[str, Any] = field(default_factory=dict)  # measurements of the rows
    notes: tuple[Note, ...] = ()


Fold: TypeAlias = tuple[RatioModel, Rows]  # an estimate, and the rows at which it is judged


@dataclass(eq=False, repr=False)  # scikit-learn compares and prints estimators
class ExpandedDensity(FittedEstimator, DensityScores, DensityMixin, BaseEstimator):
    """A density that is a clipped polynomial times a Gaussian.

    Theorems 4.16 and 4.22 differ in the Gaussian and in the moments, not in what follows.
    """

    fewest_rows = 2
    saved: ClassVar[Mapping[str, Any]] = {
        "degree_": int,
        "clip_": float,
        "normalizer_": float,
        "acceptance_rate_": float,
        "_near": Near | None,
        "_constants": np.ndarray | None,
    }
    answers: ClassVar[Mapping[str, str]] = {"densities": "score_samples", "samples": "sample"}
    captions: ClassVar[Mapping[str, str]] = {
        "fit": "Log densities of the rows, and of rows drawn from the model. If the model is "
        "right, both have the same distribution.",
    }

    n_components: int = 2
    _: KW_ONLY
    degree: int | str = "auto"
    epsilon: float = 0.05
    max_degree: int = 24
    clip: float | str = "auto"
    max_proposals: int = 20_000_000
    drop_outliers: bool = True
    random_state: RandomState = None
    rows_per_block: int | None = None

    @abstractmethod
    def _least_rows(self, d: int) -> int:
        """Return how many rows of d features there must be."""

    @abstractmethod
    def _learn(self, rows: Rows) -> RatioModel:
        """Find G and what all degrees share."""

    @abstractmethod
    def _store(self, density: ClippedDensity, like: Array) -> None:
        """Set the other attributes of the fitted model."""

    def _fit(self, every: Rows, seed: int) -> None:
        """Fit the density: the steps of the proofs of Theorems 4.16 and 4.22."""
        # Outliers would dominate high-order moments.
        k, how = self.n_components, {"labelled": self.labelled, "drop": self.drop_outliers}
        near = leave_out_outliers(every, k, least_share=SMALLEST_COMPONENT, **how)
        # Folds on a grid, so that what is chosen does not depend on the units of the columns.
        rows = near.rows.keyed_on(mean_and_covariance(near.rows))
        self._near = near.rule
        if not self.labelled:
            rows = replace(rows, constants=find_constants(rows))
        self._constants = rows.constants
        notes = constant_notes(self, rows.constants)
        check_enough_rows(near.rows.kept + near.n_outliers, k, self._least_rows(rows.n_features))
        # 1. The Gaussian G, and the coordinates that F/G depends on.
        model = self._learn(rows)
        # 2. The degree, and the setting.
        degree, setting, scores = self._choose(rows, seed)
        # 3. F/G by its Hermite expansion.
        expansion, reference = model.at(self._top_degree(), setting)
        if isinstance(self.degree, str) and expansion.degree:
            best = replace(expansion, degree=degree)
            expansion = replace(best, degree=least_degree(best, reference, self._loss, seed))
        # 4. Clip it, multiply it by G, and normalise.
        clip = None if isinstance(self.clip, str) else self.clip
        density, measured = clip_expansion(
            expansion, reference, rows, loss=self._loss, clip=clip, seed=seed
        )
        self.degree_, self.clip_, self.normalizer_ = expansion.degree, density.clip, density.mass
        self.acceptance_rate_ = density.mass / density.clip
        self.stats_ = {
            "rows_used": near.rows.kept,
            "outliers": near.n_outliers,
            "scores": scores,
            "rows_counted": near.rows.kept * measured.pop("evenness"),
            **measured,
            **model.stats,
        }
        if near.rows.kept < ROWS_PER_COMPONENT * k:
            notes.append(Note("few_rows", {"n": near.rows.kept, "k": k}))
        notes += outlier_notes(near.n_outliers)
        self._store(density, rows.like)
        self.notes_ = Notes([*notes, *model.notes, *self._far_notes()])

    def _top_degree(self) -> int:
        """Return the highest degree that is compared."""
        return self.max_degree if isinstance(self.degree, str) else int(self.degree)

    @abstractmethod
    def _settings(self) -> tuple[float, ...]:
        """Return the settings that are compared, in increasing order; the search starts at 1."""

    def _choose(self, rows: Rows, seed: int) -> tuple[int, float, dict[int, float]]:
        """Choose the degree and the setting by held-out likelihood; return it by degree too.

        All degrees of a setting come from one expansion. Settings two steps away are tried while
        the likelihood rises clearly, and then those one step away.
        """
        top, settings = self._top_degree(), self._settings()
        degrees = list(range(2, top + 1, 2)) if isinstance(self.degree, str) else [top]
        i = settings.index(1.0) if len(settings) > 1 else 0
        choices = len(degrees) * len(settings) if self.n_components > 1 else 1
        folds = self._folds(rows, seed) if choices > 1 else []
        if not folds:
            return degrees[0], settings[i], {}

        @cache
        def held_out(i: int) -> tuple[dict[int, float], Floats, Floats]:
            return self._held_out(folds, degrees, settings[i], seed)

        def better(i: int, other: int) -> bool:
            """Whether the likelihood rises, by more than the standard error of the difference."""
            (_, logs, counts), (_, others, _) = held_out(i), held_out(other)
            rise = float(np.average(others - logs, weights=counts))
            spread = float(np.average((others - logs - rise) ** 2, weights=counts))
            return rise > math.sqrt(spread / float(np.sum(counts)))

        for step in (2, -2, 1, -1):
            while 0 <= i + step < len(settings) and better(i, i + step):
                i += step
        scores = held_out(i)[0]
        return max(scores, key=scores.__getitem__), settings[i], scores

    def _folds(self, rows: Rows, seed: int, n_folds: int = 3) -> list[Fold]:
        """Learn from all rows but a third; return the estimate with the rows held out.

        At most 2**15 of a fold, until 2**16 rows were held out: mean log-likelihoods that differ
        by what a distance of 0.01 costs are then told apart. Folds depend on the content of rows,
        so equal rows are held out together. Degenerate ones are left out.
        """
        folds: list[Fold] = []
        for i in range(n_folds):
            kept, held = rows.split(i, n_folds, out=True), rows.split(i, n_folds)
            if not held.kept or kept.kept <= self._least_rows(rows.n_features):
                continue
            try:
                part = self._learn(kept.hold() if kept.small else kept)
            except InputError:
                continue
            folds.append((part, held.sample(2**15, seed)))
            if sum(rest.kept for _, rest in folds) >= 2**16:
                break
        return folds

    def _held_out(
        self, folds: list[Fold], degrees: list[int], setting: float, seed: int
    ) -> tuple[dict[int, float], Floats, Floats]:
        """Return the mean held-out log-likelihood of all folds at a setting, by degree.

        Also returned: log densities at the best degree, and the weights of their rows.
        """
        parts = [
            held_out_logs(*model.at(self._top_degree(), setting), held, loss=self._loss, seed=seed)
            for model, held in folds
        ]
        top = min(len(logs) for logs, _ in parts)
        logs = np.concatenate([part[:top] for part, _ in parts], axis=1)
        counts = np.concatenate([part for _, part in parts])
        means = logs @ counts / np.sum(counts)
        scores = {n: float(means[n]) for n in degrees if n < top}
        return scores, logs[max(scores, key=scores.__getitem__)], counts

    def _check_expansion(self, highest_degree: int) -> None:
        """Check the parameters of the expansion."""
        super()._check_parameters()
        check_whole("n_components", self.n_components, 1)
        check_whole_or("degree", self.degree, ("auto",), 1, highest_degree)
        check_number("epsilon", self.epsilon, 1e-6, 1.0)
        check_whole("max_degree", self.max_degree, 2, highest_degree)
        check_number_or("clip", self.clip, ("auto",), 1.0)

    @property
    def _loss(self) -> float:
        """The total variation distance that a lower degree may cost, and that clipping may.

        A smaller part of ``epsilon`` makes the clip larger, and with it the number of proposals.
        """
        return 0.02 * self.epsilon

    @property
    def _chance(self) -> float:
        """The distance from the rows that chance alone explains."""
        stats = self.stats_
        n = min(stats.get("rows_counted", stats.get("rows_used", 1)), RATED)
        return KOLMOGOROV_CHANCE / math.sqrt(max(n, 1))

    def _far_notes(self) -> Notes:
        """Note that the density clearly differs from the rows, by more than epsilon."""
        stats = self.stats_
        far = stats["distance"] > self.epsilon + self._chance
        if not far and stats["negative_rows"] <= 0.01:
            return Notes()
        values = {name: stats[name] for name in ("distance", "negative_rows")}
        return Notes([Note(FAR, values | {"degree": self.degree_})])

    @property
    def _vector(self) -> Any:
        """Slopes of the least-squares line, or the centre of the Gaussian."""
        return getattr(self, "coef_" if self.labelled else "center_")

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
        points, proposals = self.hypothesis_.sample(n, seed=seed, max_proposals=cap)
        self.stats_["proposals"], self.stats_["acceptance_rate"] = proposals, n / proposals
        drawn = move_like(restore_columns(points, self._constant_values), self._vector)
        return (drawn[:, :-1], drawn[:, -1]) if self.labelled else drawn

    def _parameter_tables(self) -> list[Table]:
        what = "slope of" if self.labelled else "centre of"
        vector = dict(zip(column_names(self), as_floats(self._vector).tolist(), strict=True))
        found = {"largest ratio to the Gaussian": self.clip_, "normaliser": self.normalizer_}
        found |= {f"{what} {name}": value for name, value in vector.items()}
        return [Table("Density", ["parameter", "value"], [[*pair] for pair in found.items()])]

    def _checks(self) -> list[Check]:
        # a Gaussian has no degree; a note already says that the density is far from the rows
        if self.n_components == 1 or FAR in self._codes():
            return []
        distance, chance = self.stats_["distance"], self._chance
        words = (
            f"Kolmogorov distance of the density from the data: {distance:.2g} (chance alone "
            f"gives up to {chance:.2g}; epsilon={self.epsilon:g})"
        )
        found = [Check("distance", distance <= max(chance, self.epsilon), words)]
        if self.degree_ == max(self.stats_["scores"], default=0) == self.max_degree:
            words = f"the highest degree compared, {self.degree_}, is best; increase max_degree"
            found.append(Check("degree", False, words))
        return found

    def _fit_view(self, rows: RowSample) -> FitView:
        rate, fewest = self.acceptance_rate_, 200  # bars of a histogram of fewer are mostly chance
        if rate * self.max_proposals < 2 * fewest:
            why = "the sampler of {name} accepts {rate:.2g} of its proposals: use plot.components"
            raise NoPictureError("no_picture", why, name=type(self).__name__, rate=rate)
        # a million proposals take a second or two
        sample = self.sample(max(min(len(rows.x), int(rate * 1_000_000)), fewest))
        pairs = ((rows.given, rows.y), sample) if self.labelled else ((rows.given,), (sample,))
        logs, drawn = (as_floats(self.score_samples(*each)) for each in pairs)
        return Distribution("Log densities of rows", DENSITY_AXIS, logs, drawn)
