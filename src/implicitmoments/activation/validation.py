"""What ActivationSumRegressor accepts, in words where it does not."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any

import numpy as np

from implicitmoments.activation.conditions import (
    HIGHEST_DEGREE,
    check_conditions,
    degree_for,
    largest_degree,
)
from implicitmoments.arrays import check_positive
from implicitmoments.notes import AssumptionWarning
from implicitmoments.problems import Activation, as_activation
from implicitmoments.validation import check_flag

__all__ = ["check_parameters"]

HIGHEST_TRIED = 10  # degree, by cross-validation
HIGHEST_BESIDE_NETWORK = 6  # where the polynomial finds the span and is a check, no more


def check_parameters(estimator: Any) -> tuple[Activation, list[int]]:
    """Check what was typed, and return the degrees to be tried."""
    if estimator.method not in ("closed_form", "paper"):
        raise ValueError(f"method is 'closed_form' or 'paper', got {estimator.method!r}")
    if not isinstance(estimator.whiten, bool | np.bool_ | str):
        raise TypeError(f"whiten is True, False or 'auto', got {estimator.whiten!r}")
    if isinstance(estimator.whiten, str) and estimator.whiten != "auto":
        raise ValueError(f"whiten is True, False or 'auto', got {estimator.whiten!r}")
    check_flag("refine", estimator.refine)
    for name, least in (("epsilon", np.finfo(float).tiny), ("tol", 0.0)):
        value = getattr(estimator, name)
        if not isinstance(value, Real) or not least <= float(value) < np.inf:
            kind = "a positive number" if least else "0 or more"
            raise ValueError(f"{name} is {kind}, got {value!r}")
    if estimator.n_components != "auto":
        if isinstance(estimator.n_components, str):
            raise ValueError(
                f"n_components is a whole number or 'auto', got {estimator.n_components!r}"
            )
        check_positive("n_components", estimator.n_components)
    for name in ("n_starts", "max_iter", *(["block_rows"] if estimator.block_rows else [])):
        check_positive(name, getattr(estimator, name))
    activation = as_activation(estimator.activation)
    degrees = _degrees(estimator, activation)
    conditions = check_conditions(activation, max(degrees), estimator.method)
    if conditions.warning is not None:
        warnings.warn(conditions.warning, AssumptionWarning, stacklevel=3)
    present = [n for n in degrees if activation.coefficient(n) != 0]
    return activation, present or [max(degrees)]


def _degrees(estimator: Any, activation: Activation) -> list[int]:
    if estimator.degree == "cv":
        if estimator.method == "paper":
            raise ValueError(
                "degree='cv' goes with method='closed_form', which holds rows out; give "
                "method='paper' a degree or degree='epsilon'"
            )
        most = HIGHEST_BESIDE_NETWORK if estimator.refine else HIGHEST_TRIED
        highest = largest_degree(activation, estimator.method, most)
        return list(range(1, max(highest, 1) + 1))
    if estimator.degree == "epsilon":
        return [degree_for(activation, estimator.epsilon)]
    if isinstance(estimator.degree, str):
        raise ValueError(f"degree is a whole number, 'cv' or 'epsilon', got {estimator.degree!r}")
    check_positive("degree", estimator.degree)
    if estimator.degree > HIGHEST_DEGREE:
        raise ValueError(f"degree is at most {HIGHEST_DEGREE}, got {estimator.degree}")
    return [int(estimator.degree)]
