"""Some of the rows: a bounded sample where sums will not do, and parts that are left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.arrays import Array, namespace_of, share_rows
from implicitmoments.rows import ArraySource, Block, MappedSource, Source

__all__ = ["Integers", "counted", "counts_of", "part_of", "sample_blocks", "spread_rows"]

Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

PICKED_NUMBERS = 2**22  # of the rows that are picked at a time: 32 MB of float64
FEWEST_PICKED = 1_024
HELD_NUMBERS = 2**24  # parts of no more than this, 128 MB, are held in memory


def counts_of(block: Block) -> Array:
    """Return how often each row of a block counts."""
    counts, x = block.get("counts"), block["x"]
    return namespace_of(x).ones_like(x[:, 0]) if counts is None else counts


def counted(block: Block) -> Block:
    """Return the rows of a block that count, where others would only take time."""
    counts = block.get("counts")
    if counts is None:
        return block
    xp = namespace_of(counts)
    (there,) = xp.nonzero(counts)
    if there.shape[0] == counts.shape[0]:
        return block
    return {name: xp.take(column, there, axis=0) for name, column in block.items()}


def spread_rows(n: int, most: int, seed: int) -> Integers:
    """Return numbers of rows in ascending order: all, or one of each of ``most`` stretches."""
    if n <= most:
        return np.arange(n)
    edges = np.arange(most + 1) * n // most
    return np.asarray(np.random.default_rng(seed).integers(edges[:-1], edges[1:]))


def sample_blocks(source: Source, most: int, seed: int) -> Iterator[tuple[Integers, Block]]:
    """Pick all rows, or ``most`` of them, and yield numbers and columns of some at a time."""
    chosen = spread_rows(source.n_rows or 0, most, seed)
    size = max(FEWEST_PICKED, PICKED_NUMBERS // source.n_features)
    for start in range(0, len(chosen), size):
        numbers = chosen[start : start + size]
        yield numbers, source.pick(numbers, what="some of the rows")


def part_of(source: Source, share: int, n_shares: int, *, out: bool = False) -> Source:
    """Return one of some shares of the rows, or what is left without it.

    Shares are told by what a point holds. A small part is held in memory; rows outside of a
    large one count 0 times.
    """
    rule = _Part(share, n_shares, out)
    mapped = MappedSource(source, rule)
    if (source.n_rows or 0) * source.n_features > HELD_NUMBERS:
        return mapped
    block = dict(counted(mapped.pick(np.arange(source.n_rows or 0), what="rows of a part")))
    return ArraySource(block.pop("x"), **block) if block["x"].shape[0] else mapped


@dataclass(frozen=True)
class _Part:
    """Makes rows count that are of a share, or that are of another."""

    share: int
    n_shares: int
    out: bool

    def __call__(self, block: Block) -> Block:
        counts = counts_of(block)
        shares = share_rows(block.get("origin", block["x"]), self.n_shares)
        inside = shares != self.share if self.out else shares == self.share
        kept = namespace_of(counts).astype(inside, counts.dtype)
        return {**block, "counts": counts * kept}
