"""Starts of a Gaussian mixture: merged micro-components, k-means++, and decoded moments."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning

from implicitmoments.arrays import Floats, move_like, softmax_rows
from implicitmoments.mixture.candidates import inverse_root
from implicitmoments.mixture.decoding import Decoded, Decoder
from implicitmoments.mixture.family import GaussianFamily
from implicitmoments.mixture.gaussians import (
    CovarianceType,
    Gaussians,
    inverse_roots,
    precisions_of,
)
from implicitmoments.rows import DEFAULT_BUDGET, Rows, mean_and_covariance
from implicitmoments.rows.draws import Integers
from implicitmoments.search import SEARCH, bic, run_em
from implicitmoments.search.em import Places

MICRO = 6  # micro-components per component: fewer mix components that overlap
ROWS_PER_MICRO = 20  # of the k-means: it need not be accurate
LLOYD_STEPS = 5
DETERMINANT_COST = 5e9  # d³ times pairs of groups: 0.2 to 2 seconds from 64 to 10 features
# Moments of a component of fewer rows are noise, and decoding more components takes longer than
# the rest of a fit.
ROWS_PER_DECODED, MOST_DECODED = 40, 100
# Starts of a kind, and their rows times components in all: few rows have many maxima, and cost
# little.
MOST_STARTS, WORK_OF_STARTS = 5, 100_000
QUICK = replace(SEARCH, steps=40, tol=2e-5)  # EM before starts are compared: it need not converge
FLAT = 1e-9  # of the mean variance: added to a covariance that is inverted


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Sums over groups of rows, from which the likelihood of their merges follows."""

    counts: Floats  # (m,)
    means: Floats  # (m, d)
    inside: Floats  # (m, q), sums of products about the means, as the type of covariance has them

    @property
    def k(self) -> int:
        """Number of groups."""
        return len(self.counts)

    def take(self, chosen: Places) -> GroupSums:
        """Return some of the groups."""
        return GroupSums(self.counts[chosen], self.means[chosen], self.inside[chosen])

    def merged(self, a: int | Integers, others: Integers, kind: CovarianceType) -> GroupSums:
        """Return group a, or several of them, merged with some others."""
        counts = self.counts[a] + self.counts[others]
        apart = self.means[others] - self.means[a]
        share = self.counts[others] / counts
        inside = self.inside[a] + self.inside[others]
        inside += (self.counts[a] * share)[:, None] * kind.products(apart)
        return GroupSums(counts, self.means[a] + share[:, None] * apart, inside)

    def joined(self, a: int, b: int, kind: CovarianceType) -> GroupSums:
        """Return the groups with a < b merged in the place of a."""
        found = self.copy()
        found.replace(a, self.merged(a, np.array([b]), kind))
        return found.take(np.delete(np.arange(len(self.counts)), b))

    def copy(self) -> GroupSums:
        """Return a copy."""
        return self.take(np.arange(self.k))

    def replace(self, a: int, one: GroupSums) -> None:
        """Put the only group of others in the place of a."""
        self.counts[a], self.means[a], self.inside[a] = one.counts[0], one.means[0], one.inside[0]


