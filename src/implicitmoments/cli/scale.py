"""Columns divided by their standard deviations before a fit, and what a model tells of them."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.activation import ActivationSumRegressor
from implicitmoments.arrays import Array, Floats, to_numpy
from implicitmoments.regression import RegressionMixture
from implicitmoments.rows import Block, RowDraws, Source, Sums
from implicitmoments.rows.progress import WrappedSource
from implicitmoments.rows.sources import Integers

__all__ = [
    "OF_COLUMNS",
    "ModelRows",
    "check_columns",
    "column_scales",
    "in_file_units",
    "log_volume",
    "names_kept",
    "scale_of",
    "spreads_of",
    "with_scaled_names",
]

BLOCK_ROWS = 16_384
ROUNDING = 64 * float(np.finfo(np.float64).eps)  # of a mean, below which nothing varies
# numbers of x: they grow with it, or what they are multiplied by does
POINTS = ("means_", "center_")
SLOPES = ("coef_", "coef_errors_", "directions_", "direction_errors_", "slope_")
OF_COLUMNS = POINTS + SLOPES
OF_LABELS = (RegressionMixture, ActivationSumRegressor)  # their score is one of y given x


def column_scales(source: Source) -> Floats:
    """Return the standard deviation of each column in one pass; 1 for one that is constant.

    Sums are taken about the first row, so that columns far from 0 lose no digits.
    """
    begin = range(1)
    first = to_numpy(source.read(begin, RowDraws(0, begin))["x"])[0].astype(np.float64)
    n = source.n_rows or 0
    sums = source.fold(_Spread(first), range(n), BLOCK_ROWS, what="spread of the columns")
    mean = sums["total"] / sums["mass"]
    found = np.sqrt(np.maximum(sums["square"] / sums["mass"] - mean**2, 0.0))
    varies = found > ROUNDING * np.abs(first + mean)
    scales: Floats = np.where(varies & np.isfinite(found), found, 1.0)
    return scales


@dataclass(frozen=True, eq=False)
class _Spread:
    """Sums of columns and of their squares, about a point; in float64."""

    about: Floats

    def __call__(self, block: Block, rows: range) -> Sums:
        x = to_numpy(block["x"]).astype(np.float64) - self.about
        counts = block.get("counts", np.ones(len(rows)))
        w = to_numpy(counts).astype(np.float64)
        return {"mass": w.sum(), "total": w @ x, "square": w @ x**2}


class ModelRows(WrappedSource):
    """Rows of a file as a model takes them: columns in its order, divided by its scale.

    Parameters
    ----------
    source : Source
    order : sequence of int, optional
        Columns of the source, in the order of the model.
    scale : array of shape (n_features,), optional
        In the order of the model.
    feature_names : tuple of str, optional
        For a fit to remember; a model that is asked would compare them with its own.
    """

    n_rows: int

    def __init__(
        self,
        source: Source,
        order: list[int] | None = None,
        scale: Floats | None = None,
        *,
        feature_names: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(source)
        self._order, self._scale, self.feature_names = order, scale, feature_names

    def read(self, rows: range, rng: RowDraws) -> Block:
        """Read rows there, and lay them out for the model."""
        return self._laid_out(self._source.read(rows, rng))

    def pick(self, rows: Integers, *, what: str = "") -> Block:
        """Let the other source pick its rows."""
        return self._laid_out(self._source.pick(rows, what=what))

    def _laid_out(self, block: Block) -> Block:
        x = block["x"]
        if self._order is not None:
            x = np.ascontiguousarray(x[:, self._order])
        if self._scale is not None:
            x = x / self._scale.astype(x.dtype)
        return {**block, "x": x}


def check_columns(model: Any) -> None:
    """Raise where a model file remembers columns that cannot be those of its model."""
    kept = getattr(model, "columns_", {})
    if not isinstance(kept, dict) or not all(map(_is_text, names_kept(model).values())):
        raise ValueError("the model file is damaged: the columns it remembers have no names")
    scale: Any = scale_of(model)
    if scale is not None and not (
        isinstance(scale, np.ndarray)
        and scale.shape == (model.n_features_in_,)
        and scale.dtype == np.float64
        and np.all(np.isfinite(scale) & (scale > 0))
    ):
        raise ValueError("the model file is damaged: its scale is not one number for each column")


def _is_text(words: Any) -> bool:
    return isinstance(words, str)


def names_kept(model: Any) -> dict[str, str]:
    """Return what a model remembers of its columns in words: labels, weights, numbers."""
    kept = getattr(model, "columns_", {})
    return {name: words for name, words in kept.items() if name != "scale"}


def scale_of(model: Any) -> Floats | None:
    """Return what the columns of a model were divided by, or None."""
    scale: Floats | None = getattr(model, "columns_", {}).get("scale")
    return scale


def log_volume(model: Any) -> float:
    """Return what a log density of divided columns is above that of the columns themselves."""
    scale = scale_of(model)
    if scale is None or isinstance(model, OF_LABELS):
        return 0.0
    return math.fsum(np.log(scale))


def in_file_units(model: Any, name: str) -> Array:
    """Return what was found under a name, in the units of the file that was fitted."""
    found, scale = to_numpy(getattr(model, name)), scale_of(model)
    if scale is None or name not in OF_COLUMNS:
        return found
    return found * scale if name in POINTS else found / scale


def spreads_of(model: Any) -> Floats | None:
    """Return the standard deviation of each column within components, in units of the file.

    Of shape (n_features,), or (n_components, n_features) where components differ.
    """
    scale, variance = scale_of(model), getattr(model, "variance_", None)
    if scale is None or variance is None:
        return None
    spreads: Floats = np.sqrt(np.asarray(to_numpy(variance), dtype=np.float64))[..., None] * scale
    return spreads


def with_scaled_names(model: Any, names: list[str]) -> Any:
    """Return a copy whose columns are named as what they are: a column by a number."""
    scale = scale_of(model)
    if scale is None:
        return model
    twin = copy.copy(model)
    called = [f"{name} / {s:.4g}" for name, s in zip(names, scale, strict=True)]
    twin.feature_names_in_ = np.asarray(called, dtype=object)
    return twin
