"""Numbers in the cells of tables."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

DIGITS = 5


def cell(value: Any) -> str:
    """Return the text of a cell: a number in few digits.

    Examples
    --------
    >>> cell(12_345), cell(-0.123456), cell(float("nan")), cell(True)
    ('12,345', '−0.12346', '–', 'yes')
    """
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if is_number(value):
        if not np.isfinite(float(value)):
            return "–" if np.isnan(float(value)) else "∞" if value > 0 else "−∞"
        return f"{float(value):.{DIGITS}g}".replace("-", "−")
    return str(value)


def exact(value: Any) -> str:
    """Return a number with all digits, for copying."""
    return repr(float(value))


def is_number(value: Any) -> bool:
    """Say whether a cell is a number and not a truth value."""
    return isinstance(value, Real | np.number) and not isinstance(value, bool | np.bool_)
