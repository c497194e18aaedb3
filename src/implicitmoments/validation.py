"""Checks shared by all estimators: wrong values of parameters are errors of scikit-learn."""

from __future__ import annotations

import math
from numbers import Integral, Real
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import (
    Interval,
    Options,
    StrOptions,
    validate_parameter_constraints,
)

from implicitmoments.notes import InputError

# Below this number of rows per component neither weights nor a variance are determined.
ROWS_PER_COMPONENT = 5


def check_parameter(name: str, value: Any, *allowed: Any) -> None:
    """Raise scikit-learn's ``InvalidParameterError`` unless one of the constraints holds."""
    validate_parameter_constraints({name: list(allowed)}, {name: value}, "implicitmoments")


def _between(kind: type, least: float, most: float) -> Any:
    if least == most:
        return Options(kind, {least})
    ends = (end if math.isfinite(end) else None for end in (least, most))
    return Interval(kind, *ends, closed="both" if math.isfinite(most) else "left")


def whole(least: int, most: float = math.inf) -> Any:
    """Return the constraint of an integer within bounds."""
    return _between(Integral, least, most)


def number(least: float, most: float = math.inf) -> Any:
    """Return the constraint of a finite number within bounds."""
    return _between(Real, least, most)


def words(*options: str) -> Any:
    """Return the constraint of one of some strings."""
    return StrOptions(set(options))


def check_whole(name: str, value: Any, least: int, most: float = math.inf) -> int:
    """Return an integer within bounds."""
    check_parameter(name, value, _between(Integral, least, most))
    return int(value)


def check_whole_or(
    name: str, value: Any, words: tuple[str, ...], least: int, most: float = math.inf
) -> int | str:
    """Return an integer within bounds, or one of some words such as ``"auto"``."""
    check_parameter(name, value, _between(Integral, least, most), StrOptions(set(words)))
    return value if isinstance(value, str) else int(value)


def check_number_or(
    name: str, value: Any, words: tuple[str, ...], least: float, most: float = math.inf
) -> float | str:
    """Return a finite number within bounds, or one of some words."""
    check_parameter(name, value, _between(Real, least, most), StrOptions(set(words)))
    return value if isinstance(value, str) else float(value)


def check_number(name: str, value: Any, least: float, most: float = math.inf) -> float:
    """Return a finite number within bounds."""
    check_parameter(name, value, _between(Real, least, most))
    return float(value)


def check_positive_number(name: str, value: Any) -> float:
    """Return a finite number above 0."""
    check_parameter(name, value, Interval(Real, 0, None, closed="neither"))
    return float(value)


def check_variance(variance: Any) -> float | None:
    """Return a positive number, or None for a variance that is to be estimated."""
    return None if variance is None else check_positive_number("variance", variance)


def check_flag(name: str, value: Any) -> bool:
    """Return True or False; strings, 0 and 1 are refused."""
    check_parameter(name, value, "boolean")
    return bool(value)


def check_option(name: str, value: Any, options: tuple[str, ...]) -> str:
    """Return one of some strings."""
    check_parameter(name, value, StrOptions(set(options)))
    return str(value)


def check_even_order(order: Any, most: int) -> None:
    """Raise unless the order of a moment is even and at most ``most``, or ``"auto"``.

    Odd moments do not determine the components.
    """
    even = Options(Integral, set(range(2, most + 1, 2)))
    check_parameter("order", order, even, StrOptions({"auto"}))


def check_progress(progress: Any) -> None:
    """Raise for a progress callback that cannot be called, however few the rows are."""
    check_parameter("progress", progress, callable, None)


def check_enough_rows(n_rows: int, k: int, least: int | None = None) -> None:
    """Raise for fewer than ``least`` rows; by default one per component, and two in all."""
    least = max(2, k) if least is None else least
    if n_rows < least:
        raise InputError(
            "too_few_rows",
            # scikit-learn's checks look for "1 sample"
            "`n_components={k}` needs at least {least:count row} with a positive weight, got "
            "{n:count sample}; use more rows or fewer components",
            k=k,
            n=n_rows,
            least=least,
        )


def check_unknowns(k: int, each: int, n_rows: int) -> None:
    """Raise where k lines have more coefficients than there are labels."""
    if k * each > n_rows:
        most = n_rows // each
        enough = "use at most `n_components={most}`, or more rows" if most else "use more rows"
        raise InputError(
            "too_few_rows",
            "`n_components={k}`: {k:,} lines with {each} coefficients each are {total:,} "
            "unknowns, which {n:count row} do not determine; " + enough,
            k=k,
            each=each,
            total=k * each,
            n=n_rows,
            most=most,
        )


def unnamed_columns(n: int) -> list[str]:
    """Return the names of n columns without names, as scikit-learn calls them.

    Examples
    --------
    >>> unnamed_columns(3)
    ['x0', 'x1', 'x2']
    """
    return [f"x{j}" for j in range(n)]


# a module is ``np.random``, NumPy's global generator
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | ModuleType | None


def as_seed(random_state: RandomState) -> int:
    """Convert a ``random_state`` of scikit-learn to an integer seed.

    None and ``np.random`` draw it from NumPy's global generator, which ``np.random.seed`` sets.

    Examples
    --------
    >>> as_seed(7)
    7
    """
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState | ModuleType | None):
        return int(check_random_state(random_state).randint(2**31))
    # scikit-learn's words for what else may be given
    check_parameter("random_state", random_state, Interval(Integral, 0, None, closed="left"), None)
    return int(random_state)
