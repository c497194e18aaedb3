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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, TypeAlias

import numpy as np
from scipy.special import gammaln

from implicitmoments.arrays import Array, Floats, namespace_of
from implicitmoments.rows import Block, Rows

Places = np.ndarray[Any, np.dtype[np.int64]]
# by name, arrays (..., k, ·), or (..., 1, ·) of what all components share
Parameters: TypeAlias = dict[str, Floats]

TINY = 1e-12  # weight of a component that has no rows
GPU_COLUMNS = 128  # of a product; on an H200 one column more doubles its time
ALIGNED = 8  # numbers, at multiples of which rows of features begin on GPUs


@dataclass(frozen=True, eq=False, kw_only=True)
class Family(ABC):
    """Log densities that are linear in features of a row.

    Components have coefficients of their own for the first ``n_own`` features; those of the
    others are shared, so they change no responsibility. Arrays of features may be of any library;
    sums, parameters and coefficients are NumPy arrays in double precision.

    Attributes
    ----------
    n_own, n_features : int
        Features with coefficients per component, s in the shapes below; all features.
    log_jacobian : float
        Log density in the user's units less that of the features, per row.
    needs_logits : bool
        Whether :meth:`sum_features` takes the logits.
    similar_if_near : bool
        Whether rows at nearby :meth:`points` tend to be of one component. Then components start
        from small groups of neighbours; otherwise from small random sets of rows.
    constants : array of shape (d,) or None
        Values of columns that do not vary, NaN for others: a row with another value has density 0.
    name : str
        Name of the type, where several compete.
    option : tuple of two str
        An estimator, and its parameter that chooses between a family and :meth:`richer` ones.
    """

    n_own: int = 0
    n_features: int = 0
    log_jacobian: float = 0.0
    similar_if_near: bool = True
    constants: Floats | None = None
    name: str = ""
    needs_logits: ClassVar[bool] = False
    option: ClassVar[tuple[str, str]] = ("", "")

    @abstractmethod
    def prepare(self, rows: Rows) -> Family:
        """Return the family in the units of some rows: their centre, scales and floors."""

    @abstractmethod
    def features(self, block: Block) -> Array:
        """Return T(x) of the rows of a block, (n, n_features), in the precision of the rows.

        Law: the features of two blocks stacked are the features of the stacked rows.
        """

    def pool(self, sums: Floats, rest: Floats) -> Floats | None:  # noqa: ARG002
        """Return what components share or borrow from, (..., 1, ·); None for nothing.

        ``rest`` holds the sums of the shared features, over all rows, (..., n_features - s).
        """
        return None

    @abstractmethod
    def estimate(self, sums: Floats, shared: Any) -> Parameters:
        """Return the most likely parameters for sums (..., k, s), in the family's units.

        Laws: their coefficients maximise the product of sums and coefficients among all that the
        family has, unless a floor or borrowing of a component with few rows intervenes; they
        depend on each component's sums alone, given ``shared``; a batch gives the same as a loop
        over it.
        """

    @abstractmethod
    def coefficients(self, parameters: Parameters) -> tuple[Floats, Floats | None]:
        """Return coefficients (..., k, s), and those of the shared features (..., 1, ·)."""

    def natural(self, sums: Floats, shared: Any) -> Floats:
        """Return the most likely coefficients (..., k, s) for sums (..., k, s)."""
        return self.coefficients(self.estimate(sums, shared))[0]

    def logits(self, coefficients: Array, features: Array) -> Array:
        """Return the log densities (..., c, n) of rows (..., n, s) in c components (..., c, s).

        The product of coefficients and features, unless a family has a shorter way.
        """
        if isinstance(features, np.ndarray):
            return coefficients @ features.swapaxes(-1, -2)
        xp = namespace_of(features)
        # the logits of a row side by side, as kernels of GPUs want them
        return xp.matrix_transpose(features @ xp.matrix_transpose(coefficients))

    def sum_features(self, shares: Array, features: Array, _: Any, __: Any) -> Array:
        """Return the sums (..., c, s) of features weighted by responsibilities (..., c, n).

        The last two arguments are the coefficients and the logits, for families that need them.
        """
        if isinstance(features, np.ndarray):
            return shares @ features
        starts = range(0, int(features.shape[-1]), GPU_COLUMNS)
        parts = [shares @ features[..., first : first + GPU_COLUMNS] for first in starts]
        return namespace_of(features).concat(parts, axis=-1)

    @abstractmethod
    def split_scores(self, features: Floats, weights: Floats) -> Floats:
        """Return numbers (k, m, a) by which the m rows of each component may be divided in two.

        Of features (k, m, s) and weights (k, m).
        """

    def points(self, features: Floats) -> Floats:
        """Return rows as points (n, p) whose distances tell which rows may be of one component.

        Only families whose rows are similar if near have it.
        """
        raise NotImplementedError

    def leading(self, features: Floats, weights: Floats, k: int) -> tuple[Family, Floats] | None:  # noqa: ARG002
        """Return the family and features of the few directions in which k components differ.

        None if there are no fewer. A search there is shorter, and easier where rows are few.
        """
        return None

    @abstractmethod
    def n_parameters(self, k: int) -> int:
        """Return the number of free parameters of k components, their weights included."""

    def to_user(self, parameters: Parameters) -> Parameters:
        """Return parameters in the user's units, with the names and shapes of attributes.

        Leading axes of a batch are kept.
        """
        return parameters

    def sums_of(self, given: Parameters, sizes: Floats) -> Floats:
        """Return sums (k, s) of rows that have exactly these parameters, in the user's units.

        ``sizes`` (k,) are the numbers of rows. Law: the estimate of the sums has the parameters,
        where nothing is shared. Only families whose estimator takes a start have it.
        """
        raise NotImplementedError

    @abstractmethod
    def steps(self, parameters: Parameters) -> Parameters:
        """Return steps (c, q, ·) of each array of parameters (c, ·), of the size of the noise.

        They span the changes that matter, and small multiples stay in the family. Arrays that are
        known have no steps.
        """

    def unshared(self) -> Family:
        """Return the family in which each component has all coefficients of its own.

        This one, where shared features have no parameters.
        """
        return self

    def left_out(self) -> Places:
        """Return the columns of the rows that change no density, because they are constant."""
        return np.flatnonzero([] if self.constants is None else ~np.isnan(self.constants))

    def at_floor(self, sums: Floats, shared: Any) -> Places:  # noqa: ARG002
        """Return the components at the least noise that is allowed."""
        return np.zeros(0, dtype=np.int64)

    def richer(self) -> Sequence[Family]:
        """Return families of which this one is a special case."""
        return ()

    def convert(self, features: Floats, richer: Family) -> Floats:  # noqa: ARG002
        """Return the features of rows in a richer family."""
        return features

    def plain(self) -> Family:
        """Return the family whose sums are those of EM, without any acceleration."""
        return self

    def complete_level(self, sums: Floats, parameters: Parameters) -> Floats:
        """Return the expected complete log-likelihood (..., k) of sums of own features."""
        return np.asarray((sums * self.coefficients(parameters)[0]).sum(-1))

    @property
    def linear(self) -> slice:
        """Places of sums and coefficients whose product is a log-likelihood."""
        return slice(0, self.n_own)

    def emission(self, sums: Floats, shared: Any) -> Floats:
        """Return the log-likelihood (..., k) of the rows behind sums at their own maximum."""
        own = sums[..., self.linear]
        return np.asarray((own * self.natural(sums, shared)[..., self.linear]).sum(-1))


