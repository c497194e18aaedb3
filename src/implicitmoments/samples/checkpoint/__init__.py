"""Passes that are kept in a file, so that an interrupted fit goes on."""

from implicitmoments.samples.checkpoint.journal import Journal
from implicitmoments.samples.checkpoint.journaled import JournaledSource, describe_rows

__all__ = ["Journal", "JournaledSource", "describe_rows"]
