"""Rows in files that may be larger than memory: read in blocks, checked once."""

from implicitmoments.rows.files.block_source import BlockSource
from implicitmoments.rows.files.csv_files import TextFormat
from implicitmoments.rows.files.errors import MissingLibraryError
from implicitmoments.rows.files.file_source import FileSource, require
from implicitmoments.rows.files.open_file import open_file, read_columns

__all__ = [
    "BlockSource",
    "FileSource",
    "MissingLibraryError",
    "TextFormat",
    "open_file",
    "read_columns",
    "require",
]
