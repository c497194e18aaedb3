"""Hashes of rows by their content, in any array library."""

from __future__ import annotations

import math
from typing import Any

import array_api_compat
import numpy as np

from implicitmoments.arrays.array_type import Array
from implicitmoments.arrays.linalg import turned
from implicitmoments.arrays.namespace import move_like, namespace_of, to_numpy

LOWEST_63 = 2**63 - 1


def share_rows(x: Array, n_shares: int) -> Array:
    """Assign every row to a share by a hash of its entries: (n,) integers from 0."""
    return key_shares(row_keys(x), n_shares)


def row_keys(x: Array) -> Array:
    """Return a hash of the entries of every row, (n,) int64: equal rows have equal keys."""
    xp = namespace_of(x)
    factors = move_like(math.pi * np.sqrt(np.arange(1, x.shape[1] + 1)), x)
    columns = turned(x) * factors[:, None]
    mixed = columns[0, :]
    for j in range(1, int(x.shape[1])):  # in a fixed order for all blocks
        mixed = mixed + columns[j, :]
    bits = _bits(xp.astype(mixed, xp.float64) + 0.0)  # + 0.0 maps −0 to 0
    # splitmix64; signed integers wrap around as unsigned ones do, and are masked after a shift
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        shifted = xp.bitwise_and(xp.bitwise_right_shift(bits, shift), 2 ** (64 - shift) - 1)
        bits = xp.bitwise_xor(bits, shifted) * (factor if factor < 2**63 else factor - 2**64)
    return bits


def key_shares(keys: Array, n_shares: int) -> Array:
    """Assign every key to a share: (n,) integers from 0."""
    xp = namespace_of(keys)
    # as an unsigned integer, whose highest bit is the sign
    high = xp.astype(keys < 0, xp.int64) * (2**63 % n_shares)
    return (xp.bitwise_and(keys, LOWEST_63) % n_shares + high) % n_shares


def _bits(values: Any) -> Array:
    """Return the bits of float64 as int64."""
    xp = namespace_of(values)
    if hasattr(values, "view"):
        bits: Array = values.view(xp.int64)
        return bits
    on_host = to_numpy(values).view(np.int64)
    return xp.asarray(on_host, device=array_api_compat.device(values))
