"""Checks shared by all estimators. Errors contain the given and the expected value."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from implicitmoments.notes import InputError, InputTypeError

# Below this number of rows per component neither weights nor a variance are determined.
ROWS_PER_COMPONENT = 5


def check_whole(name: str, value: Any, least: int, most: float = math.inf) -> int:
    """Return an integer within bounds."""
    _check_type(name, value, numbers.Integral, "integer")
    return int(_check_range(name, int(value), least, most))


def check_whole_or(
    name: str, value: Any, words: tuple[str, ...], least: int, most: float = math.inf
) -> int | str:
    """Return an integer within bounds, or one of some words such as ``"auto"``."""
    if isinstance(value, str):
        return check_option(name, value, words, besides="an integer or ")
    return check_whole(name, value, least, most)


def check_number_or(
    name: str, value: Any, words: tuple[str, ...], least: float, most: float = math.inf
) -> float | str:
    """Return a finite number within bounds, or one of some words."""
    if isinstance(value, str):
        return check_option(name, value, words, besides="a number or ")
    return check_number(name, value, least, most)


def check_number(name: str, value: Any, least: float, most: float = math.inf) -> float:
    """Return a finite number within bounds."""
    _check_type(name, value, numbers.Real, "number")
    return _check_range(name, float(value), least, most)


def _check_type(name: str, value: Any, kind: type, word: str) -> None:
    if isinstance(value, bool) or not isinstance(value, kind):
        article = "an" if word[0] in "aeiou" else "a"
        raise InputTypeError(
            f"not_{article}_{word}",
            f"`{{name}}` must be {article} {word}, got {{value!r}}",
            name=name,
            value=value,
        )


def _check_range(name: str, value: float, least: float, most: float) -> float:
    if math.isfinite(value) and least <= value <= most:
        return value
    lower = "finite" if least == -math.inf else "at least {least:g}"
    upper = "" if most == math.inf else " and at most {most:g}"
    raise InputError(
        "out_of_range",
        "`{name}` must be " + lower + upper + ", got {value:g}",
        **{"name": name, "value": value, "least": least, "most": most},
    )


def check_positive_number(name: str, value: Any) -> float:
    """Return a finite number above 0."""
    number = check_number(name, value, -math.inf)
    if number <= 0:
        raise InputError(
            "not_positive", "`{name}` must be positive, got {value:g}", name=name, value=number
        )
    return number


def check_variance(variance: Any) -> float | None:
    """Return a positive number, or None for a variance that is to be estimated."""
    return None if variance is None else check_positive_number("variance", variance)


def check_flag(name: str, value: Any) -> bool:
    """Return True or False; strings, 0 and 1 are refused."""
    if not isinstance(value, bool | np.bool_):
        raise InputTypeError(
            "not_a_flag", "`{name}` must be True or False, got {value!r}", name=name, value=value
        )
    return bool(value)


def check_option(name: str, value: Any, options: tuple[str, ...], *, besides: str = "") -> str:
    """Return one of some strings."""
    if not isinstance(value, str) or value not in options:
        raise InputError(
            "unknown_option",
            "`{name}` must be {besides}{options}, got {value!r}",
            name=name,
            value=value,
            besides=besides,
            options=" or ".join(map(repr, options)),
        )
    return value


def check_errors(value: Any) -> None:
    """Raise unless the value of ``errors`` is known."""
    if value is not None:
        check_option("errors", value, ("observed", "robust"), besides="None or ")


def check_even_order(order: Any, most: int) -> None:
    """Raise unless the order of a moment is even and at most ``most``, or ``"auto"``."""
    if check_whole_or("order", order, ("auto",), 2, most) != "auto" and int(order) % 2:
        raise InputError(
            "order_not_even",
            "`order={order}` must be even: odd moments do not determine the components",
            order=order,
        )


def check_method(method: Any, methods: tuple[str, ...] = ("closed_form", "paper")) -> str:
    """Return the name of a method."""
    return check_option("method", method, methods)


def check_progress(progress: Any) -> None:
    """Raise for a progress callback that cannot be called, however few the rows are."""
    if progress is not None and not callable(progress):
        raise InputTypeError(
            "progress_not_callable",
            "`progress` must be None or a function called as progress(what, rows_done, "
            "rows_total), got {value!r}",
            value=progress,
        )


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
            "too_few_rows_for_unknowns",
            "`n_components={k}`: {k:,} lines with {each} coefficients each are {total:,} "
            "unknowns, which {n:count row} do not determine; " + enough,
            k=k,
            each=each,
            total=k * each,
            n=n_rows,
            most=most,
        )
