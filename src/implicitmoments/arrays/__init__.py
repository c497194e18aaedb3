"""Arrays of any array-API library: namespaces, linear algebra, kernels and hashing."""

from implicitmoments.arrays.array_type import Array, Floats, Namespace
from implicitmoments.arrays.hashing import key_shares, row_keys, share_rows
from implicitmoments.arrays.kernels import (
    cross_sums,
    lift_rows,
    linear_rows,
    lower_to,
    softmax_rows,
)
from implicitmoments.arrays.linalg import (
    descending_eigh,
    gram,
    map_into,
    multiply_into,
    orthonormality_defect,
    outer_rows,
    pair_rows,
    turned,
)
from implicitmoments.arrays.namespace import (
    as_double,
    as_real_array,
    check_finite,
    device_memory,
    eye_like,
    index_like,
    machine_epsilon,
    move_like,
    namespace_of,
    on_host,
    to_numpy,
)
from implicitmoments.arrays.overflow import (
    LARGEST,
    check_squares,
    quiet_overflow,
    refuse_large,
)

__all__ = [
    "LARGEST",
    "Array",
    "Floats",
    "Namespace",
    "as_double",
    "as_real_array",
    "check_finite",
    "check_squares",
    "cross_sums",
    "descending_eigh",
    "device_memory",
    "eye_like",
    "gram",
    "index_like",
    "key_shares",
    "lift_rows",
    "linear_rows",
    "lower_to",
    "machine_epsilon",
    "map_into",
    "move_like",
    "multiply_into",
    "namespace_of",
    "on_host",
    "orthonormality_defect",
    "outer_rows",
    "pair_rows",
    "quiet_overflow",
    "refuse_large",
    "row_keys",
    "share_rows",
    "softmax_rows",
    "to_numpy",
    "turned",
]
