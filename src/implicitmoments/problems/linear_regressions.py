"""Mixtures of linear regressions (section 4.4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from implicitmoments.arrays import Array, Floats, namespace_of
from implicitmoments.moments import HermiteProblem
from implicitmoments.notes import InputError
from implicitmoments.rows import Block, Rows, Sums, Table, Whitening, weights_of
from implicitmoments.validation import check_option, check_positive_number


def recurrence_from_moments(moments: Sequence[float]) -> tuple[list[float], list[float]]:
    r"""Return (a, b) with :math:`P_{n+1}(y) = (y - a_n) P_n(y) - b_n P_{n-1}(y)` orthogonal.

    By Chebyshev's algorithm from :math:`E[y^0], \ldots, E[y^{2T-1}]`: T pairs. Scale y to about
    unit variance, since moments grow fast. There are fewer pairs if the distribution has too few
    points for another polynomial.
    """
    half = len(moments) // 2
    before = [0.0] * len(moments)
    now = list(moments)
    a, b = [moments[1] / moments[0]], [0.0]
    for n in range(1, half):
        after = [0.0] * len(moments)
        for j in range(n, len(moments) - n):
            after[j] = now[j + 1] - a[n - 1] * now[j] - b[n - 1] * before[j]
        if after[n] <= 1e-12 * now[n - 1]:
            break
        a.append(after[n + 1] / after[n] - now[n] / now[n - 1])
        b.append(after[n] / now[n - 1])
        before, now = now, after
    return a, b


def monic_polynomial(y: Array, degree: int, a: Sequence[float], b: Sequence[float]) -> Array:
    """Evaluate the monic orthogonal polynomial of a degree by its recurrence.

    Beyond the known recurrence it is extended by powers of y, and remains monic.
    """
    before, now = y * 0.0, y * 0.0 + 1.0
    for n in range(degree):
        shift, product = (a[n], b[n]) if n < len(a) else (0.0, 0.0)
        before, now = now, (y - shift) * now - product * before
    return now


WEIGHTS = ("orthogonal", "monomial", "fourier")
HIGHEST_ORDER = 9  # of orthogonal weights; moments of y up to twice that are accurate


class RegressionMixtureProblem(HermiteProblem):
    r"""Moments of the regressors of :math:`y = \beta_i \cdot x + \nu`, with Gaussian x.

    Lemma 4.23: :math:`E[(y^t / t!)\, He_t(x)] = \sum_i w_i \beta_i^{\otimes t}` for any noise
    distribution, since the terms of lower degree in x are orthogonal to :math:`He_t`. The same
    holds for any polynomial :math:`y^t + \ldots`; the one orthogonal to lower powers of y has the
    smallest variance.

    Fourier weights are bounded. With Gaussian noise of variance :math:`\sigma^2`

    .. math:: E[e^{i \omega y} He_t(x)] = (i \omega)^t \sum_i w_i
       e^{-\omega^2 (\sigma^2 + \|\beta_i\|^2) / 2}\, \beta_i^{\otimes t}:

    the same regressors with other positive weights, equal at every order. Their noise hardly grows
    with the order.

    Parameters
    ----------
    X : array of shape (n_samples, n_features), or Rows or Table with a column ``y``
    y : array of shape (n_samples,), or None for Rows and Table
    weights : {"orthogonal", "monomial", "fourier"}, default "orthogonal"
        The monic orthogonal polynomial of the distribution of y over t!, the paper's
        :math:`y^t / t!`, or :math:`\cos(\omega y)` and :math:`\sin(\omega y)` over
        :math:`\omega^t`, with signs.
    omega : float, optional
        Frequency of Fourier weights. By default :attr:`OMEGA` over the root mean square of y: the
        signal of order t is largest at :math:`\sqrt t` over it, and orders 2, 4 and 6 are used
        together.
    whiten : bool or Whitening, default False
        Whiten the points by their estimated mean and covariance, or by the given ones; vectors
        are mapped back. Otherwise x is assumed to be from N(0, I).
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
    >>> problem = im.problems.RegressionMixtureProblem(X, y, weights="fourier")
    >>> im.implicit_moments(problem, n_components=2, order=2).components().guesses.shape
    (2, 4)
    """

    OMEGA = 2.0

    def __init__(
        self,
        X: Array | Table | Rows,
        y: Array | None,
        *,
        weights: str = "orthogonal",
        omega: float | None = None,
        whiten: bool | Whitening = False,
        sample_weight: Array | None = None,
    ) -> None:
        check_option("weights", weights, WEIGHTS)
        if omega is not None and weights != "fourier":
            raise InputError(
                "option_of_other_method",
                "omega is an option of `weights='fourier'`, got `weights={weights!r}`",
                weights=weights,
            )
        if omega is not None:
            check_positive_number("omega", omega)
        rows = Rows.of(X, y=y)
        self.weights, self._omega = weights, omega
        if whiten and not isinstance(whiten, Whitening):
            whiten = Whitening.of(rows, sample_weight)
        self.whitening = whiten or None
        super().__init__(whiten.map(rows) if whiten else rows, sample_weight=sample_weight)

    @cached_property
    def omega(self) -> float:
        """The frequency of Fourier weights."""
        if self._omega is not None:
            return self._omega
        mass, square = self._mean_power(1.0, [0, 2])
        return self.OMEGA / math.sqrt(square / mass) if square > 0 else self.OMEGA

    def mixing_weights(self, weights: Floats, vectors: Floats) -> Floats:
        r"""Convert decoded weights to mixing weights.

        Those of Fourier moments carry a factor :math:`e^{-\omega^2 \|\beta_i\|^2 / 2}`.

        Parameters
        ----------
        weights : array of shape (k,)
            Decoded weights.
        vectors : array of shape (k, n_features)
            Regressors in the user's coordinates.

        Returns
        -------
        array of shape (k,)
            Weights of sum 1.
        """
        if self.weights != "fourier":
            return np.asarray(weights / np.sum(weights))
        root = np.eye(vectors.shape[1]) if self.whitening is None else self.whitening.root
        lengths = np.sum((vectors @ root.T) ** 2, axis=1)
        factors = np.exp(0.5 * self.omega**2 * (lengths - lengths.max()))
        return np.asarray(weights * factors / np.sum(weights * factors))

    def prepare(self, orders: Sequence[int]) -> None:
        """Compute the frequency, or the polynomials, from all labels."""
        if self.weights == "fourier":
            _ = self.omega
        elif self.weights == "orthogonal" and min(orders, default=0) <= HIGHEST_ORDER:
            _ = self._recurrence

    def weigh(self, order: int, block: Block, rows: range) -> Array:  # noqa: ARG002
        """Return the weight of each row at an order."""
        y = block["y"]
        if self.weights == "fourier":  # the real part of e^{iωy} / (iω)^t
            xp, sign = namespace_of(y), 1.0 if order % 4 in (0, 1) else -1.0
            wave = xp.cos(self.omega * y) if order % 2 == 0 else xp.sin(self.omega * y)
            return wave * (sign / self.omega**order)
        if self.weights == "monomial" or order > HIGHEST_ORDER:
            return y**order / math.factorial(order)
        unit, (a, b) = self._recurrence
        return monic_polynomial(y / unit, order, a, b) * (unit**order / math.factorial(order))

    def original_vectors(self, vectors: Floats) -> Floats:
        """Map regressors to those of the original points."""
        return vectors if self.whitening is None else self.whitening.original(vectors)

    @cached_property
    def _recurrence(self) -> tuple[float, tuple[list[float], list[float]]]:
        """The root mean square of y, and the recurrence of polynomials in y over it."""
        square = self._mean_power(1.0, [2])[0]
        unit = math.sqrt(square) if square > 0 else 1.0
        moments = self._mean_power(unit, list(range(2 * HIGHEST_ORDER + 2)))
        return unit, recurrence_from_moments(moments)

    def _mean_power(self, unit: float, powers: list[int]) -> list[float]:
        def measure(block: Block) -> Sums:
            y, counts = block["y"] / unit, weights_of(block)
            xp = namespace_of(y)
            return {str(power): float(xp.sum(counts * y**power)) for power in powers}

        sums = self.rows.fold(measure, what="powers of the labels")
        return [float(sums[str(power)]) / self.rows.n for power in powers]
