"""Libraries that not everyone needs, imported when they are."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["require"]


def require(module: str, kind: str, extra: str = "files") -> Any:
    """Import a module that files of a ``kind`` take, or say what to install.

    Raises
    ------
    ImportError
        If it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as reason:
        library = module.split(".", maxsplit=1)[0]
        raise ImportError(
            f"{kind} files are read with {library}, which cannot be imported; "
            f"pip install 'implicitmoments[{extra}]'"
        ) from reason
