"""Mixtures of spherical Gaussians (section 4.3): from rows, from pairs of rows, and exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from implicitmoments.arrays import Array, Floats, as_real_array, to_numpy
from implicitmoments.circuits import Circuit, power, scalar, vector
from implicitmoments.datasets import Truth
from implicitmoments.moments import HermiteProblem, MomentProblem
from implicitmoments.notes import InputError, Note
from implicitmoments.rows import (
    ArrayTable,
    Block,
    KeyedPermutation,
    PairDifferences,
    RowDraws,
    Rows,
    Table,
    as_table,
    factor_covariance,
    take_along,
    take_places,
    whitener_of,
)
from implicitmoments.validation import check_positive_number


class SphericalMixtureProblem(HermiteProblem):
    r"""Moments of the means of a mixture :math:`\sum_i w_i N(\mu_i, \sigma^2 I)`.

    Fact 2.3 and Lemma 4.17: :math:`E[He_t(x)] = \sum_i w_i \mu_i^{\otimes t}` for unit variance.
    The hidden vectors are :math:`(\mu_i - c)/\sigma`; for components
    :math:`N(\mu_i, \Sigma)` of a known covariance :math:`\Sigma = L L^\top` they are
    :math:`L^{-1}(\mu_i - c)`.

    Parameters
    ----------
    points : array of shape (n_samples, n_features), Rows, Table, or callable
        Rows of the mixture.
    variance : float or array of shape (n_features, n_features), default 1.0
        The common variance :math:`\sigma^2` of the components, or their covariance
        :math:`\Sigma`.
    center : array of shape (n_features,), optional
        The point c; the origin by default.
    sample_weight : array of shape (n_samples,), optional
        Multiplicity of each row.

    See Also
    --------
    PairwiseDifferenceProblem : Moments of differences of means.
    LiLiuMixtureProblem : The same moments by Li and Liu's circuits.
    implicitmoments.SphericalMixture : Spherical covariances, one variance or several.

    Examples
    --------
    >>> import implicitmoments as im
    >>> X, _ = im.datasets.make_spherical_mixture(
    ...     10_000, 3, 6, radius=4.0, separation=3.0, random_state=0
    ... )
    >>> problem = im.problems.SphericalMixtureProblem(2 * X, variance=4.0)
    >>> im.implicit_moments(problem, n_components=3, order=1).components().vectors.shape
    (3, 6)
    """

    def __init__(
        self,
        points: Array | Table | Rows | Callable[[range, RowDraws], Any],
        *,
        variance: Any = 1.0,
        center: Array | None = None,
        sample_weight: Array | None = None,
    ) -> None:
        rows = Rows.of(points)
        origin = np.zeros(rows.n_features) if center is None else center
        origin = as_real_array(origin, "center", 1)
        if origin.shape[0] != rows.n_features:
            raise InputError(
                "wrong_shape",
                "center has {n_rows} entries, expected {n_features}, the number of features",
                **{"n_rows": origin.shape[0], "n_features": rows.n_features},
            )
        self.variance, self.center = variance, np.asarray(to_numpy(origin), dtype=np.float64)
        # rows are divided by a number, or multiplied by the inverse of a matrix
        self._factor: float | Floats
        whitener: float | Floats
        if np.ndim(np.asarray(variance)) == 0:
            self._factor = math.sqrt(check_positive_number("variance", variance))
            whitener = 1.0 / self._factor
        else:
            self._factor = factor_covariance(variance, rows.n_features)
            whitener = whitener_of(self._factor)
        super().__init__(rows.mapped(self.center, whitener), sample_weight=sample_weight)

    def original_vectors(self, vectors: Floats) -> Floats:
        """Map hidden vectors to means."""
        factor = self._factor
        scaled = vectors * factor if isinstance(factor, float) else vectors @ factor.T
        return scaled + self.center


class PairwiseDifferenceProblem(HermiteProblem):
    r"""Moments of the differences of means, from differences of pairs of rows.

    Proof of Theorem 4.19. Of unit variance, with hidden vectors :math:`(\mu_i - \mu_j)/\sqrt 2`
    and weights :math:`w_i w_j` (erratum 4: the text states them without the root).

    Parameters
    ----------
    points : array of shape (n_samples, n_features), Rows, Table, or callable
        Rows of the mixture. An array is shuffled, by a permutation that depends on its length
        alone; then rows 2i and 2i + 1 make one difference.
    sample_weight : array of shape (n_samples,), optional
        Multiplicity of each row; that of a difference is the product.

    See Also
    --------
    SphericalMixtureProblem : Moments of the means of a spherical mixture.
    implicitmoments.SphericalMixtureClusterer : Labels by a test of pairs of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from implicitmoments.problems import PairwiseDifferenceProblem
    >>> problem = PairwiseDifferenceProblem(np.zeros((10, 3)))
    >>> problem.n_rows, problem.n_features
    (5, 3)
    """

    def __init__(
        self,
        points: Array | Table | Rows | Callable[[range, RowDraws], Any],
        *,
        sample_weight: Array | None = None,
    ) -> None:
        source = points.hold().table if isinstance(points, Rows) else as_table(points)
        weights = None
        if sample_weight is not None:
            weights = as_real_array(sample_weight, "sample_weight", 1)
        if isinstance(source, ArrayTable):
            # neighbours of sorted rows are of one component, and their differences only noise
            places = np.argsort(KeyedPermutation(source.n).places(range(source.n)))
            source = ArrayTable.of(take_places(source.block, places))
            weights = None if weights is None else take_along(weights, places)
        elif source.n_rows is not None:
            self.notes = (Note("neighbours_paired"),)
        counts = None
        if weights is not None:
            last = 2 * (int(weights.shape[0]) // 2)
            counts = weights[0:last:2] * weights[1:last:2]
        super().__init__(PairDifferences(source), sample_weight=counts)


class PopulationProblem(MomentProblem):
    r"""Moments :math:`\sum_i w_i v_i^{\otimes t}` of known vectors.

    All rows are equal, so k rows per step are sufficient, and the result of the recursion is exact
    up to rounding for any weights and vectors.

    Parameters
    ----------
    truth : Truth
        Weights and vectors.

    See Also
    --------
    SphericalMixtureProblem : Moments of the means of a spherical mixture.
    implicitmoments.datasets.Truth : The model behind synthetic data.

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
        r"""Return :math:`\sum_i w_i v_i \otimes \cdots \otimes v_i`."""
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
