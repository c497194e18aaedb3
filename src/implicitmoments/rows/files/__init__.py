"""Rows in files, of more than fits into memory: read in blocks, checked once."""

from implicitmoments.rows.files.block_source import BlockSource
from implicitmoments.rows.files.file_source import FileSource
from implicitmoments.rows.files.opening import open_file

__all__ = ["BlockSource", "FileSource", "open_file"]
