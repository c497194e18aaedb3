"""The base of the mixture estimators: one fit, and what a fitted mixture answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from operator import attrgetter
from time import perf_counter
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.random import Generator
from sklearn.utils.validation import check_is_fitted

from implicitmoments.arrays import (
    Array,
    Floats,
    machine_epsilon,
    move_like,
    namespace_of,
    to_numpy,
)
from implicitmoments.estimator import (
    FEATURES,
    Check,
    FittedEstimator,
    as_like,
    column_names,
    outlier_notes,
)
from implicitmoments.evaluation import DensityCriteria, Predictions, RowFunction
from implicitmoments.mixture.choose_k import choose_k
from implicitmoments.mixture.diagnostics import fit_notes
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
from implicitmoments.mixture.family import Family, Parameters
from implicitmoments.mixture.gaussians import Gaussians
from implicitmoments.mixture.lines import Lines
from implicitmoments.mixture.moves import Improved
from implicitmoments.mixture.standard_errors import standard_errors
from implicitmoments.mixture.starts import (
    PATIENCE,
    at_least_k,
    find_optimum,
    given_start,
    micro_components,
)
from implicitmoments.mixture.students import LEAST, MOST, Students
from implicitmoments.mixture.tables import Tables
from implicitmoments.notes import InputError, Note, Notes, warn_of
from implicitmoments.rows import Near, Rows, cells_off, open_rows
from implicitmoments.validation import (
    ROWS_PER_COMPONENT,
    RandomState,
    as_seed,
    number,
    whole,
    words,
)

SAMPLE_ROWS = 20_000  # rows of a search at least, if there are so many


class Search(NamedTuple):
    """A mixture that was found in a sample."""

    sample: Sample
    end: Improved
    stats: dict[str, Any]

    @property
    def bic(self) -> float:
        """The Bayesian information criterion in the sample, in the user's units."""
        sample, sums = self.sample, self.end.sums
        level = float(sample.e_step(sums[None]).levels[0]) + sample.n * sample.family.log_jacobian
        return -2 * level + sample.family.n_parameters(len(sums)) * math.log(sample.n)

    def run_em(self, rows: Rows, tol: float, max_iter: int) -> tuple[FeatureRows, Course]:
        """Run EM on all rows: on the sample if it holds them, otherwise by passes over the source.

        Passes are in single precision while gains exceed its rounding, if it is precise enough in
        the sample, and in double precision at the end.
        """
        sample, sums = self.sample, self.end.sums
        if len(sample.weights) == rows.kept:
            return sample, run_em(sample, sums[None], tol=tol, max_iter=max_iter)
        more = rows.total / sample.n
        sums = (sums * (rows.total / sums[:, 0].sum()))[None]
        step = Stream(sample.family, rows, more * sample.rest).e_step(sums)
        exact, sums = Stream(sample.family, rows, step.rest), step.sums if max_iter else sums
        first = Course(np.zeros(1), sums)
        if sample.in_single(sums[0] / more) is not sample:  # but for the last nine steps
            fast, coarse = replace(exact, single=True), max(tol, 2 * SINGLE_ERROR[0])
            first = run_em(fast, sums, tol=coarse, max_iter=max(0, max_iter - 9))
        last = run_em(exact, first.sums, tol=tol, max_iter=max_iter - first.n_iter)
        history = (*first.history, *last.history)
        return exact, last._replace(n_iter=first.n_iter + last.n_iter, history=history)


class Fit(NamedTuple):
    """A mixture that was fitted to all rows."""

    search: Search
    rows: FeatureRows
    course: Course
    level: float  # mean log-likelihood per row, in the user's units

    def mixture(self, order: Any = slice(None), epsilon: float = 0.0) -> Mixture:
        """Return the mixture, its components in some order."""
        family: Any = self.search.sample.family
        sums = self.course.sums[0][order]
        parameters = family.estimate(sums, family.pool(sums, self.rows.rest))
        return Mixture(family, sums[:, 0] / sums[:, 0].sum(), parameters, epsilon)


