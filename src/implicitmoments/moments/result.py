"""Results of an estimation: compressed moments that answer queries, and their statistics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.arrays import Array, Floats, namespace_of
from implicitmoments.circuits import Circuit, hermite, vector
from implicitmoments.moments.circuit_rows import CircuitRows
from implicitmoments.moments.closed_form import Fold
from implicitmoments.moments.components import Components, find_components
from implicitmoments.moments.hermite_problem import FramedRows
from implicitmoments.moments.implicit import Auxiliary, InnerProduct, Query, Run, StepReport
from implicitmoments.moments.problem import MomentProblem
from implicitmoments.notes import InputError, Notes
from implicitmoments.projections import read_inputs
from implicitmoments.rows import DEFAULT_BUDGET, RandomState, as_seed, blocks
from implicitmoments.validation import check_enough_rows, check_whole


@dataclass(frozen=True, eq=False, repr=False)
class ImplicitMoments(ABC):
    """A moment tensor in compressed form.

    Attributes
    ----------
    problem : MomentProblem
    n_components, order : int
        As requested.
    stats : mapping
        Method, rows, seconds, orthonormality defect and other measurements.
    view : FramedRows or CircuitRows
        The rows, of a :class:`HermiteProblem` or of another problem.

    Examples
    --------
    >>> import implicitmoments as im
    >>> X, _ = im.datasets.make_spherical_mixture(20_000, 3, 6, radius=3.0, random_state=0)
    >>> problem = im.problems.SphericalMixtureProblem(X)
    >>> moments = im.implicit_moments(problem, n_components=3, order=4)
    >>> moments
    <moments of order 4 in 6 features, 3 of 3 directions kept, noise floor 0.46, 20,000 rows>
    >>> moments.hermite(X[:5]).shape, len(moments.spectra)
    ((5,), 2)
    >>> moments.components()
    <3 of 3 components resolved from orders 4 and 6>
    """

    problem: MomentProblem
    n_components: int
    order: int
    stats: Mapping[str, Any]
    view: FramedRows | CircuitRows

    def __repr__(self) -> str:
        d = self.problem.n_features
        shown = [f"<moments of order {self.order} in {d} feature{'s' * (d != 1)}"]
        if self.steps:
            last = self.steps[-1]
            shown.append(f"{last.rank} of {last.asked} directions kept")
            shown.append(f"noise floor {last.floor:.2g}")
        if "rows_used" in self.stats:
            shown.append(f"{self.stats['rows_used']:,} rows")
        return ", ".join(shown) + ">"

    @property
    @abstractmethod
    def steps(self) -> tuple[StepReport, ...]:
        """Measurements of each step of the recursion, of the first run or fold."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Largest number of values carried by a wire of a query."""

    @property
    @abstractmethod
    def _n_rows(self) -> int:
        """Rows per average: the paper's N."""

    @property
    @abstractmethod
    def _orders(self) -> list[int]:
        """Orders of the moments that were estimated."""

    @property
    def notes(self) -> Notes:
        """What may make the answers wrong."""
        of_steps = (note for step in self.steps for note in step.notes)
        return Notes([*self.problem.notes, *of_steps])

    @property
    def spectra(self) -> tuple[Floats, ...]:
        """Eigenvalues of every step, in descending order, by magnitude if singular."""
        return tuple(step.spectrum for step in self.steps)

    @property
    def noise_floor(self) -> Floats:
        """Noise floor of every step."""
        return np.array([step.floor for step in self.steps])

    def inner(
        self,
        circuit: Circuit,
        inputs: Mapping[str, Array],
        *,
        auxiliary: Auxiliary = (),
        n_draws: int | None = None,
        random_state: RandomState = 0,
    ) -> Any:
        r"""Estimate :math:`\langle T(\mathcal{X}), M_n \rangle` for every row of the inputs.

        Parameters
        ----------
        circuit : Circuit of order n
            The paper's :math:`\mathcal{F}_n`.
        inputs : mapping of str to array
            Its given inputs, one row per query.
        auxiliary : tuple of str, or mapping of str to callable
            Its other inputs, to be drawn and averaged over: names stand for vectors from
            N(0, I), a callable ``f(rng)`` draws one row per query.
        n_draws : int, optional
            Number of draws to average over, if there are auxiliary inputs. By default Gaussian
            ones are integrated exactly by a rule with nodes, as long as these are no more than
            the N draws of the box or 10,000; otherwise N draws are taken.
        random_state : int, generator or None, default 0
            Seed of the draws.

        Returns
        -------
        array of shape (n_queries,)
            In the namespace of the inputs.
        """
        query = Query.build(
            circuit,
            inputs,
            auxiliary,
            n_draws,
            as_seed(random_state),
            self.problem.n_features,
            self._n_rows,
        )
        self._check_order(circuit.order)
        return _median([query.answer(inner, self.width) for inner in self._inner_products()])

    @abstractmethod
    def hermite(self, points: Array, order: int | None = None) -> Any:
        r"""Estimate :math:`\langle H_n(x), M_n \rangle` for every row x of ``points``.

        Parameters
        ----------
        points : array of shape (n_queries, n_features)
            The points x.
        order : int, optional
            The order n; by default the order requested in :func:`implicit_moments`.

        Returns
        -------
        array of shape (n_queries,)
            In the namespace of the points.
        """

    def components(
        self,
        n_components: int | None = None,
        *,
        r: int | None = None,
        random_state: RandomState = 0,
    ) -> Components:
        r"""Estimate the hidden vectors and their weights from the moments.

        Beyond the paper. It makes passes of its own over the rows, for moments of order 2 and of
        orders 2r and 3r, and does not use the moments estimated before: a low ``order`` in
        :func:`implicit_moments` is sufficient.

        Parameters
        ----------
        n_components : int, optional
            By default as in :func:`implicit_moments`.
        r : {1, 2, 3}, optional
            By default chosen from the ranks and spectra.
        random_state : int, generator or None, default 0
            Seed of the random starts of the decomposition.

        Returns
        -------
        Components
            With NaN, and a note, for components that are not resolved.
        """
        k = self.n_components if n_components is None else n_components
        check_whole("n_components", k, 1)
        if r is not None:
            check_whole("r", r, 1, 3)
        check_enough_rows(self.view.n_rows, k, max(k, 2))
        return find_components(self.view, k, r, as_seed(random_state))

    @abstractmethod
    def _inner_products(self) -> list[InnerProduct]:
        """Functions of a circuit and its inputs, whose median is the answer."""

    def _check_order(self, order: int) -> None:
        """Raise unless the moment of this order was estimated."""
        if order not in self._orders:
            code, advice = "order_not_estimated", "call implicit_moments(..., `order={asked}`)"
            if isinstance(self, ClosedFormMoments) and order <= self.order:
                code, advice = (
                    "order_without_data",
                    "the data carry no information about this order",
                )
            known = "orders {orders} were" if len(self._orders) > 1 else "order {orders} was"
            template = f"order {{asked}} was requested, but {known} estimated; {advice}"
            raise InputError(code, template, orders=self._orders, asked=order)


