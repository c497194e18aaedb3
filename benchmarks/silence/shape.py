"""Rates of notes on components of another shape than the model has.

500 to 8,000 rows of 2 to 6 groups of unequal weights in 2 to 8 columns, 2.4 deviations of their
longest axis apart or more. Elongated groups are three times as long along one oblique direction as
across: one for each group, or one for all. Other rows have groups with deviations from 1 to 3, or
columns whose deviations within groups are 1 or 3. A right note names a ``covariance_type`` that
allows the shape. Round groups are fitted as a control: all notes that warn are false alarms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import implicitmoments as im
from implicitmoments.notes import QUIET
from silence.extra import draw_means, draw_sizes
from silence.rates import Run, print_table

RATIO, APART = 3.0, 2.4  # of the axes; distance of means over the longest axis
KINDS = ("round", "elongated, each", "elongated, all", "unequal", "other units")
# types of covariance that have the shape
RIGHT = {
    "elongated, each": {"full"},
    "elongated, all": {"full", "tied"},
    "unequal": {"spherical", "diag", "full"},
    "other units": {"tied_diag", "diag", "tied", "full"},
}


def draw_groups(seed: int, kind: str) -> tuple[Any, int]:
    """Draw rows, and the number of groups."""
    rng = np.random.default_rng(seed)
    n, d, k = draw_sizes(rng)
    longest = 1.0 if kind == "round" else RATIO
    apart = max(APART * longest, 4.0)
    means = draw_means(rng, k, d, apart, 2 * apart)
    labels, z = rng.choice(k, n, p=rng.dirichlet(np.full(k, 10.0))), rng.normal(size=(n, d))
    directions = rng.normal(size=(k, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    if kind == "elongated, all":
        directions[:] = directions[0]
    if kind.startswith("elongated"):
        own = directions[labels]
        z += (RATIO - 1) * np.sum(z * own, axis=1, keepdims=True) * own
    elif kind == "unequal":
        z *= np.where(np.arange(k) % 2, RATIO, 1.0)[labels][:, None]
    elif kind == "other units":
        z *= np.where(np.arange(d) % 2, RATIO, 1.0)
    return means[labels] + z, k


def fit(given: tuple[str, str, int]) -> tuple[bool, set[str]]:
    """Fit one data set; return whether the note is right, and the codes that warn."""
    kind, model_type, seed = given
    X, k = draw_groups(seed, kind)
    model: Any = im.SphericalMixture(k, random_state=seed)
    if model_type != "SphericalMixture":
        model = im.GaussianMixture(k, covariance_type=model_type, random_state=seed)
    model.fit(X)
    warned = [note for note in model.notes_ if note.code not in QUIET]
    kinds = {note.values["kind"] for note in warned if note.code == "not_round"}
    right = kind != "round" and not kinds.isdisjoint(RIGHT[kind])
    return right, {note.code for note in warned}


def rates(run: Run) -> Iterator[list[object]]:
    """Yield the row of each kind of groups and fit."""
    allowed = {"spherical": {"unequal"}, "diag": {"unequal", "other units"}}
    settings = [
        (kind, model_type)
        for model_type in ("SphericalMixture", "spherical", "diag")
        for kind in KINDS
        if kind not in allowed.get(model_type, ())
    ]
    asked = [run.map(fit, [(*setting, seed) for seed in run.seeds]) for setting in settings]
    for (kind, model_type), fits in zip(settings, asked, strict=True):
        found = list(fits)
        codes = sorted(set().union(*(each for _, each in found)))
        right = "-" if kind == "round" else sum(right for right, _ in found)
        noted = sum(bool(each) for _, each in found)
        yield [model_type, kind, noted, right, ", ".join(codes) or "-", len(found)]


def shape(run: Run) -> None:
    """Print how often the shape of components is noted."""
    print_table(["fit", "groups", "with a note", "the right one", "codes", "fits"], rates(run))
