"""SphericalMixture: the model of the paper, by the search of all mixtures of Gaussians."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar, NotRequired

import numpy as np

from implicitmoments.arrays import Floats, move_like
from implicitmoments.description import SphericalMixtureDescription
from implicitmoments.mixture.estimator import MixtureEstimator
from implicitmoments.mixture.fit import GaussianFit
from implicitmoments.mixture.gaussians import CovarianceType
from implicitmoments.mixture.incremental import Stream
from implicitmoments.mixture.standard_errors import MixtureErrors
from implicitmoments.mixture.starts import Options
from implicitmoments.mixture.view import View
from implicitmoments.moments.components import Components, component_stats
from implicitmoments.notes import InputError
from implicitmoments.rows import RandomState, Rows
from implicitmoments.rows.constants import precision_of, restore_columns
from implicitmoments.rows.outliers import Near
from implicitmoments.validation import (
    check_even_order,
    check_option,
    check_variance,
    check_whole,
)


@dataclass(eq=False, repr=False)  # scikit-learn compares and prints estimators
class SphericalMixture(SphericalMixtureDescription, MixtureEstimator):
    r"""Mixture of spherical Gaussians :math:`\sum_i w_i N(\mu_i, \sigma^2 I)`.

    Small groups of rows are merged, and moves split and merge components while the likelihood
    rises, as in :class:`GaussianMixture`, which fits components of other shapes. Where moves
    fail, with ``n_moves=0`` or a given ``order``, means are decoded from implicit moments of
    orders 4 and 6 (the setting of Theorem 4.19, by orthogonal decomposition), also when there are
    more components than features, and compete by likelihood. EM on all rows ends the fit.

    Rows may be in memory, on a device or in a source that is read block by block: the search
    holds samples of bounded size, and EM passes over all rows. Arrays are returned in the library
    of the rows and on their device.

    Parameters
    ----------
    n_components : int or "auto", default 2
        The number k of components. ``"auto"`` starts from the number at which merging
        micro-components gives the least Bayesian information criterion, and splits and merges
        components while it falls.
    variance : float, optional
        The common variance :math:`\sigma^2`, where it is known; estimated by default.
    covariance_type : {"tied_spherical", "spherical"}, default "tied_spherical"
        One variance for all components, or one each. The moments assume one for all.
    order : {2, 4, 6} or "auto", default "auto"
        The even order of the moment that is used. Components are decoded from it and from the
        moment of one and a half times that order. ``"auto"`` decodes them only where moves fail or
        ``n_moves=0``, for a number of components that was given, and chooses the order by it and
        the number of features.
    n_moves : int, default 20
        The most moves that are tried on a sample; 0 for EM alone.
    max_iter : int, default 500
        The largest number of EM iterations over all rows.
    tol : float, default 1e-7
        EM stops when the mean log-likelihood per row can rise by less than this.
    max_components : int, default 50
        The largest number of components that ``"auto"`` tries.
    drop_outliers : bool, default True
        Leave out rows far from the bulk that have too few neighbours to be a component.
        ``stats_["outliers"]`` counts them.
    errors : {"observed", "robust"} or None, default None
        Standard errors of all parameters: from the observed information, which assumes that the
        model is right; from the sandwich, which also holds where the noise has another law, for
        the parameters that the fit has in the limit of many rows; or none.
    random_state : int, generator, np.random or None, default None
        Seed of all random numbers; also of :meth:`sample`.
    rows_per_block : int, optional
        Rows that are processed at a time; chosen by the memory they take by default.

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
        The components decoded from the moments, if any, in standardised coordinates, with
        ``notes`` on what the moments leave open; see
        :meth:`implicitmoments.moments.ImplicitMoments.components`.
    notes_ : Notes
        Findings about the fit, which print as sentences.
    stats_ : dict
        ``start``, ``"moments"``, ``"merge"`` or ``"k-means++"``; ``resolved``, components that the
        moments resolve, and ``gap``, the k-th eigenvalue over its noise, where they were decoded;
        ``n_moves`` that raised the likelihood; ``rows_used``, and ``outliers`` left out;
        ``misclassification_rate``, expected;
        ``width_by_component``, the largest variance along a direction over that of spherical
        noise; ``spread_by_column``, standard deviations about the means; ``bic_by_n_components``
        of ``"auto"``, on the rows searched; ``groups`` fitted separately;
        ``mean_log_likelihood_history`` of EM; ``spectra``, ``noise_floor``, ``ranks`` and
        ``moment_orders`` of the moments; after ``partial_fit`` ``rows_seen``.
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

    n_components: int | str = 2
    _: KW_ONLY
    variance: float | None = None
    covariance_type: str = "tied_spherical"
    order: int | str = "auto"
    n_moves: int = 20
    max_iter: int = 500
    tol: float = 1e-7
    max_components: int = 50
    drop_outliers: bool = True
    errors: str | None = None
    random_state: RandomState = None
    rows_per_block: int | None = None

    saved: ClassVar[Mapping[str, Any]] = {
        **SphericalMixtureDescription.saved,
        "decoded_components_": NotRequired[Components | None],
        "_stream": NotRequired[Stream | None],
        "_view": NotRequired[View | None],
        "_near": NotRequired[Near | None],
        "_constants": NotRequired[Floats | None],
    }
    captions: ClassVar[Mapping[str, str]] = {
        "spectra": "Eigenvalues of the moment from which the components were read; filled: those "
        "kept. A kept eigenvalue at the noise level, or others far above it, suggest another "
        "number of components, or columns that differ in scale.",
        **MixtureEstimator.captions,
    }

    @property
    def _type(self) -> CovarianceType:
        return CovarianceType("tied_spherical" if np.ndim(self.variance_) == 0 else "spherical")

    def _covariances(self) -> Floats:
        return np.repeat(self._variances()[:, None], len(self._varying), axis=1)

    def _store_covariances(self, whole: Floats, kind: CovarianceType) -> None:
        self.variance_: Any = self._shaped(whole, kind)

    def _store_shape_errors(self, found: MixtureErrors | None) -> None:
        whole = None if found is None else found.covariances
        self.variance_errors_: Any = None if whole is None else self._shaped(whole, self._type)

    def _shaped(self, whole: Floats, kind: CovarianceType) -> Any:
        return float(whole[0, 0]) if kind.tied else move_like(whole[:, 0], self.means_)

    def _store_fit(self, found: GaussianFit, rows: Rows) -> None:
        decoded = found.components
        self.stats_ |= component_stats(decoded)
        if decoded is not None:  # a constant column is at the origin of the coordinates
            whole = partial(restore_columns, constants=rows.constants, fill=0.0)
            vectors, guesses = whole(decoded.vectors), whole(decoded.guesses)
            decoded = replace(decoded, vectors=vectors, guesses=guesses)
        self.decoded_components_ = decoded
        super()._store_fit(found, rows)

    def _options(self, rows: Rows) -> Options:
        return Options(
            k=None if self.n_components == "auto" else int(self.n_components),
            most=min(self.max_components, rows.kept),
            types=(self.covariance_type,),
            epsilon=precision_of(rows.first["x"]),
            n_moves=self.n_moves,
            starts="auto" if self.order == "auto" else "decoded",
            final=self._final(),
            variance=self.variance,
            order=None if self.order == "auto" else int(self.order) // 2,
        )

    def _n_parameters(self) -> int:
        known = self.variance is not None
        return self._type.n_parameters(self._k(), len(self._varying)) - known

    def _title(self) -> str:
        k = self._k()
        return "one spherical Gaussian" if k == 1 else f"a mixture of {k:,} spherical Gaussians"

    def _check_parameters(self) -> None:
        """Raise for a parameter that cannot be used."""
        super()._check_parameters()
        check_whole("max_iter", self.max_iter, 1)
        check_even_order(self.order, 6)
        check_option("covariance_type", self.covariance_type, ("tied_spherical", "spherical"))
        if check_variance(self.variance) is not None and self.covariance_type == "spherical":
            raise InputError(
                "variance_known_and_estimated",
                "`variance={variance:g}` is known, so there is none to estimate per component; "
                "use `variance=None` or `covariance_type='tied_spherical'`",
                variance=self.variance,
            )
