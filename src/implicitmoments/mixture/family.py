"""Spherical mixtures as a family: the E-step, the M-step, and where to split."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Array, Floats, cross_sums, linear_rows, move_like, namespace_of, to_numpy
from implicitmoments.mixture.em import VarianceModel, maximise
from implicitmoments.mixture.held_rows import Sample
from implicitmoments.mixture.likelihood import Mixture, Sums, gather
from implicitmoments.search.family import Places, State, Expectations

SMALLEST = 1e-12
N_AXES = 2
N_WORST = 4


@dataclass(frozen=True, eq=False)
class M(State):
    means: Floats
    variances: Floats

    @property
    def d(self):
        return self.means.shape[1]

    @property
    def mixture(self):
        return Mixture(self.weights, self.means, self.variances)


@dataclass(frozen=True, eq=False)
class SE(Expectations):
    counts_: Floats
    points: Floats
    squares: Floats


@dataclass(frozen=True)
class SphericalFamily:
    model: VarianceModel
    d: int

    def e_step(self, rows, state):
        s = gather(rows, state.mixture)
        return SE(s.log_likelihood, s.total, s.counts, s.points, s.squares)

    def m_step(self, sums, before):
        s = Sums(sums.counts_, sums.points, sums.squares, sums.log_likelihood, sums.total)
        m = maximise(s, before.mixture, self.model)
        return M(m.weights, m.means, m.variances)

    def pack(self, state):
        return np.concatenate([np.log(np.maximum(state.weights, SMALLEST)), state.means.ravel(), np.log(state.variances)])

    def unpack(self, packed, like):
        k, d = like.means.shape
        logs = packed[:k]
        w = np.exp(np.clip(logs - logs.max(), -600, 0))
        v = np.exp(np.clip(packed[-k:], -600, 600))
        return M(w / w.sum(), packed[k:-k].reshape(k, d), np.maximum(v, self.model.floor))

    def scale(self, state):
        root = np.sqrt(state.weights)
        return np.concatenate([root, np.repeat(root / np.sqrt(state.variances), state.d), root * math.sqrt(0.5 * state.d)])

    def n_parameters(self, state):
        return state.k * (state.d + 1) - 1 + self.model.parameters(state.k)

    def log_joint(self, rows, state):
        return linear_rows(rows.lifted, move_like(state.mixture.slopes, rows.X))

    def counts(self, rows):
        if rows.sample_weight is not None:
            return rows.sample_weight
        return namespace_of(rows.X).ones_like(rows.X[:, 0])

    def part(self, rows, places, counts):
        part = rows.take(places)
        return Sample(part.X, move_like(counts, part.X), rows.block_rows)

    def expect(self, rows, shares):
        m = to_numpy(cross_sums(shares, rows.lifted))
        return SE(0.0, rows.total, m[:, -1], m[:, :-2], m[:, -2])

    def pool(self, sums, state):
        if not self.model.shared or self.model.known is not None:
            return np.zeros((state.k, 0))
        n = sums.counts_
        inside = sums.squares - np.sum(sums.points**2, axis=1) / np.maximum(n, SMALLEST)
        return np.column_stack([n, np.maximum(inside, 0.0)])

    def fit_trials(self, sums, before, size, rest):
        n, d = sums.counts_, self.d
        filled = n > 1e-8
        safe = np.where(filled, n, 1.0)
        means = np.where(filled[:, None], sums.points / safe[:, None], before.means)
        inside = np.maximum(sums.squares - n * np.sum(means**2, axis=1), 0.0)
        w = np.maximum(n / sums.total, SMALLEST)
        if size > 1:
            w = w / np.repeat(w.reshape(-1, size).sum(axis=1), size)
        v = before.variances
        if self.model.known is None and not self.model.shared:
            v = np.where(filled, inside / (safe * d), before.variances)
        elif rest is not None and len(rest):
            g = lambda a: a.reshape(-1, size).sum(axis=1)
            v = np.repeat((g(inside) + rest[1]) / (d * (g(n) + rest[0])), size)
        return M(w, means, np.maximum(v, self.model.floor))

    def rest_bound(self, rest, trials, size):
        v = trials.variances[::size]
        if len(rest) == 0:
            return np.zeros(len(v))
        return -0.5 * rest[0] * self.d * np.log(v) - 0.5 * rest[1] / v

    def split_starts(self, part, state, i, rng):
        x = part.points.astype(np.float64)
        c = to_numpy(part.sample_weight).astype(np.float64)
        mean, v = state.means[i], state.variances[i]
        z = x - c @ x / c.sum()
        axes = rng.normal(size=(N_AXES + 1, self.d))
        for _ in range(4):
            q, _ = np.linalg.qr(axes[:N_AXES].T)
            axes[: q.shape[1]] = ((z * c[:, None]).T @ (z @ q)).T
            if self.d < N_AXES:
                break
        axes /= np.maximum(np.linalg.norm(axes, axis=1, keepdims=True), 1e-300)
        if self.d == 1:
            axes = axes[:1]
        widths = np.sqrt(c @ (z @ axes.T) ** 2 / c.sum())
        steps = 0.8 * widths[:, None] * axes
        w, m = [], []
        for s in steps:
            w.append((0.5, 0.5)); m += [mean + s, mean - s]
        for s in steps[:1]:
            for sign in (1, -1):
                w.append((0.85, 0.15)); m += [mean - sign * 0.25 * s, mean + sign * 1.9 * s]
        # rows that the component explains worst, each away from those before
        apart = np.sum((x - mean) ** 2, axis=1)
        light = max(2.0 / c.sum(), 0.02)
        for _ in range(N_WORST):
            worst = int(np.argmax(np.where(c > 0.3 * c.max(), apart, -1)))
            w.append((1 - light, light)); m += [mean, x[worst]]
            apart = np.minimum(apart, np.sum((x - x[worst]) ** 2, axis=1) - v*self.d*2)
        w = np.array(w).ravel()
        return M(w, np.array(m), np.full(len(w), v))

    def candidates(self, rows, state, log_density, rng):
        return M(np.zeros(0), np.zeros((0, self.d)), np.zeros(0))
