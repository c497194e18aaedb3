"""Where arrays live: namespaces and linear algebra for any array-API library."""

from implicitmoments.backends.linalg import (
    descending_eigh,
    multiply_into,
    orthonormality_defect,
    outer_rows,
    pair_rows,
)
from implicitmoments.backends.namespace import (
    Array,
    Floats,
    Namespace,
    as_real_array,
    check_finite,
    check_positive,
    move_like,
    namespace_of,
    to_numpy,
)

__all__ = [
    "Array",
    "Floats",
    "Namespace",
    "as_real_array",
    "check_finite",
    "check_positive",
    "descending_eigh",
    "move_like",
    "multiply_into",
    "namespace_of",
    "orthonormality_defect",
    "outer_rows",
    "pair_rows",
    "to_numpy",
]
