"""Arrays of any array-API library: namespaces, and kernels for linear algebra and hashing."""

from implicitmoments.arrays.entries import Entries
from implicitmoments.arrays.kernels import (
    descending_eigh,
    dot_rows,
    gram,
    key_shares,
    lift_rows,
    multiply_into,
    orthonormality_defect,
    outer_rows,
    pair_rows,
    row_keys,
    turned,
)
from implicitmoments.arrays.namespace import (
    LARGEST,
    TINY,
    Array,
    Floats,
    Namespace,
    as_double,
    as_real_array,
    check_finite,
    check_not_large,
    check_squares,
    check_unmasked,
    device_memory,
    eye_like,
    index_like,
    machine_epsilon,
    move_like,
    namespace_of,
    on_host,
    refuse_large,
    sizes_of,
    to_numpy,
)
