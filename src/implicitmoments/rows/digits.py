"""Digits that estimates lose where rows lie far from the origin, in units of their spread."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.notes import Note


def digits_notes(
    sizes: Floats, deviations: Floats, epsilon: float, names: Sequence[str], what: str
) -> list[Note]:
    """Return a note where rounding takes more than half of the digits of an estimate.

    The last digit of a number of size s is s·epsilon. Beside a deviation σ that is s·epsilon/σ of
    what a density or a residual is made of, whatever the algorithm: no estimate in the units and
    with the origin of the user can be written more exactly.

    Parameters
    ----------
    sizes : array of shape (k, c)
        Absolute values of what is subtracted from rows: means, or the terms of a line.
    deviations : array of shape (k, c)
        What the difference is divided by.
    epsilon : float
        Distance from 1 to the next larger number, in the precision of the estimates.
    names : sequence of str
        Of the c columns.
    what : str
        What the deviations are of: ``"component"`` or ``"noise"``.

    Returns
    -------
    list of Note
        One for the column that loses most digits, or none.

    Examples
    --------
    >>> (note,) = digits_notes(np.array([[3.0, 5e9]]), np.ones((1, 2)), 2.2e-16, "ab", "noise")
    >>> note.code, note.values["column"], note.values["digits"]
    ('digits_lost', 'b', 5)
    >>> digits_notes(np.array([[3.0, 5e6]]), np.ones((1, 2)), 2.2e-16, "ab", "noise")
    []
    """
    ratios = np.divide(sizes, deviations, where=deviations > 0, out=np.zeros_like(sizes))
    apart = ratios.max(axis=0, initial=0.0)
    worst = int(np.argmax(apart))
    lost = float(apart[worst]) * epsilon
    if lost <= np.sqrt(epsilon):
        return []
    found = {"column": names[worst], "deviations": float(apart[worst]), "what": what}
    return [Note("digits_lost", {**found, "digits": max(0, int(-np.log10(lost)))})]
