"""One HTML page about a fitted model."""

from implicitmoments.report.figures import caption_of
from implicitmoments.report.page import save_page as save_page
from implicitmoments.report.page import write_report
from implicitmoments.report.reader import Reader as Reader
from implicitmoments.report.statistics import STATISTICS, settings_of, statistics_of
from implicitmoments.report.verdict import verdict_of as verdict_of

__all__ = ["write_report"]
