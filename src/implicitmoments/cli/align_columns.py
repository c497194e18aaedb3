"""Columns of a file beside those that a model was fitted to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from implicitmoments.cli.console import remark
from implicitmoments.cli.open_table import open_beside
from implicitmoments.cli.options import Columns
from implicitmoments.cli.passthrough import KeptColumns
from implicitmoments.cli.scale import ModelRows, names_kept, scale_of
from implicitmoments.rows.files import FileSource

__all__ = ["open_for_model"]

MOST_PAIRS = 6


@contextmanager
def open_for_model(
    model: Any, path: str, columns: Columns, *, quiet: bool
) -> Iterator[tuple[ModelRows, KeptColumns | None]]:
    """Open a file of rows as a model takes them: columns in its order, and by its scale.

    Beside them come the columns that go along with answers.
    """
    with open_beside(path, columns) as (source, kept):
        if source.n_dropped and not quiet:
            remark(f"{source.n_dropped:,} rows lack a number and are left out")
        if source.n_features != model.n_features_in_:
            raise ValueError(
                f"the rows have {source.n_features} features and the model takes "
                f"{model.n_features_in_}; choose them by --columns"
            )
        yield ModelRows(source, _order_for(model, source, columns, quiet), scale_of(model)), kept


def _order_for(model: Any, source: FileSource, columns: Columns, quiet: bool) -> list[int] | None:
    """Return the place of each feature of the model among the columns, None for as they are."""
    if columns.features is None or "columns" in columns.kept:
        return None  # nobody typed them
    names, there = getattr(model, "feature_names_in_", None), source.feature_names
    if names is None and there is not None:
        return None  # a model without names takes columns in the order they are typed in
    own = _numbers_of(model) if names is None else [str(name) for name in names]
    typed = list(columns.features if there is None else there)
    if own == typed:
        return None
    if sorted(own) == sorted(typed):
        return [typed.index(name) for name in own]
    if not quiet:
        remark(_told(own, [f"column {j}" for j in typed] if there is None else typed))
    return None


def _numbers_of(model: Any) -> list[str]:
    """Return the numbers of the columns that a model without names was fitted to."""
    kept = names_kept(model)
    if "features" in kept:
        return kept["features"].split(",")
    taken = [kept.get(name) for name in ("target", "weight")]
    n = model.n_features_in_
    return [str(j) for j in range(n + len(taken)) if str(j) not in taken][:n]


def _told(own: Sequence[str], typed: Sequence[str]) -> str:
    pairs = [f"{b} stands for {a}" for a, b in zip(own, typed, strict=True) if a != b]
    more = ["…"] if len(pairs) > MOST_PAIRS else []
    return (
        "--columns has other names than the model, and is taken in the order given: "
        + ", ".join(pairs[:MOST_PAIRS] + more)
    )
