"""The base of the mixture estimators: one fit, and what a fitted mixture answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from implicitmoments.arrays import Array, Floats, move_like, namespace_of
from implicitmoments.estimator import Check, FittedEstimator
from implicitmoments.evaluation import DensityCriteria, Predictions, RowFunction
from implicitmoments.mixture.choose_k import choose_k
from implicitmoments.mixture.diagnostics import Evidence, fit_notes, misclassification_rate
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
from implicitmoments.mixture.family import Family, Parameters, all_coefficients
from implicitmoments.mixture.moves import Improved, improve
from implicitmoments.mixture.standard_errors import standard_errors
from implicitmoments.mixture.starts import (
    at_least_k,
    decoded_start,
    find_optimum,
    given_start,
    micro_components,
)
from implicitmoments.notes import InputError, Note, Notes, warn_of
from implicitmoments.rows import Block, Rows, as_seed, open_rows
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
FORGETTING = 0.7  # exponent of the share of a batch in the sums of ``partial_fit``


@dataclass(frozen=True)
class Options:
    """What the user chose for a search."""

    k: int | None  # None to choose it
    most: int  # components that are tried at most
    max_iter: int
    tol: float
    n_moves: int = 40
    n_init: int = 1
    start: Parameters | None = None  # parameters from which EM starts
    exact: bool = True  # whether no moves are tried from there
    initial: str = "merge"  # "merge", "k-means++" or "moments"


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
    sums: Floats  # (k, s)
    rest: Floats
    level: float  # log-likelihood of all rows, in the user's units
    n: float  # the sum of their weights
    course: Course

    @property
    def weights(self) -> Floats:
        """The weights of the components."""
        return np.asarray(self.sums[:, 0] / self.sums[:, 0].sum())

    @property
    def parameters(self) -> Parameters:
        """The parameters in the units of the family."""
        family = self.found.family
        return family.estimate(self.sums, family.pool(self.sums, self.rest))


def search_sample(family: Family, rows: Rows, options: Options, rng: np.random.Generator) -> Found:
    """Search for a mixture in a sample of the rows."""
    began = perf_counter()
    family = family.prepare(rows)
    if options.start is not None:  # its shared parameters may differ from those of the rows
        family = family.unshared()
    sample = draw_sample(family, rows, rows_for(family, options), rng)
    if family.similar_if_near:
        check_distinct(sample, options.k or 1, rows.total)
    stats: dict[str, Any] = {"start": options.initial, "sample_rows": len(sample.weights)}
    end = search(family, rows, sample, options, rng, stats)
    stats["seconds_search"] = perf_counter() - began
    return Found(family, sample, end, stats)


def search(
    family: Family,
    rows: Rows,
    sample: Sample,
    options: Options,
    rng: np.random.Generator,
    stats: dict[str, Any],
) -> Improved:
    """Return the best mixture (k, s) of a sample."""
    k, start = options.k, None
    if options.start is not None:
        stats["start"], given = "given", options.start
        start = given_start(sample, k or len(given["weights"]), given, rng)
        if options.exact:
            return Improved(math.nan, start, settled=True, prospects=None)
        return find_optimum(sample, len(start), rng, start=start)
    if k is None:
        end, stats["bic_by_n_components"] = choose_k(sample, rng, options.most)
        return end
    few = max(FEW_ROWS, FEW_PER_PARAMETER * family.n_parameters(k))
    if options.initial != "merge" or options.n_moves == 0:
        start = plain_start(sample, k, options, rng, stats)
        if options.n_moves == 0:
            return improve(sample, start, rng, 0)._replace(settled=True)
    elif 3 * few < len(sample.weights):
        small = draw_sample(family, rows, few, rng)
        start = find_optimum(small, k, rng, options.n_moves, patience=0).sums
        more = sample.n / small.n
        start = sample.shares(more * start, more * small.rest).sums
    ends = [find_optimum(sample, k, rng, options.n_moves, start=start)]
    ends += [find_optimum(sample, k, rng, options.n_moves) for _ in range(options.n_init - 1)]
    return max(ends, key=lambda end: end.level)


def plain_start(
    sample: Sample, k: int, options: Options, rng: np.random.Generator, stats: dict[str, Any]
) -> Floats:
    """Return a start without a search: k-means groups, or components decoded from moments."""
    sums = at_least_k(micro_components(sample, k, rng), k)
    if options.initial != "moments":
        return sums
    sums = np.asarray(run_em(sample, sums[None], max_iter=30).sums[0])
    decoded = decoded_start(sample, sums, rng)
    stats["start"] = "k-means++"
    if decoded is None:
        return sums
    stats["components"] = decoded[1]
    levels, ends = run_em(sample, np.stack([sums, decoded[0]]), max_iter=60)[:2]
    if levels[1] < levels[0] - 0.1:
        return np.asarray(ends[0])
    stats["start"] = "moments"
    return np.asarray(ends[1])


def rows_for(family: Family, options: Options) -> int:
    """Return how many rows a search holds, or the checks of a fit without one."""
    each = max(SAMPLE_PER_COMPONENT, 2 * family.n_parameters(1))
    if options.start is not None and options.exact:
        each = CHECKED_PER_COMPONENT
    return max(SAMPLE_ROWS, (options.k or 1) * each)


def draw_sample(family: Family, rows: Rows, n: int, rng: np.random.Generator) -> Sample:
    """Hold some rows, as far as memory allows, and their features."""
    return Sample.of(family, rows.sample(n, rng, width=family.n_features))


def check_distinct(sample: Sample, k: int, total: float) -> None:
    """Raise if all rows are equal, or fewer are distinct than there are components."""
    points, enough = sample.family.points(sample.features), max(k, 2)
    if len(np.unique(points[: 4 * enough], axis=0)) >= enough:
        return
    n = len(np.unique(points, axis=0))
    if n >= enough:
        return
    if n == 1:
        raise InputError(
            "rows_all_equal",
            "all {n:count row} are equal, so there is no covariance to estimate; check the data",
            n=round(total),
        )
    raise InputError(
        "too_few_distinct_rows",
        "`n_components={k}` is more than the {n:count distinct row}; use at most "
        "`n_components={n}`",
        k=k,
        n=n,
    )


def fit_all_rows(found: Found, rows: Rows, options: Options) -> Fit:
    """Run EM on all rows from what a search found."""
    began = perf_counter()
    exact, course = run_on_all_rows(found.sample, rows, found.end.sums, options)
    shift = found.family.log_jacobian
    level = float(exact.e_step(course.sums).levels[0]) + exact.n * shift
    history = [value / exact.n + shift for value in course.history]
    found.stats["mean_log_likelihood_history"] = [*history, level / exact.n]
    found.stats["seconds_em"] = perf_counter() - began
    return Fit(found, course.sums[0], exact.rest, level, exact.n, course)


def run_on_all_rows(
    sample: Sample, rows: Rows, sums: Floats, options: Options
) -> tuple[FeatureRows, Course]:
    """Run EM on all rows: on the sample if it holds them, otherwise by passes over the source.

    Passes are in single precision while gains exceed its rounding, if it is precise enough in
    the sample, and in double precision at the end.
    """
    if len(sample.weights) == rows.kept:
        course = run_em(sample, sums[None], tol=options.tol, max_iter=options.max_iter)
        return sample, course
    exact = Stream.of(sample.family, rows)
    more = exact.n / sample.n
    sums = (sums * (exact.n / sums[:, 0].sum()))[None]
    if options.max_iter and len(exact.rest):  # the sample's shared features belong to its sums
        sums = exact.with_rest(more * sample.rest).e_step(sums).sums
    first = Course(np.zeros(1), sums)
    if sample.in_single(sums[0] / more) is not sample:
        fast, tol = replace(exact, single=True), max(options.tol, 2 * SINGLE_ERROR[0])
        first = run_em(fast, sums, tol=tol, max_iter=max(0, options.max_iter - EXACT_STEPS))
    last = run_em(exact, first.sums, tol=options.tol, max_iter=options.max_iter - first.n_iter)
    history = (*first.history, *last.history)
    return exact, last._replace(n_iter=first.n_iter + last.n_iter, history=history)


@dataclass(frozen=True, eq=False)
class Evaluator:
    """A fitted mixture as a function of rows: log densities and responsibilities."""

    family: Family
    coefficients: Floats  # (k, n_features), log weights included

    @classmethod
    def of(cls, family: Family, weights: Floats, parameters: Parameters) -> Evaluator:
        """Return the mixture of parameters in the user's units."""
        coefficients = all_coefficients(family, family.from_user(parameters))
        coefficients[:, 0] += np.log(np.maximum(weights / weights.sum(), 1e-300))
        return cls(family, coefficients)

    def __call__(self, block: Block) -> tuple[Array, Array]:
        """Return log densities (n,) and responsibilities (k, n) of a block."""
        features = self.family.features(in_double(block))
        log_density, shares = normalise(
            self.family.logits(move_like(self.coefficients, features), features)
        )
        return log_density + self.family.log_jacobian, shares


