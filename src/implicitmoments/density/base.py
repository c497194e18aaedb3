"""What both densities share: options of the expansion, what is kept of it, and draws from it."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from implicitmoments.arrays import Floats
from implicitmoments.density.clipped_density import ClippedDensity
from implicitmoments.density.summary import DensitySummary
from implicitmoments.notes import tell
from implicitmoments.rows import RandomState, as_seed
from implicitmoments.validation import check_method, check_number, check_whole

__all__ = ["ExpandedDensity"]


class ExpandedDensity(DensitySummary, DensityMixin, BaseEstimator):
    """A density that is a clipped polynomial times a Gaussian.

    Theorems 4.16 and 4.22 differ in the Gaussian and in the moments, not in what follows.
    """

    n_components: int
    degree: int | str
    epsilon: float
    max_degree: int
    clip: float | str
    floor: float
    method: str
    n_draws: int
    max_proposals: int
    random_state: RandomState

    def _expansion(self, methods: tuple[str, ...], highest_degree: int) -> dict[str, Any]:
        """Check the parameters that say how F/G is expanded and clipped."""
        degree = self.degree
        if isinstance(degree, str):
            if degree not in ("auto", "cv"):
                raise ValueError(f"degree is a whole number, 'auto' or 'cv', got {degree!r}")
        else:
            degree = check_whole("degree", degree, 1, highest_degree)
        if isinstance(self.clip, str) and self.clip != "auto":
            raise ValueError(f"clip is a number or 'auto', got {self.clip!r}")
        return {
            "k": check_whole("n_components", self.n_components, 1),
            "degree": degree,
            "epsilon": check_number("epsilon", self.epsilon, 1e-6, 1.0),
            "max_degree": check_whole("max_degree", self.max_degree, 2, highest_degree),
            "clip": None if isinstance(self.clip, str) else check_number("clip", self.clip, 1.0),
            "floor": check_number("floor", self.floor, 0.0, 0.5),
            "method": check_method(self.method, methods),
            "n_draws": check_whole("n_draws", self.n_draws, 1),
        }

    def _keep(self, density: ClippedDensity[Any], degree: int, stats: dict[str, Any]) -> None:
        """Store what a fit found, and say what it has to say to the caller of ``fit``."""
        self.degree_ = degree
        self.clip_, self.normalizer_ = density.clip, density.mass
        self.acceptance_rate_ = density.mass / density.clip
        self.stats_ = stats
        tell(stats["notes"], stacklevel=4)

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
        """Return a seed for draws: the estimator's own by default."""
        check_is_fitted(self)
        return as_seed(self.random_state if random_state is None else random_state)
