"""Moments in compressed form, and their answers to queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    as_real_array,
    check_finite,
    to_numpy,
)
from implicitmoments.moments.chain import split_order
from implicitmoments.moments.components import Components, find_components
from implicitmoments.moments.implicit import (
    CompressedMoments,
    FramedRows,
    StepReport,
    check_orders,
    estimate_moments,
)
from implicitmoments.moments.problems import HermiteProblem
from implicitmoments.notes import InputError, InputTypeError, Note, Notes, warn_of
from implicitmoments.paper.circuits import Circuit
from implicitmoments.paper.evaluate import evaluate
from implicitmoments.paper.projections import Projection, tensor
from implicitmoments.rows import RandomState, as_seed
from implicitmoments.validation import check_enough_rows, check_option, check_whole

HIGHEST_ORDER = 80  # the factorial of twice that is still a finite double


@dataclass(frozen=True, eq=False, repr=False)
class ImplicitMoments:
    """Moment tensors in compressed form.

    Attributes
    ----------
    problem : HermiteProblem
    n_components, order : int
        As requested.
    compressed : CompressedMoments
        Subspaces, and the moments on them.

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
    <moments of order 4 in 6 features, 3 of 3 directions kept, noise floor 0.46, 20,000 rows>
    >>> moments.hermite(X[:5]).shape, len(moments.spectra)
    ((5,), 2)
    >>> moments.components()
    <3 of 3 components resolved>
    """

    problem: HermiteProblem
    n_components: int
    order: int
    compressed: CompressedMoments

    def __repr__(self) -> str:
        d, last = self.problem.n_features, self.steps[-1]
        return (
            f"<moments of order {self.order} in {d} feature{'s' * (d != 1)}, "
            f"{last.rank} of {last.asked} directions kept, noise floor {last.floor:.2g}, "
            f"{self.problem.rows.kept:,} rows>"
        )

    @property
    def steps(self) -> tuple[StepReport, ...]:
        """Measurements of each step of the recursion."""
        return self.compressed.steps

    @property
    def notes(self) -> Notes:
        """What may make the answers wrong."""
        found = [step for step in self.steps if step.negative]
        return Notes(
            Note(
                "negative_eigenvalue",
                {"order": s.order, "below": s.negative, "top": float(s.spectrum[0])},
            )
            for s in found
        )

    @property
    def spectra(self) -> tuple[Floats, ...]:
        """Eigenvalues of every step, in descending order, by magnitude if singular."""
        return tuple(step.spectrum for step in self.steps)

    @property
    def noise_floor(self) -> Floats:
        """Noise floor of every step."""
        return np.array([step.floor for step in self.steps])

    def hermite(self, points: Array, order: int | None = None) -> Any:
        r"""Estimate :math:`\langle H_n(x), M_n \rangle` for every row x of ``points``.

        Deterministic, in :math:`O(n k^2 p)` operations per row.

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
        d = self.problem.n_features
        if x.shape[1] != d:
            template = "points have {n_features} features, the problem has {expected}"
            raise InputError("n_features_differ", template, n_features=int(x.shape[1]), expected=d)
        check_finite(x, "points")
        return self.compressed.hermite(x, n)

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
        frame, chain = self.compressed.frame, self.compressed.chain
        basis, steps = to_numpy(frame.basis), [to_numpy(step) for step in chain.steps]
        # the steps act on coordinates in the frame: each slot is mapped to the features
        whole = Projection(self.problem.n_features)
        for step in steps:
            slots = step.reshape(len(step), -1, len(basis)) @ basis
            whole = whole.extend(slots.reshape(len(step), -1))
        images = evaluate(circuit, inputs, tensor(whole.first(a), whole.first(b)))
        form = to_numpy(self.compressed.forms[a, b]) * frame.scale**circuit.order
        answers: Floats = images @ form.ravel()
        return answers

    def components(
        self, n_components: int | None = None, *, random_state: RandomState = 0
    ) -> Components:
        r"""Estimate the hidden vectors and their weights.

        Beyond the paper. It makes passes of its own over the rows, for moments of orders 2, 4 and
        6, and does not use the moments estimated before: a low ``order`` in
        :func:`implicit_moments` is sufficient.

        Parameters
        ----------
        n_components : int, optional
            By default as in :func:`implicit_moments`.
        random_state : int, generator or None, default 0
            Seed of the random starts of the decomposition.

        Returns
        -------
        Components
            With NaN, and a note, for components that are not resolved.
        """
        k = self.n_components if n_components is None else n_components
        check_whole("n_components", k, 1)
        check_enough_rows(self.problem.rows.kept, k, max(k, 2))
        return find_components(self.problem, k, as_seed(random_state))

    def _check_order(self, order: int | None) -> int:
        """Return an order, or the one requested; raise unless it was estimated."""
        order, known = self.order if order is None else order, self.compressed.orders
        if order not in known:
            raise InputError(
                "order_not_estimated",
                "the moment of order {order} was not estimated, those of orders {known} were; "
                "call implicit_moments(..., `order={order}`), if the data have that order",
                order=order,
                known=known,
            )
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
    if not isinstance(problem, HermiteProblem):
        raise InputTypeError(
            "not_a_problem",
            "problem must be a HermiteProblem such as SphericalMixtureProblem(X), got {kind}; "
            "problems of circuits have im.paper.implicit_moment_estimation",
            kind=type(problem).__name__,
        )
    k = check_whole("n_components", n_components, 1)
    check_whole("order", order, 1, HIGHEST_ORDER)
    check_option("subspace", subspace, ("positive", "singular"))
    check_orders(problem, [order])
    check_enough_rows(problem.rows.kept, k, max(k, 2))
    view = FramedRows.of(problem)
    found = estimate_moments(view, k, order, subspace=subspace, drop_noise=drop_noise)
    moments = ImplicitMoments(problem, k, order, found)
    warn_of(moments.notes)
    return moments
