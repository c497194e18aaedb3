"""Rows that come in blocks, from an iterator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from implicitmoments.arrays import as_real_array, to_numpy
from implicitmoments.rows.files.file_source import Numbers
from implicitmoments.rows.files.matrix import MatrixSource, float_type
from implicitmoments.rows.files.spool import Spool

__all__ = ["BlockSource"]


class BlockSource(MatrixSource):
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
        spool = _spool(_iterate(blocks), dtype)
        points, others = spool.matrices()
        super().__init__(
            "blocks",
            points,
            columns=others,
            dtype=spool.dtype,
            feature_names=spool.feature_names,
            is_checked=True,
        )


def _spool(blocks: Iterator[Any], dtype: Any) -> Spool:
    spool, first, number = None, {}, -1
    try:
        for number, item in enumerate(blocks):
            given = _columns_of(item, number)
            names = _feature_names(given["x"])
            block = _as_numbers(given, number)
            if spool is None:
                first = block
                spool = Spool("blocks", float_type(block["x"].dtype, dtype), names)
            _check_like(first, block, number, spool, fixed=dtype is not None)
            _check_names(spool, names, number)
            spool.append(block)
        if spool is None or not spool.n_rows:
            n = number + 1
            raise ValueError(
                f"{n or 'no'} blocks came{', without rows' if n else ''}, expected one row at the "
                "least; an iterator that was used before gives none"
            )
    except BaseException:
        if spool is not None:
            spool.close()
        raise
    return spool


def _iterate(blocks: Any) -> Iterator[Any]:
    if hasattr(blocks, "shape") or hasattr(blocks, "schema") or isinstance(blocks, Mapping):
        raise TypeError(
            f"blocks is an iterator of blocks, got one {type(blocks).__name__}; give [block]"
        )
    if not isinstance(blocks, Iterable):
        hint = "; call it first" if callable(blocks) else ""
        raise TypeError(f"blocks is an iterator of blocks, got {type(blocks).__name__}{hint}")
    return iter(blocks)


def _columns_of(item: Any, number: int) -> dict[str, Any]:
    if isinstance(item, Mapping):
        columns = dict(item)
    elif isinstance(item, tuple):
        if len(item) not in (2, 3):
            raise ValueError(
                f"block {number} is a tuple of {len(item)}, expected (X, y) or "
                "(X, y, sample_weight)"
            )
        columns = dict(zip(("x", "y", "counts"), item, strict=False))
    else:
        columns = {"x": item}
    if "x" not in columns:
        raise ValueError(
            f"block {number} has columns {sorted(columns)}, expected the points under 'x'"
        )
    others = {name: column for name, column in columns.items() if column is not None}
    return {"x": columns["x"], **others}


def _as_numbers(given: Mapping[str, Any], number: int) -> dict[str, Numbers]:
    block = {}
    for name, value in given.items():
        spoken = f"block {number}: {'X' if name == 'x' else name}"
        ndim = 2 if name == "x" else 1
        rows = _of_arrow(value) if _is_arrow(value) else value
        if getattr(rows, "ndim", None) == ndim and rows.shape[0] == 0:
            block[name] = np.empty(rows.shape)  # a block may be without rows
        else:
            block[name] = to_numpy(as_real_array(rows, spoken, ndim))
        if len(block[name]) != len(block["x"]):
            raise ValueError(
                f"{spoken} has {len(block[name])} rows and X has {len(block['x'])}; expected one "
                "value a row"
            )
    return block


def _is_arrow(x: Any) -> bool:
    """Tell a table or record batch of Arrow, without an import."""
    return hasattr(x, "column_names") and hasattr(x, "schema")


def _of_arrow(table: Any) -> Numbers:
    return np.column_stack([np.asarray(column) for column in table.columns])


def _feature_names(x: Any) -> tuple[str, ...] | None:
    names = x.column_names if _is_arrow(x) else getattr(x, "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return tuple(names)


def _check_like(
    first: Mapping[str, Numbers],
    block: Mapping[str, Numbers],
    number: int,
    spool: Spool,
    *,
    fixed: bool,
) -> None:
    """Raise unless a block fits those before it."""
    if set(first) != set(block):
        raise ValueError(
            f"block {number} has columns {sorted(block)} and block 0 has {sorted(first)}, "
            "expected the same in every block"
        )
    widths = block["x"].shape[1], first["x"].shape[1]
    if widths[0] != widths[1]:
        raise ValueError(
            f"block {number} has {widths[0]} features and block 0 has {widths[1]}, expected the "
            "same in every block"
        )
    narrowed = spool.dtype == np.float32 and block["x"].dtype != np.float32
    if narrowed and len(block["x"]) and not fixed:
        raise ValueError(
            f"block {number} holds {block['x'].dtype} and block 0 float32; give dtype='float32' "
            "to round it, or dtype='float64'"
        )


def _check_names(spool: Spool, names: tuple[str, ...] | None, number: int) -> None:
    if names != spool.feature_names:
        raise ValueError(
            f"block {number} has features {names} and block 0 has {spool.feature_names}, "
            "expected the same in every block"
        )
