"""The verdict on a fit, in plain words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from implicitmoments.estimator import counted, sentences_of
from implicitmoments.report.evidence import evidence_of
from implicitmoments.report.model_names import name_of

__all__ = ["Verdict", "verdict_of"]


@dataclass(frozen=True)
class Verdict:
    """What to think of a fit.

    Attributes
    ----------
    found : str
        What the model is, as a sentence.
    judgement : str
        In a sentence.
    against : tuple of str
        What the fit said itself, and what was measured that speaks against it.
    in_favour : tuple of str
        What was measured that speaks for it.
    """

    found: str
    judgement: str
    against: tuple[str, ...]
    in_favour: tuple[str, ...]

    @property
    def good(self) -> bool:
        """Whether there is nothing to look at."""
        return not self.against


def verdict_of(
    model: Any, n_rows: int, target: str = "y", agreement: Sequence[tuple[bool, str]] = ()
) -> Verdict:
    """Judge a fitted model by what it measured and said.

    Parameters
    ----------
    model : fitted estimator
    n_rows : int
    target : str
        The name of the labels.
    agreement : sequence of tuple of bool and str
        Whether rows look like draws from the model, and sentences about it.
    """
    rows, columns = counted(n_rows, "row"), counted(model.n_features_in_, "column")
    found = f"The fit found {name_of(model, target)} in {rows} of {columns}."
    evidence = evidence_of(model).joined(agreement)
    notes = tuple(_sentence(note) for note in sentences_of(model))
    against = notes + evidence.con
    if len(against) == 1:
        judgement = "There is one thing to look at:"
    elif against:
        judgement = f"There are {len(against)} things to look at:"
    elif evidence.pro:
        judgement = "Nothing that was measured speaks against it."
    else:
        judgement = "Nothing was measured that could speak against it: look at the pictures."
    return Verdict(found, judgement, against, evidence.pro)


def _sentence(note: str) -> str:
    """Begin with a capital, unless the first word is a name or a symbol, and end with a stop."""
    first = re.match(r"(a|[a-z]{2,})(?![\w=.(])", note)
    begun = note[0].upper() + note[1:] if first else note
    return begun if begun.endswith((".", "!", "?")) else f"{begun}."
