"""Arrays of any array-API library: namespaces, linear algebra, kernels and hashing."""

from implicitmoments.arrays.kernels import (
    cross_sums,
    key_shares,
    lift_rows,
    linear_rows,
    quadratic_rows,
    row_keys,
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
    LARGEST,
    Array,
    Floats,
    Namespace,
    as_double,
    as_real_array,
    check_finite,
    check_squares,
    device_memory,
    eye_like,
    index_like,
    machine_epsilon,
    move_like,
    namespace_of,
    on_host,
    refuse_large,
    to_numpy,
)
