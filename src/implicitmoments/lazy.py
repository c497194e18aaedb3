"""Packages whose names are imported when they are first used (PEP 562), as in SciPy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def import_on_use(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package.

    Parameters
    ----------
    package : str
    homes : mapping of str to str
        The modules of names, relative to the package; other names are modules of the package.
    """

    def get(name: str) -> Any:
        module = f"{package}.{homes.get(name, name)}"
        if name in homes:
            value = getattr(import_module(module), name)
            setattr(sys.modules[package], name, value)
            return value
        try:
            return import_module(module)
        except ModuleNotFoundError as missing:
            if missing.name != module:
                raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get
