"""The one limit of memory: how many rows a block has, and how many rows are held."""

from __future__ import annotations

from dataclasses import dataclass

from implicitmoments.arrays import Array, device_memory, on_host


@dataclass(frozen=True)
class MemoryBudget:
    """How much memory passes over rows may use.

    Examples
    --------
    >>> import numpy as np
    >>> [DEFAULT_BUDGET.rows_per_block(width, np.ones(1)) for width in (1, 30, 1_000, 10**6)]
    [16384, 8738, 2048, 256]
    """

    cache: int = 2**18  # numbers of a block on the host that stay in the cache: 2 MB of float64
    block: int = 2**23  # numbers of a block on the host at the most, where rows are wide: 64 MB
    # numbers of a block on a device, which has no such cache and needs long products: 1 GB, or a
    # 64th of its bytes, so that eight such arrays of float64 fill it
    device: int = 2**27
    # numbers of rows that are held in memory, or of what is made of them: 256 MB
    held: int = 2**25
    picked: int = 2**22  # rows that are looked up one by one for a sample

    # Rows that matrix products need to be near their best; that are enough for anything; and
    # that even the widest blocks have.
    GOOD_ROWS, MOST_ROWS, FEWEST_ROWS = 2_048, 16_384, 256

    def rows_per_block(self, width: int, like: Array) -> int:
        """Return how many rows a block has if ``width`` numbers are made of each row.

        Parameters
        ----------
        like : array
            Of the library and on the device of the rows.
        """
        width = max(1, width)
        if not on_host(like):
            return max(self.GOOD_ROWS, min(self.device, device_memory(like) // 64) // width)
        enough = min(self.GOOD_ROWS, self.block // width)
        return min(max(self.cache // width, enough, self.FEWEST_ROWS), self.MOST_ROWS)


DEFAULT_BUDGET = MemoryBudget()
