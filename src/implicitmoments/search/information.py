"""Information about the parameters of a mixture, and their covariance.

Of a component only its score is needed: the derivative of its log density. Rows that may be of
several components tell less than rows whose component is known (Louis 1982).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from implicitmoments.arrays import Array, Floats, cross_sums, move_like, namespace_of, to_numpy
from implicitmoments.notes import Note
from implicitmoments.rows import Block, Rows, Sums
from implicitmoments.search.em import Places

ROWS_PER_PARAMETER = 20  # at least, so that the information of a sample is not singular
MOST_NUMBERS = 2**31  # multiplications for the outer products; beyond it, a sample is used
UNEQUAL = 1e-9  # relative variance of weights that is more than rounding
MOST_PARAMETERS = 2**12  # a matrix of 128 MiB, and a minute of one core to fill it


@dataclass(frozen=True, eq=False)
class ComponentScores:
    r"""What a block of n rows tells of k components with q parameters each.

    Attributes
    ----------
    shares : array of shape (n, k)
        Responsibilities :math:`R_i`.
    scores : array of shape (n, k, q)
        Derivatives :math:`S_i` of the log density of component i in its own parameters.
    curvatures : array of shape (k, q, q)
        Sums over rows of minus the second derivatives :math:`B_i`, each times its responsibility
        and the weight of the row.
    """

    shares: Array
    scores: Array
    curvatures: Floats


class ScoredComponents(Protocol):
    """Requirements of the information: components whose scores are known."""

    @property
    def weights(self) -> Floats:
        """Weights of the components, (k,)."""
        ...

    @property
    def n_own(self) -> int:
        """Parameters that each component has for itself: the first of its q."""
        ...

    @property
    def n_common(self) -> int:
        """Parameters that all components have in common: the last of the q of each."""
        ...

    def __call__(self, block: Block) -> ComponentScores:
        """Return the scores of a block of rows."""
        ...

    def information(self, block: Block) -> Sums:
        """Return the sums of :func:`information_sums`, perhaps in fewer operations."""
        ...

    def leverages(self, block: Block, covariances: Floats) -> Array:
        r"""Return :math:`\operatorname{tr}(V_i B_i)` of each row, (n, k) or (1, k).

        For covariances :math:`V_i` of the parameters of each component, (k, q, q).
        """
        ...


@dataclass(frozen=True, eq=False)
class Layout:
    r"""Places of the parameters of k components in one vector of m numbers.

    Those of the components one after the other, those in common, and :math:`\log w_i` of all
    components but the last, up to a common constant.
    """

    k: int
    n_own: int
    n_common: int

    @classmethod
    def of(cls, components: ScoredComponents) -> Layout:
        """Return the layout of components."""
        return cls(len(components.weights), components.n_own, components.n_common)

    @property
    def log_weights(self) -> slice:
        """Places of the log-weights."""
        return slice(self.k * self.n_own + self.n_common, self.size)

    @property
    def size(self) -> int:
        """The number m of parameters."""
        return self.k * (self.n_own + 1) + self.n_common - 1

    def places(self, i: int) -> Places:
        """Return the places of the q parameters of component i."""
        common = self.k * self.n_own
        own = np.arange(i * self.n_own, (i + 1) * self.n_own)
        return np.append(own, np.arange(common, common + self.n_common))


def measure_information(rows: Rows, components: ScoredComponents) -> Floats:
    r"""Measure the observed information of all rows in one pass, (m, m).

    Minus the second derivative of the log-likelihood in the parameters of :class:`Layout`. A row
    adds :math:`\sum_i R_i (B_i - S_i S_i^T) + s s^T`, with its score
    :math:`s = \sum_i R_i S_i`. The score of :math:`\log w_j` if a row is of component i is
    :math:`\delta_{ij} - w_j`.
    """
    layout, w = Layout.of(components), components.weights[:-1]
    sums = rows.fold(components.information, width=_width(layout), what="standard errors")
    observed, masses = sums["outer"].copy(), sums["masses"]
    observed[layout.log_weights, layout.log_weights] += masses.sum() * _weight_information(w)
    for i in range(layout.k):
        places = np.append(layout.places(i), np.arange(layout.size)[layout.log_weights])
        score = np.eye(layout.k)[i, :-1] - w  # of the log-weights
        cross = np.outer(sums["scores"][i], score)
        products = [
            [sums["products"][i], cross],
            [cross.T, masses[i] * np.outer(score, score)],
        ]
        observed[np.ix_(places, places)] -= np.block(products)
    return np.asarray(observed)


def _width(layout: Layout) -> int:
    """Return how many numbers are computed per row."""
    return 3 * layout.size + 2 * layout.k * (layout.n_own + layout.n_common + 2)


def _weight_information(w: Floats) -> Floats:
    """Return the information of a row of known component about the log-weights."""
    return np.asarray(np.diag(w) - np.outer(w, w))


def _row_scores(found: ComponentScores, components: ScoredComponents) -> Array:
    """Return the scores s of rows, (n, m)."""
    xp, own = namespace_of(found.shares), components.n_own
    parts = found.shares[:, :, None] * found.scores
    n, k, _ = parts.shape
    return xp.concat(
        [
            xp.reshape(parts[:, :, :own], (n, k * own)),
            xp.sum(parts[:, :, own:], axis=1),
            found.shares[:, :-1] - move_like(components.weights[:-1], parts),
        ],
        axis=1,
    )


def information_sums(components: ScoredComponents, block: Block) -> Sums:
    r"""Return the sums over rows of which the information is made.

    ``outer``, products of the scores of rows, (m, m); and by component ``products``, those of its
    scores less the curvatures, :math:`\sum R_i (S_i S_i^T - B_i)`, ``scores`` and ``masses``.
    """
    found = components(block)
    R, S = found.shares, found.scores
    c, scores = row_weights(block, R), _row_scores(found, components)
    weighted = R * c
    products = [
        cross_sums(weighted[:, i, None] * S[:, i, :], S[:, i, :]) for i in range(R.shape[1])
    ]
    sums = [cross_sums(weighted[:, i, None], S[:, i, :])[0, :] for i in range(R.shape[1])]
    return {
        "outer": to_numpy(cross_sums(scores * c, scores)),
        "products": np.stack([to_numpy(each) for each in products]) - found.curvatures,
        "scores": np.stack([to_numpy(each) for each in sums]),
        "masses": to_numpy(cross_sums(c, R))[0],
    }


@dataclass(frozen=True, eq=False)
class _Outer:
    """The sum over rows of products of their scores, larger for rows of high leverage."""

    components: ScoredComponents
    covariances: Floats  # of the parameters of each component, (k, q, q)
    weights: float  # leverage on the weights, the same for all rows
    proportions: bool  # weights of rows say how much one row counts, not how many rows it is

    def __call__(self, block: Block) -> Sums:
        found = self.components(block)
        xp, c = namespace_of(found.shares), row_weights(block, found.shares)
        c = c**2 if self.proportions else c
        leverages = found.shares * self.components.leverages(block, self.covariances)
        h = xp.sum(leverages, axis=1, keepdims=True) + self.weights
        scores = _row_scores(found, self.components)
        return {"outer": to_numpy(cross_sums(scores * c * xp.exp(2 * h), scores))}


def row_weights(block: Block, like: Array) -> Array:
    """Return how often each row of a block counts, (n, 1)."""
    counts = block.get("counts")
    return namespace_of(like).ones_like(like[:, :1]) if counts is None else counts[:, None]


def parameter_covariance(
    rows: Rows, components: ScoredComponents, *, robust: bool, n: int | None = None
) -> Floats | None:
    r"""Return the covariance of all estimates, (m, m), in the order of :class:`Layout`.

    The inverse :math:`I^{-1}` of the observed information, which is right if the model is, times
    N / (N - m), as in least squares. Or the sandwich
    :math:`I^{-1} (\sum_n e^{2 h_n} s_n s_n^T) I^{-1}` (Huber 1967), which describes the spread of
    the estimates whatever the law of the rows is. The leverage :math:`h_n` of a row is the trace
    of :math:`I^{-1} \sum_i R_i B_i`, its information if its component was known. For small h the
    factor is :math:`1/(1 - h)^2` of HC3 (MacKinnon and White 1985), almost the jackknife; where
    components overlap h may exceed 1.

    Parameters
    ----------
    rows : Rows
        All rows that were fitted.
    robust : bool
        The sandwich.
    n : int, optional
        Rows on which the information is measured, or more where it is indefinite there: the
        estimates maximise the likelihood of all rows, not that of a sample.

    Returns
    -------
    array or None
        None where there are too many parameters, and where all rows, or as many as a sample
        holds, leave the information indefinite.
    """
    m, before = Layout.of(components).size, 0
    if m > MOST_PARAMETERS or rows.total <= m:
        return None
    n = n or max(ROWS_PER_PARAMETER * m, MOST_NUMBERS // m**2)
    while True:
        some = rows if rows.kept < 2 * n else rows.sample(n)
        times = rows.total / some.total
        inverse = _inverse(times * measure_information(some, components))
        if inverse is not None or some is rows or some.kept <= before:
            break
        before, n = some.kept, 2 * n
    if inverse is None:
        return None
    if not robust:
        return inverse * (rows.total / (rows.total - m))
    return inverse @ (times * _measure_outer(some, components, inverse)) @ inverse


def _inverse(information: Floats) -> Floats | None:
    """Invert the information; None where it is not positive definite."""
    try:
        np.linalg.cholesky(information)
    except np.linalg.LinAlgError:
        return None
    return np.asarray(np.linalg.inv(information))


def _measure_outer(rows: Rows, components: ScoredComponents, inverse: Floats) -> Floats:
    """Sum products of the scores of rows in one pass."""
    layout = Layout.of(components)
    every = (layout.places(i) for i in range(layout.k))
    covariances = np.stack([inverse[np.ix_(places, places)] for places in every])
    within = inverse[layout.log_weights, layout.log_weights]
    weights = float(np.sum(within * _weight_information(components.weights[:-1])))
    outer = _Outer(components, covariances, weights, _are_proportions(rows))
    sums = rows.fold(outer, width=_width(layout), what="standard errors")
    return np.asarray(sums["outer"])


def _are_proportions(rows: Rows) -> bool:
    """Say whether rows have weights that are no counts: unequal, and not whole numbers."""
    if not rows.weighted_rows:
        return False
    sums = rows.fold(_sum_parts, what="standard errors")
    unequal = sums["squares"] * sums["n"] > (1 + UNEQUAL) * sums["total"] ** 2
    return bool(sums["parts"] and unequal)


def _sum_parts(block: Block) -> Sums:
    c = to_numpy(block["counts"])
    return {
        "parts": np.count_nonzero(c != np.round(c)),
        "n": np.count_nonzero(c),
        "total": np.sum(c),
        "squares": c @ c,
    }


def unknown_errors(components: ScoredComponents, errors: Floats) -> list[Note]:
    """Return a note where errors are NaN."""
    m = Layout.of(components).size
    if np.all(np.isfinite(errors)):
        return []
    if m > MOST_PARAMETERS:
        return [Note("errors_too_large", {"n": m, "most": MOST_PARAMETERS})]
    return [Note("errors_unknown", {"n": m})]


def weight_errors(covariance: Floats, weights: Floats) -> Floats:
    """Return standard errors of the weights, (k,), from the covariance of all estimates."""
    free = len(weights) - 1
    turn = _weight_information(weights)[:, :free]  # dw over d log-weights
    inside = covariance[len(covariance) - free :, len(covariance) - free :]
    return np.asarray(np.sqrt(np.einsum("ia,ab,ib->i", turn, inside, turn)))
