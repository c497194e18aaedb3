"""EM of batches of mixtures: the pass over the rows, and its acceleration on the sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import array_api_compat
import numpy as np

from implicitmoments.arrays import Array, Floats, as_double, move_like, namespace_of, to_numpy
from implicitmoments.mixture.family import TINY, Family, coefficients_of
from implicitmoments.rows import Block, Rows

BLOCK_NUMBERS = 2**18  # logits of a block of rows: they stay in the cache
# nats per row, and in all, by which single precision may change a log-likelihood
SINGLE_ERROR = 1e-6, 0.02
CHECKED_ROWS = 4_096  # on which this is checked
# NumPy takes ten times as long for exponentials below the range of double precision; some of the
# first rows tell whether there are any
LOWEST = -700.0
STATE = ("sums", "levels", "held", "last", "live", "history")  # of EM in a checkpoint
LONGEST_STEP = 64.0  # of an extrapolation, in steps of EM
LEAST_PART = 0.1  # of its rows that a component keeps in an extrapolation


class EStep(NamedTuple):
    """What one pass over the rows gives for a batch of mixtures."""

    levels: Floats  # (...) log-likelihoods of the mixtures
    sums: Floats  # (..., k, s) after one step of EM
    rest: Floats  # sums of the shared features of the rows


class Shares(NamedTuple):
    """Responsibilities of one mixture in a sample."""

    sums: Floats  # (k, s)
    shares: Floats  # (k, n)
    log_density: Floats  # (n,)


@dataclass(frozen=True, eq=False)
class Sample:
    """Features of rows that are held in memory: one set, or one set for each group of mixtures.

    With groups, features have the shape (G, n, s), weights (G, n) and sums (G, B, k, s):
    B mixtures of each group share its rows.
    """

    family: Family
    features: Floats  # (n, s) or (G, n, s), in single or double precision
    weights: Floats  # (n,) or (G, n)

    @classmethod
    def of(cls, family: Family, rows: Rows) -> Sample:
        """Return the features of rows in memory, in NumPy."""
        block = in_double(rows.block)
        features = np.ascontiguousarray(to_numpy(family.features(block)))
        return cls(family, features, np.asarray(rows.counts, dtype=np.float64))

    @cached_property
    def total(self) -> Floats:
        """Sums of all features, (s,) or (G, s), in double precision."""
        weights = self.weights.astype(self.features.dtype, copy=False)
        return np.asarray((weights[..., None, :] @ self.features)[..., 0, :], dtype=np.float64)

    @cached_property
    def n(self) -> float:
        """The sum of the weights."""
        return float(self.weights.sum())

    @property
    def rest(self) -> Floats:
        """Sums of the shared features, (r,) or (G, 1, r)."""
        rest = self.total[..., self.family.n_own :]
        return rest if self.features.ndim == 2 else rest[:, None]

    @property
    def own(self) -> Floats:
        """Features with coefficients per component."""
        return self.features[..., : self.family.n_own]

    def blocks(self, n_components: int) -> Iterator[tuple[slice, Floats, Floats]]:
        """Yield slices of rows, their own features and their weights."""
        size = max(256, BLOCK_NUMBERS // n_components)
        for start in range(0, self.features.shape[-2], size):
            rows = slice(start, start + size)
            yield rows, self.own[..., rows, :], self.weights[..., rows]

    def e_step(self, sums: Floats) -> EStep:
        """Return log-likelihoods of mixtures (..., B, k, s) and their sums after one step."""
        coefficients, shared = coefficients_of(self.family, sums, self.rest)
        level, found = np.zeros(sums.shape[:-2]) + shared, np.zeros(sums.shape)
        for _, features, weights in self.blocks(sums.size // sums.shape[-1]):
            part = measure_block(self.family, coefficients, features, weights)
            level += np.asarray(part[0])
            found += np.asarray(part[1])
        return EStep(level, found, self.rest)

    def shares(self, sums: Floats, rest: Floats | None = None) -> Shares:
        """Return the responsibilities of the components of one mixture (k, s) in all rows.

        ``rest`` are the sums of the shared features that belong to the mixture, if they are not
        those of the rows.
        """
        coefficients, _ = coefficients_of(self.family, sums, self.rest if rest is None else rest)
        new, parts = np.zeros(sums.shape), []
        for _, features, weights in self.blocks(len(sums)):
            found = expect(self.family, coefficients[None], features, weights)
            log_density, weighted, part = (np.asarray(each)[0] for each in found)
            new += part
            positive = np.maximum(weights, TINY).astype(weighted.dtype)
            parts.append((log_density, weighted / positive))
        logs, shares = (np.concatenate(each, axis=-1) for each in zip(*parts, strict=True))
        return Shares(new, shares, logs)

    def thinned(self, most: int) -> Sample:
        """Return at most so many rows, evenly spaced."""
        rows = slice(None, None, -(-len(self.weights) // max(most, 1)))
        return Sample(self.family, self.features[rows], self.weights[rows])

    @np.errstate(over="ignore", invalid="ignore")  # then single precision makes a difference
    def in_single(self, sums: Floats) -> Sample:
        """Return the sample in single precision, if that makes no difference at a mixture."""
        few = self.thinned(CHECKED_ROWS)
        sums = sums[None] * (few.n / self.n)
        single = replace(few, features=few.features.astype(np.float32))
        change = single.e_step(sums).levels - few.e_step(sums).levels
        per_row, least = SINGLE_ERROR
        if abs(change[0]) > max(per_row * few.n, least * few.n / self.n):
            return self
        return replace(self, features=self.features.astype(np.float32))


@dataclass(frozen=True, eq=False)
class Stream:
    """Features of all rows, computed block by block in every pass."""

    family: Family
    rows: Rows
    rest: Floats  # sums of the shared features that belong to the mixtures
    single: bool = False  # multiply in single precision

    @property
    def n(self) -> float:
        """The sum of the weights."""
        return self.rows.total

    def e_step(self, sums: Floats) -> EStep:
        """Return log-likelihoods of mixtures (B, k, s) and their sums after one step."""
        coefficients, level = coefficients_of(self.family, sums, self.rest)
        width = self.family.n_features + 2 * sums.size // sums.shape[-1]
        measure = BlockMeasure(self.family, coefficients, self.single)
        found = self.rows.fold(measure, width=width, what="EM")
        levels, new, rest = (to_numpy(found[name]) for name in ("level", "sums", "rest"))
        return EStep(level + levels, new, rest)


@dataclass(frozen=True, eq=False)
class BlockMeasure:
    """Measures a block of rows: one pass of EM over them."""

    family: Family
    coefficients: Floats
    single: bool

    def __call__(self, block: Block) -> dict[str, Array]:
        """Return named sums over the rows of a block."""
        if not self.single or block["x"].dtype != namespace_of(block["x"]).float32:
            block = in_double(block)
        features, weights = self.family.features(block), block.get("counts")
        xp, n_own = namespace_of(features), self.family.n_own
        if weights is not None:
            weights = xp.astype(weights, xp.float64, copy=False)
        others = features[:, n_own:]
        rest = xp.sum(others, axis=0) if weights is None else weights @ others
        dtype = xp.float32 if self.single else features.dtype
        own = xp.astype(features[:, :n_own], dtype, copy=False)
        level, sums = measure_block(self.family, self.coefficients, own, weights)
        return {"level": level, "sums": sums, "rest": rest}


def in_double(block: Block) -> dict[str, Array]:
    """Return the columns of a block in double precision."""
    return {name: as_double(column) for name, column in block.items()}


def measure_block(
    family: Family, coefficients: Floats, features: Array, weights: Array | None
) -> tuple[Array, Array]:
    """Return log-likelihoods (..., B) and sums (..., B, k, s) of mixtures over a block of rows."""
    log_density, _, sums = expect(family, coefficients, features, weights)
    xp = namespace_of(log_density)
    logs = xp.astype(log_density, xp.float64, copy=False)
    logs = logs if weights is None else logs * weights[..., None, :]
    return xp.sum(logs, axis=-1), sums


def expect(
    family: Family, coefficients: Floats, features: Array, weights: Array | None
) -> tuple[Array, Array, Array]:
    """Return log densities (..., B, n), weighted responsibilities (..., B, k, n), and sums.

    One product of features (..., n, s) and coefficients (..., B, k, s) gives the logits of all
    mixtures, and another all sums (..., B, k, s), in double precision. Without weights all rows
    count once.
    """
    xp: Any = namespace_of(features)
    *lead, n, _ = features.shape
    *_, batch, k, s = coefficients.shape
    flat = move_like(coefficients.reshape((*lead, batch * k, s)), features)
    logits = family.logits(flat, features)
    kept = xp.asarray(logits, copy=True) if family.needs_logits else None
    whole = 1.0 if weights is None else weights[..., None, None, :]
    log_density, shares = normalise(xp.reshape(logits, (*lead, batch, k, n)), whole)
    sums = family.sum_features(xp.reshape(shares, (*lead, batch * k, n)), features, flat, kept)
    sums = xp.astype(sums, xp.float64, copy=False)
    return log_density, shares, xp.reshape(sums, (*lead, batch, k, -1))


def normalise(logits: Array, weights: Array | float = 1.0) -> tuple[Array, Array]:
    """Return the log densities (..., n) of mixtures, and weighted responsibilities (..., k, n).

    In NumPy the responsibilities replace the logits. In PyTorch they are one kernel of its own,
    over the last axis.
    """
    if isinstance(logits, np.ndarray):
        top = logits.max(-2, keepdims=True)
        np.subtract(logits, top, out=logits)
        if logits.dtype == np.float64 and logits[..., :32].min(initial=0.0) < LOWEST:
            np.maximum(logits, LOWEST, out=logits)
        np.exp(logits, out=logits)
        total = logits.sum(-2, keepdims=True)
        np.multiply(logits, (weights / total).astype(logits.dtype, copy=False), out=logits)
        return (top + np.log(total))[..., 0, :], logits
    xp: Any = namespace_of(logits)
    if array_api_compat.is_torch_array(logits):
        rows: Any = xp.matrix_transpose(logits)
        top, place = rows.max(-1, keepdim=True)
        shares = rows.softmax(-1)
        log_density = (top - shares.gather(-1, place).log())[..., 0]
        shares = xp.matrix_transpose(shares)
    else:
        top = xp.max(logits, axis=-2, keepdims=True)
        shares = xp.exp(logits - top)
        total = xp.sum(shares, axis=-2, keepdims=True)
        log_density, shares = (top + xp.log(total))[..., 0, :], shares / total
    if isinstance(weights, float):
        return log_density, shares
    return log_density, shares * xp.astype(weights, logits.dtype, copy=False)


FeatureRows: TypeAlias = Sample | Stream


class Course(NamedTuple):
    """The end of EM of a batch of mixtures."""

    levels: Floats  # (B,) log-likelihoods; those of the sums before the last step
    sums: Floats  # (B, k, s)
    n_iter: int = 0  # steps of EM
    converged: bool = False
    history: tuple[float, ...] = ()  # log-likelihood of the first mixture before each step


def take_steps(rows: FeatureRows, sums: Floats, n: int) -> Course:
    """Take some plain steps of EM."""
    levels = np.full(sums.shape[:-2], -np.inf)
    for _ in range(n):
        levels, sums, _ = rows.e_step(sums)
    return Course(levels, sums, n)


def run_em(
    rows: FeatureRows,
    sums: Floats,
    *,
    tol: float = 1e-5,
    max_iter: int = 300,
    above: float = -np.inf,
) -> Course:
    """Run EM on a batch of mixtures (B, k, s), accelerated on their sums.

    Three steps make one cycle of SQUAREM (Varadhan and Roland 2008): two steps give a direction
    in the space of sums, an extrapolation along it is kept unless the likelihood falls. A mixture
    ends when the projected gain of all further cycles is below ``tol`` per row, and is abandoned
    when it is projected to stay below the log-likelihood ``above``.
    """
    sums, levels, held = sums.copy(), np.full(len(sums), -np.inf), sums.copy()
    last, live, n_iter, history = np.full(len(sums), np.inf), np.arange(len(sums)), 0, []
    converged = False
    checkpoint = rows.rows.checkpoint if isinstance(rows, Stream) else None
    kept = None if checkpoint is None else checkpoint.begin_loop()
    if kept is not None:  # of a fit that was interrupted
        sums, levels, held, last, live, past = (np.array(kept[name]) for name in STATE)
        n_iter, converged, history = kept["n_iter"], kept["converged"], past.tolist()
    while len(live) and n_iter + 3 <= max_iter:
        before, after, at, new = _cycle(rows, sums[live])
        # steps of components that borrow rows may lower the likelihood: then EM ends before them
        fell = before < levels[live] - tol * rows.n
        sums[live[fell]] = held[live[fell]]
        up, live = ~fell, live[~fell]
        before, after = before[up], after[up]
        held[live], levels[live], sums[live] = at[up], after, new[up]
        history += [float(before[0]), float(after[0])] if 0 in live else []
        n_iter += 3
        gain = after - before
        left = gain / (1 - np.clip(gain / np.maximum(last[live], TINY), 0, 0.9))
        last[live] = gain
        ended = left <= tol * rows.n
        # the gains of slow EM fall less than geometrically
        hopeless = after + 3 * left < above
        converged = bool(ended.all())  # also if none is left
        live = live[~(ended | hopeless)]
        if checkpoint is not None:
            state = zip(STATE, (sums, levels, held, last, live, np.array(history)), strict=True)
            checkpoint.end_step({**dict(state), "n_iter": n_iter, "converged": converged})
    while len(live) and n_iter < max_iter:  # steps that are too few for a cycle
        levels[live], sums[live], _ = rows.e_step(sums[live])
        n_iter += 1
        history.append(float(levels[0]))
    return Course(levels, sums, n_iter, converged, tuple(history))


def _cycle(rows: FeatureRows, start: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return log-likelihoods before and after one cycle of SQUAREM, and sums.

    The sums that have the second log-likelihood, and those after one more step.
    """
    before, one, _ = rows.e_step(start)
    level, two, _ = rows.e_step(one)
    step, bend = one - start, two - 2 * one + start
    scale = np.sqrt(np.mean(start**2, axis=(0, 1)) + TINY)
    length = np.sqrt(np.sum((step / scale) ** 2, axis=(1, 2)))
    curvature = np.sqrt(np.sum((bend / scale) ** 2, axis=(1, 2)) + TINY)
    ahead = np.clip(length / curvature, 1, LONGEST_STEP)[:, None, None]
    far = start + 2 * ahead * step + ahead**2 * bend
    sizes = [0, rows.family.linear.start]  # of rows, and of scaled rows
    vanishing = np.any(far[..., sizes] < LEAST_PART * two[..., sizes], axis=-1, keepdims=True)
    far = np.where(vanishing, two, far)
    further, three, _ = rows.e_step(far)
    up = further >= level
    keep = up[:, None, None]
    level = np.where(up, further, level)
    return before, level, np.where(keep, far, one), np.where(keep, three, two)
