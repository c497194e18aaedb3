"""What a fitted estimator says of itself: words, numbers, and a small table in notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np

from implicitmoments.arrays import to_numpy

__all__ = ["FittedSummary", "counted", "findings_of", "sentences_of", "shortened"]

LEVEL = "mean log-likelihood"
# the attribute, and what it is called in a table
FOUND = {
    "n_components_": "components",
    "degree_": "degree",
    "order_": "order of the test",
    "variance_": "variance",
    "noise_": "noise (standard deviation)",
    "weights_": "weights",
    "lower_bound_": LEVEL,
    "log_likelihood_": LEVEL,
    "acceptance_rate_": "acceptance rate",
    "n_iter_": "iterations",
    "converged_": "converged",
}
MEASURED = {
    "hypothesis": "predicts by the",
    "separation": "separation (noise deviations)",
    "distance": "distance from the rows, at least",
    "outliers": "rows left out",
}
ASSUMED = "noise that the expansion assumes"  # it holds the spread of the intercepts too
FEW = 4  # numbers that are written out
LISTED = 6  # numbers of a list in a sentence
LONG_LIST = re.compile(rf"\d+(?:, \d+){{{LISTED + 2},}}(?:,? and \d+)?")
TABLE = (
    '<table style="font:13px/1.5 sans-serif;border-collapse:collapse;margin:.5em 0">'
    '<caption style="text-align:left;font-weight:600">{caption}</caption>{rows}</table>'
)
ROW = (
    '<tr><th scope="row" style="text-align:left;font-weight:400;padding:0 1em 0 0">{name}</th>'
    '<td style="text-align:left">{value}</td></tr>'
)


def counted(n: int, one: str, many: str | None = None) -> str:
    """Return a number of things in words.

    Examples
    --------
    >>> counted(1, "row"), counted(2_000, "row"), counted(2, "pass", "passes")
    ('1 row', '2,000 rows', '2 passes')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def shortened(sentence: str) -> str:
    """Return a sentence with the first few numbers of a long list, and how many there are.

    Examples
    --------
    >>> shortened("components 0, 1, 2, 3, 4, 5, 6, 7, 8, 9: fainter than the noise")
    'components 0, 1, 2, 3, 4, 5, … (10 in all): fainter than the noise'
    """

    def some(found: re.Match[str]) -> str:
        numbers = re.findall(r"\d+", found[0])
        return ", ".join(numbers[:LISTED]) + f", … ({len(numbers)} in all)"

    return LONG_LIST.sub(some, sentence)


def sentences_of(model: Any) -> list[str]:
    """Return the notes of a fit as sentences."""
    notes = getattr(model, "notes_", None)
    return list(model.stats_.get("notes", ())) if notes is None else [str(note) for note in notes]


def findings_of(model: Any) -> dict[str, str]:
    """Return what a fit found, by name, in few digits."""
    found = {
        words: _told(getattr(model, name)) for name, words in FOUND.items() if hasattr(model, name)
    }
    if "components" not in found and hasattr(model, "means_"):
        found = {"components": str(model.means_.shape[0]), **found}
    if LEVEL in found:
        found[LEVEL] = f"{_told(_mean_level(model))} a row"
    if hasattr(model, "hypothesis_") and FOUND["noise_"] in found:
        found = {ASSUMED if name == FOUND["noise_"] else name: v for name, v in found.items()}
    stats = getattr(model, "stats_", {})
    found |= {words: _told(stats[name]) for name, words in MEASURED.items() if name in stats}
    used = stats.get("hypothesis", "")
    if np.isfinite(stats.get(f"{used}_error", np.nan)):  # the paper's method measures none
        found[f"expected squared error of the {used}"] = _told(stats[f"{used}_error"])
    return found


def _mean_level(model: Any) -> float:
    """Return the mean log-likelihood of a row, in the units of the rows."""
    if hasattr(model, "lower_bound_"):
        return float(model.lower_bound_)
    return float(model.log_likelihood_) / float(model._standard.mass)


def _told(value: Any) -> str:
    """Write a number, or some of many."""
    if value is None or isinstance(value, str):
        return value or "none"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    numbers = np.ravel(to_numpy(value))
    if len(numbers) > 1 and np.all(numbers == numbers[0]):
        numbers = numbers[:1]
    words = ", ".join(_number(each) for each in numbers[:FEW])
    return words if len(numbers) <= FEW else f"{words}, … ({len(numbers)})"


def _number(value: Any) -> str:
    return f"{int(value):,}" if float(value).is_integer() else f"{float(value):.4g}"


class FittedSummary:
    """Shows in notebooks, beneath scikit-learn's diagram, what a fit found."""

    def _repr_html_inner(self) -> str:
        diagram: str = super()._repr_html_inner()  # type: ignore[misc]
        return diagram + self._summary_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._summary_html()
        return bundle

    def _summary_html(self) -> str:
        """Return a table of what was found; nothing before a fit."""
        if not hasattr(self, "stats_"):
            return ""
        rows = [(escape(name), escape(value)) for name, value in findings_of(self).items()]
        rows += [("look at", escape(shortened(words))) for words in sentences_of(self)]
        return TABLE.format(caption=f"Fitted {escape(type(self).__name__)}", rows=_rows(rows))


def _rows(rows: Iterable[tuple[str, str]]) -> str:
    return "".join(ROW.format(name=name, value=value) for name, value in rows)
