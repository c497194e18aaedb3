"""Means over rows of compressed moments: on pairs of subspaces, and on the window of a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from implicitmoments.arrays import Array, eye_like, gram, namespace_of
from implicitmoments.moments.chain import SymmetricChain, Window, assemble_form
from implicitmoments.moments.hermite_problem import FramedRows, Weights, average
from implicitmoments.moments.split_mean import SplitMean
from implicitmoments.rows import Sums


def mean_moments(
    view: FramedRows, chain: SymmetricChain, splits: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], SplitMean]:
    """Average M_{a+b} on U_a × U_b for pairs (a, b) with a ≤ b, in one pass."""
    orders = sorted({a + b for a, b in splits})

    def measure(points: Array, weights: Weights) -> Sums:
        xp = namespace_of(points)
        images = chain.images(points)
        sums: Sums = {}
        for a, b in splits:
            c = weights[a + b]
            for n in range(min(a, b) + 1):
                left = images[a - n] if c is None else images[a - n] * c[:, None]
                sums[f"{a},{b},{n}"] = xp.matrix_transpose(left) @ images[b - n]
        return sums

    def assemble(means: Sums) -> Sums:
        return {
            f"{a},{b}": assemble_form(chain, [means[f"{a},{b},{n}"] for n in range(a + 1)], a, b)
            for a, b in splits
        }

    width = max(chain.dim(n) for n in range(chain.order + 1)) * chain.p
    means = average(view, orders, measure, assemble, "moments", width)
    return {(a, b): means[f"{a},{b}"] for a, b in splits}


def even_mean(view: FramedRows, chain: SymmetricChain, window: Window) -> SplitMean:
    """Average M_2n on the window over a chain of order n − 1, with weights c_2n."""
    return even_means(view, chain, window)["moment"]


def odd_mean(view: FramedRows, chain: SymmetricChain, window: Window) -> SplitMean:
    r"""Average :math:`M_{2n-1}` as a positive matrix on the window over a chain of order n − 1.

    As a matrix on :math:`U_{n-1}` × window, :math:`F = U s V^\top`, its right singular vectors
    span :math:`U_n`. They are the eigenvectors of :math:`V U^\top F`, a linear map of F.
    """
    n = chain.order + 1
    whole = chain.extend(window.step(eye_like(window.dim, view.frame.basis)))
    found = mean_moments(view, whole, [(n - 1, n)])[n - 1, n]
    xp = namespace_of(found.value)
    left, _, right = xp.linalg.svd(found.value, full_matrices=False)
    polar = xp.matrix_transpose(left @ right)

    def symmetric(form: Array) -> Array:
        product = polar @ form
        return (product + xp.matrix_transpose(product)) / 2

    return found.map(symmetric)


def even_means(view: FramedRows, chain: SymmetricChain, window: Window) -> dict[str, SplitMean]:
    """Average M_2n, and the terms ``gram0``, …, ``gram{n}`` of which it is composed."""
    n = chain.order + 1

    def measure(points: Array, weights: Weights) -> Sums:
        sums: Sums = {}
        for sign, x, root in _by_sign(points, weights[2 * n]):
            images = chain.images(x)
            if root is not None:  # all terms are linear in the images, which absorb the root
                images = [image * root for image in images]
            parts = [*map(gram, images), window.gram_sums(images, x, root)]
            for j, part in enumerate(parts):
                name, signed = f"gram{j}", part if sign > 0 else -part
                sums[name] = sums[name] + signed if name in sums else signed
        return sums

    def assemble(means: Sums) -> Sums:
        grams = [means[f"gram{j}"] for j in range(n)]
        grams.append(window.gram(means[f"gram{n}"], grams))
        moment = assemble_form(chain, grams[::-1], n, n, window)
        return {**means, f"gram{n}": grams[n], "moment": moment}

    width = max(window.dim, chain.dim(n - 1) * chain.p)
    return average(view, [2 * n], measure, assemble, f"order {2 * n}", width)


def _by_sign(points: Array, weights: Array | None) -> Iterator[tuple[float, Array, Array | None]]:
    """Yield ``(sign, points, √|weight|)`` for the rows of positive and of negative weight.

    A signed sum of outer products is then a difference of two symmetric products over a
    partition of the rows: no row is multiplied twice, and each product costs half a general one.
    """
    if weights is None:
        yield 1.0, points, None
        return
    xp = namespace_of(points)
    for sign in (1.0, -1.0):
        (chosen,) = xp.nonzero(sign * weights > 0)
        root = xp.sqrt(xp.abs(xp.take(weights, chosen, axis=0)))
        yield sign, xp.take(points, chosen, axis=0), root[:, None]
