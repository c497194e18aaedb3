"""The words of a report that the command line writes: its options, and a command to type next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from implicitmoments.cli.columns import ModelColumns
from implicitmoments.cli.console import CONSTANTS, OPTIONS, as_typed, joined, option_of
from implicitmoments.cli.input_files import InputFiles
from implicitmoments.registry import ESTIMATORS

if TYPE_CHECKING:
    from implicitmoments.report import Reader
    from implicitmoments.report.next_step import NextStep

WORD = {name: kind for kind, name in ESTIMATORS.items()}


def report_reader(model_path: Path, files: InputFiles, own: ModelColumns) -> Reader:
    """Return how a report on a model file and files of rows speaks."""
    from implicitmoments.report import Reader  # noqa: PLC0415 (draws: an extra)

    return Reader(
        words=as_typed,
        kind=lambda model: WORD[type(model).__name__],
        option=lambda name: OPTIONS.get(name, f"--set {name}"),
        value=_typed,
        command=partial(_next_command, model_path, files, own),
    )


def _typed(value: Any) -> str:
    """Return the value of a parameter as it is typed; others as Python prints them."""
    if value is None or isinstance(value, bool):
        return CONSTANTS[value]
    return value if isinstance(value, str) else repr(value)


def _next_command(
    model_path: Path, files: InputFiles, own: ModelColumns, model: Any, step: NextStep
) -> str:
    """Return the next step as a command: another fit, or answers of this model."""
    if not step.estimator:
        asked = {"labels", "predictions"} & set(model.answers)
        verb = ["predict"] if asked else ["score", "--rows"]
        answers = str(model_path.with_name(f"{model_path.stem}-answers.csv"))
        return _command(verb[0], str(model_path), *files.words, *verb[1:], "-o", answers)
    output = str(model_path.with_name(f"{model_path.stem}-2{model_path.suffix}"))
    options = [*_settings(step.settings), *_columns(own), "-o", output]
    return _command("fit", WORD[step.estimator], *files.words, *options)


def _settings(settings: Mapping[str, Any]) -> list[str]:
    return [
        word
        for name, value in settings.items()
        for word in option_of(name, _typed(value)).split(" ", 1)
    ]


def _columns(own: ModelColumns) -> list[str]:
    """Return the options that give the columns of a fit, and whether they were scaled."""
    options = []
    features = own.given.get("features") if own.names is None else joined(own.names)
    if features:
        options += ["--columns", features]
    for name, option in (("target", "--target"), ("weight", "--weight")):
        if name in own.given:
            options += [option, own.given[name]]
    return options + ["--scale"] * (own.scale is not None)


def _command(*words: str) -> str:
    return " ".join(["implicitmoments", *map(shlex.quote, words)])
