"""GaussianMixture: components of six covariance types, Gaussian or with heavy tails."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import assert_all_finite, check_is_fitted

from implicitmoments.arrays import Array, Floats, index_like, move_like, to_numpy
from implicitmoments.estimator import FEATURES, as_floats, as_like
from implicitmoments.evaluation import RowFunction
from implicitmoments.mixture.estimator import (
    SAMPLE_ROWS,
    Fit,
    MixtureEstimator,
    saved_attributes,
    tables_of,
)
from implicitmoments.mixture.family import Family, Parameters
from implicitmoments.mixture.gaussians import COVARIANCE_TYPES, Gaussians
from implicitmoments.mixture.students import Students, draw_scales
from implicitmoments.notes import InputError
from implicitmoments.picture_data import DENSITY_AXIS, OVERLAP, Distribution, Means, RowSample
from implicitmoments.rows import Rows, leave_out_outliers
from implicitmoments.validation import (
    RandomState,
    check_enough_rows,
    check_option,
    check_whole,
    number,
    whole,
    words,
)


class GaussianEstimator(MixtureEstimator, DensityMixin, BaseEstimator):
    """What mixtures of Gaussians of any type have in common."""

    answers: ClassVar[Mapping[str, str]] = {**MixtureEstimator.answers, "labels": "predict"}
    captions: ClassVar[Mapping[str, str]] = {
        "components": "Rows by component, in the plane in which the means differ most." + OVERLAP,
        "components_of_one": "Rows and their mean, on the two directions of largest variance.",
        "components_one_column": "Histogram by component, and the density of the mixture.",
        "fit": "Log densities of rows, and of rows drawn from the model: alike if it is right.",
    }

    def _freedom(self) -> float:
        """Return the degrees of freedom; infinite for Gaussians."""
        return getattr(self, "degrees_of_freedom_", math.inf)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit the mixture and return the most probable component of every row.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`.

        Returns
        -------
        array of int of shape (n_samples,)
        """
        return self.fit(X, y, sample_weight=sample_weight).predict(X)

    def _select_rows(self, rows: Rows) -> tuple[Rows, int]:
        k = 1 if self.n_components == "auto" else int(self.n_components)
        check_enough_rows(rows.n, k)
        if rows.n <= SAMPLE_ROWS:
            rows = rows.merged()
        drop = self.drop_outliers and getattr(self, "noise", "") != "student"
        found = leave_out_outliers(rows, k, drop=drop)
        kept = replace(found.rows.as_given(), wide=True)
        self._near = found.rule
        check_enough_rows(found.n_outliers + round(max(kept.kept, kept.total)), k)
        return kept, found.n_outliers

    def _covariances(self) -> Floats:
        """Return covariances (k, d, d), or variances (k, d) of the columns if diagonal."""
        found, family = self._mixture.values["covariances"], self._mixture.base
        k, d = self._k(), self.n_features_in_
        if family.name == "spherical":
            found = found[:, None]
        return np.broadcast_to(found, (k, d, d) if family.shape == "full" else (k, d))

    @property
    def _scales(self) -> Floats:
        """The scale of each column in each component, (k, d), of Gaussians their deviations."""
        found = self._covariances()
        return np.sqrt(np.diagonal(found, axis1=1, axis2=2) if found.ndim == 3 else found)

    def _prediction(self) -> RowFunction:
        return self._function("most_probable")

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each component given each row.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), data frame, path, Dask or Table

        Returns
        -------
        array of shape (n_samples, n_components)
            Responsibilities; rows sum to 1.
        """
        check_is_fitted(self)
        return self._function("probabilities").evaluate(self, X)

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> tuple[Any, Any]:
        """Draw rows from the mixture.

        Parameters
        ----------
        n_samples : int
        random_state : int, generator or None; by default that of the estimator

        Returns
        -------
        X : array of shape (n_samples, n_features)
        labels : array of int of shape (n_samples,)
            The component of each row, in increasing order as in scikit-learn.
        """
        rng = np.random.default_rng(self._seed(random_state))
        check_whole("n_samples", n_samples, 1)
        family, mixture = self._mixture.base, self._mixture
        sizes = rng.multinomial(n_samples, mixture.weights / mixture.weights.sum())
        labels = np.repeat(np.arange(len(sizes)), sizes)
        noise = rng.normal(size=(n_samples, family.d))
        noise *= draw_scales(self._freedom(), n_samples, rng)
        X = family.draw(mixture.parameters, labels, noise)
        return move_like(X, self.means_), index_like(labels, self.means_)

    def _component_view(self, rows: RowSample) -> Means:
        labels = np.asarray(to_numpy(self.predict(rows.given)))
        variances, shown = self._scales**2, None
        if self._mixture.base.shape != "spherical":
            shown = self._covariances()
            shown = shown if shown.ndim == 3 else shown[..., None] * np.eye(shown.shape[1])
        weights, means = as_floats(self.weights_), as_floats(self.means_)
        return Means(weights, means, variances.mean(axis=1), labels, shown, self._freedom())

    def _fit_view(self, rows: RowSample) -> Distribution:
        points = (rows.given, self.sample(len(rows.x))[0])
        logs, drawn = (as_floats(self.score_samples(each)) for each in points)
        return Distribution("Log densities of rows", DENSITY_AXIS, logs, drawn)

    def _noise_free(self, rows: RowSample) -> bool:
        largest = (self._scales**2).max(axis=0)  # of a column; 0 of those left out of the fit
        return bool(np.any((largest > 0) & (largest <= 1e-5 * rows.x.var(axis=0))))


@dataclass(eq=False, repr=False)  # scikit-learn compares and prints estimators
class GaussianMixture(GaussianEstimator):
    r"""Mixture of Gaussians :math:`\sum_i w_i N(\mu_i, C_i)` with covariances of any type.

    It has the parameters, attributes and methods of scikit-learn's class, and needs no restarts.
    On a sample of the rows, small groups of neighbours are merged by their likelihood until k are
    left; moves then split and merge components as long as the likelihood rises, and where they
    leave doubt, independent searches are crossed with each other. EM on all rows ends the fit.

    Columns that are constant are left out, with a note; a row with another value there has
    density 0.

    Parameters
    ----------
    n_components : int or "auto", default 1
        The number k of components. ``"auto"`` starts from the number at which merging
        micro-components gives the least Bayesian information criterion, and splits and merges
        components while it falls.
    max_components : int, default 50
        The largest number of components that ``"auto"`` tries.
    max_iter : int, default 500
        The largest number of EM iterations over all rows; 0 for what the search has found, or
        for the start that is given.
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
    covariance_type : str, default "full"
        ``"full"``, one covariance for each component; ``"tied"``, one for all; ``"diag"`` and
        ``"tied_diag"``, diagonal ones; ``"spherical"`` and ``"tied_spherical"``, one variance for
        all columns; ``"auto"``, the one of the six with the least Bayesian information criterion.
    noise : {"gaussian", "student"}, default "gaussian"
        The distribution of the components. ``"student"`` is the multivariate t with degrees of
        freedom that are estimated, one number for all components: rows far from every component
        then count little. No rows are left out as outliers.
    reg_covar : float, default 0
        Least variance along any direction, relative to the variances of the columns. Whatever it
        is, components do not collapse: one with too few rows for its covariance borrows from the
        pooled covariance; in a column whose values repeat at steps of h no variance is below
        :math:`h^2/2\pi`; and none is below what the precision of the rows resolves beside the
        mean.
    n_init : int, default 1
        Number of complete searches with random numbers of their own, the best of which is kept.
    init_params : {"auto", "k-means++"}, default "auto"
        Where the search starts: merged groups of neighbours, or k-means groups. scikit-learn's
        ``"kmeans"``, ``"random"`` and ``"random_from_data"`` mean ``"k-means++"``.
    weights_init : array of shape (k,), optional
        Weights to start from. With any of the three, no other starts compete, and components
        stay in the order of the start.
    means_init : array of shape (k, n_features), optional
        Means to start from: EM on all rows starts exactly there, and no moves are tried.
    precisions_init : array, optional
        Precisions to start from, in the shape of ``precisions_``.
    n_moves : int, default 40
        The most moves that a search makes on a sample; 0 for EM from k-means groups alone.
    warm_start : bool, default False
        Let :meth:`fit` start EM on all rows from the last fit, if it has as many components and
        features, rather than from what is given, and try no moves; converged if the likelihood
        rises by less than ``tol`` between the two.
    verbose : int, default 0
        1 prints the starts and the result of a fit, 2 also the likelihood in EM on all rows.
    verbose_interval : int, default 10
        With ``verbose=2``, every how many iterations.

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
        ``start`` of the search; ``outliers`` left out; ``misclassification_rate``, expected;
        ``bic_by_n_components`` and ``bic_by_covariance_type`` of ``"auto"``, on the rows
        searched; ``mean_log_likelihood_history`` of EM; ``seconds_search`` and ``seconds_em``;
        ``rows_seen`` after ``partial_fit``.
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
    reg_covar: float = 0.0
    n_init: int = 1
    init_params: str = "auto"
    weights_init: Any = None
    means_init: Any = None
    precisions_init: Any = None
    n_moves: int = 40
    warm_start: bool = False
    verbose: int = 0
    verbose_interval: int = 10

    parameters = ("weights", "means", "covariances", "degrees_of_freedom")
    saved = saved_attributes(parameters, covariance_type_=str)
    tables = tables_of("Components", "weights", "means") | {"Scales": {FEATURES: "_scales"}}
    allowed: ClassVar[Mapping[str, list[Any]]] = {
        **GaussianEstimator.allowed,
        "covariance_type": [words(*COVARIANCE_TYPES, "auto")],
        "reg_covar": [number(0.0)],
        "max_iter": [whole(0)],
        "n_init": [whole(1)],
        "init_params": [words("auto", "k-means++", "kmeans", "random", "random_from_data")],
        "warm_start": ["boolean"],
        "verbose": [whole(0)],
        "verbose_interval": [whole(1)],
    }

    @property
    def lower_bounds_(self) -> list[float]:
        """Mean log-likelihoods per row after each step of EM on all rows."""
        return list(self.stats_["mean_log_likelihood_history"][1:])

    @property
    def precisions_(self) -> Any:
        """Inverses of the covariances, in their shape; infinite for columns without variation."""
        return self._roots(squared=True)

    @property
    def precisions_cholesky_(self) -> Any:
        """Upper triangular roots of the precisions, or their square roots if diagonal."""
        return self._roots(squared=False)

    def _roots(self, *, squared: bool) -> Any:
        """Return roots of the precisions, or the precisions."""
        if self.covariance_type_ not in ("full", "tied"):
            variances = as_floats(self.covariances_)
            with np.errstate(divide="ignore"):
                return as_like(variances ** (-1.0 if squared else -0.5), self.means_)
        covariances = self._mixture.values["covariances"]
        flat = np.diagonal(covariances, axis1=-2, axis2=-1)[..., None] == 0
        flat = flat & np.eye(covariances.shape[-1], dtype=bool)
        lower = np.linalg.inv(np.linalg.cholesky(covariances + flat))
        upper = lower.swapaxes(-1, -2)
        return as_like(np.where(flat, math.inf, upper @ lower if squared else upper), self.means_)

    def _families(self, start: Any) -> list[Family]:
        types: tuple[str, ...] = (self.covariance_type,)
        if self.covariance_type == "auto":  # a warm start keeps the type
            types = COVARIANCE_TYPES if start is None else (self.covariance_type_,)
        gaussians = [Gaussians(kind, ridge=self.reg_covar) for kind in types]
        return [Students.of(each) if self.noise == "student" else each for each in gaussians]

    def _start(self, rows: Rows) -> Parameters | None:
        alike = self.warm_start and hasattr(self, "stats_")
        alike = alike and self.covariance_type in ("auto", self.covariance_type_)
        alike = alike and self.n_components in ("auto", self._k())
        # a column that did not vary in the last fit has no variance to start from
        if not (alike and self._scales.shape[1] == rows.n_features and np.all(self._scales > 0)):
            return checked_start(self, rows.n_features)
        found = {name: as_floats(getattr(self, f"{name}_")) for name in self.parameters}
        return {name: part for name, part in found.items() if np.all(np.isfinite(part))}

    def _store(self, fit: Fit, rows: Rows, n_outliers: int) -> Floats:
        if self.warm_start and hasattr(self, "stats_"):
            unchanged = abs(fit.level - self.lower_bound_) < self.tol
            course = fit.course._replace(converged=fit.course.converged or unchanged)
            fit = fit._replace(course=course)
        self.covariance_type_ = fit.search.sample.family.name
        sums = super()._store(fit, rows, n_outliers)
        if self.verbose:
            history = self.stats_["mean_log_likelihood_history"]
            steps = range(0, len(history), self.verbose_interval) if self.verbose > 1 else ()
            for i in steps:
                sys.stdout.write(f"EM step {i}: mean log-likelihood {history[i]:.6f} per row\n")
            word = "converged" if self.converged_ else "did not converge"
            sys.stdout.write(f"EM {word} in {self.n_iter_} passes: {history[-1]:.6f} per row\n")
        return sums

    def _title(self) -> str:
        one = "t distribution" if np.isfinite(self.degrees_of_freedom_) else "Gaussian"
        k, kind = self._k(), self.covariance_type_
        return f"one {one}" if k == 1 else f"a mixture of {k:,} {one}s of covariance type {kind}"


