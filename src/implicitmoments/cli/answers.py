"""Answers of fitted models for the rows of files."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from implicitmoments.arrays import Floats, to_numpy
from implicitmoments.cli.console import as_table, print_notes, print_text
from implicitmoments.cli.files import (
    ROWS,
    Results,
    check_output,
    complete_rows,
    on_disk,
    open_for_model,
    unused,
    write_table,
)
from implicitmoments.estimator import column_names, counted
from implicitmoments.notes import InputError
from implicitmoments.rows import Block, weights_of
from implicitmoments.saving import load

LIKELIHOOD = "mean log-likelihood per row"


def answer(model: Any, method: str, block: Block) -> Any:
    """Return what a method says of the rows of a block; columns were found by name before."""
    if not hasattr(model, method):
        raise no_answer(model, method)
    labels = [block["y"]] if "y" in block and method != "predict" else []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return to_numpy(getattr(model, method)(block["x"], *labels))


def no_answer(model: Any, method: str) -> InputError:
    """Return the error for a method that an estimator does not have."""
    return InputError(
        "no_answer",
        "{estimator} has no {method}; it has {others}",
        estimator=type(model).__name__,
        method=method,
        others=", ".join(model.answers.values()),
    )


def predict_file(
    path: Path,
    files: Sequence[Path],
    options: Mapping[str, Any],
    method: str,
    output: Path | None,
    quiet: bool,
) -> None:
    """Write an answer for each row; empty cells for rows with missing values."""
    check_output(output, [path, *files])
    model, incomplete = load(path), 0
    name = "component" if "labels" in model.answers else "prediction"

    def predictions(source: Any) -> Iterator[Results]:
        nonlocal incomplete
        for block in source.blocks(ROWS):
            kept = complete_rows(block)
            incomplete += int(np.sum(~kept))
            columns = as_columns(answer_for(model, method, block, kept), name, method)
            yield {key: np.ma.masked_array(v, mask=~kept) for key, v in columns.items()}

    how = {"labelled": method != "predict", "keep_missing": True}
    with open_for_model(model, files, options, **how) as source:
        write_table(output, predictions(source))
        if incomplete and not quiet:
            of_all = f"{incomplete:,} of {counted(source.n_rows, 'row')}"
            print_notes([f"{of_all} left without a prediction, for missing values"])


def answer_for(model: Any, method: str, block: Block, kept: Any) -> Any:
    """Return the answers for the complete rows of a block, and zeros for the others."""
    if kept.all():
        return answer(model, method, block)
    some = {name: np.asarray(column)[kept] for name, column in block.items()}
    if not kept.any():  # one row, for the shape and type of answers
        some = {name: np.zeros_like(column[:1]) for name, column in block.items()}
    found = answer(model, method, some)
    filled = np.zeros((len(kept), *found.shape[1:]), dtype=found.dtype)
    filled[kept] = found[: int(kept.sum())]
    return filled


def as_columns(found: Any, name: str, method: str) -> dict[str, Any]:
    """Return answers by the names of their columns."""
    if found.ndim == 2:
        return {f"p{i}": column for i, column in enumerate(found.T)}
    return {"component" if method == "predict_component" else name: found}


class Likelihoods:
    """Means of the log-likelihoods of models on the same rows, and their covariance.

    Models without a likelihood have squared errors of their predictions instead. Of several
    models, rows that one of them regards as outliers are left out: a single one may decide.
    """

    def __init__(self, models: Sequence[Any]) -> None:
        self.models, self.n, self.n_left_out, self.total = models, 0, 0, 0.0
        self._origin = np.zeros(len(models))  # subtracted against cancellation
        self._sums = np.zeros(len(models))
        self._squares = np.zeros((len(models), len(models)))

    def add(self, blocks: Sequence[Block]) -> Floats:
        """Add rows, as a block with the columns of each model; return their values (n, m)."""
        pairs = list(zip(self.models, blocks, strict=True))
        values = np.column_stack([self._values(*pair) for pair in pairs])
        weights = np.asarray(weights_of(blocks[0]), dtype=np.float64)
        if len(pairs) > 1:
            for model, block in pairs:
                rule = getattr(model, "_near", None)
                near = None if rule is None else rule(block)
                weights = weights if near is None else weights * to_numpy(near)
            self.n_left_out += int(np.sum(weights == 0))
        kept = weights > 0
        if not self.total:
            self._origin = np.where(np.isfinite(values[0]), values[0], 0.0)
        centred = values[kept] - self._origin
        self.n, self.total = self.n + int(kept.sum()), self.total + float(weights.sum())
        with np.errstate(invalid="ignore"):  # a row of density 0
            self._sums += weights[kept] @ centred
            self._squares += (centred * weights[kept, None]).T @ centred
        return values

    def _values(self, model: Any, block: Block) -> Floats:
        if hasattr(model, "score_samples"):
            return np.asarray(answer(model, "score_samples", block), dtype=np.float64)
        found = answer(model, "predict", block)
        return np.asarray((to_numpy(block["y"]) - found) ** 2, dtype=np.float64)

    @property
    def means(self) -> Floats:
        """The mean of each model, (m,)."""
        return np.asarray(self._origin + self._sums / self.total)

    def error(self, i: int, j: int | None = None) -> float:
        """Return the standard error of the mean of a model, or of its difference from another."""
        contrast = np.zeros(len(self.models))
        contrast[i] += 1
        if j is not None:
            contrast[j] -= 1
        mean = contrast @ self._sums / self.total
        with np.errstate(invalid="ignore"):
            variance = contrast @ self._squares @ contrast / self.total - mean**2
            return float(np.sqrt(np.maximum(variance, 0.0) / self.total))


def quantity_of(model: Any) -> str:
    """Return what a model is scored by."""
    if hasattr(model, "score_samples"):
        return LIKELIHOOD
    if model.labelled:
        return "mean squared error"
    raise no_answer(model, "score_samples")


def score_file(
    path: Path,
    files: Sequence[Path],
    options: Mapping[str, Any],
    output: Path | None,
    quiet: bool,
) -> None:
    """Print the mean log-likelihood of the rows and its standard error."""
    check_output(output, [path, *files])
    model = load(path)
    quantity, likelihoods = quantity_of(model), Likelihoods([model])
    name = "log_likelihood" if quantity == LIKELIHOOD else "squared_error"
    with open_for_model(model, files, options, labelled=True) as source:
        pieces = ({name: likelihoods.add([block])[:, 0]} for block in source.blocks(ROWS))
        if output is not None:
            write_table(output, pieces)
        else:
            for _ in pieces:
                pass
        if source.n_dropped and not quiet:
            print_notes([f"{counted(source.n_dropped, 'row')} with missing values left out"])
    mean, error = float(likelihoods.means[0]), likelihoods.error(0)
    print_text(f"{quantity}: {mean:.6g}, standard error {error:.2g}, {likelihoods.n:,} rows")


def compare_files(
    first: Path, second: Path, files: Sequence[Path], options: Mapping[str, Any]
) -> None:
    """Print which of two models describes rows better, and by how much."""
    models = [load(first), load(second)]
    quantity = check_comparable(models, options["y"])
    likelihoods = Likelihoods(models)
    with on_disk(files) as paths, ExitStack() as stack:
        opened = [open_for_model(model, paths, options, labelled=True) for model in models]
        sources = [stack.enter_context(each) for each in opened]
        for blocks in zip(*(source.blocks(ROWS) for source in sources), strict=True):
            likelihoods.add(blocks)
    table: dict[str, list[Any]] = {
        "model": [first.name, second.name],
        "estimator": [type(model).__name__ for model in models],
        quantity: [float(mean) for mean in likelihoods.means],
        "standard error": [likelihoods.error(i) for i in range(2)],
    }
    gap, error = float(np.diff(likelihoods.means)[0]), likelihoods.error(1, 0)
    better = second if (gap > 0) == (quantity == LIKELIHOOD) else first
    # chance explains a difference of two standard errors
    verdict = f"{better.name} is better" if abs(gap) > 2 * error else "Neither is better"
    left_out = f", {likelihoods.n_left_out:,} outliers left out" * bool(likelihoods.n_left_out)
    print_text(
        as_table(f"{likelihoods.n:,} rows{left_out}", table),
        f"{verdict}: the {quantity} differs by {abs(gap):.4g}, standard error {error:.2g}",
    )


def check_comparable(models: Sequence[Any], y: str | None) -> str:
    """Return what models are compared by; raise if they measure different things."""
    measured = [(quantity_of(model), *measured_columns(model, y)) for model in models]
    if measured[0] != measured[1]:
        raise InputError(
            "models_not_comparable",
            "the scores of {one} and {other} are of different columns or of different kinds, and "
            "cannot be compared",
            one=type(models[0]).__name__,
            other=type(models[1]).__name__,
        )
    return measured[0][0]


def measured_columns(model: Any, y: str | None) -> tuple[set[str], bool]:
    """Return the columns that a model scores, and whether others are given."""
    labels = {y or getattr(model, "columns_in_", {}).get("target", "y")}
    if model.density_of_labels:
        return labels, True
    return {*column_names(model)} | (labels if model.labelled else set()), False


def sample_file(path: Path, n_samples: int, seed: int | None, output: Path | None) -> None:
    """Write rows drawn from a model, with their labels and components."""
    check_output(output, [path])
    model = load(path)
    if not hasattr(model, "sample"):
        raise no_answer(model, "sample")
    sizes = [min(ROWS, n_samples - i) for i in range(0, n_samples, ROWS)]
    seeds = np.random.SeedSequence(seed).generate_state(len(sizes))
    draws = (model.sample(n, int(s)) for n, s in zip(sizes, seeds, strict=True))
    write_table(output, (drawn_columns(model, drawn) for drawn in draws))


def drawn_columns(model: Any, drawn: Any) -> Results:
    """Return drawn rows by the names of their columns."""
    x, *others = map(to_numpy, drawn if isinstance(drawn, tuple) else (drawn,))
    columns = dict(zip(column_names(model), x.T, strict=True))
    target = getattr(model, "columns_in_", {}).get("target", "y")
    for part in others:
        columns[unused("component" if part.dtype.kind == "i" else target, columns)] = part
    return columns


def report_file(
    path: Path,
    files: Sequence[Path],
    options: Mapping[str, Any],
    output: Path,
    title: str | None,
) -> None:
    """Write a page about a model and its rows."""
    from implicitmoments.report import write_report  # noqa: PLC0415 (draws: an extra)

    check_output(output, [path, *files])
    model = load(path)
    names = ", ".join(file.name for file in files) if len(files) < 4 else f"{len(files)} files"
    with open_for_model(model, files, options, labelled=True) as source:
        subtitle = f"Rows of {names}, model {path.name}"
        write_report(model, source, path=output, title=title, subtitle=subtitle)
