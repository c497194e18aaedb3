"""Rates of notes on too many and too few components, and whether the right ones are named.

Mixtures of spherical Gaussians and of all types of ``GaussianMixture``, and of regressions, of 500
to 8,000 rows, 2 to 6 components (1 to 4 lines) of unequal weights, in 2 to 8 columns. Means are at
least 4 noise standard deviations apart; in the rows "overlap", each is 2.5 from its nearest. Each
is fitted with one component more than there are, with as many, and with one less.

One more: the note has to name two components that hold rows of the same group. As many: notes that
warn are false alarms. One less: a note that a component is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import implicitmoments as im
from implicitmoments.notes import QUIET
from silence.rates import Run, print_table

TYPES = ("tied_spherical", "spherical", "tied_diag", "diag", "tied", "full")
MISSING = {"component_missing"}
ROWS, DIMENSIONS, COMPONENTS = (500, 8_000), (2, 9), (2, 7)
APART, NEAR = 4.0, 2.5  # distances of means


@dataclass(frozen=True)
class Fit:
    """What a fit says."""

    several: bool  # whether there is more than one component in truth
    bic: float
    named: bool  # whether two are named that are one in truth
    codes: set[str]  # of notes that warn


def draw_means(rng: np.random.Generator, k: int, d: int, apart: float, step: float) -> Any:
    """Draw means at least ``apart`` from each other, each at most ``step`` from another."""
    means = np.zeros((1, d))
    while len(means) < k:
        u = rng.normal(size=d)
        distance = rng.uniform(apart, step)
        mean = means[rng.integers(len(means))] + distance * u / np.linalg.norm(u)
        if np.linalg.norm(means - mean, axis=1).min() >= 0.999 * apart:
            means = np.vstack([means, mean])
    return means


def draw_sizes(rng: np.random.Generator) -> tuple[int, int, int]:
    """Draw a number of rows, columns and components."""
    n = int(np.exp(rng.uniform(*np.log(ROWS))))
    return n, int(rng.integers(*DIMENSIONS)), int(rng.integers(*COMPONENTS))


def factors(rng: np.random.Generator, kind: str, k: int, d: int) -> Any:
    """Draw factors of the covariances, (k, d, d): deviations from 0.5 to 1."""
    found = np.zeros((k, d, d))
    for i in range(k):
        deviations = np.ones(d) * (1.0 if kind == "tied_spherical" else rng.uniform(0.5, 1))
        if "spherical" not in kind:
            deviations = rng.uniform(0.5, 1, size=d)
        turned = np.linalg.qr(rng.normal(size=(d, d)))[0]
        found[i] = (turned if kind in ("tied", "full") else np.eye(d)) * deviations
    return np.repeat(found[:1], k, axis=0) if kind.startswith("tied") else found


def draw_mixture(seed: int, kind: str, near: bool) -> tuple[Any, Any, int]:
    """Draw rows, their components and the number of those."""
    rng = np.random.default_rng(seed)
    n, d, k = draw_sizes(rng)
    means = draw_means(rng, k, d, *((NEAR, NEAR) if near else (APART, 2 * APART)))
    labels = rng.choice(k, n, p=rng.dirichlet(np.full(k, 10.0)))
    noise = np.einsum("nj,nij->ni", rng.normal(size=(n, d)), factors(rng, kind, k, d)[labels])
    return means[labels] + noise, labels, k


def draw_lines(seed: int) -> tuple[Any, Any, Any, int]:
    """Draw rows of a mixture of regressions, labels, lines and the number of those."""
    rng = np.random.default_rng(seed)
    n, d, k = draw_sizes(rng)
    k, d = k - 1 if k > 2 else 1, max(d - 3, 1)
    slopes, offsets, noise = rng.normal(size=(k, d)), rng.normal(size=k), rng.uniform(0.2, 0.4)
    labels = rng.choice(k, n, p=rng.dirichlet(np.full(k, 10.0)))
    X = rng.normal(size=(n, d))
    y = offsets[labels] + np.sum(X * slopes[labels], axis=1) + noise * rng.normal(size=n)
    return X, y, labels, k


def named_rightly(model: Any, assigned: Any, labels: Any) -> bool:
    """Return whether a note names two components that hold mostly rows of one group."""
    notes = [note for note in model.notes_ if note.code == "components_are_one"]
    if not notes:
        return False
    groups = [np.bincount(labels[assigned == c], minlength=1) for c in notes[0].values["which"]]
    return all(map(len, groups)) and len({int(group.argmax()) for group in groups}) == 1


def fit(given: tuple[str, bool, int, int]) -> Fit:
    """Fit one data set with so many components more than there are."""
    kind, near, seed, more = given
    if kind == "regressions":
        X, y, labels, k = draw_lines(seed)
        rows: tuple[Any, ...] = X, y
        model: Any = im.RegressionMixture(max(k + more, 1), random_state=seed).fit(X, y)
        assigned = model.predict_component(X, y)
    else:
        X, labels, k = draw_mixture(seed, kind, near)
        rows = (X,)
        model = im.GaussianMixture(k + more, covariance_type=kind, random_state=seed)
        if kind == "tied_spherical":
            model = im.SphericalMixture(k + more, random_state=seed)
        assigned = model.fit(X).predict(X)
    named = named_rightly(model, assigned, labels)
    return Fit(k > 1, model.bic(*rows), named, set(model.notes_.codes) - QUIET)


def rates(run: Run) -> Iterator[list[object]]:
    """Yield the row of each setting, and of the data sets in which BIC is least at the truth."""
    settings = [(kind, False) for kind in (*TYPES, "regressions")]
    settings += [("tied_spherical", True), ("full", True)]
    asked = [
        [run.map(fit, [(*setting, seed, more) for seed in run.seeds]) for more in (1, 0, -1)]
        for setting in settings
    ]
    for (kind, near), fits in zip(settings, asked, strict=True):
        name = f"{kind}, overlap" if near else kind
        found = list(zip(*fits, strict=True))
        yield row(name, found)
        # where another number has a lower BIC, the rows do not show how many there are
        shown = [each for each in found if each[1].bic <= min(other.bic for other in each)]
        if len(shown) < len(found):
            yield row(f"{name}, BIC least at the truth", shown)


def row(name: str, found: Sequence[tuple[Fit, ...]]) -> list[object]:
    """Return the row of data sets, each with fits of one more, as many, and one less."""
    alarms = [right.codes for _, right, _ in found if right.codes]
    few = [less for _, _, less in found if less.several]  # one line has none to miss
    noted = sum(bool(less.codes & MISSING) for less in few)
    named = sum(many.named for many, _, _ in found)
    which = ", ".join(sorted(set().union(*alarms))) or "-"
    return [name, named, len(alarms), which, f"{noted} of {len(few)}", len(found)]


def extra(run: Run) -> None:
    """Print how often too many and too few components are noted."""
    heads = ["rows", "k + 1: pair named", "k: alarms", "which", "k − 1: missing noted", "fits"]
    print_table(heads, rates(run))
