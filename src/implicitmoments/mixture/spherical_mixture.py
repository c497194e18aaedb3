"""SphericalMixture: the model of the paper, by the search of all mixtures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from sklearn.utils._param_validation import Interval

from implicitmoments.arrays import Floats
from implicitmoments.mixture.em import Sample, run_em
from implicitmoments.mixture.estimator import Fit, saved_attributes, tables_of
from implicitmoments.mixture.family import Family
from implicitmoments.mixture.gaussian_mixture import GaussianEstimator
from implicitmoments.mixture.gaussians import Gaussians
from implicitmoments.mixture.starts import at_least_k, decoded_start, micro_components
from implicitmoments.moments.components import Components
from implicitmoments.notes import InputError
from implicitmoments.picture_data import spectrum_stats
from implicitmoments.rows import Rows
from implicitmoments.validation import whole, words


@dataclass(eq=False, repr=False)  # scikit-learn compares and prints estimators
class SphericalMixture(GaussianEstimator):
    r"""Mixture of spherical Gaussians :math:`\sum_i w_i N(\mu_i, \sigma^2 I)`.

    The search is that of :class:`GaussianMixture`, which fits components of other shapes. With an
    ``order``, means are decoded from implicit moments (the setting of Theorem 4.19, by orthogonal
    decomposition), also when there are more components than features, and compete by likelihood
    with k-means groups as the start of the search. EM on all rows ends the fit.

    Rows may be in memory, on a device or in a source that is read block by block: the search
    holds samples of bounded size, and EM passes over all rows. Arrays are returned in the library
    of the rows and on their device.

    Parameters
    ----------
    n_components : int or "auto", default 2
        The number k of components. ``"auto"`` starts from the number at which merging
        micro-components gives the least Bayesian information criterion, and splits and merges
        components while it falls.
    max_components : int, default 50
        The largest number of components that ``"auto"`` tries.
    max_iter : int, default 500
        The largest number of EM iterations over all rows.
    tol : float, default 1e-7
        EM stops when the mean log-likelihood per row can rise by less than this.
    errors : {"observed", "robust"} or None, default None
        Standard errors of all parameters: from the observed information, which assumes that the
        model is right; from the sandwich, which also holds where the noise has another law, for
        the parameters that the fit has in the limit of many rows; or none.
    drop_outliers : bool, default True
        Leave out rows far from the bulk that have too few neighbours to be a component.
        ``stats_["outliers"]`` counts them.
    random_state : int, generator, np.random or None, default None
        Seed of all random numbers; also of :meth:`sample`.
    rows_per_block : int, optional
        Rows that are processed at a time; chosen by the memory they take by default.
    variance : float, optional
        The common variance :math:`\sigma^2`, where it is known; estimated by default.
    covariance_type : {"tied_spherical", "spherical"}, default "tied_spherical"
        One variance for all components, or one each. The moments assume one for all.
    order : 4 or "auto", default "auto"
        With 4, components are decoded from the moments of orders 4 and 6; with ``"auto"`` none
        are decoded.
    n_moves : int, default 40
        The most moves that a search makes on a sample; 0 for EM alone.

    Attributes
    ----------
    weights_ : array of shape (k,)
        In decreasing order.
    means_ : array of shape (k, n_features)
    variance_ : float, or array of shape (k,)
        One for all components, or one each; of the columns that are not constant. Constant ones
        are left out of the fit, with a note; a row with another value there has density 0.
    weight_errors_, mean_errors_, variance_errors_ : arrays or None
        Standard errors, in the shapes of the parameters; NaN where a note says so.
    n_components_ : int
        The number k of components.
    converged_ : bool
        Whether iterations stopped by ``tol``.
    n_iter_ : int
        Iterations over all rows.
    lower_bound_ : float
        Mean log-likelihood per row, without outliers.
    decoded_components_ : Components or None
        The components decoded from the moments, if any, in standardised coordinates of the
        columns that vary, with
        ``notes`` on what the moments leave open; see
        :meth:`implicitmoments.moments.ImplicitMoments.components`.
    notes_ : Notes
        Findings about the fit, which print as sentences.
    stats_ : dict
        ``start`` of the search; ``rows_used``, and ``outliers`` left out;
        ``misclassification_rate``, expected; ``bic_by_n_components`` of ``"auto"``, on the rows
        searched; ``mean_log_likelihood_history`` of EM; ``resolved``, ``spectra``,
        ``noise_floor``, ``ranks`` and ``moment_orders`` where moments were decoded; ``rows_seen``
        after ``partial_fit``.
    n_features_in_, feature_names_in_ : number of columns; their names, where they have any

    See Also
    --------
    GaussianMixture : Covariances of any shape.
    SphericalMixtureDensity : The density alone, also where components overlap.
    SphericalMixtureClusterer : Labels by a test of pairs of rows.

    Examples
    --------
    >>> import implicitmoments as im
    >>> X, truth = im.datasets.make_spherical_mixture(
    ...     5_000, 8, 5, radius=5.0, separation=4.0, random_state=0
    ... )
    >>> model = im.SphericalMixture(8, random_state=0).fit(X)
    >>> model.means_.shape, round(model.variance_, 1)
    ((8, 5), 1.0)
    >>> model.predict(X[:3]).shape, model.predict_proba(X[:3]).shape
    ((3,), (3, 8))
    >>> rows, components = model.sample(4)
    >>> rows.shape, model.score(rows) > -20
    ((4, 5), True)
    """

    _: KW_ONLY
    variance: float | None = None
    covariance_type: str = "tied_spherical"
    order: int | str = "auto"
    n_moves: int = 40

    parameters = ("weights", "means", "variance")
    saved = saved_attributes(parameters, decoded_components_=Components | None)
    tables = tables_of("Components", "weights", "variance", "means")
    allowed: ClassVar[Mapping[str, list[Any]]] = {
        **GaussianEstimator.allowed,
        "variance": [Interval(Real, 0, None, closed="neither"), None],
        "order": [whole(4, 4), words("auto")],
        "covariance_type": [words("tied_spherical", "spherical")],
    }
    captions: ClassVar[Mapping[str, str]] = {
        "spectra": "Eigenvalues of the moment; filled: of the components decoded. One of these at "
        "the noise level, or others far above it, suggest another number of components.",
        **GaussianEstimator.captions,
    }

    def _families(self, start: Any) -> list[Family]:  # noqa: ARG002
        return [Gaussians(self.covariance_type, variance=self.variance)]

    def _starts(self, sample: Sample, k: int, rng: Generator, stats: Any) -> Floats | None:
        """Return k-means groups, and components decoded from moments if there are any."""
        if self.order == "auto":
            return super()._starts(sample, k, rng, stats)
        groups = at_least_k(micro_components(sample, k, rng), k)
        sums = run_em(sample, groups[None], max_iter=30).sums
        stats["start"], decoded = "k-means++", decoded_start(sample, sums[0], rng)
        if decoded is None:
            return sums
        start, found = decoded
        stats |= {"start": "moments", "components": found, "resolved": int(found.resolved.sum())}
        if len(found.spectrum):
            stats |= spectrum_stats((found.spectrum, found.floor, k, 4))
        return np.stack([start, sums[0]])

    def _store(self, fit: Fit, rows: Rows, n_outliers: int) -> Floats:
        self.decoded_components_ = fit.search.stats.pop("components", None)
        return super()._store(fit, rows, n_outliers)

    def _title(self) -> str:
        k = self._k()
        return "one spherical Gaussian" if k == 1 else f"a mixture of {k:,} spherical Gaussians"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.order != "auto" and self.n_components == "auto":
            template = "`order={order}` needs a number of components; set `n_components`"
            raise InputError("order_needs_number", template, order=self.order)
        if self.variance is not None and self.covariance_type == "spherical":
            template = "`variance={variance:g}` needs `covariance_type='tied_spherical'`"
            raise InputError("variance_known_and_estimated", template, variance=self.variance)
