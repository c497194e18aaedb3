"""How much work a stage of a search may spend."""

from __future__ import annotations

from dataclasses import dataclass

ROWS_PER_COMPONENT = (
    400  # means of unit noise are then known to 0.05, well below a separation of 2
)


@dataclass(frozen=True)
class Budget:
    """Rows, EM steps and tolerance of one stage.

    Examples
    --------
    >>> SEARCH.rows_for(10), SEARCH.rows_for(100)
    (20000, 40000)
    """

    rows: int  # rows of the sample, at least
    steps: int  # EM steps, at most
    tol: float  # EM stops when the mean log-likelihood per row can rise by less than this

    def rows_for(self, k: int) -> int:
        """Return the size of a sample for k components."""
        return max(self.rows, ROWS_PER_COMPONENT * k)


# One component: EM of two parts. Twelve steps separate parts that are 3 deviations apart.
LOCAL = Budget(rows=4_000, steps=12, tol=0.0)
# A sample of the rows: starts and moves are compared there.
SEARCH = Budget(rows=20_000, steps=60, tol=1e-6)
# All rows: the last EM, unless the user says otherwise.
WHOLE = Budget(rows=2**62, steps=200, tol=1e-7)
