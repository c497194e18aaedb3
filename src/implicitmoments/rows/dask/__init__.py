"""Rows of Dask arrays and data frames: passes take place on the workers."""

from implicitmoments.rows.dask.frame_columns import is_dask
from implicitmoments.rows.dask.lazy_answers import map_rows
from implicitmoments.rows.dask.source import DaskSource

__all__ = ["DaskSource", "is_dask", "map_rows"]
