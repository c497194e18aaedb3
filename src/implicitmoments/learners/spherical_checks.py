"""What SphericalMixture accepts, in words where it does not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight, validate_data

from implicitmoments.backends import Floats, check_positive
from implicitmoments.learners.checks import check_variance

__all__ = ["check_parameters", "check_rows"]

LARGEST = 1e150  # a square of more does not fit a double


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
    for name, unset in (("block_rows", None), ("n_repairs", 0)):
        if getattr(model, name) != unset:
            check_positive(name, getattr(model, name))
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


def check_rows(
    model: Any, X: Any, sample_weight: Any, *, reset: bool
) -> tuple[np.ndarray[Any, Any], Floats | None]:
    """Return finite rows and how often they count, or say what is wrong with them."""
    X = validate_data(model, X, dtype=[np.float64, np.float32], reset=reset)
    if float(np.abs(X).max()) > LARGEST:
        raise ValueError(f"X holds entries above {LARGEST:g}, whose squares overflow; rescale X")
    counts = None
    n = len(X)
    if sample_weight is not None:
        counts = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        n = int(np.count_nonzero(counts))
        if n == 0:
            raise ValueError("sample_weight is zero for every row; give some row a weight")
    held = getattr(model, "_held", None)
    n += 0 if reset or held is None else held.n
    begun = not reset and getattr(model, "_stream", None) is not None
    if model.n_components != "auto" and n < model.n_components and not begun:
        raise ValueError(
            f"n_components={model.n_components} is more than the {n} rows there are "
            f"(n_samples={n}); use fewer components or more rows"
        )
    return X, counts
