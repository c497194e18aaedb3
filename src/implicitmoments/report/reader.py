"""The words of a reader: those of Python, or of the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from implicitmoments.notes import SENTENCES, Note, Words
from implicitmoments.report.next_step import NextStep

# what a page calls attributes and methods that sentences mention
NAMED = {
    "lower_bound_": "the mean log-likelihood",
    "bic()": "BIC",
    "icl()": "ICL",
    "score_samples": "the log density of each row",
}


@dataclass(frozen=True)
class Reader:
    """How a page speaks of models, parameters and commands."""

    words: Words  # an expression of Python in the words of the reader
    kind: Callable[[Any], str]  # what a model is called
    option: Callable[[str], str]  # what a parameter is called
    value: Callable[[Any], str]  # how the value of a parameter is written
    defaults: Callable[[Any], Mapping[str, Any]]  # of the parameters of a model
    command: Callable[[Any, NextStep], str]  # the next step, as it is typed

    def sentence(self, note: Note) -> str:
        """Return a note with a stop, and a capital unless it begins with a value or an option."""
        text = note.sentence(lambda expression: NAMED.get(expression) or self.words(expression))
        if SENTENCES[note.code][0].islower():
            text = text[0].upper() + text[1:]
        return text if text.endswith((".", "!", "?", ":")) else f"{text}."


def python_command(model: Any, step: NextStep) -> str:
    """Return the next step in Python.

    Examples
    --------
    >>> import implicitmoments as im
    >>> python_command(im.SphericalMixture(3), NextStep(Note("next_use")))
    'model.predict(X)'
    """
    if not step.estimator:
        question = next(q for q in ("labels", "predictions", "densities") if q in model.answers)
        rows = "X, y" if question == "densities" and model.labelled else "X"
        return f"model.{model.answers[question]}({rows})"
    settings = ", ".join(f"{name}={value!r}" for name, value in step.settings.items())
    return f"{step.estimator}({settings}).fit({'X, y' if model.labelled else 'X'})"


PYTHON = Reader(
    words=str,
    kind=lambda model: type(model).__name__,
    option=str,
    value=repr,
    defaults=lambda model: type(model)().get_params(deep=False),
    command=python_command,
)
