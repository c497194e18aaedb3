"""One HTML page about a fitted model."""

from implicitmoments.report.page import caption_of, write_report
from implicitmoments.report.page import verdict_of as verdict_of
from implicitmoments.report.statistics import STATISTICS, settings_of, statistics_of

__all__ = ["write_report"]
