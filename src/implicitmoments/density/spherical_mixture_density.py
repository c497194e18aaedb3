"""Density estimation for spherical mixtures whose means are not far apart (Theorem 4.16)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sklearn.utils.validation import check_is_fitted

from implicitmoments.arrays import Array, move_like
from implicitmoments.density.base import ExpandedDensity
from implicitmoments.density.clipped_density import ClippedDensity
from implicitmoments.density.mixture_fit import DensityOptions, fit_density
from implicitmoments.density.summary import SphericalDensitySummary
from implicitmoments.mixture.mean_span import SphericalSpan
from implicitmoments.rows import Progress, RandomState
from implicitmoments.rows.answers import answer, mean_answer
from implicitmoments.rows.inputs import Checkpoint, open_rows, probe_of
from implicitmoments.validation import check_variance

__all__ = ["SphericalMixtureDensity"]

HIGHEST_DEGREE = 40
METHODS = ("closed_form", "paper")


class SphericalMixtureDensity(SphericalDensitySummary, ExpandedDensity):
    r"""The density of a spherical Gaussian mixture, without its parameters.

    For :math:`F = \sum_i w_i N(\mu_i, \sigma^2 I)` with means within a few
    :math:`\sigma\sqrt{\log k}` of their centre, also where they are too close to be told apart.
    Theorem 4.16: with G the Gaussian :math:`N(c, \sigma^2 I)` at the mean c of the rows, F/G is
    estimated by its Hermite expansion up to a degree, in compressed form; clipped to
    ``[floor, clip]``, multiplied by G and normalised, it is the density. No likelihood is climbed
    and nothing depends on a start.

    Parameters
    ----------
    n_components : int, default 2
        The number k of components, or a bound on it.
    variance : float, optional
        The common variance :math:`\sigma^2`. By default the mean of the smallest eigenvalues of
        the covariance, which takes ``n_components <= n_features``.
    degree : int, "cv" or "auto", default "cv"
        Orders that are kept. ``"auto"``: as many as the tail bound of the theorem asks for at
        ``epsilon`` and the measured radius of the means, whether or not the rows can tell them.
        ``"cv"``: the even degree with the largest likelihood of rows left out, in three folds, by
        the closed form, among those up to two above that and higher ones while the likelihood
        rises by more than its standard error.
    epsilon : float, default 0.05
        The total variation distance that is aimed at: half of it for truncation. It also sets
        what clipping may cost, 0.02 of it.
    max_degree : int, default 12
        The highest degree that ``"auto"`` and ``"cv"`` choose.
    clip : float or "auto", default "auto"
        The bound A of the ratio to G; proposals of the sampler are accepted with probability 1/A.
        ``"auto"``: the least that costs no more than ``epsilon`` allows.
    floor : float, default 1e-6
        The least ratio to G. The paper has 0, with which ``score_samples`` is −inf where the
        polynomial is negative.
    method : {"closed_form", "paper"}, default "closed_form"
        ``"paper"`` estimates every order by algorithm Implicit-Moment-Estimation and evaluates it
        with auxiliary draws: for comparison, it takes far more rows.
    n_draws : int, default 100
        Auxiliary draws of ``method="paper"`` at each point.
    max_proposals : int, default 20_000_000
        The most proposals that ``sample`` makes before it gives up.
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
        The chance that a proposal of ``sample`` is accepted, ``normalizer_ / clip_``.
    hypothesis_ : ClippedDensity
    stats_ : dict
        ``radius``, the root mean square norm of the means in units of :math:`\sigma`;
        ``truncation_error``, the bound at the degree used; ``normalizer_error``, a standard error;
        ``distance``, a lower bound on the total variation distance from the rows, up to chance;
        ``negative_rows``, the part of the rows at which the expansion is negative; ``outliers``
        left out; ``scores`` of degrees that were compared, and ``still_rising``, whether the
        highest of them was clearly better than the one before, by ``last_rise``;
        ``notes``; and after ``sample``
        ``proposals`` and ``acceptance_rate`` of the last call.
    n_features_in_ : int
    feature_names_in_ : array of str of shape (n_features,)
        Where the columns of the rows have names.

    Notes
    -----
    Rows are passed over, never held: 2 + degree/2 times, and more often to compare degrees. The
    clip, ``negative_rows`` and ``distance`` are measured at no more than 262,144 of them.

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

    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002 (scikit-learn passes it)
        sample_weight: Any = None,
        *,
        checkpoint: Checkpoint = None,
        progress: Progress | None = None,
    ) -> SphericalMixtureDensity:
        """Estimate the density.

        Parameters
        ----------
        X : array (n_samples, n_features), data frame, path, iterator of blocks, Dask or Source
        y : None
            Ignored; for pipelines.
        sample_weight : array of shape (n_samples,), optional
            How often each row counts; 0 leaves it out. Weights above 0 with a mean below 1 are
            scaled to a mean of 1.
        checkpoint : path, optional
            Where a long fit keeps what it has done, to go on from there.
        progress : callable, optional
            Called as ``progress(what, rows_done, rows_total)``.
        """
        how = self._options()
        with open_rows(
            self, X, None, sample_weight, fewest=2, checkpoint=checkpoint, progress=progress
        ) as (source, seed):
            how = replace(how, seed=seed)
            hypothesis, stats = fit_density(source, how)
            self.center_ = move_like(hypothesis.span.center, probe_of(source))
        self.hypothesis_: ClippedDensity[SphericalSpan] = hypothesis
        self.variance_ = hypothesis.span.variance
        self._keep(hypothesis, hypothesis.expansion.degree, stats)
        return self

    def score_samples(self, X: Any) -> Array:
        """Return the logarithm of the density at each row, in the library of the rows."""
        check_is_fitted(self)
        return answer(self, X, self.hypothesis_.log_density)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:  # noqa: ARG002
        """Return the mean logarithm of the density over rows, weighted where weights are given."""
        check_is_fitted(self)
        return mean_answer(self, X, self.hypothesis_.log_density, None, sample_weight)

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> Array:
        """Draw rows from the density by rejection.

        Parameters
        ----------
        n_samples : int
        random_state : int, generator or None
            That of the estimator by default.

        Returns
        -------
        array of shape (n_samples, n_features)
            In the library of the rows of the fit.
        """
        check_is_fitted(self)
        return move_like(self._draw(self.hypothesis_, n_samples, random_state), self.center_)

    def _options(self) -> DensityOptions:
        """Check the parameters."""
        expansion = self._expansion(METHODS, HIGHEST_DEGREE)
        return DensityOptions(variance=check_variance(self.variance), **expansion)
