"""The base of the mixture estimators: one fit, and what a fitted mixture answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from implicitmoments.arrays import Array, Floats, index_like, move_like, namespace_of, to_numpy
from implicitmoments.estimator import Check, FittedEstimator
from implicitmoments.evaluation import DensityCriteria, Predictions, RowFunction
from implicitmoments.mixture.choose_k import choose_k
from implicitmoments.mixture.diagnostics import fit_notes, misclassification_rate
from implicitmoments.mixture.em import (
    SINGLE_ERROR,
    Course,
    FeatureRows,
    Sample,
    Stream,
    in_double,
    normalise,
    run_em,
)
from implicitmoments.mixture.family import Family, Parameters, Places
from implicitmoments.mixture.moves import Improved, improve
from implicitmoments.mixture.standard_errors import standard_errors
from implicitmoments.mixture.starts import (
    at_least_k,
    decoded_start,
    find_optimum,
    given_start,
    micro_components,
)
from implicitmoments.mixture.students import LEAST, MOST
from implicitmoments.notes import InputError, Note, Notes, warn_of
from implicitmoments.rows import Rows, as_seed, cells_off, open_rows, precision_of
from implicitmoments.validation import (
    ROWS_PER_COMPONENT,
    check_enough_rows,
    check_errors,
    check_number,
    check_whole,
    check_whole_or,
)

SAMPLE_ROWS = 20_000  # rows of a search at least, if there are so many
SAMPLE_PER_COMPONENT = 400
CHECKED_PER_COMPONENT = 20  # rows that are held where EM starts from given parameters
FEW_ROWS, FEW_PER_PARAMETER = 2_000, 20  # of the first, small sample
EXACT_STEPS = 9  # of EM at the end that are always made in double precision
AS_GOOD = 0.1  # nats below k-means groups at which decoded components are preferred
FORGETTING = 0.7  # exponent of the share of a batch in the sums of ``partial_fit``


class Found(NamedTuple):
    """A mixture that a search found in a sample."""

    family: Family
    sample: Sample
    end: Improved
    stats: dict[str, Any]

    @property
    def bic(self) -> float:
        """The Bayesian information criterion in the sample, in the user's units."""
        level = float(self.sample.e_step(self.end.sums[None]).levels[0])
        level += self.sample.n * self.family.log_jacobian
        n_parameters = self.family.n_parameters(len(self.end.sums))
        return -2 * level + n_parameters * math.log(self.sample.n)


class Fit(NamedTuple):
    """A mixture that was fitted to all rows."""

    found: Found
    rows: FeatureRows
    course: Course
    level: float  # log-likelihood of all rows, in the user's units

    def parameters(self) -> tuple[Floats, Parameters]:
        """Return weights, and parameters in the units of the family."""
        family, sums = self.found.family, self.course.sums[0]
        found = family.estimate(sums, family.pool(sums, self.rows.rest))
        return np.asarray(sums[:, 0] / sums[:, 0].sum()), found


def draw_sample(family: Family, rows: Rows, n: int, rng: np.random.Generator) -> Sample:
    """Hold some rows, as far as memory allows, and their features."""
    return Sample.of(family, rows.sample(n, rng, width=family.n_features))


def check_distinct(sample: Sample, k: int, total: float) -> None:
    """Raise if all rows are equal, or fewer are distinct than there are components."""
    points, enough = sample.family.points(sample.features), max(k, 2)
    if len(np.unique(points[: 4 * enough], axis=0)) >= enough:
        return
    n = len(np.unique(points, axis=0))
    if n < enough:
        raise InputError(
            "too_few_distinct_rows",
            "`n_components={k}` needs {enough} distinct rows at least, and {total:count row} have "
            "{n}; check the data, or use fewer components",
            k=k,
            enough=enough,
            total=round(total),
            n=n,
        )