def checked_start(model: GaussianMixture, d: int) -> Parameters | None:
    """Return the start that the user gave for d columns, if any."""
    k, kind = model.n_components, model.covariance_type
    own: Any = {"diag": (d,), "spherical": ()}.get(kind.removeprefix("tied_"), (d, d))
    shape = own if kind.startswith("tied") else (k, *own)
    shapes: dict[str, Any] = {"weights": (k,), "means": (k, d), "precisions": shape}
    given = {name: getattr(model, f"{name}_init") for name in shapes}
    found = {name: as_floats(value) for name, value in given.items() if value is not None}
    if (found and "auto" in (k, kind)) or (model.init_params != "auto" and k == "auto"):
        template = "`n_components={k!r}`, `covariance_type={kind!r}` and `init_params={init!r}`: "
        template += "a start needs a number of components, and given parameters a covariance type"
        raise InputError("init_with_auto", template, k=k, kind=kind, init=model.init_params)
    if "precisions" in found:  # infinite for columns that do not vary, which are left out
        found["precisions"] = np.where(np.isposinf(found["precisions"]), 1.0, found["precisions"])
    for name, array in found.items():
        if array.shape != shapes[name]:
            template = "`{name}_init` has the shape {shape}, expected {expected}"
            values = {"shape": array.shape, "expected": shapes[name]}
            raise InputError("init_of_wrong_shape", template, name=name, **values)
        assert_all_finite(array, input_name=f"{name}_init")
    weights = found.get("weights", np.ones(1))
    if weights.min() < 0 or abs(weights.sum() - 1) > 1e-6:
        raise InputError("weights_not_a_distribution", "`weights_init` must be ≥ 0 and sum to 1")
    if "precisions" in found:
        size = d if own == (d, d) else 1  # numbers are matrices of size 1
        matrices = found.pop("precisions").reshape(-1, size, size)
        transposed = matrices.swapaxes(1, 2)
        if not np.allclose(matrices, transposed) or np.linalg.eigvalsh(matrices).min() <= 0:
            template = "`precisions_init` must be symmetric and positive definite"
            raise InputError("precisions_not_positive", template)
        found["covariances"] = np.linalg.inv(matrices).reshape(shape)
    return found or None


