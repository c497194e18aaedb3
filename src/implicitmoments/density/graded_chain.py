r"""Weighted Hermite moments of vectors :math:`(h, \beta_i)` whose weight depends on the order.

A slot of :math:`(h, \beta)^{\otimes m}` holds the constant h or the vector :math:`\beta`. The
*grade* of an entry is the number a of its slots that hold the vector; it is estimated by
:math:`c_a h^{m-a} He_a(x)`, with its own weight :math:`c_a`. Images along a chain are therefore
kept separately by grade. With one weight for all grades the sum over grades is the closed form on
the point (h, x).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import array_api_compat
import numpy as np

from implicitmoments.arrays import Array, Floats, namespace_of, outer_rows, to_numpy
from implicitmoments.moments.chain import (
    SymmetricChain,
    assemble_form,
    contracted_forms,
    open_window,
    split_slot,
)
from implicitmoments.rows import Sums


def graded_noise(p: int) -> Floats:
    """Return the covariance of the noise in (h, x): none in the constant."""
    return np.diag(np.append(0.0, np.ones(p)))


def graded_images(chain: SymmetricChain, points: Array, height: float) -> list[Array]:
    r"""Carry rows (h, x) along a chain, by grade.

    The recursion :math:`p_n = \phi_n(p_{n-1} \otimes (h, x)) - (n-1)\, C_n p_{n-2}` of the
    closed form, where the constant leaves the grade as it is, a point raises it by one and a
    contraction, which takes two slots of noise, by two.

    Parameters
    ----------
    chain : SymmetricChain
        Over :math:`R^{1+p}`, with the noise of :func:`graded_noise`; in the library of the points.
    points : array of shape (n_rows, p)
    height : float
        The constant h.

    Returns
    -------
    list of arrays (n + 1, n_rows, k_n), for n = 0, …, chain.order
    """
    xp, rows, like = namespace_of(points), int(points.shape[0]), _as(points)
    carried = [xp.ones((1, rows, 1), **like)]
    for n, step in enumerate(chain.steps, start=1):
        split = split_slot(step, chain.p)  # (k_n, k_{n-1}, 1 + p)
        k = int(split.shape[0])
        flat = xp.matrix_transpose(xp.reshape(split[:, :, 1:], (k, -1)))
        before = carried[-1]
        image = xp.zeros((n + 1, rows, k), **like)
        image[:n, :, :] = before @ xp.matrix_transpose(height * split[:, :, 0])
        for a in range(n):
            image[a + 1, :, :] += outer_rows(before[a, :, :], points) @ flat
        if n > 1:
            back = xp.matrix_transpose((n - 1) * chain.contractions[n - 2])
            image[2:, :, :] -= carried[-2] @ back
        carried.append(image)
    return carried


def _as(points: Array) -> dict[str, Any]:
    return {"dtype": points.dtype, "device": array_api_compat.device(points)}


def graded_sums(
    chain: SymmetricChain,
    height: float,
    splits: Sequence[tuple[int, int, int]],
    points: Array,
    weights: Callable[[int, int], Array],
) -> Sums:
    r"""Sum over rows the products from which moments on U_a × U_b are assembled.

    Parameters
    ----------
    splits : sequence of (a, b, r)
        With a ≤ b; r names a family of weights.
    points : array of shape (n_rows, p)
    weights : callable
        ``weights(grade, r)`` returns one number per row.
    """
    images = graded_images(chain, points, height)
    return {
        f"{a},{b},{r},{n}": _graded_product(images[a - n], images[b - n], 2 * n, r, weights)
        for a, b, r in splits
        for n in range(a + 1)
    }


def assemble_graded(
    chain: SymmetricChain, splits: Sequence[tuple[int, int, int]], sums: Mapping[str, Array]
) -> dict[tuple[int, int, int], Floats]:
    r"""Return for (a, b, r) the sum (k_a, k_b) of estimators of :math:`(h, \beta)^{\otimes a+b}`.

    Parameters
    ----------
    chain : SymmetricChain
        In main memory.
    splits : sequence of (a, b, r)
    sums : mapping of str to array
        From :func:`graded_sums`, of all rows.
    """
    found = {}
    for a, b, r in splits:
        parts = [to_numpy(sums[f"{a},{b},{r},{n}"]) for n in range(a + 1)]
        found[a, b, r] = to_numpy(assemble_form(chain, parts, a, b))
    return found


def _graded_product(
    left: Array, right: Array, contracted: int, r: int, weights: Callable[[int, int], Array]
) -> Array:
    """Sum outer products of images, each with the weight of its total grade."""
    xp = namespace_of(left)
    total = xp.zeros((left.shape[2], right.shape[2]), **_as(left))
    for i in range(int(left.shape[0])):
        weighted = xp.zeros_like(right[0, :, :])
        for j in range(int(right.shape[0])):
            weighted += weights(i + j + contracted, r)[:, None] * right[j, :, :]
        total += xp.matrix_transpose(left[i, :, :]) @ weighted
    return xp.astype(total, xp.float64, copy=False)


def graded_answers(
    chain: SymmetricChain, images: list[Array], a: int, b: int, form: Array
) -> Array:
    r"""Return :math:`\langle T, He_m(h, x) \rangle` by grade for a tensor of order m = a + b.

    For :math:`T = (h', \beta)^{\otimes m}` entry g of a row is
    :math:`\binom{m}{g} (h h')^{m-g} \langle \beta^{\otimes g}, He_g(x) \rangle`.

    Parameters
    ----------
    images : list of arrays
        From :func:`graded_images`.
    form : array of shape (k_a, k_b)

    Returns
    -------
    array of shape (a + b + 1, n_rows)
    """
    xp = namespace_of(images[0])
    answers = xp.zeros((a + b + 1, images[0].shape[1]), **_as(images[0]))
    for n, matrix in enumerate(contracted_forms(chain, a, b, form)):
        left, right = images[a - n], images[b - n]
        for i in range(int(left.shape[0])):
            pulled = left[i, :, :] @ matrix
            for j in range(int(right.shape[0])):
                answers[i + j + 2 * n, :] += xp.sum(pulled * right[j, :, :], axis=1)
    return answers


def widen(chain: SymmetricChain, k: int) -> SymmetricChain:
    """Add a step that keeps all nearly symmetric tensors, with room for k directions."""
    window = open_window(chain, k)
    return chain.extend(np.ascontiguousarray(window.step(np.eye(window.dim))))
