"""Old names of parameters and functions, which work with a warning until they are removed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar, cast

from implicitmoments.notes import CodedError, InputTypeError

P = ParamSpec("P")
T = TypeVar("T")


class DeprecatedNameWarning(CodedError, FutureWarning):  # noqa: N818 (a warning)
    """An old name was used; its values are ``old``, ``new`` and the ``version`` without it."""


def _warn(code: str, template: str, old: str, new: str, version: str) -> None:
    warning = DeprecatedNameWarning(code, template, old=old, new=new, version=version)
    warnings.warn(warning, stacklevel=3)


def rename_parameter(
    old: str, new: str, *, version: str
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator by which a function still takes a keyword argument by its old name.

    Parameters
    ----------
    old, new : str
    version : str
        The version in which the old name is removed.

    Examples
    --------
    >>> import warnings
    >>> @rename_parameter("clusters", "n_components", version="2.0")
    ... def fit(n_components):
    ...     return n_components
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     found = fit(clusters=3)
    >>> found, caught[0].message.values["version"]
    (3, '2.0')
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if old in kwargs:
                if new in kwargs:
                    raise InputTypeError(
                        "parameter_by_two_names",
                        "`{new}` is also given by its old name `{old}`; give `{new}` only",
                        old=old,
                        new=new,
                    )
                _warn(
                    "parameter_renamed",
                    "`{old}` is now called `{new}`; the old name is removed in version {version}",
                    *(old, new, version),
                )
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate


def rename_function(old: str, function: Callable[P, T], *, version: str) -> Callable[P, T]:
    """Return a function under its old name.

    Parameters
    ----------
    old : str
    function : callable
        The function, whose own name is the new one.
    version : str
        The version in which the old name is removed.

    Examples
    --------
    >>> import warnings
    >>> def describe(order):
    ...     return f"order {order}"
    >>> explain = rename_function("explain", describe, version="2.0")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     found = explain(4)
    >>> found, caught[0].category.__name__, explain.__name__
    ('order 4', 'DeprecatedNameWarning', 'explain')
    """
    new = function.__name__

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        _warn(
            "function_renamed",
            "`{old}` is now called `{new}`; the old name is removed in version {version}",
            *(old, new, version),
        )
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = old
    call.__doc__ = f"Call :func:`{new}`; this name is removed in version {version}."
    return cast("Callable[P, T]", call)
