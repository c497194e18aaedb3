"""Passes that are kept in a file, so that an interrupted fit continues."""

from implicitmoments.rows.checkpoint.journal import Journal
from implicitmoments.rows.checkpoint.journal_file import CheckpointError
from implicitmoments.rows.checkpoint.journaled_source import JournaledSource, describe_rows

__all__ = ["CheckpointError", "Journal", "JournaledSource", "describe_rows"]
