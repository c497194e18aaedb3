"""Noise with heavy tails: how often k is right, and how often a fit with Gaussian noise says so.

One and two lines, and mixtures of two and three components, with noise of Student's law with 3 and
5 degrees of freedom, of Laplace's law, and, as a control, Gaussian noise. ``k`` is chosen by BIC,
or given. ``nats`` is the least log-likelihood of a fit with Student's law less that of EM from the
truth, an implementation of its own (ECME: the degrees of freedom maximise the likelihood).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from scipy.stats import multivariate_t, t

import implicitmoments as im
from silence.rates import Run, print_table

LAWS = ("t3", "t5", "laplace", "gaussian")
ALARMS = ("heavy_tails", "noise_differs")


@dataclass(frozen=True)
class Case:
    """One data set and the noise of the fit."""

    law: str
    k: int
    n: int
    d: int
    noise: str
    auto: bool
    seed: int


@dataclass(frozen=True)
class Outcome:
    """Result of one fit."""

    right: bool
    alarmed: bool
    nats: float


def draw_noise(law: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Draw noise of scale 1; Student's law has one scale for all columns of a row."""
    if law == "laplace":
        return rng.laplace(size=shape)
    normal = rng.normal(size=shape)
    if law == "gaussian":
        return normal
    freedom = float(law[1:])
    scales = np.sqrt(freedom / rng.chisquare(freedom, size=shape[0]))
    return normal * scales.reshape(-1, *[1] * (len(shape) - 1))


def make_lines(case: Case) -> tuple[Any, Any, Any]:
    """Return X, y and coefficients (k, d + 1), the intercept first."""
    rng = np.random.default_rng([1704, case.seed, case.n])
    X, labels = rng.normal(size=(case.n, case.d)), rng.integers(case.k, size=case.n)
    coef = rng.normal(size=(case.k, case.d + 1))
    coef[:, 1:] *= 3 / np.linalg.norm(coef[:, 1:], axis=1, keepdims=True)
    y = coef[labels, 0] + np.sum(X * coef[labels, 1:], axis=1)
    return X, y + 0.5 * draw_noise(case.law, (case.n,), rng), coef


def ecme(X: Any, y: Any, coef: Any) -> float:
    """Return the log-likelihood of lines with Student's noise after EM from the truth."""
    z = np.column_stack([np.ones(len(X)), X])
    w, v, nu, before = np.full(len(coef), 1 / len(coef)), 0.25, 4.0, -np.inf
    while True:
        r = y[:, None] - z @ coef.T
        joint = np.log(w) + t.logpdf(r, nu, scale=np.sqrt(v))
        level = float(logsumexp(joint, axis=1).sum())
        if level - before < 1e-5:
            return level
        before = level
        R = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        S = R * (nu + 1) / (nu + r**2 / v)
        w = R.mean(axis=0)
        for i in range(len(coef)):
            coef[i] = np.linalg.solve((z * S[:, [i]]).T @ z, z.T @ (S[:, i] * y))
        r = y[:, None] - z @ coef.T
        v = float(np.sum(S * r**2) / len(y))
        weights, deviation = np.log(w), np.sqrt(v)

        def loss(log_nu: float, r: Any = r, weights: Any = weights, s: float = deviation) -> float:
            joint = weights + t.logpdf(r, np.exp(log_nu), scale=s)
            return -float(logsumexp(joint, axis=1).sum())

        nu = float(np.exp(minimize_scalar(loss, bounds=(0, 6.9), method="bounded").x))


def fit_lines(case: Case) -> Outcome:
    """Fit lines."""
    X, y, coef = make_lines(case)
    k = "auto" if case.auto else case.k
    model = im.RegressionMixture(
        k, noise=case.noise, drop_outliers=False, random_state=case.seed
    ).fit(X, y)
    right = bool(model.n_components_ == case.k)
    nats = np.nan
    if case.noise == "student" and right:
        nats = float(model.score_samples(X, y).sum()) - ecme(X, y, coef.copy())
    return Outcome(right, not set(ALARMS).isdisjoint(model.notes_.codes), nats)


