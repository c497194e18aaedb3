"""Rows of Dask arrays and data frames: passes take place on the workers."""

from implicitmoments.rows.dask.frame_columns import dask_module, is_dask
from implicitmoments.rows.dask.source import DaskSource, map_rows

__all__ = ["DaskSource", "dask_module", "is_dask", "map_rows"]
