"""What a fitted estimator says of itself: words, numbers, and a small table in notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np

from implicitmoments.backends import to_numpy

__all__ = ["FittedSummary", "findings_of"]

# the attribute, and what it is called in a table
FOUND = {
    "n_components_": "components",
    "degree_": "degree",
    "order_": "order of the test",
    "variance_": "variance",
    "noise_": "noise (standard deviation)",
    "weights_": "weights",
    "lower_bound_": "mean log-likelihood",
    "log_likelihood_": "log-likelihood",
    "acceptance_rate_": "acceptance rate",
    "n_iter_": "iterations",
    "converged_": "converged",
}
MEASURED = {
    "hypothesis": "predicts by the",
    "network_error": "expected squared error",
    "separation": "separation (noise deviations)",
    "distance": "distance from the rows, at least",
    "outliers": "rows left out",
}
FEW = 4  # numbers that are written out
TABLE = (
    '<table style="font:13px/1.5 sans-serif;border-collapse:collapse;margin:.5em 0">'
    '<caption style="text-align:left;font-weight:600">{caption}</caption>{rows}</table>'
)
ROW = (
    '<tr><th scope="row" style="text-align:left;font-weight:400;padding:0 1em 0 0">{name}</th>'
    '<td style="text-align:left">{value}</td></tr>'
)


def findings_of(model: Any) -> dict[str, str]:
    """Return what a fit found, by name, in few digits."""
    found = {
        words: _told(getattr(model, name)) for name, words in FOUND.items() if hasattr(model, name)
    }
    if "components" not in found and hasattr(model, "means_"):
        found = {"components": str(model.means_.shape[0]), **found}
    stats = getattr(model, "stats_", {})
    return found | {words: _told(stats[name]) for name, words in MEASURED.items() if name in stats}


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
        rows += [("look at", escape(words)) for words in self.stats_["notes"]]
        return TABLE.format(caption=f"Fitted {escape(type(self).__name__)}", rows=_rows(rows))


def _rows(rows: Iterable[tuple[str, str]]) -> str:
    return "".join(ROW.format(name=name, value=value) for name, value in rows)
