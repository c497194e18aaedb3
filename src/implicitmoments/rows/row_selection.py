"""Which rows of a source are kept, and how many they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from implicitmoments.arrays import Array
from implicitmoments.rows.fold import Block, KeyGrid, shares_of

# rule(unmapped block of the source) -> (n,) whether each row is kept; None keeps all of them
Rule: TypeAlias = Callable[[Block], Array | None]


@dataclass(frozen=True)
class Share:
    """Keeps one of some shares of the rows, or all others; shares depend on content alone."""

    share: int
    n_shares: int
    out: bool
    grid: KeyGrid | None = None

    def __call__(self, block: Block) -> Array:
        """Return which rows are kept."""
        shares = shares_of(block, self.n_shares, self.grid)
        kept: Array = shares != self.share if self.out else shares == self.share
        return kept


@dataclass(frozen=True)
class Census:
    """How many rows are kept."""

    kept: int  # rows that are kept and have a positive weight
    total: float  # the sum of their weights
    # The weighted sum of their squared distances from the medians, and the largest of these, where
    # outliers were looked for; every column in units of its spread.
    squares: float | None = None
    longest: float | None = None