def make_components(case: Case) -> tuple[Any, Any]:
    """Return rows, and the covariances of the components, at least 6 deviations apart."""
    rng = np.random.default_rng([1704, case.seed, case.n, 1])
    means = rng.normal(size=(case.k, case.d))
    apart = [np.linalg.norm(a - b) for a, b in combinations(means, 2)]
    means *= 6 / min(apart, default=1.0)
    roots = np.eye(case.d) + 0.4 * rng.normal(size=(case.k, case.d, case.d))
    labels = rng.integers(case.k, size=case.n)
    z = draw_noise(case.law, (case.n, case.d), rng)
    X = means[labels] + np.einsum("nij,nj->ni", roots[labels], z)
    return X, (means, roots @ roots.transpose(0, 2, 1))


def ecme_of_components(X: Any, means: Any, scales: Any) -> float:
    """Return the log-likelihood of multivariate t distributions after EM from the truth."""
    k, d = means.shape
    w, nu, before = np.full(k, 1 / k), 4.0, -np.inf
    means, scales = means.copy(), scales.copy()

    def joint_at(nu: Any) -> Any:
        logs = [multivariate_t.logpdf(X, m, S, nu) for m, S in zip(means, scales, strict=True)]
        return np.log(w) + np.column_stack(logs)

    while True:
        joint = joint_at(nu)
        level = float(logsumexp(joint, axis=1).sum())
        if level - before < 1e-4:
            return level
        before = level
        R = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        w = R.mean(axis=0)
        for i in range(k):
            away = X - means[i]
            squares = np.sum(away @ np.linalg.inv(scales[i]) * away, axis=1)
            S = R[:, i] * (nu + d) / (nu + squares)
            means[i] = S @ X / S.sum()
            away = X - means[i]
            scales[i] = (away * S[:, None]).T @ away / R[:, i].sum()

        def loss(log_nu: float) -> float:
            return -float(logsumexp(joint_at(float(np.exp(log_nu))), axis=1).sum())

        nu = float(np.exp(minimize_scalar(loss, bounds=(0, 6.9), method="bounded").x))


def fit_components(case: Case) -> Outcome:
    """Fit components of full covariances."""
    X, truth = make_components(case)
    k = "auto" if case.auto else case.k
    model = im.GaussianMixture(k, noise=case.noise, random_state=case.seed).fit(X)
    right = bool(model.n_components_ == case.k)
    nats = np.nan
    if case.noise == "student" and right:
        nats = float(model.score_samples(X).sum()) - ecme_of_components(X, *truth)
    return Outcome(right, "heavy_tails" in model.notes_.codes, nats)


def measured(asked: Run) -> Iterator[tuple[object, ...]]:
    """Yield the rows of the table."""
    lines = ((1, 300, 2), (1, 2_000, 3), (2, 600, 2), (2, 3_000, 4))
    components = ((1, 400, 2), (2, 800, 2), (3, 3_000, 4))
    settings = [("lines", fit_lines, sizes) for sizes in lines]
    settings += [("components", fit_components, sizes) for sizes in components]
    fitted = (("gaussian", False), ("gaussian", True), ("student", True))
    every = list(product(settings, LAWS, fitted))
    fits = [
        asked.map(fit, [Case(law, k, n, d, noise, auto, seed) for seed in asked.seeds])
        for (_, fit, (k, n, d)), law, (noise, auto) in every
    ]
    for ((word, _, sizes), law, (noise, auto)), results in zip(every, fits, strict=True):
        found = list(results)
        right, alarms = (
            f"{sum(getattr(each, name) for each in found)} of {len(found)}"
            for name in ("right", "alarmed")
        )
        nats = [each.nats for each in found if np.isfinite(each.nats)]
        chosen = "auto" if auto else "given"
        shown = f"{min(nats):.1f}" if nats else "-"
        yield word, *sizes, law, noise, chosen, right, alarms, shown


def tails(asked: Run) -> None:
    """Print the rates."""
    heads = ("model", "k", "n", "d", "noise", "fitted", "k", "k right", "alarm", "nats")
    print_table(heads, measured(asked))
