"""SphericalMixture: starts from moments and k-means++, moves, and EM on all rows."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np

from implicitmoments.arrays import Array, move_like, namespace_of
from implicitmoments.mixture.diagnostics import Within, look_within, measure_within, notes_on
from implicitmoments.mixture.family import Mixture, SphericalFamily
from implicitmoments.mixture.fit import (
    Options,
    fit_by_scale,
    one_less_suffices,
    without_outliers,
)
from implicitmoments.mixture.incremental import Stream, begin_stream, continue_stream, in_one_unit
from implicitmoments.mixture.summary import SphericalMixtureSummary
from implicitmoments.moments.components import component_stats
from implicitmoments.notes import InputError, Note, Notes
from implicitmoments.rows import ArraySource, RandomState, Rows, as_seed
from implicitmoments.rows.inputs import open_rows
from implicitmoments.rows.outliers import standardise_rows
from implicitmoments.search import SEARCH, WHOLE, Budget, Fitted, run_em
from implicitmoments.validation import (
    check_enough_rows,
    check_even_order,
    check_number,
    check_option,
    check_variance,
    check_whole,
    check_whole_or,
)

# A search over numbers of components fits too few and too many on purpose: no warnings of that.
SILENT = ("bic_prefers_fewer", "component_not_spherical")
REFIT = 1.5  # rows held by partial_fit are fitted anew when they have grown by this factor


@dataclass(eq=False, repr=False)  # scikit-learn compares and prints estimators
class SphericalMixture(SphericalMixtureSummary):
    r"""Mixture of spherical Gaussians :math:`\sum_i w_i N(\mu_i, \sigma^2 I)`.

    The means are decoded from implicit moments of orders 4 and 6 (the setting of Theorem 4.19,
    by orthogonal decomposition), also when there are more components than features. A k-means++
    start competes. Moves then split and merge components on a sample of the rows as long as the
    likelihood rises. EM on all rows ends the fit.

    Rows may be in memory, on a device or in a source that is read block by block: the search
    holds samples of bounded size, and EM passes over all rows. Arrays are returned in the library
    of the rows and on their device.

    Parameters
    ----------
    n_components : int or "auto", default 2
        The number k of components. ``"auto"`` starts from the number of eigenvalues of the moment
        of order 4 above its noise, and splits and merges components while the Bayesian
        information criterion falls.
    variance : float, optional
        The common variance :math:`\sigma^2`, where it is known; estimated by default.
    covariance_type : {"tied_spherical", "spherical"}, default "tied_spherical"
        One variance for all components, or one each. The moments assume one for all.
    order : {2, 4, 6} or "auto", default "auto"
        The even order of the moment that is used. Components are decoded from it and from the
        moment of one and a half times that order. ``"auto"`` chooses by the number of components
        and features.
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
    random_state : int, generator or None, default None
        Seed of all random numbers; also of :meth:`sample`.
    rows_per_block : int, optional
        Rows that are processed at a time; chosen by the memory they take by default.

    Attributes
    ----------
    weights_ : array of shape (k,)
        In decreasing order.
    means_ : array of shape (k, n_features)
    variance_ : float, or array of shape (k,)
        One for all components, or one each.
    n_components_ : int
        The number k of components.
    converged_ : bool
        Whether iterations stopped by ``tol``.
    n_iter_ : int
        Iterations over all rows.
    lower_bound_ : float
        Mean log-likelihood per row.
    decoded_components_ : Components or None
        The components decoded from the moments, in standardised coordinates, with ``notes`` on
        what the moments leave open; see
        :meth:`implicitmoments.moments.ImplicitMoments.components`.
    notes_ : Notes
        Findings about the fit, which print as sentences.
    stats_ : dict
        ``start``, ``"moments"`` or ``"kmeans++"``; ``resolved``, components that the
        moments resolve, and ``gap``, the k-th eigenvalue over its noise; ``n_moves`` that
        raised the likelihood; ``rows_used``, and ``outliers`` left out;
        ``misclassification_rate``, expected;
        ``width_by_component``, the largest variance along a direction over that of spherical
        noise; ``spread_by_column``, standard deviations about the means; ``bic_by_n_components``
        of ``"auto"``, on the rows searched, and ``spectral_components``, where it started;
        ``groups`` fitted separately;
        ``mean_log_likelihood_history`` of EM; ``spectra``, ``noise_floor``, ``ranks`` and
        ``moment_orders`` of the moments; after ``partial_fit`` ``rows_seen``.
    n_features_in_, feature_names_in_ : number of columns; their names, where they have any

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
    random_state: RandomState = None
    rows_per_block: int | None = None

    def _fit(self, rows: Rows, seed: int) -> None:
        self._stream: Stream | None = None
        self._held: dict[str, Array] | None = None
        self._fitted = 0
        self._check_enough(rows.n)
        if rows.small if isinstance(rows.source, ArraySource) else rows.n <= SEARCH.rows:
            rows = rows.merged()
        self._fit_rows(standardise_rows(rows), seed)

    def _warns(self, note: Note) -> bool:
        return note.code not in SILENT

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

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Update the fit with a batch of rows.

        The first rows, 400 per component and at least 20,000, are held and fitted as by
        :meth:`fit`; they fix the number of components. From then on sums of the moments and of EM
        are kept, and a random sample of as many rows. Each batch is processed by a few EM steps.
        Whenever the number of rows has doubled, the moments are decoded again and moves are
        tried; the likelihood on the sample decides. The result depends slightly on the order and
        size of the batches, each of which should be a random subset of all rows.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or Source
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            How often each row counts, in the same unit in every call.

        Returns
        -------
        SphericalMixture
            The estimator, fitted to all rows so far.

        Examples
        --------
        >>> import implicitmoments as im
        >>> X, _ = im.datasets.make_spherical_mixture(3_000, 3, 4, radius=5.0, random_state=0)
        >>> model = im.SphericalMixture(3, random_state=0)
        >>> model.partial_fit(X[:1_000]).partial_fit(X[1_000:]).stats_["rows_seen"]
        3000.0
        """
        self._check_parameters()
        seed, begun = as_seed(self.random_state), hasattr(self, "_stream")
        with open_rows(self, X, None, sample_weight, reset=not begun) as (given, _):
            rows = in_one_unit(Rows.of(given), sample_weight)
            if not begun or self._stream is None:
                self._hold(rows, self._held if begun else None, seed)
            else:
                self._continue(rows, self._stream, seed)
        self._warn()
        return self

    def _hold(self, rows: Rows, held: dict[str, Array] | None, seed: int) -> None:
        """Keep the first rows and fit them; begin a stream when there are enough."""
        picked = rows.pick(np.arange(rows.n))
        columns = {name: picked[name] for name in ("x", "counts") if name in picked}
        if held is not None:
            if ("counts" in columns) != ("counts" in held):
                raise InputError(
                    "sample_weight_in_some_calls",
                    "`sample_weight` must be given in every call of `partial_fit` or in none",
                )
            xp = namespace_of(held["x"])
            columns = {name: xp.concat([held[name], columns[name]]) for name in held}
        self._check_enough(int(columns["x"].shape[0]))
        rows = standardise_rows(Rows(ArraySource(**columns), rows_per_block=self.rows_per_block))
        if held is None or rows.n >= SEARCH.rows or rows.n >= REFIT * self._fitted:
            mixture, self._fitted = self._fit_rows(rows, seed), rows.n
        else:
            mixture = self._refine(rows)
        self._stream, self._held = None, columns
        self.stats_["rows_seen"] = rows.total
        if rows.n >= SEARCH.rows_for(mixture.k):
            self._placing = rows.origin, rows.unit
            kept, _ = self._without_outliers(rows)
            kept = kept.hold(single=True)
            self._stream = begin_stream(kept, mixture, self._family(rows.unit))
            self._held = None

    def _refine(self, rows: Rows) -> Mixture:
        """Run EM on held rows of which a part was fitted before."""
        unit = rows.unit
        start = self._mixture().moved(-rows.origin / unit, 1 / unit)
        kept, _ = self._without_outliers(rows)
        mixture = self._store_fitted(run_em(self._family(unit), kept, start, self._final), rows)
        self._note(self.notes_.without("not_converged"))
        return mixture

    def _continue(self, rows: Rows, before: Stream, seed: int) -> None:
        """Update a stream; where its mixture was compared with others, check it again."""
        center, scale = self._placing
        rows, n_out = self._without_outliers(rows.mapped(center, 1 / scale))
        rng, family = np.random.default_rng((seed, before.n_seen)), self._family(scale)
        self._stream = stream = continue_stream(before, rows, family, self.n_moves, rng)
        mixture = self._store(stream.mixture, rows)
        self.lower_bound_ = stream.sums.level - rows.n_features * math.log(scale)
        self.stats_["outliers"] += n_out
        self.stats_ |= {"rows_seen": stream.sums.total, "corrections": stream.corrections}
        self.stats_["mean_log_likelihood_history"] = ()  # batches are processed by few steps
        if stream.read_at > before.read_at:
            sample = stream.sample.hold()
            one_less = one_less_suffices(family, mixture, sample)
            within = measure_within(sample, mixture)
            self._check(within, mixture.k - 1 if one_less else None, scale, stream.sums.total)

    def _fit_rows(self, rows: Rows, seed: int) -> Mixture:
        """Leave out outliers, fit, measure the fit, and store it in the user's units."""
        rng = np.random.default_rng(seed)
        rows, n_out = self._without_outliers(rows)
        self._check_enough(n_out + max(rows.kept, round(rows.total)))
        k = None if self.n_components == "auto" else int(self.n_components)
        most, unit = min(self.max_components, rows.kept), rows.unit
        order = None if self.order == "auto" else int(self.order) // 2
        options = Options(k, most, order, self.n_moves, self._final)
        found = fit_by_scale(rows, self._family(unit), options, rng)
        self.decoded_components_ = found.components
        self.stats_: dict[str, Any] = {
            **found.stats,
            "outliers": n_out,
            "rows_used": rows.kept,
            **component_stats(found.components),
        }
        mixture = self._store_fitted(found.fitted, rows)
        self._check(look_within(rows, mixture, rng), found.fewer, unit, rows.total)
        return mixture

    def _check(self, within: Within, fewer: int | None, unit: float, n_rows: float) -> None:
        """Store what was measured about the means, and the notes on it."""
        self.stats_ |= {
            "spread_by_column": (within.spreads * unit).tolist(),
            "width_by_component": within.widths.tolist(),
            "misclassification_rate": within.misclassification_rate,
        }
        self._note(notes_on(self, within, fewer, unit, n_rows))

    def _note(self, notes: Notes) -> None:
        if not self.converged_:
            notes.append(Note("not_converged", {"max_iter": self.max_iter}))
        self.notes_ = notes

    def _store_fitted(self, fitted: Fitted[Mixture], rows: Rows) -> Mixture:
        """Store parameters and the course of EM."""
        unit = rows.n_features * math.log(rows.unit)
        self.converged_, self.n_iter_ = fitted.converged, fitted.n_iter
        self.lower_bound_ = float(fitted.level) - unit
        levels = tuple(float(level) - unit for level in fitted.history)
        self.stats_["mean_log_likelihood_history"] = levels
        return self._store(fitted.state, rows)

    def _store(self, mixture: Mixture, rows: Rows) -> Mixture:
        """Store parameters with the heaviest component first; return them as they were fitted.

        In the library of the rows and on their device; in NumPy always in double precision.
        """
        ordered = mixture.take(np.argsort(-mixture.weights, kind="stable"))
        own, like = ordered.moved(rows.origin, rows.unit), rows.first["x"]
        weights, means, variances = (
            value if isinstance(like, np.ndarray) else move_like(value, like)
            for value in (own.weights, own.means, own.variances)
        )
        self.weights_, self.means_ = weights, means
        tied = self.covariance_type == "tied_spherical"
        self.variance_ = float(own.variances[0]) if tied else variances
        return ordered

    def _without_outliers(self, rows: Rows) -> tuple[Rows, int]:
        most = self.max_components if self.n_components == "auto" else int(self.n_components)
        return without_outliers(rows, most, drop=self.drop_outliers)

    @property
    def _final(self) -> Budget:
        return replace(WHOLE, steps=self.max_iter, tol=self.tol)

    def _family(self, scale: float) -> SphericalFamily:
        known = None if self.variance is None else self.variance / scale**2
        tied = self.covariance_type == "tied_spherical"
        return SphericalFamily(known, tied)

    def _n_parameters(self) -> int:
        return self._family(1.0).n_parameters(self._mixture())

    def _check_parameters(self) -> None:
        """Raise for a parameter that cannot be used."""
        super()._check_parameters()
        check_whole_or("n_components", self.n_components, ("auto",), 1)
        for name, least in (("max_iter", 1), ("max_components", 1), ("n_moves", 0)):
            check_whole(name, getattr(self, name), least)
        check_even_order(self.order, 6)
        check_number("tol", self.tol, 0.0)
        check_option("covariance_type", self.covariance_type, ("tied_spherical", "spherical"))
        if check_variance(self.variance) is not None and self.covariance_type == "spherical":
            raise InputError(
                "variance_known_and_estimated",
                "`variance={variance:g}` is known, so there is none to estimate per component; "
                "use `variance=None` or `covariance_type='tied_spherical'`",
                variance=self.variance,
            )

    def _check_enough(self, n: int) -> None:
        """Raise where there are fewer rows than components."""
        if self.n_components != "auto":
            check_enough_rows(n, int(self.n_components), int(self.n_components))
