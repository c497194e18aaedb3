"""The demonstration run: tables as they come, then files."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from implicitmoments.cli.console import say
from implicitmoments.cli.demo import run_components, run_demo, table_of, write_files
from implicitmoments.cli.demo_fits import run_learned, table_of_learned, write_learned
from implicitmoments.cli.write_table import plain, show

__all__ = ["demonstrate"]


def demonstrate(folder: Path, seed: int, *, as_json: bool, quiet: bool) -> None:
    """Learn the four problems, estimate their moments, and write files about both."""
    _check_folder(folder)
    shown = not (as_json or quiet)
    with _status("learning …", quiet):
        learned = run_learned(seed)
    if shown:
        show(table_of_learned(learned.rows))
    with _status("estimating moments …", quiet):
        rows, found = run_demo(seed), run_components(seed)
    if shown:
        show(table_of(rows), str(found))
    try:
        paths = [*write_files(rows, found, folder), *write_learned(learned, folder)]
    except OSError as reason:
        raise RuntimeError(f"cannot write to {folder}: {reason.strerror}") from reason
    if as_json:
        document = {
            "learned": [asdict(row) for row in learned.rows],
            "moments": [asdict(row) for row in rows],
            "components": asdict(found),
            "output": [str(path) for path in paths],
        }
        say(json.dumps(plain(document), indent=2))
    elif not quiet:
        show(f"wrote {', '.join(str(path) for path in paths)}")


def _status(words: str, quiet: bool) -> AbstractContextManager[Any]:
    return nullcontext() if quiet else Console(stderr=True).status(words)


def _check_folder(folder: Path) -> None:
    """Say before any work that nothing can be written there."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, expected a folder to write to")
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise ValueError(f"{folder} cannot be written: {there} does not permit it")
