"""Declarations of arrays and numbers of a fitted model: their axes, and the range of entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Entries"]


@dataclass(frozen=True)
class Entries:
    """What an annotation ``Annotated[Floats, Entries(…)]`` says of a value.

    Attributes
    ----------
    axes : tuple of str
        Names of the axes, separated by spaces, such as ``"k d"``; several for a choice. Axes of
        one name have one length in all values that are declared together. A choice may begin
        with the value of another attribute, ``chosen_by``: ``"tied: d d"``.
    positive, weights : bool
        Whether entries are above 0, or at least 0. Infinity is positive.
    variances : bool
        Entries, of matrices those on the diagonal, are above 0, except in constant columns.

    Examples
    --------
    >>> sizes = {"d": 3}
    >>> Entries(("k d",)).fault(np.ones((2, 3)), sizes), sizes
    ('', {'d': 3, 'k': 2})
    >>> Entries(("k",), variances=True).fault(np.zeros(2), sizes)
    'not_positive'
    """

    axes: tuple[str, ...]
    positive: bool = False
    weights: bool = False
    variances: bool = False
    chosen_by: str = ""

    def fault(
        self, value: Any, sizes: dict[str, int], others: Mapping[str, Any] | None = None
    ) -> str:
        """Return what is wrong with a value, as a code, or nothing; enters lengths of axes.

        Among ``others``, values that are declared together, ``"_constants"`` (d,) is NaN in
        columns that are not constant.
        """
        array, others = np.asarray(value, dtype=np.float64), others or {}
        constants = others.get("_constants")
        for choice in self.axes:
            chosen, _, axes = choice.rpartition(":")
            if self.chosen_by and chosen != others.get(self.chosen_by):
                continue
            found = _sizes(axes, array.shape, sizes)
            if found is not None:
                sizes |= found
                break
        else:
            return "wrong_shape"
        if np.isnan(array).any() or (not self.positive and np.isinf(array).any()):
            return "not_finite"
        if self.variances:
            if axes.endswith("d d"):
                array = np.diagonal(array, axis1=-2, axis2=-1)
            if axes.endswith("d") and constants is not None:
                array = array[..., np.isnan(constants)]
        if (self.positive or self.variances) and (array <= 0).any():
            return "not_positive"
        return "negative_weight" if self.weights and (array < 0).any() else ""


def _sizes(axes: str, shape: tuple[int, ...], sizes: Mapping[str, int]) -> dict[str, int] | None:
    """Return the lengths of axes in a shape; None if it contradicts those that are known."""
    names, found = axes.split(), dict[str, int]()
    if len(names) != len(shape):
        return None
    for name, length in zip(names, shape, strict=True):
        if {**sizes, **found}.get(name, length) != length:
            return None
        found[name] = length
    return found
