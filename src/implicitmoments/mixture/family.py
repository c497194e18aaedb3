r"""The protocol of families: a mixture is a feature map.

A family writes the log density of a component as a product of features of the row and
coefficients of the component, :math:`\log p(x \mid i) = T(x) \cdot \eta_i`; the first feature is
the constant 1. EM is then two matrix products for every family,

.. code-block:: none

    E-step    logits = T ηᵀ + log w        R = softmax
    M-step    S = Rᵀ T                     η = natural(S)

and the sums S (k, s) are the whole state of a fit. Sums add: two components merge by adding their
rows of S, and the sums of blocks, files and partitions add up to those of all rows. Leading axes
of S are batches of mixtures.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import Any, ClassVar

import numpy as np

from implicitmoments.arrays import Array, Floats, index_like, namespace_of
from implicitmoments.rows import Block, Rows

Places = np.ndarray[Any, np.dtype[np.int64]]

TINY = 1e-12  # weight of a component that has no rows


class Family(ABC):
    """Log densities that are linear in features of a row.

    Components have coefficients of their own for the first ``n_own`` features; those of the
    others are shared, so they change no responsibility. Arrays of features may be of any library;
    sums and coefficients are NumPy arrays in double precision.

    Attributes
    ----------
    needs_logits : bool
        Whether :meth:`sum_features` takes the logits.
    """

    needs_logits: ClassVar[bool] = False

    @property
    @abstractmethod
    def n_own(self) -> int:
        """Features with coefficients per component, s in the shapes below."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """All features."""

    @property
    def similar_if_near(self) -> bool:
        """Whether rows at nearby :meth:`points` tend to be of one component.

        Then components start from small groups of neighbours; otherwise they also grow by splits.
        """
        return True

    @property
    def log_jacobian(self) -> float:
        """Log density in the user's units less that of the features, per row."""
        return 0.0

    @property
    def name(self) -> str:
        """Name of the type, where several compete."""
        return ""

    @abstractmethod
    def prepare(self, rows: Rows) -> Family:
        """Return the family in the units of some rows: their centre, scales and floors."""

    @abstractmethod
    def features(self, block: Block) -> Array:
        """Return T(x) of the rows of a block, (n, n_features), in double precision.

        Law: the features of two blocks stacked are the features of the stacked rows.
        """

    @abstractmethod
    def natural(self, sums: Floats, shared: Floats | None) -> Floats:
        """Return the most likely coefficients (..., k, s) for sums (..., k, s).

        Laws: they maximise the product of sums and coefficients among all that the family has,
        unless a floor or borrowing of a component with few rows intervenes; they depend on each
        component's sums alone, given ``shared``; a batch gives the same as a loop over it.
        """

    def pool(self, sums: Floats, rest: Floats) -> Floats | None:  # noqa: ARG002
        """Return what components share or borrow from, (..., 1, ·); None for nothing.

        ``rest`` holds the sums of the shared features, over all rows, (..., n_features - s).
        """
        return None

    def shared_coefficients(self, shared: Floats | None) -> Floats | None:  # noqa: ARG002
        """Return the coefficients (..., n_features - s) of the shared features; None for none."""
        return None

    def logits(self, coefficients: Array, features: Array) -> Array:
        """Return the log densities (..., c, n) of rows (..., n, s) in c components (..., c, s).

        The product of coefficients and features, unless a family has a shorter way.
        """
        xp = namespace_of(features)
        return coefficients @ xp.matrix_transpose(features)

    def sum_features(
        self,
        shares: Array,
        features: Array,
        coefficients: Array,  # noqa: ARG002
        logits: Array | None,  # noqa: ARG002
    ) -> Array:
        """Return the sums (..., c, s) of features weighted by responsibilities (..., c, n)."""
        return shares @ features

    @abstractmethod
    def split_scores(self, features: Floats, weights: Floats, coefficients: Floats) -> Floats:
        """Return numbers (k, m, a) by which the m rows of each component may be divided in two.

        Of features (k, m, s), weights (k, m) and coefficients (k, s).
        """

    @abstractmethod
    def points(self, features: Floats) -> Floats:
        """Return rows as points (n, p) whose distances tell which rows may be of one component."""

    def leading(self, features: Floats, weights: Floats, k: int) -> tuple[Family, Floats] | None:  # noqa: ARG002
        """Return the family and features of the few directions in which k components differ.

        None if there are no fewer. A search there is shorter, and easier where rows are few.
        """
        return None

    @abstractmethod
    def n_parameters(self, k: int) -> int:
        """Return the number of free parameters of k components, their weights included."""

    @abstractmethod
    def parameters(self, sums: Floats, rest: Floats) -> Any:
        """Return the parameters of a mixture (k, s) in the user's units, as a named tuple."""

    @abstractmethod
    def vectors(self, parameters: Any) -> tuple[Floats, Floats]:
        """Return parameters as vectors in the family's units: (k, q) and, if shared, (r,)."""

    @abstractmethod
    def steps(self, own: Floats, shared: Floats) -> tuple[Floats, Floats]:
        """Return bases (k, q, q) and (r, r) of changes of these vectors that matter.

        Columns are steps of the size of the noise, so that a small multiple stays in the family.
        """

    @abstractmethod
    def coefficients_at(self, own: Floats, shared: Floats) -> Floats:
        """Return the coefficients (..., k, n_features) of vectors (..., k, q) and (..., r).

        Law: at the vectors of ``parameters(sums)`` they are those of ``natural(sums)``.
        """

    @abstractmethod
    def errors(self, covariance: Floats, k: int) -> Any:
        """Return standard errors in the form of the parameters.

        From the covariance of the vectors of all k components, one after the other, and the
        shared one.
        """

    @abstractmethod
    def sums_of(self, parameters: Any, n: float) -> Floats:
        """Return sums (k, s) of n rows that have exactly these parameters.

        Law: ``parameters(sums_of(p, n), rest)`` is p, where nothing is shared.
        """

    def plain(self) -> Family:
        """Return the family whose sums are those of EM, without any acceleration."""
        return self

    def complete_level(self, sums: Floats, coefficients: Floats) -> Floats:
        """Return the expected complete log-likelihood (..., k) of sums over all features."""
        return np.asarray((sums * coefficients).sum(-1))

    @property
    def linear(self) -> slice:
        """Places of sums and coefficients whose product is a log-likelihood."""
        return slice(0, self.n_own)

    def emission(self, sums: Floats, shared: Floats | None) -> Floats:
        """Return the log-likelihood (..., k) of the rows behind sums at their own maximum."""
        own = sums[..., self.linear]
        return np.asarray((own * self.natural(sums, shared)[..., self.linear]).sum(-1))


