"""One page about a fitted model, to look at, to send and to keep."""

from implicitmoments.learners.summary import words_of
from implicitmoments.report.write import write_report

__all__ = ["words_of", "write_report"]
