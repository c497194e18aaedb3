r"""F/G of a mixture as a truncated Hermite expansion, from one compressed moment.

*Spherical means.* With G standard normal at the centre of F (Lemma 4.17),

.. math::
   F/G = \sum_a \langle M_a, He_a(x) \rangle / a!, \qquad M_a = \sum_i w_i \mu_i^{\otimes a}.

*Regressions.* With G standard normal on (x, z), :math:`E[He_a(x) f(z)] = \sum_i w_i
\beta_i^{\otimes a} E_i[f^{(a)}(z)]`, where :math:`E_i` is the mean over component i. So

.. math:: F/G = \sum_{a,r} \langle M_{ar}, He_a(x) \rangle\, \frac{He_{a+r}(z)}{a!\, r!}, \qquad
   M_{ar} = \sum_i w_i \eta_{ir} \beta_i^{\otimes a}, \quad \eta_{ir} = E_i[He_r(z)],

and coefficients with fewer slots of z than of x are 0. The proof of Theorem 4.22 expresses
:math:`\eta_{ir}` by moments of higher order. Averaged directly, as here, the coefficients have
less noise, and hold for components with their own intercept and noise variance.

*One moment for all orders.* :math:`\sum_i w_i \eta_{ir} (h, \beta_i)^{\otimes m}` holds
:math:`M_{0r}, \ldots, M_{mr}` and has rank k between halves of its slots, so that low orders,
which are less noisy, help to find the subspaces of high orders. The *grade* of an entry is the
number of its slots that hold the vector and not the constant h.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, TypeAlias

import array_api_compat
import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    descending_eigh,
    dot_rows,
    move_like,
    namespace_of,
    outer_rows,
    to_numpy,
)
from implicitmoments.moments.chain import (
    OVERSAMPLING,
    SymmetricChain,
    contracted_forms,
    open_window,
    split_order,
    split_slot,
)
from implicitmoments.rows import Block, Rows, Sums, blocks, weights_of

# (a, b, r): the moment with weights :math:`\eta_{ir}`, of order a + b, as a matrix on U_a × U_b
Split: TypeAlias = tuple[int, int, int]


def kind_of(x: Array) -> dict[str, Any]:
    """Return the precision and the device of an array."""
    return {"dtype": x.dtype, "device": array_api_compat.device(x)}


def by_blocks(function: Callable[[Array], Array], points: Array, size: int = 4_096) -> Array:
    """Evaluate a function of points (n, p), whose result has the points last, block by block.

    Images by grade of 4,096 points stay in the cache.
    """
    pieces = blocks(range(int(points.shape[0])), size)
    found = [function(points[piece.start : piece.stop, :]) for piece in pieces]
    return found[0] if len(found) == 1 else namespace_of(points).concat(found, axis=-1)


def hermite_values(z: Array, degree: int) -> Array:
    """Return He_0(z), …, He_degree(z) as rows (degree + 1, n)."""
    xp = namespace_of(z)
    values = [xp.ones_like(z), z][: degree + 1]
    for n in range(2, degree + 1):
        values.append(z * values[n - 1] - (n - 1) * values[n - 2])
    return xp.stack(values)


@dataclass(frozen=True, eq=False)
class GradedMoments:
    r"""Moments :math:`\sum_i w_i \eta_{ir} (h, \beta_i)^{\otimes m}` in compressed form.

    Attributes
    ----------
    height, unit : float
        The constant h, and the unit of length in which powers stay in range.
    chain : SymmetricChain
        Subspaces of powers of :math:`(h, \beta_i)`, over :math:`R^{1+p}`.
    forms : mapping of (a, b, r) to array of shape (dim of U_a, dim of U_b)
        For every r the moment of order m = a + b, in the unit.
    """

    height: float
    unit: float
    chain: SymmetricChain
    forms: Mapping[Split, Floats] = field(default_factory=dict)

    @staticmethod
    def of_points(p: int, height: float, unit: float) -> GradedMoments:
        """Return the first step: all of R^{1+p}, in which the constant has no noise."""
        noise = np.diag(np.append(0.0, np.full(p, 1 / unit**2)))
        return GradedMoments(height, unit, SymmetricChain((np.eye(1 + p),), noise))

    def answers(self, x: Array, degree: int, slots: int) -> dict[int, Array]:
        r"""Return :math:`\langle M_{ar}, He_a(x) \rangle / a!` at points (n, p), by r.

        For every r up to the degree an array (m + 1, n), for a = 0, …, m, of the orders within the
        degree: m = (degree − r) / ``slots``, rounded down.
        """
        chain, unit = self.chain.like(x), self.unit
        # against a point (1/h, x) the constant slots of a moment give 1
        height = 1.0 / (self.height * unit)
        images = graded_images(chain, x / unit, height, degree // slots)
        found = {}
        for (a, b, r), form in self.forms.items():
            if r <= degree:
                moved, most = move_like(form, x), (degree - r) // slots
                answer = graded_answers(chain, images, a, b, moved, most)
                found[r] = answer * unit ** (2 * (a + b))
        return found


def graded_images(chain: SymmetricChain, points: Array, height: float, most: int) -> list[Array]:
    r"""Carry rows (h, x) along a chain; return arrays (g + 1, n_rows, k_n), by order n and grade.

    Of grades up to g, the smaller one of n and ``most``.

    The recursion :math:`p_n = \phi_n(p_{n-1} \otimes (h, x)) - (n-1)\, C_n p_{n-2}` of the
    closed form, where the constant leaves the grade as it is, a point raises it by one and a
    contraction, which takes two slots of noise, by two. The chain is over :math:`R^{1+p}`, without
    noise in the constant, and in the library of the points.
    """
    xp, rows, like = namespace_of(points), int(points.shape[0]), kind_of(points)
    carried = [xp.ones((1, rows, 1), **like)]
    for n, step in enumerate(chain.steps, start=1):
        split = split_slot(step, chain.p)  # (k_n, k_{n-1}, 1 + p)
        before, top = carried[-1], min(n, most)
        image = xp.zeros((top + 1, rows, int(split.shape[0])), **like)
        image[: min(n, top + 1), :, :] = before @ xp.matrix_transpose(height * split[:, :, 0])
        flat = xp.matrix_transpose(xp.reshape(split[:, :, 1:], (split.shape[0], -1)))
        for a in range(top):
            image[a + 1, :, :] += outer_rows(before[a, :, :], points) @ flat
        if n > 1 and top > 1:
            back = xp.matrix_transpose((n - 1) * chain.contractions[n - 2])
            image[2:, :, :] -= carried[-2][: top - 1, :, :] @ back
        carried.append(image)
    return carried


def graded_answers(
    chain: SymmetricChain, images: list[Array], a: int, b: int, form: Array, most: int
) -> Array:
    r"""Return the terms of the expansion of a tensor of order m = a + b, by grade up to ``most``.

    For :math:`(h', \beta)^{\otimes m}` and images of (h, x), entry g of a row is
    :math:`(h h')^{m-g} \langle \beta^{\otimes g}, He_g(x) \rangle / g!`. The result has the shape
    (most + 1, n_rows).
    """
    xp = namespace_of(images[0])
    answers = xp.zeros((most + 1, images[0].shape[1]), **kind_of(images[0]))
    for n, matrix in enumerate(contracted_forms(chain, a, b, form)[: most // 2 + 1]):
        left, right = images[a - n] @ matrix, images[b - n]
        for i, j in product(range(int(left.shape[0])), range(int(right.shape[0]))):
            if i + j + 2 * n <= most:
                answers[i + j + 2 * n, :] += dot_rows(left[i, :, :], right[j, :, :])
    for g in range(most + 1):  # so many choices of slots have a grade
        answers[g, :] /= math.comb(a + b, g) * math.factorial(g)
    return answers


@dataclass(frozen=True, eq=False)
class Expansion(ABC):
    """A polynomial in the coordinates that estimates F/G.

    The moments may be of a higher order: with another ``degree`` (``dataclasses.replace``) more or
    fewer of their orders are kept.
    """

    degree: int  # highest order that is kept
    moments: GradedMoments

    def __call__(self, coordinates: Array) -> Array:
        """Evaluate at rows of coordinates (n, p), in their library and on their device."""
        return namespace_of(coordinates).sum(self.orders(coordinates), axis=0)

    def orders(self, coordinates: Array) -> Array:
        """Return the terms of each order, (degree + 1, n): cumulated, all lower degrees."""
        return by_blocks(self._orders, coordinates)

    @abstractmethod
    def _orders(self, coordinates: Array) -> Array:
        """Return the terms of each order at few rows."""


@dataclass(frozen=True, eq=False)
class JointExpansion(Expansion):
    r"""The expansion of a spherical mixture, from one moment of order n.

    :math:`h = \sqrt n` makes distances between the moments nearly those in L2(G):
    :math:`(1 + \langle\mu, \nu\rangle/n)^n \approx e^{\langle\mu, \nu\rangle}`.
    """

    def _orders(self, coordinates: Array) -> Array:
        return self.moments.answers(coordinates, self.degree, 1)[0]


@dataclass(frozen=True, eq=False)
class GradedExpansion(Expansion):
    r"""The expansion of a mixture of regressions in (x, z), z last.

    G has the standard deviation s = ``scale`` along the label z of the moments, and the polynomial
    is in z/s. From :math:`He_r(\gamma z) = \sum_j \frac{r!\, (\gamma^2 - 1)^j}{j!\, 2^j (r-2j)!}
    \gamma^{r-2j} He_{r-2j}(z)`, γ = 1/s, one set of moments gives the coefficients at every scale.
    """

    scale: float = 1.0

    def coefficients(self, x: Array) -> Array:
        """Return those of He_{a+r}(z/s) at points (n, p), for a and r: (m + 1, degree + 1, n)."""
        xp, n = namespace_of(x), self.degree
        found = xp.zeros((n // 2 + 1, n + 1, x.shape[0]), **kind_of(x))
        for r, answer in self.moments.answers(x, n, 2).items():
            found[: answer.shape[0], r, :] = answer / math.factorial(r)
        rescaled = move_like(_rescaling(n, 1 / self.scale), x) @ found
        for a in range(n // 2 + 1):  # of β, which is shorter by s
            rescaled[a, :, :] *= self.scale**-a
        return rescaled

    def _orders(self, coordinates: Array) -> Array:
        xp, n = namespace_of(coordinates), self.degree
        coefficients = self.coefficients(coordinates[:, :-1])
        values = hermite_values(coordinates[:, -1], n)
        found = xp.zeros_like(values)
        for a in range(n // 2 + 1):
            last = n - 2 * a + 1
            found[2 * a :, :] += coefficients[a, :last, :] * values[a : a + last, :]
        return found

    def on_grid(self, x: Array, z: Floats) -> Array:
        """Evaluate at points (n, p) with every label of a grid: (n, number of labels)."""
        values, coefficients = move_like(hermite_values(z, self.degree), x), self.coefficients(x)
        found = namespace_of(x).zeros((x.shape[0], len(z)), **kind_of(x))
        for a in range(self.degree // 2 + 1):
            last = self.degree - 2 * a + 1
            each = namespace_of(x).matrix_transpose(coefficients[a, :last, :])
            found += each @ values[a : a + last, :]
        return found


def _rescaling(degree: int, gamma: float) -> Floats:
    """Return the matrix from coefficients of He_r(z) / r! to those of He_r(γz) / r!."""
    found = np.zeros((degree + 1, degree + 1))
    for r in range(degree + 1):
        for j in range(r // 2 + 1):
            ways = math.factorial(j) * 2.0**j
            found[r, r - 2 * j] = gamma ** (r - 2 * j) * (gamma**2 - 1) ** j / ways
    return found


def one_component() -> GradedMoments:
    """Return the moments of one component, of order 0: F is G."""
    return GradedMoments(
        1.0, 1.0, SymmetricChain((), np.zeros((1, 1))), {(0, 0, 0): np.ones((1, 1))}
    )


def expand_means(rows: Rows, k: int, degree: int, squared_radius: float) -> JointExpansion:
    """Estimate F/G from coordinates of rows on the span of the means, in units of the noise."""
    p = rows.n_features
    if p == 0 or degree < 2:  # centred rows have no first order
        return JointExpansion(0, one_component())
    # the unit is the length of the hidden vectors (h, μ)
    start = GradedMoments.of_points(p, math.sqrt(degree), math.sqrt(degree + squared_radius))
    a, b = split_order(degree)
    powers = find_powers(rows, start, k, b, labelled=False)
    forms = average_moments(rows, powers, [(a, b, 0)], labelled=False)
    return JointExpansion(degree, replace(powers, forms=forms))


def expand_labels(rows: Rows, k: int, degree: int) -> GradedExpansion:
    """Estimate F/G from coordinates of rows on the span of the regressors, and their labels z."""
    p = rows.n_features
    if p == 0 or degree < 2:
        return GradedExpansion(0, one_component())
    splits = [(*split_order((degree - r) // 2), r) for r in range(degree + 1)]
    start, last = GradedMoments.of_points(p, 1.0, 1.0), splits[0][1]
    powers = find_powers(rows, start, k, last, labelled=True)
    forms = average_moments(rows, powers, splits, labelled=True)
    return GradedExpansion(degree, replace(powers, forms=forms))


def find_powers(
    rows: Rows, start: GradedMoments, k: int, last: int, *, labelled: bool
) -> GradedMoments:
    """Find subspaces of powers of (h, β_i) up to an order, each from a moment on a window.

    The closed form holds on symmetric tensors; what others add to it is bias, which grows with the
    order. Powers of means are symmetric up to their sampling error, so beyond its k most symmetric
    directions a window has those at which the compressed symmetriser is at least 0.99.
    """
    chain = start.chain
    for q in range(2, last + 1):
        wide, _ = open_window(chain, k, 0.99)
        whole = replace(start, chain=wide)
        form = average_moments(rows, whole, [(q, q, 0)], labelled=labelled)[q, q, 0]
        _, vectors = descending_eigh((form + form.T) / 2)
        # below the last order more than k directions are kept: what is lost cannot be regained
        width = min(k if q == last else OVERSAMPLING * k, wide.dim(q))
        chain = wide.keep(np.ascontiguousarray(vectors[:, :width].T))
    return replace(start, chain=chain)


def average_moments(
    rows: Rows, powers: GradedMoments, splits: list[Split], *, labelled: bool
) -> dict[Split, Floats]:
    """Average moments over rows on subspaces of powers, in one pass."""
    chain, highest = powers.chain, max(a + b + r for a, b, r in splits)
    measure = partial(_sum_products, powers, splits, labelled)
    width = sum((n + 1) * chain.dim(n) for n in range(chain.order + 1))
    sums, found = rows.fold(measure, width=width, what=f"coefficients to degree {highest}"), {}
    for a, b, r in splits:
        means = [to_numpy(sums[f"{a},{b},{r},{n}"]) for n in range(a + 1)]
        found[a, b, r] = to_numpy(chain.assemble(means, a, b)) / float(sums["total"])
    return found


def _sum_products(
    powers: GradedMoments, splits: list[Split], labelled: bool, block: Block
) -> Sums:
    r"""Sum over rows the products from which moments on U_a × U_b are assembled, a ≤ b.

    With labels an entry of grade g has the weight :math:`r!/(g+r)!\, He_{g+r}(z)`. Without, all
    grades have the weight 1 and their images are summed before.
    """
    x, counts, highest = block["x"], weights_of(block), max(a + b + r for a, b, r in splits)
    xp, chain, height = namespace_of(x), powers.chain.like(x), powers.height / powers.unit
    if labelled:
        images = graded_images(chain, x / powers.unit, height, chain.order)
        values = hermite_values(block["y"], highest) * counts[None, :]
    else:
        points = xp.concat([xp.ones_like(x[:, :1]) * height, x / powers.unit], axis=1)
        images, values = [image[None, :, :] for image in chain.images(points)], counts[None, :]
    sums: Sums = {"total": xp.sum(counts, dtype=xp.float64)}
    for a, b, r in splits:
        # of grades 0, …, a + b; a contraction takes two slots
        grades = range(a + b + 1 if labelled else 1)
        ratios = [math.factorial(r) / math.factorial(g + r) for g in grades]
        weights = [values[g + r, :] * ratios[g] for g in grades]
        for n in range(a + 1):
            each = weights[2 * n :] if labelled else weights
            sums[f"{a},{b},{r},{n}"] = _graded_gram(images[a - n], images[b - n], each)
    return sums


def _graded_gram(left: Array, right: Array, weights: list[Array]) -> Array:
    """Sum outer products of images, each with the weight of its total grade."""
    xp = namespace_of(left)
    total = xp.zeros((left.shape[2], right.shape[2]), **kind_of(left))
    for i in range(int(left.shape[0])):
        weighted = xp.zeros_like(right[0, :, :])
        for j in range(int(right.shape[0])):
            weighted += weights[i + j][:, None] * right[j, :, :]
        total += xp.matrix_transpose(left[i, :, :]) @ weighted
    return xp.astype(total, xp.float64, copy=False)
