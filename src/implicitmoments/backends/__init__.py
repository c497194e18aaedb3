"""Where arrays live: namespaces and linear algebra for any array-API library."""

from implicitmoments.backends.densities import (
    cross_sums,
    lift_rows,
    linear_rows,
    lower_to,
    softmax_rows,
)
from implicitmoments.backends.linalg import (
    descending_eigh,
    gram,
    multiply_into,
    orthonormality_defect,
    outer_rows,
    pair_rows,
    turned,
)
from implicitmoments.backends.namespace import (
    Array,
    Floats,
    Namespace,
    as_real_array,
    check_finite,
    check_positive,
    device_memory,
    eye_like,
    index_like,
    move_like,
    namespace_of,
    on_host,
    to_numpy,
)
from implicitmoments.backends.rows import share_rows

__all__ = [
    "Array",
    "Floats",
    "Namespace",
    "as_real_array",
    "check_finite",
    "check_positive",
    "cross_sums",
    "descending_eigh",
    "device_memory",
    "eye_like",
    "gram",
    "index_like",
    "lift_rows",
    "linear_rows",
    "lower_to",
    "move_like",
    "multiply_into",
    "namespace_of",
    "on_host",
    "orthonormality_defect",
    "outer_rows",
    "pair_rows",
    "share_rows",
    "softmax_rows",
    "to_numpy",
    "turned",
]
