"""1 · Rows in: sources, blocks, random numbers keyed by row, synthetic data with its truth."""

from implicitmoments.rows.checkpoint import (
    CheckpointError,
    Journal,
    JournaledSource,
    describe_rows,
)
from implicitmoments.rows.dask import DaskSource, is_dask, map_rows
from implicitmoments.rows.draws import RandomState, RowDraws, Stream, as_seed
from implicitmoments.rows.files import (
    BlockSource,
    FileSource,
    MissingFileError,
    MissingLibraryError,
    UnreadableError,
    open_file,
)
from implicitmoments.rows.fold import (
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
from implicitmoments.rows.progress import ProgressSource
from implicitmoments.rows.sources import (
    ArraySource,
    CallableSource,
    CountedSource,
    DifferenceSource,
    MappedSource,
    Source,
    as_source,
)
from implicitmoments.rows.truth import Truth
from implicitmoments.rows.whitening import Whitening

__all__ = [
    "After",
    "ArraySource",
    "Block",
    "BlockSource",
    "CallableSource",
    "CheckpointError",
    "CountedSource",
    "DaskSource",
    "DifferenceSource",
    "FileSource",
    "Journal",
    "JournaledSource",
    "MappedSource",
    "Measure",
    "MissingFileError",
    "MissingLibraryError",
    "Progress",
    "ProgressSource",
    "RandomState",
    "RowDraws",
    "Source",
    "Stream",
    "Sums",
    "Truth",
    "UnreadableError",
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
