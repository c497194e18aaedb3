"""1 · Rows in: sources, blocks, random numbers keyed by row, synthetic data with its truth."""

from implicitmoments.samples.checkpoint import Journal, JournaledSource, describe_rows
from implicitmoments.samples.cluster import DaskSource, is_dask, map_rows
from implicitmoments.samples.draws import RandomState, RowDraws, Stream, as_seed
from implicitmoments.samples.files import BlockSource, FileSource, open_file
from implicitmoments.samples.fold import (
    After,
    Block,
    Measure,
    Progress,
    Sums,
    add_sums,
    blocks,
    fold_blocks,
    threads_for_folds,
)
from implicitmoments.samples.sources import (
    ArraySource,
    CallableSource,
    CountedSource,
    DifferenceSource,
    MappedSource,
    Source,
    as_source,
)
from implicitmoments.samples.truth import Truth
from implicitmoments.samples.whitening import Whitening
from implicitmoments.samples.wrapped import ProgressSource

__all__ = [
    "After",
    "ArraySource",
    "Block",
    "BlockSource",
    "CallableSource",
    "CountedSource",
    "DaskSource",
    "DifferenceSource",
    "FileSource",
    "Journal",
    "JournaledSource",
    "MappedSource",
    "Measure",
    "Progress",
    "ProgressSource",
    "RandomState",
    "RowDraws",
    "Source",
    "Stream",
    "Sums",
    "Truth",
    "Whitening",
    "add_sums",
    "as_seed",
    "as_source",
    "blocks",
    "describe_rows",
    "fold_blocks",
    "is_dask",
    "map_rows",
    "open_file",
    "threads_for_folds",
]
