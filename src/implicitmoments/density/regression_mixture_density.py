"""Density estimation for mixtures of linear regressions (Theorem 4.22)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sklearn.utils.validation import check_is_fitted

from implicitmoments.arrays import Array, move_like
from implicitmoments.density.base import ExpandedDensity
from implicitmoments.density.regression_fit import (
    RegressionDensity,
    RegressionOptions,
    fit_regression_density,
)
from implicitmoments.density.regression_regime import describe_design
from implicitmoments.density.summary import RegressionDensitySummary
from implicitmoments.rows import Progress, RandomState, RowDraws, Source, Stream
from implicitmoments.rows.answers import answer, mean_answer
from implicitmoments.rows.inputs import Checkpoint, open_rows, probe_of
from implicitmoments.validation import check_flag, check_number, check_whole

__all__ = ["RegressionMixtureDensity"]

HIGHEST_DEGREE = 24
METHODS = ("closed_form", "contracted", "paper")


class RegressionMixtureDensity(RegressionDensitySummary, ExpandedDensity):
    r"""The joint density of (x, y) of a mixture of linear regressions, without its parameters.

    For :math:`y = c_i + \beta_i \cdot x + \nu` with a hidden i, Gaussian x and noise
    :math:`\nu` that is not small beside the spread of the lines. Theorem 4.22: with G a Gaussian
    of independent x and residual of y, F/G is estimated by its Hermite expansion up to a degree,
    in compressed form; clipped to ``[floor, clip]``, multiplied by G and normalised, it is the
    density. No likelihood is climbed and nothing depends on a start.

    Parameters
    ----------
    n_components : int, default 2
        The number k of components, or a bound on it.
    noise : float, optional
        The standard deviation of :math:`\nu`; estimated from the moments by default. It says how
        many orders matter, and enters the expansion of ``"contracted"`` and ``"paper"``.
    fit_intercept : bool, default True
        Whether components have intercepts of their own. If not, all lines meet at the mean of x,
        odd orders are 0 and left out; and with ``whiten=False`` they meet at the origin.
    whiten : bool, default True
        Estimate the mean and covariance of x. If not, x is taken to be from N(0, I).
    label_scale : float, default 1.0
        The standard deviation of G along the residual of y, over that of the rows. Above 1 where
        some lines are much steeper than others: the expansion converges only for components whose
        residual varies less than twice as much as that of G.
    degree : int, "cv" or "auto", default "cv"
        Orders in (x, y) that are kept. ``"auto"``: as many as the tail bound asks for at
        ``epsilon`` and the measured noise, whether or not the rows can tell them. ``"cv"``: the
        even degree with the largest likelihood of rows left out, in three folds, among those up
        to two above that and higher ones while the likelihood rises by more than its standard
        error.
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
    method : {"closed_form", "contracted", "paper"}, default "closed_form"
        ``"closed_form"`` averages the coefficients of F/G over the rows, on subspaces that all of
        them share. ``"contracted"`` estimates moments of the regressors to order ``degree`` by
        the closed form, and contracts them to coefficients by the sum of the proof. ``"paper"``
        does so with algorithm Implicit-Moment-Estimation and auxiliary draws: for comparison. The
        last two take ``fit_intercept=False``.
    n_draws : int, default 100
        Auxiliary draws of ``method="paper"`` at each point.
    max_proposals : int, default 20_000_000
        The most proposals that ``sample`` makes before it gives up.
    random_state : int, generator or None, default None

    Attributes
    ----------
    slope_ : array of shape (n_features,)
        Of the line of least squares, which G is centred at: the mean of the regressors.
    intercept_ : float
    noise_ : float
        The standard deviation of the noise, as given or as estimated. An estimate holds the
        spread of the intercepts too, and is 0 where nothing is left for the noise.
    degree_ : int
    clip_ : float
    normalizer_ : float
        The integral of the clipped ratio times G.
    acceptance_rate_ : float
        The chance that a proposal of ``sample`` is accepted, ``normalizer_ / clip_``.
    hypothesis_ : RegressionDensity
    stats_ : dict
        ``noise_share``, the variance of the noise over that of y about one line;
        ``truncation_error``, the tail bound at the degree used; ``degree_for_epsilon``, the
        degree that the bound asks for, or None above 200, both left out where
        ``intercepts_differ``: the bound is for lines that meet at the mean of x, and takes a
        spread of intercepts for noise; ``normalizer_error``, a standard error;
        ``distance``, a lower bound on the total variation distance from the rows, up to chance;
        ``negative_rows``, the part of the rows at which the expansion is negative; ``outliers``
        left out; ``scores`` of degrees that were compared, and ``still_rising``, whether
        the highest of them was clearly better than the one before, by ``last_rise``;
        ``n_coefficients``; ``notes``; and after ``sample`` ``proposals`` and ``acceptance_rate``
        of the last call.
    n_features_in_ : int
    feature_names_in_ : array of str of shape (n_features,)
        Where the columns of the rows have names.

    Notes
    -----
    Rows are passed over, never held: 9 + degree/4 times, and more often to compare degrees. The
    clip, ``negative_rows`` and ``distance`` are measured at no more than 262,144 of them.

    Examples
    --------
    >>> from implicitmoments import RegressionMixtureDensity
    >>> from implicitmoments.datasets import make_regression_mixture
    >>> X, y, _ = make_regression_mixture(20_000, 3, 5, noise=1.0, random_state=0)
    >>> model = RegressionMixtureDensity(n_components=3, degree=6, random_state=0).fit(X, y)
    >>> model.score_samples(X[:10], y[:10]).shape
    (10,)
    >>> model.sample_y(X[:10], 4).shape
    (10, 4)
    """

    def __init__(  # noqa: PLR0913 (keyword-only, each documented)
        self,
        n_components: int = 2,
        *,
        noise: float | None = None,
        fit_intercept: bool = True,
        whiten: bool = True,
        label_scale: float = 1.0,
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
        self.noise = noise
        self.fit_intercept = fit_intercept
        self.whiten = whiten
        self.label_scale = label_scale
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
        y: Any = None,
        sample_weight: Any = None,
        *,
        checkpoint: Checkpoint = None,
        progress: Progress | None = None,
    ) -> RegressionMixtureDensity:
        """Estimate the density.

        Parameters
        ----------
        X : array (n_samples, n_features), data frame, path, iterator of blocks, Dask or Source
        y : array of shape (n_samples,)
            Not of a source, which has labels of its own.
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
            self,
            X,
            y,
            sample_weight,
            labelled=True,
            fewest=2,
            checkpoint=checkpoint,
            progress=progress,
        ) as (source, seed):
            how = replace(how, seed=seed)
            names = getattr(self, "feature_names_in_", None)
            said = describe_design(source, whiten=how.whiten, names=names)
            hypothesis, stats = fit_regression_density(source, how)
            frame, density = hypothesis.frame, hypothesis.density
            slope = frame.whitener @ frame.slope
            self.slope_ = move_like(slope, probe_of(source))
        self.hypothesis_: RegressionDensity = hypothesis
        self.intercept_ = frame.intercept - float(frame.mean @ slope)
        self.noise_ = stats["noise"] if how.noise is None else how.noise
        stats["notes"] = said + stats["notes"]
        self._keep(density, hypothesis.expansion.degree, stats)
        return self

    def score_samples(self, X: Any, y: Any = None) -> Array:
        """Return the logarithm of the density at each row, in the library of the rows.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), data frame, or Source
        y : array of shape (n_samples,), optional
            Without it the density is that of x alone, unless X is a source with labels.
        """
        check_is_fitted(self)
        if y is None and not _has_labels(X):
            return answer(self, X, self.hypothesis_.log_marginal)
        return answer(self, X, self.hypothesis_.log_density, y, labelled=True)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the mean logarithm of the density over rows."""
        check_is_fitted(self)
        if y is None and not _has_labels(X):
            return mean_answer(self, X, self.hypothesis_.log_marginal, None, sample_weight)
        density = self.hypothesis_.log_density
        return mean_answer(self, X, density, y, sample_weight, labelled=True)

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> tuple[Array, Array]:
        """Draw rows and labels from the density by rejection.

        Parameters
        ----------
        n_samples : int
        random_state : int, generator or None
            That of the estimator by default.

        Returns
        -------
        X : array of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        """
        check_is_fitted(self)
        points = self._draw(self.hypothesis_.density, n_samples, random_state)
        drawn = move_like(points, self.slope_)
        return drawn[:, :-1], drawn[:, -1]

    def sample_y(self, X: Any, n_samples: int = 1, random_state: RandomState = None) -> Array:
        """Draw labels given points, by inversion of their conditional law.

        In main memory, whatever the device of the points.

        Parameters
        ----------
        X : array of shape (n_points, n_features), data frame, or Source
        n_samples : int
            Draws at each point.
        random_state : int, generator or None
            That of the estimator by default.

        Returns
        -------
        array of shape (n_points, n_samples)
        """
        seed = self._seed(random_state)
        n, done = check_whole("n_samples", n_samples, 1), 0

        def draw(x: Array) -> Array:
            nonlocal done
            drawn = self.hypothesis_.sample_labels(x, n, seed=seed, first=done)
            done += int(x.shape[0])
            return move_like(drawn, x)

        return answer(self, X, draw)

    def __sklearn_tags__(self) -> Any:
        """Say that labels are needed."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _options(self) -> RegressionOptions:
        """Check the parameters."""
        expansion = self._expansion(METHODS, HIGHEST_DEGREE)
        intercepts = check_flag("fit_intercept", self.fit_intercept)
        if self.method != "closed_form" and intercepts:
            raise ValueError(
                f"method={self.method!r} is for lines that meet at the mean of x; give "
                "fit_intercept=False, or method='closed_form' for intercepts of their own"
            )
        noise = None if self.noise is None else check_number("noise", self.noise, 0.0)
        if noise == 0:
            raise ValueError(
                "noise is a positive number or None, got 0: without noise (x, y) has no density; "
                "use RegressionMixture, which fits the lines themselves"
            )
        return RegressionOptions(
            noise=noise,
            fit_intercept=intercepts,
            whiten=check_flag("whiten", self.whiten),
            label_scale=check_number("label_scale", self.label_scale, 0.75, 10.0),
            **expansion,
        )


def _has_labels(X: Any) -> bool:
    """Say whether X is a source of labelled rows."""
    if not isinstance(X, Source):
        return False
    begin = range(1)
    return "y" in X.read(begin, RowDraws(0, begin, (Stream.ROWS,)))
