"""The words of a report that the command line writes: its options, and a command to type next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from implicitmoments.cli.columns import Columns, ModelColumns
from implicitmoments.cli.console import CONSTANTS, OPTIONS, as_typed, joined, option_of
from implicitmoments.cli.input_files import InputFiles
from implicitmoments.cli.model_options import typed_defaults
from implicitmoments.registry import ESTIMATORS

if TYPE_CHECKING:
    from implicitmoments.report import Reader
    from implicitmoments.report.next_step import NextStep

WORD = {name: kind for kind, name in ESTIMATORS.items()}


@dataclass(frozen=True, eq=False)
class NextInput:
    """What a report read, which its next command reads again."""

    files: InputFiles
    typed: Columns
    own: ModelColumns  # those of the model
    others: Sequence[str] = ()  # columns of the files that the model does not take

    def of_answers(self, *, carried: bool) -> list[str]:
        """Return the words for rows that are answered; ``carried``: with a column of the files."""
        features = self.typed.features
        words = [] if features is None else ["--columns", joined(features)]
        words += [] if self.typed.target is None else ["--target", self.typed.target]
        told = [name for name in self.others if name not in self.own.given.values()]
        folders = any(Path(path).is_dir() for path in self.files.paths)  # --keep is for files
        words += ["--keep", joined(told[:1])] if carried and told and not folders else []
        return [*self.files.words, *words]

    def of_fit(self) -> list[str]:
        """Return the words for rows that another model is fitted to, which may be scaled."""
        own, typed = self.own, self.typed
        words, features = list(self.files.words), typed.features or own.names
        given = own.given.get("features") if features is None else joined(features)
        roles = {"target": "--target", "weight": "--weight"}
        options = {"--columns": given} | {o: own.given.get(n) for n, o in roles.items()}
        if typed.target is not None:
            options["--target"] = typed.target
        for option, value in options.items():
            words += [option, value] if value else []
        words += ["--scale"] * (own.scale is not None)
        return words + ["--drop-missing"] * typed.drop_missing


def report_reader(model_path: Path, given: NextInput) -> Reader:
    """Return how a report on a model file and files of rows speaks."""
    from implicitmoments.report import Reader  # noqa: PLC0415 (draws: an extra)

    return Reader(
        words=as_typed,
        kind=lambda model: WORD[type(model).__name__],
        option=lambda name: OPTIONS.get(name, f"--set {name}"),
        value=_typed,
        defaults=typed_defaults,
        command=partial(_next_command, model_path, given),
    )


def _typed(value: Any) -> str:
    """Return the value of a parameter as it is typed; others as Python prints them."""
    if value is None or isinstance(value, bool):
        return CONSTANTS[value]
    return value if isinstance(value, str) else repr(value)


def _next_command(model_path: Path, given: NextInput, model: Any, step: NextStep) -> str:
    """Return the next step as a command: another fit, or answers of this model."""
    if not step.estimator:
        asked = bool({"labels", "predictions"} & set(model.answers))
        verb = ["predict"] if asked else ["score", "--rows"]
        words = given.of_answers(carried=asked)
        answers = str(model_path.with_name(f"{model_path.stem}-answers.csv"))
        return _command(verb[0], str(model_path), *words, *verb[1:], "-o", answers)
    output = str(model_path.with_name(f"{model_path.stem}-2{model_path.suffix}"))
    options = [*_settings(step.settings), "-o", output]
    return _command("fit", WORD[step.estimator], *given.of_fit(), *options)


def _settings(settings: Mapping[str, Any]) -> list[str]:
    return [
        word
        for name, value in settings.items()
        for word in option_of(name, _typed(value)).split(" ", 1)
    ]


def _command(*words: str) -> str:
    return " ".join(["implicitmoments", *map(shlex.quote, words)])
