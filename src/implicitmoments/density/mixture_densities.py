"""Densities of spherical mixtures (Theorem 4.16) and of mixtures of regressions (4.22)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np

from implicitmoments.arrays import Array, machine_epsilon, move_like
from implicitmoments.density.clipped_density import ClippedDensity, Reference
from implicitmoments.density.estimator import ExpandedDensity, RatioModel
from implicitmoments.density.expansion import (
    Expansion,
    GradedExpansion,
    JointExpansion,
    expand_labels,
    expand_means,
)
from implicitmoments.density.regression_density import (
    RegressionDensity,
    RegressionFrame,
    find_frame,
)
from implicitmoments.estimator import FOUND, as_floats, column_names
from implicitmoments.evaluation import RowFunction, evaluate_varying
from implicitmoments.moments.components import second_moment_floor
from implicitmoments.moments.problems import (
    SphericalSpan,
    find_span,
    smallest_variance,
)
from implicitmoments.notes import Note
from implicitmoments.picture_data import Densities, RowSample, spectrum_stats
from implicitmoments.rows import (
    Rows,
    Whitening,
    factor_covariance,
    find_deviations,
    restore_columns,
    restore_matrices,
)
from implicitmoments.rows import Table as RowTable
from implicitmoments.validation import RandomState, check_number_or, check_variance, check_whole

# Limits of `degree`, up to which coefficients are accurate with exact moments.
HIGHEST_DEGREE, HIGHEST_LABEL_DEGREE = 80, 60
# Standard deviations of G along the residual that are compared, over that of the rows.
STEP = 1.25  # factor between the units in which moments are estimated
LABEL_SCALES = tuple(STEP ** (i / 2) for i in range(-6, 9))


@dataclass(eq=False, repr=False)  # scikit-learn compares and prints estimators
class SphericalMixtureDensity(ExpandedDensity):
    r"""The density of a spherical Gaussian mixture, without its parameters.

    For :math:`F = \sum_i w_i N(\mu_i, \sigma^2 I)` with means within a few
    :math:`\sigma\sqrt{\log k}` of their centre, even if they are too close to be identified.
    Theorem 4.16: with G the Gaussian :math:`N(c, \sigma^2 I)` at the mean c of the rows, F/G is
    estimated by its Hermite expansion up to a degree, in compressed form; clipped,
    multiplied by G and normalised, it is the density. No likelihood is
    maximised, and nothing depends on an initialisation.

    Parameters
    ----------
    n_components : int, default 2
        The number k of components. A larger number is enough, and adds noise.
    degree : int or "auto", default "auto"
        Degree of the polynomial. ``"auto"``: the lowest even degree whose density differs from
        that of the highest held-out likelihood by no more than ``epsilon`` allows.
    epsilon : float, default 0.05
        The total variation distance aimed at. A fiftieth of it may be lost by a lower degree, and
        as much by clipping; a note says if the distance from the rows is clearly larger.
    max_degree : int, default 24
        The highest degree for ``"auto"``.
    clip : float or "auto", default "auto"
        The largest ratio A to G; proposals of the sampler are accepted with probability 1/A.
        ``"auto"``: the smallest that costs no more than ``epsilon`` allows.
    max_proposals : int, default 20_000_000
        The largest number of proposals of ``sample``, after which it raises an error.
    drop_outliers : bool, default True
        Leave out rows far from the bulk that have too few neighbours to be a component.
        ``stats_["outliers"]`` counts them.
    random_state : int, generator, np.random or None, default None
        Seed of all random numbers; also of :meth:`sample`.
    rows_per_block : int, optional
        Rows that are processed at a time; chosen by the memory they take by default.
    variance : float or array of shape (n_features, n_features), optional
        The common variance :math:`\sigma^2`, where it is known; a matrix is the covariance
        :math:`\Sigma` of all components. By default the mean of the smallest eigenvalues of the
        covariance of the rows, which requires ``n_components <= n_features``.

    Attributes
    ----------
    center_ : array of shape (n_features,)
    variance_ : float, or array of shape (n_features, n_features) where a covariance is given
    degree_ : int
        Degree of the polynomial.
    clip_ : float
    normalizer_ : float
        The integral of the clipped ratio times G.
    acceptance_rate_ : float
        The probability that a proposal of ``sample`` is accepted, ``normalizer_ / clip_``.
    hypothesis_ : ClippedDensity
    notes_ : Notes
        Findings about the fit, which print as sentences.
    stats_ : dict
        ``radius``, the root mean square norm of the means in units of :math:`\sigma`; ``scores``,
        the mean held-out log-likelihood by degree; ``distance``, the Kolmogorov distance between
        values of the expansion at the rows and under the density; ``negative_rows``, the
        proportion of the rows at which the expansion is negative; ``rows_used`` and ``outliers``
        left out; and after ``sample`` the ``proposals`` and ``acceptance_rate`` of the last call.
    n_features_in_, feature_names_in_ : number of columns; their names, where they have any

    See Also
    --------
    SphericalMixture : Spherical covariances, one variance or several.
    RegressionMixtureDensity : The joint density of x and y alone.

    Notes
    -----
    Rows are read in 3 + degree/2 passes and never held; comparing degrees takes up to three times
    as many. The clip, ``negative_rows`` and ``distance`` are measured at no more than 131,072 of
    them.

    Examples
    --------
    >>> from implicitmoments import SphericalMixtureDensity
    >>> from implicitmoments.datasets import make_spherical_mixture
    >>> X, _ = make_spherical_mixture(20_000, 3, 5, radius=1.2, random_state=0)
    >>> model = SphericalMixtureDensity(n_components=3, degree=6, random_state=0).fit(X)
    >>> model.score_samples(X[:10]).shape
    (10,)
    >>> model.sample(100).shape
    (100, 5)
    """

    saved: ClassVar[Mapping[str, Any]] = {
        **ExpandedDensity.saved,
        "center_": np.ndarray,
        "hypothesis_": ClippedDensity,
    }
    records = (JointExpansion, SphericalSpan)
    captions: ClassVar[Mapping[str, str]] = {
        **ExpandedDensity.captions,
        "spectra": "Variance of the rows beyond the noise along each principal direction. Filled: "
        "the directions along which the density is expanded.",
        "components": "Rows on two directions, coloured by log density. A density has no "
        "components.",
    }

    _: KW_ONLY
    variance: Any = None

    def _check_parameters(self) -> None:
        self._check_expansion(HIGHEST_DEGREE)
        if np.ndim(self.variance) != 2:
            check_variance(self.variance)

    def _least_rows(self, d: int) -> int:  # noqa: ARG002
        return max(2, self.n_components)

    def _learn(self, rows: Rows) -> RatioModel:
        """Reduce to the span of the means, about the Gaussian at the mean of the rows."""
        k = self.n_components
        if np.ndim(self.variance) == 2:
            factor = factor_covariance(self.variance, rows.table.n_features, rows.columns)
            rows = rows.mapped(linear=np.linalg.inv(factor).T)
            span = find_span(rows, k, 1.0)
            reference = replace(span, factor=factor)
        else:
            reference = span = find_span(rows, k, check_variance(self.variance))
        on_span = rows.mapped(span.center, span.basis.T / span.sigma)
        floor = second_moment_floor(len(span.spectrum), rows.kept)
        stats = {
            "radius": math.sqrt(span.squared_radius),
            **spectrum_stats((span.spectrum - 1, floor, span.p, 2)),
        }

        @cache
        def at(degree: int, part: float) -> tuple[Expansion, Reference]:
            order = max(2, round(part * degree))
            return expand_means(on_span, k, order, span.squared_radius), reference

        flat = smallest_variance(span, round(rows.kept))
        values = {"ratio": flat, "variance": span.variance}
        notes = () if flat is None else (Note("flat_direction", values),)
        return RatioModel(at, stats, notes)

    def _settings(self) -> tuple[float, ...]:
        # orders of moments, over max_degree: the few rows of a light component far away dominate
        # moments of high order
        return (0.5, 0.75, 1.0) if isinstance(self.degree, str) else (1.0,)

    def _store(self, density: ClippedDensity, like: Array) -> None:
        span: Any = density.reference
        self.hypothesis_, self.variance_ = density, span.variance
        if span.factor is not None:
            self.variance_ = restore_matrices(span.factor @ span.factor.T, self._constants)
        center = span.restore(np.zeros((1, span.p)))[0]
        self.center_ = move_like(restore_columns(center, self._constants), like)

    def _log_density(self, X: Any, y: Any) -> RowFunction:  # noqa: ARG002
        constants, function = self._constant_values, self.hypothesis_.log_density
        if constants is not None:
            epsilon = machine_epsilon(self.center_)
            function = partial(evaluate_varying, function, constants, epsilon, True)
        return RowFunction(function)

    def _title(self) -> str:
        return f"a density of degree {self.degree_} for a spherical mixture"

    def _component_view(self, rows: RowSample) -> Densities:
        span: Any = self.hypothesis_.reference
        along = span.basis if span.factor is None else span.basis @ np.linalg.inv(span.factor)
        basis = restore_columns(along, self._constant_values, 0.0)
        leading = np.arange(len(basis), 0, -1.0)[:, None] * basis
        logs = as_floats(self.score_samples(rows.given))
        return Densities(leading, as_floats(self.center_), logs, "log density")

    def _noise_free(self, rows: RowSample) -> bool:
        variance = np.mean(np.diagonal(np.atleast_2d(self.variance_)))
        return bool(variance <= 1e-5 * rows.x.var(axis=0).sum())  # less is the floor of the fit


@dataclass(eq=False, repr=False)  # scikit-learn compares and prints estimators
class RegressionMixtureDensity(ExpandedDensity):
    r"""The joint density of (x, y) of a mixture of linear regressions, without its parameters.

    For :math:`y = c_i + \beta_i \cdot x + \nu` with a hidden i, Gaussian x and noise
    :math:`\nu` that is not small against the spread of the lines. Theorem 4.22: with G a Gaussian
    of independent x and residual of y, F/G is estimated by its Hermite expansion up to a degree,
    in compressed form; clipped, multiplied by G and normalised, it is the
    density. Nothing depends on an initialisation.

    Parameters
    ----------
    n_components : int, default 2
        The number k of components. A larger number is enough, and adds noise.
    degree : int or "auto", default "auto"
        Degree of the polynomial. It is one of x and y together. ``"auto"``: by held-out likelihood
        and ``epsilon``, as for :class:`SphericalMixtureDensity`.
    epsilon : float, default 0.05
        The total variation distance aimed at. A fiftieth of it may be lost by a lower degree, and
        as much by clipping; a note says if the distance from the rows is clearly larger.
    max_degree : int, default 12
        The highest degree for ``"auto"``.
    clip : float or "auto", default "auto"
        The largest ratio A to G; proposals of the sampler are accepted with probability 1/A.
    max_proposals : int, default 20_000_000
        The largest number of proposals of ``sample``, after which it raises an error.
    drop_outliers : bool, default True
        Leave out rows far from the bulk that have too few neighbours to be a component.
    random_state : int, generator, np.random or None, default None
        Seed of all random numbers; also of :meth:`sample`.
    rows_per_block : int, optional
        Rows that are processed at a time; chosen by the memory they take by default.
    label_scale : float or "auto", default "auto"
        The standard deviation of G along the residual of y, over that of the rows. In this unit
        the expansion of a line converges if :math:`\|\beta\|^2 + \sigma^2/2 < 1`. ``"auto"``: the
        scale with the highest held-out likelihood, between 0.5 and 2.5.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Slopes of the least-squares line, at which G is centred: the mean of the regressors.
    intercept_ : float
    noise_ : float
        Standard deviation of what the slopes leave of the residuals: of the noise, and of the
        intercepts where they differ.
    degree_ : int
        Degree of the polynomial.
    clip_ : float
    normalizer_ : float
        The integral of the clipped ratio times G.
    acceptance_rate_ : float
        The probability that a proposal of ``sample`` is accepted, ``normalizer_ / clip_``.
    hypothesis_ : RegressionDensity
    notes_ : Notes
        Findings about the fit, which print as sentences.
    stats_ : dict
        As for :class:`SphericalMixtureDensity`, without ``radius``; ``noise_share``, the square of
        ``noise_`` over the variance of y about one line; and ``label_scale`` as used.
    n_features_in_, feature_names_in_ : number of columns; their names, where they have any

    See Also
    --------
    RegressionMixture : The lines, and the line of each row.
    SphericalMixtureDensity : The density alone, also where components overlap.

    Notes
    -----
    Rows are read in 5 + degree/4 passes and never held; comparing degrees takes up to three times
    as many.

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

    labelled = True
    saved: ClassVar[Mapping[str, Any]] = {
        **ExpandedDensity.saved,
        "coef_": np.ndarray,
        "intercept_": float,
        "noise_": float,
        "hypothesis_": RegressionDensity,
    }
    records = (GradedExpansion, RegressionFrame)
    captions: ClassVar[Mapping[str, str]] = {
        **ExpandedDensity.captions,
        "spectra": "Variance of the slopes along each direction of the inputs. Filled: the "
        "directions along which the density is expanded.",
        "components": "Rows around the least-squares line, coloured by log density. A density has "
        "no lines of its own.",
    }

    _: KW_ONLY
    label_scale: float | str = "auto"
    max_degree: int = 12

    def _check_parameters(self) -> None:
        self._check_expansion(HIGHEST_LABEL_DEGREE)
        check_number_or("label_scale", self.label_scale, ("auto",), 0.5, 10.0)

    def _least_rows(self, d: int) -> int:
        return max(d + 2, self.n_components)  # for a line and the spread about it

    def _learn(self, rows: Rows) -> RatioModel:
        """Standardise rows about the least-squares line, and reduce to the span of the slopes."""
        k = self.n_components
        frame, spectrum = find_frame(rows, k)
        # what the mean of |β'|², a trace, leaves of 1
        share = max(1.0 - float(np.sum(spectrum)), 0.0)
        stats: dict[str, Any] = {"noise_share": share}
        if k > 1:
            # the moment itself has no negative eigenvalue
            stats |= spectrum_stats((spectrum, -float(spectrum[-1]), len(frame.basis), 2))

        @cache
        def moments(degree: int, unit: float) -> GradedExpansion:
            return expand_labels(frame.at_scale(unit).on_coordinates(rows), k, degree)

        def at(degree: int, scale: float) -> tuple[Expansion, Reference]:
            # Moments in a unit at least as wide as G: residuals of steep lines have heavy tails,
            # for which Hermite polynomials in a wider unit have less variance.
            unit = STEP ** math.ceil(math.log(scale, STEP) - 1e-9)
            expansion = replace(moments(degree, unit), scale=scale / unit)
            return expansion, frame.at_scale(scale)

        return RatioModel(at, stats)

    def _settings(self) -> tuple[float, ...]:
        return LABEL_SCALES if isinstance(self.label_scale, str) else (float(self.label_scale),)

    def _fit(self, every: Rows, seed: int) -> None:
        names = column_names(self)
        deviations = find_deviations(every, Whitening.of(every, reduce=True), names)
        super()._fit(every, seed)
        if deviations:
            self.notes_.insert(0, Note("inputs_not_gaussian", deviations))

    def _store(self, density: ClippedDensity, like: Array) -> None:
        self.hypothesis_, stats = RegressionDensity(**vars(density)), self.stats_
        frame = self.hypothesis_.reference
        slope = frame.whitener @ frame.slope
        self.coef_ = move_like(slope, like)
        self.intercept_ = float(frame.intercept - frame.mean @ slope)
        stats["label_scale"] = 1 / math.sqrt(frame.spread)
        self.noise_ = frame.scale * math.sqrt(stats["noise_share"] * frame.spread)

    def _log_density(self, X: Any, y: Any) -> RowFunction:
        if y is not None or (isinstance(X, RowTable) and "y" in X.first):
            return RowFunction(self.hypothesis_.log_joint, labelled=True)
        # inputs are Gaussian in the model
        return RowFunction(self.hypothesis_.reference.log_density_of_inputs)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: RandomState = None) -> Any:
        """Draw labels given points, by inversion of their conditional distribution.

        In main memory, whatever the device of the points.

        Parameters
        ----------
        X : array of shape (n_points, n_features), data frame, or Table
        n_samples : int
            Draws at each point.
        random_state : int, generator or None; by default that of the estimator

        Returns
        -------
        array of shape (n_points, n_samples)
        """
        seed = self._seed(random_state)
        n, done = check_whole("n_samples", n_samples, 1), 0

        def draw(x: Array) -> Any:
            nonlocal done
            drawn = self.hypothesis_.sample_labels(x, n, seed=seed, first=done)
            done += int(x.shape[0])
            return move_like(drawn, x)

        return RowFunction(draw).evaluate(self, X)

    def _title(self) -> str:
        return f"a density of degree {self.degree_} for a mixture of regressions"

    def _findings(self) -> dict[str, Any]:
        found = super()._findings()  # the noise includes the spread of the intercepts
        return found | {"noise assumed by the expansion": found.pop(FOUND["noise_"])}

    def _component_view(self, rows: RowSample) -> Densities:
        frame = self.hypothesis_.reference
        directions = frame.basis @ frame.whitener.T
        logs = as_floats(self.score_samples(rows.given, rows.y))
        residuals = rows.y - rows.x @ as_floats(self.coef_) - float(self.intercept_)
        center, what = rows.x.mean(axis=0), "log density of x and {target}"
        return Densities(directions[:1], center, logs, what, residuals=residuals)
