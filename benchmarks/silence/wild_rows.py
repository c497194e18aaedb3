"""Rows that are no part of any component: one, five or a hundredth, far from all others.

Number of components by ``"auto"``, the least BIC of a sweep over k, and what is left out, for data
with such rows and without.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

import implicitmoments as im
from silence.rates import Run, print_table

Floats = np.ndarray[Any, np.dtype[np.float64]]
K = 4
MANY = 1e4  # deviations, of a hundredth of the rows


@dataclass(frozen=True)
class Case:
    """A data set and what is fitted to it."""

    seed: int
    estimator: str
    n: int
    d: int
    wild: int  # rows
    far: float  # their distance, in deviations of a component or of the noise
    sweep: bool = False  # over k, instead of "auto"

    @property
    def name(self) -> tuple[object, ...]:
        """All but the seed, the number of rows and that of columns."""
        how = "least BIC of k = 1 … 7" if self.sweep else '"auto"'
        wild = self.wild if self.far < MANY else "1 %"
        return self.estimator, how, wild, f"{self.far:g} σ" if self.wild else ""


@dataclass(frozen=True)
class Outcome:
    """Components found, rows left out, and whether a note says so."""

    k: int
    left_out: int
    noted: bool


def draw(case: Case) -> tuple[Floats, ...]:
    """Draw rows, and labels for lines."""
    rng, wild = np.random.default_rng([case.seed, 17, 3]), case.wild
    labels = rng.integers(K, size=case.n)
    if case.estimator == "RegressionMixture":
        X, coef = rng.normal(size=(case.n, case.d)), rng.normal(size=(K, case.d + 1))
        y = np.sum(X * coef[labels, 1:], axis=1) + 3 * coef[labels, 0]
        y += 0.3 * rng.normal(size=case.n)
        y[:wild] += 0.3 * case.far * rng.choice([-1, 1], wild) * rng.uniform(1, 2, wild)
        return X, y
    means: list[Floats] = []
    while len(means) < K:
        at = 4.0 * K ** (1 / case.d) * rng.normal(size=case.d)
        if all(np.linalg.norm(at - each) > 5.0 for each in means):
            means.append(at)
    X = np.array(means)[labels] + rng.normal(size=(case.n, case.d))
    away = rng.normal(size=(wild, case.d))
    away *= case.far * rng.uniform(1, 2, (wild, 1)) / np.linalg.norm(away, axis=1, keepdims=True)
    X[:wild] = away
    return (X,)


def fit(case: Case) -> Outcome:
    """Fit by the number of least BIC of the rows that are not wild, or by ``"auto"``."""
    rows, estimator = draw(case), getattr(im, case.estimator)
    if not case.sweep:
        model = estimator("auto", random_state=case.seed).fit(*rows)
    else:
        models = [estimator(k, random_state=case.seed).fit(*rows) for k in range(1, 8)]
        model = min(models, key=lambda each: each.bic(*(a[case.wild :] for a in rows)))
    noted = "outliers_dropped" in model.notes_.codes
    return Outcome(model.n_components_, model.stats_["outliers"], noted)


def cases(run: Run) -> list[Case]:
    """Return the cases of a run, by name."""
    found: list[Case] = []
    for seed in run.seeds:
        for estimator in ("SphericalMixture", "GaussianMixture", "RegressionMixture"):
            for n in (300, 1_200, 3_000):
                d = 1 + seed % 4
                for wild, far in ((0, 0.0), (1, 100.0), (1, 300.0), (5, 100.0), (n // 100, MANY)):
                    found.append(Case(seed, estimator, n, d, wild, far))
            for far in (100.0, 300.0):
                found.append(Case(seed, estimator, 1_200, 3, 1, far, sweep=True))
    names = list(dict.fromkeys(case.name for case in found))
    return sorted(found, key=lambda case: names.index(case.name))


def rates(run: Run) -> Iterator[tuple[object, ...]]:
    """Yield the row of each name."""
    asked = cases(run)
    pairs = zip(asked, run.map(fit, asked), strict=True)
    for name, some in groupby(pairs, key=lambda pair: pair[0].name):
        found = list(some)
        right = sum(outcome.k == K for _, outcome in found)
        left = sum(outcome.left_out == case.wild for case, outcome in found)
        noted = sum(outcome.noted == bool(case.wild) for case, outcome in found)
        yield (*name, *(f"{each} of {len(found)}" for each in (right, left, noted)))


def wild_rows(run: Run) -> None:
    """Print how often the number is right, how often all wild rows are left out, and noted."""
    heads = ("estimator", "number", "wild rows", "distance")
    print_table((*heads, f"k = {K}", "all and only these left out", "noted"), rates(run))
