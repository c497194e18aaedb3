"""1 · Rows in: sources, views, blocks, random numbers keyed by row."""

from implicitmoments.rows.affine_maps import LabelMap
from implicitmoments.rows.blas_threads import threads_for_folds
from implicitmoments.rows.checkpoint import JournaledSource, open_checkpoint
from implicitmoments.rows.dask_columns import map_rows
from implicitmoments.rows.dask_source import DaskSource
from implicitmoments.rows.draws import (
    DrawPurpose,
    KeyedPermutation,
    RandomState,
    RowDraws,
    as_seed,
    draw_numbers,
)
from implicitmoments.rows.files import BlockSource, FileSource, open_file
from implicitmoments.rows.fingerprint import describe_rows
from implicitmoments.rows.fold import (
    DEFAULT_BUDGET,
    LARGEST,
    After,
    Block,
    Measure,
    MemoryBudget,
    Progress,
    Sums,
    add_sums,
    blocks,
    fold_blocks,
    join_labels,
    shares_of,
    weights_of,
)
from implicitmoments.rows.journal import Journal
from implicitmoments.rows.outliers import leave_out_outliers
from implicitmoments.rows.row_selection import Census, Rule
from implicitmoments.rows.second_moments import (
    SecondMoments,
    factor_covariance,
    mean_and_covariance,
    whitener_of,
)
from implicitmoments.rows.sources import (
    ArraySource,
    CallableSource,
    DifferenceSource,
    Source,
    as_source,
    is_dask,
)
from implicitmoments.rows.view import Rows
from implicitmoments.rows.whitening import Whitening

__all__ = [
    "ArraySource",
    "BlockSource",
    "CallableSource",
    "DaskSource",
    "RowDraws",
    "Rows",
    "Source",
    "Whitening",
    "open_file",
]
