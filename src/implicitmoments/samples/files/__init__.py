"""Rows in files, of more than fits into memory: read in blocks, checked once."""

from implicitmoments.samples.files.block_source import BlockSource
from implicitmoments.samples.files.opening import open_file
from implicitmoments.samples.files.rows import FileSource

__all__ = ["BlockSource", "FileSource", "open_file"]
