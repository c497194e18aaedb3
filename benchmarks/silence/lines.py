"""Lines fitted by the library, and by a plain EM that shares no code with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from time import process_time
from typing import Any

import numpy as np

from implicitmoments import RegressionMixture
from implicitmoments.notes import QUIET
from regression_peers import Lines
from silence.rates import print_table

Floats = np.ndarray[Any, np.dtype[np.float64]]
ENOUGH = 2.0  # nats: a difference of likelihoods, not of the last digits of EM
TINY = 1e-300
LEAST = 1e-3  # of the noise variance of a line to that of all, as in the library


@dataclass(frozen=True, eq=False)
class Data:
    """Rows, and the lines that they were drawn from."""

    name: str
    X: Floats
    y: Floats
    weights: Floats
    coef: Floats  # (k, 1 + d), the intercept first
    noise: Floats  # (k,)
    shared: bool = True  # which model is fitted

    @property
    def k(self) -> int:
        """Number of lines."""
        return len(self.weights)


class PlainEM:
    """EM of lines: responsibilities, weighted least squares, and nothing else."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.z = np.column_stack([np.ones(len(data.y)), data.X])
        self.both = np.column_stack([self.z, data.y])
        self.side = self.both.shape[1]

    def m_step(self, shares: Floats) -> Lines:
        """Return weights, coefficients and variances for responsibilities (n, k)."""
        S = np.stack([(self.both.T * share) @ self.both for share in shares.T])
        n = np.maximum(S[:, 0, 0], TINY)
        ridge = 1e-9 * np.trace(S[:, :-1, :-1], axis1=1, axis2=2)[:, None, None]
        coef = np.linalg.solve(
            S[:, :-1, :-1] + np.maximum(ridge, TINY) * np.eye(self.side - 1), S[:, :-1, -1:]
        )[:, :, 0]
        both = np.column_stack([-coef, np.ones(len(coef))])
        squares = np.maximum(np.einsum("ka,kab,kb->k", both, S, both), 0.0)
        w, pooled = n / n.sum(), squares.sum() / n.sum()
        if self.data.shared:
            return Lines(w, coef, np.full(len(n), max(pooled, TINY)))
        # the floor of the library: without one the likelihood has no maximum
        return Lines(w, coef, np.maximum(squares / n, max(LEAST * pooled, TINY)))

    def e_step(self, state: Lines) -> tuple[float, Floats]:
        """Return the log-likelihood, and responsibilities."""
        w, coef, v = state
        logs = np.log(w) - 0.5 * np.log(2 * np.pi * v)
        logs = logs - 0.5 * (self.data.y[:, None] - self.z @ coef.T) ** 2 / v
        top = logs.max(axis=1, keepdims=True)
        shares = np.exp(logs - top)
        total = shares.sum(axis=1, keepdims=True)
        return float(np.sum(top + np.log(total))), shares / total

    def run(self, state: Lines, steps: int = 3_000, least: float = 1e-3) -> tuple[float, Lines]:
        """Run EM until ten steps gain less than ``least`` nats."""
        before, (reached, shares) = -np.inf, self.e_step(state)
        for step in range(steps):
            if step % 10 == 0:
                if reached - before < least:
                    break
                before = reached
            state = self.m_step(shares)
            reached, shares = self.e_step(state)
        return reached, state

    def from_truth(self) -> tuple[float, Lines]:
        """Return the log-likelihood and the lines of EM started at the truth."""
        noise = self.data.noise**2
        if self.data.shared:
            noise = np.full(self.data.k, float(self.data.weights @ noise))
        return self.run(Lines(self.data.weights, self.data.coef, noise))

    def from_random(self, rng: np.random.Generator, n_starts: int = 20) -> float:
        """Return the best log-likelihood of several random starts.

        By turns, random responsibilities, and lines through few rows; the best three run until
        they converge.
        """
        k, n, found = self.data.k, len(self.data.y), []
        for start in range(n_starts):
            if start % 2:
                shares = rng.dirichlet(np.ones(k), size=n)
            else:
                shares = np.zeros((n, k))
                for i in range(k):
                    shares[rng.choice(n, self.side, replace=False), i] = 1.0
            _, coef, v = self.m_step(shares)
            v = np.full(k, max(float(v.max()), self.data.y.var() / 4))
            found.append(self.run(Lines(np.full(k, 1 / k), coef, v), 500, 0.1))
        found.sort(key=lambda each: -each[0])
        return max(self.run(state)[0] for _, state in found[:3])


@dataclass(frozen=True)
class Outcome:
    """Nats of a fit above a reference, and its notes."""

    name: str
    above: float
    codes: list[str]
    seconds: float

    @property
    def loses(self) -> bool:
        """Whether the fit is below the reference."""
        return self.above < -ENOUGH

    @property
    def doubted(self) -> bool:
        """Whether a note casts doubt on the lines."""
        return bool(set(self.codes) - QUIET)


def compare(data: Data, reference: float, seed: int) -> Outcome:
    """Fit the library, and compare its likelihood with a reference."""
    clock, n = process_time(), len(data.y)
    # likelihoods of all rows are compared
    model = RegressionMixture(data.k, drop_outliers=False, random_state=seed)
    model.set_params(noise_type="shared" if data.shared else "separate").fit(data.X, data.y)
    seconds = process_time() - clock
    return Outcome(data.name, model.lower_bound_ * n - reference, model.notes_.codes, seconds)


def print_outcomes(outcomes: Iterable[Outcome]) -> None:
    """Print one row per kind of data, and one for all."""
    heads = ["data", "fits", "lost", "silent", "noted and right", "above", "worst", "best"]
    heads += ["seconds (largest)"]
    every: list[Outcome] = []

    def rows() -> Iterator[list[object]]:
        for name, some in groupby(outcomes, key=lambda each: each.name):
            group = list(some)
            every.extend(group)
            yield _row(name, group)
        yield _row("all", every)

    print_table(heads, rows())
    print("\nLost: more than 2 nats below the reference; silent: without a note that doubts it.")
    for each in every:
        if each.loses:
            print(f"{each.name}: {each.above:.1f} nats; notes {', '.join(each.codes)}")


def _row(name: str, every: Sequence[Outcome]) -> list[object]:
    above = [each.above for each in every]
    seconds = [each.seconds for each in every]
    lost = [each for each in every if each.loses]
    return [
        *(name, len(every), len(lost), sum(not each.doubted for each in lost)),
        sum(each.doubted and not each.loses for each in every),
        *(sum(value > ENOUGH for value in above), min(above), max(above)),
        f"{np.median(seconds):.2f} ({max(seconds):.1f})",
    ]
