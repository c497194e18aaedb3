"""Commands that measure models on rows of a file: ``evaluate`` one, ``compare`` two."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from implicitmoments.arrays import Floats, to_numpy
from implicitmoments.cli.answers import plain_method
from implicitmoments.cli.columns import Columns, ModelColumns
from implicitmoments.cli.console import as_typed, bad_input, print_note, print_tables
from implicitmoments.cli.description import print_document
from implicitmoments.cli.input_files import InputFiles
from implicitmoments.cli.input_rows import ModelRows, load_model, open_for_model
from implicitmoments.cli.row_answers import blocks_of
from implicitmoments.evaluation import bic
from implicitmoments.notes import Note
from implicitmoments.picture_data import CHANCE
from implicitmoments.registry import ESTIMATORS
from implicitmoments.rows import Block, few_enough

DENSITY, SQUARED_ERROR = "mean_log_density", "mean_squared_error"
# of what is printed; JSON has the keys
NAMES = {
    "rows": "rows",
    "outliers": "outliers by the rule of the fit",
    DENSITY: "mean log density per row",
    f"{DENSITY}_error": "its standard error",
    f"{DENSITY}_of_fit": "on the rows of the fit",
    SQUARED_ERROR: "mean squared error of predictions",
    f"{SQUARED_ERROR}_error": "its standard error ",
    "bic": "BIC of these rows",
    "r2": "R²",
}


@dataclass
class Sums:
    """Sums over rows of one quantity."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, values: Floats) -> None:
        """Add the values of some rows."""
        self.n += len(values)
        self.total += float(np.sum(values))
        self.squares += float(np.sum(values**2))

    @property
    def mean(self) -> float:
        """The mean over the rows."""
        return self.total / self.n if self.n else math.nan

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        if self.n < 2:
            return math.nan
        variance = max(self.squares / self.n - self.mean**2, 0.0)
        return math.sqrt(variance / (self.n - 1))


@dataclass(frozen=True, eq=False)
class Measured:
    """A model on the rows of a file."""

    model: Any
    own: ModelColumns
    by_name: dict[str, Sums] = field(default_factory=dict)  # quantities of each row
    labels: Counter[int] = field(default_factory=Counter)  # rows of each component
    target: Sums = field(default_factory=Sums)  # labels of regressions

    @property
    def quantity(self) -> str:
        """What the model is judged by."""
        return DENSITY if "densities" in self.model.answers else SQUARED_ERROR

    def measure(self, block: Block) -> dict[str, Floats]:
        """Return quantities of each row of a block."""
        model, x, found = self.model, block["x"], dict[str, Floats]()
        labels = (block["y"],) if model.labelled else ()
        if "densities" in model.answers:
            densities = to_numpy(plain_method(model, "densities")(x, *labels))
            found[DENSITY] = np.asarray(densities) - self.own.log_volume(model)
        if "predictions" in model.answers:
            predicted = to_numpy(plain_method(model, "predictions")(x))
            found[SQUARED_ERROR] = np.asarray(to_numpy(block["y"]) - predicted) ** 2
        return found

    def add(self, block: Block, found: Mapping[str, Floats], kept: Any) -> None:
        """Add the rows of a block that are kept."""
        for name, values in found.items():
            self.by_name.setdefault(name, Sums()).add(values[kept])
        if SQUARED_ERROR in found:
            self.target.add(np.asarray(to_numpy(block["y"]), dtype=np.float64)[kept])
        if "labels" in self.model.answers:
            given = to_numpy(plain_method(self.model, "labels")(block["x"]))
            self.labels.update(np.asarray(given)[kept].tolist())

    def document(self) -> dict[str, Any]:
        """Return what was measured, by name."""
        model, found = self.model, dict[str, Any]()
        for name, sums in self.by_name.items():
            found[name], found[f"{name}_error"] = sums.mean, sums.error
        if DENSITY in self.by_name and hasattr(model, "bic"):
            sums = self.by_name[DENSITY]
            found["bic"] = bic(sums.total, model._n_parameters(), sums.n)
        if SQUARED_ERROR in self.by_name and self.target.error > 0:
            spread = self.target.squares / self.target.n - self.target.mean**2
            found["r2"] = 1 - self.by_name[SQUARED_ERROR].mean / spread
        return found

    def rows_by_component(self) -> list[int]:
        """Return the number of rows of each component; none where there are no components."""
        if "labels" not in self.model.answers:
            return []
        return [self.labels[i] for i in range(self.model._k())]


def evaluate_file(
    model: Path, files: InputFiles, columns: Columns, *, as_json: bool, quiet: bool
) -> None:
    """Print how well a model describes rows that it was not fitted to."""
    measured, counts, _ = _measure([model], files, columns, quiet)
    (one,) = measured
    found = one.document()
    trained = getattr(one.model, "lower_bound_", None)
    if trained is not None and DENSITY in found:
        level = float(trained) - one.own.log_volume(one.model)
        found[f"{DENSITY}_of_fit"] = level
        error = one.by_name[DENSITY].error
        if found[DENSITY] < level - CHANCE * error:
            values = {"found": found[DENSITY], "trained": level, "error": error}
            print_note("rows_described_worse", **values)
    shares = one.rows_by_component()
    if as_json:
        print_document({**counts, **found, **({"rows_by_component": shares} if shares else {})})
        return
    parts = [_pairs_table({**counts, **found})]
    if shares:
        parts.insert(0, _shares_table(one.model.component, shares, one.model))
    print_tables(*parts)


