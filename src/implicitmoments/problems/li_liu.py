r"""Li and Liu's estimator of the Hermite tensor, an alternative to :math:`H_t(x, y)`.

Li and Liu (2021) write the Hermite tensor (Definition 2.2) as a sum over partitions of the
slots into singletons, which hold x, and pairs, which hold :math:`-I`; they replace the j-th pair
by :math:`z_j \otimes z_j` with a fresh :math:`z_j \sim N(0, I)`. The paper uses one y for all
pairs instead (section 4.1). Expanded, both have exponentially many terms; as circuits this one
has :math:`O(t\, 2^{t/2})` operations, the paper's :math:`O(t)`.
"""

from __future__ import annotations

import math

from implicitmoments.arrays import Array, move_like
from implicitmoments.circuits import Circuit, unit, vector
from implicitmoments.moments import MomentProblem
from implicitmoments.rows import Block, RowDraws, Rows, Table, as_table
from implicitmoments.validation import check_whole


def li_liu_names(order: int) -> list[str]:
    """Return the names of the auxiliary vectors, one per possible pair."""
    return [f"z{j}" for j in range(1, order // 2 + 1)]


def li_liu_hermite(x: Circuit, order: int) -> Circuit:
    r"""Return a circuit whose mean over :math:`z_1, z_2, \ldots \sim N(0, I)` is :math:`H_t(x)`.

    Pairs are numbered in the order of their first slots. After each slot, the state is the number
    of pairs opened and the set of those still open, with one wire per state::

        state ──append x──▶ state
              ──append z_j, j next──▶ pair j opened
              ──append −z_i, i open──▶ pair i closed

    Parameters
    ----------
    x : Circuit of order 1
        The point.
    order : int
        The order t, at least 1.

    Returns
    -------
    Circuit of order ``order``
        Reads ``x`` and the vectors named by :func:`li_liu_names`.

    Examples
    --------
    >>> from implicitmoments.circuits import vector
    >>> from implicitmoments.problems import li_liu_hermite
    >>> li_liu_hermite(vector("x"), 4)
    <circuit of order 4, size 31, inputs: x, z1, z2>
    """
    check_whole("order", order, 1)
    z = [vector(name) for name in li_liu_names(order)]
    minus_z = [-v for v in z]
    # state: (pairs opened so far, pairs still open)
    states: dict[tuple[int, frozenset[int]], Circuit] = {(0, frozenset()): unit()}
    for slot in range(order):
        after: dict[tuple[int, frozenset[int]], Circuit] = {}
        for (opened, pending), wire in states.items():
            moves = [((opened, pending), x)]
            if opened < len(z):
                moves.append(((opened + 1, pending | {opened}), z[opened]))
            moves += [((opened, pending - {i}), minus_z[i]) for i in sorted(pending)]
            for state, appended in moves:
                if len(state[1]) <= order - slot - 1:  # open pairs still need a slot each
                    term = wire.append(appended)
                    after[state] = after[state] + term if state in after else term
        states = after
    closed = [wire for (_, pending), wire in states.items() if not pending]
    total = closed[0]
    for wire in closed[1:]:
        total = total + wire
    return total / math.sqrt(math.factorial(order))


def li_liu_variance(order: int) -> float:
    r"""Return the second moment of :func:`li_liu_hermite` along a unit direction, exactly.

    With x and all z from N(0, I). A partition with b pairs gives
    :math:`(-1)^b x^{t-2b} z_1^2 \cdots z_b^2` along the direction; there are
    :math:`t! / ((t-2b)!\, b!\, 2^b)` of them. The paper's estimator has :math:`2^{t-1}`.
    """
    count = [
        (-1) ** b
        * math.factorial(order)
        / (math.factorial(order - 2 * b) * math.factorial(b) * 2**b)
        for b in range(order // 2 + 1)
    ]
    total = 0.0
    for b, first in enumerate(count):
        for c, second in enumerate(count):
            # E x^{2n} = (2n − 1)!!, E z⁴ = 3, E z² = 1
            x_moment = math.prod(range(2 * (order - b - c) - 1, 0, -2))
            total += first * second * x_moment * 3 ** min(b, c)
    return total / math.factorial(order)


class LiLiuMixtureProblem(MomentProblem):
    """Moments of the means of a unit spherical mixture, by Li and Liu's circuits.

    The same moments as :class:`SphericalMixtureProblem` from another estimator: an example of a
    custom :class:`MomentProblem`.

    Parameters
    ----------
    points : array of shape (n_samples, n_features), Table, or callable
        Rows of the mixture.

    See Also
    --------
    SphericalMixtureProblem : Moments of the means of a spherical mixture.

    Examples
    --------
    >>> import numpy as np
    >>> from implicitmoments.problems import LiLiuMixtureProblem
    >>> LiLiuMixtureProblem(np.zeros((10, 3))).circuit(4)
    <circuit of order 4, size 32, inputs: x, z1, z2>
    """

    def __init__(self, points: Array | Table) -> None:
        self.source = as_table(points)
        self.n_features, self.n_rows = self.source.n_features, self.source.n_rows

    def circuit(self, order: int) -> Circuit:
        r"""Return :math:`\sqrt{t!}` times ``li_liu_hermite`` of order t."""
        return math.sqrt(math.factorial(order)) * li_liu_hermite(vector("x"), order)

    def draw(self, order: int, rows: range, rng: RowDraws) -> Block:
        """Return points, and an independent Gaussian for every pair of slots."""
        x = Rows(self.source).read(rows, rng.seed)["x"]
        auxiliary = {
            name: move_like(rng.normal(self.n_features), x) for name in li_liu_names(order)
        }
        return {"x": x, **auxiliary}
