"""Write a file completely or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that replaces the one at its path in one step, when it is complete.

    It is written to the same folder, flushed to the disk, and renamed. A reader sees the old file
    or the new one; a failure or an interruption leaves the old file and nothing else. A symbolic
    link is followed.

    Raises
    ------
    OSError
        If the folder is missing or cannot be written, or the disk is full.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "Is a directory")
    beside = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.part")
    try:
        with open(beside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    _flush_folder(target.parent)


def write_whole(path: Path, data: bytes) -> None:
    """Write bytes to a file in one step."""
    with whole_file(path) as file:
        file.write(data)


def _flush_folder(folder: Path) -> None:
    """Flush the new name to the disk, on systems where folders can be opened."""
    with contextlib.suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
