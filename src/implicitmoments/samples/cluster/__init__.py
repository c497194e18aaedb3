"""Rows of Dask arrays and data frames: passes take place on the workers."""

from implicitmoments.samples.cluster.answers import map_rows
from implicitmoments.samples.cluster.columns import is_dask
from implicitmoments.samples.cluster.rows import DaskSource

__all__ = ["DaskSource", "is_dask", "map_rows"]
