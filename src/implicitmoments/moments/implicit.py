"""Moments of all orders in compressed form, by one recursion.

A step goes from a subspace :math:`U_{n-1}` of symmetric tensors to the candidates over it, to the
average of :math:`M_{2n}` on the candidates, to its top k directions, :math:`U_n`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from implicitmoments.arrays import (
    Array,
    Floats,
    as_double,
    as_real_array,
    check_finite,
    dot_rows,
    eye_like,
    move_like,
    namespace_of,
    to_numpy,
)
from implicitmoments.moments.chain import (
    OVERSAMPLING,
    Frame,
    SplitMean,
    StepReport,
    SymmetricChain,
    SymmetricMatrices,
    contracted_forms,
    leading_subspace,
    open_window,
    split_order,
)
from implicitmoments.moments.problems import HermiteProblem
from implicitmoments.notes import InputError, InputTypeError, Note, Notes, warn_of
from implicitmoments.paper.circuits import Circuit
from implicitmoments.paper.projections import Projection, evaluate, tensor
from implicitmoments.rows import (
    DEFAULT_BUDGET,
    Block,
    Sums,
    blocks,
    shares_of,
    take_rows,
    weights_of,
)
from implicitmoments.validation import (
    RandomState,
    as_seed,
    check_enough_rows,
    check_option,
    check_whole,
)

if TYPE_CHECKING:
    from implicitmoments.moments.components import Components

Weights: TypeAlias = Mapping[int, Array | None]
Split: TypeAlias = tuple[int, int]  # (a, b): the moment of order a + b as a matrix on U_a × U_b


@dataclass(frozen=True, eq=False)
class FramedRows:
    """Rows of a problem in the coordinates of a frame, and averages over them."""

    problem: HermiteProblem
    frame: Frame
    # lower moments, for problems that can remove them from the weights of higher orders
    lower: ImplicitMoments | None = None

    @classmethod
    def of(cls, problem: HermiteProblem) -> FramedRows:
        """Return the rows of a problem in their own coordinates."""
        eye = eye_like(problem.n_features, problem.rows.like)
        return cls(problem, Frame(eye, namespace_of(eye).zeros_like(eye[0, :])))

    def average(
        self, orders: Sequence[int], measure: Callable[[Array, Weights], Sums], width: int
    ) -> SplitMean:
        """Average ``measure`` over the rows: named means of each half of them.

        ``measure(points, weights)`` returns named sums over rows, by weights of the given orders.
        ``width`` numbers are computed per row.
        """
        self.problem.prepare(orders)
        halves, what = partial(self._sum_halves, orders, measure), f"moments of orders {orders}"
        sums = self.problem.rows.fold(halves, width=width, what=what, keyed=True)
        one, two = (float(sums[f"{half}:n"]) for half in "01")
        if min(one, two) == 0:
            # one row, or all rows equal: the noise is taken as large as the mean
            one = two = (one + two) / 2
        first = {name[2:]: total / one for name, total in sums.items() if name[0] == "0"}
        second = {name[2:]: total / two for name, total in sums.items() if name[0] == "1"}
        return SplitMean((first, second), (one, two))

    def _sum_halves(
        self, orders: Sequence[int], measure: Callable[[Array, Weights], Sums], block: Block
    ) -> Sums:
        """Sum ``measure`` over each half of a block, named ``half:name``.

        Halves are determined by a hash of the row, so they depend neither on the block size nor on
        the order of the rows, and equal rows are always in the same half.
        """
        shares, sums = shares_of(block, 2), dict[str, Array]()
        for half in (0, 1):
            part = take_rows(block, shares == half)
            measured = measure(self.frame.points(part["x"]), self._weights(orders, part))
            measured["n"] = namespace_of(shares).sum(as_double(weights_of(part)))
            sums |= {f"{half}:{name}": value for name, value in measured.items()}
        return sums

    def _weights(self, orders: Sequence[int], block: Block) -> Weights:
        """Return the checked weights of a block by order, times the multiplicities."""
        counts, n = block.get("counts"), int(block["x"].shape[0])
        known = {} if self.lower is None else self.lower._answers(block["x"])
        found: dict[int, Array | None] = {}
        for order in orders:
            weights = self.problem.weigh(order, block)
            if weights is None:
                found[order] = counts
                continue
            if (shape := tuple(weights.shape)) != (n,):
                template = "the weight of order {order} has shape {shape}, expected ({n},)"
                raise InputError("wrong_shape", template, order=order, shape=shape, n=n)
            check_finite(weights, f"the weight of order {order}")
            lower = {m: answer for m, answer in known.items() if m < order}
            weights = self.problem.reduce(order, weights, lower)
            found[order] = weights if counts is None else weights * counts
        return found

    def forms(self, chain: SymmetricChain, splits: Sequence[Split]) -> dict[Split, SplitMean]:
        """Average M_{a+b} on U_a × U_b for pairs (a, b) with a ≤ b, in one pass."""

        def measure(points: Array, weights: Weights) -> Sums:
            xp, images, sums = namespace_of(points), chain.images(points), dict[str, Array]()
            for a, b in splits:
                c = weights[a + b]
                for n in range(a + 1):
                    left = images[a - n] if c is None else images[a - n] * c[:, None]
                    sums[f"{a},{b},{n}"] = xp.matrix_transpose(left) @ images[b - n]
            return sums

        def assemble(a: int, b: int, means: Sums) -> Array:
            return chain.assemble([means[f"{a},{b},{n}"] for n in range(a + 1)], a, b)

        orders = sorted({a + b for a, b in splits})
        means = self.average(orders, measure, chain.width)
        return {split: means.map(partial(assemble, *split)) for split in splits}

    def positive_moment(self, chain: SymmetricChain, *, odd: bool = False) -> SplitMean:
        r"""Average :math:`M_{2n}` on the last subspace of a chain, or :math:`M_{2n-1}` if ``odd``.

        As a matrix on :math:`U_{n-1} \times U_n`, :math:`M_{2n-1} = F = U s V^\top`, its right
        singular vectors span :math:`U_n`: the eigenvectors of :math:`V U^\top F`,
        a linear map of F.
        """
        if isinstance(chain, SymmetricMatrices) and not odd:
            means = self.average([4], lambda x, c: chain.quadruples(x, c[4]), chain.dim(2))
            return means.map(chain.fourth)
        split = chain.order - odd, chain.order
        found = self.forms(chain, [split])[split]
        if not odd:
            return found
        xp = namespace_of(found.value)
        left, _, right = xp.linalg.svd(found.value, full_matrices=False)
        return found.map(lambda form: xp.matrix_transpose(left @ right) @ form)


def check_orders(problem: HermiteProblem, orders: list[int]) -> None:
    """Raise an error unless the rows carry information about moments of all given orders."""
    missing = [order for order in orders if not problem.has_order(order)]
    if missing:
        template = "the data say nothing about the moments of orders {missing}; use others "
        template += "(components need orders 2, 4 and 6, and directions of d features order 2)"
        raise InputError("order_without_data", template, missing=missing)


@dataclass(frozen=True, eq=False, repr=False)
class ImplicitMoments:
    r"""Moment tensors of several orders in compressed form.

    Attributes
    ----------
    problem : HermiteProblem
    n_components : int
    frame : Frame
        Coordinates on the span of the hidden vectors.
    chain : SymmetricChain
        Subspaces of their powers; the first is all of the frame.
    forms : mapping of (a, b) to array
        Moments as matrices on :math:`U_a \times U_b`, in the units of the frame.
    steps : tuple of StepReport
        Measurements of each step of the recursion.

    See Also
    --------
    Components : Weights and vectors decoded from moments.

    Examples
    --------
    >>> import implicitmoments as im
    >>> X, _ = im.datasets.make_spherical_mixture(20_000, 3, 6, radius=3.0, random_state=0)
    >>> problem = im.moments.SphericalMixtureProblem(X)
    >>> moments = im.implicit_moments(problem, n_components=3, order=4)
    >>> moments
    <moments up to order 4 in 6 features, 3 of 3 directions kept, noise floor 0.46>
    >>> moments.hermite(X[:5]).shape, len(moments.steps)
    ((5,), 2)
    >>> moments.components()
    <3 of 3 components resolved>
    """

    problem: HermiteProblem
    n_components: int
    frame: Frame
    chain: SymmetricChain
    forms: Mapping[Split, Array]
    steps: tuple[StepReport, ...] = ()

    def __repr__(self) -> str:
        d, last = self.problem.n_features, self.steps[-1]
        return (
            f"<moments up to order {self.orders[-1]} in {d} feature{'s' * (d != 1)}, "
            f"{last.rank} of {self.n_components} directions kept, noise floor {last.floor:.2g}>"
        )

    @property
    def orders(self) -> list[int]:
        """The orders of the moments."""
        return sorted(a + b for a, b in self.forms)

    @property
    def notes(self) -> Notes:
        """What may make the answers wrong."""
        signed = (step for step in self.steps if step.negative)
        values = ({"order": s.order, "below": s.negative, "top": max(s.spectrum)} for s in signed)
        return Notes(Note("negative_eigenvalue", each) for each in values)

    @cached_property
    def _contracted(self) -> dict[int, list[Array]]:
        """For each order, its form after 0, 1, … contractions with the noise, times factors."""
        return {a + b: contracted_forms(self.chain, a, b, f) for (a, b), f in self.forms.items()}

    def _answers(self, x: Array, orders: Iterable[int] | None = None) -> dict[int, Array]:
        """Return the answers at points (n, d), by order: all orders by default."""
        points = self.frame.points(x)
        images, found = self.chain.like(points).images(points), {}
        for n in self.orders if orders is None else orders:
            (a, b), total = split_order(n), 0.0 * points[:, 0]
            for contracted, form in enumerate(self._contracted[n]):
                left, right = images[a - contracted], images[b - contracted]
                total = total + dot_rows(left @ move_like(form, left), right)
            # the frame divides both the point and the moment by scale, n times each
            found[n] = total * self.frame.scale ** (2 * n) / math.sqrt(math.factorial(n))
        return found

    def hermite(self, points: Array, order: int | None = None) -> Any:
        r"""Estimate :math:`\langle H_n(x), M_n \rangle` for every row x of ``points``.

        Deterministic, in :math:`O(n k^2 p)` operations per row: the images of the row along the
        chain, and a bilinear form in them for each number of contractions.

        Parameters
        ----------
        points : array of shape (n_queries, n_features)
            The points x.
        order : int, optional
            Any order up to the one requested, which is the default.

        Returns
        -------
        array of shape (n_queries,)
            In the namespace of the points.
        """
        n, x = self._check_order(order), as_real_array(points, "points", 2)
        given, d = int(x.shape[1]), self.problem.n_features
        if given != d:
            template = "points have {n_features} features, the problem has {expected}"
            raise InputError("wrong_n_features", template, n_features=given, expected=d)
        check_finite(x, "points")
        size = DEFAULT_BUDGET.rows_per_block(self.chain.width, x)
        pieces = blocks(range(int(x.shape[0])), size)
        parts = [self._answers(x[rows.start : rows.stop, :], [n])[n] for rows in pieces]
        return namespace_of(x).concat(parts)

    def inner(self, circuit: Circuit, inputs: Mapping[str, Floats]) -> Floats:
        r"""Estimate :math:`\langle T(\mathcal{X}), M_n \rangle` for every row of the inputs.

        Parameters
        ----------
        circuit : Circuit of order n
            The paper's :math:`\mathcal{F}_n`, built from :mod:`implicitmoments.paper`.
        inputs : mapping of str to array
            Vectors (..., n_features) and scalars (...), NumPy arrays; leading axes are broadcast.
            For a mean over auxiliary inputs, give draws of them along an axis of their own, and
            average the answers.

        Returns
        -------
        array of shape (...)
        """
        a, b = split_order(self._check_order(circuit.order))
        basis, steps = to_numpy(self.frame.basis), map(to_numpy, self.chain.steps)
        # the steps act on coordinates in the frame: each slot is mapped to the features
        whole = Projection(self.problem.n_features)
        for step in steps:
            slots = step.reshape(len(step), -1, len(basis)) @ basis
            whole = whole.extend(slots.reshape(len(step), -1))
        images = evaluate(circuit, inputs, tensor(whole.first(a), whole.first(b)))
        form = to_numpy(self.forms[a, b]) * self.frame.scale**circuit.order
        answers: Floats = images @ form.ravel()
        return answers

    def components(self, *, random_state: RandomState = 0) -> Components:
        r"""Estimate the hidden vectors and their weights.

        Beyond the paper. It makes passes of its own over the rows, for moments of orders 2, 4 and
        6, and does not use the moments estimated before: a low ``order`` in
        :func:`implicit_moments` is sufficient.

        Parameters
        ----------
        random_state : int, generator or None, default 0
            Seed of the random starts of the decomposition.

        Returns
        -------
        Components
            With NaN, and a note, for components that are not resolved.
        """
        # imports this module
        from implicitmoments.moments.components import find_components  # noqa: PLC0415

        return find_components(self.problem, self.n_components, as_seed(random_state))

    def _check_order(self, order: int | None) -> int:
        """Return an order, or the one requested; raise unless it was estimated."""
        order = self.orders[-1] if order is None else order
        if order not in self.orders:
            template = "the moment of order {order} was not estimated, those of orders {known} "
            template += "were; call implicit_moments(..., `order={order}`), if the data have it"
            raise InputError("order_not_estimated", template, order=order, known=self.orders)
        return order


def implicit_moments(
    problem: HermiteProblem,
    *,
    n_components: int,
    order: int,
    subspace: str = "positive",
    drop_noise: bool = True,
) -> ImplicitMoments:
    r"""Estimate the moment tensors :math:`M_n = \sum_i w_i v_i^{\otimes n}` in compressed form.

    All orders up to m are estimated without auxiliary noise, from moments up to order m, or m + 1
    for odd m. For any other circuits, and for the algorithm as printed, use
    :func:`implicitmoments.paper.implicit_moment_estimation`.

    Parameters
    ----------
    problem : HermiteProblem
        Points and weights whose Hermite moments are :math:`M_n`.
    n_components : int
        The number k of hidden vectors.
    order : int
        The highest order m.
    subspace : {"positive", "singular"}, default "positive"
        The subspace kept of each moment of even order. ``"positive"``: its largest eigenvalues;
        with weights :math:`w_i \ge 0` a negative one is noise. ``"singular"``: its largest
        singular values, as in the paper's text; weights may have both signs.
    drop_noise : bool, default True
        Exclude directions below the noise floor.

    Returns
    -------
    ImplicitMoments

    See Also
    --------
    implicitmoments.moments.HermiteProblem : A problem defined by one weight per row.
    implicitmoments.moments.ImplicitMoments : The result.

    Examples
    --------
    >>> from implicitmoments.datasets import make_spherical_mixture
    >>> from implicitmoments.moments import SphericalMixtureProblem, implicit_moments
    >>> X, truth = make_spherical_mixture(40_000, 3, 5, random_state=0)
    >>> m = implicit_moments(SphericalMixtureProblem(X), n_components=3, order=4)
    >>> m.hermite(X[:4]).shape
    (4,)
    """
    template = "problem must be a HermiteProblem such as SphericalMixtureProblem(X), got {kind}; "
    template += "problems of circuits have im.paper.implicit_moment_estimation"
    if not isinstance(problem, HermiteProblem):
        raise InputTypeError("not_a_problem", template, kind=type(problem).__name__)
    k = check_whole("n_components", n_components, 1)
    check_whole("order", order, 1, 80)  # the factorial of twice that is still a finite double
    check_option("subspace", subspace, ("positive", "singular"))
    check_orders(problem, [order])
    check_enough_rows(problem.rows.kept, k, max(k, 2))
    view = FramedRows.of(problem)
    moments = estimate_moments(view, k, order, subspace=subspace, drop_noise=drop_noise)
    warn_of(moments.notes)
    return moments


def estimate_moments(
    view: FramedRows,
    k: int,
    order: int,
    *,
    subspace: str = "positive",
    wide: bool = False,
    drop_noise: bool = True,
) -> ImplicitMoments:
    """Estimate the subspaces U_1, …, U_{m/2} and the moments of orders 0, …, m on them.

    ``wide`` keeps as many directions at the last step as at those before it, and some that are
    less symmetric, for coefficients that are fitted by least squares.
    """
    problem, levels = view.problem, max(1, split_order(order)[1])
    chain = SymmetricChain((), view.frame.noise)
    splits = [split_order(n) for n in range(order + 1) if problem.has_order(n)]
    if problem.reduces:  # most of a label is its mean and slope
        first = [split for split in splits if sum(split) < 2]
        whole = SymmetricChain.whole_of(view.frame)
        view = replace(view, lower=_moments_on(view, k, whole, first, [1, view.frame.p]))
    reports, ranks = list[StepReport](), [1]
    for n in range(1, levels + 1):
        # The candidates for U_n: up to rounding symmetric, or more of them.
        least, near = (OVERSAMPLING * k, 0.5) if wide else (k, 1 - 1e-6)
        window, symmetry = open_window(chain, least, near)
        # M_2n on them; an odd activation has M_{2n−1} instead, which at order 1 is one direction.
        odd = not problem.has_order(2 * n) and problem.has_order(2 * n - 1)
        odd = odd and (n > 1 or k >= window.dim(n))
        check_orders(problem, [2 * n - odd])
        moment = view.positive_moment(window, odd=odd)
        # Its top directions. Those above the noise enter the moments; the next step uses more.
        vectors, top = leading_subspace(moment, 2 * n - odd, k, subspace, symmetry)
        ranks.append(top.rank if drop_noise and not (odd and n == 1) else min(k, window.dim(n)))
        narrow = n == 1 or (n == levels and not wide)
        width = min(k if narrow else OVERSAMPLING * k, window.dim(n))
        basis = namespace_of(vectors).matrix_transpose(vectors[:, :width])
        reports.append(replace(top, rank=ranks[n]).scaled(view.frame.scale**top.order))
        if n == 1:  # every later step works in R^p: Hermite tensors commute with projection
            view, chain = _in_span(view, basis, moment.value, order)
        else:
            chain = window.keep(basis)
        if problem.reduces and n < levels:  # what is known leaves the weights of higher orders
            known = [split for split in splits if split[1] <= n]
            view = replace(view, lower=_moments_on(view, k, chain, known, ranks))
    return replace(_moments_on(view, k, chain, splits, ranks), steps=tuple(reports))


def _moments_on(
    rows: FramedRows, k: int, chain: SymmetricChain, splits: list[Split], ranks: list[int]
) -> ImplicitMoments:
    """Average moments on subspaces, and set entries to 0 that are below the noise."""
    forms = dict[Split, Array]()
    for (a, b), mean in rows.forms(chain, splits).items():
        forms[a, b] = namespace_of(mean.value).zeros_like(mean.value)
        forms[a, b][: ranks[a], : ranks[b]] = mean.value[: ranks[a], : ranks[b]]
    return ImplicitMoments(rows.problem, k, rows.frame, chain, forms)


def _in_span(
    view: FramedRows, basis: Array, moment: Array, order: int
) -> tuple[FramedRows, SymmetricChain]:
    """Return rows in the span of a basis, in units of the length of the hidden vectors."""
    xp = namespace_of(basis)
    along = xp.linalg.diagonal(basis @ moment @ xp.matrix_transpose(basis))
    # weights of both signs may cancel
    scale = math.sqrt(float(xp.sum(xp.abs(along)))) or 1.0
    if abs(math.log10(scale)) * 2 * order > 300:  # powers of ten in a double
        template = "the hidden vectors have length {scale:.2g}, beyond numbers at order {order}; "
        template += "rescale the data to lengths near 1"
        raise InputError("lengths_out_of_range", template, scale=scale, order=order)
    reduced = replace(view.frame, basis=basis @ view.frame.basis, scale=scale)
    return replace(view, frame=reduced), SymmetricChain.whole_of(reduced)