def partition_rows(sample: Rows, n: int, seed: int) -> Integers:
    """Divide held rows into at most n groups by k-means; return the group of each row."""
    x, counts = np.asarray(sample.points, dtype=np.float64), sample.counts
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

    With one trial for each: scikit-learn's takes longer than the k-means that follows.
    """
    places, nearest = np.empty(n, dtype=np.int64), np.full(len(x), np.inf)
    squares, share = np.sum(x**2, axis=1), np.cumsum(counts)
    for i, draw in enumerate(rng.random(n)):
        places[i] = at = min(int(np.searchsorted(share, draw * share[-1], "right")), len(x) - 1)
        apart = squares - 2 * (x @ x[at])
        np.minimum(nearest, np.maximum(apart + squares[at], 0.0), out=nearest)
        share = np.cumsum(counts * nearest)
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


class Agglomeration:
    """GroupSums that are merged greedily by the likelihood of a Gaussian for each.

    The cost of a group is :math:`n/2 log|C| - n log(n / N)`, with a covariance C that borrows
    d + 1 rows from the pooled one; that of a pair is the rise of the sum of all costs.
    """

    def __init__(self, groups: GroupSums, family: GaussianFamily) -> None:
        # a copy: groups are merged in place
        self.every, self.kind, self.family = groups.copy(), family.kind, family
        self.ridge = float(np.mean(family.least))
        self.total, self.d = float(groups.counts.sum()), groups.means.shape[1]
        self.pooled = groups.inside.sum(axis=0) / self.total
        self.own = self._cost(groups.counts, groups.inside)
        self.left = np.arange(groups.k)  # places of groups; those merged into others stay
        self.pairs = np.full((groups.k, groups.k), np.inf)
        i, j = np.triu_indices(groups.k, 1)
        step = max(1, DEFAULT_BUDGET.cache // self.d**2)
        for first in range(0, len(i), step):
            a, b = i[first : first + step], j[first : first + step]
            self.pairs[a, b] = self.pairs[b, a] = self._rises(a, b)

    @property
    def groups(self) -> GroupSums:
        """The groups that are left."""
        return self.every.take(self.left)

    @property
    def k(self) -> int:
        """Number of groups."""
        return len(self.left)

    @property
    def cost(self) -> float:
        """Minus the classification log-likelihood of all rows, up to a constant."""
        return float(self.own[self.left].sum())

    def merge(self) -> None:
        """Merge the pair that costs least."""
        a, b = sorted(divmod(int(np.argmin(self.pairs)), len(self.own)))
        one = self.every.merged(a, np.array([b]), self.kind)
        self.every.replace(a, one)
        self.own[a] = self._cost(one.counts, one.inside)[0]
        self.left = self.left[self.left != b]
        self.pairs[b] = self.pairs[:, b] = np.inf
        rest = self.left[self.left != a]
        self.pairs[a, rest] = self.pairs[rest, a] = self._rises(a, rest)

    def state(self) -> Gaussians:
        """Return the mixture of the groups."""
        g, d = self.groups, self.d
        covariances = self.kind.covariances(self._borrowed(g.counts, g.inside), d)
        return Gaussians(g.counts / self.total, g.means, self.family.raised(covariances))

    def _rises(self, a: int | Integers, others: Integers) -> Floats:
        """Return the rise of the cost by merging group a, or several, with some others."""
        merged = self.every.merged(a, others, self.kind)
        return self._cost(merged.counts, merged.inside) - self.own[others] - self.own[a]

    def _borrowed(self, counts: Floats, inside: Floats) -> Floats:
        lent = self.d + 1.0
        return np.asarray((inside + lent * self.pooled) / (counts + lent)[:, None])

    def _cost(self, counts: Floats, inside: Floats) -> Floats:
        d, products = self.d, self._borrowed(counts, inside)
        if self.kind.shape == "full":
            covariances = self.kind.covariances(products, d) + self.kind.ridge(d, self.ridge)
            logs = np.linalg.slogdet(covariances)[1]
        else:
            factor = d if self.kind.shape == "spherical" else 1
            logs = factor * np.log(products / factor + self.ridge).sum(axis=1)
        return np.asarray(0.5 * counts * logs - counts * np.log(counts / self.total))


class TiedAgglomeration:
    r"""GroupSums that are merged greedily by the likelihood of Gaussians with one covariance.

    A merge of two groups, whose means differ by δ, adds c δδᵀ to the sum of products about the
    means, with :math:`c = n_a n_b / (n_a + n_b)`. The log-likelihood of N rows falls by
    :math:`N/2 log(1 + c δᵀW^{-1}δ / N)` (matrix determinant lemma), where W is the covariance that
    all share; by d times as many terms, each of the mean over columns, if it is spherical; and by
    :math:`c δᵀW^{-1}δ / 2` if it is known. For a diagonal one the first is a lower bound.
    """

    def __init__(self, groups: GroupSums, family: GaussianFamily) -> None:
        self.groups, self.family = groups, family
        self.total = float(groups.counts.sum())

    @property
    def k(self) -> int:
        """Number of groups."""
        return self.groups.k

    @property
    def covariance(self) -> Floats:
        """The covariance that all groups share: (d, d), or its diagonal."""
        g, family = self.groups, self.family
        pooled = family.kind.covariances(g.inside.sum(axis=0)[None] / self.total, g.means.shape[1])
        return np.asarray(family.raised(pooled)[0])

    @property
    def cost(self) -> float:
        """Minus the classification log-likelihood of all rows, up to a constant."""
        n, known = self.groups.counts, self.family.known
        precisions, log_dets = precisions_of(self.metric[None])
        level = log_dets[0] if known is None else np.sum(precisions[0] * self.covariance)
        return float(0.5 * self.total * level - n @ np.log(n / self.total))

    @property
    def metric(self) -> Floats:
        """The covariance in whose metric groups are far apart or near."""
        known, own = self.family.known, self.covariance
        return own if known is None else np.asarray(np.broadcast_to(known, own.shape))

    def merge(self) -> None:
        """Merge the pair that costs least."""
        g, total = self.groups, self.total
        root = inverse_root(self.metric)
        z = g.means @ root if root.ndim == 2 else g.means * root
        squares = np.sum(z**2, axis=1)
        together = g.counts[:, None] + g.counts
        rise = np.maximum(squares[:, None] + squares - 2 * z @ z.T, 0.0)
        rise *= g.counts[:, None] * g.counts / together
        if self.family.known is None:
            folds = z.shape[1] if self.family.kind.shape == "spherical" else 1
            rise = total * folds * np.log1p(rise / (total * folds))
        own = g.counts * np.log(g.counts / total)
        costs = 0.5 * rise - together * np.log(together / total) + own[:, None] + own
        np.fill_diagonal(costs, np.inf)
        a, b = sorted(divmod(int(np.argmin(costs)), len(own)))
        self.groups = g.joined(a, b, self.family.kind)

    def state(self) -> Gaussians:
        """Return the mixture of the groups."""
        g, shared = self.groups, self.metric
        covariances = np.repeat(shared[None], len(g.counts), axis=0)
        return Gaussians(g.counts / self.total, g.means.copy(), covariances)


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
    how = Agglomeration if family.free else TiedAgglomeration
    joined = how(groups, family)
    while joined.k > (k or most):
        joined.merge()
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
            if not family.free:
                yield "merge", merged_by_shape(family, groups, k)
        if "k-means++" in which:
            yield "k-means++", scattered_state(sample, family, k, seed)
