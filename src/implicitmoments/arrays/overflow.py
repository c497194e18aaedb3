"""Detection of entries whose squares overflow."""

from __future__ import annotations

import numpy as np

from implicitmoments.arrays.array_type import Array
from implicitmoments.arrays.namespace import to_numpy
from implicitmoments.notes import InputError

LARGEST = 1e150  # the square of a larger number overflows a double

# silences warnings of a measure whose sums are checked by check_squares
quiet_overflow = np.errstate(over="ignore", invalid="ignore")


def check_squares(name: str, squares: Array | float) -> None:
    """Raise if sums of squares are not finite.

    Parameters
    ----------
    name : str
        "X" or "y".
    squares : float, or array of shape (d, d)
        Sums of products of the entries. The diagonal sums are of positive terms: they are NaN
        only if an entry is.
    """
    own = np.diagonal(np.atleast_2d(squares if isinstance(squares, float) else to_numpy(squares)))
    if np.isnan(own).any():
        raise InputError(
            "not_finite", "{name} contains NaN; drop or fill those rows first", name=name
        )
    refuse_large(name, found=bool(np.isinf(own).any()))


def refuse_large(name: str, *, found: bool) -> None:
    """Raise if entries were found whose squares overflow."""
    if found:
        raise InputError(
            "entries_too_large",
            "{name} has entries above {largest:g}, whose squares overflow; rescale {name}",
            name=name,
            largest=LARGEST,
        )
