r"""Problems: points and weights whose Hermite moments are those of a model (section 4).

All have the form :math:`M_t = E[c_t \, He_t(x)]` with :math:`He_t = \sqrt{t!} H_t`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from implicitmoments.arrays import (
    TINY,
    Array,
    Floats,
    as_double,
    as_real_array,
    dot_rows,
    move_like,
    namespace_of,
    to_numpy,
)
from implicitmoments.notes import InputError
from implicitmoments.rows import (
    Block,
    RowDraws,
    Rows,
    Sums,
    Table,
    Whitening,
    factor_covariance,
    mean_and_covariance,
    weights_of,
)
from implicitmoments.validation import check_positive_number


class HermiteProblem:
    r"""Moments of the form :math:`M_t = E[c_t \, He_t(x)]`, with :math:`He_t = \sqrt{t!} H_t`.

    Parameters
    ----------
    points : array of shape (n_samples, n_features), Rows or Table
        The points x.
    weight : callable, optional
        ``weight(order, rows)`` returns :math:`c_t`, (n,), for a block of rows: a mapping with the
        points ``"x"`` (n, n_features) and the labels ``"y"`` (n,), if there are any. By default
        all weights are 1. A problem with state overrides :meth:`weigh` instead.
    y : array of shape (n_samples,), optional
        Labels; a Table or Rows has them as a column.
    sample_weight : array of shape (n_samples,), optional
        Multiplicity of each row in every mean: a weight of 2 is equivalent to repeating the row,
        a weight of 0 to omitting it. Moments depend only on the ratios.
    whitening : Whitening, optional
        Standardises the points first; vectors are mapped back.

    Attributes
    ----------
    rows : Rows
        The points, with labels and multiplicities.
    reduces : bool
        Whether :meth:`reduce` removes lower orders from the weights.

    See Also
    --------
    implicitmoments.implicit_moments : Estimate moments of a problem.
    SphericalMixtureProblem : Moments of the means of a spherical mixture.

    Examples
    --------
    Moments of the regressors of :math:`y = \beta_i \cdot x + \nu` have the weights
    :math:`y^t/t!` (Lemma 4.23):

    >>> import implicitmoments as im
    >>> X, y, _ = im.datasets.make_regression_mixture(20_000, 2, 4, random_state=0)
    >>> problem = im.moments.HermiteProblem(
    ...     X, lambda t, rows: rows["y"] ** t / math.factorial(t), y=y
    ... )
    >>> im.implicit_moments(problem, n_components=2, order=2).hermite(X[:3]).shape
    (3,)
    """

    reduces = False

    def __init__(
        self,
        points: Array | Table | Rows,
        weight: Callable[[int, Block], Array] | None = None,
        *,
        y: Array | None = None,
        sample_weight: Array | None = None,
        whitening: Whitening | None = None,
    ) -> None:
        rows = Rows.of(points, y=y)
        if sample_weight is not None:
            counts = as_real_array(sample_weight, "sample_weight", 1)
            if counts.shape[0] != rows.n or not bool(namespace_of(counts).all(counts >= 0)):
                template = "sample_weight must have one entry >= 0 for each of {n:count row}"
                raise InputError("weights_invalid", template, n=rows.n)
            rows = rows.weighted(counts)
        by = () if whitening is None else (whitening.mean, whitening.inverse_root)
        self.rows = rows.mapped(*by)
        self.whitening, self._weight = whitening, weight
        self.n_features = self.rows.n_features
        # whether all orders have the same weights: they can be combined
        self.uniform = weight is None and type(self).weigh is HermiteProblem.weigh

    def weigh(self, order: int, rows: Block) -> Array | None:
        """Return the weights :math:`c_t` of a block of rows.

        Parameters
        ----------
        order : int
            The order t.
        rows : mapping of str to array
            Columns of the block; ``"x"`` holds the points.

        Returns
        -------
        array of shape (n,), or None
            None for all ones.
        """
        return None if self._weight is None else self._weight(order, rows)

    def prepare(self, orders: Sequence[int]) -> None:
        """Compute what weights depend on beyond their own row, before a pass.

        Parameters
        ----------
        orders : sequence of int
            Orders whose weights the pass needs.
        """

    def reduce(self, order: int, weights: Array, lower: Mapping[int, Array]) -> Array:  # noqa: ARG002
        r"""Remove the part of the weights explained by lower orders.

        Under Gaussian points :math:`He_t(x)` is orthogonal to polynomials of lower degree, so
        the part of a weight that they explain is noise. Problems that support it set
        :attr:`reduces` and override this method.

        Parameters
        ----------
        order : int
            The order t of the weights.
        weights : array of shape (n,)
            The weights of a block of rows.
        lower : mapping of int to array of shape (n,)
            :math:`\langle H_m(x), M_m \rangle` for the known orders below t.

        Returns
        -------
        array of shape (n,)
            Weights of smaller variance and the same moments.
        """
        return weights

    def has_order(self, order: int) -> bool:  # noqa: ARG002
        """Return whether the rows carry information about the moment of an order.

        Parameters
        ----------
        order : int
            The order of the moment.

        Returns
        -------
        bool
            By default all orders can be estimated.
        """
        return True

    def original_vectors(self, vectors: Floats) -> Floats:
        """Map hidden vectors to the user's coordinates.

        Parameters
        ----------
        vectors : array of shape (k, n_features)
            Hidden vectors in the coordinates of the problem.

        Returns
        -------
        array of shape (k, n_features)
        """
        return vectors if self.whitening is None else self.whitening.original(vectors)


class SphericalMixtureProblem(HermiteProblem):
    r"""Moments of the means of a mixture :math:`\sum_i w_i N(\mu_i, \sigma^2 I)`.

    Fact 2.3 and Lemma 4.17: :math:`E[He_t(x)] = \sum_i w_i \mu_i^{\otimes t}` for unit variance.
    The hidden vectors are :math:`(\mu_i - c)/\sigma`; for components
    :math:`N(\mu_i, \Sigma)` of a known covariance :math:`\Sigma = L L^\top` they are
    :math:`L^{-1}(\mu_i - c)`.

    Parameters
    ----------
    points : array of shape (n_samples, n_features), Rows or Table
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
    implicitmoments.SphericalMixture : Spherical covariances, one variance or several.

    Examples
    --------
    >>> import implicitmoments as im
    >>> X, _ = im.datasets.make_spherical_mixture(
    ...     10_000, 3, 6, radius=4.0, separation=3.0, random_state=0
    ... )
    >>> problem = im.moments.SphericalMixtureProblem(2 * X, variance=4.0)
    >>> im.implicit_moments(problem, n_components=3, order=1).components().vectors.shape
    (3, 6)
    """

    def __init__(
        self,
        points: Array | Table | Rows,
        *,
        variance: Any = 1.0,
        center: Array | None = None,
        sample_weight: Array | None = None,
    ) -> None:
        rows = Rows.of(points)
        d = rows.n_features
        origin = as_real_array([0.0] * d if center is None else center, "center", 1)
        self.center: Floats = np.asarray(to_numpy(origin), dtype=np.float64)
        if len(self.center) != d:
            template = "center has {n_entries:count entry}, expected one for each of {d} features"
            raise InputError("wrong_shape", template, n_entries=len(self.center), d=d)
        if np.ndim(np.asarray(variance)) == 0:
            self._factor = math.sqrt(check_positive_number("variance", variance)) * np.eye(d)
        else:
            self._factor = factor_covariance(variance, d)
        linear = np.linalg.inv(self._factor).T
        super().__init__(rows.mapped(self.center, linear), sample_weight=sample_weight)

    def original_vectors(self, vectors: Floats) -> Floats:
        """Map hidden vectors to means."""
        return np.asarray(vectors @ self._factor.T + self.center)


class PairwiseDifferenceProblem(HermiteProblem):
    r"""Moments of the differences of means, from differences of pairs of rows.

    Proof of Theorem 4.19. Of unit variance, with hidden vectors :math:`(\mu_i - \mu_j)/\sqrt 2`
    and weights :math:`w_i w_j` (Erratum 4: the text states them without the root).

    Parameters
    ----------
    points : array of shape (n_samples, n_features), Rows or Table
        Rows of the mixture, which are held in memory. They are paired at random, by their number
        alone.
    sample_weight : array of shape (n_samples,), optional
        Multiplicity of each row; that of a difference is the product.

    See Also
    --------
    SphericalMixtureProblem : Moments of the means of a spherical mixture.
    implicitmoments.SphericalMixtureClusterer : Labels by a test of pairs of rows.

    Examples
    --------
    >>> import numpy as np
    >>> problem = PairwiseDifferenceProblem(np.zeros((10, 3)))
    >>> problem.rows.n, problem.n_features
    (5, 3)
    """

    def __init__(
        self, points: Array | Table | Rows, *, sample_weight: Array | None = None
    ) -> None:
        super().__init__(points, sample_weight=sample_weight)
        held = self.rows.hold()
        pairs = np.random.default_rng(0).permutation(held.n)[: held.n // 2 * 2].reshape(2, -1)
        first, second = (held.take(half).block for half in pairs)
        counts = first["counts"] * second["counts"] if "counts" in first else None
        self.rows = Rows.of((first["x"] - second["x"]) / math.sqrt(2), counts=counts)


class RegressionMixtureProblem(HermiteProblem):
    r"""Moments of the regressors of :math:`y = \beta_i \cdot x + \nu`, with Gaussian x.

    Lemma 4.23: :math:`E[(y^t / t!)\, He_t(x)] = \sum_i w_i \beta_i^{\otimes t}` for any noise
    distribution, since the terms of lower degree in x are orthogonal to :math:`He_t`. The same
    holds for any polynomial :math:`y^t + \ldots`; the one orthogonal to lower powers of y has the
    smallest variance.

    Parameters
    ----------
    X : array of shape (n_samples, n_features), or Rows or Table with a column ``y``
    y : array of shape (n_samples,), or None for Rows and Table
    whitening : Whitening, optional
        Standardises the points first. Otherwise x is assumed to be from N(0, I).
    sample_weight : array of shape (n_samples,), optional
        Multiplicity of each row.

    See Also
    --------
    ActivationSumProblem : Moments of the directions of a sum of activations.
    implicitmoments.RegressionMixture : The lines, and the line of each row.

    Examples
    --------
    >>> import implicitmoments as im
    >>> X, y, _ = im.datasets.make_regression_mixture(20_000, 2, 4, noise=0.1, random_state=0)
    >>> problem = im.moments.RegressionMixtureProblem(X, y)
    >>> im.implicit_moments(problem, n_components=2, order=2).components().guesses.shape
    (2, 4)
    """

    def __init__(
        self,
        X: Array | Table | Rows,
        y: Array | None,
        *,
        whitening: Whitening | None = None,
        sample_weight: Array | None = None,
    ) -> None:
        super().__init__(X, y=y, sample_weight=sample_weight, whitening=whitening)

    def prepare(self, orders: Sequence[int]) -> None:  # noqa: ARG002
        """Average the powers of all labels."""
        _ = self._powers

    def weigh(self, order: int, rows: Block) -> Array:
        """Return the monic orthogonal polynomial of the labels over t!."""
        unit, powers = self._powers
        y, degree = rows["y"] / unit, min(order, len(powers) // 2)
        value = 0.0 * y + 1.0
        for coefficient in orthogonal_polynomial(powers, degree)[::-1]:
            value = value * y + float(coefficient)
        return value * y ** (order - degree) * (unit**order / math.factorial(order))

    @cached_property
    def _powers(self) -> tuple[float, Floats]:
        """The root mean square of y, and the mean powers 0, …, 17 of y over it."""

        def measure(block: Block) -> Sums:
            y, counts = as_double(block["y"]), as_double(weights_of(block))
            xp = namespace_of(y)
            return {"powers": xp.stack([xp.sum(counts * y**n) for n in range(18)])}

        sums = to_numpy(self.rows.fold(measure, what="powers of the labels")["powers"])
        means = sums / sums[0]
        unit = math.sqrt(means[2]) or 1.0
        return unit, means / unit ** np.arange(len(means))


def orthogonal_polynomial(powers: Floats, degree: int) -> Floats:
    r"""Return coefficients of :math:`1, y, \ldots, y^{n-1}` beside :math:`y^n`.

    The polynomial is orthogonal to lower powers of y, of which the mean powers are given. Rounding
    changes its variance, not the moments: any lower powers keep them.
    """
    places = np.arange(degree)
    gram, target = powers[places[:, None] + places], powers[degree + places]
    return np.asarray(-np.linalg.lstsq(gram, target, rcond=1e-12)[0])


@dataclass(frozen=True, eq=False)
class SphericalSpan:
    r"""Coordinates on the span of the means of a spherical mixture, in units of its noise.

    For components of a known covariance :math:`\Sigma = L L^\top` all attributes but the factor
    are those of whitened rows, :math:`L^{-1} x`, whose noise is standard.

    Attributes
    ----------
    center : array of shape (d,)
        The mean of the rows.
    variance : float
        The common variance of the components.
    basis : array of shape (p, d)
        The top p = min(k − 1, d) eigenvectors of the covariance: the means of k components lie
        in a translate of a (k − 1)-dimensional subspace.
    spectrum : array of shape (d,)
        Eigenvalues of the covariance over the variance, in decreasing order. The covariance of
        the coordinates is the diagonal matrix of the first p.
    factor : array of shape (d, d), optional
        The Cholesky factor L; None for the identity.
    """

    center: Floats  # (d,)
    variance: float
    basis: Floats  # (p, d)
    spectrum: Floats  # (d,)
    factor: Floats | None = None

    @property
    def p(self) -> int:
        """Number of coordinates."""
        return int(self.basis.shape[0])

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise."""
        return math.sqrt(self.variance)

    @property
    def variances(self) -> Floats:
        """Variances of the rows along the coordinates, (p,)."""
        return self.spectrum[: self.p]

    @property
    def squared_radius(self) -> float:
        r"""The mean of :math:`\|\mu_i\|^2` in units of the noise: the trace of :math:`M_2`."""
        return float(np.sum(np.maximum(self.spectrum[: self.p] - 1.0, 0.0)))

    def _centred(self, X: Array) -> Array:
        white = X if self.factor is None else X @ move_like(np.linalg.inv(self.factor).T, X)
        return white - move_like(self.center, X)[None, :]

    def coordinates(self, X: Array) -> Array:
        """Map rows (n, d) to coordinates (n, p), in the library of the rows."""
        basis = move_like(self.basis, X)
        return self._centred(X) @ namespace_of(X).matrix_transpose(basis) / self.sigma

    def restore(self, coordinates: Floats, off: Floats | float = 0.0) -> Floats:
        """Map coordinates (n, p), and noise off the span (n, d), back to rows (n, d)."""
        rows: Floats = self.sigma * (coordinates @ self.basis + off) + self.center
        return rows if self.factor is None else rows @ self.factor.T

    def log_density(self, X: Array) -> Array:
        """Return the logarithm of G, the Gaussian at the centre, at rows (n, d)."""
        moved = self._centred(X)
        volume = X.shape[1] / 2 * math.log(2 * math.pi * self.variance)
        if self.factor is not None:
            volume += float(np.sum(np.log(np.diagonal(self.factor))))
        return -dot_rows(moved, moved) / (2 * self.variance) - volume

    def complete(self, coordinates: Floats, rng: RowDraws) -> Floats:
        """Return rows (n, d) with these coordinates, drawn from G otherwise."""
        noise = rng.normal(len(self.center))
        return self.restore(coordinates, noise - (noise @ self.basis.T) @ self.basis)


