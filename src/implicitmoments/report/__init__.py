"""One HTML page about a fitted model."""

from implicitmoments.report.write import write_report

__all__ = ["write_report"]
