"""Exact (population) moments in place of sample averages."""

from __future__ import annotations

import numpy as np

from implicitmoments.circuits import Circuit, power, scalar, vector
from implicitmoments.datasets import Truth
from implicitmoments.moments import MomentProblem
from implicitmoments.rows import Block, RowDraws


class PopulationProblem(MomentProblem):
    r"""Moments :math:`\sum_i w_i v_i^{\otimes t}` of known vectors.

    All rows are equal, so k rows per step are sufficient, and the result of the recursion is exact
    up to rounding for any weights and vectors.

    Parameters
    ----------
    truth : Truth
        Weights and vectors.

    Examples
    --------
    >>> import numpy as np
    >>> from implicitmoments import implicit_moments
    >>> from implicitmoments.datasets import Truth
    >>> from implicitmoments.problems import PopulationProblem
    >>> from implicitmoments.circuits import power, vector
    >>> truth = Truth(np.array([0.7, 0.3]), np.array([[1.0, 0.0], [0.6, 0.8]]))
    >>> moments = implicit_moments(
    ...     PopulationProblem(truth), n_components=2, order=5, n_samples=2
    ... )
    >>> x = np.array([[0.5, 2.0]])
    >>> bool(np.allclose(moments.inner(power(vector("x"), 5), {"x": x}), truth.power(x, 5)))
    True
    """

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self.n_features = int(truth.vectors.shape[1])

    def circuit(self, order: int) -> Circuit:
        """Return ``Σ_i w_i · v_i ⊗ … ⊗ v_i``."""
        k = len(self.truth.weights)
        terms = [scalar(f"w{i}") * power(vector(f"v{i}"), order) for i in range(k)]
        return sum(terms[1:], start=terms[0])

    def draw(self, order: int, rows: range, rng: RowDraws) -> Block:  # noqa: ARG002
        """Return the vectors and weights, the same for every row."""
        n = len(rows)
        block: dict[str, np.ndarray] = {}
        for i, (w, v) in enumerate(zip(self.truth.weights, self.truth.vectors, strict=True)):
            block[f"w{i}"], block[f"v{i}"] = np.full(n, w), np.tile(v, (n, 1))
        return block
