"""Fits for several numbers of components, and the choice among them by BIC."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from implicitmoments.arrays import Floats, to_numpy
from implicitmoments.cli.answers import plain_method
from implicitmoments.cli.console import bad_input
from implicitmoments.evaluation import bic
from implicitmoments.notes import QUIET, Note
from implicitmoments.picture_data import Choice, compare_numbers
from implicitmoments.rows import Block, Rows, Table, leave_out_outliers

RANGE = re.compile(r"(\d+)\s*-\s*(\d+)")
MOST_FITS = 100  # of one sweep: a range with a slip of the finger would never end
COMPARED_ROWS = 20_000  # rows whose log densities are compared: the error of the noise is 1 %


def swept_numbers(text: str | None) -> list[int] | None:
    """Return the numbers of components of a range or a list; None for one number or "auto".

    Examples
    --------
    >>> swept_numbers("2-5"), swept_numbers("2,4,8"), swept_numbers("3"), swept_numbers("auto")
    ([2, 3, 4, 5], [2, 4, 8], None, None)
    """
    if text is None or text == "auto" or text.strip().removeprefix("-").isdecimal():
        return None
    numbers = list[int]()
    for part in text.split(","):
        found = RANGE.fullmatch(part.strip())
        first, last = found.groups() if found else (part.strip(),) * 2
        if not (first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last)):
            raise bad_input("not_a_range", text=text)
        if int(last) - int(first) >= MOST_FITS:
            raise bad_input("too_many_fits", text=text, most=MOST_FITS)
        numbers += range(int(first), int(last) + 1)
    return sorted(set(numbers))


@dataclass(frozen=True, eq=False)
class Sweep:
    """Fitted models of several numbers of components, compared on the rows of the fit."""

    models: dict[int, Any]  # by the number of components
    scores: dict[int, float]  # BIC of each
    noise: dict[int, float]  # standard error of the difference from the least BIC

    @cached_property
    def numbers(self) -> Choice:
        """The numbers of components, compared."""
        return compare_numbers(self.scores, self.noise)

    @property
    def best(self) -> int:
        """The number of components with the least BIC."""
        return self.numbers.least

    @property
    def smallest(self) -> int:
        """The smallest number of components whose BIC is the least one but for noise."""
        return self.best if self.numbers.within is None else self.numbers.within

    def chosen(self) -> Any:
        """Return the model of least BIC, which stores the criterion of the others."""
        model = self.models[self.best]
        model.stats_["bic_by_n_components"] = dict(self.scores)
        model.stats_["bic_noise_by_n_components"] = dict(self.noise)
        return model

    def choice(self) -> Note:
        """Return a note on the choice."""
        if self.smallest == self.best == max(self.scores):
            further = f"{self.best}-{2 * self.best}"
            return Note("number_chosen_at_end", {"k": self.best, "further": further})
        if self.smallest == self.best:
            return Note("number_chosen", {"k": self.best})
        return Note("number_chosen_within_noise", {"k": self.best, "fewer": self.smallest})

    def document(self) -> dict[str, Any]:
        """Return the comparison for JSON."""
        return {
            "bic_by_components": self.scores,
            "bic_standard_error": self.noise,
            "smallest_within_noise": self.smallest,
        }

    def table(self) -> Table:
        """Return the fits as a table."""
        table = Table(box=SIMPLE_HEAD, title="Numbers of components")
        for head in ("components", "BIC", "above least", "standard error", "warnings"):
            table.add_column(head, justify="right")
        table.add_column("", justify="left")
        for k, score in self.scores.items():
            marks = {self.smallest: "smallest within noise", self.best: "least BIC"}
            above = self.numbers.above[k]
            cells = (f"{score:.6g}", f"{above:.4g}", f"{self.noise[k]:.3g}")
            n_warnings = sum(note.code not in QUIET for note in self.models[k].notes_)
            table.add_row(str(k), *cells, str(n_warnings), marks.get(k, ""))
        return table


def compare_fits(models: Sequence[Any], rows: Table, log_volume: float) -> Sweep:
    """Compare fitted models by BIC on the rows of the fit.

    ``log_volume`` is by how much log densities of scaled columns exceed those of the columns.
    """
    by_k = {int(model.n_components_): model for model in models}
    scores = dict[int, float]()
    for k, model in by_k.items():
        found = model._log_likelihood(rows).near  # the rows that were fitted
        level = found.total - found.weight * log_volume
        scores[k] = bic(level, model._n_parameters(), found.weight)
    best = min(scores, key=lambda k: scores[k])
    sample = leave_out_outliers(Rows.of(rows), 1).rows.sample(COMPARED_ROWS, 0).block
    densities = {k: log_densities(model, sample) for k, model in by_k.items()}
    spreads = {k: np.std(density - densities[best]) for k, density in densities.items()}
    noise = {k: 2 * math.sqrt(rows.n) * float(spread) for k, spread in spreads.items()}
    return Sweep(by_k, scores, noise)


def log_densities(model: Any, block: Block) -> Floats:
    """Return the log density of each row of a block; of its label for regressions."""
    labels = (block["y"],) if model.labelled else ()
    return np.asarray(to_numpy(plain_method(model, "densities")(block["x"], *labels)))
