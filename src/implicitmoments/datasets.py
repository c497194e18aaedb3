"""Synthetic data for the four problems, each with its true parameters.

Rows are drawn one by one from their numbers: the first 1,000 rows of a data set of 5,000 are
the data set of 1,000 with the same ``random_state``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.notes import InputError
from implicitmoments.rows import DrawPurpose, RowDraws, blocks
from implicitmoments.validation import RandomState, as_seed, check_whole

__all__ = [
    "Truth",
    "make_activation_sum",
    "make_pairwise_differences",
    "make_regression_mixture",
    "make_spherical_mixture",
]

Activation: TypeAlias = Callable[[Floats], Any]


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

    See Also
    --------
    make_spherical_mixture : Rows of a spherical mixture.
    implicitmoments.moments.HermiteProblem : Moments of a model.

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
                "weights_invalid", "weights are at least 0, got {least:.3g}", least=weights.min()
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
            With :math:`k^2` vectors.
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
        order : int
            The order m.

        Returns
        -------
        array of shape (n,)
        """
        inner: Floats = (points @ self.vectors.T) ** order @ self.weights
        return inner

    def hermite(self, points: Floats, order: int) -> Floats:
        r"""Return :math:`\langle H_m(x), M_m \rangle` exactly for each row x of ``points``.

        By the three-term recursion of :math:`\langle He_m(x), v^{\otimes m} \rangle`, which
        unlike :math:`\|v\|^m h_m(\hat v \cdot x)` does not divide by a norm.

        Parameters
        ----------
        points, order : as for :meth:`power`

        Returns
        -------
        array of shape (n,)
        """
        along = points @ self.vectors.T  # (n, k)
        squared = np.sum(self.vectors**2, axis=1)
        before, now = np.zeros_like(along), np.ones_like(along)
        for n in range(order):
            before, now = now, along * now - n * squared * before
        inner: Floats = now @ self.weights / math.sqrt(math.factorial(order))
        return inner


def make_spherical_mixture(
    n_samples: int,
    n_components: int,
    n_features: int,
    *,
    radius: float | tuple[float, float] = 2.0,
    separation: float = 0.0,
    weights: Sequence[float] | None = None,
    random_state: RandomState = None,
) -> tuple[Floats, Truth]:
    r"""Draw from :math:`\sum_i w_i N(\mu_i, I)` (Definition 4.13).

    Parameters
    ----------
    n_samples, n_components, n_features : int
    radius : float or pair of floats
        Norm of every mean, or the range from which norms are drawn.
    separation : float
        Least distance between two means, by rejection.
    weights : sequence of float, optional
        Equal by default; normalised to sum to 1.
    random_state : int, generator or None

    Returns
    -------
    X : array of shape (n_samples, n_features)
    truth : Truth
        Means as vectors, and the component of each row.

    See Also
    --------
    make_pairwise_differences : Differences of such rows.
    Truth : The model behind synthetic data.
    implicitmoments.SphericalMixture : Spherical covariances, one variance or several.

    Examples
    --------
    >>> from implicitmoments.datasets import make_spherical_mixture
    >>> X, truth = make_spherical_mixture(
    ...     100, n_components=4, n_features=3, radius=5.0, separation=4.0, random_state=0
    ... )
    >>> X.shape, truth.vectors.shape, truth.labels.shape
    ((100, 3), (4, 3), (100,))
    """
    sizes = n_samples, n_components, n_features
    w, means, rng = _hidden(*sizes, radius, separation, weights, random_state)
    labels = rng.categorical(w)
    points = means[labels] + rng.normal(n_features)
    return points, Truth(w, means, labels, noise=1.0)


def make_pairwise_differences(
    n_samples: int, n_components: int, n_features: int, **mixture: Any
) -> tuple[Floats, Truth]:
    r"""Draw :math:`(s - s')/\sqrt 2` for pairs of rows of a spherical mixture.

    Parameters
    ----------
    n_samples, n_components, n_features : int
        Number of differences, and of the mixture behind them.
    **mixture
        As for :func:`make_spherical_mixture`.

    Returns
    -------
    X : array of shape (n_samples, n_features)
    truth : Truth
        With ``n_components ** 2`` vectors, ``n_components`` of them zero; see
        :meth:`Truth.differences`.

    See Also
    --------
    make_spherical_mixture : Rows of a spherical mixture.
    Truth : The model behind synthetic data.

    Examples
    --------
    >>> from implicitmoments.datasets import make_pairwise_differences
    >>> X, truth = make_pairwise_differences(100, 3, 4, random_state=0)
    >>> X.shape, truth.vectors.shape
    ((100, 4), (9, 4))
    """
    points, behind = make_spherical_mixture(2 * n_samples, n_components, n_features, **mixture)
    return (points[::2] - points[1::2]) / np.sqrt(2), behind.differences()


def make_regression_mixture(
    n_samples: int,
    n_components: int,
    n_features: int,
    *,
    radius: float | tuple[float, float] = 1.0,
    separation: float = 0.0,
    noise: float = 0.3,
    weights: Sequence[float] | None = None,
    random_state: RandomState = None,
) -> tuple[Floats, Floats, Truth]:
    r"""Draw (x, y) with :math:`y = \beta_i \cdot x + \nu` for a hidden i (Definition 4.20).

    Parameters
    ----------
    n_samples, n_components, n_features : int
    radius, separation : of the regressors, as for :func:`make_spherical_mixture`
    noise : float
        Standard deviation of :math:`\nu`.
    weights, random_state : as for :func:`make_spherical_mixture`

    Returns
    -------
    X : array of shape (n_samples, n_features)
    y : array of shape (n_samples,)
    truth : Truth

    See Also
    --------
    implicitmoments.RegressionMixture : The lines, and the line of each row.

    Examples
    --------
    >>> from implicitmoments.datasets import make_regression_mixture
    >>> X, y, truth = make_regression_mixture(100, 3, 4, noise=0.1, random_state=0)
    >>> X.shape, y.shape, truth.vectors.shape
    ((100, 4), (100,), (3, 4))
    """
    sizes = n_samples, n_components, n_features
    w, betas, rng = _hidden(*sizes, radius, separation, weights, random_state)
    labels = rng.categorical(w)
    points = rng.normal(n_features)
    y = np.sum(points * betas[labels], axis=1) + noise * rng.normal()
    return points, y, Truth(w, betas, labels, noise=noise)


