r"""The hypothesis of Theorem 4.7: a polynomial whose Hermite tensors are kept compressed.

Moments give the span of the directions and subspaces :math:`U_n` of symmetric tensors above it.
The polynomial is linear in its coefficients there, which least squares fits to all orders
together, so that no order carries the noise of the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.activation.network import (
    ROWS_PER_UNKNOWN,
    SAMPLE_ROWS,
    mean_products,
    sample_for,
    with_ones,
)
from implicitmoments.arrays import (
    TINY,
    Array,
    Floats,
    as_double,
    dot_rows,
    move_like,
    namespace_of,
    outer_rows,
    pair_rows,
    to_numpy,
)
from implicitmoments.moments.activations import ActivationSumProblem
from implicitmoments.moments.chain import (
    Frame,
    SymmetricChain,
    contracted_forms,
    split_order,
)
from implicitmoments.moments.implicit import (
    FramedRows,
    ImplicitMoments,
    estimate_moments,
)
from implicitmoments.picture_data import spectrum_stats
from implicitmoments.rows import Block, Rows, Sums, mean_and_covariance, weights_of

Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, eq=False)
class Polynomial:
    r"""The function :math:`\sum_n \langle T_n, H_n(x) \rangle`, within the range of the labels.

    Along the chain a row has images :math:`p_0, \ldots, p_r`, and every term is bilinear in two of
    them: all terms together are :math:`\sum_m p_a^\top W_m p_b` with a + b = m in halves.
    """

    frame: Frame
    chain: SymmetricChain
    forms: Mapping[int, Array]  # W_m (k_a, k_b) by order m
    low: float  # smallest label of the fit: a polynomial is unreliable far from the rows
    high: float

    @property
    def basis(self) -> Array:
        """Span (p, d) of the directions, orthonormal rows."""
        return self.frame.basis

    def __call__(self, x: Array) -> Array:
        """Evaluate at points (n, d); no randomness."""
        images = self.chain.like(x).images(self.frame.points(x))
        total = namespace_of(x).zeros_like(x[:, 0])
        for order, form in self.forms.items():
            a, b = split_order(order)
            total = total + dot_rows(images[a] @ move_like(form, x), images[b])
        return namespace_of(x).clip(total, self.low, self.high)


@dataclass(frozen=True, eq=False)
class Features:
    r"""Polynomials :math:`\langle Q, H_n(x) \rangle` that span the compressed hypotheses.

    Q is a symmetrised product of the i-th direction of :math:`U_a` and the j-th of :math:`U_b`,
    with i ≤ j where a = b, and has norm 1.
    """

    frame: Frame
    chain: SymmetricChain
    orders: Sequence[int]  # of the hypothesis
    width: int  # directions of each subspace that are used

    @cached_property
    def pairs(self) -> list[tuple[int, int, int, int]]:
        """(a, b, i, j) of every feature: even orders, then odd ones."""
        splits = map(split_order, sorted(self.orders, key=lambda n: (n % 2, n)))
        return [
            (a, b, i, j)
            for a, b in splits
            for i in range(min(self.width, self.chain.dim(a)))
            for j in range(min(self.width, self.chain.dim(b)))
            if a != b or i <= j
        ]

    def __len__(self) -> int:
        return len(self.pairs)

    def columns(self, block: Block) -> list[Array]:
        """Return the features and the labels of a block."""
        return [self.evaluate(block["x"]), block["y"][:, None]]

    @cached_property
    def forms(self) -> dict[int, Floats]:
        r"""Matrices (features, k_a, k_b) by order m = a + b: :math:`\sum_m p_a^\top W_m p_b`.

        A feature of order n has those of orders n, n − 2, …, by contractions with the noise.
        """
        shapes = {
            m: tuple(map(self.chain.dim, split_order(m))) for m in range(max(self.orders) + 1)
        }
        found = {m: np.zeros((len(self), *shape)) for m, shape in shapes.items()}
        for at, (a, b, i, j) in enumerate(self.pairs):
            form = np.zeros(shapes[a + b])
            form[i, j] = 1.0
            if a == b:
                form = (form + form.T) / np.linalg.norm(form + form.T)
            form *= self.frame.scale ** (a + b) / math.sqrt(math.factorial(a + b))
            contracted = contracted_forms(self.chain, a, b, move_like(form, self.chain.noise))
            for n, each in enumerate(contracted):
                found[a + b - 2 * n][at] = to_numpy(each)
        return {m: forms for m, forms in found.items() if forms.any()}

    @cached_property
    def matrix(self) -> Floats:
        """Map from products of images, order by order, to features: (products, features)."""
        parts = []
        for m, forms in self.forms.items():
            if m % 2 == 0:  # products (j, i) of an image with itself join those (i, j), i < j
                i, j = np.triu_indices(forms.shape[1])
                parts.append(forms[:, i, j] + np.where(i < j, forms[:, j, i], 0.0))
            else:
                parts.append(forms.reshape(len(self), -1))
        return np.ascontiguousarray(np.concatenate(parts, axis=1).T)

    def evaluate(self, x: Array) -> Array:
        """Return the features of points (n, d), as (n, len(self))."""
        images = self.chain.images(self.frame.points(x))
        products = [
            pair_rows(images[a]) if a == b else outer_rows(images[a], images[b])
            for a, b in map(split_order, self.forms)
        ]
        return namespace_of(x).concat(products, axis=1) @ move_like(self.matrix, x)

    def polynomial(self, coefficients: Floats, low: float, high: float) -> Polynomial:
        """Return a linear combination of features as a hypothesis."""
        forms = {
            m: move_like(np.tensordot(coefficients, forms, 1), self.chain.noise)
            for m, forms in self.forms.items()
        }
        return Polynomial(self.frame, self.chain, forms, low, high)


@dataclass(frozen=True, eq=False)
class FittedPolynomial:
    """The polynomial hypothesis and its measurements."""

    polynomial: Polynomial
    degree: int
    error: float  # held-out mean squared error
    stats: dict[str, Any]  # of the choice
    moments: ImplicitMoments  # as they were estimated first

    def measurements(self, n: float) -> dict[str, Any]:
        """Return statistics of the fit to n rows, with the expected error on new rows.

        Held-out rows did not determine the coefficients, but did determine the span: it has
        p (d − p) unknowns, and each contributes twice its share of the noise.
        """
        p, d = map(int, self.polynomial.basis.shape)
        expected = self.error * (1 + 2 * p * (d - p) / n)
        errors = {"held_out_error": self.error, "polynomial_error": expected}
        steps = self.moments.steps
        reports = [(step.spectrum, step.floor, step.rank, step.order) for step in steps]
        return {**errors, **self.stats, **spectrum_stats(*reports)}


def count_components(problem: ActivationSumProblem, at_most: int, *, positive: bool) -> int:
    """Count the directions above the noise floor at order 2 or, if more, at orders 3 and 4."""
    highest = max((t for t in (2, 3, 4) if problem.has_order(t)), default=2)
    how = moment_options(problem, at_most, highest, positive=positive)
    return max(1, *(step.rank for step in estimate_moments(first_view(problem, how), **how).steps))


def moment_options(
    problem: ActivationSumProblem, k: int, degree: int, *, positive: bool
) -> dict[str, Any]:
    """Return how moments are estimated: those of even order of positive sums are positive."""
    simple = positive and not problem.biased
    # with signs, a strong direction of one order may be at the noise floor of another
    subspace = "positive" if simple else "singular"
    return {"k": k, "order": degree, "wide": True, "subspace": subspace, "drop_noise": simple}


def first_view(problem: ActivationSumProblem, how: Mapping[str, Any]) -> FramedRows:
    r"""Return the rows, in the span of the directions where order 2 need not show it.

    With biases, weights of both signs or an odd activation, orders 1, 2 and 3 determine it
    together: each is :math:`\sum_i w_i c_t(b_i) v_i^{\otimes t}`. The span is that of the leading
    left singular vectors of all three as matrices of d rows side by side. Order 3 is contracted
    with the span found before, in rounds: of its :math:`d^2` columns those off the span are noise.
    An odd activation needs 5 to 8 rounds in 50 features.
    """
    view, rows, d = FramedRows.of(problem), problem.rows, problem.n_features
    if how["k"] >= d or (how["subspace"] == "positive" and problem.has_order(2)):
        return view
    # An affine function is taken off the labels: what is left is orthogonal to 1 and x, so that
    # its products with points are its Hermite moments of orders 2 and 3.
    moments = mean_and_covariance(rows, labelled=True)
    slope = np.linalg.pinv(moments.points.covariance) @ moments.covariance[:d, d]
    middle = float(moments.mean[d] - moments.mean[:d] @ slope)

    def left(block: Block) -> Array:
        return block["y"] - middle - block["x"] @ move_like(slope, block["x"])

    columns = [slope[:, None]]
    if problem.has_order(2):
        columns.append(label_moments(rows, left, with_ones)[:-1, :-1] / math.sqrt(2))
    basis = _leading(how["k"], *columns)
    for _ in range(8 if problem.has_order(3) else 0):
        third = label_moments(rows, left, partial(squares_in, basis))[:-1] / math.sqrt(6)
        basis = _leading(how["k"], *columns, third)
    return _in_span(view, basis)


def _leading(p: int, *columns: Floats) -> Floats:
    """Return the leading left singular vectors of columns (d, n), as rows (p, d)."""
    joined = np.concatenate(columns, axis=1)
    return np.ascontiguousarray(np.linalg.svd(joined @ joined.T)[0].T[:p])


def label_moments(
    rows: Rows, residual: Callable[[Block], Array], right: Callable[[Array], Array]
) -> Floats:
    """Average residuals times (x, 1) (n, d + 1) and a function of x (n, m): (d + 1, m)."""

    def measure(block: Block) -> Sums:
        x, counts = block["x"], weights_of(block)
        weighted = with_ones(x) * (residual(block) * counts)[:, None]
        moments = namespace_of(x).matrix_transpose(weighted) @ right(x)
        return {"moments": as_double(moments), "total": namespace_of(x).sum(as_double(counts))}

    sums = rows.fold(measure, width=4 * rows.n_features, what="residuals")
    return np.asarray(to_numpy(sums["moments"]) / float(sums["total"]), dtype=np.float64)


def squares_in(basis: Floats, x: Array) -> Array:
    """Return products of two coordinates in a basis (p, d), (n, p²)."""
    inside = x @ move_like(basis.T, x)
    return outer_rows(inside, inside)


def _in_span(view: FramedRows, basis: Floats) -> FramedRows:
    """Return the rows in a basis (p, d)."""
    return replace(view, frame=replace(view.frame, basis=move_like(basis, view.frame.basis)))


def fit_polynomial(
    problem: ActivationSumProblem, k: int, degrees: Sequence[int], *, positive: bool
) -> FittedPolynomial:
    """Fit the hypothesis of k components; increasing degrees are compared by held-out error."""
    how = moment_options(problem, k, degrees[-1], positive=positive)
    view, first = find_span(problem, how)
    # subspaces of symmetric tensors within the span, from moments of all rows
    fold = estimate_moments(view, **how)
    # least squares of 300 features take a second for all folds and ridges
    most = min(problem.rows.total / ROWS_PER_UNKNOWN, 300)
    of_width = partial(Features, fold.frame, fold.chain, fold.orders)
    widths = map(of_width, (2 * k, 3 * k // 2, k))
    features = next(each for each in widths if len(each) <= most or each.width == k)
    return choose_coefficients(problem.rows, features, degrees, first or fold)


def find_span(
    problem: ActivationSumProblem, how: Mapping[str, Any]
) -> tuple[FramedRows, ImplicitMoments | None]:
    r"""Return the rows in the span of the directions.

    :math:`M_2` alone determines the span through labels of order two. A polynomial of low degree
    on that span then turns it, with all of its orders together: on a sample, and last on all rows.
    Also returned: the moments as they were estimated first.
    """
    p, d = min(how["k"], problem.n_features), problem.n_features
    if not 0 < p * (d - p) <= 3_000:  # the square matrix of so many unknowns takes 72 MB
        return first_view(problem, how), None
    sample = problem.of(sample_for(problem.rows, p * (d - p)))
    view, first = first_view(sample, how), None
    rough = {**how, "order": min(how["order"], 4), "wide": False}
    for rows in (sample.rows, sample.rows, problem.rows):
        fold = estimate_moments(view, **rough)
        features = Features(fold.frame, fold.chain, fold.orders, how["k"])
        products = mean_products(sample.rows, features.columns, 4 * len(features), "turns")
        polynomial = features.polynomial(solve_ridge(products, 1e-3), -math.inf, math.inf)
        view, first = _in_span(view, turn_span(rows, polynomial)), first or fold
    return _in_span(FramedRows.of(problem), to_numpy(view.frame.basis)), first


def turn_span(rows: Rows, polynomial: Polynomial, difference: float = 1e-3) -> Floats:
    r"""Turn the span of a hypothesis by one Gauss-Newton step; return its basis (p, d).

    For a hypothesis H on :math:`B x` the residual of a nearby basis :math:`B + D`, with D
    orthogonal to B, is to first order :math:`y - H(Bx) - \nabla H(Bx) \cdot D x`: a least-squares
    problem in the p (d − p) entries of D. The gradient is a difference quotient.
    """
    basis = np.asarray(to_numpy(polynomial.frame.basis), dtype=np.float64)
    p, d = basis.shape
    off = np.linalg.svd(basis)[2][p:]  # (d − p, d)

    def columns(block: Block) -> list[Array]:
        x = block["x"]
        values = polynomial(x)
        moves = [difference * move_like(b, x)[None, :] for b in basis]
        slopes = [(polynomial(x + move) - values) / difference for move in moves]
        gradient = namespace_of(x).stack(slopes, axis=1)
        return [outer_rows(gradient, x @ move_like(off.T, x)), (block["y"] - values)[:, None]]

    products = mean_products(rows, columns, 2 * p * (d - p), "turning the span")
    ridge = 1e-6 * max(float(np.trace(products[:-1, :-1])) / (p * (d - p)), TINY)
    turned = np.linalg.qr((basis + solve_ridge(products, ridge).reshape(p, d - p) @ off).T)[0].T
    return np.ascontiguousarray(turned)


def solve_ridge(products: Floats, ridge: float, used: Flags | None = None) -> Floats:
    """Return coefficients of columns from their mean products; the label is the last column.

    Zero for features that are not used.
    """
    coefficients = np.zeros(len(products) - 1)
    at = np.arange(len(coefficients)) if used is None else np.flatnonzero(used)
    gram = products[np.ix_(at, at)] + ridge * np.eye(len(at))
    coefficients[at] = np.linalg.solve(gram, products[at, -1])
    return coefficients


def choose_coefficients(
    rows: Rows, features: Features, degrees: Sequence[int], moments: ImplicitMoments
) -> FittedPolynomial:
    """Choose degree and ridge by cross-validation, and fit the coefficients, on a sample.

    Of 100 rows per feature: coefficients then add 1 % to what truncation leaves. Features have
    variance at most 1. Held-out predictions are clipped to the range of the labels, as those of
    the hypothesis are: a few large values of a polynomial would decide otherwise.
    """
    ridges, n_folds = (1e-8, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1), 5
    some = rows.sample(max(SAMPLE_ROWS, 100 * len(features)))
    labels = to_numpy(some.block["y"])
    low, high = float(labels.min()), float(labels.max())
    folds = [fold for fold in (some.split(i, n_folds) for i in range(n_folds)) if fold.kept]
    width, what = 4 * len(features), "products of features"
    shares = [fold.total / some.total for fold in folds]
    products = [
        share * mean_products(fold, features.columns, width, what)
        for share, fold in zip(shares, folds, strict=True)
    ]
    every, tried = np.sum(products, axis=0), list(product(degrees, ridges))
    orders = np.array([a + b for a, b, _, _ in features.pairs])

    def solve(products: Floats) -> Floats:
        """Return the coefficients of every degree and ridge, (features, tried)."""
        found = [solve_ridge(products, ridge, orders <= degree) for degree, ridge in tried]
        return np.stack(found, axis=1)

    def residuals(coefficients: Floats, block: Block) -> list[Array]:
        values = features.evaluate(block["x"]) @ move_like(coefficients, block["x"])
        return [namespace_of(values).clip(values, low, high) - block["y"][:, None]]

    errors = np.zeros(len(tried))
    for fold, own, share in zip(folds, products, shares, strict=True):
        others = (every - own) / (1 - share) if share < 1 else own
        left = partial(residuals, solve(others))
        errors += share * np.diag(mean_products(fold, left, width, "held-out errors"))
    best = int(np.argmin(errors))
    degree, ridge = tried[best]
    polynomial = features.polynomial(solve(every)[:, best], low, high)
    by_degree = np.min(np.reshape(errors, (len(degrees), -1)), axis=1).tolist()
    stats = {"error_by_degree": dict(zip(degrees, by_degree, strict=True)), "ridge": ridge}
    return FittedPolynomial(polynomial, degree, float(errors[best]), stats, moments)
