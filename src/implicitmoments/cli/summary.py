"""A fitted model in a short table, and as a document of JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from implicitmoments.arrays import Floats, to_numpy
from implicitmoments.cli.build_model import word_of
from implicitmoments.cli.scale import OF_COLUMNS, in_file_units, names_kept, scale_of, spreads_of
from implicitmoments.cli.wording import spoken
from implicitmoments.cli.write_table import plain
from implicitmoments.estimator import findings_of, sentences_of

__all__ = [
    "component_table",
    "document_of",
    "feature_names",
    "finding_table",
    "listed",
    "notes_of",
]

VECTORS = {"means_": "means", "coef_": "coefficients", "directions_": "directions"}
FOUND = (
    *("n_components_", "weights_", "means_", "variance_", "coef_", "intercept_", "noise_"),
    *("coef_errors_", "intercept_errors_", "directions_", "direction_errors_", "weight_errors_"),
    *("center_", "slope_", "degree_", "order_", "acceptance_rate_", "lower_bound_"),
    *("log_likelihood_", "converged_", "n_iter_"),
)
# told by the score, or in the table of components
ELSEWHERE = ("weights", "components", "mean log-likelihood per row")
UNLIKE = re.compile("(divide each by its spread before the fit|scale the columns alike)")
SCALE = " (--scale divides columns by their standard deviations)"
SCALED = " (these columns were divided by their standard deviations in the file)"
MOST_COMPONENTS, MOST_FEATURES = 12, 6
OF_SCALED = (
    "what is under found is of columns divided by scale; in_file_units has it for the columns "
    "as they are in the file, and a score is a density of those"
)


def feature_names(model: Any) -> list[str]:
    """Return the names of the features, or x0, x1, … where they have none."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return [f"x{j}" for j in range(model.n_features_in_)]
    return [str(name) for name in names]


def document_of(model: Any) -> dict[str, Any]:
    """Return a fitted model as JSON has it; null where a number is undefined."""
    found = {
        name.rstrip("_"): getattr(model, name)
        for name in FOUND
        if getattr(model, name, None) is not None
    }
    document = {
        "model": word_of(model),
        "estimator": type(model).__name__,
        "features": feature_names(model),
        "columns": names_kept(model),
        "parameters": model.get_params(deep=False),
        "found": {name: to_numpy(v) if hasattr(v, "shape") else v for name, v in found.items()},
        "notes": _notes(model),
    }
    scale = scale_of(model)
    if scale is not None:
        document |= _in_both_units(model, scale)
        document["notes"].append(OF_SCALED)
    told: dict[str, Any] = plain(document)
    return told


def _in_both_units(model: Any, scale: Floats) -> dict[str, Any]:
    told = {n.rstrip("_"): in_file_units(model, n) for n in OF_COLUMNS if hasattr(model, n)}
    spreads = spreads_of(model)
    if spreads is not None:
        told["standard_deviations"] = spreads
    named = dict(zip(feature_names(model), scale, strict=True))
    return {"scale": named, "in_file_units": told}


def listed(words: Sequence[str]) -> str:
    """Return words one after the other, some of many."""
    if len(words) <= MOST_FEATURES:
        return ", ".join(words)
    return ", ".join([*words[: MOST_FEATURES - 2], "…", words[-1]]) + f" ({len(words):,})"


def _scaled_rows(model: Any) -> list[tuple[str, str]]:
    """Tell what columns were divided by, and how they spread in components; of few digits."""
    scale, spreads, names = scale_of(model), spreads_of(model), feature_names(model)
    if scale is None:
        return []
    told = [("columns were divided by", scale)]
    if spreads is not None and spreads.ndim == 1:
        told.append(("deviation in components", spreads))
    return [
        (words, listed([f"{name} {_number(v)}" for name, v in zip(names, numbers, strict=True)]))
        for words, numbers in told
    ]


def component_table(model: Any) -> Table | None:
    """Lay out weights and vectors of the components, some of many; None where it has none."""
    found = next((name for name in VECTORS if hasattr(model, name)), None)
    if found is None:
        return None
    vectors: Floats = in_file_units(model, found)
    scalars = _scalars(model)
    names = feature_names(model)
    shown = len(names) if len(names) <= MOST_FEATURES else MOST_FEATURES - 1
    table = Table(box=SIMPLE_HEAD, title=f"weights and {VECTORS[found]}")
    heads = ["", *scalars, *names[:shown], *(["…"] if shown < len(names) else [])]
    for head in heads:
        table.add_column(head, justify="right")
    for i in range(min(len(vectors), MOST_COMPONENTS)):
        numbers = [column[i] for column in scalars.values()] + list(vectors[i, :shown])
        table.add_row(str(i), *map(_number, numbers), *["…"] * (shown < len(names)))
    if len(vectors) > MOST_COMPONENTS:
        table.caption = f"{len(vectors) - MOST_COMPONENTS} more; --json has all of them"
    return table


def _scalars(model: Any) -> dict[str, Floats]:
    """Return what is one number a component."""
    scalars = {"weight": to_numpy(model.weights_)}
    if hasattr(model, "coef_"):
        scalars["intercept"] = to_numpy(model.intercept_)
    for name, words in (("noise_", "noise"), ("variance_", "variance")):
        column = to_numpy(np.asarray(getattr(model, name, 0.0)))
        if column.ndim and np.ptp(column) > 0:
            scalars[_spoken(model, words)] = column
    return scalars


def finding_table(model: Any, rows: Sequence[tuple[str, str]] = ()) -> Table:
    """Lay out what was found beside components, after some rows of the caller's."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    told = getattr(model, "weights_", None) is not None
    left_out = ELSEWHERE if told else ELSEWHERE[2:]
    for name, value in rows:
        table.add_row(name, value)
    if told:
        table.add_row("components", str(len(model.weights_)))
    for name, value in findings_of(model).items():
        if name not in left_out:
            table.add_row(_spoken(model, name), value)
    for name, value in _scaled_rows(model):
        table.add_row(name, value)
    return table


def _spoken(model: Any, name: str) -> str:
    return "variance (scaled)" if name == "variance" and scale_of(model) is not None else name


def notes_of(model: Any) -> list[str]:
    """Return what the fit has to say, a line each."""
    return [f"note: {words}" for words in _notes(model)]


def _notes(model: Any) -> list[str]:
    advice = r"\1" + (SCALE if scale_of(model) is None else SCALED)
    return [UNLIKE.sub(advice, spoken(words)) for words in sentences_of(model)]


def _number(value: Any) -> str:
    return f"{float(value):.4g}"