class InitialParameters(NamedTuple):
    """Means (k, d), weights (k,) and precisions of a mixture, in the shapes of scikit-learn."""

    means: Array
    weights: Array
    precisions: Array


def start(
    X: Any,
    n_components: int | str,
    *,
    covariance_type: str = "full",
    sample_weight: Any = None,
    random_state: RandomState = None,
) -> InitialParameters:
    """Return means, weights and precisions from which other libraries can start.

    They are those of a fit of :class:`GaussianMixture`, which needs no restarts.

    Parameters
    ----------
    X : array (n_samples, n_features), data frame, path, iterator of blocks, Dask or Table
    n_components : int or "auto"
        The number k of components; ``"auto"`` for the least Bayesian information criterion.
    covariance_type : {"full", "tied", "diag", "spherical"}, default "full"
        Type of the precisions. Use ``"spherical"`` for k-means.
    sample_weight : array of shape (n_samples,), optional
        Number of times each row counts.
    random_state : int, generator, np.random or None, default None
        Seed of all random numbers.

    Returns
    -------
    means : array of shape (k, n_features)
    weights : array of shape (k,)
        In decreasing order.
    precisions : array
        Inverses of the covariances: of shape (k, d, d) for ``"full"``, (d, d) for ``"tied"``,
        (k, d) for ``"diag"``, (k,) for ``"spherical"``.

    See Also
    --------
    GaussianMixture : Covariances of any shape.
    SphericalMixture : Spherical covariances, one variance or several.

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> import implicitmoments as im
    >>> X, _ = im.datasets.make_spherical_mixture(2_000, 8, 5, radius=6.0, random_state=0)
    >>> means, weights, precisions = im.start(X, 8, covariance_type="spherical", random_state=0)
    >>> means.shape, weights.shape, precisions.shape
    ((8, 5), (8,), (8,))
    >>> KMeans(8, init=means, n_init=1).fit(X).cluster_centers_.shape
    (8, 5)
    """
    shared = ("full", "tied", "diag", "spherical")  # types that other libraries have too
    check_option("covariance_type", covariance_type, shared)
    model = GaussianMixture(
        n_components, covariance_type=covariance_type, random_state=random_state
    ).fit(X, sample_weight=sample_weight)
    constant = {note.code: note.values for note in model.notes_}.get("columns_left_out")
    if constant and covariance_type != "spherical":
        template = "columns {columns} of X are constant; leave them out, or use "
        template += "`covariance_type='spherical'` if only means are needed"
        raise InputError("precisions_infinite", template, **constant)
    return InitialParameters(model.means_, model.weights_, model.precisions_)
