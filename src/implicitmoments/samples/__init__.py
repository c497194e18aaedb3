"""1 · Rows in: sources, blocks, random numbers keyed by row, synthetic data with its truth."""

from implicitmoments.samples.dask_answers import map_rows
from implicitmoments.samples.dask_rows import AbsentSource, DaskSource
from implicitmoments.samples.draws import RandomState, RowDraws, Stream, as_seed
from implicitmoments.samples.fold import After, Block, Measure, Sums, add_sums, blocks
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
    "AbsentSource",
    "After",
    "ArraySource",
    "Block",
    "CallableSource",
    "CountedSource",
    "DaskSource",
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
    "map_rows",
]
