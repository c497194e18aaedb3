"""Write a file whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO

__all__ = ["whole_file", "write_whole"]


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes its place in one step, when all of it is written.

    It is written beside the place, brought to the disk, and renamed. A reader sees the old file
    or the new one; what fails or is interrupted leaves the old file and nothing else. A link is
    followed.

    Raises
    ------
    OSError
        If the folder is missing or cannot be written, or the disk is full.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
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
    _settle(target.parent)


def write_whole(path: Path, data: bytes) -> None:
    """Put bytes into a file in one step."""
    with whole_file(path) as file:
        file.write(data)


def _settle(folder: Path) -> None:
    """Bring the new name to the disk, where folders can be opened."""
    with contextlib.suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
