"""Starts of a Gaussian mixture: merged micro-components, k-means++, and decoded moments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.cluster import KMeans, kmeans_plusplus

from implicitmoments.arrays import Floats, move_like, softmax_rows, to_numpy
from implicitmoments.mixture.decoding import Decoded, Decoder
from implicitmoments.mixture.gaussian_family import GaussianFamily
from implicitmoments.mixture.gaussians import CovarianceType, Gaussians, inverse_roots
from implicitmoments.rows import Rows, mean_and_covariance
from implicitmoments.rows.draws import Integers
from implicitmoments.search import SEARCH, bic, run_em
from implicitmoments.search.em import Places

MICRO = 6  # micro-components per component: fewer mix components that overlap
ROWS_PER_MICRO = 100  # of the k-means: it need not be accurate
LLOYD_STEPS = 10
DETERMINANT_COST = 2e10  # multiplications of the determinants of all pairs: a few seconds
# Moments of a component of fewer rows are noise, and decoding more components takes longer than
# the rest of a fit.
ROWS_PER_DECODED, MOST_DECODED = 40, 100
QUICK = replace(SEARCH, steps=40, tol=2e-5)  # EM before starts are compared: it need not converge
FLAT = 1e-9  # of the mean variance: added to a covariance that is inverted


@dataclass(frozen=True, eq=False)
class Groups:
    """Sums over groups of rows, from which the likelihood of their merges follows."""

    counts: Floats  # (m,)
    means: Floats  # (m, d)
    inside: Floats  # (m, q), sums of products about the means, as the type of covariance has them

    def take(self, chosen: Places) -> Groups:
        """Return some of the groups."""
        return Groups(self.counts[chosen], self.means[chosen], self.inside[chosen])


def micro_components(sample: Rows, kind: CovarianceType, n: int, seed: int) -> Groups:
    """Divide held rows into n groups by k-means, and return their sums."""
    x, counts = np.asarray(sample.points, dtype=np.float64), sample.counts
    rng = np.random.default_rng(seed)
    if n >= len(x):
        labels = np.arange(len(x))
    else:
        some = np.arange(len(x))
        if len(x) > ROWS_PER_MICRO * n:
            some = np.sort(rng.choice(len(x), ROWS_PER_MICRO * n, replace=False))
        means = KMeans(n, n_init=1, max_iter=LLOYD_STEPS, random_state=seed)
        labels = means.fit(x[some], sample_weight=counts[some]).predict(x)
    n_groups = int(labels.max()) + 1
    member = csr_matrix((counts, (labels, np.arange(len(x)))), shape=(n_groups, len(x)))
    lifted = sample.lifted_by(kind.lift)
    if lifted.held:
        sums = member @ to_numpy(lifted.block["x"])
    else:
        sums, start = np.zeros(()), 0
        for block in lifted.blocks():
            end = start + int(block["x"].shape[0])
            sums = sums + member[:, start:end] @ to_numpy(block["x"])
            start = end
    d = x.shape[1]
    filled = sums[:, -1] > 0
    sizes = sums[filled, -1]
    centers = sums[filled, :d] / sizes[:, None]
    inside = sums[filled, d:-1] - sizes[:, None] * kind.products(centers)
    if kind.shape != "full":
        inside = np.maximum(inside, 0.0)  # but for rounding
    return Groups(sizes, centers, inside)


class Agglomeration:
    """Groups that are merged greedily by the Gaussian likelihood of their rows.

    The cost of a group is :math:`n/2 log|C| - n log(n / N)`, with a covariance C that borrows
    d + 1 rows from the pooled one; that of a pair is the rise of the sum of all costs.
    """

    def __init__(self, groups: Groups, family: GaussianFamily) -> None:
        self.groups, self.kind = groups, family.kind
        self.ridge = float(np.mean(family.least))
        self.total, self.d = float(groups.counts.sum()), groups.means.shape[1]
        self.pooled = groups.inside.sum(axis=0) / self.total
        self.own = self._cost(groups.counts, groups.inside)
        self.pairs = np.array([self._row(i) for i in range(len(groups.counts))])

    @property
    def cost(self) -> float:
        """Minus the classification log-likelihood of all rows, up to a constant."""
        return float(self.own.sum())

    def merge(self) -> None:
        """Merge the pair that costs least."""
        a, b = sorted(divmod(int(np.argmin(self.pairs)), len(self.own)))
        merged = self._merged(a, np.array([b]))
        others = np.arange(len(self.own)) != b
        g = self.groups
        for name in ("counts", "means", "inside"):
            getattr(g, name)[a] = getattr(merged, name)[0]
        self.groups, self.own = g.take(others), self.own[others]
        self.pairs = self.pairs[np.ix_(others, others)]
        self.own[a] = self._cost(merged.counts, merged.inside)[0]
        self.pairs[a] = self.pairs[:, a] = self._row(a)

    def state(self, family: GaussianFamily) -> Gaussians:
        """Return the mixture of the groups."""
        g, d = self.groups, self.d
        covariances = self.kind.covariances(self._borrowed(g.counts, g.inside), d)
        if self.kind.tied:
            shared = self.kind.covariances(g.inside.sum(axis=0)[None] / self.total, d)
            covariances = np.repeat(shared, len(g.counts), axis=0)
        if family.known is not None:
            covariances = np.broadcast_to(family.known, covariances.shape)
        return Gaussians(g.counts / self.total, g.means.copy(), family.raised(covariances))

    def _merged(self, a: int, others: Integers) -> Groups:
        """Return group a merged with each of some others."""
        g = self.groups
        counts = g.counts[a] + g.counts[others]
        apart = g.means[others] - g.means[a]
        share = (g.counts[others] / counts)[:, None]
        inside = g.inside[a] + g.inside[others]
        inside = inside + g.counts[a] * share * self.kind.products(apart)
        return Groups(counts, g.means[a] + share * apart, inside)

    def _row(self, a: int) -> Floats:
        """Return the rise of the cost by merging group a with each of the others."""
        merged = self._merged(a, np.arange(len(self.own)))
        rise = self._cost(merged.counts, merged.inside) - self.own - self.own[a]
        rise[a] = np.inf
        return np.asarray(rise)

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


def merged_state(
    sample: Rows, family: GaussianFamily, k: int | None, most: int, seed: int
) -> Gaussians:
    """Merge micro-components down to k components.

    For k None to the number with the least Bayesian information criterion of the
    classification likelihood, at most ``most``.
    """
    kind, d, wanted = family.kind, sample.n_features, k or most
    n = MICRO * wanted
    if kind.shape == "full":  # the pairs of n groups have n² determinants
        n = max(2 * wanted, min(n, int((DETERMINANT_COST / d**3) ** 0.5)))
    groups = micro_components(sample, kind, n, seed)
    joined = Agglomeration(groups, family)
    while len(joined.own) > wanted:
        joined.merge()
    if k is not None:
        return joined.state(family)
    least, best = np.inf, joined.state(family)
    while True:
        m = len(joined.own)
        score = bic(-joined.cost, kind.n_parameters(m, d), joined.total)
        if score < least:
            least, best = score, joined.state(family)
        if m == 1:
            return best
        joined.merge()


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


def starts_of(
    sample: Rows,
    family: GaussianFamily,
    k: int,
    which: Sequence[str],
    n_init: int,
    rng: np.random.Generator,
) -> Iterator[tuple[str, Gaussians]]:
    """Yield the starts asked for but the moments, with their names, n_init times each."""
    for _ in range(n_init):
        seed = int(rng.integers(2**31))
        if "merge" in which:
            yield "merge", merged_state(sample, family, k, k, seed)
        if "k-means++" in which:
            yield "k-means++", scattered_state(sample, family, k, seed)