def run_on_all_rows(
    sample: Sample, rows: Rows, sums: Floats, tol: float, max_iter: int
) -> tuple[FeatureRows, Course]:
    """Run EM on all rows: on the sample if it holds them, otherwise by passes over the source.

    Passes are in single precision while gains exceed its rounding, if it is precise enough in
    the sample, and in double precision at the end.
    """
    if len(sample.weights) == rows.kept:
        return sample, run_em(sample, sums[None], tol=tol, max_iter=max_iter)
    exact = Stream.of(sample.family, rows)
    more = exact.n / sample.n
    sums = (sums * (exact.n / sums[:, 0].sum()))[None]
    if max_iter and len(exact.rest):  # the sample's shared features belong to its sums
        sums = exact.with_rest(more * sample.rest).e_step(sums).sums
    first = Course(np.zeros(1), sums)
    if sample.in_single(sums[0] / more) is not sample:
        fast, coarse = replace(exact, single=True), max(tol, 2 * SINGLE_ERROR[0])
        first = run_em(fast, sums, tol=coarse, max_iter=max(0, max_iter - EXACT_STEPS))
    last = run_em(exact, first.sums, tol=tol, max_iter=max_iter - first.n_iter)
    history = (*first.history, *last.history)
    return exact, last._replace(n_iter=first.n_iter + last.n_iter, history=history)


@dataclass(frozen=True, eq=False)
class Evaluator:
    """A fitted mixture as functions of rows, in the precision of the rows."""

    family: Family
    coefficients: Floats  # (k, n_features), log weights included
    constants: Floats | None  # values of columns that the fit left out, (d,), NaN for others
    epsilon: float  # of the precision of the fit

    def measure(self, x: Array, *labels: Array) -> tuple[Array, Array]:
        """Return log densities (n,) and responsibilities (k, n)."""
        xp, given, off = namespace_of(x), x, None
        if self.constants is not None:
            epsilon = max(self.epsilon, precision_of(x))
            off = xp.any(cells_off(self.constants, epsilon, x), axis=1)
            x = xp.take(x, index_like(np.flatnonzero(np.isnan(self.constants)), x), axis=1)
        block = {"x": x, "y": labels[0]} if labels else {"x": x}
        features = self.family.features(in_double(block))
        coefficients = move_like(self.coefficients, features)
        log_density, shares = normalise(self.family.logits(coefficients, features))
        log_density = log_density + self.family.log_jacobian
        if off is not None:
            log_density = xp.where(off, xp.full_like(log_density, -math.inf), log_density)
        real = xp.isdtype(given.dtype, "real floating")
        dtype = given.dtype if real else log_density.dtype
        found = (xp.astype(part, dtype, copy=False) for part in (log_density, shares))
        return tuple(found)  # type: ignore[return-value]

    def log_densities(self, x: Array, *labels: Array) -> Array:
        """Return the log density of each row."""
        return self.measure(x, *labels)[0]

    def probabilities(self, x: Array, *labels: Array) -> Array:
        """Return responsibilities (n, k)."""
        return namespace_of(x).matrix_transpose(self.measure(x, *labels)[1])

    def most_probable(self, x: Array, *labels: Array) -> Array:
        """Return the most probable component of each row."""
        return namespace_of(x).argmax(self.measure(x, *labels)[1], axis=0)

    def log_largest(self, x: Array, *labels: Array) -> Array:
        """Return the logarithm of the largest responsibility of each row."""
        xp = namespace_of(x)
        return xp.log(xp.max(self.measure(x, *labels)[1], axis=0))


def saved_attributes(parameters: Mapping[str, tuple[str, str]], **others: Any) -> dict[str, Any]:
    """Return the types in a model file of the attributes of parameters, and others."""
    values = {name: np.ndarray | float for name, _ in parameters.values()}
    errors = {name: np.ndarray | float | None for _, name in parameters.values()}
    return {**values, **errors, "_stream": dict[str, Any] | None, **others}


