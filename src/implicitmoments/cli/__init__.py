"""7 · The command line, ``implicitmoments``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say in one line what is missing for it."""
    try:
        from implicitmoments.cli.app import app  # noqa: PLC0415 (typer is an extra)
    except ModuleNotFoundError as missing:
        if missing.name not in {"typer", "rich"}:
            raise
        sys.exit(
            f"implicitmoments: the command line needs {missing.name}; "
            "install it with: pip install 'implicitmoments[cli]'"
        )
    except KeyboardInterrupt:  # while typer, rich and others are imported
        sys.exit(130)
    app(prog_name="implicitmoments")