def check_distinct(sample: Sample, k: int, total: float) -> None:
    """Raise if all rows are equal, or fewer are distinct than there are components."""
    points, enough = sample.family.points(sample.features), max(k, 2)
    n = len(np.unique(points[: 4 * enough], axis=0))
    if n < enough:
        n = len(np.unique(points, axis=0))
    if n < enough:
        template = "`n_components={k}` needs {enough} distinct rows at least, and "
        template += "{total:count row} have {n}; check the data, or use fewer components"
        values = {"k": k, "enough": enough, "total": round(total)}
        raise InputError("too_few_distinct_rows", template, n=n, **values)


@dataclass(frozen=True, eq=False)
class Mixture:
    """A fitted mixture as functions of rows, in the precision of the rows."""

    family: Gaussians | Lines | Students | Tables
    weights: Floats  # (k,)
    parameters: dict[str, Any]  # in the units of the family
    epsilon: float  # of the precision of the rows of the fit

    @property
    def values(self) -> Parameters:
        """Weights and parameters in the user's units."""
        return {"weights": self.weights, **self.family.to_user(self.parameters)}

    @property
    def base(self) -> Any:
        """The family without Student's t."""
        return self.family.base if isinstance(self.family, Students) else self.family

    @cached_property
    def coefficients(self) -> Floats:
        """Coefficients (k, n_features), log weights included."""
        found: Floats = self.family.unshared().coefficients(self.parameters)[0]
        found[:, 0] += np.log(np.maximum(self.weights, 1e-300))
        return found

    def measure(self, x: Array, *labels: Array) -> tuple[Array, Array]:
        """Return log densities (n,) and responsibilities (k, n)."""
        block = {"x": x, "y": labels[0]} if labels else {"x": x}
        features = self.family.features(in_double(block))
        logits = self.family.logits(move_like(self.coefficients, features), features)
        log_density, shares = normalise(logits)
        xp, log_density = namespace_of(x), log_density + self.family.log_jacobian
        if self.family.constants is not None:
            off = cells_off(self.family.constants, max(self.epsilon, machine_epsilon(x)), x)
            barred = xp.full_like(log_density, -math.inf)
            log_density = xp.where(xp.any(off, axis=1), barred, log_density)
        dtype = x.dtype if xp.isdtype(x.dtype, "real floating") else log_density.dtype
        return xp.astype(log_density, dtype, copy=False), xp.astype(shares, dtype, copy=False)

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


def error_name(name: str) -> str:
    """Return the attribute of the standard errors of a parameter."""
    return f"{name.removesuffix('s')}_errors_"


def saved_attributes(parameters: Sequence[str], **others: Any) -> dict[str, Any]:
    """Return the types in a model file of the attributes of parameters, and others."""
    values = {f"{name}_": np.ndarray | float for name in parameters}
    errors = {error_name(name): np.ndarray | float | None for name in parameters}
    state = {"_mixture": Mixture, "_near": Near | None, "_sums": np.ndarray | None}
    return {**values, **errors, **state, **others}


def tables_of(name: str, *parameters: str) -> dict[str, dict[str, str]]:
    """Return a table of components and one of errors: attributes by heading, vectors last."""
    headings = [*(each.removesuffix("s") for each in parameters[:-1]), FEATURES]
    values, errors = [f"{each}_" for each in parameters], map(error_name, parameters)
    return {
        name: dict(zip(headings, values, strict=True)),
        "Standard errors": dict(zip(headings, errors, strict=True)),
    }


