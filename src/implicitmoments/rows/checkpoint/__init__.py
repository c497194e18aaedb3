"""Passes that are kept in a file, so that an interrupted fit goes on."""

from implicitmoments.rows.checkpoint.journal import Journal
from implicitmoments.rows.checkpoint.journaled_source import JournaledSource, describe_rows

__all__ = ["Journal", "JournaledSource", "describe_rows"]
