"""Hidden vectors and weights, known because the data are synthetic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.notes import InputError


@dataclass(frozen=True, eq=False)
class Truth:
    r"""The model behind synthetic data: :math:`M_t = \sum_i w_i v_i^{\otimes t}`.

    Attributes
    ----------
    weights : array of shape (k,)
    vectors : array of shape (k, n_features)
    labels : array of shape (n_samples,), or None
        The component each row came from, where rows come from components.
    noise : float
        Standard deviation of the label noise, or of a spherical component.

    Examples
    --------
    >>> import numpy as np
    >>> from implicitmoments.datasets import Truth
    >>> truth = Truth(np.array([0.5, 0.5]), np.eye(2))
    >>> truth.power(np.array([[2.0, 1.0]]), 3).tolist()  # the mean of (v · x)³
    [4.5]
    """

    weights: Floats
    vectors: Floats
    labels: np.ndarray[Any, Any] | None = None
    noise: float = 0.0

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, dtype=np.float64)
        vectors = np.asarray(self.vectors, dtype=np.float64)
        if weights.ndim != 1 or vectors.ndim != 2 or len(weights) != len(vectors):
            raise InputError(
                "wrong_shape",
                "weights have shape {shape} and vectors {other_shape}, expected (k,) and (k, "
                "n_features)",
                shape=weights.shape,
                other_shape=vectors.shape,
            )
        if np.any(weights < 0):
            raise InputError(
                "negative_weight", "weights are at least 0, got {least:.3g}", least=weights.min()
            )
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "vectors", vectors)

    def differences(self) -> Truth:
        r"""Return the truth of :math:`(s - s')/\sqrt 2` for rows s, s' of a spherical mixture.

        Hidden vectors :math:`(\mu_i - \mu_j)/\sqrt 2` with weights :math:`w_i w_j`: the clustering
        proof loses the factor :math:`2^{t/2}` (erratum 4).

        Returns
        -------
        Truth
            With k² vectors.
        """
        k, d = self.vectors.shape
        apart = (self.vectors[:, None, :] - self.vectors[None, :, :]).reshape(k * k, d)
        pairs = np.outer(self.weights, self.weights).ravel()
        return Truth(pairs, apart / math.sqrt(2), noise=self.noise)

    def power(self, points: Floats, order: int) -> Floats:
        r"""Return :math:`\langle x^{\otimes m}, M_m \rangle` for each row of ``points``.

        Parameters
        ----------
        points : array of shape (n, n_features)
            The points x.
        order : int
            The order m.

        Returns
        -------
        array of shape (n,)
            The inner products.
        """
        inner: Floats = (points @ self.vectors.T) ** order @ self.weights
        return inner

    def hermite(self, points: Floats, order: int) -> Floats:
        r"""Return :math:`\langle H_m(x), M_m \rangle` exactly for each row x of ``points``.

        By the three-term recursion of :math:`\langle He_m(x), v^{\otimes m} \rangle`, which
        unlike :math:`\|v\|^m h_m(\hat v \cdot x)` does not divide by a norm.

        Parameters
        ----------
        points : array of shape (n, n_features)
            The points x.
        order : int
            The order m.

        Returns
        -------
        array of shape (n,)
            The inner products.
        """
        along = points @ self.vectors.T  # (n, k)
        squared = np.sum(self.vectors**2, axis=1)
        before, now = np.zeros_like(along), np.ones_like(along)
        for n in range(order):
            before, now = now, along * now - n * squared * before
        inner: Floats = now @ self.weights / math.sqrt(math.factorial(order))
        return inner