class MixtureEstimator(Predictions, FittedEstimator, DensityCriteria):
    """A mixture of any family: ``fit`` reads as the algorithm.

    Attributes
    ----------
    parameters : mapping of str to pair of str
        Names of the fitted attributes of each parameter of the family, and of their errors.
    n_moves, n_init, order
        Moves of a search, searches, and the order of decoded moments, where they are no
        parameters of the estimator.
    exact_start : bool
        Whether EM starts at given parameters, without any moves.
    """

    vectors = "means_"

    @property
    def n_components_(self) -> int:
        """The number of components."""
        return int(self.weights_.shape[0])

    n_components: int | str
    tol: float
    max_iter: int
    max_components: int
    errors: str | None
    drop_outliers: bool
    weights_: Any
    degrees_of_freedom_: float
    parameters: ClassVar[Mapping[str, tuple[str, str]]] = {}
    iterative: ClassVar[bool] = True
    answers: ClassVar[Mapping[str, str]] = {}
    n_moves: int = 40
    n_init: int = 1
    order: int | str = "auto"
    exact_start: ClassVar[bool] = True
    _family: Any

    # what a subclass supplies

    def _families(self, start: Parameters | None) -> list[Family]:
        """Return the families that compete by BIC, most often one, or the one of a start."""
        raise NotImplementedError

    def _select_rows(self, rows: Rows) -> tuple[Rows, list[Note]]:
        """Return the rows of the fit: without outliers and constant columns."""
        raise NotImplementedError

    def _start_parameters(self, rows: Rows) -> Parameters | None:  # noqa: ARG002
        """Return the parameters from which EM starts, if the user gave any."""
        return None

    def _restored(self, name: str, value: Floats, fill: float | None = None) -> Floats:  # noqa: ARG002
        """Return a parameter of all columns, with ``fill`` or the value of constant ones."""
        return value

    def _varying(self, name: str, value: Floats) -> Floats:  # noqa: ARG002
        """Return a parameter of the columns that vary, the inverse of ``_restored``."""
        return value

    def _unknowns(self, rows: Rows) -> int:  # noqa: ARG002
        """Return the rows that determine one component exactly."""
        return 0

    @property
    def _initial(self) -> str:
        """Where a search starts: "merge", "k-means++" or "moments"."""
        return "merge" if self.order == "auto" else "moments"

    # fit

    def _fit(self, rows: Rows, seed: int) -> None:
        self._stream: dict[str, Any] | None = None
        kept, notes = self._select_rows(rows)
        fit = self._fit_rows(kept, self._start_parameters(kept), seed)
        self._store(fit, kept, notes)

    def _fit_rows(self, rows: Rows, start: Parameters | None, seed: int) -> Fit:
        """Search for the family of least BIC in a sample, and run EM on all rows."""
        rng = np.random.default_rng(seed)
        found = [self._search(family, rows, start, rng) for family in self._families(start)]
        best = found[0]
        if len(found) > 1:
            criteria = {each.family.name: each.bic for each in found}
            best = found[int(np.argmin(list(criteria.values())))]
            best.stats["bic_by_covariance_type"] = criteria
        began = perf_counter()
        sample, sums, shift = best.sample, best.end.sums, best.family.log_jacobian
        all_rows, course = run_on_all_rows(sample, rows, sums, self.tol, self.max_iter)
        n, level = all_rows.n, float(all_rows.e_step(course.sums).levels[0])
        history = [*course.history, level]
        best.stats["mean_log_likelihood_history"] = [value / n + shift for value in history]
        best.stats["seconds_em"] = perf_counter() - began
        return Fit(best, all_rows, course, level + n * shift)

    def _search(
        self, family: Family, rows: Rows, start: Parameters | None, rng: np.random.Generator
    ) -> Found:
        """Search for a mixture in a sample of the rows."""
        began = perf_counter()
        family = family.prepare(rows)
        if start is not None:  # its shared parameters may differ from those of the rows
            family = family.unshared()
        k = None if self.n_components == "auto" else int(self.n_components)
        if start is not None:
            k = k or len(start["weights"])
        exact = start is not None and self.exact_start
        each = max(SAMPLE_PER_COMPONENT, 2 * family.n_parameters(1))
        n = max(SAMPLE_ROWS, (k or 1) * (CHECKED_PER_COMPONENT if exact else each))
        sample = draw_sample(family, rows, n, rng)
        if family.similar_if_near:
            check_distinct(sample, k or 1, rows.total)
        stats: dict[str, Any] = {"start": self._initial, "sample_rows": len(sample.weights)}
        if start is not None and k is not None:
            stats["start"], sums = "given", given_start(sample, k, start, rng)
            end = Improved(math.nan, sums, settled=True, prospects=None)
            if not exact:
                end = find_optimum(sample, k, rng, starts=sums[None])
        elif k is None:
            fewest = max(ROWS_PER_COMPONENT, self._unknowns(rows) + 1)
            most = min(self.max_components, rows.kept, round(rows.total) // fewest)
            end, stats["bic_by_n_components"] = choose_k(sample, rng, max(1, most))
        else:
            end = self._search_k(sample, rows, k, rng, stats)
        stats["seconds_search"] = perf_counter() - began
        return Found(family, sample, end, stats)

    def _search_k(
        self, sample: Sample, rows: Rows, k: int, rng: np.random.Generator, stats: dict[str, Any]
    ) -> Improved:
        """Return the best mixture of k components in a sample."""
        starts: Any = None
        n_moves = self.n_moves
        few = max(FEW_ROWS, FEW_PER_PARAMETER * sample.family.n_parameters(k))
        if n_moves == 0 or self._initial != "merge":
            starts = self._plain_starts(sample, k, rng, stats)
        elif 3 * few < len(sample.weights):
            small = draw_sample(sample.family, rows, few, rng)
            sums, more = find_optimum(small, k, rng, n_moves, patience=0).sums, sample.n / small.n
            starts = sample.shares(more * sums, more * small.rest).sums[None]
        if n_moves == 0:
            return improve(sample, starts[0], rng, 0)._replace(settled=True)
        ends = [find_optimum(sample, k, rng, n_moves, starts=starts)]
        for _ in range(self.n_init - 1):
            ends.append(find_optimum(sample, k, rng, n_moves))
        return ends[int(np.argmax([end.level for end in ends]))]

    def _plain_starts(
        self, sample: Sample, k: int, rng: np.random.Generator, stats: dict[str, Any]
    ) -> Floats:
        """Return k-means groups, and components decoded from moments if asked for, (B, k, s)."""
        groups = at_least_k(micro_components(sample, k, rng), k)
        stats["start"] = "k-means++"
        if self._initial != "moments":
            return groups[None]
        sums = run_em(sample, groups[None], max_iter=30).sums
        decoded = decoded_start(sample, sums[0], rng)
        if decoded is None:
            return sums
        stats["components"] = decoded[1]
        both = run_em(sample, np.stack([sums[0], decoded[0]]), max_iter=60)
        best = int(both.levels[1] >= both.levels[0] - AS_GOOD)
        stats["start"] = ("k-means++", "moments")[best]
        return both.sums[[best]]

    def _store(self, fit: Fit, rows: Rows, notes: list[Note]) -> Fit:
        """Set all fitted attributes, the heaviest component first unless they were given."""
        family, sample, end, stats = fit.found
        n, like = fit.rows.n, rows.first["x"]
        part = sample.n / n
        sums, rest = part * fit.course.sums[0], part * fit.rows.rest
        found_notes = fit_notes(sample, sums, rest, end, np.random.default_rng(0))
        if stats["start"] != "given":
            order = np.argsort(-sums[:, 0], kind="stable")
            found_notes = [renumbered(note, np.argsort(order)) for note in found_notes]
            sums = sums[order]
            fit = fit._replace(course=fit.course._replace(sums=fit.course.sums[:, order]))
        weights, parameters = fit.parameters()
        self._family = family
        self._set_parameters({"weights": weights, **family.to_user(parameters)}, like)
        errors = None
        if self.errors is not None:
            robust = self.errors == "robust"
            errors = standard_errors(sample, weights, parameters, n, robust=robust)
        self._set_errors(errors)
        self.lower_bound_ = fit.level / n
        self.n_iter_, self.converged_ = fit.course.n_iter, fit.course.converged
        limits = [] if self.converged_ else [Note("not_converged", {"max_iter": self.max_iter})]
        self.notes_ = Notes([*found_notes, *limits, *notes])
        rate = misclassification_rate(sample.shares(sums, rest), sample.weights)
        counts = {"rows_used": rows.kept, "rows_counted": rows.total, "outliers": left_out(notes)}
        self.stats_ = {**stats, **counts, "misclassification_rate": rate}
        return fit

    def _set_parameters(self, values: Mapping[str, Any], like: Array) -> None:
        """Set the attributes of parameters, in the library of some rows."""
        for key, (name, _) in self.parameters.items():
            value: Any = np.asarray(values.get(key, math.inf), dtype=np.float64)
            value = self._restored(key, value)
            setattr(self, name, move_like(value, like) if value.ndim else float(value))

    def _set_errors(self, errors: Mapping[str, Any] | None) -> None:
        """Set standard errors; None for none at all."""
        for key, (_, name) in self.parameters.items():
            setattr(self, name, None)
            if errors is not None:
                value: Any = self._restored(key, np.asarray(errors.get(key, 0.0)), 0.0)
                if key == "freedom" and self.degrees_of_freedom_ in (LEAST, MOST):
                    value = np.asarray(math.nan)
                value = move_like(value, self.weights_) if value.ndim else float(value)
                setattr(self, name, value)

    def _fitted(self) -> Parameters:
        """Return weights and parameters of the columns that vary, in the user's units."""
        found = {}
        for key, (name, _) in self.parameters.items():
            value = np.asarray(to_numpy(getattr(self, name)), dtype=np.float64)
            if key != "freedom" or np.isfinite(value):
                found[key] = self._varying(key, value)
        return found

    # partial fit

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Update the sums of the fit by a batch of rows, a step of stepwise EM."""
        self._check_parameters()
        state: Any = getattr(self, "_stream", None)
        how: dict[str, Any] = {"labelled": self.labelled, "fewest": self.fewest_rows}
        opened = open_rows(self, X, y, sample_weight, reset=state is None, as_counts=True, **how)
        with opened as (rows, _):
            kept, notes = self._select_rows(rows)
            if state is None:
                fit = self._fit_rows(
                    kept, self._start_parameters(kept), as_seed(self.random_state)
                )
                fit = self._store(fit, kept, notes)
                self._stream = state = {"sums": self._sums_of(fit), "seen": kept.total}
                warn_of(self.notes_)
            else:
                self._step(state, kept)
                self._count_batch(kept, left_out(notes))
        self.stats_["rows_seen"] = state["seen"]
        return self

    def _sums_of(self, fit: Fit) -> Floats:
        """Return the sums of a fit, of shared features too."""
        family, (weights, parameters) = self._family.unshared(), fit.parameters()
        if family.n_own == self._family.n_own:
            return np.asarray(fit.course.sums[0])
        return np.asarray(family.sums_of(parameters, fit.rows.n * weights))

    def _step(self, state: dict[str, Any], rows: Rows) -> None:
        """Move the sums towards those of a batch (Cappé and Moulines 2009)."""
        family, sums, old = self._family.unshared(), state["sums"], state["seen"]
        batch = Stream.of(family, rows)
        seen = old + batch.n
        share = (batch.n / seen) ** FORGETTING
        new = batch.e_step(sums[None] * (batch.n / old))
        sums = seen * ((1 - share) * sums / old + share * new.sums[0] / batch.n)
        state.update(sums=sums, seen=seen)
        found = family.to_user(family.estimate(sums, family.pool(sums, batch.rest)))
        self._set_parameters({"weights": sums[:, 0] / sums[:, 0].sum(), **found}, rows.first["x"])
        self._set_errors(None)
        self.lower_bound_ = float(new.levels[0]) / batch.n + family.log_jacobian
        self.n_iter_ += 1
        self.stats_.pop("mean_log_likelihood_history", None)  # of the first batch

    def _count_batch(self, rows: Rows, outliers: int) -> None:
        """Add the rows of a batch, and the outliers that were left out of it."""
        counts = {"rows_used": rows.kept, "rows_counted": rows.total, "outliers": outliers}
        for name, n in counts.items():
            self.stats_[name] += n
        if outliers:
            others = [note for note in self.notes_ if note.code != "outliers"]
            note = Note("outliers", {"n": self.stats_["outliers"], "done": "left out of"})
            self.notes_ = Notes([*others, note])

    # answers

    def _evaluator(self) -> Evaluator:
        """Return the fitted mixture as functions of rows."""
        family, found = self._family.unshared(), self._fitted()
        weights = found.pop("weights")
        coefficients = family.coefficients(family.from_user(found))[0]
        coefficients[:, 0] += np.log(np.maximum(weights / weights.sum(), 1e-300))
        epsilon = precision_of(self.weights_)
        return Evaluator(family, coefficients, self._constant_values, epsilon)

    def _function(self, name: str) -> RowFunction:
        """Return a method of the evaluator as a function of blocks of rows."""
        evaluator = self._evaluator()
        width = evaluator.family.n_features + 2 * len(evaluator.coefficients)
        return RowFunction(getattr(evaluator, name), labelled=self.labelled, width=width)

    def _log_density(self, X: Any, y: Any) -> RowFunction:  # noqa: ARG002
        return self._function("log_densities")

    def _n_parameters(self) -> int:
        return int(self._family.n_parameters(self._k()))

    def icl(self, X: Any, y: Any = None) -> float:
        """Return the integrated completed likelihood criterion; lower is better.

        The Bayesian information criterion of the most probable assignment of the rows: it also
        charges for components that overlap, so it counts clusters rather than components.

        Parameters
        ----------
        X, y : as for :meth:`bic`

        Returns
        -------
        float
        """
        check_is_fitted(self)
        doubt = self._function("log_largest").total(self, X, y)
        return self.bic(X, y) - 2 * doubt.total

    def _checks(self) -> list[Check]:
        rate, checks = self.stats_.get("misclassification_rate", 1.0), self._bic_checks()
        if self._k() > 1 and rate <= 0.05:
            words = f"expected misclassification rate: {rate:.2%}"
            checks.append(Check("misclassification", True, words))
        return checks

    def _check_parameters(self) -> None:
        """Raise for a parameter that cannot be used."""
        super()._check_parameters()
        check_whole_or("n_components", self.n_components, ("auto",), 1)
        check_whole("max_components", self.max_components, 1)
        check_number("tol", self.tol, 0.0)
        check_errors(self.errors)

    def _check_enough(self, n: float) -> None:
        """Raise where there are fewer rows than components."""
        k = 1 if self.n_components == "auto" else int(self.n_components)
        check_enough_rows(round(n), k)


def left_out(notes: list[Note]) -> int:
    """Return how many rows were left out, as notes say."""
    return sum(int(note.values["n"]) for note in notes if note.code == "outliers")


def renumbered(note: Note, rank: Places) -> Note:
    """Return a note on the same components in another order."""
    which = note.values.get("which")
    if which is None:
        return note
    return Note(note.code, {**note.values, "which": sorted(rank[which].tolist())})