def coefficients_of(family: Family, sums: Floats, rest: Floats) -> tuple[Floats, Floats | float]:
    """Return coefficients of mixtures (..., k, s), log weights included, and what all rows share.

    The second is the part of the log-likelihood (...) that the shared features contribute.
    """
    shared = family.pool(sums, rest)
    found = family.natural(sums, shared)
    sizes = np.maximum(sums[..., 0], TINY)
    found[..., 0] += np.log(sizes / sizes.sum(-1, keepdims=True))
    base = family.shared_coefficients(shared)
    return found, 0.0 if base is None else np.asarray((base * rest).sum(-1))


def classified_level(family: Family, sums: Floats, rest: Floats) -> float:
    """Return the log-likelihood of rows with their components, for sums (k, s)."""
    shared = family.pool(sums, rest)
    sizes = np.maximum(sums[:, 0], TINY)
    level = family.emission(sums, shared) + sizes * np.log(sizes / sizes.sum())
    base = family.shared_coefficients(shared)
    return float(level.sum()) + (0.0 if base is None else float((base * rest).sum()))


def principal_scores(rows: Floats, weights: Floats, n_axes: int = 3) -> Floats:
    """Return the coordinates (k, m, a) of weighted rows (k, m, p) on their principal axes."""
    total = weights.sum(-1)[:, None, None] + TINY
    centred = rows - (weights[:, None] @ rows) / total
    covariances = (centred * weights[..., None]).swapaxes(-1, -2) @ centred / total
    axes = np.linalg.eigh(covariances)[1][..., ::-1][..., :n_axes]
    return np.asarray(centred @ axes)


def pair_columns(columns: Array) -> Array:
    """Return the products of all pairs i ≤ j of columns (n, p), in the order of triu_indices."""
    xp = namespace_of(columns)
    if isinstance(columns, np.ndarray):
        turned = np.ascontiguousarray(columns.T)
        return np.concatenate([column * turned[i:] for i, column in enumerate(turned)]).T
    first, second = triangle(int(columns.shape[1]))
    left = xp.take(columns, index_like(first, columns), axis=1)
    return left * xp.take(columns, index_like(second, columns), axis=1)


@cache
def triangle(size: int) -> tuple[Places, Places]:
    """Return the rows and columns of the upper triangle of a matrix."""
    return np.triu_indices(size)


def symmetric(upper: Floats, size: int) -> Floats:
    """Return symmetric matrices (..., p, p) from their upper triangles (..., p (p + 1) / 2)."""
    first, second = triangle(size)
    whole = np.empty((*upper.shape[:-1], size, size))
    whole[..., first, second] = upper
    whole[..., second, first] = upper
    return whole
