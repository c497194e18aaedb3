"""Log densities of Gaussians as products with lifted rows, about the origin or a mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    as_double,
    cross_sums,
    linear_rows,
    machine_epsilon,
    move_like,
    namespace_of,
    softmax_rows,
)
from implicitmoments.mixture.gaussians import CovarianceType, Gaussians, precisions_of
from implicitmoments.rows.constants import DOUBLE
from implicitmoments.search.em import Places


@dataclass(frozen=True, eq=False)
class Expansion:
    r"""A mixture as slopes of lifted rows (x, products of columns, 1).

    An expanded square :math:`|x - \mu|^2 / \sigma^2` loses the digits of
    :math:`|\mu|^2 / \sigma^2`. Where rows of single precision would lose too many, they are lifted
    in double precision; and once more for every component that is far even then: about its mean.
    """

    state: Gaussians
    kind: CovarianceType
    far: Places  # components so far from the origin that half of 16 digits would be lost
    centers: Floats  # (k, d), their means in the units of the rows, which are
    units: Floats | None = None  # (d,), those of the columns of the state; None for 1
    double: bool = False  # rows of less than double precision are lifted in it

    @classmethod
    def of(cls, state: Gaussians, kind: CovarianceType, like: Array) -> Expansion:
        """Return the expansion for rows of the precision of ``like``."""
        epsilon, far = machine_epsilon(like), far_components(state, DOUBLE)
        double = epsilon > DOUBLE and bool(len(far_components(state, epsilon)))
        return cls(state, kind, far, state.means, double=double)

    @cached_property
    def slopes(self) -> Floats:
        """Log weight plus log density of Gaussians, linear in lifted rows: (p, k)."""
        return self.kind.slopes(self.state)

    @property
    def about(self) -> Floats | None:
        """The points about which sums of components are taken, (k, d); None for the origin."""
        if not len(self.far):
            return None
        about = np.zeros_like(self.state.means)
        about[self.far] = self.centers[self.far]
        return about

    def joint(self, lifted: Array, x: Array | None = None) -> Array:
        """Return log weight plus log density of Gaussians, (n, k), in the precision of the rows.

        Parameters
        ----------
        lifted : array of shape (n, p)
        x : array of shape (n, d), optional
            Rows from which ``centers`` are subtracted; the points of ``lifted`` by default.
        """
        precise = self.precise(lifted)
        joint = linear_rows(precise, move_like(self.slopes, precise))
        joint = namespace_of(joint).astype(joint, lifted.dtype, copy=False)
        if not len(self.far):
            return joint
        x = lifted[:, : self.state.d] if x is None else x
        own = self.state.take(self.far)
        slopes = self.kind.slopes(own.moved(-own.means, 1.0))
        for at, i in enumerate(self.far.tolist()):
            slope = move_like(slopes[:, at : at + 1], lifted)
            joint[:, i] = linear_rows(self._about_mean(x, i), slope)[:, 0]
        return joint

    def precise(self, lifted: Array) -> Array:
        """Return lifted rows in the precision that the components need."""
        if not self.double or lifted.dtype == namespace_of(lifted).float64:
            return lifted
        return self.kind.lift({"x": as_double(lifted[:, : self.state.d])})["x"]

    def moments(self, lifted: Array, shares: Array) -> Array:
        """Return the sums of lifted rows times shares (n, k), about ``about``: (k, p)."""
        if self.double:
            lifted, shares = self.precise(lifted), as_double(shares)
        sums = cross_sums(shares, lifted)
        for i in self.far.tolist():
            own = self._about_mean(lifted[:, : self.state.d], i)
            sums[i, :] = cross_sums(shares[:, i : i + 1], own)[0, :]
        return sums

    def _about_mean(self, x: Array, i: int) -> Array:
        apart = x - move_like(self.centers[i], x)[None, :]
        if self.units is not None:
            apart = apart / move_like(self.units, x)[None, :]
        return self.kind.lift({"x": apart})["x"]


def far_components(state: Gaussians, epsilon: float) -> Places:
    r"""Return the components whose expanded squares lose more than half of the digits.

    The terms of :math:`\mu^\top P \mu`, by their sizes, are :math:`\epsilon^{-1/2}`, or half of
    it: components with the variance that an M-step gives to sums without digits are among them.
    """
    sizes, precisions = np.abs(state.means), precisions_of(state.covariances)[0]
    if state.diagonal:
        squares = np.sum(precisions * sizes**2, axis=1)
    else:
        squares = np.einsum("kd,kde,ke->k", sizes, np.abs(precisions), sizes)
    return np.flatnonzero(squares > 0.5 / math.sqrt(epsilon))


def log_joint(x: Array, state: Gaussians) -> Array:
    """Return log weight plus log density of each component for rows (n, d), as (n, k).

    Products are taken about the centre of the mixture in units of its deviations, and about the
    means of components that are far from it.
    """
    center = state.weights @ state.means / state.weights.sum()
    units = np.sqrt(state.weights @ state.variances / state.weights.sum())
    inside = state.moved(-center / units, 1 / units)
    kind = CovarianceType("diag" if state.diagonal else "full")
    far = far_components(inside, machine_epsilon(x))
    lifted = kind.lift({"x": (x - move_like(center, x)) / move_like(units, x)})["x"]
    joint = Expansion(inside, kind, far, state.means, units).joint(lifted, x)
    return inside.in_law(joint) - float(np.log(units).sum())


def log_densities(x: Array, state: Gaussians) -> Array:
    """Return the log density of every row (n, d)."""
    return softmax_rows(log_joint(x, state))[1]


def likeliest(x: Array, state: Gaussians) -> Array:
    """Return the most probable component of every row (n, d)."""
    return namespace_of(x).argmax(log_joint(x, state), axis=1)


def responsibilities(x: Array, state: Gaussians) -> Any:
    """Return the probability of each component given each row (n, d), as (n, k)."""
    return softmax_rows(log_joint(x, state))[0]