def answer(
    evaluator: Evaluator, finish: Callable[[Array, Array], Array], x: Array, *labels: Array
) -> Array:
    """Return a function of log densities and responsibilities in the precision of the rows."""
    xp, block = namespace_of(x), {"x": x}
    if labels:
        block["y"] = labels[0]
    found = finish(*evaluator(block))
    real = xp.isdtype(found.dtype, "real floating") and xp.isdtype(x.dtype, "real floating")
    return xp.astype(found, x.dtype, copy=False) if real else found


def log_densities(log_density: Array, shares: Array) -> Array:  # noqa: ARG001
    """Return the log density of each row."""
    return log_density


def probabilities(log_density: Array, shares: Array) -> Array:  # noqa: ARG001
    """Return responsibilities (n, k)."""
    return namespace_of(shares).matrix_transpose(shares)


def most_probable(log_density: Array, shares: Array) -> Array:  # noqa: ARG001
    """Return the most probable component of each row."""
    return namespace_of(shares).argmax(shares, axis=0)


def log_largest(log_density: Array, shares: Array) -> Array:  # noqa: ARG001
    """Return the logarithm of the largest responsibility of each row."""
    xp = namespace_of(shares)
    return xp.log(xp.max(shares, axis=0))


def n_outliers(notes: list[Note]) -> int:
    """Return how many rows were left out, as notes say."""
    return sum(int(note.values["n"]) for note in notes if note.code == "outliers")


