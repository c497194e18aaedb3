"""What SphericalMixture accepts, in words where it does not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import array_api_compat
import numpy as np

from implicitmoments.arrays import check_positive, namespace_of
from implicitmoments.rows import Block, MappedSource, Source
from implicitmoments.validation import check_flag, check_variance, check_whole

__all__ = ["check_enough", "check_parameters", "in_one_unit"]


def check_parameters(model: Any) -> None:
    """Raise for a parameter that cannot be."""
    if isinstance(model.n_components, str):
        if model.n_components != "auto":
            raise ValueError(
                f"n_components is a whole number or 'auto', got {model.n_components!r}"
            )
    else:
        check_positive("n_components", model.n_components)
    for name in ("max_iter", "max_components"):
        check_positive(name, getattr(model, name))
    if model.block_rows is not None:
        check_positive("block_rows", model.block_rows)
    check_whole("n_repairs", model.n_repairs, 0)
    check_flag("drop_outliers", model.drop_outliers)
    if not (isinstance(model.tol, float | int) and math.isfinite(model.tol) and model.tol >= 0):
        raise ValueError(f"tol is a number of at least 0, got {model.tol!r}")
    if model.order not in (None, 1, 2, 3):
        raise ValueError(f"order is 1, 2, 3 or None, got {model.order!r}")
    if model.variance_type not in ("shared", "separate"):
        raise ValueError(f"variance_type is 'shared' or 'separate', got {model.variance_type!r}")
    known = check_variance(model.variance)
    if known is not None and model.variance_type == "separate":
        raise ValueError(
            "variance is known, so there are no separate variances to estimate; give "
            "variance=None or variance_type='shared'"
        )


def check_enough(model: Any, n: int) -> None:
    """Raise where there are fewer rows than components."""
    held = getattr(model, "_held", None)
    n += 0 if held is None else int(held["x"].shape[0])
    if model.n_components != "auto" and n < model.n_components:
        raise ValueError(
            f"n_components={model.n_components} is more than the {n} rows there are "
            f"(n_samples={n}); use fewer components or more rows"
        )


def in_one_unit(source: Source, sample_weight: Any) -> Source:
    """Let rows of a piece count as often as was given: no piece is scaled on its own."""
    if sample_weight is None:
        return source
    weights = sample_weight
    if not array_api_compat.is_array_api_obj(weights):
        weights = np.asarray(weights, dtype=np.float64)
    given = float(namespace_of(weights).sum(weights))
    factor = given * (1 if weights.ndim else source.n_rows or 0) / source.mass
    same = math.isclose(factor, 1.0, rel_tol=1e-5)
    return source if same else MappedSource(source, _Times(factor))


@dataclass(frozen=True)
class _Times:
    """Makes rows count a number of times as often."""

    factor: float

    def __call__(self, block: Block) -> Block:
        return {**block, "counts": block["counts"] * self.factor}