def coefficients_of(family: Family, sums: Floats, rest: Floats) -> tuple[Floats, Floats | float]:
    """Return coefficients of mixtures (..., k, s), log weights included, and what all rows share.

    The second is the part of the log-likelihood (...) that the shared features contribute.
    """
    found, base = family.coefficients(family.estimate(sums, family.pool(sums, rest)))
    sizes = np.maximum(sums[..., 0], TINY)
    found[..., 0] += np.log(sizes / sizes.sum(-1, keepdims=True))
    return found, 0.0 if base is None else np.asarray((base[..., 0, :] * rest).sum(-1))


def classified_level(family: Family, sums: Floats, rest: Floats) -> float:
    """Return the log-likelihood of rows with their components, for sums (k, s)."""
    found, base = coefficients_of(family, sums, rest)
    own = family.linear
    apart = sums[:, 0] @ found[:, 0] if own.start else 0.0  # log weights beside the product
    return float((sums[:, own] * found[:, own]).sum() + apart + base)


def principal_scores(rows: Floats, weights: Floats, n_axes: int = 3) -> Floats:
    """Return the coordinates (k, m, a) of weighted rows (k, m, p) on their principal axes.

    By orthogonal iteration, which costs m p a per step.
    """
    p, weights = rows.shape[-1], weights.astype(rows.dtype, copy=False)
    total = weights.sum(-1)[:, None, None] + rows.dtype.type(TINY)
    centred = rows - (weights[:, None] @ rows) / total
    weighted = (centred * weights[..., None]).swapaxes(-1, -2)
    axes = np.random.default_rng(0).normal(size=(len(rows), p, min(p, n_axes + 2)))
    axes = axes.astype(rows.dtype)
    for _ in range(5):
        axes = np.linalg.qr(weighted @ (centred @ axes))[0]
    return np.asarray(centred @ axes[..., :n_axes])


def empty_features(x: Array, width: int) -> Array:
    """Return room for the features (n, width) of rows, in their precision and on their device.

    In NumPy every column is in one piece of memory: then columns are computed fast.
    """
    xp, n = namespace_of(x), x.shape[0]
    if isinstance(x, np.ndarray):
        return np.empty((width, n), dtype=x.dtype).T
    room = xp.empty((n, width + -width % ALIGNED), dtype=x.dtype, device=x.device)
    return room[:, :width]


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


def upper_triangle(whole: Floats) -> Floats:
    """Return the upper triangles (..., p (p + 1) / 2) of matrices (..., p, p)."""
    return whole[..., *triangle(whole.shape[-1])]


def heavy_tails(gaussian: Array, peaks: Any, freedom: Any, p: int) -> Array:
    """Return the log density of Student's t, but for a constant, from that of a Gaussian.

    ``peaks`` are the largest Gaussian log densities, p the dimension of the noise.
    """
    xp = namespace_of(gaussian)
    distances = 2 * (peaks - gaussian)
    distances = xp.where(distances > 0, distances, xp.zeros_like(distances))
    found: Array = peaks - (freedom + p) / 2 * xp.log(1 + distances / freedom)
    return found


def log_constant(freedom: Any, p: int) -> Any:
    """Return the log density of Student's t at its centre less that of a Gaussian."""
    half = freedom / 2
    return gammaln(half + p / 2) - gammaln(half) - p / 2 * np.log(half)
