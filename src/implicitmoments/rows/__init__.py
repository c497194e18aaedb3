"""1 · Rows in: tables, views of their rows, passes block by block, samples.

``X → Table (n_rows, names, blocks(size)) → Rows (table, affine map, rows kept, weights)``, and
``for block in rows.blocks(): total += measure(block)``.
"""

from implicitmoments.rows.dask_table import DaskTable, map_rows, rows_of
from implicitmoments.rows.draws import DrawPurpose, Integers, RowDraws, draw_numbers
from implicitmoments.rows.file_table import FileTable, open_file
from implicitmoments.rows.inputs import CheckpointPath, check_n_features, open_rows
from implicitmoments.rows.outliers import (
    SMALLEST_COMPONENT,
    Near,
    count_extreme_rows,
    count_far,
    far_limit,
    few_enough,
    leave_out_outliers,
    near_rule,
)
from implicitmoments.rows.rows import Rows, Rule, restore_columns, shares_of
from implicitmoments.rows.table import (
    DEFAULT_BUDGET,
    ArrayTable,
    Block,
    GeneratedTable,
    MemoryBudget,
    Progress,
    Sums,
    Table,
    blocks,
    fold_blocks,
    join_labels,
    take_rows,
    weights_of,
)
from implicitmoments.rows.whitening import (
    KOLMOGOROV_CHANCE,
    SecondMoments,
    Whitening,
    cells_off,
    factor_covariance,
    find_constants,
    find_deviations,
    looks_standard,
    mean_and_covariance,
    restore_matrices,
)
from implicitmoments.validation import RandomState, as_seed

__all__ = ["ArrayTable", "GeneratedTable", "RowDraws", "Table", "open_file"]
