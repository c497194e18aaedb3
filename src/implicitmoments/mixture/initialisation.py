"""Starts of a Gaussian mixture: merged micro-components, k-means++, and decoded moments."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning

from implicitmoments.arrays import Floats, move_like, softmax_rows
from implicitmoments.mixture.agglomeration import FreeAgglomeration, GroupSums, TiedAgglomeration
from implicitmoments.mixture.decoding import Decoded, Decoder
from implicitmoments.mixture.family import GaussianFamily
from implicitmoments.mixture.gaussians import CovarianceType, Gaussians, inverse_roots
from implicitmoments.rows import DEFAULT_BUDGET, Rows, blocks, mean_and_covariance
from implicitmoments.rows.draws import Integers
from implicitmoments.search import SEARCH, bic, run_em

MICRO = 6  # micro-components per component: fewer mix components that overlap
ROWS_PER_MICRO = 20  # of the k-means: it need not be accurate
LLOYD_STEPS = 5
SEEDS_AT_ONCE = 4  # of the seeds before, one in so many is drawn without regard to one another
DETERMINANT_COST = 5e9  # d³ times pairs of groups: 0.2 to 2 seconds from 64 to 10 features
# Moments of a component of fewer rows are noise, and decoding more components takes longer than
# the rest of a fit.
ROWS_PER_DECODED, MOST_DECODED = 40, 100
# Starts of a kind, and their rows times components in all: few rows have many maxima, and cost
# little.
MOST_STARTS, WORK_OF_STARTS = 5, 100_000
QUICK = replace(SEARCH, steps=40, tol=2e-5)  # EM before starts are compared: it need not converge
FLAT = 1e-9  # of the mean variance: added to a covariance that is inverted


def partition_rows(sample: Rows, n: int, seed: int) -> Integers:
    """Divide held rows into at most n groups by k-means; return the group of each row.

    In the precision in which they are held.
    """
    x, counts = sample.points, sample.counts
    if n >= len(x):
        return np.arange(len(x))
    rng, some = np.random.default_rng(seed), np.arange(len(x))
    if len(x) > ROWS_PER_MICRO * n:
        some = np.sort(rng.choice(len(x), ROWS_PER_MICRO * n, replace=False))
    centers = x[some][scattered_places(x[some], counts[some], n, rng)]
    means = KMeans(n, init=centers, n_init=1, max_iter=LLOYD_STEPS)
    with warnings.catch_warnings():  # groups may be empty
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(means.fit(x[some], sample_weight=counts[some]).predict(x))


def scattered_places(x: Floats, counts: Floats, n: int, rng: np.random.Generator) -> Integers:
    """Choose n rows, each by its squared distance from those before, as k-means++ does.

    With one trial for each, and a quarter as many at once as there are before: scikit-learn's
    takes longer than the k-means that follows.
    """
    places, nearest = np.empty(n, dtype=np.int64), np.full(len(x), np.inf)
    squares, share, first = np.sum(x**2, axis=1), np.cumsum(counts), 0
    while first < n:
        last = min(n, first + max(1, first // SEEDS_AT_ONCE))
        draws = rng.random(last - first) * share[-1]
        at = np.minimum(np.searchsorted(share, draws, "right"), len(x) - 1)
        places[first:last], first = at, last
        for some in blocks(range(len(x)), max(1, DEFAULT_BUDGET.cache // len(at))):
            own = slice(some.start, some.stop)
            apart = squares[at] - 2 * (x[own] @ x[at].T)
            np.minimum(nearest[own], apart.min(axis=1) + squares[own], out=nearest[own])
        share = np.cumsum(counts * np.maximum(nearest, 0.0))
    return places


def sum_groups(sample: Rows, kind: CovarianceType, labels: Integers) -> GroupSums:
    """Return the sums of groups of held rows."""
    order, sizes = np.argsort(labels, kind="stable"), np.bincount(labels)
    x, counts = np.asarray(sample.points, dtype=np.float64)[order], sample.counts[order]
    sizes = sizes[sizes > 0]
    starts = np.cumsum(sizes) - sizes
    totals = np.add.reduceat(counts, starts)
    means = np.add.reduceat(counts[:, None] * x, starts, axis=0) / totals[:, None]
    apart = x - np.repeat(means, sizes, axis=0)
    own = (slice(start, start + size) for start, size in zip(starts, sizes, strict=True))
    inside = np.concatenate([kind.scatter(apart[rows], counts[rows]) for rows in own])
    return GroupSums(totals, means, inside)


def n_micro(kind: CovarianceType, sample: Rows, k: int | None, most: int) -> int:
    """Return the number of micro-components that are merged to k, or at most ``most``."""
    d, wanted = sample.n_features, k or most
    n = min(MICRO * wanted, int(sample.total / kind.fewest_rows(d)))
    if kind.shape == "full":  # the pairs of n groups have n²/2 determinants
        n = min(n, int((DETERMINANT_COST / d**3) ** 0.5))
    return max(n, k or 1)


def merged_state(family: GaussianFamily, groups: GroupSums, k: int | None, most: int) -> Gaussians:
    """Merge micro-components down to k components.

    For k None to the number with the least Bayesian information criterion of the
    classification likelihood, at most ``most``.
    """
    kind, d = family.kind, groups.means.shape[1]
    how = FreeAgglomeration if family.free else TiedAgglomeration
    joined = how(groups, family)
    joined.merge_to(k or most)
    if k is not None:
        return joined.state()
    least, best = np.inf, joined.state()
    while True:
        m = joined.k
        score = bic(-joined.cost, kind.n_parameters(m, d), joined.total)
        if score < least:
            least, best = score, joined.state()
        if m == 1:
            return best
        joined.merge()


def merged_by_shape(family: GaussianFamily, groups: GroupSums, k: int) -> Gaussians:
    """Merge micro-components as if each component had its own covariance, then share it.

    GroupSums on a long axis are one component before the covariance that all share is long, too.
    """
    free = replace(family, kind=CovarianceType(family.kind.shape), known=None)
    state = converted(merged_state(free, groups, k, k), family.kind)
    if family.known is None:
        return state
    return replace(state, covariances=np.broadcast_to(family.known, state.covariances.shape))


def scattered_state(sample: Rows, family: GaussianFamily, k: int, seed: int) -> Gaussians:
    """Choose k rows by k-means++, and assign each row to the nearest of them."""
    x = np.asarray(sample.points, dtype=np.float64)
    means, _ = kmeans_plusplus(x, k, sample_weight=sample.counts, random_state=seed)
    return nearest_state(sample, family, means)


def nearest_state(sample: Rows, family: GaussianFamily, means: Floats) -> Gaussians:
    """Return the mixture of the rows that are nearest to each of some means."""
    sample = sample.sample(sample.n, width=len(means))  # an array of all pairs fits into memory
    x = np.asarray(sample.points, dtype=np.float64)
    apart = np.sum(means**2, axis=1) - 2 * x @ means.T
    shares = np.zeros(apart.shape)
    shares[np.arange(len(x)), apart.argmin(axis=1)] = 1.0
    return family.from_shares(sample, move_like(shares, sample.block["x"]))


def decoded_state(
    rows: Rows,
    sample: Rows,
    family: GaussianFamily,
    k: int,
    order: int | None,
    rng: np.random.Generator,
) -> tuple[Gaussians | None, Decoded]:
    """Decode the means from moments, as of a mixture of spherical Gaussians.

    Rows are whitened where components share a covariance of another shape. The first is None
    where nothing can be decoded.

    Parameters
    ----------
    rows, sample : Rows
        All rows, of which more may be drawn, and held ones.
    order : int or None
        As in :class:`Decoder`.
    """
    kind = family.kind
    if k == 1 or k > MOST_DECODED or sample.n < ROWS_PER_DECODED * k:
        return None, Decoded()
    if kind.shape == "spherical":
        variance = None if family.known is None else float(np.mean(family.known))
        decoded = Decoder(order, variance).decode(rows, sample, k, rng)
        return decoded.mixture, decoded
    found = mean_and_covariance(sample)
    flat = FLAT * float(np.trace(found.covariance)) * np.eye(sample.n_features)
    root = inverse_roots((found.covariance + flat)[None])[0].T
    white = sample.mapped(found.mean, root).hold()
    decoded = Decoder(order).decode(white, white, k, rng)
    if decoded.mixture is None:
        return None, decoded
    sphere = GaussianFamily(CovarianceType("tied_spherical"))
    settled = run_em(sphere, white, decoded.mixture, QUICK).state
    return family.from_shares(sample, softmax_rows(sphere.log_joint(white, settled))[0]), decoded


def converted(state: Gaussians, kind: CovarianceType) -> Gaussians:
    """Return a mixture with covariances of another type; a shared one is the pooled one."""
    whole = state.expanded()
    covariances = kind.constrained(whole.covariances)
    if kind.tied:
        pooled = kind.constrained(whole.pooled[None])
        covariances = np.repeat(pooled, state.k, axis=0)
    return replace(state, covariances=covariances)


def n_starts(sample: Rows, k: int) -> int:
    """Return how many starts of a kind are worth their time: the more, the fewer rows."""
    return min(MOST_STARTS, max(1, WORK_OF_STARTS // (k * sample.n)))


def starts_of(
    sample: Rows, family: GaussianFamily, k: int, which: Sequence[str], rng: np.random.Generator
) -> Iterator[tuple[str, Gaussians]]:
    """Yield the starts asked for but the moments, with their names; the random ones repeatedly.

    The fewer rows, the more starts.
    """
    for _ in range(n_starts(sample, k)):
        seed = int(rng.integers(2**31))
        if "merge" in which:
            labels = partition_rows(sample, n_micro(family.kind, sample, k, k), seed)
            groups = sum_groups(sample, family.kind, labels)
            yield "merge", merged_state(family, groups, k, k)
            if not family.free and family.kind.shape != "spherical":  # which has no long axis
                yield "merge", merged_by_shape(family, groups, k)
        if "k-means++" in which:
            yield "k-means++", scattered_state(sample, family, k, seed)
