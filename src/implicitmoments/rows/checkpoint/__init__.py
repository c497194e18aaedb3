"""Checkpoints: passes stored in a file, so that an interrupted fit can continue."""

from implicitmoments.rows.checkpoint.journal import Journal, JournaledSource, describe_rows
from implicitmoments.rows.checkpoint.journal_file import CheckpointError

__all__ = ["CheckpointError", "Journal", "JournaledSource", "describe_rows"]
