"""Where arrays live: namespaces and linear algebra for any array-API library."""

from implicitmoments.backends.linalg import (
    descending_eigh,
    gram,
    map_into,
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
    "descending_eigh",
    "device_memory",
    "eye_like",
    "gram",
    "index_like",
    "map_into",
    "move_like",
    "multiply_into",
    "namespace_of",
    "on_host",
    "orthonormality_defect",
    "outer_rows",
    "pair_rows",
    "share_rows",
    "to_numpy",
    "turned",
]
