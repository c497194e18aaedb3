"""Density estimation for mixtures of linear regressions (Theorem 4.22)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar, NotRequired

import numpy as np

from implicitmoments.arrays import Array, Floats, move_like
from implicitmoments.density.clipped_density import ClippedDensity, Reference
from implicitmoments.density.degree import least_degree
from implicitmoments.density.expanded_density import (
    FAR,
    ExpandedDensity,
    RatioModel,
)
from implicitmoments.density.hermite_expansion import Expansion
from implicitmoments.density.regression_contraction import (
    ContractedExpansion,
    PaperExpansion,
    ShiftedExpansion,
    expand_lines,
)
from implicitmoments.density.regression_density import (
    RegressionDensity,
    RegressionFrame,
    find_bound,
    find_frame,
    intercepts_differ,
    noise_floor,
)
from implicitmoments.density.regression_expansion import (
    GradedExpansion,
    LabelConstant,
    LabelExpansion,
)
from implicitmoments.description import (
    RegressionMixtureDensityDescription,
    as_floats,
    column_names,
)
from implicitmoments.evaluation import RowFunction
from implicitmoments.moments.components import spectrum_stats
from implicitmoments.notes import Note, Notes
from implicitmoments.picture_data import Densities, RowSample
from implicitmoments.rows import RandomState, Rows, Source, Whitening
from implicitmoments.rows.normality import find_deviations, looks_standard
from implicitmoments.rows.outliers import Near
from implicitmoments.rows.sentinels import sentinel_notes
from implicitmoments.validation import (
    check_flag,
    check_number_or,
    check_positive_number,
    check_whole,
)

HIGHEST_DEGREE = 60  # of `degree`: with exact moments coefficients are accurate to 1e-12 there
MOST_ORDERS = 200  # degrees considered for epsilon
METHODS = ("closed_form", "contracted", "paper")
LOOSE = 5.0  # the mean of the errors of lines is two to five times that of their mixture
SLACK = 5.0  # standard errors by which the noise may exceed the spread of labels


@dataclass(eq=False, repr=False)  # scikit-learn compares and prints estimators
class RegressionMixtureDensity(RegressionMixtureDensityDescription, ExpandedDensity):
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
    noise : float, optional
        The standard deviation of :math:`\nu`; estimated from the moments by default. It determines
        how many orders matter, and enters the expansion of ``"contracted"`` and ``"paper"``.
    fit_intercept : bool, default True
        Whether components have intercepts of their own. If not, all lines meet at the mean of x,
        and odd orders are 0 and left out; with ``whiten=False`` they meet at the origin.
    whiten : bool, default True
        Estimate the mean and covariance of x. If not, x is assumed to be from N(0, I).
    max_slope : float, optional
        The paper's B: a bound on the standard deviations of :math:`\beta_i \cdot x`, which for x
        from N(0, I) are the norms of the :math:`\beta_i`. Estimated from the rows by default.
    label_scale : float or "auto", default "auto"
        The standard deviation of G along the residual of y, over that of the rows. ``"auto"``:
        that of the steepest line, or 1 if this is more. In this unit the expansion of a line
        converges if :math:`\|\beta\|^2 + \sigma^2/2 < 1`.
    degree : int, "cv" or "auto", default "cv"
        Of the polynomial. Its total degree in (x, y). ``"auto"``: what the bound on the truncation
        error requires for ``epsilon``, or 2 where there is no bound. ``"cv"``: the even degree
        with the highest held-out likelihood in folds, among those up to two above that,
        and higher ones while it increases by more than its standard error.
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
    method : {"closed_form", "contracted", "paper"}, default "closed_form"
        How moments are estimated. ``"closed_form"`` averages the coefficients of F/G over the
        rows, on subspaces that they share. ``"contracted"`` estimates moments of the regressors
        to order ``degree`` by the closed form, and contracts them by the sum of the proof;
        ``"paper"`` by algorithm Implicit-Moment-Estimation. With intercepts both estimate
        coefficients order by order.
    n_draws : int, optional
        Auxiliary draws of ``method="paper"`` per evaluation. By default the mean over them is
        exact where it is affordable, and otherwise over as many as the box takes.
    max_proposals : int, default 20_000_000
        The largest number of proposals of ``sample``, after which it raises an error.
    drop_outliers : bool, default True
        Leave out rows far from the bulk that have too few neighbours to be a component;
        ``stats_["outliers"]`` counts them.
    random_state : int, generator, np.random or None, default None
        Seed of all random numbers; also of :meth:`sample`.
    rows_per_block : int, optional
        Rows that are processed at a time; chosen by the memory they take by default.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Of the least-squares line, at which G is centred: the mean of the regressors.
    intercept_ : float
    noise_ : float
        Its standard deviation, given or estimated: what slopes and intercepts leave of residuals.
    degree_ : int
        Of the polynomial.
    clip_ : float
    normalizer_ : float
        The integral of the clipped ratio times G.
    acceptance_rate_ : float
        The probability that a proposal of ``sample`` is accepted, ``normalizer_ / clip_``.
    hypothesis_ : RegressionDensity
    notes_ : Notes
        Findings about the fit, which print as sentences.
    stats_ : dict
        ``noise_share``, the variance of the noise over that of y about one line;
        ``label_scale`` as used; ``truncation_error``, a bound on the distance that orders above
        the degree would make up, and ``degree_for_epsilon``, the degree that it requires, or None
        above 200. The bound holds with probability 0.999 if no line is longer than
        ``longest_line``, the root of :math:`\|\beta\|^2 + c^2` about the least-squares line; it is
        infinite where the expansion of such a line diverges, and where no such lines with this
        noise have residuals like those of the rows. ``weight_beyond`` is the weight of
        longer lines that the rows do not exclude, ``truncation_estimate`` the mean error of lines
        as estimated; ``sampling_error``, a bound of what estimated coefficients cost,
        ``clip_error``, what clipping costs, and ``distance_bound``, the sum of these two and of
        the bound above, at most 1; ``intercepts_differ``; ``normalizer_error``, a standard error;
        ``distance``, a lower bound of the total variation distance from the rows, up to chance;
        ``negative_rows``, the proportion of the rows at which the expansion is negative;
        ``outliers`` left out; ``scores`` of the degrees compared, and ``still_rising``, whether
        the highest was clearly better than the one before, by ``last_rise``; ``n_coefficients``;
        and after ``sample`` the ``proposals`` and ``acceptance_rate`` of the last call.
    n_features_in_, feature_names_in_ : number of columns; their names, where they have any

    See Also
    --------
    RegressionMixture : The lines, and the line of each row.
    SphericalMixtureDensity : The density alone, also where components overlap.
    implicitmoments.theory.regression_density_bound : Rows by Theorem 4.22.

    Notes
    -----
    Rows are read in 11 + degree/4 passes and never held; comparing degrees takes more. The clip,
    ``negative_rows`` and ``distance`` are measured at no more than 262,144 of them.

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
        "hypothesis_": RegressionDensity,
        "_near": NotRequired[Near | None],
    }
    variants: ClassVar[Mapping[Any, Any]] = {
        **dict.fromkeys(
            (Expansion, LabelExpansion),
            ContractedExpansion
            | GradedExpansion
            | LabelConstant
            | PaperExpansion
            | ShiftedExpansion,
        ),
        Reference: RegressionFrame,
    }
    captions: ClassVar[Mapping[str, str]] = {
        **ExpandedDensity.captions,
        "spectra": "Variance of the slopes along each direction of the inputs. Filled: the "
        "directions along which the density is expanded.",
        "components": "Rows around the least-squares line, coloured by log density. A density has "
        "no lines of its own.",
    }

    n_components: int = 2
    _: KW_ONLY
    noise: float | None = None
    fit_intercept: bool = True
    whiten: bool = True
    max_slope: float | None = None
    label_scale: float | str = "auto"
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
        check_flag("fit_intercept", self.fit_intercept)
        if self.noise is not None:  # without noise (x, y) has no density
            check_positive_number("noise", self.noise)
        check_flag("whiten", self.whiten)
        if self.max_slope is not None:
            check_positive_number("max_slope", self.max_slope)
        check_number_or("label_scale", self.label_scale, ("auto",), 0.75, 10.0)

    def _least_rows(self, d: int) -> int:
        return max(d + 2, self.n_components)  # for a line and the spread about it

    def _learn(self, rows: Rows, seed: int, dropped: float) -> RatioModel:
        """Standardise rows about the least-squares line, and reduce to the span of the slopes."""
        frame, spectrum, noise = self._find_frame(rows)
        k, spread, known = self.n_components, frame.scale, self.noise is not None
        differ = self.fit_intercept and k > 1 and intercepts_differ(frame.rows(rows), 1.0)
        bound, noise = find_bound(
            frame,
            rows,
            noise,
            seed,
            known=known,
            shifted=self.fit_intercept if known else differ,
            max_slope=self.max_slope,
            light=self.epsilon / 2,
            scale=None if isinstance(self.label_scale, str) else float(self.label_scale),
            dropped=dropped,
        )
        stats = {
            "noise": spread * math.sqrt(min(noise, 1.0)),
            "noise_share": noise,
            "label_scale": bound.scale,
            "intercepts_differ": differ,
            "longest_line": bound.longest * spread,
            "weight_beyond": bound.weight_beyond,
        }
        if k > 1:
            floor = noise_floor(spectrum, rows.total)
            stats |= spectrum_stats((spectrum, floor, len(frame.basis), 2))
        return replace(self._at_scale(bound, rows, frame, noise, seed), stats=stats)

    def _learn_part(self, model: RatioModel, seed: int, rows: Rows) -> RatioModel:
        frame, _, noise = self._find_frame(rows)
        return self._at_scale(model.bound, rows, frame, noise, seed)

    def _find_frame(self, rows: Rows) -> tuple[RegressionFrame, Floats, float]:
        """Return the frame, the variances of the slopes, and that of the noise in its unit."""
        centred = not (self.whiten or self.fit_intercept)
        frame, spectrum = find_frame(rows, self.n_components, whiten=self.whiten, centred=centred)
        if self.noise is not None:
            return frame, spectrum, (self.noise / frame.scale) ** 2
        # what the mean of |β'|², a trace, leaves of 1
        return frame, spectrum, max(1.0 - float(np.sum(spectrum)), 0.0)

    def _at_scale(
        self, bound: Any, rows: Rows, frame: RegressionFrame, noise: float, seed: int
    ) -> RatioModel:
        """Return the model with labels at the scale of a bound."""
        frame = replace(frame, scale=bound.scale * frame.scale)
        how: dict[str, Any] = {"method": self.method, "intercepts": self.fit_intercept}
        how |= {"excess": min(noise, 1.0) / bound.scale**2 - 1, "n_draws": self.n_draws}
        given = frame.rows(rows), frame.basis, self.n_components
        return RatioModel(frame, bound, partial(expand_lines, *given, seed=seed, **how))

    def _look_at_rows(self, rows: Rows) -> Notes:
        """Note inputs that are not from the Gaussian they are assumed to be from."""
        whitening = Whitening.of(rows, reduce=True)
        names = column_names(self)
        deviations, notes = find_deviations(rows, whitening, names), list[Note]()
        if deviations is not None:
            notes = [Note("moments_of_inputs_not_gaussian", deviations)]
            notes += sentinel_notes(rows, names)
        if not (self.whiten or looks_standard(whitening, rows.total)):
            notes.append(Note("inputs_not_standard"))
        return Notes(notes)

    def _store(self, model: RatioModel, density: ClippedDensity, like: Array) -> Notes:
        frame, stats = model.reference, self.stats_
        expansion: Any = density.expansion
        self.hypothesis_ = RegressionDensity(density, expansion)
        slope = frame.whitener @ frame.slope
        self.coef_ = move_like(slope, like)
        self.intercept_ = float(frame.intercept - frame.mean @ slope)
        self.noise_ = float(stats["noise"] if self.noise is None else self.noise)
        stats["n_coefficients"] = getattr(expansion, "n_coefficients", None)
        stats["truncation_estimate"] = model.bound.estimate(self.degree_)
        stats["degree_for_epsilon"] = least_degree(model.bound, self.epsilon, MOST_ORDERS)
        return self._findings_of_fit(contradicted=model.bound.contradicted)

    def _findings_of_fit(self, *, contradicted: bool) -> Notes:
        """Return notes on possible errors of the density."""
        stats, n = self.stats_, self.stats_["rows_counted"]
        share, noise = stats["noise_share"], self.noise or 0.0
        values = {
            "distance": stats["distance"],
            "negative_rows": stats["negative_rows"],
            "degree": stats["degree"],
            "share": min(share, 1.0),
            "n": round(n),
            "epsilon": self.epsilon,
            "noise": self.noise_,
            "spread": noise / math.sqrt(share or 1.0),
            "longest": stats["longest_line"],
            "coefficients": stats["n_coefficients"] or 0,
            "bound": stats["truncation_error"],
            "needed": stats["degree_for_epsilon"] or MOST_ORDERS,
        }
        found = {
            "noise_too_large": noise and share > 1 + SLACK * math.sqrt(2 / n),
            "too_few_rows_for_degree": values["coefficients"] > n,
            "truncation_large": stats["truncation_estimate"] > LOOSE * FAR,  # Erratum 6
            "residuals_contradict_lines": contradicted,
            "regression_density_far_from_rows": self._differs(),
        }
        notes = Notes(Note(code, values) for code, present in found.items() if present)
        return notes if self._differs() else Notes([*notes, *self._degree_notes()])

    def _log_density(self, X: Any, y: Any) -> RowFunction:
        if y is not None or (isinstance(X, Source) and "y" in X.first()):
            return RowFunction(self.hypothesis_.log_density, labelled=True)
        return RowFunction(self.hypothesis_.log_marginal)

    def _sampled(self) -> tuple[ClippedDensity, Array]:
        return self.hypothesis_.density, self.coef_

    def sample_y(self, X: Any, n_samples: int = 1, random_state: RandomState = None) -> Any:
        """Draw labels given points, by inversion of their conditional distribution.

        In main memory, whatever the device of the points.

        Parameters
        ----------
        X : array of shape (n_points, n_features), data frame, or Source
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

    def _component_view(self, rows: RowSample) -> Densities:
        frame = self.hypothesis_.frame
        directions = frame.basis @ frame.whitener.T
        logs = as_floats(self.score_samples(rows.given, rows.y))
        residuals = rows.y - rows.x @ as_floats(self.coef_) - float(self.intercept_)
        center = rows.x.mean(axis=0)
        what = "log density of x and {target}"
        return Densities(directions[:1], center, logs, what, residuals=residuals)
