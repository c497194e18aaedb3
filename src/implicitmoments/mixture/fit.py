"""Fit of a spherical mixture: several starts, moves on a sample, EM on all rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.cluster import kmeans_plusplus

from implicitmoments.arrays import Floats, check_squares, to_numpy
from implicitmoments.mixture.common_variance import guess_variance
from implicitmoments.mixture.family import SphericalFamily, VarianceModel
from implicitmoments.mixture.likelihood import Mixture
from implicitmoments.moments import implicit_moments
from implicitmoments.moments.components import Components, find_components
from implicitmoments.moments.framed_rows import all_rows
from implicitmoments.notes import Note, Notes
from implicitmoments.problems import SphericalMixtureProblem
from implicitmoments.rows import Rows
from implicitmoments.rows.outliers import far_limit, leave_out_outliers
from implicitmoments.search import SEARCH, Budget, Fitted, choose_k, run_em, search_moves

MANY_ROWS = (
    200_000  # for a second attempt at the moments, where the first did not resolve all components
)
CLEAR_GAP = 1.2  # k-th eigenvalue over the noise floor at which one attempt is enough
ABOVE = 1.25  # noise floors above which an eigenvalue is a component (starting value)
SMALLEST_WEIGHT = 0.1  # of 1/k, in a start, so that no component is lost in EM (starting value)
QUICK = replace(SEARCH, steps=40, tol=2e-5)  # EM before starts are compared: it need not converge
CLEARLY = 2.0  # log-likelihood gain on the sample required to prefer k-means++
FAR_OUT = 100.0  # units: a square is then 1e4, which float32 resolves to 1e-3


def draw_sample(rows: Rows, n: int, rng: np.random.Generator, width: int = 1) -> Rows:
    """Hold about n rows, drawn at random; equal rows are counted once.

    Single precision is enough for a search. Where ``width`` numbers will be made of each row, n
    is at most what memory should hold.
    """
    return rows.sample(n, rng, width=width, single=True).merged()


def without_outliers(rows: Rows, k: int, *, drop: bool) -> tuple[Rows, int]:
    """Leave out outliers, if asked for, and count rows; return how many were left out.

    Rows that lie too far out for single precision are read in double precision.
    """
    rows, n_out = leave_out_outliers(rows, k, drop=drop)
    check_squares("X", rows.census.squares or 0.0)
    return replace(rows, wide=(rows.census.longest or 0.0) > FAR_OUT**2), n_out


@dataclass(frozen=True, eq=False)
class DecodedMixture:
    """Result of decoding the moments."""

    mixture: Mixture | None = None  # none where they give none
    components: Components | None = None
    notes: Notes = field(default_factory=Notes)  # what they leave open
    numbers: dict[str, Any] | None = None  # what was measured

    @property
    def clear(self) -> bool:
        """Whether all components stand clear of the noise."""
        found = self.components
        return found is not None and found.identified and found.gap >= CLEAR_GAP


@dataclass(frozen=True, eq=False)
class Start:
    """A mixture at which EM on a sample of rows has settled."""

    mixture: Mixture
    kind: str  # {"moments", "scattered"}
    decoded: DecodedMixture
    levels: dict[str, float]  # mean log-likelihood on the sample of each start that competed


def choose_start(
    sample: Rows,
    k: int,
    decoded: DecodedMixture,
    family: SphericalFamily,
    rng: np.random.Generator,
) -> Start:
    """Run EM from the moments and from k-means++; return the fit of higher likelihood.

    Parameters
    ----------
    sample : Rows
        Rows on which the starts are compared.
    decoded : DecodedMixture
        What the moments give.
    """
    if k == 1:
        one = Mixture(np.ones(1), np.zeros((1, sample.n_features)), np.ones(1))
        return Start(family.m_step(family.e_step(sample, one), one), "moments", decoded, {})
    starts = {"scattered": scattered_mixture(sample, k, family.model, rng)}
    if decoded.mixture is not None:
        starts["moments"] = decoded.mixture
    settled: dict[str, Fitted[Mixture]] = {
        kind: run_em(family, sample, mixture, QUICK) for kind, mixture in starts.items()
    }
    levels = {kind: found.level for kind, found in settled.items()}
    ahead = (levels["scattered"] - levels.get("moments", -np.inf)) * sample.total
    kind = "scattered" if ahead > CLEARLY else "moments"
    return Start(settled[kind].state, kind, decoded, levels)


def scattered_mixture(
    sample: Rows, k: int, model: VarianceModel, rng: np.random.Generator
) -> Mixture:
    """Initialise the means by k-means++."""
    points, counts = sample.points, sample.counts
    n = min(k, len(points))
    seed = int(rng.integers(2**31))
    means, _ = kmeans_plusplus(points, n, sample_weight=counts, random_state=seed)
    means = means.astype(np.float64)
    apart = np.sum(means**2, axis=1) - 2 * points @ means.T
    squared = np.maximum(apart.min(axis=1) + np.einsum("ij,ij->i", points, points), 0.0)
    # A row and the mean next to it, which is a row too, both carry the noise.
    variance = 0.5 * float(np.average(squared, weights=counts)) / sample.n_features
    variance = model.known or max(variance, model.floor)
    if n < k:  # one component per row, and the rest on top of them
        means = np.vstack([means, means[rng.integers(n, size=k - n)]])
    return Mixture(np.full(k, 1 / k), means, np.full(k, variance))


def decode_moments(
    rows: Rows,
    sample: Rows,
    k: int,
    model: VarianceModel,
    order: int | None,
    rng: np.random.Generator,
) -> DecodedMixture:
    """Decode the moments of a sample of rows, and of more rows if those are not clear.

    Parameters
    ----------
    sample : Rows
        Some of them.
    order : int or None
        Moments of orders 2r and 3r are decoded for r = ``order``.
    """
    if k == 1:
        return DecodedMixture(numbers={})
    decoded = _decode(sample, k, model, order, int(rng.integers(2**31)))
    if decoded.clear or SEARCH.rows_for(k) >= min(rows.kept, MANY_ROWS):
        return decoded
    many = draw_sample(rows, MANY_ROWS, rng)
    return _decode(many, k, model, order, int(rng.integers(2**31)))


def trim(sample: Rows) -> tuple[Rows, int]:
    """Leave out rows so far out that they would dominate sixth moments; return how many."""
    radius = _radii(sample)
    near = radius <= far_limit(radius, sample.n)
    if near.all():
        return sample, 0
    return sample.take(np.flatnonzero(near)), int(np.sum(~near))


def _radii(sample: Rows) -> Floats:
    """Return the distance of every row from the centre."""
    squares: Floats = to_numpy(sample.lifted.block["x"][:, -2]).astype(np.float64)
    return np.sqrt(squares)


def _decode(
    sample: Rows, k: int, model: VarianceModel, order: int | None, seed: int
) -> DecodedMixture:
    kept, n_far = trim(sample)
    numbers: dict[str, Any] = {"moment_rows": kept.n, "far_rows": n_far / sample.n}
    if kept.n < max(k, 2):
        few = Note("moments_too_few_rows", {"n": kept.n, "k": k})
        return DecodedMixture(notes=Notes([few]), numbers=numbers)
    variance, how = (model.known, "known") if model.known else guess_variance(kept, k)
    variance = max(variance, model.floor)
    numbers |= {"first_variance": variance, "first_variance_from": how}
    problem = SphericalMixtureProblem(kept, variance=variance)
    try:
        # degenerate rows divide by zero; what follows is checked to be finite
        with np.errstate(all="ignore"):
            found = find_components(all_rows(problem), k, order, seed)
    except (ValueError, np.linalg.LinAlgError) as error:
        unusable = Note("moments_unusable", {"error": getattr(error, "code", "linear_algebra")})
        return DecodedMixture(notes=Notes([unusable]), numbers=numbers)
    numbers |= {"resolved": int(found.resolved.sum()), "gap": found.gap, "r": found.r}
    if not np.isfinite(found.guesses).all():
        return DecodedMixture(None, found, found.notes, numbers)
    mixture = Mixture(_weights(found), _inside(found.guesses, kept), np.full(k, variance))
    return DecodedMixture(mixture, found, found.notes, numbers)


def _weights(found: Components) -> Floats:
    """Return weights that sum to 1, with a floor, so that no component is lost in EM."""
    k = len(found.resolved)
    read = np.ones(k) / k if found.decoded is None else found.decoded.weights
    weights = np.clip(np.nan_to_num(read, nan=1 / k), SMALLEST_WEIGHT / k, 1.0)
    return np.asarray(weights / weights.sum())


def _inside(means: Floats, kept: Rows) -> Floats:
    """Shorten means that lie outside the ball that the rows fill."""
    reach = float(_radii(kept).max())
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    return np.asarray(means * np.minimum(1.0, reach / np.maximum(lengths, 1e-300)), dtype=float)


def spectral_rank(sample: Rows, most: int, model: VarianceModel) -> int:
    """Count the eigenvalues of the centred moment of order 4 that stand above its noise."""
    kept, _ = trim(sample)
    room = kept.n_features * (kept.n_features + 1) // 2
    most = min(most, kept.n // 2, room // 2)  # the eigenvalues left over show the noise
    if most < 2:
        return 1
    variance = max(model.known or guess_variance(kept, most)[0], model.floor)
    center = np.average(kept.points, axis=0, weights=kept.counts)
    problem = SphericalMixtureProblem(kept, variance=variance, center=center)
    try:
        report = implicit_moments(problem, n_components=most, order=4).steps[-1]
    except (ValueError, np.linalg.LinAlgError):
        return 1
    above = int(np.sum(to_numpy(report.spectrum)[:most] > ABOVE * report.floor))
    return min(max(above, 1), most)


# A component lighter than 0.25/k, or one that the moments do not resolve, needs more rows to be
# distinguished from a tail of another.
FAINT, MORE_ROWS = 0.25, 4


@dataclass(frozen=True)
class Options:
    """Parameters chosen by the user."""

    k: int | None  # number of components; None to choose it by the Bayesian information criterion
    most: int  # the largest number that is tried
    order: int | None  # order r of the components decoded from the moments
    n_moves: int  # the most moves that are tried
    final: Budget  # of EM on all rows


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted mixture, in the units of the rows it was fitted to."""

    fitted: Fitted[Mixture]
    start: Start
    stats: dict[str, Any]  # what was measured


