"""What pictures of a fitted model show, as numbers: models fill these in, ``plot`` draws them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from implicitmoments.arrays import Array, Floats
from implicitmoments.notes import CodedError

__all__ = [
    "ComponentView",
    "Densities",
    "Directions",
    "Distribution",
    "FitView",
    "Lines",
    "Means",
    "NoPictureError",
    "Predictions",
    "RowSample",
]


Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


class NoPictureError(CodedError, ValueError):
    """A model does not have what a picture shows; the message names another picture."""


class RowSample(NamedTuple):
    """Rows that a picture or a check looks at.

    Attributes
    ----------
    given : array of shape (n, d)
        In the library they came in, for the methods of the model.
    x : array of shape (n, d)
        The same as NumPy.
    y : array of shape (n,)
        Of length 0 without labels.
    total : int
        Number of rows they were sampled from.
    names : array of str or None
        Names of the columns.
    target : str
        Name of the labels, "y" if it is unknown.
    """

    given: Array
    x: Floats
    y: Floats
    total: int
    names: Any = None
    target: str = "y"


@dataclass(frozen=True, eq=False)
class Means:
    """Components with a mean and a variance each.

    Attributes
    ----------
    weights, variances : array of shape (k,)
    means : array of shape (k, d)
    labels : array of int of shape (n,)
        Component of each row.
    """

    weights: Floats
    means: Floats
    variances: Floats
    labels: Integers


@dataclass(frozen=True, eq=False)
class Lines:
    """Regression lines.

    Attributes
    ----------
    weights, intercept, noise : array of shape (k,)
    coef : array of shape (k, d)
    labels : array of int of shape (n,)
        Line of each row.
    """

    weights: Floats
    coef: Floats
    intercept: Floats
    noise: Floats
    labels: Integers


@dataclass(frozen=True, eq=False)
class Directions:
    """Directions that act on rows less a centre; rows are coloured by their labels.

    Attributes
    ----------
    weights : array of shape (k,)
    vectors : array of shape (k, d)
    center : array of shape (d,)
    """

    weights: Floats
    vectors: Floats
    center: Floats


@dataclass(frozen=True, eq=False)
class Densities:
    """Rows coloured by their log density.

    Attributes
    ----------
    vectors : array of shape (m, d)
        Directions to look along, the most important one longest.
    center : array of shape (d,)
    values : array of shape (n,)
        Log densities of the rows.
    what : str
        What they are densities of: "log density of x and y".
    residuals : array of shape (n,) or None
        Drawn against the first direction instead of a second one.
    """

    vectors: Floats
    center: Floats
    values: Floats
    what: str
    residuals: Floats | None = None


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predicted labels of the rows.

    Attributes
    ----------
    values : array of shape (n,)
    by : str
        What predicts: "network".
    """

    values: Floats
    by: str


@dataclass(frozen=True, eq=False)
class Distribution:
    """One number per row, and its distribution if the model is right.

    Attributes
    ----------
    title, axis : str
        Heading, and name of the number.
    rows : array of shape (n,)
    drawn : array or None
        The same number of rows drawn from the model.
    law : callable or None
        Its density, where it is known.
    """

    title: str
    axis: str
    rows: Floats
    drawn: Floats | None = None
    law: Callable[[Floats], Floats] | None = None


ComponentView: TypeAlias = Means | Lines | Directions | Densities
FitView: TypeAlias = Predictions | Distribution