@dataclass(eq=False, repr=False)  # scikit-learn compares and prints estimators
class MixtureEstimator(Predictions, FittedEstimator, DensityCriteria):
    """A mixture of any family: ``fit`` reads as the algorithm.

    Attributes
    ----------
    parameters : sequence of str
        Parameters of the family, in the user's units, that are fitted attributes.
    n_moves, n_init, init_params
        Moves of a search, searches, and where a search starts, in estimators that have no such
        parameter.
    """

    vectors = "means_"
    parameters: ClassVar[Sequence[str]] = ()
    answers: ClassVar[Mapping[str, str]] = {
        "probabilities": "predict_proba",
        "densities": "score_samples",
        "samples": "sample",
    }
    allowed: ClassVar[Mapping[str, list[Any]]] = {
        **FittedEstimator.allowed,
        "n_components": [whole(1), words("auto")],
        "n_moves": [whole(0)],
        "max_iter": [whole(1)],
        "tol": [number(0.0)],
        "max_components": [whole(1)],
        "errors": [words("observed", "robust"), None],
        "noise": [words("gaussian", "student")],
        "noise_type": [words("shared", "separate")],
        "fit_intercept": ["boolean"],
    }
    n_components: int | str = 2
    _: KW_ONLY
    max_components: int = 50
    max_iter: int = 500
    tol: float = 1e-7
    errors: str | None = None
    drop_outliers: bool = True
    random_state: RandomState = None
    rows_per_block: int | None = None

    n_moves = 40
    n_init = 1
    init_params = "auto"

    # what a subclass supplies

    def _families(self, start: Any) -> list[Family]:
        """Return the families that compete by BIC, most often one, or the one of a start."""
        raise NotImplementedError

    def _select_rows(self, rows: Rows) -> tuple[Rows, int]:
        """Return the rows of the fit, and how many outliers they leave out."""
        raise NotImplementedError

    def _start(self, rows: Rows) -> Parameters | None:  # noqa: ARG002
        """Return the parameters at which EM starts, if the user gave any."""
        return None

    # fit

    def _fit(self, rows: Rows, seed: int) -> None:
        kept, n_outliers = self._select_rows(rows)
        self._store(self._fit_rows(kept, self._start(kept), seed), kept, n_outliers)

    def _fit_rows(self, rows: Rows, start: Parameters | Mixture | None, seed: int) -> Fit:
        """Search for the family of least BIC in a sample, and run EM on all rows."""
        rng = np.random.default_rng(seed)
        found = [self._search(family, rows, start, rng) for family in self._families(start)]
        best = found[0]
        if len(found) > 1:
            criteria = {each.sample.family.name: each.bic for each in found}
            best = found[int(np.argmin(list(criteria.values())))]
            best.stats["bic_by_covariance_type"] = criteria
        began = perf_counter()
        all_rows, course = best.run_em(rows, self.tol, self.max_iter)
        level = float(all_rows.e_step(course.sums).levels[0])
        levels = np.array([*course.history, level]) / all_rows.n + best.sample.family.log_jacobian
        best.stats["mean_log_likelihood_history"] = levels.tolist()
        best.stats["seconds_em"] = perf_counter() - began
        return Fit(best, all_rows, course, float(levels[-1]))

    def _search(self, family: Family, rows: Rows, start: Any, rng: Generator) -> Search:
        """Search for a mixture in a sample of the rows; given parameters are the result."""
        began, family = perf_counter(), family.prepare(rows)
        k = None if self.n_components == "auto" else int(self.n_components)
        each = max(400, 2 * family.n_parameters(1))  # rows per component
        if isinstance(start, dict):  # its shared parameters may differ from those of the rows
            family, each, k = family.unshared(), 20, k or len(start["weights"])
        drawn = rows.sample(max(SAMPLE_ROWS, (k or 1) * each), rng, width=family.n_features)
        sample = Sample.of(family, drawn)
        if family.similar_if_near:
            check_distinct(sample, k or 1, rows.total)
        kind = "merge" if family.similar_if_near else "lines"
        stats: dict[str, Any] = {"start": kind, "sample_rows": len(sample.weights)}
        if k is None:
            # lines through as many rows as coefficients are exact
            fewest = max(ROWS_PER_COMPONENT, 0 if kind == "merge" else family.n_parameters(1))
            most = min(self.max_components, rows.kept, round(rows.total) // fewest)
            end, stats["bic_by_n_components"] = choose_k(sample, rng, max(1, most))
        elif isinstance(start, dict):
            stats["start"], sums = "given", given_start(sample, k, start, rng)
            end = Improved(math.nan, sums, settled=True, prospects=None)
        elif start is not None:
            block = in_double(drawn.block)
            shares = to_numpy(start.measure(block["x"], block["y"])[1]) * sample.weights
            end = find_optimum(sample, k, rng, starts=(shares @ sample.own)[None])
        else:
            starts: list[Any] = [self._starts(sample, k, rng, stats) for _ in range(self.n_init)]
            how = (self.n_moves, PATIENCE if self.n_moves else 0)
            found = (find_optimum(sample, k, rng, *how, one) for one in starts)
            end = max(found, key=attrgetter("level"))
        stats["seconds_search"] = perf_counter() - began
        return Search(sample, end, stats)

    def _starts(self, sample: Sample, k: int, rng: Generator, stats: Any) -> Floats | None:
        """Return sums (B, k, s) at which a search starts: k-means groups if asked for.

        Otherwise the optimum of a small sample, or None where the sample itself is small.
        """
        n, few = len(sample.weights), max(2_000, 20 * sample.family.n_parameters(k))
        if self.n_moves == 0 or self.init_params != "auto":
            stats["start"] = "k-means++"
            return at_least_k(micro_components(sample, k, rng), k)[None]
        if 3 * few >= n:
            return None
        small = sample.thinned(few)
        sums, more = find_optimum(small, k, rng, self.n_moves, patience=0).sums, sample.n / small.n
        return sample.shares(more * sums, more * small.rest).sums[None]

    def _store(self, fit: Fit, rows: Rows, n_outliers: int) -> Floats:
        """Set all fitted attributes, the heaviest component first unless they were given.

        Returns the sums of the fit in this order.
        """
        (sample, end, stats), course, like = fit.search, fit.course, rows.table.first["x"]
        n, part = fit.rows.n, sample.n / fit.rows.n
        sums, rest = part * course.sums[0], part * fit.rows.rest
        doubt = 1 - sample.shares(sums, rest).shares.max(0)
        rate = float(doubt @ sample.weights / sample.n)
        given = stats["start"] == "given"
        order = np.arange(len(sums)) if given else np.argsort(-sums[:, 0], kind="stable")
        notes = fit_notes(sample, sums, rest, end, np.argsort(order))
        mixture = fit.mixture(order, machine_epsilon(like))
        self._mixture: Mixture = mixture
        errors = None
        if self.errors is not None:
            how = {"robust": self.errors == "robust"}
            errors = standard_errors(sample, mixture.weights, mixture.parameters, n, **how)
        self._set_parameters(errors, like)
        self._sums: Floats | None = None  # of the features, in ``partial_fit``
        self.lower_bound_, self.n_iter_ = fit.level, course.n_iter
        self.converged_ = course.converged
        if not self.converged_:
            notes.append(Note("not_converged", {"max_iter": self.max_iter}))
        left_out = mixture.family.left_out()
        if len(left_out):
            columns = [column_names(self)[j] for j in left_out]
            notes.append(Note("columns_left_out", {"columns": columns}))
        self.notes_ = Notes([*notes, *outlier_notes(n_outliers)])
        counts = {"rows_used": rows.kept, "rows_counted": rows.total, "outliers": n_outliers}
        self.stats_ = {**stats, **counts, "misclassification_rate": rate}
        return np.asarray(course.sums[0][order])

    def _set_parameters(self, errors: Parameters | None, like: Array) -> None:
        """Set the attributes of parameters and their errors, in the library of some rows."""
        found = self._mixture.values
        if errors is not None and found.get("degrees_of_freedom", math.inf) in (LEAST, MOST):
            errors["degrees_of_freedom"] = np.asarray(math.nan)
        for name in self.parameters:
            key = "covariances" if name == "variance" else name
            error = None if errors is None else as_like(errors.get(key, 0.0), like)
            setattr(self, error_name(name), error)
            setattr(self, f"{name}_", as_like(found.get(key, math.inf), like))

    # partial fit

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Update the fit with a batch of rows.

        The first batch is fitted as by :meth:`fit`, and fixes the number of components and the
        covariance type. Every further batch moves the sums of EM towards its own (stepwise EM),
        so the result depends slightly on the order and size of the batches, each of which should
        be a random subset of all rows.

        Parameters
        ----------
        X : array (n_samples, n_features), data frame, path, iterator of blocks, Dask or Table
        y : array of shape (n_samples,) or column name
            Labels, for regressions; ignored by the others.
        sample_weight : array of shape (n_samples,) or column name, optional
            How often each row counts, in the same unit in every call.

        Returns
        -------
        self

        Examples
        --------
        >>> import implicitmoments as im
        >>> X, _ = im.datasets.make_spherical_mixture(3_000, 3, 4, radius=5.0, random_state=0)
        >>> model = im.SphericalMixture(3, random_state=0)
        >>> model.partial_fit(X[:1_000]).partial_fit(X[1_000:]).stats_["rows_seen"]
        3000.0
        """
        self._check_parameters()
        held = getattr(self, "_sums", None)
        how: dict[str, Any] = {"labelled": self.labelled, "fewest": self.fewest_rows}
        how |= {"reset": held is None, "as_counts": True}
        labels = y if self.labelled else None
        with open_rows(self, X, labels, sample_weight, **how) as (rows, _):
            kept, n_outliers = self._select_rows(rows)
            if held is None:
                fit = self._fit_rows(kept, self._start(kept), as_seed(self.random_state))
                sums, family = self._store(fit, kept, n_outliers), self._mixture.family.unshared()
                if sums.shape[1] < family.n_own:  # those of a shared covariance
                    sums = family.sums_of(self._mixture.values, sums[:, 0])
                self._sums, self.stats_["rows_seen"] = sums, kept.total
                warn_of(self.notes_)
            else:
                self._step(held, kept, n_outliers)
        return self

    def _step(self, sums: Floats, rows: Rows, n_outliers: int) -> None:
        """Move the sums towards those of a batch (Cappé and Moulines 2009)."""
        family, old = self._mixture.family.unshared(), self.stats_["rows_seen"]
        batch = Stream(family, rows, np.zeros(0))
        seen = old + batch.n
        share = (batch.n / seen) ** 0.7
        new = batch.e_step(sums[None] * (batch.n / old))
        sums = seen * ((1 - share) * sums / old + share * new.sums[0] / batch.n)
        weights = sums[:, 0] / sums[:, 0].sum()
        parameters = family.estimate(sums, family.pool(sums, batch.rest))
        self._mixture = replace(self._mixture, weights=weights, parameters=parameters)
        self._set_parameters(None, rows.table.first["x"])
        self._sums, self.n_iter_ = sums, self.n_iter_ + 1
        self.lower_bound_ = float(new.levels[0]) / batch.n + family.log_jacobian
        self.stats_.pop("mean_log_likelihood_history", None)  # of the first batch
        counts = {"rows_used": rows.kept, "rows_counted": rows.total, "outliers": n_outliers}
        self.stats_ |= {name: self.stats_[name] + n for name, n in counts.items()}
        self.stats_["rows_seen"] = seen
        others = [note for note in self.notes_ if note.code != "outliers"]
        self.notes_ = Notes([*others, *outlier_notes(self.stats_["outliers"])])

    # answers

    @property
    def n_components_(self) -> int:
        """The number of components."""
        return int(self.weights_.shape[0])

    def _function(self, name: str) -> RowFunction:
        """Return a method of the fitted mixture as a function of blocks of rows."""
        mixture = self._mixture
        width = mixture.family.n_features + 2 * len(mixture.weights)
        return RowFunction(getattr(mixture, name), labelled=self.labelled, width=width)

    def _log_density(self, X: Any, y: Any) -> RowFunction:  # noqa: ARG002
        return self._function("log_densities")

    def _n_parameters(self) -> int:
        return int(self._mixture.family.n_parameters(self._k()))

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
