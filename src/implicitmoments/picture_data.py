"""Data of the pictures of a fitted model: models provide them, ``plot`` draws them.

Shapes: n rows of d columns, k components.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from implicitmoments.arrays import Array, Floats, index_like, namespace_of, to_numpy
from implicitmoments.notes import CodedError

Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
DENSITY_AXIS = "log density under the model (nats)"
# ends captions of rows by component, which are drawn along two directions
OVERLAP = " Components that overlap here may be separated along other directions."


class NoPictureError(CodedError, ValueError):
    """A model lacks the data of a picture; the message names another picture."""


class RowSample(NamedTuple):
    """Rows that a picture or a check looks at."""

    given: Array  # (n, d), in the library they came in, for the methods of the model
    x: Floats  # (n, d), the same as NumPy
    y: Floats  # (n,), or (0,) without labels
    total: int  # rows they were sampled from
    column_names: list[str]
    target: str  # name of the labels
    numbers: Integers  # (n,), of the rows in their files, from 0

    def take(self, places: Integers) -> RowSample:
        """Return some of the rows."""
        given = namespace_of(self.given).take(self.given, index_like(places, self.given), axis=0)
        labels = self.y[places] if len(self.y) else self.y
        return self._replace(given=given, x=self.x[places], y=labels, numbers=self.numbers[places])


@dataclass(frozen=True, eq=False)
class Means:
    """Components with a mean and a variance or covariance each, and the component of each row."""

    weights: Floats  # (k,)
    means: Floats  # (k, d)
    variances: Floats  # (k,), over all columns
    labels: Integers  # (n,)
    covariances: Floats | None = None  # (k, d, d), where components are not spherical
    freedom: float = math.inf  # degrees of freedom, of which all of these are the scales


@dataclass(frozen=True, eq=False)
class LinePicture:
    """Regression lines, and the line of each row."""

    weights: Floats  # (k,)
    coef: Floats  # (k, d)
    intercept: Floats  # (k,)
    noise: Floats  # (k,)
    labels: Integers  # (n,)
    freedom: float = math.inf  # degrees of freedom, of which the noise is the scale


@dataclass(frozen=True, eq=False)
class Directions:
    """Directions that act on rows less a centre; rows are coloured by their labels."""

    weights: Floats  # (k,)
    vectors: Floats  # (k, d)
    center: Floats  # (d,)


@dataclass(frozen=True, eq=False)
class Densities:
    """Rows coloured by their log density."""

    vectors: Floats  # (m, d), directions to look along, the most important one longest
    center: Floats  # (d,)
    values: Floats  # (n,), log densities
    what: str  # what they are densities of: "log density of x and y"
    residuals: Floats | None = None  # (n,), drawn instead of a second direction


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predicted labels of the rows, and the name of the predictor."""

    values: Floats  # (n,)
    by: str


@dataclass(frozen=True, eq=False)
class Distribution:
    """One number per row, and how it is distributed if the model is right."""

    title: str
    axis: str  # what the number is
    rows: Floats  # (n,)
    drawn: Floats | None = None  # the same number for rows drawn from the model
    law: Callable[[Floats], Floats] | None = None  # its density, where it is known


ComponentView: TypeAlias = Means | LinePicture | Directions | Densities
FitView: TypeAlias = Predictions | Distribution


def spectrum_stats(*moments: tuple[Floats, float, int, int]) -> dict[str, Any]:
    """Return what ``stats_`` holds of moments, given as (spectrum, noise floor, rank, order)."""
    return {
        "spectra": [to_numpy(spectrum) for spectrum, _, _, _ in moments],
        "noise_floor": [float(floor) for _, floor, _, _ in moments],
        "ranks": [int(rank) for _, _, rank, _ in moments],
        "moment_orders": [int(order) for _, _, _, order in moments],
    }
