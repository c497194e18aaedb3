"""Fits of mixtures of Gaussians: of all rows at once, and batch by batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from implicitmoments.arrays import (
    Array,
    check_squares,
    move_like,
    namespace_of,
    to_numpy,
)
from implicitmoments.description import column_names, fit_columns
from implicitmoments.estimator import constant_notes
from implicitmoments.mixture.alternatives import (
    bounded_note,
    find_better,
    renumbered,
    with_names,
)
from implicitmoments.mixture.diagnostics import Evidence, Within, look_within, notes_on
from implicitmoments.mixture.far_groups import fit_by_scale
from implicitmoments.mixture.fit import GaussianFit, search_again
from implicitmoments.mixture.gaussians import CovarianceType, Gaussians
from implicitmoments.mixture.incremental import Stream, begin_stream, continue_stream
from implicitmoments.mixture.standard_errors import (
    MixtureErrors,
    ScoredGaussians,
    standard_errors,
)
from implicitmoments.mixture.starts import Options
from implicitmoments.mixture.summary import MixtureSummary
from implicitmoments.mixture.view import View
from implicitmoments.notes import InputError, Note, warn_of
from implicitmoments.rows import ArraySource, RandomState, Rows, as_seed, weights_of
from implicitmoments.rows.constants import are_constant, find_constants, restore_columns
from implicitmoments.rows.digits import digits_notes
from implicitmoments.rows.draws import Integers
from implicitmoments.rows.inputs import open_rows
from implicitmoments.rows.outliers import Outliers, leave_out_outliers
from implicitmoments.rows.view import LARGEST_SINGLE
from implicitmoments.search import SEARCH, WHOLE, Budget, Fitted, run_em, unknown_errors
from implicitmoments.validation import (
    check_enough_rows,
    check_errors,
    check_number,
    check_whole,
    check_whole_or,
)

UNKNOWN_ERRORS = ("errors_too_large", "errors_unknown")
# notes that say why a component has no variance
FLOOR_EXPLAINED = {
    *("columns_dependent", "columns_repeated", "components_borrow"),
    *("few_rows_per_component", "covariance_undetermined"),
}
SPHERICAL = ("spherical", "tied_spherical")
REFIT = 1.5  # rows held by partial_fit are fitted anew when they have grown by this factor


class MixtureEstimator(MixtureSummary):
    """A mixture of Gaussians that is fitted by starts that compete, moves, and EM."""

    n_components: int | str
    tol: float
    max_iter: int
    n_moves: int
    max_components: int
    drop_outliers: bool
    errors: str | None
    random_state: RandomState
    rows_per_block: int | None

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
        :meth:`fit`; they fix the number of components and the type of covariance. From then on
        sums of EM are kept, and a random sample of as many rows. Each batch is processed by a
        few EM steps. Whenever the number of rows has doubled, starts compete and moves are tried
        on the sample; its likelihood decides. The result depends slightly on the order and size
        of the batches, each of which should be a random subset of all rows.

        Parameters
        ----------
        X : array (n_samples, n_features), data frame, path, iterator of blocks, Dask or Source
        y : ignored
        sample_weight : array of shape (n_samples,) or column name, optional
            How often each row counts, in the same unit in every call. Sources bring their own.

        Returns
        -------
        estimator
            Fitted to all rows so far.

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
        said = {id(note): note for note in self.notes_} if begun else {}
        opened = open_rows(self, X, None, sample_weight, reset=not begun, as_counts=True)
        with opened as (rows, _):
            if not begun or self._stream is None:
                self._hold(rows, self._held if begun else None, seed)
            else:
                self._continue(rows, self._stream, seed)
        warn_of(note for note in self.notes_ if id(note) not in said)
        return self

    def _fit(self, rows: Rows, seed: int) -> None:
        self._stream: Stream | None = None
        self._held: dict[str, Array] | None = None
        self._view: View | None = None  # of the rows held
        self._fitted = 0
        self._check_enough(rows.n)
        if rows.small if isinstance(rows.source, ArraySource) else rows.n <= SEARCH.rows:
            rows = rows.merged()
        self._fit_rows(rows, seed)

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
        rows = Rows(ArraySource(**columns), rows_per_block=self.rows_per_block)
        self._check_enough(rows.n)
        view = None if held is None else getattr(self, "_view", None)  # old files have none
        grown = view is None or rows.n >= min(SEARCH.rows, REFIT * self._fitted)
        if view is None or grown or not self._still_constant(rows):
            view, self._fitted = self._fit_rows(rows, seed), rows.n
        else:
            self._refine(view, rows)
        self._stream, self._held, self._view = None, columns, view
        self.stats_["rows_seen"] = rows.total
        if rows.n >= SEARCH.rows_for(self._k()):
            kept = view.hold(self._without_outliers(rows).rows.without(self._constant_values))
            self._stream = begin_stream(view, kept, view.inside(self._mixture()))
            self._held = None

    def _refine(self, view: View, rows: Rows) -> None:
        """Run EM on held rows of which a part was fitted before."""
        kept, n_out, self._near = self._without_outliers(rows)
        kept = kept.without(self._constant_values)
        start = view.inside(self._mixture())
        found = run_em(view.family, view.rows(kept), start, self._options(kept).final)
        self._store(view.fitted(found), view.family.kind, kept)
        self.stats_ |= {"outliers": n_out, "rows_used": kept.kept}
        self.notes_ = self.notes_.without("not_converged").without("outliers_dropped")
        if n_out:
            self.notes_.append(Note("outliers_dropped", {"n": n_out}))
        self._note_convergence()
        self._store_errors(kept, view)

    def _continue(self, rows: Rows, before: Stream, seed: int) -> None:
        """Update a stream; where its mixture was compared with others, check it again."""
        view, rng = before.view, np.random.default_rng((seed, before.n_seen))
        rows, n_out, _ = self._without_outliers(rows)
        if not self._still_constant(rows):
            self._begin_again(rows, n_out, before, seed)
            return
        rows = rows.without(self._constant_values)
        options = replace(self._options(rows), k=before.mixture.k)
        search = search_again(view, options, rng)
        self._stream = stream = continue_stream(before, view.rows(rows), search, rng)
        level = stream.sums.level - view.log_unit
        passes = self.n_iter_ + 2  # the first of which has no step before it
        fitted = Fitted(view.outside(stream.mixture), level, (), self.converged_, passes)
        self._store(fitted, view.family.kind, rows)
        self.stats_["outliers"] += n_out
        if n_out:
            self.notes_ = self.notes_.without("outliers_dropped")
            self.notes_.append(Note("outliers_dropped", {"n": self.stats_["outliers"]}))
        self.stats_ |= {"rows_seen": stream.sums.total, "corrections": stream.corrections}
        sample = view.back(stream.sample)
        sample = sample.weighted(stream.sums.total / sample.total)
        if stream.searched_at > before.searched_at:
            held = stream.sample.hold()
            parts = [(held, view.family.e_step(held, stream.mixture).level)]
            better = find_better(view, stream.mixture, parts, None, sample, options, rng)
            better = self._numbered(bounded_note(better, options), stream.mixture)
            within = look_within(view, sample, self._mixture(), rng)
            self._check(within, better, None, sample)
        self._store_errors(sample, view)

    def _still_constant(self, rows: Rows) -> bool:
        """Say whether columns that were left out have the same value in further rows."""
        return self._constant_values is None or are_constant(rows, self._constant_values)

    def _begin_again(self, rows: Rows, n_out: int, before: Stream, seed: int) -> None:
        """Fit the sample of a stream anew, together with rows in which more columns vary."""
        sample, batch = before.view.back(before.sample).block, rows.hold().block
        x = restore_columns(to_numpy(sample["x"]), self._constant_values)
        counts = to_numpy(weights_of(sample))
        counts = counts * (before.sums.total / counts.sum())
        held = {"x": move_like(x, batch["x"]), "counts": move_like(counts, batch["x"])}
        rows = Rows(ArraySource(batch["x"], counts=weights_of(batch)))
        left_out, self._view = self.stats_["outliers"] + n_out, None
        self._hold(rows, held, seed)
        self.stats_["outliers"] += left_out

    def _fit_rows(self, rows: Rows, seed: int) -> View:
        """Leave out outliers and constant columns, fit, measure the fit, and store it."""
        rng = np.random.default_rng(seed)
        rows, n_out, self._near = self._without_outliers(rows)
        self._check_enough(n_out + max(rows.kept, round(rows.total)))
        rows = rows.without(find_constants(rows))
        options = self._options(rows)
        found = fit_by_scale(rows, options, rng)
        self.stats_: dict[str, Any] = {**found.stats, "outliers": n_out, "rows_used": rows.kept}
        self._store_fit(found, rows)
        within = look_within(found.view, rows, self._mixture(), rng)
        better = self._numbered(found.better, found.fitted.state)
        self._check(within, better, found.n_moves, rows)
        order = self._order(found.fitted.state)
        which = np.flatnonzero(np.isin(order, found.at_floor)).tolist()
        if which and FLOOR_EXPLAINED.isdisjoint(self.notes_.codes):
            self.notes_.append(Note("variance_at_floor", {"which": which}))
        self.notes_ += self._rounding_notes(found, options.epsilon)
        self._store_errors(rows, found.view)
        return found.view

    def _rounding_notes(self, found: GaussianFit, epsilon: float) -> list[Note]:
        """Return a note on digits of the means of components whose variance is not at a bound."""
        state = found.fitted.state
        free = np.isin(np.arange(state.k), found.at_floor, invert=True)
        sizes, deviations = np.abs(state.means[free]), np.sqrt(state.variances[free])
        return digits_notes(sizes, deviations, epsilon, self._names(), "component")

    def _numbered(self, note: Note | None, state: Gaussians) -> Note | None:
        """Return a note on a mixture with the numbers and names that the estimator has."""
        if note is None:
            return None
        note = renumbered(note, np.argsort(self._order(state)))
        return with_names(note, self._names(), scaled="scale" in fit_columns(self))

    def _names(self) -> list[str]:
        """Return the names of the columns that were not left out."""
        names = column_names(self)
        return [names[j] for j in self._varying]

    def _store_fit(self, found: GaussianFit, rows: Rows) -> None:
        """Store a fit of all rows."""
        self._store(found.fitted, found.view.family.kind, rows)

    def _check(self, within: Within, better: Note | None, n_moves: int | None, rows: Rows) -> None:
        """Store what was measured about the means, and the notes on it."""
        self.stats_["misclassification_rate"] = within.misclassification_rate
        if self._type.shape == "spherical":
            spreads = restore_columns(within.spreads, self._constant_values, 0.0)
            self.stats_["spread_by_column"] = spreads.tolist()
            self.stats_["width_by_component"] = within.widths.tolist()
        most = self.max_components if self.n_components == "auto" else None
        self.notes_ = notes_on(
            Evidence(
                rows,
                self._mixture(),
                self._type,
                self._names(),
                self.stats_,
                within,
                most,
                better,
                n_moves,
            )
        )
        self.notes_ += constant_notes(self, self._constant_values)
        self._note_convergence()

    def _note_convergence(self) -> None:
        if not self.converged_:
            self.notes_.append(Note("not_converged", {"max_iter": self.max_iter}))

    def _store(self, fitted: Fitted[Gaussians], kind: CovarianceType, rows: Rows) -> None:
        """Store parameters, the heaviest component first unless it was given, and EM's course.

        In the library and the precision of the rows, and on their device. Columns that the rows
        leave out get their values as means, and no variance.
        """
        state, like = fitted.state, rows.first["x"]
        state = state.take(self._order(state))
        self._constants = rows.constants
        means = restore_columns(state.means, rows.constants)
        self.weights_, self.means_ = move_like(state.weights, like), move_like(means, like)
        self._store_freedom(float(state.freedom[0]))
        self._store_covariances(state.covariances, kind)
        self.converged_, self.n_iter_ = fitted.converged, fitted.n_iter - 1
        self.lower_bound_ = float(fitted.level)
        self.stats_["mean_log_likelihood_history"] = fitted.history

    def _order(self, state: Gaussians) -> Integers:
        """Return the order of components: the heaviest first, unless they were given."""
        given = self.stats_["start"] == "given"
        return np.arange(state.k) if given else np.argsort(-state.weights, kind="stable")

    def _store_errors(self, rows: Rows, view: View) -> None:
        """Store standard errors, if asked for; note where there are none."""
        self.weight_errors_: Any = None
        self.mean_errors_: Any = None
        for code in UNKNOWN_ERRORS:
            self.notes_ = self.notes_.without(code)
        if self.errors is None:
            self._store_shape_errors(None)
            return
        known = view.family.known is not None
        scored = ScoredGaussians(self._mixture(), self._type, known)
        found = standard_errors(rows, scored, robust=self.errors == "robust")
        self.weight_errors_ = move_like(found.weights, self.means_)
        means = restore_columns(found.means, self._constant_values, 0.0)
        self.mean_errors_ = move_like(means, self.means_)
        self._store_shape_errors(found)
        self.notes_ += unknown_errors(scored, found.weights)

    def _final(self) -> Budget:
        """Return the budget of EM on all rows, of which the last pass only measures the fit."""
        return replace(WHOLE, steps=self.max_iter + 1, tol=self.tol)

    def _going_on(self) -> bool:
        """Say whether rows of earlier calls of :meth:`partial_fit` are part of the fit."""
        return getattr(self, "_stream", None) is not None or bool(getattr(self, "_held", None))

    def _store_covariances(self, whole: Any, kind: CovarianceType) -> None:
        """Store covariances (k, d, d) or (k, d)."""
        raise NotImplementedError

    def _drops_outliers(self) -> bool:
        return self.drop_outliers

    def _store_freedom(self, freedom: float) -> None:
        """Store the degrees of freedom; infinite where components are Gaussian by assumption."""

    def _store_shape_errors(self, found: MixtureErrors | None) -> None:
        """Store standard errors of covariances and degrees of freedom."""
        raise NotImplementedError

    def _options(self, rows: Rows) -> Options:
        """Return what the user chose, for rows without outliers."""
        raise NotImplementedError

    def _without_outliers(self, rows: Rows) -> Outliers:
        """Leave out outliers, if asked for.

        Rows that lie too far out for single precision are read in double precision, and so are
        those of which products of columns are needed, which lose half of the digits.
        """
        k = 1 if self.n_components == "auto" else int(self.n_components)
        spherical = self.covariance_type in SPHERICAL
        found = leave_out_outliers(rows, k, drop=self._drops_outliers())
        check_squares("X", found.rows.census.squares or 0.0)
        long = (found.rows.census.longest or 0.0) > LARGEST_SINGLE**2
        rows = replace(found.rows.as_given(), wide=long or not spherical)
        return found._replace(rows=rows)

    def _check_enough(self, n: int) -> None:
        """Raise where there are fewer rows than components, or only one."""
        check_enough_rows(n, 1 if self.n_components == "auto" else int(self.n_components))

    def _check_parameters(self) -> None:
        """Raise for a parameter that cannot be used."""
        super()._check_parameters()
        check_whole_or("n_components", self.n_components, ("auto",), 1)
        for name, least in (("max_components", 1), ("n_moves", 0)):
            check_whole(name, getattr(self, name), least)
        check_number("tol", self.tol, 0.0)
        check_errors(self.errors)