def make_activation_sum(
    n_samples: int,
    n_components: int,
    n_features: int,
    *,
    activation: str | Activation = "relu",
    noise: float = 0.0,
    weights: Sequence[float] | None = None,
    random_state: RandomState = None,
) -> tuple[Floats, Floats, Truth]:
    r"""Draw (x, F(x)) with :math:`F(x) = \sum_i w_i \sigma(v_i \cdot x)` (Definition 4.5).

    Parameters
    ----------
    n_samples, n_components, n_features : int
    activation : str or callable, default "relu"
        The function :math:`\sigma`: a name such as ``"cos"`` or ``"abs"``, an
        :class:`~implicitmoments.moments.Activation`, or a function of NumPy arrays.
    noise : float
        Standard deviation of noise added to F.
    weights, random_state : as for :func:`make_spherical_mixture`

    Returns
    -------
    X : array of shape (n_samples, n_features)
    y : array of shape (n_samples,)
    truth : Truth
        With unit vectors.

    See Also
    --------
    Truth : The model behind synthetic data.
    implicitmoments.ActivationSumRegressor : A sum of known activations of hidden directions.

    Examples
    --------
    >>> import numpy as np
    >>> from implicitmoments.datasets import make_activation_sum
    >>> X, y, truth = make_activation_sum(100, 3, 4, activation="abs", random_state=0)
    >>> bool(np.allclose(y, np.abs(X @ truth.vectors.T) @ truth.weights))
    True
    """
    sizes = n_samples, n_components, n_features
    w, directions, rng = _hidden(*sizes, 1.0, 0.0, weights, random_state)
    points = rng.normal(n_features)
    along = points @ directions.T
    if isinstance(activation, str):
        # imports SciPy
        from implicitmoments.moments.activations import as_activation  # noqa: PLC0415

        activation = as_activation(activation)
    values = activation(along)
    y = values @ w + noise * rng.normal()
    return points, y, Truth(w, directions, noise=noise)


def _hidden(
    n_samples: int,
    k: int,
    d: int,
    radius: float | tuple[float, float],
    separation: float,
    weights: Sequence[float] | None,
    random_state: RandomState,
) -> tuple[Floats, Floats, RowDraws]:
    """Return weights (k,), hidden vectors (k, d), and draws for the rows."""
    seed, w = as_seed(random_state), _weights(weights, k)
    vectors = random_directions(k, d, radius=radius, separation=separation, random_state=seed)
    rows = range(check_whole("n_samples", n_samples, 1))
    return w, vectors, RowDraws(seed, rows, (DrawPurpose.ROWS,))


def random_directions(
    n_vectors: int,
    n_features: int,
    *,
    radius: float | tuple[float, float] = 1.0,
    separation: float = 0.0,
    random_state: RandomState = None,
) -> Floats:
    """Draw vectors of uniform direction and given norms, at least ``separation`` apart."""
    check_whole("n_components", n_vectors, 1)
    check_whole("n_features", n_features, 1)
    low, high = radius if isinstance(radius, tuple) else (radius, radius)
    if not 0 <= low <= high:
        raise InputError(
            "radius_invalid",
            "radius is a number or a pair low <= high of at least 0, got {radius}",
            radius=radius,
        )
    seed, kept = as_seed(random_state), np.zeros((0, n_features))
    most = max(20_000, n_vectors)  # proposals before a separation is called impossible
    for rows in blocks(range(most), 4 * n_vectors):
        rng = RowDraws(seed, rows, (DrawPurpose.HIDDEN,))
        proposals = rng.normal(n_features)
        proposals /= np.linalg.norm(proposals, axis=1, keepdims=True)
        proposals *= (low + (high - low) * rng.uniform())[:, None]
        for proposal in proposals:
            if not len(kept) or np.linalg.norm(kept - proposal, axis=1).min() >= separation:
                kept = np.vstack([kept, proposal])
            if len(kept) == n_vectors:
                return kept
    raise InputError(
        "separation_not_reached",
        "only {n_kept} of {n_vectors} vectors at least {separation} apart were found at radius "
        "{radius} in {n_features} features; lower the separation or raise the radius",
        n_kept=len(kept),
        n_vectors=n_vectors,
        separation=separation,
        radius=radius,
        n_features=n_features,
    )


def _weights(weights: Sequence[float] | None, n_components: int) -> Floats:
    check_whole("n_components", n_components, 1)
    if weights is None:
        return np.full(n_components, 1.0 / n_components)
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (n_components,):
        raise InputError(
            "wrong_shape",
            "weights have shape {shape}, expected ({n_components},)",
            shape=w.shape,
            n_components=n_components,
        )
    if not np.all(np.isfinite(w)) or np.any(w < 0) or w.sum() == 0:
        raise InputError(
            "weights_invalid",
            "weights are finite, at least 0 and not all 0, got {w}",
            w=w.tolist(),
        )
    return np.asarray(w / w.sum())
