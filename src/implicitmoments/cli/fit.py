"""Fit a model to files, for one number of components or the best of several."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import implicitmoments
from implicitmoments.cli.answers import Likelihoods
from implicitmoments.cli.app import KINDS
from implicitmoments.cli.console import as_table, print_notes, print_text, progress_bar
from implicitmoments.cli.describe import summary
from implicitmoments.cli.files import ROWS, check_output, open_rows
from implicitmoments.estimator import counted
from implicitmoments.evaluation import bic
from implicitmoments.notes import QUIET, InputError
from implicitmoments.saving import save


def build(kind: str, parameters: Mapping[str, Any], settings: Sequence[str]) -> list[Any]:
    """Build an estimator for every number of components, from the options of ``fit``."""
    if kind not in KINDS:
        raise InputError(
            "unknown_kind",
            "there is no kind {kind!r}, expected one of {kinds}",
            kind=kind,
            kinds=", ".join(KINDS),
        )
    estimator = getattr(implicitmoments, KINDS[kind])
    given = {name: value for name, value in parameters.items() if value is not None}
    if kind == "mixture":
        given.setdefault("covariance_type", "auto")
    for setting in settings:
        name, _, text = setting.partition("=")
        given[name] = literal(text)
    numbers = numbers_of(given.pop("n_components"))
    if len(numbers) > 1 and not hasattr(estimator, "bic"):
        raise InputError(
            "no_criterion",
            "{kind} has no BIC to compare numbers of components; give one number",
            kind=kind,
        )
    return [estimator().set_params(**given, n_components=number) for number in numbers]


def literal(text: str) -> Any:
    """Return a Python literal, or the text itself.

    Examples
    --------
    >>> literal("1e-6"), literal("None"), literal("student")
    (1e-06, None, 'student')
    """
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def numbers_of(text: Any) -> list[Any]:
    """Return the numbers of components of a range, or the one value.

    Examples
    --------
    >>> numbers_of("2-5"), numbers_of("5-4"), numbers_of("3"), numbers_of("auto")
    ([2, 3, 4, 5], [4, 5], [3], ['auto'])
    """
    found = re.fullmatch(r"(\d+)-(\d+)", str(text))
    first, last = sorted(map(int, found.groups())) if found else (1, 0)
    return [*range(first, last + 1)] or [literal(str(text))]


def fit_file(
    models: Sequence[Any],
    files: Sequence[Path],
    options: Mapping[str, Any],
    output: Path,
    checkpoint: Path | None,
    quiet: bool,
) -> None:
    """Fit models to the rows of files, save the best by BIC, and print a summary."""
    check_output(output, files)
    check_output(checkpoint, [*files, output])
    began, sweep = perf_counter(), None
    with progress_bar(quiet) as progress, open_rows(files, options) as source:
        for model in models:
            kept = checkpoint
            if checkpoint is not None and len(models) > 1:
                kept = checkpoint.with_name(f"{checkpoint.name}.k{model.n_components}")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they are among the notes
                model.fit(source, checkpoint=kept, progress=progress)
        best = models[0]
        if len(models) > 1:
            best, sweep = compare_numbers(models, source)
        n_rows, n_dropped = source.n_rows, source.n_dropped
    save(best, output)
    if quiet:
        return
    dropped = f"; {n_dropped:,} with missing values left out" if n_dropped else ""
    found = [] if sweep is None else [as_table("Numbers of components", sweep)]
    print_text(*found, *summary(best), f"{counted(n_rows, 'row')}{dropped}")
    print_text(f"Wrote {output} after {perf_counter() - began:.1f} s")
    print_notes(best.notes_)


def compare_numbers(models: Sequence[Any], source: Any) -> tuple[Any, dict[str, list[Any]]]:
    """Return the model of least BIC, and a table of all of them.

    Standard errors are those of differences from the least BIC (Vuong 1989): a smaller number
    within two of them fits as well.
    """
    likelihoods = Likelihoods(models)
    for block in source.blocks(ROWS):
        likelihoods.add([block] * len(models))
    n = likelihoods.total
    levels = [float(mean) * n for mean in likelihoods.means]
    pairs = zip(models, levels, strict=True)
    criteria = [bic(level, model._n_parameters(), n) for model, level in pairs]
    best = int(np.argmin(criteria))
    errors = [2 * n * likelihoods.error(i, best) for i in range(len(models))]
    table: dict[str, list[Any]] = {
        "components": [model.n_components_ for model in models],
        "BIC": criteria,
        "above least": [value - criteria[best] for value in criteria],
        "standard error": errors,
        "warnings": [len(set(model.notes_.codes) - QUIET) for model in models],
    }
    numbers = table["components"]
    stats = models[best].stats_
    stats["bic_by_n_components"] = dict(zip(numbers, criteria, strict=True))
    stats["bic_noise_by_n_components"] = dict(zip(numbers, errors, strict=True))
    return models[best], table