class MixtureEstimator(Predictions, FittedEstimator, DensityCriteria):
    """A mixture of any family: ``fit`` reads as the algorithm."""

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
    saved: ClassVar[Mapping[str, Any]] = {
        "weights_": np.ndarray,
        "weight_errors_": np.ndarray | None,
        "_stream": dict[str, Any] | None,
    }
    iterative: ClassVar[bool] = True
    answers: ClassVar[Mapping[str, str]] = {}

    # what a subclass supplies

    def _families(self, start: Parameters | None) -> list[Family]:
        """Return the families that compete by BIC, most often one, or the one of a start."""
        raise NotImplementedError

    def _select_rows(self, rows: Rows) -> tuple[Rows, list[Note]]:
        """Return the rows of the fit: without outliers and constant columns."""
        raise NotImplementedError

    def _store_parameters(self, family: Family, found: Parameters, like: Array) -> None:
        """Set the fitted attributes, in the user's units and the library of the rows."""
        raise NotImplementedError

    def _store_errors(self, weights: Floats | None, found: Parameters | None) -> None:
        """Set the standard errors; of weights None for none at all, of others None for NaN."""
        raise NotImplementedError

    def _evaluator(self) -> Evaluator:
        """Return the fitted mixture as a function of rows."""
        raise NotImplementedError

    def _start_parameters(self, rows: Rows) -> Parameters | None:  # noqa: ARG002
        """Return the parameters from which EM starts, if the user gave any."""
        return None

    # fit

    def _fit(self, rows: Rows, seed: int) -> None:
        self._stream: dict[str, Any] | None = None
        kept, notes = self._select_rows(rows)
        fit = self._fit_rows(kept, np.random.default_rng(seed))
        self._store(fit, kept, notes)

    def _fit_rows(self, rows: Rows, rng: np.random.Generator) -> Fit:
        """Fit the family, or the one of least BIC."""
        options = self._options(rows)
        families = self._families(options.start)
        found = [search_sample(family, rows, options, rng) for family in families]
        best = found[0]
        if len(found) > 1:
            criteria = [each.bic for each in found]
            best = found[int(np.argmin(criteria))]
            names = [each.family.name for each in found]
            best.stats["bic_by_covariance_type"] = dict(zip(names, criteria, strict=True))
        return fit_all_rows(best, rows, options)

    def _options(self, rows: Rows) -> Options:
        auto = self.n_components == "auto"
        fewest = max(ROWS_PER_COMPONENT, self._unknowns(rows) + 1)
        return Options(
            k=None if auto else int(self.n_components),
            most=max(1, min(self.max_components, rows.kept, round(rows.total) // fewest)),
            max_iter=self.max_iter,
            tol=self.tol,
            start=self._start_parameters(rows),
        )

    def _unknowns(self, rows: Rows) -> int:  # noqa: ARG002
        """Return the rows that determine one component exactly."""
        return 0

    def _store(self, fit: Fit, rows: Rows, notes: list[Note]) -> None:
        """Set all fitted attributes, the heaviest component first unless they were given."""
        family, sample, end, stats = fit.found
        prospects = end.prospects
        if stats["start"] != "given":
            order = np.argsort(-fit.sums[:, 0], kind="stable")
            fit = fit._replace(sums=fit.sums[order])
            prospects = None if prospects is None else prospects.reordered(order)
        parameters, weights = fit.parameters, fit.weights
        self._store_parameters(
            family, {"weights": weights, **family.to_user(parameters)}, rows.first["x"]
        )
        self.lower_bound_ = fit.level / fit.n
        self.n_iter_, self.converged_ = fit.course.n_iter, fit.course.converged
        part = sample.n / fit.n
        found = sample.shares(part * fit.sums, part * fit.rest)
        rng = np.random.default_rng(0)
        evidence = Evidence(sample, found, parameters, prospects, end.settled, rng)
        limits = [] if self.converged_ else [Note("not_converged", {"max_iter": self.max_iter})]
        self.notes_ = Notes([*fit_notes(evidence), *limits, *notes])
        errors = None
        if self.errors is not None:
            errors = standard_errors(
                sample, weights, parameters, fit.n, robust=self.errors == "robust"
            )
        self._store_errors(*(errors or (None, None)))
        counts = {
            "rows_used": rows.kept,
            "rows_counted": rows.total,
            "outliers": n_outliers(notes),
        }
        rate = misclassification_rate(found, sample.weights)
        self.stats_ = {**stats, **counts, "misclassification_rate": rate}

    # partial fit

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Update the sums of the fit by a batch of rows, a step of stepwise EM."""
        self._check_parameters()
        begun = getattr(self, "_stream", None) is not None
        how: dict[str, Any] = {"labelled": self.labelled, "fewest": self.fewest_rows}
        opened = open_rows(self, X, y, sample_weight, reset=not begun, as_counts=True, **how)
        with opened as (rows, _):
            kept, notes = self._select_rows(rows)
            if begun:
                self._step(kept)
                self._count_batch(kept, notes)
            else:
                fit = self._fit_rows(kept, np.random.default_rng(as_seed(self.random_state)))
                self._store(fit, kept, notes)
                state = {"sums": fit.sums, "rest": fit.rest, "seen": kept.total}
                self._stream = {**state, "units": fit.found.family.units()}
        self.stats_["rows_seen"] = self._stream["seen"]  # type: ignore[index]
        warn_of(() if begun else self.notes_)
        return self

    def _step(self, rows: Rows) -> None:
        """Move the sums towards those of a batch (Cappé and Moulines 2009)."""
        state: Any = self._stream
        family, old = self._families(None)[0].with_units(state["units"]), state["seen"]
        batch = Stream.of(family, rows)
        seen = old + batch.n
        share = (batch.n / seen) ** FORGETTING
        sums, rest = (state[name] * (batch.n / old) for name in ("sums", "rest"))
        # the sums so far determine the mixture, also what its components share
        new = batch.with_rest(rest).e_step(sums[None])
        level = float(new.levels[0])
        base = family.coefficients(family.estimate(sums, family.pool(sums, rest)))[1]
        if base is not None:
            level += float(base[0] @ (batch.rest - rest))
        for name, part in (("sums", new.sums[0]), ("rest", batch.rest)):
            state[name] = seen * ((1 - share) * state[name] / old + share * part / batch.n)
        state["seen"], sums = seen, state["sums"]
        found = family.to_user(family.estimate(sums, family.pool(sums, state["rest"])))
        weights = sums[:, 0] / sums[:, 0].sum()
        self._store_parameters(family, {"weights": weights, **found}, rows.first["x"])
        self.lower_bound_ = level / batch.n + family.log_jacobian
        self.n_iter_ += 1
        self.stats_.pop("mean_log_likelihood_history", None)  # of the first batch
        self._store_errors(None, None)

    def _count_batch(self, rows: Rows, notes: list[Note]) -> None:
        """Add the rows of a batch, and the outliers that were left out of it."""
        left_out = n_outliers(notes)
        counts = {"rows_used": rows.kept, "rows_counted": rows.total, "outliers": left_out}
        for name, n in counts.items():
            self.stats_[name] += n
        if left_out:
            others = [note for note in self.notes_ if note.code != "outliers"]
            note = Note("outliers", {"n": self.stats_["outliers"], "done": "left out of"})
            self.notes_ = Notes([*others, note])

    # answers

    def _function(self, finish: Callable[[Array, Array], Array]) -> RowFunction:
        evaluator = self._evaluator()
        width = evaluator.family.n_features + 2 * len(evaluator.coefficients)
        function = partial(answer, evaluator, finish)
        return RowFunction(function, labelled=self.labelled, width=width)

    def _log_density(self, X: Any, y: Any) -> RowFunction:  # noqa: ARG002
        return self._function(log_densities)

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
        doubt = self._function(log_largest).total(self, X, y)
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
