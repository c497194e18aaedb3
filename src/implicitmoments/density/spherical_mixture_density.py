"""Density estimation for spherical mixtures with bounded means (Theorem 4.16)."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from sklearn.utils.validation import check_is_fitted

from implicitmoments.arrays import Array, move_like
from implicitmoments.density.clipped_density import ClippedDensity
from implicitmoments.density.degree import mixture_tail
from implicitmoments.density.expanded_density import ExpandedDensity, RatioModel
from implicitmoments.density.hermite_expansion import expand
from implicitmoments.density.summary import SphericalDensitySummary
from implicitmoments.mixture.mean_span import SphericalSpan, find_span, smallest_variance
from implicitmoments.moments.subspace import second_moment_floor, span_stats
from implicitmoments.notes import Note, Notes
from implicitmoments.rows import RandomState, Rows
from implicitmoments.rows.answers import answer, mean_answer
from implicitmoments.validation import check_variance

HIGHEST_DEGREE = 40  # limit of `degree` (starting value)
METHODS = ("closed_form", "paper")


class SphericalMixtureDensity(SphericalDensitySummary, ExpandedDensity):
    r"""The density of a spherical Gaussian mixture, without its parameters.

    For :math:`F = \sum_i w_i N(\mu_i, \sigma^2 I)` with means within a few
    :math:`\sigma\sqrt{\log k}` of their centre, even if they are too close to be identified.
    Theorem 4.16: with G the Gaussian :math:`N(c, \sigma^2 I)` at the mean c of the rows, F/G is
    estimated by its Hermite expansion up to a degree, in compressed form; clipped to
    ``[floor, clip]``, multiplied by G and normalised, it is the density. No likelihood is
    maximised, and nothing depends on an initialisation.

    Parameters
    ----------
    n_components : int, default 2
        The number k of components, or a bound on it.
    variance : float, optional
        The common variance :math:`\sigma^2`. By default the mean of the smallest eigenvalues of
        the covariance, which requires ``n_components <= n_features``.
    degree : int, "cv" or "auto", default "cv"
        Highest order of the expansion. ``"auto"``: what the tail bound of the theorem requires for
        ``epsilon`` and the measured radius of the means, whether or not there are enough rows.
        ``"cv"``: the even degree with the highest held-out likelihood in three folds, by the
        closed form, among those up to two above that, and higher ones while the likelihood
        increases by more than its standard error.
    epsilon : float, default 0.05
        The total variation distance aimed at: half of it for truncation, 0.02 of it for clipping.
    max_degree : int, default 12
        The highest degree for ``"auto"`` and ``"cv"``.
    clip : float or "auto", default "auto"
        The bound A of the ratio to G; proposals of the sampler are accepted with probability 1/A.
        ``"auto"``: the smallest that costs no more than ``epsilon`` allows.
    floor : float, default 1e-6
        The smallest ratio to G. The paper has 0, for which ``score_samples`` is −inf where the
        polynomial is negative.
    method : {"closed_form", "paper"}, default "closed_form"
        ``"paper"`` estimates every order by algorithm Implicit-Moment-Estimation and evaluates it
        with auxiliary draws: for comparison, it needs far more rows.
    n_draws : int, default 100
        Auxiliary draws of ``method="paper"`` at each point.
    max_proposals : int, default 20_000_000
        The largest number of proposals of ``sample``, after which it raises an error.
    random_state : int, generator or None, default None

    Attributes
    ----------
    center_ : array of shape (n_features,)
    variance_ : float
    degree_ : int
    clip_ : float
    normalizer_ : float
        The integral of the clipped ratio times G.
    acceptance_rate_ : float
        The probability that a proposal of ``sample`` is accepted, ``normalizer_ / clip_``.
    hypothesis_ : ClippedDensity
    notes_ : Notes
        Findings that may make the density wrong.
    stats_ : dict
        ``radius``, the root mean square norm of the means in units of :math:`\sigma`;
        ``truncation_error``, the bound at the degree used; ``normalizer_error``, a standard error;
        ``distance``, a lower bound of the total variation distance from the rows, up to chance;
        ``negative_rows``, the proportion of the rows at which the expansion is negative;
        ``outliers`` left out; ``scores`` of the degrees compared, and ``still_rising``, whether
        the highest of them was clearly better than the one before, by ``last_rise``; and after
        ``sample`` the ``proposals`` and ``acceptance_rate`` of the last call.
    n_features_in_ : int
    feature_names_in_ : array of str of shape (n_features,)
        Where the columns of the rows have names.

    Notes
    -----
    Rows are read in 2 + degree/2 passes and never held; comparing degrees takes more. The clip,
    ``negative_rows`` and ``distance`` are measured at no more than 262,144 of them.

    Examples
    --------
    >>> from implicitmoments import SphericalMixtureDensity
    >>> from implicitmoments.datasets import make_spherical_mixture
    >>> X, _ = make_spherical_mixture(20_000, 3, 5, radius=1.2, random_state=0)
    >>> model = SphericalMixtureDensity(n_components=3, random_state=0).fit(X)
    >>> model.score_samples(X[:10]).shape
    (10,)
    >>> model.sample(100).shape
    (100, 5)
    """

    def __init__(  # noqa: PLR0913 (keyword-only, each documented)
        self,
        n_components: int = 2,
        *,
        variance: float | None = None,
        degree: int | str = "cv",
        epsilon: float = 0.05,
        max_degree: int = 12,
        clip: float | str = "auto",
        floor: float = 1e-6,
        method: str = "closed_form",
        n_draws: int = 100,
        max_proposals: int = 20_000_000,
        random_state: RandomState = None,
    ) -> None:
        self.n_components = n_components
        self.variance = variance
        self.degree = degree
        self.epsilon = epsilon
        self.max_degree = max_degree
        self.clip = clip
        self.floor = floor
        self.method = method
        self.n_draws = n_draws
        self.max_proposals = max_proposals
        self.random_state = random_state

    def _check_parameters(self) -> None:
        self._check_expansion(METHODS, HIGHEST_DEGREE)
        check_variance(self.variance)

    def _least_rows(self, d: int) -> int:  # noqa: ARG002
        return max(2, self.n_components)

    def _learn(self, rows: Rows, seed: int, *, final: bool) -> RatioModel:
        """Reduce to the span of the means, about the Gaussian at the mean of the rows."""
        k = self.n_components
        span = find_span(rows, k, check_variance(self.variance))
        how: dict[str, Any] = {"n_draws": self.n_draws, "seed": seed}
        expansion = partial(expand, rows, span, k, method=self.method if final else METHODS[0])
        return RatioModel(
            span, partial(mixture_tail, span.squared_radius), partial(expansion, **how)
        )

    def _store(
        self, model: RatioModel, density: ClippedDensity[SphericalSpan], probe: Array
    ) -> Notes:
        span, stats = density.span, self.stats_
        self.hypothesis_, self.variance_ = density, span.variance
        self.center_ = move_like(span.center, probe)
        stats["radius"] = math.sqrt(span.squared_radius)
        stats["truncation_error"] = model.bound(self.degree_)
        floor = second_moment_floor(len(span.spectrum), stats["rows_used"])
        stats |= span_stats(span.spectrum - 1, span.p, floor)
        notes = Notes()
        flat = smallest_variance(span, round(stats["rows_counted"]))
        if flat is not None:
            notes.append(Note("flat_direction", {"ratio": flat, "variance": span.variance}))
        if not self._differs():
            return Notes([*notes, *self._degree_notes()])
        names = ("distance", "negative_rows", "degree", "radius")
        usual = math.sqrt(math.log(max(self.n_components, 2)))
        values = {name: stats[name] for name in names}
        notes.append(Note("density_far_from_rows", {**values, "usual": usual}))
        return notes

    def score_samples(self, X: Any) -> Any:
        """Return the logarithm of the density at each row.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), data frame, path, Dask or Source

        Returns
        -------
        array of shape (n_samples,)
            In the library of the rows.
        """
        check_is_fitted(self)
        return answer(self, X, self.hypothesis_.log_density)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:  # noqa: ARG002
        """Return the mean logarithm of the density over rows.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), data frame, path, Dask or Source
        y : None
            Ignored; for pipelines.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        float
        """
        check_is_fitted(self)
        return mean_answer(self, X, self.hypothesis_.log_density, None, sample_weight)

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> Any:
        """Draw rows from the density by rejection.

        Parameters
        ----------
        n_samples : int
        random_state : int, generator or None
            By default that of the estimator.

        Returns
        -------
        array of shape (n_samples, n_features)
            In the library of the rows of the fit.
        """
        check_is_fitted(self)
        return move_like(self._draw(self.hypothesis_, n_samples, random_state), self.center_)
