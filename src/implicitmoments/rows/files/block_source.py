"""Rows that come in blocks, from an iterator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from implicitmoments.arrays import as_real_array, to_numpy
from implicitmoments.rows.files.errors import refusal
from implicitmoments.rows.files.file_source import ARGUMENTS, FileSource, Numbers, float_type
from implicitmoments.rows.files.raw_rows import spool_rows


class BlockSource(FileSource):
    """Rows of blocks that come one after the other.

    An iterator can be passed over once, and a fit takes several passes: the rows are written to a
    temporary file, which is deleted with the source.

    Parameters
    ----------
    blocks : iterable
        Of points ``(n, n_features)``: arrays, data frames or Arrow tables; of tuples
        ``(X, y)`` or ``(X, y, sample_weight)``; or of dictionaries with the points under
        ``"x"``, labels under ``"y"`` and weights under ``"counts"``. All of one kind.
    dtype : data type, optional
        float32 or float64; that of the first block by default.

    Examples
    --------
    >>> import numpy as np
    >>> halves = (np.full((2, 3), value) for value in (0.0, 1.0))
    >>> with BlockSource(halves) as source:
    ...     print(source.n_rows, source.n_features)
    4 3
    """

    def __init__(self, blocks: Iterable[Any], dtype: Any = None) -> None:
        kind = type(blocks).__name__
        if hasattr(blocks, "shape") or hasattr(blocks, "schema") or isinstance(blocks, Mapping):
            raise refusal("one_block", kind=kind)
        if not isinstance(blocks, Iterable):
            raise refusal("not_blocks", "; call it first" if callable(blocks) else "", kind=kind)
        made = (_as_block(item, number) for number, item in enumerate(blocks))
        first = next(made, None)
        if first is None:
            raise refusal("no_blocks", n_blocks=0)
        alike = _checked(first, made, rounds=dtype is not None)
        wanted = float_type(first.columns["x"].dtype, dtype)
        reader, _ = spool_rows("blocks", alike, wanted, first.names)
        super().__init__("blocks", reader, first.names, is_checked=True)


class _Block(NamedTuple):
    """A block as numbers, with the names of its features."""

    number: int
    columns: dict[str, Numbers]
    names: tuple[str, ...] | None


def _as_block(item: Any, number: int) -> _Block:
    columns = {"x": item}
    if isinstance(item, Mapping):
        columns = dict(item)
    elif isinstance(item, tuple):
        if len(item) not in (2, 3):
            raise refusal("block_tuple", number=number, length=len(item))
        columns = dict(zip(("x", "y", "counts"), item, strict=False))
    if "x" not in columns:
        raise refusal("block_without_points", number=number, columns=sorted(columns))
    points = columns.pop("x")
    numbers = {"x": _as_numbers(points, number, "x", None)}
    for name, column in columns.items():
        if column is not None:
            numbers[name] = _as_numbers(column, number, name, len(numbers["x"]))
    names = points.column_names if _is_arrow(points) else getattr(points, "columns", ())
    named = len(names) > 0 and all(isinstance(name, str) for name in names)
    return _Block(number, numbers, tuple(names) if named else None)


def _as_numbers(given: Any, number: int, name: str, n_rows: int | None) -> Numbers:
    ndim = 2 if name == "x" else 1
    label = "X" if name == "x" else ARGUMENTS.get(name, name)
    if _is_arrow(given):
        given = np.column_stack([np.asarray(column) for column in given.columns])
    if getattr(given, "ndim", None) == ndim and given.shape[0] == 0:
        numbers: Numbers = np.empty(given.shape)  # a block may be without rows
    else:
        numbers = to_numpy(as_real_array(given, f"block {number}: {label}", ndim))
    if n_rows is not None and len(numbers) != n_rows:
        lengths = {"n_rows": len(numbers), "expected": n_rows}
        raise refusal("wrong_length", what=label, file=f"block {number}", **lengths)
    return numbers


def _is_arrow(x: Any) -> bool:
    """Return whether x is a table or record batch of Arrow, without importing it."""
    return hasattr(x, "column_names") and hasattr(x, "schema")


def _checked(
    first: _Block, others: Iterable[_Block], *, rounds: bool
) -> Iterator[dict[str, Numbers]]:
    """Yield the columns of blocks that fit the first one; raise if there are no rows."""
    one, n_rows, block = first.columns["x"], 0, first
    for block in chain([first], others):
        other = block.columns["x"]
        compared = (
            ("columns", sorted(block.columns), sorted(first.columns)),
            ("features", other.shape[1], one.shape[1]),
            ("names", list(block.names or ()), list(first.names or ())),
        )
        for what, found, expected in compared:
            if found != expected:
                differ = {"found": found, "expected": expected}
                raise refusal(f"block_{what}_differ", number=block.number, **differ)
        if one.dtype == np.float32 != other.dtype and len(other) and not rounds:
            found = str(other.dtype)
            raise refusal("block_precision_differs", number=block.number, found=found)
        n_rows += len(other)
        yield {name: block.columns[name] for name in first.columns}
    if not n_rows:
        raise refusal("no_blocks", n_blocks=block.number + 1)