@dataclass(frozen=True, eq=False, repr=False)
class PaperMoments(ImplicitMoments):
    """The moment of order m by the paper's algorithm.

    Attributes
    ----------
    runs : tuple of Run
        One per repeat; answers are medians over them.

    See Also
    --------
    ClosedFormMoments : The result of the closed form.

    Examples
    --------
    >>> import implicitmoments as im
    >>> X, _ = im.datasets.make_spherical_mixture(4_000, 2, 4, random_state=0)
    >>> problem = im.problems.SphericalMixtureProblem(X)
    >>> moments = im.implicit_moments(
    ...     problem, n_components=2, order=2, method="paper", random_state=0
    ... )
    >>> moments.runs[0].projection
    <recursive projection of order 2 in 4 features: 1 → 2 → 2>
    """

    runs: tuple[Run, ...]

    @property
    def steps(self) -> tuple[StepReport, ...]:
        """Measurements of each step of the first run."""
        return self.runs[0].steps

    @property
    def width(self) -> int:
        """Largest number of values carried between two steps."""
        return self.runs[0].projection.width

    @property
    def _n_rows(self) -> int:
        return int(self.stats["rows_per_step"])

    @property
    def _orders(self) -> list[int]:
        return [self.order]

    def hermite(
        self,
        points: Array,
        order: int | None = None,
        *,
        n_draws: int | None = None,
        random_state: RandomState = 0,
    ) -> Any:
        r"""Estimate :math:`\langle H_m(x), M_m \rangle` for every row x of ``points``.

        Step 7 of the box, without its sampling error if the exact rule is not too large.

        Parameters
        ----------
        points : array of shape (n_queries, n_features)
            The points x.
        order : int, optional
            The estimated order m; the paper's algorithm estimates no other.
        n_draws : int, optional
            Number of auxiliary draws per point; by default as for :meth:`inner`: an exact mean
            over them, or the N draws of the box.
        random_state : int, generator or None, default 0
            Seed of the draws.

        Returns
        -------
        array of shape (n_queries,)
            In the namespace of the points.
        """
        self._check_order(self.order if order is None else order)
        query = hermite(vector("x"), vector("y"), self.order)
        return self.inner(
            query,
            {"x": points},
            auxiliary=("y",) if "y" in query.inputs else (),
            n_draws=n_draws,
            random_state=random_state,
        )

    def _inner_products(self) -> list[InnerProduct]:
        return [run.inner for run in self.runs]