def compare_files(
    models: Sequence[Path], files: InputFiles, columns: Columns, *, as_json: bool, quiet: bool
) -> None:
    """Print which of two models describes rows better, and by how much."""
    measured, counts, difference = _measure(models, files, columns, quiet)
    name = measured[0].quantity
    gain = difference.mean if name == DENSITY else -difference.mean
    sure = abs(gain) > CHANCE * difference.error
    better = models[0] if gain > 0 else models[1]
    documents = [each.document() for each in measured]
    if as_json:
        print_document(
            {
                **counts,
                "models": [
                    {"file": str(path), "model": each.model.kind, **document}
                    for path, each, document in zip(models, measured, documents, strict=True)
                ],
                "difference": difference.mean,
                "difference_error": difference.error,
                "better": str(better) if sure else None,
            }
        )
        return
    table = Table(box=SIMPLE_HEAD, title=f"Two models on {counts['rows']:,} rows")
    table.add_column("")
    for path, each in zip(models, measured, strict=True):
        table.add_column(f"{path.name}\n{ESTIMATORS[each.model.kind]}", justify="right")
    for row in dict.fromkeys(key for document in documents for key in document):
        table.add_row(NAMES[row], *(_number(document.get(row)) for document in documents))
    values = {"gain": abs(gain), "error": difference.error, "quantity": NAMES[name]}
    verdict = Note("model_better" if sure else "models_equal", {**values, "model": better.name})
    print_tables(table, verdict.sentence(as_typed))


def _measure(
    paths: Sequence[Path], files: InputFiles, columns: Columns, quiet: bool
) -> tuple[list[Measured], dict[str, int], Sums]:
    """Measure models on the rows of files, in one pass.

    Returns the models, counts of rows, and the difference of the first two. Rows that are
    outliers by the rule of a fit count for one model, as in ``score``. Two models are compared
    without them, since one row may decide, unless there are so many that they are structure.
    """
    if "-" in files.paths and len(paths) > 1:
        raise bad_input("rows_read_twice")
    measured = [Measured(*load_model(path)) for path in paths]
    _check_comparable(measured)
    with ExitStack() as stack:
        sources = [
            stack.enter_context(open_for_model(each.model, files, columns, quiet=quiet))[0]
            for each in measured
        ]
        n = sources[0].n_rows
        n_out = sum(int(np.sum(~_near(measured, blocks))) for blocks in _blocks(sources))
        drop = len(measured) > 1 and few_enough(n_out, n)
        difference = Sums()
        for blocks in _blocks(sources):
            kept = _near(measured if drop else (), blocks)
            found = [each.measure(block) for each, block in zip(measured, blocks, strict=True)]
            for each, block, values in zip(measured, blocks, found, strict=True):
                each.add(block, values, kept)
            if len(found) > 1:
                name = measured[0].quantity
                difference.add((found[0][name] - found[1][name])[kept])
    return measured, {"rows": n, "outliers": n_out}, difference


def _check_comparable(measured: Sequence[Measured]) -> None:
    """Raise for models that measure different things, or nothing for each row."""
    for each in measured:
        if not {"densities", "predictions", "labels"} & set(each.model.answers):
            raise bad_input("nothing_measured", kind=each.model.kind)
    if len(measured) < 2:
        return
    kinds = [each.model.kind for each in measured]
    what = [
        (each.quantity, each.model.labelled, each.model.density_of_labels) for each in measured
    ]
    if what[0] != what[1] or not {"densities", "predictions"} & set(measured[0].model.answers):
        raise bad_input("models_not_comparable", one=kinds[0], other=kinds[1])


def _blocks(sources: Sequence[ModelRows]) -> Iterator[list[Block]]:
    """Yield the same rows of every source, block by block."""
    yield from map(list, zip(*map(blocks_of, sources), strict=True))


def _near(measured: Sequence[Measured], blocks: Sequence[Block]) -> Any:
    """Return which rows are no outliers, by the rule of every fit that is given."""
    kept = np.full(int(blocks[0]["x"].shape[0]), True)
    for each, block in zip(measured, blocks, strict=False):
        rule = getattr(each.model, "_near", None)
        near = None if rule is None else rule(block)  # None if all of them are
        if near is not None:
            kept = np.logical_and(kept, to_numpy(near))
    return kept


def _pairs_table(found: Mapping[str, Any]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in found.items():
        table.add_row(NAMES[name], _number(value))
    return table


def _shares_table(component: str, counts: Sequence[int], model: Any) -> Table:
    """Return rows per component beside the weights of the model."""
    table = Table(box=SIMPLE_HEAD, title="Rows by component")
    for head in (component, "rows", "share", "weight in the model"):
        table.add_column(head, justify="right")
    weights = np.asarray(to_numpy(model.weights_))
    for i, (n, weight) in enumerate(zip(counts, weights, strict=True)):
        table.add_row(str(i), f"{n:,}", f"{n / max(sum(counts), 1):.4g}", f"{weight:.4g}")
    return table


def _number(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
