"""The command line, ``implicitmoments``."""

from __future__ import annotations

import os
import sys
from signal import SIGINT

from implicitmoments.cli.signals import end_at_once, install

__all__ = ["main"]


def main() -> None:
    """Run the command line, or print which library is missing."""
    try:
        install(end_at_once)  # before anything large is imported
        _replace_closed()
        from implicitmoments.cli.app import app  # noqa: PLC0415 (typer is an extra)
    except ModuleNotFoundError as missing:
        if missing.name not in {"typer", "rich"}:
            raise
        sys.exit(
            f"implicitmoments: the command line needs {missing.name}; "
            "install it with: pip install 'implicitmoments[cli]'"
        )
    except KeyboardInterrupt:  # before the handler was installed
        end_at_once(SIGINT)
    app(prog_name="implicitmoments")


def _replace_closed() -> None:
    """Discard output if the process was started without standard streams."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
