"""The number of lines that ``RegressionMixture("auto")`` chooses, beside fits of given numbers.

Real sets of R, and rows drawn from mixtures of lines, most of them few for their columns. Seeds
should choose the same number; where they do not, a note should say why. BIC of the choice should
not be above that of a direct fit of 1 to 3 lines, of as many lines, or of one more or less.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import implicitmoments as im
from real_fits import export_from_r
from silence.rates import Run, print_table

Floats = np.ndarray[Any, np.dtype[np.float64]]
ABOVE = 0.5  # of BIC: EM ends where a step gains less than 1e-7 per row
SAYS_SO = {"noise_at_floor", "searches_disagree", "rows_limit_lines", "choice_uncertain"}
SEEDS_PER_SET, DIRECT = 3, 2  # of a set that is drawn; of direct fits
# rows, columns, noise of each line; weights are equal
DRAWN = {
    "one line": (150, 6, (1.0,)),
    "one line, few rows": (60, 4, (1.0,)),
    "two lines": (200, 2, (0.3, 0.3)),
    "two lines, unequal noise": (300, 4, (0.1, 0.5)),
    "three lines": (400, 5, (0.3, 0.3, 0.3)),
    "three lines, unequal noise": (600, 3, (0.05, 0.2, 0.5)),
    "four lines, many rows": (5_000, 4, (0.2, 0.2, 0.4, 0.4)),
}


@dataclass(frozen=True)
class Case:
    """A fit of one set."""

    X: Floats
    y: Floats
    noise_type: str
    seed: int
    k: int | str = "auto"


@dataclass(frozen=True)
class Fit:
    """What a fit says."""

    k: int
    bic: float
    table: dict[int, float]  # BIC of all numbers that were tried
    noted: bool

    @property
    def consistent(self) -> bool:
        """Whether bic() is the least of the table, and what stands there."""
        least = min(self.table, key=self.table.__getitem__)
        return self.k == least and abs(self.table[least] - self.bic) < ABOVE

    @property
    def wanted(self) -> set[int]:
        """Numbers to fit directly: the smallest, and neighbours where rows allow them."""
        wanted = {1, 2, 3, self.k - 1, self.k, self.k + 1}
        return {k for k in wanted if 1 <= k <= max(self.table)}


def fit(case: Case) -> Fit:
    """Fit lines, their number given or not."""
    model = im.RegressionMixture(case.k, noise_type=case.noise_type, random_state=case.seed)
    model.fit(case.X, case.y)
    table, noted = model.stats_["bic_by_n_components"], not SAYS_SO.isdisjoint(model.notes_.codes)
    return Fit(int(model.n_components_), float(model.bic(case.X, case.y)), table, noted)


def draw(kind: str, seed: int) -> tuple[Floats, Floats]:
    """Draw rows of lines with random slopes and intercepts."""
    n, d, noise = DRAWN[kind]
    rng = np.random.default_rng([seed, n, d])
    slopes, offsets = rng.normal(size=(len(noise), d)), rng.normal(size=len(noise))
    X, line = rng.normal(size=(n, d)), rng.integers(len(noise), size=n)
    y = offsets[line] + np.sum(X * slopes[line], axis=1)
    return X, y + np.array(noise)[line] * rng.normal(size=n)


def real_sets() -> dict[str, tuple[Floats, Floats]]:
    """Return the sets of R; none without it."""
    with tempfile.TemporaryDirectory() as folder:
        if export_from_r(Path(folder), "regressions") is None:
            return {}
        found = {}
        for path in sorted(Path(folder).glob("*.csv")):
            table = np.loadtxt(path, delimiter=",")
            found[path.stem] = (table[:, :-1], table[:, -1])
        return found


@dataclass(frozen=True)
class Set:
    """Rows, and how they are fitted by several seeds."""

    X: Floats
    y: Floats
    noise_type: str
    seeds: range


@dataclass(frozen=True)
class Choice:
    """Fits of one set by ``"auto"``, and by how much each is above the least of direct fits."""

    fits: list[Fit]
    above: list[float]

    @property
    def agree(self) -> list[bool]:
        """Which seeds chose the number that most of them did."""
        usual = Counter(each.k for each in self.fits).most_common(1)[0][0]
        return [each.k == usual for each in self.fits]


def choose(given: Set) -> Choice:
    """Fit one set by ``"auto"`` with each seed, and all numbers that are wanted directly."""
    X, y, noise_type = given.X, given.y, given.noise_type
    fits = [fit(Case(X, y, noise_type, seed)) for seed in given.seeds]
    least = {
        k: min(fit(Case(X, y, noise_type, seed, k)).bic for seed in range(DIRECT))
        for k in set.union(*(each.wanted for each in fits))
    }
    return Choice(fits, [each.bic - min(least[k] for k in each.wanted) for each in fits])


def choice(run: Run) -> None:
    """Print what was chosen by each seed, and how often a direct fit has a lower criterion."""
    heads = ["rows, columns", "noise", "lines: fits", "BIC", "above a direct fit", "by at most"]
    heads += ["table and bic() agree", "seeds agree", "or a note"]
    print(f"Real sets, {len(run.seeds)} seeds\n")
    real = {name: [data] for name, data in real_sets().items()}
    print_table(["set", *heads], _rows(run, real, run.seeds))
    print(f"\nDrawn sets, {len(run.seeds)} of each, {SEEDS_PER_SET} seeds\n")
    drawn = {kind: [draw(kind, seed) for seed in run.seeds] for kind in DRAWN}
    print_table(["set", *heads], _rows(run, drawn, range(SEEDS_PER_SET)))


def _rows(
    run: Run, sets: dict[str, list[tuple[Floats, Floats]]], seeds: range
) -> Iterator[list[object]]:
    settings = list(product(sets, ("shared", "separate")))
    asked = [
        run.map(choose, [Set(X, y, noise_type, seeds) for X, y in sets[name]])
        for name, noise_type in settings
    ]
    for (name, noise_type), choices in zip(settings, asked, strict=True):
        found = list(choices)
        fits = [each for some in found for each in some.fits]
        above = [gap for some in found for gap in some.above]
        agree = [agrees for some in found for agrees in some.agree]
        said = [agrees or each.noted for agrees, each in zip(agree, fits, strict=True)]
        numbers = sorted(Counter(each.k for each in fits).items())
        yield [
            name,
            ", ".join(str(size) for size in sets[name][0][0].shape),
            noise_type,
            ", ".join(f"{k}: {times}" for k, times in numbers),
            f"{min(each.bic for each in fits):.1f} to {max(each.bic for each in fits):.1f}",
            f"{sum(gap > ABOVE for gap in above)} of {len(fits)}",
            max(0.0, *above),
            f"{sum(each.consistent for each in fits)} of {len(fits)}",
            f"{sum(agree)} of {len(fits)}",
            f"{sum(said)} of {len(fits)}",
        ]
