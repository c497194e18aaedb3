"""One HTML page about a fitted model."""

from implicitmoments.report.page import write_report
from implicitmoments.report.verdict import verdict_of as verdict_of

__all__ = ["write_report"]
