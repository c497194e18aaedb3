"""Positive sums of activations (section 4.2) and the Hermite coefficients they rest on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from implicitmoments.backends import Array, namespace_of
from implicitmoments.moments import HermiteProblem
from implicitmoments.samples import ArraySource, Block

SMALLEST_COEFFICIENT = 1e-12  # a sine of a multiple of π is not quite zero

__all__ = ["Activation", "ActivationSumProblem", "cosine", "relu"]


@dataclass(frozen=True)
class Activation:
    r"""A function of one variable and its Hermite coefficients.

    Attributes
    ----------
    name : str
    function : callable
        On arrays of any library.
    coefficient : callable
        ``coefficient(t)`` is :math:`c_{\sigma,t} = E[\sigma(G) h_t(G)]`.
    """

    name: str
    function: Callable[[Array], Array]
    coefficient: Callable[[int], float]

    def __call__(self, u: Array) -> Array:
        """Apply the function."""
        return self.function(u)


def relu() -> Activation:
    r"""Return :math:`\max(0, u)`.

    Erratum 1: Corollary 4.9 prints a coefficient that is imaginary at t = 4. The right one is
    :math:`(-1)^{(t-2)/2} (t-3)!! / \sqrt{2\pi\, t!}` for even t, zero for odd t above 1.
    """
    return Activation("relu", _relu, _relu_coefficient)


def cosine(frequency: float = 1.0, phase: float = 0.0) -> Activation:
    r"""Return :math:`\cos(\gamma u + \theta)`, with coefficients

    .. math:: e^{-\gamma^2/2}\, \gamma^t / \sqrt{t!} \cdot \cos(\theta + t\pi/2).

    Parameters
    ----------
    frequency : float
        The paper's :math:`\gamma`, positive.
    phase : float
        The paper's :math:`\theta`, in radians.
    """  # noqa: D400 (the formula belongs to the sentence)
    if not (math.isfinite(frequency) and frequency > 0):
        raise ValueError(f"frequency is a positive number, got {frequency}")

    def function(u: Array) -> Array:
        return namespace_of(u).cos(frequency * u + phase)

    def coefficient(t: int) -> float:
        # cos(θ + tπ/2) by quarter turns, so that odd coefficients of a plain cosine are exactly 0
        turn = (math.cos(phase), -math.sin(phase), -math.cos(phase), math.sin(phase))[t % 4]
        size = t * math.log(frequency) - (frequency**2 + math.lgamma(t + 1)) / 2
        return math.exp(size) * turn

    return Activation(f"cos({frequency:g}u + {phase:g})", function, coefficient)


class ActivationSumProblem(HermiteProblem):
    r"""Moments of the directions of :math:`y = \sum_i w_i \sigma(v_i \cdot x)`, x from N(0, I).

    Lemma 4.12: :math:`E[y\, H_t(x)] = c_{\sigma,t} \sum_i w_i v_i^{\otimes t}`. Labels may carry
    noise of mean zero.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    y : array of shape (n_samples,)
    activation : Activation
    sample_weight : array of shape (n_samples,), optional
        How often each row counts.
    """

    reduces = True

    def __init__(
        self, X: Array, y: Array, activation: Activation, *, sample_weight: Array | None = None
    ) -> None:
        if not isinstance(activation, Activation):
            raise TypeError(
                f"activation is one of relu(), cosine(...) or an Activation, got {activation!r}"
            )
        super().__init__(ArraySource(X, y=y), sample_weight=sample_weight)
        self.activation = activation

    def has_order(self, order: int) -> bool:
        """Say whether the activation has a part of this degree."""
        return abs(self.activation.coefficient(order)) > SMALLEST_COEFFICIENT

    def reduce(self, order: int, weights: Array, lower: Mapping[int, Array]) -> Array:
        """Put for y its residual after what the known lower orders explain of it."""
        explained: Array = 0.0
        for m, inner in lower.items():
            if m < order:
                explained = explained + self.activation.coefficient(m) * inner
        return weights - explained / self._divisor(order)

    def _divisor(self, order: int) -> float:
        return self.activation.coefficient(order) * math.sqrt(math.factorial(order))

    def weigh(self, order: int, block: Block, rows: range) -> Array:  # noqa: ARG002
        """Return ``y / (c_t · √t!)``."""
        if not self.has_order(order):
            raise ValueError(
                f"the Hermite coefficient of order {order} of {self.activation.name} is zero, so "
                f"labels say nothing about the moment of order {order}; ask for another order"
            )
        return block["y"] / self._divisor(order)


def _relu(u: Array) -> Array:
    return (u + abs(u)) / 2


def _relu_coefficient(t: int) -> float:
    if t == 0:
        return 1 / math.sqrt(2 * math.pi)
    if t == 1:
        return 0.5
    if t % 2:
        return 0.0
    # (−1)^{(t−2)/2} (t−3)!! / √(2π t!) as a product of ratios, which does not overflow
    ratios = (-(s - 1) / math.sqrt((s + 1) * (s + 2)) for s in range(2, t, 2))
    return math.prod(ratios) / math.sqrt(4 * math.pi)
