"""Densities of spherical mixtures (Theorem 4.16) and of mixtures of regressions (4.22)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np

from implicitmoments.arrays import Array, move_like
from implicitmoments.density.clipped_density import ClippedDensity, Reference
from implicitmoments.density.estimator import HELD, ExpandedDensity, Fold, RatioModel
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
from implicitmoments.estimator import FOUND, Table, as_floats, column_names
from implicitmoments.evaluation import RowFunction, evaluate_varying
from implicitmoments.moments.components import second_moment_floor, spectrum_stats
from implicitmoments.moments.problems import (
    SphericalSpan,
    find_span,
    smallest_variance,
)
from implicitmoments.notes import Note, Notes
from implicitmoments.picture_data import Densities, RowSample
from implicitmoments.rows import (
    RandomState,
    Rows,
    Whitening,
    factor_covariance,
    find_deviations,
    looks_standard,
    precision_of,
    restore_columns,
    restore_matrices,
    whitener_of,
)
from implicitmoments.rows import Table as RowTable
from implicitmoments.validation import check_flag, check_number_or, check_variance, check_whole

# Limits of `degree`, up to which coefficients are accurate with exact moments.
HIGHEST_DEGREE, HIGHEST_LABEL_DEGREE = 80, 60
LEAST_VARIANCE = 1e-5  # of that of the rows: less is the floor of the fit
# Orders of moments that are compared, over ``max_degree``: a light component far away has few
# rows, which dominate moments of high order.
ORDERS = (1.0, 0.75, 0.5)
# Scales of the label that are compared, over the spread of the residuals: below the first the
# residuals of the rows leave the range in which labels are drawn.
LEAST_SCALE, MOST_SCALE = 0.5, 3.0
COARSE, FINE = 1.25, 1.1  # factors between neighbouring scales: first, and least


@dataclass(eq=False, repr=False)  # scikit-learn compares and prints estimators
class SphericalMixtureDensity(ExpandedDensity):
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
        The number k of components. A bound on it is enough.
    degree : int or "auto", default "auto"
        Degree of the polynomial. ``"auto"``: the even degree of the highest held-out likelihood,
        the highest one where they differ by less than a standard error; or the lowest degree whose
        density differs from it by no more than ``epsilon`` allows.
    epsilon : float, default 0.05
        The total variation distance aimed at. A fiftieth of it may be lost by a lower degree, and
        as much by clipping; a note says if the distance from the rows is clearly larger.
    max_degree : int, default 24
        The highest degree for ``"auto"``.
    clip : float or "auto", default "auto"
        The bound A of the ratio to G; proposals of the sampler are accepted with probability 1/A.
        ``"auto"``: the smallest that costs no more than ``epsilon`` allows.
    floor : float, default 1e-6
        The smallest ratio to G. The paper has 0, for which ``score_samples`` is −inf where the
        polynomial is negative.
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
        values of the expansion at the rows and under the density, which is a lower bound of the
        total variation distance up to chance; ``negative_rows``, the proportion of the rows at
        which the expansion is negative; ``clip_error``, what clipping costs;
        ``normalizer_error``, a standard error; ``rows_used`` and ``outliers`` left out; and after
        ``sample`` the ``proposals`` and ``acceptance_rate`` of the last call.
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
        "components_one_column": "Log density of the rows along the column.",
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
            rows = rows.mapped(linear=whitener_of(factor))
            span = find_span(rows, k, 1.0)
            reference = replace(span, factor=factor)
        else:
            reference = span = find_span(rows, k, check_variance(self.variance))
        on_span = rows.mapped(span.center, span.basis.T / span.sigma)
        floor = second_moment_floor(len(span.spectrum), rows.kept)
        stats = {
            "radius": math.sqrt(span.squared_radius),
            "smallest_variance": smallest_variance(span, round(rows.kept)),
            **spectrum_stats((span.spectrum - 1, floor, span.p, 2)),
        }

        @cache
        def at(degree: int, part: float) -> tuple[Expansion, Reference]:
            order = max(2, round(part * degree))
            return expand_means(on_span, k, order, span.squared_radius), reference

        return RatioModel(at, stats)

    def _folds(self, rows: Rows, model: RatioModel, seed: int) -> list[Fold]:
        # Also the very density in question: few rows of a light component may spoil it alone.
        # One fold beside it is enough where many rows are held out.
        folds = super()._folds(rows, model, seed)
        enough = 1 if folds and folds[0][1].kept > HELD // 2 else len(folds)
        return [*folds[:enough], (model, rows.sample(HELD, seed))] if folds else []

    def _search(self, score: Callable[[float], float]) -> float:
        return max(ORDERS, key=score)

    def _store(self, density: ClippedDensity, like: Array) -> Notes:
        stats = self.stats_
        span: Any = density.reference
        self.hypothesis_, self.variance_ = density, span.covariance
        if np.ndim(self.variance_) == 2:
            self.variance_ = restore_matrices(self.variance_, self._constants)
        center = span.restore(np.zeros((1, span.p)))[0]
        self.center_ = move_like(restore_columns(center, self._constants), like)
        notes = Notes()
        flat = stats.pop("smallest_variance")
        if flat is not None:
            notes.append(Note("flat_direction", {"ratio": flat, "variance": span.variance}))
        return notes

    def _log_density(self, X: Any, y: Any) -> RowFunction:  # noqa: ARG002
        constants, function = self._constant_values, self.hypothesis_.log_density
        if constants is not None:
            epsilon = precision_of(self.center_)
            function = partial(evaluate_varying, function, constants, epsilon, True)
        return RowFunction(function)

    def _title(self) -> str:
        return f"a density of degree {self.degree_} for a spherical mixture"

    def _parameter_tables(self) -> list[Table]:
        center = as_floats(self.center_).tolist()
        rows = [list(pair) for pair in zip(column_names(self), center, strict=True)]
        centre_table = Table("Centre of the Gaussian", ["column", "value"], rows)
        return [*super()._parameter_tables(), centre_table]

    def _component_view(self, rows: RowSample) -> Densities:
        span: Any = self.hypothesis_.reference
        basis = restore_columns(span.directions, self._constant_values, 0.0)
        leading = np.arange(len(basis), 0, -1.0)[:, None] * basis
        logs = as_floats(self.score_samples(rows.given))
        return Densities(leading, as_floats(self.center_), logs, "log density")

    def _noise_free(self, rows: RowSample) -> bool:
        variance = np.mean(np.diagonal(np.atleast_2d(self.variance_)))
        return bool(variance <= LEAST_VARIANCE * rows.x.var(axis=0).sum())


def moment_unit(scale: float) -> float:
    """Return the unit in which moments for a scale of G are estimated, a power of ``COARSE``.

    As wide as G at least: steep lines have residuals with heavy tails, for which Hermite
    polynomials in a wider unit have less variance.
    """
    return COARSE ** math.ceil(math.log(scale, COARSE) - 1e-9)


@dataclass(eq=False, repr=False)  # scikit-learn compares and prints estimators
class RegressionMixtureDensity(ExpandedDensity):
    r"""The joint density of (x, y) of a mixture of linear regressions, without its parameters.

    For :math:`y = c_i + \beta_i \cdot x + \nu` with a hidden i, Gaussian x and noise
    :math:`\nu` that is not small against the spread of the lines. Theorem 4.22: with G a Gaussian
    of independent x and residual of y, F/G is estimated by its Hermite expansion up to a degree,
    in compressed form; clipped to ``[floor, clip]``, multiplied by G and normalised, it is the
    density. Nothing depends on an initialisation.

    Parameters
    ----------
    n_components : int, default 2
        The number k of components. A bound on it is enough.
    degree : int or "auto", default "auto"
        Degree of the polynomial. It is one of x and y together. ``"auto"``: by held-out likelihood
        and ``epsilon``, as for :class:`SphericalMixtureDensity`.
    epsilon : float, default 0.05
        The total variation distance aimed at. A fiftieth of it may be lost by a lower degree, and
        as much by clipping; a note says if the distance from the rows is clearly larger.
    max_degree : int, default 12
        The highest degree for ``"auto"``.
    clip : float or "auto", default "auto"
        The bound A of the ratio to G; proposals of the sampler are accepted with probability 1/A.
    floor : float, default 1e-6
        The smallest ratio to G; the paper has 0.
    max_proposals : int, default 20_000_000
        The largest number of proposals of ``sample``, after which it raises an error.
    drop_outliers : bool, default True
        Leave out rows far from the bulk that have too few neighbours to be a component.
    random_state : int, generator, np.random or None, default None
        Seed of all random numbers; also of :meth:`sample`.
    rows_per_block : int, optional
        Rows that are processed at a time; chosen by the memory they take by default.
    fit_intercept : bool, default True
        Whether components have intercepts of their own. If not, all lines meet at the mean of x,
        and odd orders are 0 and left out; with ``whiten=False`` they meet at the origin.
    whiten : bool, default True
        Estimate the mean and covariance of x. If not, x is assumed to be from N(0, I).
    label_scale : float or "auto", default "auto"
        The standard deviation of G along the residual of y, over that of the rows. In this unit
        the expansion of a line converges if :math:`\|\beta\|^2 + \sigma^2/2 < 1`. ``"auto"``: the
        scale with the highest held-out likelihood, between 0.5 and 3.

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
    fit_intercept: bool = True
    whiten: bool = True
    label_scale: float | str = "auto"
    max_degree: int = 12

    def _check_parameters(self) -> None:
        self._check_expansion(HIGHEST_LABEL_DEGREE)
        check_flag("fit_intercept", self.fit_intercept)
        check_flag("whiten", self.whiten)
        check_number_or("label_scale", self.label_scale, ("auto",), LEAST_SCALE, 10.0)

    def _least_rows(self, d: int) -> int:
        return max(d + 2, self.n_components)  # for a line and the spread about it

    def _learn(self, rows: Rows) -> RatioModel:
        """Standardise rows about the least-squares line, and reduce to the span of the slopes."""
        k, centred = self.n_components, not (self.whiten or self.fit_intercept)
        frame, spectrum = find_frame(rows, k, whiten=self.whiten, centred=centred)
        # what the mean of |β'|², a trace, leaves of 1
        share = max(1.0 - float(np.sum(spectrum)), 0.0)
        stats: dict[str, Any] = {"noise_share": share}
        if k > 1:
            # the moment itself has no negative eigenvalue
            stats |= spectrum_stats((spectrum, -float(spectrum[-1]), len(frame.basis), 2))

        @cache
        def moments(degree: int, unit: float) -> GradedExpansion:
            given = frame.at_scale(unit).on_coordinates(rows), k, degree
            return expand_labels(*given, odd=self.fit_intercept)

        def at(degree: int, scale: float) -> tuple[Expansion, Reference]:
            unit = moment_unit(scale)
            expansion = replace(moments(degree, unit), scale=scale / unit)
            return expansion, frame.at_scale(scale)

        return RatioModel(at, stats)

    def _nothing_to_choose(self) -> bool:
        given = super()._nothing_to_choose() and not isinstance(self.label_scale, str)
        return given or self.n_components == 1

    def _search(self, score: Callable[[float], float]) -> float:
        """Climb from 1 to neighbouring scales of higher scores, by smaller and smaller factors."""
        if not isinstance(self.label_scale, str):
            return float(self.label_scale)
        best, factor = 1.0, COARSE
        while factor > FINE:
            for step in (factor, 1 / factor):
                while LEAST_SCALE < best * step < MOST_SCALE and score(best * step) > score(best):
                    best *= step
            factor = math.sqrt(factor)
        return best

    def _look_at_rows(self, rows: Rows) -> Notes:
        """Note inputs that are not from the Gaussian they are assumed to be from."""
        whitening = Whitening.of(rows, reduce=True)
        names = column_names(self)
        deviations, notes = find_deviations(rows, whitening, names), list[Note]()
        if deviations is not None:
            notes = [Note("inputs_not_gaussian", deviations)]
        if not (self.whiten or looks_standard(whitening, rows.total)):
            notes.append(Note("inputs_not_standard"))
        return Notes(notes)

    def _store(self, density: ClippedDensity, like: Array) -> Notes:
        self.hypothesis_, stats = RegressionDensity(**vars(density)), self.stats_
        frame = self.hypothesis_.reference
        slope = frame.whitener @ frame.slope
        self.coef_ = move_like(slope, like)
        self.intercept_ = float(frame.intercept - frame.mean @ slope)
        stats["label_scale"] = 1 / math.sqrt(frame.spread)
        self.noise_ = frame.scale * math.sqrt(stats["noise_share"] * frame.spread)
        return Notes()

    def _log_density(self, X: Any, y: Any) -> RowFunction:
        if y is not None or (isinstance(X, RowTable) and "y" in X.first()):
            return RowFunction(self.hypothesis_.log_joint, labelled=True)
        return RowFunction(self.hypothesis_.log_marginal)

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

    def _parameter_tables(self) -> list[Table]:
        values = [float(self.intercept_), *as_floats(self.coef_).tolist()]
        names = ["intercept", *column_names(self)]
        rows = [list(pair) for pair in zip(names, values, strict=True)]
        line = Table("Least-squares line", ["column", "value"], rows)
        return [*super()._parameter_tables(), line]

    def _component_view(self, rows: RowSample) -> Densities:
        frame = self.hypothesis_.reference
        directions = frame.basis @ frame.whitener.T
        logs = as_floats(self.score_samples(rows.given, rows.y))
        residuals = rows.y - rows.x @ as_floats(self.coef_) - float(self.intercept_)
        center = rows.x.mean(axis=0)
        what = "log density of x and {target}"
        return Densities(directions[:1], center, logs, what, residuals=residuals)
