"""Density estimation for spherical mixtures with bounded means (Theorem 4.16)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cache, cached_property, partial
from typing import Any, ClassVar, NotRequired

import numpy as np
from scipy.special import chndtr
from sklearn.base import clone

from implicitmoments.arrays import Array, Floats, move_like, namespace_of
from implicitmoments.density.clipped_density import ClippedDensity, Reference, evaluate_rows
from implicitmoments.density.degree import NOT_COMPARED, DegreeScores, mixture_tail
from implicitmoments.density.expanded_density import ExpandedDensity, RatioModel
from implicitmoments.density.hermite_expansion import (
    Constant,
    Expansion,
    JointExpansion,
    OrderByOrder,
    expand,
)
from implicitmoments.density.minimum_distance import (
    candidate_densities,
    compare_distances,
    held_out_excess,
)
from implicitmoments.density.norm_band import NormBand
from implicitmoments.description import SphericalMixtureDensityDescription, as_floats
from implicitmoments.evaluation import RowFunction, evaluate_varying
from implicitmoments.moments.components import second_moment_floor, spectrum_stats
from implicitmoments.moments.mean_span import (
    SphericalSpan,
    WhitenedSpan,
    find_span,
    smallest_variance,
)
from implicitmoments.notes import Note, Notes
from implicitmoments.picture_data import Densities, RowSample
from implicitmoments.rows import RandomState, Rows, factor_covariance, whitener_of
from implicitmoments.rows.constants import precision_of, restore_columns, restore_matrices
from implicitmoments.rows.outliers import SMALLEST_COMPONENT, Near
from implicitmoments.validation import check_variance

# Limit of `degree`: half the order is the number of passes. The expansion is tested up to it.
HIGHEST_DEGREE = 80
METHODS = ("closed_form", "paper")
LEAST_VARIANCE = 1e-5  # of that of the rows: less is the floor of the fit


@dataclass(frozen=True, eq=False)
class Truncation:
    """The error of truncating F/G, by degree, from the distances of the rows from c."""

    rows: Rows
    span: SphericalSpan
    k: int
    seed: int
    dropped: float = 0.0  # proportion of all rows that are not among these

    @cached_property
    def band(self) -> NormBand:
        """Distributions of the norms of the means, in units of the noise."""
        norms, counts = evaluate_rows(_lengths, self.span, self.rows, self.seed)
        return NormBand.of(norms, self._survival, counts, self.dropped)

    def _survival(self, above: Floats, norms: Floats) -> Floats:
        """Return the tails of the noncentral chi distribution."""
        return 1 - np.asarray(chndtr(above**2, self.span.p, norms**2), dtype=np.float64)

    @cached_property
    def largest_norm(self) -> float:
        """Bound of the norms of all means that weigh at least as much as a component does."""
        return self.band.largest(SMALLEST_COMPONENT / self.k) if self.span.p else 0.0

    def __call__(self, degree: int) -> float:
        """Bound the total variation error at a degree."""
        if self.span.p == 0:  # F is G
            return 0.0
        bound = self.band.bound_mean(partial(mixture_tail, degree=degree), self.largest_norm)
        return min(1.0, bound)  # as any distance of two densities


def _lengths(coordinates: Array) -> Array:
    xp = namespace_of(coordinates)
    return xp.sqrt(xp.sum(coordinates**2, axis=1))


@dataclass(eq=False, repr=False)  # scikit-learn compares and prints estimators
class SphericalMixtureDensity(SphericalMixtureDensityDescription, ExpandedDensity):
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
    variance : float or array of shape (n_features, n_features), optional
        The common variance :math:`\sigma^2`, where it is known; a matrix is the covariance
        :math:`\Sigma` of all components. By default the mean of the smallest eigenvalues of the
        covariance of the rows, which requires ``n_components <= n_features``.
    degree : int, "cv" or "auto", default "cv"
        Of the polynomial. ``"auto"``: the even degree, by the closed form, whose density is
        nearest to the rows: densities are compared on the sets where one of them exceeds another
        (minimum distance of Devroye and Lugosi). Of degrees that are equally near up to chance
        it is the highest. ``"cv"``: the same, by the mean of this distance and of that from rows
        held out in three folds, or in one where rows are many.
    epsilon : float, default 0.05
        The total variation distance aimed at, of which clipping may cost 0.02. The report says
        where the truncation error is at most half of it.
    max_degree : int, default 12
        The highest degree for ``"auto"`` and ``"cv"``.
    clip : float or "auto", default "auto"
        The bound A of the ratio to G; proposals of the sampler are accepted with probability 1/A.
        ``"auto"``: the smallest that costs no more than ``epsilon`` allows.
    floor : float, default 1e-6
        The smallest ratio to G. The paper has 0, for which ``score_samples`` is −inf where the
        polynomial is negative.
    method : {"closed_form", "paper"}, default "closed_form"
        How moments are estimated. ``"paper"``: by algorithm Implicit-Moment-Estimation, and
        evaluated with auxiliary draws; for comparison, it needs far more rows.
    n_draws : int, optional
        Auxiliary draws of ``method="paper"`` per evaluation. By default the mean over them is
        exact where it is affordable, and otherwise over as many as the box takes.
    max_proposals : int, default 20_000_000
        The largest number of proposals of ``sample``, after which it raises an error.
    drop_outliers : bool, default True
        Leave out rows far from the bulk that have too few neighbours to be a component.
        ``stats_["outliers"]`` counts them.
    random_state : int, generator, np.random or None, default None
        Seed of all random numbers; also of :meth:`sample`.
    rows_per_block : int, optional
        Rows that are processed at a time; chosen by the memory they take by default.

    Attributes
    ----------
    center_ : array of shape (n_features,)
    variance_ : float, or array of shape (n_features, n_features) where a covariance is given
    degree_ : int
        Of the polynomial.
    clip_ : float
    normalizer_ : float
        The integral of the clipped ratio times G.
    acceptance_rate_ : float
        The probability that a proposal of ``sample`` is accepted, ``normalizer_ / clip_``.
    hypothesis_ : ClippedDensity
    notes_ : Notes
        Findings about the fit, which print as sentences.
    stats_ : dict
        ``radius``, the root mean square norm of the means in units of :math:`\sigma`;
        ``largest_norm``, a bound of the norms of all means whose weight is at least 0.02/k, and
        ``truncation_error``, a bound of what orders above the degree cost in total variation.
        Both hold with probability 0.999, also if the rows left out as
        outliers are those of a component. ``largest_norm`` is infinite, and the other 1, where
        rows are too few, where about 0.02/k of them or more were left out, or where they
        contradict the model. ``sampling_error``, a bound of what the coefficients cost that are
        estimated from finitely many rows, ``clip_error``, what clipping costs, and
        ``distance_bound``, the sum of the three errors, at most 1. ``normalizer_error``, a
        standard error; ``distance``, a lower bound of the total variation distance from the rows,
        up to chance;
        ``negative_rows``, the proportion of the rows at which the expansion is negative;
        ``outliers`` left out; ``scores`` of the degrees compared, minus their distances from
        the rows, and ``still_rising``, whether the highest of them was clearly better than the
        one before, by ``last_rise``; and after
        ``sample`` the ``proposals`` and ``acceptance_rate`` of the last call.
    n_features_in_, feature_names_in_ : number of columns; their names, where they have any

    See Also
    --------
    SphericalMixture : Spherical covariances, one variance or several.
    RegressionMixtureDensity : The joint density of x and y alone.
    implicitmoments.theory.mixture_density_bound : Rows by Theorem 4.16.

    Notes
    -----
    Rows are read in 3 + degree/2 passes and never held; comparing degrees takes more. The clip,
    ``negative_rows`` and ``distance`` are measured at no more than 262,144 of them.

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
        "hypothesis_": ClippedDensity,
        "_near": NotRequired[Near | None],
        "_constants": NotRequired[Floats | None],
    }
    variants: ClassVar[Mapping[Any, Any]] = {
        Expansion: Constant | JointExpansion | OrderByOrder,
        Reference: SphericalSpan | WhitenedSpan,
    }
    captions: ClassVar[Mapping[str, str]] = {
        **ExpandedDensity.captions,
        "spectra": "Variance of the rows beyond the noise along each principal direction. Filled: "
        "the directions along which the density is expanded.",
        "components": "Rows on two directions, coloured by log density. A density has no "
        "components.",
        "components_one_column": "Log density of the rows along the column.",
    }

    n_components: int = 2
    _: KW_ONLY
    variance: Any = None
    degree: int | str = "cv"
    epsilon: float = 0.05
    max_degree: int = 12
    clip: float | str = "auto"
    floor: float = 1e-6
    method: str = "closed_form"
    n_draws: int | None = None
    max_proposals: int = 20_000_000
    drop_outliers: bool = True
    random_state: RandomState = None
    rows_per_block: int | None = None

    def _check_parameters(self) -> None:
        self._check_expansion(METHODS, HIGHEST_DEGREE)
        if np.ndim(self.variance) != 2:
            check_variance(self.variance)

    def _least_rows(self, d: int) -> int:  # noqa: ARG002
        return max(2, self.n_components)

    def _learn(self, rows: Rows, seed: int, dropped: float = 0.0) -> RatioModel:
        """Reduce to the span of the means, about the Gaussian at the mean of the rows."""
        k = self.n_components
        how: dict[str, Any] = {"method": self.method, "n_draws": self.n_draws, "seed": seed}
        reference: SphericalSpan | WhitenedSpan
        if np.ndim(self.variance) == 2:
            factor = factor_covariance(self.variance, rows.source.n_features, rows.columns)
            rows = rows.mapped(linear=whitener_of(factor))
            span = find_span(rows, k, 1.0)
            reference = WhitenedSpan(span, factor)
        else:
            reference = span = find_span(rows, k, check_variance(self.variance))
        bound = Truncation(rows, span, k, seed, dropped)
        return RatioModel(reference, bound, cache(partial(expand, rows, span, k, **how)))

    def _learn_part(self, model: RatioModel, seed: int, rows: Rows) -> RatioModel:  # noqa: ARG002
        return self._learn(rows, seed)

    def _choose_degree(self, rows: Rows, model: RatioModel, seed: int) -> tuple[int, DegreeScores]:
        if not isinstance(self.degree, str):
            return int(self.degree), NOT_COMPARED
        if self.n_components == 1:
            return 2, NOT_COMPARED
        if self.method != "closed_form":
            closed: SphericalMixtureDensity = clone(self).set_params(method="closed_form")
            return closed._choose_degree(rows, closed._learn(rows, seed), seed)
        trial = partial(self._trial, rows, model, seed)
        found = candidate_densities(trial, self.max_degree, n_rows=rows.total, seed=seed)
        held_out = None
        if self.degree == "cv":
            fewest = self._least_rows(rows.n_features) + 1
            fit = partial(self._fit_fold, model, seed)
            held_out = held_out_excess(fit, rows, list(found), fewest=fewest, seed=seed)
        compared = compare_distances(found, rows, seed, held_out)
        return compared.best, compared

    def _store(self, model: RatioModel, density: ClippedDensity, like: Array) -> Notes:
        span, stats = model.bound.span, self.stats_
        self.hypothesis_, self.variance_ = density, model.reference.variance
        if np.ndim(self.variance_) == 2:
            self.variance_ = restore_matrices(self.variance_, self._constants)
        self.center_ = move_like(restore_columns(model.reference.center, self._constants), like)
        stats["radius"] = math.sqrt(span.squared_radius)
        stats["largest_norm"] = model.bound.largest_norm
        floor = second_moment_floor(len(span.spectrum), stats["rows_used"])
        stats |= spectrum_stats((span.spectrum - 1, floor, span.p, 2))
        notes = Notes()
        flat = smallest_variance(span, round(stats["rows_counted"]))
        if flat is not None:
            notes.append(Note("flat_direction", {"ratio": flat, "variance": span.variance}))
        if not self._differs():
            return Notes([*notes, *self._degree_notes()])
        values = {name: stats[name] for name in ("distance", "negative_rows", "degree", "radius")}
        values["usual"] = math.sqrt(math.log(max(self.n_components, 2)))
        return Notes([*notes, Note("density_far_from_rows", values)])

    def _log_density(self, X: Any, y: Any) -> RowFunction:  # noqa: ARG002
        constants, function = self._constant_values, self.hypothesis_.log_density
        if constants is not None:
            epsilon = precision_of(self.center_)
            function = partial(evaluate_varying, function, constants, epsilon, True)
        return RowFunction(function)

    def _sampled(self) -> tuple[ClippedDensity, Array]:
        return self.hypothesis_, self.center_

    def _title(self) -> str:
        return f"a density of degree {self.degree_} for a spherical mixture"

    def _component_view(self, rows: RowSample) -> Densities:
        basis = restore_columns(self.hypothesis_.span.basis, self._constant_values, 0.0)
        leading = np.arange(len(basis), 0, -1.0)[:, None] * basis
        logs = as_floats(self.score_samples(rows.given))
        return Densities(leading, as_floats(self.center_), logs, "log density")

    def _noise_free(self, rows: RowSample) -> bool:
        variance = np.mean(np.diagonal(np.atleast_2d(self.variance_)))
        return bool(variance <= LEAST_VARIANCE * rows.x.var(axis=0).sum())
