"""Mixtures of spherical Gaussians, found by their moments and polished by EM."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from implicitmoments.arrays import Array, move_like, namespace_of
from implicitmoments.mixture.diagnostics import look_within
from implicitmoments.mixture.em import Polished, VarianceModel, polish
from implicitmoments.mixture.fit import Search
from implicitmoments.mixture.fit_by_scale import fit_by_scale
from implicitmoments.mixture.fit_notes import notes_on
from implicitmoments.mixture.fitted import SphericalAnswers
from implicitmoments.mixture.incremental import Stream, begin_stream, continue_stream
from implicitmoments.mixture.likelihood import Mixture
from implicitmoments.mixture.outliers import leave_out, take_census
from implicitmoments.mixture.standard_rows import Rows
from implicitmoments.mixture.standardise import count_rows, place_rows
from implicitmoments.mixture.validation import check_enough, check_parameters, in_one_unit
from implicitmoments.moments.spectra import account_of_components
from implicitmoments.notes import UNFINISHED, tell_unfinished
from implicitmoments.rows import ArraySource, Progress, RandomState, Source, as_seed
from implicitmoments.rows.inputs import Checkpoint, open_rows

__all__ = ["SphericalMixture"]

FLOOR = 1e-6  # least variance, relative to the square of a typical distance from the centre
HELD = 20_000  # rows that partial_fit holds before it fixes its frame, at the least
HELD_A_COMPONENT = 400
REFIT = 1.5  # held rows are fitted anew when there are so many times as many


class SphericalMixture(SphericalAnswers):
    r"""Mixture of spherical Gaussians :math:`\sum_i w_i N(\mu_i, \sigma^2 I)`.

    The means are read off implicit moments of orders 4 and 6 (Theorem 4.19's setting, by
    orthogonal decomposition), also when there are more components than features. EM and repairs
    that the likelihood judges complete what the moments leave open; a start from scattered rows
    (k-means++) competes, so that the fit falls back to it where the moments do not separate the
    components. EM on all rows ends the fit.

    Rows may lie in memory, on a device or in a source that is read block by block: the search
    holds samples of bounded size, and EM passes over all rows. Arrays come back in the library of
    the rows and on their device.

    Parameters
    ----------
    n_components : int or "auto", default 2
        ``"auto"`` begins with the number of eigenvalues of the moment of order 4 above its
        noise, and adds and merges components while the Bayesian information criterion falls.
    variance : float, optional
        The variance of every component where it is known; estimated by default.
    variance_type : {"shared", "separate"}, default "shared"
        One variance for all components, or one each. Moments and the first search share one
        either way.
    order : int, optional
        Read components off moments of orders 2r and 3r for r = ``order``, 1, 2 or 3; chosen by
        the number of components and features by default.
    n_repairs : int, default 20
        The most repairs that are tried; 0 for none.
    max_iter : int, default 200
        The most EM iterations over all rows.
    tol : float, default 1e-7
        EM stops when the mean log-likelihood of a row rises by less.
    max_components : int, default 50
        The most components that ``"auto"`` tries.
    drop_outliers : bool, default True
        Leave out rows that lie far from the bulk and have too few neighbours to be a component;
        the likelihood would spend a component on each. ``stats_["outliers"]`` counts them.
    random_state : int, generator or None, default None
        Of samples of rows, of scattered starts and of :meth:`sample`.
    block_rows : int, optional
        Rows that are worked on at a time.

    Attributes
    ----------
    weights_ : array of shape (k,)
        Sorted from the largest down.
    means_ : array of shape (k, n_features)
    variance_ : float, or array of shape (k,) if separate
    n_components_ : int
    converged_ : bool
    n_iter_ : int
        EM iterations over all rows.
    lower_bound_ : float
        Mean log-likelihood of a row.
    components_read_ : Components or None
        What was read off the moments, in standardised coordinates; see
        :meth:`implicitmoments.moments.ImplicitMoments.components`.
    stats_ : dict
        ``start``, ``"moments"`` or ``"scattered"`` rows; ``resolved``, components that the
        moments told apart, and ``gap``, the k-th eigenvalue over its noise; ``moments_say``,
        words on what they left open; ``repairs`` that raised the likelihood; ``outliers`` left
        out; ``doubt``, the part of the rows that may be of another component than ``predict``
        says; ``width_by_component``, the largest variance along a direction over what round
        noise makes; ``spread_by_column``, standard deviations about the means; of ``"auto"``
        ``sample_bic``, the criterion by the number of components, and ``spectral_components``,
        where it began; ``groups`` fitted apart; ``mean_log_likelihood_history`` of EM;
        ``spectra``, ``noise_floor``, ``ranks`` and ``moment_orders`` of the moments; after
        ``partial_fit`` ``rows_seen``; and ``notes``, words for the user.
    n_features_in_ : int
    feature_names_in_ : array of str of shape (n_features,)
        Where the columns of the rows have names.

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

    def __init__(  # noqa: PLR0913 (keyword-only, each documented)
        self,
        n_components: int | str = 2,
        *,
        variance: float | None = None,
        variance_type: str = "shared",
        order: int | None = None,
        n_repairs: int = 20,
        max_iter: int = 200,
        tol: float = 1e-7,
        max_components: int = 50,
        drop_outliers: bool = True,
        random_state: RandomState = None,
        block_rows: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.variance = variance
        self.variance_type = variance_type
        self.order = order
        self.n_repairs = n_repairs
        self.max_iter = max_iter
        self.tol = tol
        self.max_components = max_components
        self.drop_outliers = drop_outliers
        self.random_state = random_state
        self.block_rows = block_rows

    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
        sample_weight: Any = None,
        *,
        checkpoint: Checkpoint = None,
        progress: Progress | None = None,
    ) -> Self:
        """Fit the mixture.

        Parameters
        ----------
        X : array (n_samples, n_features), data frame, path, iterator of blocks, Dask or Source
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            How often each row counts; 0 leaves it out. Weights above 0 with a mean below 1 are
            scaled to a mean of 1.
        checkpoint : path, optional
            Where a long fit keeps what it has done, to go on from there.
        progress : callable, optional
            Called as ``progress(what, rows_done, rows_total)``.
        """
        check_parameters(self)
        with open_rows(self, X, None, sample_weight, checkpoint=checkpoint, progress=progress) as (
            source,
            seed,
        ):
            self._stream: Stream | None = None
            self._held: dict[str, Array] | None = None
            self._fitted = 0
            check_enough(self, source.n_rows or 0)
            rows = Rows(count_rows(source), block_rows=self.block_rows)
            self._fit_rows(place_rows(rows), seed)
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit the mixture and return the likeliest component of every row."""
        return self.fit(X, y, sample_weight=sample_weight).predict(X)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Take in further rows.

        The first rows, 400 a component and 20,000 at the least, are held and fitted as by
        :meth:`fit`; they fix the number of components and a frame. From then on sums are kept,
        those of the moments up to order 6 in that frame and those of EM, and a sample of as many
        rows as were held. Each piece is taken in by a few EM steps. Whenever the rows have
        doubled, the moments of all rows are read again and repairs are tried; what is likelier
        on the sample wins.

        Sums of EM are taken at the mixture of their time, so the result depends a little on the
        order and size of the pieces. Each piece should be drawn at random from all rows: pieces
        sorted by component lead astray.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or Source
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            How often each row counts, in the same unit in every call.

        Examples
        --------
        >>> import implicitmoments as im
        >>> X, _ = im.datasets.make_spherical_mixture(3_000, 3, 4, radius=5.0, random_state=0)
        >>> model = im.SphericalMixture(3, random_state=0)
        >>> for piece in (X[:1_000], X[1_000:2_000], X[2_000:]):
        ...     model = model.partial_fit(piece)
        >>> model.stats_["rows_seen"]
        3000.0
        """
        check_parameters(self)
        seed, begun = as_seed(self.random_state), hasattr(self, "_stream")
        with open_rows(self, X, None, sample_weight, reset=not begun) as (opened, _):
            source = in_one_unit(opened, sample_weight)
            if begun and self._stream is not None:
                center, scale = self._placing
                rows = Rows(source, center, scale, self.block_rows)
                rows, n_out = self._without_outliers(rows)
                rng = np.random.default_rng((seed, self._stream.n_seen))
                model = self._model(rows.scale)
                self._stream = continue_stream(self._stream, rows, model, self.n_repairs, rng)
                self.stats_["outliers"] += n_out
                self._store_stream(self._stream, rows)
            else:
                self._hold(source, self._held if begun else None, seed)
        return self

    def _hold(self, source: Source, held: dict[str, Array] | None, seed: int) -> None:
        """Keep the first rows and fit them; begin a stream when there are enough."""
        check_enough(self, source.n_rows or 0)
        columns = Rows(source).picked(np.arange(source.n_rows or 0))
        if held is not None:
            if ("counts" in columns) != ("counts" in held):
                raise ValueError("give sample_weight in every call of partial_fit or in none")
            xp = namespace_of(held["x"])
            columns = {name: xp.concat([held[name], columns[name]]) for name in held}
        rows = place_rows(Rows(ArraySource(**columns), block_rows=self.block_rows))
        enough = rows.n >= HELD
        if held is None or enough or rows.n >= REFIT * self._fitted:
            mixture, self._fitted = self._fit_rows(rows, seed), rows.n
        else:
            mixture = self._polish_rows(rows)
        self._stream, self._held = None, columns
        self.stats_["rows_seen"] = rows.total
        if rows.n >= max(HELD, HELD_A_COMPONENT * mixture.k):
            self._placing = rows.center, rows.scale
            self._stream = begin_stream(self._without_outliers(rows)[0].held(), mixture)
            self._held = None

    def _polish_rows(self, rows: Rows) -> Mixture:
        """Let EM settle the mixture on rows of which a part was fitted before."""
        center = np.zeros(rows.d) if rows.center is None else rows.center
        start = self._mixture().moved(-center / rows.scale, 1 / rows.scale)
        kept, _ = self._without_outliers(rows)
        polished = polish(kept, start, self._model(rows.scale), self.max_iter, self.tol)
        self._store_history(polished, rows)
        self.converged_, self.n_iter_ = polished.converged, polished.n_iter
        self.lower_bound_ = float(polished.level) - rows.d * math.log(rows.scale)
        self._note_convergence(stacklevel=6)
        return self._store(polished.mixture, rows)

    def _fit_rows(self, rows: Rows, seed: int) -> Mixture:
        """Fit rows at hand; store what was found in the user's units."""
        model = self._model(rows.scale)
        search = Search(self.order, self.n_repairs, self.max_iter, self.tol)
        rng = np.random.default_rng(seed)
        rows, n_out = self._without_outliers(rows)
        check_enough(self, n_out + max(rows.census.there, round(rows.total)))
        k = None if self.n_components == "auto" else int(self.n_components)
        most = min(self.max_components, rows.census.there)
        found = fit_by_scale(rows, k, most, model, search, rng)
        polished = found.polished
        mixture = self._store(polished.mixture, rows)
        self.converged_, self.n_iter_ = polished.converged, polished.n_iter
        self.lower_bound_ = float(polished.level) - rows.d * math.log(rows.scale)
        self.components_read_ = found.start.components
        within = look_within(rows, mixture, rng)
        self.stats_ = {
            **found.stats,
            "outliers": n_out,
            "spread_by_column": (within.spreads * rows.scale).tolist(),
            "width_by_component": within.widths.tolist(),
            "doubt": within.doubt,
            "moments_say": list(found.start.words),
            "notes": notes_on(self, within, found.start, rows.scale, rows.total, n_out),
        }
        self.stats_ |= account_of_components(found.start.components)
        self._store_history(polished, rows)
        self._note_convergence(stacklevel=5)
        return mixture

    def _note_convergence(self, *, stacklevel: int) -> None:
        """Say so where the last polish ended early; what was said of one before goes."""
        notes: list[str] = [each for each in self.stats_["notes"] if UNFINISHED not in each]
        self.stats_["notes"] = notes
        if not self.converged_:
            tell_unfinished(notes, self.max_iter, stacklevel=stacklevel)

    def _store_history(self, polished: Polished, rows: Rows) -> None:
        unit = rows.d * math.log(rows.scale)
        levels = tuple(float(level) - unit for level in polished.history)
        self.stats_["mean_log_likelihood_history"] = levels

    def _without_outliers(self, rows: Rows) -> tuple[Rows, int]:
        """Count the rows, and leave out those that are far from all others."""
        most = self.max_components if self.n_components == "auto" else int(self.n_components)
        return leave_out(rows, most) if self.drop_outliers else take_census(rows)

    def _store(self, mixture: Mixture, rows: Rows) -> Mixture:
        """Store parameters from the heaviest component down; return them as they were fitted.

        In the library of the rows and on their device; in NumPy always in double precision.
        """
        order = np.argsort(-mixture.weights, kind="stable")
        ordered = Mixture(mixture.weights[order], mixture.means[order], mixture.variances[order])
        center = np.zeros(rows.d) if rows.center is None else rows.center
        own, like = ordered.moved(center, rows.scale), rows.first["x"]
        weights, means, variances = (
            value if isinstance(like, np.ndarray) else move_like(value, like)
            for value in (own.weights, own.means, own.variances)
        )
        self.weights_, self.means_, self.n_components_ = weights, means, own.k
        shared = self.variance_type == "shared" or self.variance is not None
        self.variance_ = float(own.variances[0]) if shared else variances
        return ordered

    def _store_stream(self, stream: Stream, rows: Rows) -> None:
        self._store(stream.mixture, rows)
        mean = stream.sums.log_likelihood / stream.sums.total
        self.lower_bound_ = float(mean) - rows.d * math.log(rows.scale)
        self.stats_ |= {"rows_seen": stream.sums.total, "corrections": stream.corrections}
        self.stats_["mean_log_likelihood_history"] = ()  # pieces are taken in by few steps

    def _model(self, scale: float) -> VarianceModel:
        known = None if self.variance is None else self.variance / scale**2
        return VarianceModel(known, self.variance_type == "shared", FLOOR)
