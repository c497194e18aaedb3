"""How the figures of several seeds are written in a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def spread(values: Sequence[float], digits: int) -> str:
    """Return the median, and the least and the largest where they differ."""
    at = np.round(np.percentile(values, [50, 0, 100]), digits) + 0.0  # no negative zeros
    middle, low, high = (f"{each:,.{digits}f}" for each in at)
    return middle if low == high else f"{middle} ({low} to {high})"