def fit_mixture(
    rows: Rows, family: SphericalFamily, options: Options, rng: np.random.Generator
) -> Fit:
    """Fit standardised rows without outliers: several starts, moves, EM on all rows."""
    k, most = options.k, options.most
    clock = _Clock()
    n = SEARCH.rows_for(k or most)
    sample = draw_sample(rows, n, rng, k or most)
    most = min(most, sample.n)
    first = k or spectral_rank(sample, most, family.model)
    decoded = decode_moments(rows, sample, first, family.model, options.order, rng)
    start = choose_start(sample, first, decoded, family, rng)
    clock.read("seconds_start")

    state, found, moves = start.mixture, dict[str, Any](), []
    if k is None:
        chosen = choose_k(family, sample, state, most, options.n_moves, rng)
        state, moves = chosen.searched.state, [chosen.searched]
        found = {"spectral_components": first, "bic_by_n_components": chosen.scores}
        if state.k != first:  # describe the moments of the number that was chosen
            again = decode_moments(rows, sample, state.k, family.model, options.order, rng)
            start = replace(start, decoded=again)
    elif options.n_moves:
        moves = [search_moves(family, sample, state, options.n_moves, rng)]
        state = moves[0].state
    doubtful = state.k > 1 and not (start.decoded.clear and _heavy(state))
    if doubtful and n < rows.kept and options.n_moves:
        sample = draw_sample(rows, MORE_ROWS * n, rng, state.k)
        moves.append(search_moves(family, sample, state, options.n_moves, rng))
        state = moves[-1].state
    clock.read("seconds_search")

    fitted = run_em(family, rows, state, options.final)
    clock.read("seconds_em")
    stats = {
        "start": start.kind,
        "start_log_likelihood": start.levels,
        **(start.decoded.numbers or {}),
        **found,
        "sample_rows": sample.n,
        "n_moves": sum(searched.accepted for searched in moves),
        "n_moves_tried": sum(searched.tried for searched in moves),
        **clock.seconds,
    }
    return Fit(fitted, start, stats)


def _heavy(mixture: Mixture) -> bool:
    return float(mixture.weights.min()) >= FAINT / mixture.k


class _Clock:
    """Seconds of the stages of a fit."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._at = perf_counter()

    def read(self, name: str) -> None:
        """Note the seconds since the last stage."""
        now = perf_counter()
        self.seconds[name], self._at = now - self._at, now