@dataclass(frozen=True, eq=False, repr=False)
class ClosedFormMoments(ImplicitMoments):
    """The moments of all orders up to m by the closed form.

    Attributes
    ----------
    folds : tuple of Fold
        One, or two with cross-fitting; answers are means over them.

    See Also
    --------
    PaperMoments : The result of the paper's algorithm.
    Components : Weights and vectors decoded from moments.

    Examples
    --------
    >>> import implicitmoments as im
    >>> X, _ = im.datasets.make_spherical_mixture(5_000, 2, 4, random_state=0)
    >>> problem = im.problems.SphericalMixtureProblem(X)
    >>> moments = im.implicit_moments(problem, n_components=2, order=3)
    >>> [moments.hermite(X[:1], order).shape for order in (1, 2, 3)]
    [(1,), (1,), (1,)]
    """

    folds: tuple[Fold, ...]

    @property
    def steps(self) -> tuple[StepReport, ...]:
        """Measurements of each step of the first fold."""
        return self.folds[0].steps

    @property
    def width(self) -> int:
        """Largest dimension of an image along the chain."""
        chain = self.folds[0].moments.chain
        return max(chain.dim(n) for n in range(chain.order + 1))

    @property
    def _n_rows(self) -> int:
        return int(self.stats["rows_used"])

    @property
    def _orders(self) -> list[int]:
        return sorted(a + b for a, b in self.folds[0].moments.forms)

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
        order = self.order if order is None else order
        self._check_order(order)
        x = read_inputs({"points": 1}, {"points": points}, self.problem.n_features).arrays[
            "points"
        ]
        moments = [fold.moments for fold in self.folds]
        size = DEFAULT_BUDGET.rows_per_block(self.width * moments[0].chain.p, x)
        parts = []
        for rows in blocks(range(int(x.shape[0])), size):
            block = x[rows.start : rows.stop, :]
            answers = (m.hermite(m.frame.points(block), [order])[order] for m in moments)
            parts.append(sum(answers) / len(moments))
        return namespace_of(x).concat(parts)

    def _inner_products(self) -> list[InnerProduct]:
        def mean(circuit: Circuit, inputs: Mapping[str, Array]) -> Any:
            answers = (fold.moments.inner(circuit, inputs) for fold in self.folds)
            return sum(answers) / len(self.folds)

        return [mean]


def _median(answers: list[Array]) -> Array:
    """Return the entrywise median of arrays of one shape."""
    xp = namespace_of(*answers)
    ordered = xp.sort(xp.stack(answers), axis=0)
    middle = len(answers) // 2
    if len(answers) % 2:
        return ordered[middle, ...]
    return (ordered[middle - 1, ...] + ordered[middle, ...]) / 2
