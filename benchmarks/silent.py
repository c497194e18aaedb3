"""Error rates of notes: notes on right fits, and wrong fits without a note.

    python benchmarks/silent.py [right] [wrong] [--seeds N] [--old SRC] [--quick] ...

Mixtures of 3 to 15 spheres in 2 to 12 features, with 50 rows and more in the lightest; a setting
is the least distance of two means in deviations. ``right`` fits spheres of one variance and full
covariances: a fit is right if its log-likelihood is at most 2 nats below that of EM from the
truth, and a note on it is a false alarm. ``wrong`` fits one component too few and one too many,
and counts the notes that say so.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from common import (
    RIGHT,
    Case,
    Figures,
    Floats,
    Method,
    Row,
    Table,
    above,
    both_editions,
    draw_weights,
    em_of_spheres,
    main,
    names,
    nearest_distances,
    print_table,
    select,
    spread,
    timed,
    values,
)

TRUTH = "EM from the truth"
LAWS = ("equal", "1/i", "Dirichlet")
FEWEST, MOST = 50, 20_000  # rows of the lightest component, and of a data set


@dataclass(frozen=True, eq=False)
class Data:
    """Rows, and the weights (k,) and means (k, d) of the spheres they were drawn from."""

    X: Floats
    weights: Floats
    means: Floats


@cache
def draw(case: Case) -> Data:
    """Draw mixtures until the lightest component has enough rows."""
    rng = np.random.default_rng([case.seed, 21])
    while True:
        k, d = int(rng.integers(3, 16)), int(rng.integers(2, 13))
        weights = draw_weights(rng, str(rng.choice(LAWS)), k)
        means = rng.normal(size=(k, d))
        means *= separation(case) / nearest_distances(means).min()
        n = min(int(np.ceil(rng.integers(FEWEST, 200) / weights.min())), MOST)
        labels = rng.choice(k, n, p=weights)
        if np.bincount(labels, minlength=k).min() >= FEWEST:
            return Data(means[labels] + rng.normal(size=(n, d)), weights, means)


def separation(case: Case) -> float:
    """Return the least distance of two means."""
    return float(case.setting.split()[-1])


def fit_shape(case: Case) -> Figures:
    """Fit as many components as there are."""
    import implicitmoments as im  # noqa: PLC0415  # the edition of this process

    data = draw(case)
    kind = "full" if "full" in case.setting else "tied_spherical"
    model: Any = im.GaussianMixture(
        len(data.means), covariance_type=kind, drop_outliers=False, random_state=case.seed
    )
    model, seconds = timed(lambda: model.fit(data.X))
    level = model.score(data.X) * len(data.X)
    return {"level": level, "notes": " ".join(model.notes_.codes), "seconds": seconds}


def fit_number(case: Case) -> Figures:
    """Fit one component less or more than there are."""
    import implicitmoments as im  # noqa: PLC0415

    data = draw(case)
    k = len(data.means) + (1 if case.setting.startswith("k + 1") else -1)
    model: Any = im.SphericalMixture(k, drop_outliers=False, random_state=case.seed)
    model, seconds = timed(lambda: model.fit(data.X))
    return {"notes": " ".join(model.notes_.codes), "seconds": seconds}


def fit_truth(case: Case) -> Figures:
    """Run plain EM of spheres from the truth."""
    data = draw(case)
    return {"level": em_of_spheres(data.X, data.weights, data.means, 1.0)}


def warm_up() -> None:
    """Fit a few rows."""
    import implicitmoments as im  # noqa: PLC0415

    im.SphericalMixture(2, random_state=0).fit(np.random.default_rng(0).normal(size=(200, 2)))


def show_right(rows: list[Row]) -> None:
    """Print how many right fits carry a note, and which."""
    lines = []
    for setting in names(rows, "setting"):
        for method in names(rows, "method"):
            own = select(rows, setting=setting)
            found = select(own, method=method)
            if method == TRUTH or not found:
                continue
            gaps = above(own, method, TRUTH)
            right = [row for row, gap in zip(found, gaps, strict=True) if gap > -RIGHT]
            noted = [row["notes"] for row in right if row["notes"]]
            codes = Counter(code for notes in noted for code in notes.split())
            words = ", ".join(f"{code} {count}" for code, count in codes.most_common())
            share = f"{len(noted)} of {len(right)} ({len(noted) / max(len(right), 1):.1%})"
            lines.append([setting, method, share, words or "–"])
    print_table(("separation", "method", "right fits with a note", "notes"), lines)


def show_wrong(rows: list[Row]) -> None:
    """Print how often a wrong number of components is named, and how often it is silent."""
    lines = []
    for setting in names(rows, "setting"):
        code = "components_are_one" if setting.startswith("k + 1") else "component_missing"
        for method in names(rows, "method"):
            found = select(rows, setting=setting, method=method)
            named = sum(code in row["notes"].split() for row in found)
            silent = sum(not row["notes"] for row in found)
            cells = [f"{named} of {len(found)}", silent, spread(values(found, "seconds"))]
            lines.append([setting, method, *cells])
    print_table(("fitted, separation", "method", "named", "without a note", "s"), lines)


SHAPES = [f"{kind} {apart}" for kind in ("spheres", "full") for apart in (3, 4, 5)]
NUMBERS = [f"{change} {apart}" for change in ("k - 1,", "k + 1,") for apart in (3, 4, 5)]
TABLES = {
    "right": Table(
        SHAPES,
        [Method(TRUTH, fit_truth), *both_editions(fit_shape)],
        show_right,
        warm_up,
        40,
        SHAPES[1:2],
    ),
    "wrong": Table(NUMBERS, both_editions(fit_number), show_wrong, warm_up, 40, NUMBERS[:1]),
}

if __name__ == "__main__":
    main("silent", __doc__, TABLES)
