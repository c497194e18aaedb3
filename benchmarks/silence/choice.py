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
from pathlib import Path
from typing import Any

import numpy as np

import implicitmoments as im
from real_fits import export_from_r
from silence.rates import Run, print_table

Floats = np.ndarray[Any, np.dtype[np.float64]]
ABOVE = 0.5  # of BIC: EM ends where a step gains less than 1e-7 per row
SAYS_SO = {"noise_at_floor", "searches_disagree", "rows_limit_lines"}
SEEDS_PER_SET = 3  # of a set that is drawn
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

    def fit(self, k: int | str) -> im.RegressionMixture:
        """Fit k lines, or choose their number."""
        model = im.RegressionMixture(k, noise_type=self.noise_type, random_state=self.seed)
        return model.fit(self.X, self.y)


@dataclass(frozen=True)
class Choice:
    """What was chosen, and what direct fits say."""

    k: int
    bic: float
    least: float  # BIC of direct fits with the same seed
    consistent: bool  # bic() is the least of the table, and the value that stands there
    noted: bool


def choose(case: Case) -> Choice:
    """Choose a number, and fit it, its neighbours and the smallest ones directly."""
    auto = case.fit("auto")
    k, criterion = int(auto.n_components_), float(auto.bic(case.X, case.y))
    table = auto.stats_["bic_by_n_components"]
    # a number above the largest of the table is not allowed with so few rows
    wanted = {n for n in (1, 2, 3, k - 1, k, k + 1) if 1 <= n <= max(table)}
    direct = [float(case.fit(n).bic(case.X, case.y)) for n in sorted(wanted)]
    same = abs(table[k] - criterion) < ABOVE and min(table, key=table.get) == k
    return Choice(k, criterion, min(direct), same, not SAYS_SO.isdisjoint(auto.notes_.codes))


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


def choice(run: Run) -> None:
    """Print what was chosen by each seed, and how often a direct fit has a lower criterion."""
    heads = ["rows, columns", "noise", "lines: fits", "BIC", "above a direct fit", "by at most"]
    heads += ["table and bic() agree", "seeds agree", "or a note"]
    sets = real_sets()
    print(f"Real sets, {len(run.seeds)} seeds\n")
    print_table(["set", *heads], _rows(run, {name: [data] for name, data in sets.items()}))
    print(f"\nDrawn sets, {len(run.seeds)} of each, {SEEDS_PER_SET} seeds\n")
    drawn = {kind: [draw(kind, seed) for seed in run.seeds] for kind in DRAWN}
    print_table(["set", *heads], _rows(run, drawn))


def _rows(run: Run, sets: dict[str, list[tuple[Floats, Floats]]]) -> Iterator[list[object]]:
    for name, data in sets.items():
        seeds = run.seeds if len(data) == 1 else range(SEEDS_PER_SET)
        for noise_type in ("shared", "separate"):
            cases = [Case(X, y, noise_type, seed) for X, y in data for seed in seeds]
            made = run.map(choose, cases)
            n, d = data[0][0].shape
            numbers = Counter(each.k for each in made)
            above = [each.bic - each.least for each in made]
            by_set = [made[i : i + len(seeds)] for i in range(0, len(made), len(seeds))]
            # seeds that chose the number that most of them did
            agree = [[each.k == _usual(fits) for each in fits] for fits in by_set]
            said = [[each.noted for each in fits] for fits in by_set]
            yield [
                name,
                f"{n}, {d}",
                noise_type,
                ", ".join(f"{k}: {times}" for k, times in sorted(numbers.items())),
                f"{min(e.bic for e in made):.1f} to {max(e.bic for e in made):.1f}",
                f"{sum(gap > ABOVE for gap in above)} of {len(made)}",
                max(0.0, *above),
                f"{sum(each.consistent for each in made)} of {len(made)}",
                f"{np.sum(agree)} of {len(made)}",
                f"{np.sum(np.array(agree) | np.array(said))} of {len(made)}",
            ]


def _usual(fits: list[Choice]) -> int:
    return Counter(each.k for each in fits).most_common(1)[0][0]
