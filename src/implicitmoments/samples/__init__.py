"""1 · Rows in: sources, blocks, random numbers keyed by row, synthetic data with its truth."""

from implicitmoments.samples.draws import RandomState, RowDraws, Stream, as_seed
from implicitmoments.samples.fold import (
    After,
    Block,
    Measure,
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

__all__ = [
    "After",
    "ArraySource",
    "Block",
    "CallableSource",
    "CountedSource",
    "DifferenceSource",
    "MappedSource",
    "Measure",
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
    "fold_blocks",
    "threads_for_folds",
]
