"""7 · The command line, ``implicitmoments``."""

from __future__ import annotations

import os
import sys
from signal import SIGINT

from implicitmoments.cli.signals import end_at_once, handled

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say in one line what is missing for it."""
    try:
        handled(end_at_once)  # before anything large is imported
        _open_closed()
        from implicitmoments.cli.app import app  # noqa: PLC0415 (typer is an extra)
    except ModuleNotFoundError as missing:
        if missing.name not in {"typer", "rich"}:
            raise
        sys.exit(
            f"implicitmoments: the command line needs {missing.name}; "
            "install it with: pip install 'implicitmoments[cli]'"
        )
    except KeyboardInterrupt:  # before that
        end_at_once(SIGINT)
    app(prog_name="implicitmoments")


def _open_closed() -> None:
    """Let what is printed go nowhere where the process was started without an output."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
