"""GaussianMixture: components of any covariance, without restarts."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NotRequired

import numpy as np

from implicitmoments.arrays import Floats, move_like
from implicitmoments.description import GaussianMixtureDescription, as_floats
from implicitmoments.mixture.estimator import MixtureEstimator
from implicitmoments.mixture.fit import GaussianFit, types_of
from implicitmoments.mixture.gaussians import (
    COVARIANCE_TYPES,
    CovarianceType,
    inverse_roots,
    precisions_of,
)
from implicitmoments.mixture.given import GIVEN, check_start, read_given
from implicitmoments.mixture.incremental import Stream
from implicitmoments.mixture.standard_errors import MixtureErrors
from implicitmoments.mixture.starts import Given, Options
from implicitmoments.mixture.view import View
from implicitmoments.rows import RandomState, Rows
from implicitmoments.rows.constants import precision_of, restore_columns, restore_matrices
from implicitmoments.rows.outliers import Near
from implicitmoments.search.noise import LAWS, is_gaussian
from implicitmoments.validation import check_flag, check_number, check_option, check_whole

STARTS = ("auto", "moments", "merge", "k-means++")
# scikit-learn's further names: starts that depend on random numbers, of which k-means++ is best
SCATTERED = ("kmeans", "random", "random_from_data")
TITLES = {
    "full": "Gaussians",
    "tied": "Gaussians with one covariance",
    "diag": "Gaussians with diagonal covariances",
    "tied_diag": "Gaussians with one diagonal covariance",
    "spherical": "spherical Gaussians",
    "tied_spherical": "spherical Gaussians with one variance",
}


@dataclass(eq=False, repr=False)  # scikit-learn compares and prints estimators
class GaussianMixture(GaussianMixtureDescription, MixtureEstimator):
    r"""Mixture of Gaussians :math:`\sum_i w_i N(\mu_i, C_i)` with covariances of any type.

    It has the parameters, attributes and methods of scikit-learn's class, and needs no restarts.
    Starts compete by likelihood on a sample of the rows: micro-components of k-means,
    merged greedily by the Gaussian likelihood; rows chosen by k-means++; and, where components
    share a covariance or are spherical, means decoded from implicit moments. Moves then split
    and merge components as long as the likelihood rises. EM on all rows ends the fit.

    Columns that are constant are left out, with a note; a row with another value there has
    density 0.

    Parameters
    ----------
    n_components : int or "auto", default 1
        The number k of components. ``"auto"`` starts from the number at which merging
        micro-components gives the least Bayesian information criterion, and splits and merges
        components while it falls.
    covariance_type : str, default "full"
        ``"full"``, one covariance for each component; ``"tied"``, one for all; ``"diag"`` and
        ``"tied_diag"``, diagonal ones; ``"spherical"`` and ``"tied_spherical"``, one variance for
        all columns; ``"auto"``, the one of the six with the least Bayesian information criterion.
    noise : {"gaussian", "student"}, default "gaussian"
        The distribution of the components. ``"student"`` is the multivariate t with degrees of
        freedom that are estimated, one number for all components: rows far from every component
        then count little. No rows are left out as outliers.
    tol : float, default 1e-7
        EM stops when the mean log-likelihood per row can rise by less than this.
    reg_covar : float, default 0
        Least variance along any direction, relative to the variances of the columns. Whatever it
        is, components do not collapse: one with too few rows for its covariance borrows from the
        pooled covariance; in a column whose values repeat at steps of h no variance is below
        :math:`h^2/2\pi`; and none is below what the precision of the rows resolves beside the
        mean.
    max_iter : int, default 500
        The largest number of EM iterations over all rows; 0 for what the search has found, or
        for the start that is given.
    n_init : int, default 1
        Number of complete fits with random numbers of their own, the best of which is kept.
    init_params : {"auto", "moments", "merge", "k-means++"}, default "auto"
        Which starts compete: all that apply, or one kind; ``"moments"`` beside k-means++.
        scikit-learn's ``"kmeans"``, ``"random"`` and ``"random_from_data"`` mean ``"k-means++"``.
    weights_init : array of shape (k,), optional
        Weights to start from. With any of the three, no other starts compete, and components
        stay in the order of the start.
    means_init : array of shape (k, n_features), optional
        Means to start from: EM on all rows starts exactly there, and no moves are tried.
    precisions_init : array, optional
        Precisions to start from, in the shape of ``precisions_``.
    n_moves : int, default 20
        The most moves that are tried on a sample; 0 for EM alone.
    max_components : int, default 50
        The largest number of components that ``"auto"`` tries.
    drop_outliers : bool, default True
        Leave out rows far from the bulk that have too few neighbours to be a component.
        ``stats_["outliers"]`` counts them.
    warm_start : bool, default False
        Let :meth:`fit` start EM on all rows from the last fit, if it has as many components and
        features, rather than from what is given, and try no moves; converged if the likelihood
        rises by less than ``tol`` between the two.
    errors : {"observed", "robust"} or None, default None
        Standard errors of all parameters: from the observed information, which assumes that the
        model is right; from the sandwich, which also holds where the noise has another law, for
        the parameters that the fit has in the limit of many rows; or none.
    verbose : int, default 0
        1 prints the starts and the result of a fit, 2 also the likelihood in EM on all rows.
    verbose_interval : int, default 10
        With ``verbose=2``, every how many iterations.
    random_state : int, generator, np.random or None, default None
        Seed of all random numbers; also of :meth:`sample`.
    rows_per_block : int, optional
        Rows that are processed at a time; chosen by the memory they take by default.

    Attributes
    ----------
    weights_ : array of shape (k,)
        In decreasing order.
    means_ : array of shape (k, n_features)
    covariances_ : array
        Of shape (k, d, d) for ``"full"``, (d, d) for ``"tied"``, (k, d) for ``"diag"``, (d,) for
        ``"tied_diag"``, (k,) for ``"spherical"``; a number for ``"tied_spherical"``.
        Of the multivariate t its scale matrices, which are smaller than its covariances by a
        factor :math:`(\nu - 2)/\nu` for :math:`\nu > 2`. Columns that are constant are left out of
        the fit, and have zeros; spherical types have the variance of the others.
    degrees_of_freedom_ : float
        Of Student's t, between 1 and 1,000; infinite for Gaussian noise.
    weight_errors_, mean_errors_, covariance_errors_ : arrays or None
        Standard errors, in the shapes of the parameters; NaN where a note says so.
    degrees_of_freedom_errors_ : float or None
        Standard error of ``degrees_of_freedom_``; NaN if they are at a bound, 0 for Gaussian
        noise.
    precisions_, precisions_cholesky_ : array
        Inverses of the covariances, and their Cholesky factors, in the same shapes; infinite for
        columns that are constant.
    covariance_type_ : str
        The type that was fitted.
    n_components_ : int
        The number k of components.
    converged_ : bool
        Whether iterations stopped by ``tol``.
    n_iter_ : int
        Iterations over all rows.
    lower_bound_ : float
        Mean log-likelihood per row, without outliers.
    lower_bounds_ : list of float
        The same after each step of EM.
    notes_ : Notes
        Findings about the fit, which print as sentences.
    stats_ : dict
        ``start`` that was best, and ``start_log_likelihood`` of each; ``n_moves`` that raised
        the likelihood, and ``n_moves_tried``; ``outliers`` left out; ``misclassification_rate``,
        expected; ``bic_by_n_components`` and ``bic_by_covariance_type`` of ``"auto"``, on the
        rows searched; ``mean_log_likelihood_history`` of EM; ``seconds_search`` and
        ``seconds_em``.
    n_features_in_, feature_names_in_ : number of columns; their names, where they have any

    See Also
    --------
    SphericalMixture : Spherical covariances, one variance or several.
    RegressionMixture : The lines, and the line of each row.
    implicitmoments.plot.components : Rows and components in two dimensions.

    Examples
    --------
    >>> import numpy as np
    >>> import implicitmoments as im
    >>> rng = np.random.default_rng(0)
    >>> long = rng.normal(size=(500, 2)) * [5.0, 0.5]
    >>> flat = rng.normal(size=(500, 2)) * [0.5, 5.0] + [0.0, 20.0]
    >>> X = np.vstack([long, flat])
    >>> model = im.GaussianMixture("auto", random_state=0).fit(X)
    >>> model.means_.shape, model.covariances_.shape
    ((2, 2), (2, 2, 2))
    >>> model.predict(X[:3]).tolist() == [model.predict(X[:1])[0]] * 3
    True
    >>> rows, components = model.sample(4)
    >>> rows.shape, model.score(rows) > -20
    ((4, 2), True)
    """

    n_components: int | str = 1
    _: KW_ONLY
    covariance_type: str = "full"
    noise: str = "gaussian"
    tol: float = 1e-7
    reg_covar: float = 0.0
    max_iter: int = 500
    n_init: int = 1
    init_params: str = "auto"
    weights_init: Any = None
    means_init: Any = None
    precisions_init: Any = None
    n_moves: int = 20
    max_components: int = 50
    drop_outliers: bool = True
    warm_start: bool = False
    errors: str | None = None
    verbose: int = 0
    verbose_interval: int = 10
    random_state: RandomState = None
    rows_per_block: int | None = None

    saved: ClassVar[Mapping[str, Any]] = {
        **GaussianMixtureDescription.saved,
        "_stream": NotRequired[Stream | None],
        "_view": NotRequired[View | None],
        "_near": NotRequired[Near | None],
        "_constants": NotRequired[Floats | None],
    }
    captions: ClassVar[Mapping[str, str]] = {
        "spectra": "",  # moments are at most a start
        **MixtureEstimator.captions,
    }

    @property
    def lower_bounds_(self) -> list[float]:
        """Mean log-likelihoods per row after each step of EM on all rows."""
        return list(self.stats_["mean_log_likelihood_history"][1:])

    @property
    def precisions_(self) -> Any:
        """Inverses of the covariances, in their shape; infinite for columns without variation."""
        return self._shaped(precisions_of(self._covariances())[0], math.inf)

    @property
    def precisions_cholesky_(self) -> Any:
        """Upper triangular roots of the precisions, or their square roots if diagonal."""
        covariances = self._covariances()
        if covariances.ndim == 2:
            return self._shaped(1 / np.sqrt(covariances), math.inf)
        return self._shaped(inverse_roots(covariances).transpose(0, 2, 1), math.inf)

    def _shaped(self, whole: Floats, constant: float = 0.0) -> Any:
        """Return covariances or their like (k, p, p) or (k, p) in the shape of scikit-learn.

        A column that the fit left out has the value ``constant``, and none beside others.
        """
        kind, constants = self._type, self._constant_values
        if kind.shape == "spherical":
            whole = whole[:, 0]
        elif kind.shape == "diag":
            whole = restore_columns(whole, constants, constant)
        else:
            whole = restore_matrices(whole, constants, constant)
        if kind.tied:
            whole = whole[0]
        if np.ndim(whole) == 0:
            return float(whole)
        return move_like(whole, self.means_)

    @property
    def _type(self) -> CovarianceType:
        return CovarianceType(self.covariance_type_)

    def _covariances(self) -> Floats:
        kind, k, own = self._type, self._k(), self._varying
        found = as_floats(self.covariances_)
        if kind.tied:
            found = np.repeat(found[None], k, axis=0)
        if kind.shape == "spherical":
            return np.repeat(found[:, None], len(own), axis=1)
        return found[:, own] if kind.shape == "diag" else found[:, own[:, None], own]

    def _store_covariances(self, whole: Floats, kind: CovarianceType) -> None:
        self.covariance_type_: str = kind.name
        self.covariances_: Any = self._shaped(whole)

    def _store_freedom(self, freedom: float) -> None:
        self.degrees_of_freedom_: float = freedom

    def _drops_outliers(self) -> bool:
        return self.drop_outliers and self.noise != "student"

    def _freedom(self) -> float:
        return self.degrees_of_freedom_

    def _store_shape_errors(self, found: MixtureErrors | None) -> None:
        self.covariance_errors_: Any = None if found is None else self._shaped(found.covariances)
        self.degrees_of_freedom_errors_: float | None = None if found is None else found.freedom

    def _n_parameters(self) -> int:
        student = bool(np.isfinite(self.degrees_of_freedom_))
        return self._type.n_parameters(self._k(), len(self._varying)) + student

    def _title(self) -> str:
        k, words = self._k(), TITLES[self.covariance_type_]
        if np.isfinite(self.degrees_of_freedom_):
            words = words.replace("Gaussians", "t distributions")
            return "one t distribution" if k == 1 else f"a mixture of {k:,} {words}"
        return "one Gaussian" if k == 1 else f"a mixture of {k:,} {words}"

    def _store_fit(self, found: GaussianFit, rows: Rows) -> None:
        before = self.lower_bound_ if self._last(rows) else None
        super()._store_fit(found, rows)
        if before is not None:
            self.converged_ |= abs(self.lower_bound_ - before) < self.tol
        if self.verbose:
            sys.stdout.write("\n".join(self._steps()) + "\n")

    def _options(self, rows: Rows) -> Options:
        k = None if self.n_components == "auto" else int(self.n_components)
        last = self._last(rows)
        given = last or self._given(k, rows)
        placed = given is not None and given.means is not None
        return Options(
            k=k,
            most=min(self.max_components, rows.kept),
            types=types_of(self.covariance_type_ if last else self.covariance_type),
            ridge=self.reg_covar,
            epsilon=precision_of(rows.first["x"]),
            n_moves=0 if placed else self.n_moves,
            n_init=1 if placed else self.n_init,
            starts="k-means++" if self.init_params in SCATTERED else self.init_params,
            final=self._final(),
            given=given,
            student=self.noise == "student",
        )

    def _steps(self) -> Iterator[str]:
        """Yield what a fit did, line by line."""
        for name, level in self.stats_["start_log_likelihood"].items():
            yield f"start {name}: mean log-likelihood {level:.6f} per row of a sample"
        yield f"moves: {self.stats_['n_moves']} of {self.stats_['n_moves_tried']} kept"
        if self.verbose > 1:
            for i, level in enumerate(self.stats_["mean_log_likelihood_history"]):
                if i % self.verbose_interval == 0:
                    yield f"EM step {i}: mean log-likelihood {level:.6f} per row"
        word = "converged" if self.converged_ else "did not converge"
        yield f"EM {word} in {self.n_iter_} passes: mean log-likelihood {self.lower_bound_:.6f}"

    def _last(self, rows: Rows) -> Given | None:
        """Return the last fit, if the user asks for it and it fits."""
        if not self.warm_start or self._going_on() or getattr(self, "means_", None) is None:
            return None
        same = self.covariance_type in (self.covariance_type_, "auto")
        shape = (self.n_components, rows.source.n_features)
        own = np.arange(shape[1]) if rows.columns is None else rows.columns
        places = np.flatnonzero(np.isin(self._varying, own))
        # a column that varies now, and did not, has no variance to start from
        if not same or self.means_.shape != shape or len(places) < len(own):
            return None
        last = self._mixture().take_columns(places)
        freedom = None if is_gaussian(last.freedom) else last.freedom
        return Given(last.weights, last.means, last.covariances, freedom)

    def _given(self, k: int | None, rows: Rows) -> Given | None:
        """Return the start that the user asks for, if any."""
        values = {name: getattr(self, name) for name in GIVEN if getattr(self, name) is not None}
        if not values:
            return None
        return read_given(values, self.covariance_type, k, rows.source.n_features, rows.columns)

    def _check_parameters(self) -> None:
        """Raise for a parameter that cannot be used."""
        super()._check_parameters()
        for name, least in (
            ("max_iter", 0),
            ("verbose", 0),
            ("verbose_interval", 1),
            ("n_init", 1),
        ):
            check_whole(name, getattr(self, name), least)
        check_number("reg_covar", self.reg_covar, 0.0)
        check_flag("warm_start", self.warm_start)
        check_option("noise", self.noise, LAWS)
        check_option("covariance_type", self.covariance_type, (*COVARIANCE_TYPES[::-1], "auto"))
        check_option("init_params", self.init_params, (*STARTS, *SCATTERED))
        check_start(self.init_params, self.n_components, self.covariance_type)
