r"""Dense twins of the expansions of regressions: explicit T_n, for small degrees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from itertools import product

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.density.hermite_expansion import DenseExpansion
from implicitmoments.projections import hermite_dense


def expand_labels_dense(coordinates: Floats, degree: int, *, odd: bool) -> DenseExpansion:
    r"""Average :math:`T_n = E[H_n(x, z)]` over rows (n, p + 1).

    Entries with fewer slots of z than of x are set to 0, as they are for every mixture of
    regressions; so are odd orders unless ``odd``.
    """
    width = coordinates.shape[1]
    tensors = []
    for n in range(degree + 1):
        tensor = np.asarray(np.mean(hermite_dense(coordinates, n), axis=0)).copy()
        for slots in product(range(width), repeat=n):
            if 2 * slots.count(width - 1) < n or (n % 2 and not odd):
                tensor[slots] = 0.0
        tensors.append(tensor)
    return DenseExpansion(degree, tuple(tensors))


def contract_dense(moments: Sequence[Floats], noise: float, degree: int) -> DenseExpansion:
    r"""Return T_n by the double sum over (a, b, c) of the proof of Theorem 4.22.

    With Errata 5 and 7. Not symmetrised: Hermite tensors are.

    Parameters
    ----------
    moments : sequence of arrays
        :math:`M_0, \ldots, M_{degree}` as tensors over R^p.
    noise : float
        The variance :math:`\sigma^2`.
    """
    p = len(moments[1])
    label = np.append(np.zeros(p), 1.0)
    tensors: list[Floats] = []
    for n in range(degree + 1):
        tensor = np.zeros((p + 1,) * n)
        for a, b in product(range(n // 2 + 1), repeat=2):
            c = n // 2 - a - b
            if n % 2 or c < 0:
                continue
            moment = moments[a + 2 * b]
            for _ in range(b):
                moment = np.trace(moment, axis1=-2, axis2=-1)
            padded = np.pad(moment, [(0, 1)] * a) if a else moment  # slots of (x, z), 0 along z
            ways = math.factorial(n // 2) // (
                math.factorial(a) * math.factorial(b) * math.factorial(c)
            )
            term = reduce(np.multiply.outer, [label] * (n - a), padded)
            tensor = tensor + ways * 2.0**a * (noise - 1.0) ** c * term
        odd_product = math.prod(range(n - 1, 0, -2))  # (n − 1)!!
        tensors.append(np.asarray(odd_product / math.sqrt(math.factorial(n)) * tensor))
    return DenseExpansion(degree, tuple(tensors))
