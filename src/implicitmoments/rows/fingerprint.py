"""Fingerprints: by what a checkpoint knows its rows, and the parameters of its fit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import array_api_compat
import numpy as np

from implicitmoments.arrays import Array, move_like, to_numpy
from implicitmoments.rows.sources import Source

DIGEST_ROWS = 64  # at the beginning, in the middle and at the end
DIGITS = 16  # of a digest: two differ by chance once in 2⁶⁴
# Where functions are compared: in the bulk of standardised numbers, and far outside of it.
POINTS = np.concatenate([np.linspace(-8.0, 8.0, 257), [-1e3, -1e2, -2e1, 2e1, 1e2, 1e3]])
ORDERS = range(16)  # where functions of an integer are compared, such as coefficients


def describe_rows(source: Source) -> dict[str, Any]:
    """Describe the rows of a source, for the fingerprint of a journal.

    Returns
    -------
    dict
        ``rows`` and ``columns``, the array ``library`` and ``type``, and a ``digest`` of rows at
        the beginning, in the middle and at the end.

    Examples
    --------
    >>> import numpy as np
    >>> from implicitmoments.rows import ArraySource, describe_rows
    >>> describe_rows(ArraySource(np.ones((6, 2))))["rows"]
    6
    """
    n, digest = source.n_rows or DIGEST_ROWS, hashlib.sha256()
    described: dict[str, Any] = {"rows": source.n_rows, "columns": source.n_features}
    for start in sorted({0, max(0, (n - DIGEST_ROWS) // 2), max(0, n - DIGEST_ROWS)}):
        rows = range(start, min(start + DIGEST_ROWS, n))
        block = source.block(rows)
        for name in sorted(block):
            digest.update(name.encode())
            digest.update(np.asarray(to_numpy(block[name]), order="C").data)
        described["library"] = type(block["x"]).__module__.split(".")[0]
        described["type"] = str(block["x"].dtype)
    return {**described, "digest": digest.hexdigest()}


def describe_value(value: Any, like: Array) -> Any:
    """Describe a parameter by its content, the same in every process.

    Functions are described by their values, generators of random numbers by their state and
    arrays by their entries: names would not tell two lambdas apart.

    Parameters
    ----------
    value : object
    like : array
        Of the library of the rows, for which a function is made.

    Returns
    -------
    JSON value

    Examples
    --------
    >>> import numpy as np
    >>> described = [describe_value(lambda u, c=c: u + c, np.ones(1)) for c in (1, 1, 2)]
    >>> described[0] == described[1], described[0] == described[2]
    (True, False)
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return value.item()
    if array_api_compat.is_array_api_obj(value):
        array = np.ascontiguousarray(to_numpy(value))
        return f"array {array.shape} {array.dtype} {_digest(array.tobytes())}"
    if isinstance(value, Mapping):
        return {str(name): describe_value(each, like) for name, each in value.items()}
    if isinstance(value, list | tuple | range):
        return [describe_value(each, like) for each in value]
    parts = _parts(value)
    if callable(value):
        parts["values"] = _digest(_values(value, like))
    described = json.dumps(describe_value(parts, like), sort_keys=True)
    kind = value if hasattr(value, "__qualname__") else type(value)
    named = f"{kind.__module__}.{kind.__qualname__} {getattr(value, 'name', '')}".strip()
    return f"{named} {_digest(described.encode())}"


def _parts(value: Any) -> dict[str, Any]:
    """Return what an object consists of: arguments, fields, or the state of a generator."""
    if isinstance(value, partial):
        return {"function": value.func, "arguments": value.args, "keywords": value.keywords}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, np.random.Generator):
        return {"state": value.bit_generator.state}
    if hasattr(value, "get_state"):  # np.random.RandomState, and np.random itself
        return {"state": value.get_state(legacy=False)}
    return {}


def _values(function: Callable[[Any], Any], like: Array) -> bytes:
    """Return the values of a function of an array, or of an integer, at fixed points."""
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(to_numpy(function(move_like(POINTS, like))), dtype=np.float64)
    except Exception:
        try:
            found = np.asarray([float(function(order)) for order in ORDERS])
        except Exception as reason:  # the fit says what is wrong with it
            return type(reason).__name__.encode()
    return found.tobytes()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:DIGITS]
