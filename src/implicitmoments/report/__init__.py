"""One page about a fitted model, to look at, to send and to keep."""

from implicitmoments.report.write import write_report

__all__ = ["write_report"]