def find_span(rows: Rows, k: int, variance: float | None) -> SphericalSpan:
    """Reduce to the span of the means (first step of the proof of Theorem 4.19), in one pass.

    Parameters
    ----------
    k : int
        Number of components.
    variance : float or None
        The common variance; None to take the mean of the d − k + 1 smallest eigenvalues of the
        covariance, off the span.
    """
    moments = mean_and_covariance(rows)
    values, vectors = (a[..., ::-1] for a in np.linalg.eigh(moments.covariance))
    p = min(k - 1, rows.n_features)
    if variance is None:
        variance = _noise_variance(values, p, k, moments.n)
    basis = np.ascontiguousarray(vectors[:, :p].T)
    return SphericalSpan(moments.mean, variance, basis, values / variance)


def _noise_variance(values: Floats, p: int, k: int, n: int) -> float:
    """Average the eigenvalues off the span.

    Zeros of constant and dependent columns are left out; with fewer rows than features other
    eigenvalues are 0 too, and count.
    """
    d = len(values)
    if p == d:
        template = "`n_components={k}` means may span all {d:count feature}, which leaves no "
        template += "direction for the noise; set `variance`, or use `n_components={d}` or fewer"
        raise InputError("variance_not_estimable", template, k=k, d=d)
    # less, relative to the largest: rows lie in a subspace
    least = 1e-12 * max(float(values[0]), TINY)
    varying = values[p:][values[p:] > least] if n > d else values[p:]
    estimate = float(np.sum(varying)) / max(len(varying), 1)
    if not estimate > least:
        template = "the rows vary along {p} of {d} directions only, which leaves none for the "
        template += "noise; remove constant or dependent columns, or set `variance`"
        raise InputError("rows_do_not_vary", template, p=p, d=d)
    return estimate


def smallest_variance(span: SphericalSpan, n: int) -> float | None:
    """Return the smallest variance over that of the noise, where it is too small to be noise."""
    smallest = max(0.0, float(span.spectrum[-1]))
    # the least eigenvalue of the covariance of n standard normal rows is about (1 − √(d/n))²
    usual = max(0.0, 1.0 - math.sqrt(len(span.spectrum) / n)) ** 2
    return smallest if smallest < 0.8 * usual else None
