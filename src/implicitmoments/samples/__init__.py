"""1 · Rows in: sources, blocks, random numbers keyed by row, synthetic data with its truth."""

from implicitmoments.samples.draws import RandomState, RowDraws, Stream, as_seed
from implicitmoments.samples.sources import (
    ArraySource,
    Block,
    CallableSource,
    DifferenceSource,
    MappedSource,
    Source,
    as_source,
    blocks,
)
from implicitmoments.samples.truth import Truth
from implicitmoments.samples.whitening import Whitening

__all__ = [
    "ArraySource",
    "Block",
    "CallableSource",
    "DifferenceSource",
    "MappedSource",
    "RandomState",
    "RowDraws",
    "Source",
    "Stream",
    "Truth",
    "Whitening",
    "as_seed",
    "as_source",
    "blocks",
]
