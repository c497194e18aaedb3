r"""Weighted Hermite moments of vectors :math:`(h, \beta_i)` whose weight depends on the order.

A slot of :math:`(h, \beta)^{\otimes m}` holds the constant h or the vector :math:`\beta`. The
*grade* of an entry is the number a of its slots that hold the vector; it is estimated by
:math:`c_a h^{m-a} He_a(x)`, with a weight :math:`c_a` of its own. Images along a chain are
therefore kept apart by grade. With one weight for all grades the sum over grades is the closed
form on the point (h, x).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from implicitmoments.backends import Floats, outer_rows
from implicitmoments.moments.balanced import assemble_form, contracted_forms
from implicitmoments.moments.chain import SymmetricChain, split_slot
from implicitmoments.moments.windows import open_window

__all__ = ["graded_answers", "graded_images", "graded_moments", "graded_noise", "widen"]


def graded_noise(p: int) -> Floats:
    """Return the covariance of the noise in (h, x): none in the constant."""
    return np.diag(np.append(0.0, np.ones(p)))


def graded_images(chain: SymmetricChain, points: Floats, height: float) -> list[Floats]:
    r"""Carry rows (h, x) along a chain, by grade.

    The recursion :math:`p_n = \phi_n(p_{n-1} \otimes (h, x)) - (n-1)\, C_n p_{n-2}` of the
    closed form, where the constant leaves the grade as it is, a point raises it by one and a
    contraction, which takes two slots of noise, by two.

    Parameters
    ----------
    chain : SymmetricChain
        Over :math:`R^{1+p}`, with the noise of :func:`graded_noise`.
    points : array of shape (n_rows, p)
    height : float
        The constant h.

    Returns
    -------
    list of arrays (n + 1, n_rows, k_n), for n = 0, …, chain.order
    """
    rows = len(points)
    carried = [np.ones((1, rows, 1))]
    for n, step in enumerate(chain.steps, start=1):
        split = split_slot(step, chain.p)  # (k_n, k_{n-1}, 1 + p)
        flat = split[:, :, 1:].reshape(len(split), -1).T
        before = carried[-1]
        image = np.zeros((n + 1, rows, len(split)))
        image[:n] = before @ (height * split[:, :, 0].T)
        for a in range(n):
            image[a + 1] += outer_rows(before[a], points) @ flat
        if n > 1:
            image[2:] -= carried[-2] @ ((n - 1) * chain.contractions[n - 2].T)
        carried.append(image)
    return carried


def graded_moments(
    chain: SymmetricChain,
    height: float,
    splits: Sequence[tuple[int, int, int]],
    blocks: Iterable[tuple[Floats, Callable[[int, int], Floats]]],
) -> dict[tuple[int, int, int], Floats]:
    r"""Sum moments over rows, on U_a × U_b.

    Parameters
    ----------
    chain : SymmetricChain
    height : float
    splits : sequence of (a, b, r)
        With a ≤ b; r names a family of weights.
    blocks : iterable of (points, weights)
        ``weights(grade, r)`` returns one number a row.

    Returns
    -------
    dict of (a, b, r) to array (k_a, k_b)
        Sums of the estimators of :math:`(h, \beta)^{\otimes a+b}`.
    """
    sums: dict[tuple[int, int, int], list[Floats]] = {}
    for points, weights in blocks:
        images = graded_images(chain, points, height)
        for a, b, r in splits:
            parts = [
                _graded_product(images[a - n], images[b - n], 2 * n, r, weights)
                for n in range(a + 1)
            ]
            before = sums.get((a, b, r))
            sums[a, b, r] = (
                parts
                if before is None
                else [s + part for s, part in zip(before, parts, strict=True)]
            )
    return {(a, b, r): assemble_form(chain, parts, a, b) for (a, b, r), parts in sums.items()}


def _graded_product(
    left: Floats, right: Floats, contracted: int, r: int, weights: Callable[[int, int], Floats]
) -> Floats:
    """Sum outer products of images, each with the weight of the grades together."""
    total = np.zeros((left.shape[2], right.shape[2]))
    for i, image in enumerate(left):
        weighted = np.zeros(right.shape[1:])
        for j, other in enumerate(right):
            weighted += weights(i + j + contracted, r)[:, None] * other
        total += image.T @ weighted
    return total


def graded_answers(
    chain: SymmetricChain, images: list[Floats], a: int, b: int, form: Floats
) -> Floats:
    r"""Return :math:`\langle T, He_m(h, x) \rangle` by grade for a tensor of order m = a + b.

    For :math:`T = (h', \beta)^{\otimes m}` entry g of a row is
    :math:`\binom{m}{g} (h h')^{m-g} \langle \beta^{\otimes g}, He_g(x) \rangle`.

    Parameters
    ----------
    chain : SymmetricChain
    images : list of arrays
        From :func:`graded_images`.
    a, b : int
    form : array of shape (k_a, k_b)

    Returns
    -------
    array of shape (a + b + 1, n_rows)
    """
    answers = np.zeros((a + b + 1, images[0].shape[1]))
    for n, matrix in enumerate(contracted_forms(chain, a, b, form)):
        for i, left in enumerate(images[a - n]):
            pulled = left @ matrix
            for j, right in enumerate(images[b - n]):
                answers[i + j + 2 * n] += np.sum(pulled * right, axis=1)
    return answers


def widen(chain: SymmetricChain, k: int) -> SymmetricChain:
    """Add a step that keeps all that is nearly symmetric, with room for k directions."""
    window = open_window(chain, k)
    return chain.extend(np.ascontiguousarray(window.step(np.eye(window.dim))))
